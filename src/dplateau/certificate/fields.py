"""The fields of a certificate out of JSON, of format 1 to 3: each is checked, or the file is refused."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from dplateau._account import Row
from dplateau.accounting import Enclosure
from dplateau.certificate import format_1
from dplateau.certificate.label import Label
from dplateau.certificate.parts import arithmetic_of, digest_of, enclosure_of, keys, list_of, number, object_of, text_of
from dplateau.spec import ContradictionError, Estimator, Generator, InputError, Training
from dplateau.spec.assumption import assumption_from_dict
from dplateau.spec.facts import Key, member
from dplateau.spec.selection import run_from_dict

KIND: Final = "dplateau certificate"
FORMAT: Final = 2
LABELLED: Final = 3
"""That of a certificate with a label."""
BOTH: Final = frozenset(
    {
        *("kind", "format", "certified", "statement", "epsilon", "delta", "enclosure", "bound", "status", "source", "mu", "curve"),
        *("bounds", "adjacency", "sampling", "released", "arithmetic", "versions", "run", "run_digest"),
    }
)
FACTS: Final = frozenset({"training", "assumptions", "generator", "model"})


def is_certificate(data: object) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value says that it is a certificate."""
    return isinstance(data, dict) and data.get("kind") == KIND


def fields_of(data: object) -> dict[str, Any]:
    """The fields of the ``Certificate`` that wrote this JSON value; raises ``InputError`` where it is none."""
    if not is_certificate(data):
        raise InputError(f'this is not a certificate: expected a JSON object with "kind": "{KIND}".')
    version = data.get("format")
    if isinstance(version, bool) or version not in (1, FORMAT, LABELLED):
        raise InputError(f"the certificate has another format than this version reads: expected 1, {FORMAT} or {LABELLED}.")
    rounded, labelled = version != 1, version == LABELLED
    keys("the certificate", data, BOTH | (FACTS if rounded else format_1.FACTS) | ({"label"} if labelled else set()))
    facts = _facts(data) if rounded else format_1.facts_from(data)
    versions = object_of("versions", data["versions"])
    return facts | {
        "epsilon": number("epsilon", data["epsilon"], rounded=rounded),
        "delta": _delta("delta", data["delta"]),
        "enclosure": enclosure_of("enclosure", data["enclosure"], rounded=rounded),
        "bound": text_of("bound", data["bound"]),
        "status": text_of("status", data["status"]),
        "source": text_of("source", data["source"]),
        "mu": None if data["mu"] is None else number("mu", data["mu"], rounded=rounded),
        "curve": tuple(_point(entry, rounded) for entry in list_of("curve", data["curve"])),
        "bounds": tuple(_row(entry, rounded) for entry in list_of("bounds", data["bounds"])),
        "arithmetic": arithmetic_of(data["arithmetic"]),
        "versions": tuple((key, text_of("versions", value)) for key, value in versions.items()),
        "run": run_from_dict(data["run"]),
        "run_digest": digest_of("run_digest", data["run_digest"]),
        "format": int(version),
        "label": Label.from_dict(data["label"]) if labelled else None,
    }


def _facts(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a certificate that say how it was trained."""
    generator = keys("generator", data["generator"], {"algorithm", "key"})
    model = keys("model", data["model"], {"estimator", "weights_sha256", "schema_sha256"})
    digests = {
        key: None if model[key] is None else digest_of(f"model: {key}", model[key]) for key in ("weights_sha256", "schema_sha256")
    }
    return {
        "training": member("training", Training, data["training"]),
        "assumptions": tuple(map(assumption_from_dict, list_of("assumptions", data["assumptions"]))),
        "generator": Generator(
            text_of("generator: algorithm", generator["algorithm"]), member("generator: key", Key, generator["key"])
        ),
        "estimator": None if model["estimator"] is None else member("model: estimator", Estimator, model["estimator"]),
        **digests,
    }


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
