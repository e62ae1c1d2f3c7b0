"""Reading the files of certificates and of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from dplateau.certificate.beside import check_beside
from dplateau.certificate.certificate import Certificate
from dplateau.certificate.fields import is_certificate, run_from_dict
from dplateau.certificate.strict_json import strict_json
from dplateau.spec import InputError, Run, Runs

T = TypeVar("T")
LONGEST: Final = 600
"""Characters of an error about a file."""


def certificate_schema() -> dict[str, Any]:
    """The JSON Schema of certificates, draft 2020-12."""
    return json.loads((Path(__file__).parent / "certificate.schema.json").read_text(encoding="utf-8"))


def read_certificate(path: str | Path) -> Certificate:
    """Read a certificate.

    Parameters
    ----------
    path : str or Path
        The file, or the folder of a model with its certificate.

    Raises
    ------
    InputError
        It cannot be read, or is no certificate.
    ContradictionError
        It contradicts itself, or the model that lies beside it: that has other weights, or another schema.
    """
    path = _file(Path(path))
    certificate = certificate_at(path)
    check_beside(certificate, path)
    return certificate


def certificate_at(path: Path) -> Certificate:
    """The certificate in a file, whatever lies beside it."""
    return _in_file(path, Certificate.from_json, _read_text(path))


def read_run_or_certificate(path: str | Path) -> Run | Runs | Certificate:
    """Read a serialised run, several composed ones, or a certificate, as ``read_certificate`` does."""
    path = _file(Path(path))
    data = _in_file(path, strict_json, _read_text(path))
    return read_certificate(path) if is_certificate(data) else _in_file(path, run_from_dict, data)


def _file(path: Path) -> Path:
    """The certificate in a folder, if it is one of a model."""
    inside = path / "certificate.json"
    return inside if inside.is_file() else path


def _read_text(path: Path) -> str:
    """The text of a file; raises ``InputError`` if it has none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: it is not UTF-8 text.") from None


def _in_file(path: Path, read: Callable[[Any], T], content: object) -> T:
    """``read(content)``, with the path in front of what is wrong."""
    try:
        return read(content)
    except InputError as error:
        raise type(error)(f"{path}: {str(error)[:LONGEST]}") from None
