"""Reading certificates: what is read is what this library would write, or it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from dplateau._account import Row
from dplateau.accounting import Enclosure
from dplateau.report import format_1
from dplateau.report.beside import check_beside
from dplateau.report.certificate import FORMAT, KIND, Certificate, checked_arithmetic
from dplateau.report.parts import digest_of, enclosure_of, keys, list_of, number, object_of, text_of
from dplateau.report.strict_json import same, strict_json
from dplateau.spec import ContradictionError, Estimator, Generator, InputError, Run, Runs, Training
from dplateau.spec.assumption import assumption_from_dict
from dplateau.spec.facts import Key, member

BOTH: Final = frozenset(
    {
        *("kind", "format", "certified", "statement", "epsilon", "delta", "enclosure", "bound", "status", "source", "mu", "curve"),
        *("bounds", "adjacency", "sampling", "released", "arithmetic", "versions", "run", "run_digest"),
    }
)
FACTS: Final = frozenset({"training", "assumptions", "generator", "model"})
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
    return _in_file(path, certificate_from_json, _read_text(path))


def read_run_or_certificate(path: str | Path) -> Run | Runs | Certificate:
    """Read a serialised run, several composed ones, or a certificate, as ``read_certificate`` does."""
    path = _file(Path(path))
    data = _in_file(path, strict_json, _read_text(path))
    if _is_certificate(data):
        certificate = _in_file(path, certificate_from_dict, data)
        check_beside(certificate, path)
        return certificate
    return _in_file(path, run_from_dict, data)


def run_from_dict(data: object) -> Run | Runs:
    """The run, or the several composed ones, that ``to_dict`` wrote; raises ``InputError`` on anything else."""
    return Runs.from_dict(data) if isinstance(data, dict) and "runs" in data else Run.from_dict(data)


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


def _is_certificate(data: object) -> bool:
    """Whether a JSON value says that it is a certificate."""
    return isinstance(data, dict) and data.get("kind") == KIND


def certificate_from_json(text: str) -> Certificate:
    """See ``Certificate.from_json``."""
    return certificate_from_dict(strict_json(text))


def certificate_from_dict(data: object) -> Certificate:
    """The certificate that ``Certificate.to_dict`` wrote; raises ``InputError`` on anything else."""
    if not isinstance(data, dict) or not _is_certificate(data):
        raise InputError(f'this is no certificate: expected a JSON object with "kind": "{KIND}".')
    version = data.get("format")
    if isinstance(version, bool) or version not in (1, FORMAT):
        raise InputError(f"the certificate has another format than this version reads: expected 1 or {FORMAT}.")
    rounded = version == FORMAT
    keys("the certificate", data, BOTH | (FACTS if rounded else format_1.FACTS))
    facts = _facts(data) if rounded else format_1.facts_from(data)
    versions = object_of("versions", data["versions"])
    certificate = Certificate(
        epsilon=number("epsilon", data["epsilon"], rounded=rounded),
        delta=_delta("delta", data["delta"]),
        enclosure=enclosure_of("enclosure", data["enclosure"], rounded=rounded),
        bound=text_of("bound", data["bound"]),
        status=text_of("status", data["status"]),
        source=text_of("source", data["source"]),
        mu=None if data["mu"] is None else number("mu", data["mu"], rounded=rounded),
        curve=tuple(_point(entry, rounded) for entry in list_of("curve", data["curve"])),
        bounds=tuple(_row(entry, rounded) for entry in list_of("bounds", data["bounds"])),
        arithmetic=checked_arithmetic(text_of("arithmetic", data["arithmetic"])),
        versions=tuple((key, text_of("versions", value)) for key, value in versions.items()),
        run=run_from_dict(data["run"]),
        run_digest=digest_of("run_digest", data["run_digest"]),
        format=int(version),
        **facts,
    )
    repeated = certificate.to_dict()
    kept = data if rounded else data.keys() - {"generator"}  # In format 1 any text may stand there.
    if wrong := sorted(key for key in kept if not same(data[key], repeated[key])):
        raise ContradictionError(
            f"the certificate contradicts itself: its other entries give another {' and another '.join(wrong)}."
        )
    _check_claim(certificate)
    return certificate


def _facts(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a certificate that say how it was trained."""
    generator = keys("generator", data["generator"], {"algorithm", "key"})
    model = keys("model", data["model"], {"estimator", "weights_sha256", "schema_sha256"})
    digests = {key: model[key] and digest_of(f"model: {key}", model[key]) for key in ("weights_sha256", "schema_sha256")}
    return {
        "training": member("training", Training, data["training"]),
        "assumptions": tuple(map(assumption_from_dict, list_of("assumptions", data["assumptions"]))),
        "generator": Generator(
            text_of("generator: algorithm", generator["algorithm"]), member("generator: key", Key, generator["key"])
        ),
        "estimator": None if model["estimator"] is None else member("model: estimator", Estimator, model["estimator"]),
        **digests,
    }


def _check_claim(certificate: Certificate) -> None:
    """Raise ``ContradictionError`` where facts are missing or cannot be, or the claim is not that of its own curve and bound."""
    c = certificate
    if c.problems:
        raise ContradictionError(f"the certificate's assumptions are not those of such a training: {'; '.join(c.problems)}.")
    point = c.enclosure if c.format == 1 else dict(c.curve).get(c.delta)  # In format 1 that may come from another bound.
    if c.epsilon != c.enclosure.upper or point != c.enclosure:
        raise ContradictionError("the certificate contradicts itself: epsilon, enclosure and the curve at delta must be one.")
    if not any((row.name, row.status, row.source, row.epsilon) == (c.bound, c.status, c.source, c.enclosure) for row in c.bounds):
        raise ContradictionError("the certificate contradicts itself: its bound is none of its bounds.")


def _delta(what: str, value: object) -> float:
    delta = number(what, value, rounded=False, high=1.0)
    if not 0 < delta < 1:
        raise InputError(f"{what} is {delta:g}: expected a number > 0 and < 1.")
    return delta


def _point(entry: object, rounded: bool) -> tuple[float, Enclosure]:
    point = keys("a point of the curve", entry, {"delta", "epsilon"})
    return _delta("curve: delta", point["delta"]), enclosure_of("curve: epsilon", point["epsilon"], rounded=rounded)


def _row(entry: object, rounded: bool) -> Row:
    row = keys("a bound", entry, {"name", "status", "epsilon", "enclosure", "why_not", "source"})
    name, status, source = (text_of(f"bounds: {key}", row[key]) for key in ("name", "status", "source"))
    if row["epsilon"] is None:
        return Row(name, status, source, None, text_of("bounds: why_not", row["why_not"]), None)
    enclosure = enclosure_of("bounds: enclosure", row["enclosure"], rounded=rounded)
    if enclosure.upper != number("bounds: epsilon", row["epsilon"], rounded=rounded) or row["why_not"] is not None:
        raise ContradictionError(
            "a bound contradicts itself: its epsilon is the upper end of its enclosure, or there is a reason why it has none."
        )
    return Row(name, status, source, enclosure, None, None)
