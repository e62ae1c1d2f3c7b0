"""Reading the files of certificates and of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from dplateau.certificate.beside import ABOUT, TEST, WEIGHTS, check_beside
from dplateau.certificate.certificate import Certificate
from dplateau.certificate.fields import is_certificate
from dplateau.certificate.keys import named_keys
from dplateau.certificate.parts import LONGEST, utf8
from dplateau.certificate.signed import Signed, who_signed
from dplateau.files import as_path, read_whole
from dplateau.spec import ContradictionError, InputError, Run, Runs
from dplateau.spec.selection import run_from_dict
from dplateau.spec.strict_json import strict_json

T = TypeVar("T")


def certificate_schema() -> dict[str, Any]:
    """The JSON Schema of certificates, draft 2020-12."""
    return json.loads((Path(__file__).parent / "certificate.schema.json").read_text(encoding="utf-8"))


def read_certificate(path: str | Path, *, signed_by: str | Iterable[str] | None = None) -> Certificate:
    """Read a certificate.

    Parameters
    ----------
    path : str or Path
        The file, or the folder of a model with its certificate.
    signed_by : str or iterable of str, optional
        Names of known keys, or their fingerprints: one of them must have signed it.

    Raises
    ------
    InputError
        It cannot be read, or is not a certificate; or ``signed_by`` names no known key.
    ContradictionError
        It contradicts itself, the signature that lies beside it, or the model: that has other weights, or another schema. Or
        none of ``signed_by`` has signed it.
    """
    return read_agreed(path, signed_by)[0]


def read_agreed(
    path: str | Path, signed_by: str | Iterable[str] | None = None, content: bytes | None = None
) -> tuple[Certificate, Signed]:
    """What ``read_certificate`` returns, and who has signed it; of its content, if that was read already."""
    path = certificate_file(path)
    wanted = None if signed_by is None else named_keys(signed_by)
    certificate, signed = read_signed(path, content)
    signed.check(path, wanted)
    return certificate, signed


def read_signed(path: str | Path, content: bytes | None = None) -> tuple[Certificate, Signed]:
    """Read a certificate as ``read_certificate`` does, and say who has signed it.

    A signature that does not match is not an error here: ``Signed.matches`` tells.

    Parameters
    ----------
    path : str or Path
        The file, or the folder of a model with its certificate.
    content : bytes, optional
        What was read of the file already, where more is said of these bytes.
    """
    path = certificate_file(path)
    found = certificate_at(path, content)
    check_beside(found[0], path)
    return found


def certificate_at(path: Path, content: bytes | None = None) -> tuple[Certificate, Signed]:
    """The certificate in a file, and who has signed these very bytes; of its content, if that was read already."""
    content = read_whole(path) if content is None else content
    return certificate_in(path, content), who_signed(path, content)


def certificate_in(path: Path, content: bytes) -> Certificate:
    """The certificate that these bytes of a file are."""
    return _in_file(path, Certificate.from_json, utf8(path, content))


def read_run_or_certificate(path: str | Path, *, signed_by: Iterable[str] | None = None) -> Run | Runs | tuple[Certificate, Signed]:
    """Read a serialised run, several composed ones, or a certificate, as ``read_agreed`` does; ``signed_by`` allows no run."""
    path = certificate_file(path)
    content = read_whole(path)  # once: a pipe has nothing more
    data = _in_file(path, strict_json, utf8(path, content))
    if is_certificate(data):
        return read_agreed(path, signed_by, content)
    if signed_by is not None:
        raise InputError(f"{path} is not a certificate, and a signature is demanded: only certificates are signed.")
    return _in_file(path, run_from_dict, data)


def certificate_file(path: str | Path) -> Path:
    """The certificate in a folder, if it is one of a model.

    Raises
    ------
    InputError
        The folder has no certificate.
    ContradictionError
        A part of the model is missing in the folder, so that nobody can tell whether the certificate is about the other.
    """
    path = as_path(path, "certificate")
    if not path.is_dir():
        return path
    inside = path / "certificate.json"
    if not inside.is_file():
        raise InputError(f"{path} is a folder without certificate.json: expected a model's folder, or a certificate.")
    about = TEST if (path / TEST).is_file() and not (path / ABOUT).is_file() else ABOUT
    there = [name for name in (about, WEIGHTS) if (path / name).is_file()]
    if len(there) == 1:
        gone = about if there == [WEIGHTS] else WEIGHTS
        raise ContradictionError(
            f"{path} has no {gone} beside {there[0]}: nobody can tell whether the certificate is"
            f" about this model. Ask for the folder as train wrote it; {inside} is the certificate alone."
        )
    return inside


def _in_file(path: Path, read: Callable[[Any], T], content: object) -> T:
    """``read(content)``, with the path in front of what is wrong."""
    try:
        return read(content)
    except InputError as error:
        changed = " It may have been changed after it was written: get it anew where it comes from."
        hint = changed if isinstance(error, ContradictionError) else ""
        raise type(error)(f"{path}: {str(error)[:LONGEST]}{hint}") from None
