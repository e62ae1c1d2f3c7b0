"""Certificates of format 1: they are read and verified for ever, and written no more.

Their assumptions are sentences and their generator is a text. What they claim of a generator is believed only of algorithms that
are known to be cryptographic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dplateau.certificate.parts import keys, list_of, text_of, truth
from dplateau.spec import By, ContradictionError, Generator, How, Key
from dplateau.spec.facts import CRYPTOGRAPHIC, KEYS, member

FACTS: Final = frozenset({"assumptions", "generator", "insecure_seed"})
"""Entries that format 2 replaced."""


@dataclass(frozen=True)
class Stated:
    """An assumption as format 1 has it: a sentence, and how it is said to have come to hold."""

    name: str
    statement: str
    how: How
    by: By | None = None
    void: str | None = None

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {"name": self.name, "statement": self.statement, "how": self.how.value}


def facts_from(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a ``Certificate`` that come from these entries."""
    generator = _generator(text_of("generator", data["generator"]))
    if truth("insecure_seed", data["insecure_seed"]) == generator.secure:
        raise ContradictionError("the certificate contradicts itself: its generator gives another insecure_seed.")
    return {
        "training": None,
        "assumptions": tuple(_assumption(entry) for entry in list_of("assumptions", data["assumptions"])),
        "generator": generator,
        "estimator": None,
        "weights_sha256": None,
        "schema_sha256": None,
    }


def _generator(text: str) -> Generator:
    """The generator of a text; one with an unknown ending is taken for one with a fixed seed, as it always was."""
    endings = ((one, f", {words}") for one, words in KEYS.items())
    key, ending = next((pair for pair in endings if text.endswith(pair[1])), (Key.FIXED_SEED, ""))
    algorithm = text.removesuffix(ending)
    if key is Key.OPERATING_SYSTEM and algorithm not in CRYPTOGRAPHIC:
        raise ContradictionError(
            "the certificate contradicts itself: its generator is not known to be cryptographic, and no key makes its noise secret."
        )
    return Generator(algorithm, key)


def _assumption(entry: object) -> Stated:
    found = keys("an assumption", entry, {"name", "statement", "how"})
    return Stated(
        text_of("assumptions: name", found["name"]),
        text_of("assumptions: statement", found["statement"]),
        member("assumptions: how", How, found["how"]),
    )
