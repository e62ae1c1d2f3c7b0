"""``sign``: put a signature beside the file of a certificate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dplateau.certificate.beside import check_beside
from dplateau.certificate.read import certificate_file, certificate_in
from dplateau.certificate.signature import Signature
from dplateau.certificate.signed import signature_path
from dplateau.certificate.verification import verify
from dplateau.files import check_file, read_whole, write_file
from dplateau.spec import ContradictionError, InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def sign(path: str | Path, key: Ed25519PrivateKey) -> Signature:
    """Sign a certificate file: its bytes, and the time by this machine's clock.

    The signature lies in a file of its own, ``certificate.sig.json`` beside ``certificate.json``, whole or not at all. The
    certificate is verified first.

    Parameters
    ----------
    path : str or Path
        The file, or the folder of a model with its certificate.
    key : Ed25519PrivateKey
        What ``signing_key`` returns.

    Raises
    ------
    InputError
        It cannot be read, is not a certificate, or has a signature already; or the signature cannot be written.
    ContradictionError
        It contradicts itself, the model that lies beside it, or what follows from its run.
    UncertifiedError
        Its run has no finite proved epsilon at all.
    """
    path = certificate_file(path)
    beside = signature_path(path)
    if os.path.lexists(beside):
        raise InputError(f"{beside} exists already: remove it first if the certificate is to be signed again.")
    content = read_whole(path)
    certificate = certificate_in(path, content)
    check_beside(certificate, path)
    check_file(beside)
    if not verify(certificate).agrees:
        raise ContradictionError(
            f"{path} differs from what follows from its run, so it is not signed: 'dplateau account --run' says where."
        )
    signature = Signature.of(content, key)
    write_file(beside, signature.to_json())
    return signature
