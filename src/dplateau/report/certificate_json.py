"""Reading certificates: nothing is believed before its type and range are checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dplateau.account import Row
from dplateau.accounting import Enclosure
from dplateau.report.certificate import FORMAT, KIND, Certificate
from dplateau.spec import Assumption, InputError, Run, Runs
from dplateau.spec.schedule import real

TOP = frozenset(
    {
        *("kind", "format", "certified", "statement", "epsilon", "delta", "enclosure", "bound", "status", "source", "mu", "curve"),
        *("bounds", "adjacency", "sampling", "released", "assumptions", "generator", "insecure_seed", "arithmetic", "versions"),
        *("run", "run_digest"),
    }
)
T = TypeVar("T")
CLAIMED = ("certified", "statement", "adjacency", "sampling", "released")
"""Keys that repeat what other keys say, for readers of the file. They must repeat it exactly."""


class ContradictionError(InputError):
    """Entries of a certificate contradict each other, so somebody has changed it."""


def certificate_schema() -> dict[str, Any]:
    """The JSON Schema of certificates, draft 2020-12."""
    return json.loads((Path(__file__).parent / "certificate.schema.json").read_text(encoding="utf-8"))


def read_certificate(path: str | Path) -> Certificate:
    """Read a certificate from a file; raises ``InputError`` if that is not possible."""
    path = Path(path)
    return _in_file(path, certificate_from_json, _read_text(path))


def read_run_or_certificate(path: str | Path) -> Run | Runs | Certificate:
    """Read a serialised run, several composed ones, or a certificate; raises ``InputError`` if that is not possible."""
    path = Path(path)
    data = _in_file(path, _parsed, _read_text(path))
    if _is_certificate(data):
        return _in_file(path, certificate_from_dict, data)
    return _in_file(path, run_from_dict, data)


def run_from_dict(data: object) -> Run | Runs:
    """The run, or the several composed ones, that ``to_dict`` wrote; raises ``InputError`` on anything else."""
    return Runs.from_dict(data) if isinstance(data, dict) and "runs" in data else Run.from_dict(data)


def _read_text(path: Path) -> str:
    """The text of a file; raises ``InputError`` if it has none."""
    if (path / "certificate.json").is_file():
        raise InputError(f"{path} is a folder: name the file in it, {path / 'certificate.json'}.")
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
        raise type(error)(f"{path}: {error}") from None


def _parsed(text: str) -> Any:
    """The JSON value of a text; raises ``InputError`` if it is none, or has numbers that are not finite."""

    def refuse(constant: str) -> None:
        raise InputError(f"{constant} is no number of JSON: expected finite numbers.")

    if not text.strip():
        raise InputError("the file is empty: expected JSON.")
    try:
        return json.loads(text, parse_constant=refuse)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"this is not JSON: {error}.") from None


def _is_certificate(data: object) -> bool:
    """Whether a JSON value says that it is a certificate."""
    return isinstance(data, dict) and data.get("kind") == KIND


def certificate_from_json(text: str) -> Certificate:
    """See ``Certificate.from_json``."""
    return certificate_from_dict(_parsed(text))


def certificate_from_dict(data: object) -> Certificate:
    """The certificate that ``Certificate.to_dict`` wrote; raises ``InputError`` on anything else."""
    if not isinstance(data, dict) or not _is_certificate(data):
        raise InputError(f'this is no certificate: expected a JSON object with "kind": "{KIND}".')
    if data.get("format") != FORMAT:
        raise InputError(f"the certificate has format {data.get('format')!r}: this version reads format {FORMAT}.")
    _keys("the certificate", data, TOP)
    certificate = Certificate(
        epsilon=_number("epsilon", data["epsilon"]),
        delta=real("delta", data["delta"], high=1.0),
        enclosure=_enclosure("enclosure", data["enclosure"]),
        bound=_text("bound", data["bound"]),
        status=_text("status", data["status"]),
        source=_text("source", data["source"]),
        mu=None if data["mu"] is None else _number("mu", data["mu"]),
        curve=tuple(_point(entry) for entry in _list("curve", data["curve"])),
        bounds=tuple(_row(entry) for entry in _list("bounds", data["bounds"])),
        assumptions=tuple(_assumption(entry) for entry in _list("assumptions", data["assumptions"])),
        generator=_text("generator", data["generator"]),
        insecure_seed=_truth("insecure_seed", data["insecure_seed"]),
        arithmetic=_text("arithmetic", data["arithmetic"]),
        versions=tuple((key, _text(f"versions: {key!r}", value)) for key, value in _object("versions", data["versions"]).items()),
        run=run_from_dict(data["run"]),
        run_digest=_text("run_digest", data["run_digest"]),
    )
    repeated = certificate.to_dict()
    if wrong := [key for key in CLAIMED if data[key] != repeated[key]]:
        raise ContradictionError(
            f"the certificate contradicts itself: its other entries give another {' and another '.join(wrong)}."
        )
    return certificate


def _point(entry: object) -> tuple[float, Enclosure]:
    point = _keys("a point of the curve", entry, {"delta", "epsilon"})
    return real("curve: delta", point["delta"], high=1.0), _enclosure("curve: epsilon", point["epsilon"])


def _row(entry: object) -> Row:
    row = _keys("a bound", entry, {"name", "status", "epsilon", "enclosure", "why_not", "source"})
    name, status, source = (_text(f"bounds: {key}", row[key]) for key in ("name", "status", "source"))
    if row["epsilon"] is None:
        return Row(name, status, source, None, _text("bounds: why_not", row["why_not"]), None)
    enclosure = _enclosure("bounds: enclosure", row["enclosure"])
    if enclosure.upper != _number("bounds: epsilon", row["epsilon"]) or row["why_not"] is not None:
        raise ContradictionError(
            f"the bound {name!r} contradicts itself: its epsilon is the upper end of its enclosure, or there is a reason."
        )
    return Row(name, status, source, enclosure, None, None)


def _assumption(entry: object) -> Assumption:
    texts = {
        key: _text(f"assumptions: {key}", value)
        for key, value in _keys("an assumption", entry, {"name", "statement", "how"}).items()
    }
    try:
        return Assumption(**texts)
    except ValueError as error:
        raise InputError(f"assumptions: {error}") from None


def _keys(what: str, value: object, wanted: frozenset[str] | set[str]) -> dict[str, Any]:
    entry = _object(what, value)
    if set(entry) != wanted:
        missing, unknown = sorted(wanted - set(entry)), sorted(set(entry) - wanted)
        wrong = [f"lacks {missing}"] * bool(missing) + [f"has the unknown {unknown}"] * bool(unknown)
        raise InputError(f"{what} {' and '.join(wrong)}: expected exactly {sorted(wanted)}.")
    return entry


def _object(what: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{what} is no JSON object.")
    return value


def _list(what: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{what} is no JSON list.")
    return value


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what} is no text.")
    return value


def _truth(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{what} is neither true nor false.")
    return value


def _number(what: str, value: object) -> float:
    return real(what, value, inclusive=True)


def _enclosure(what: str, value: object) -> Enclosure:
    """A pair; None stands for infinity."""
    ends = _list(what, value)
    if len(ends) != 2:
        raise InputError(f"{what} has {len(ends)} entries: expected [lower, upper].")
    lower, upper = (math.inf if end is None else _number(what, end) for end in ends)
    if lower > upper:
        raise InputError(f"{what} is [{lower:g}, {upper:g}]: expected lower <= upper.")
    return Enclosure(lower, upper)
