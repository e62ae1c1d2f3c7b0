from ..certificate.conftest import certificate, certificates, certify, seeded

__all__ = ["certificate", "certificates", "certify", "seeded"]
