"""A black-box audit: train every solver many times on neighbouring data, and hold what can be told apart to the certificates."""

from dplateau.spec.missing import explained

with explained():
    from dplateau.black_box.audit import GROUPS as GROUPS
    from dplateau.black_box.audit import audit_solvers as audit_solvers
    from dplateau.black_box.case import Case as Case
    from dplateau.black_box.case import Finding as Finding
    from dplateau.black_box.case import examine as examine
    from dplateau.black_box.neighbours import Neighbours as Neighbours
