"""Facts of a training that a certificate records: who saw to what, where the noise came from, what kind of training it was."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from dplateau.spec.errors import InputError
from dplateau.spec.one_line import is_printable

LONGEST: Final = 1_000
"""Characters that a text may have."""
E = TypeVar("E", bound=StrEnum)


class How(StrEnum):
    """How a condition of a guarantee came to hold."""

    ENFORCED = "enforced"
    """The code made it true."""
    DECLARED = "declared"
    """Somebody vouches for it."""
    DERIVED = "derived"
    """It follows from the others. Only certificates of format 1 have such lines."""


class By(StrEnum):
    """Who saw to it, or vouches for it."""

    DPLATEAU = "dplateau"
    OPACUS = "opacus"
    CALLER = "caller"
    """The person who trained."""


class Key(StrEnum):
    """What a generator's state follows from."""

    OPERATING_SYSTEM = "operating-system"
    FIXED_SEED = "fixed-seed"
    NOT_CRYPTOGRAPHIC = "not-cryptographic"
    """Whatever it was seeded with: its state can be computed from what it gave."""


class Training(StrEnum):
    """What kind of training ran."""

    GRADIENT_STEPS = "gradient-steps"
    """Noisy gradient steps of a generalised linear model, on rows in memory or in a stream."""
    ONLINE = "online"
    """The same, one batch after the other, and nobody knows how many will come."""
    PHASES = "phases"
    """Phased-SGD or Phased-ERM."""
    NETWORK = "network"
    OPACUS = "opacus"
    DECLARED = "declared"
    """It ran elsewhere, and somebody vouches for all of it."""


class Estimator(StrEnum):
    """What the rows of a training were prepared for."""

    CLASSIFIER = "classifier"
    REGRESSOR = "regressor"


class Rounding(StrEnum):
    """What became of the rounding of sums."""

    EXACT = "exact"
    BOUNDED = "bounded"
    IGNORED = "ignored"


ROUNDINGS: Final = {
    Rounding.EXACT: "sums are exact: integers on a public grid",
    Rounding.BOUNDED: "the rounding of every phase was bounded, and counts as a part of what a record can change",
    Rounding.IGNORED: "the rounding of sums is ignored, as if arithmetic were exact",
}


CRYPTOGRAPHIC: Final = ("AES-128-CTR", "AES-256-CTR", "ChaCha20", "getrandom", "HMAC-DRBG", "torchcsprng")
"""Algorithms whose output nobody can tell from random numbers without the key."""
KEYS: Final = {
    Key.OPERATING_SYSTEM: "key from the operating system",
    Key.FIXED_SEED: "insecure fixed seed",
    Key.NOT_CRYPTOGRAPHIC: "not cryptographic",
}
VOID: Final = {
    Key.FIXED_SEED: "the noise came from a fixed seed, and whoever knows the seed can subtract it",
    Key.NOT_CRYPTOGRAPHIC: (
        "the noise came from a generator that is not cryptographic, and whoever computes its state can subtract it"
    ),
}
"""Why noise protects nothing."""


@dataclass(frozen=True)
class Generator:
    """Where noise and batches came from.

    Parameters
    ----------
    algorithm : str
        The algorithm; one of ``CRYPTOGRAPHIC`` if its key came from the operating system.
    key : Key or str
        "operating-system", "fixed-seed" or "not-cryptographic".

    Raises
    ------
    InputError
        There is no such key, or the algorithm is not known to be cryptographic and is said to have a secret key.
    """

    algorithm: str
    key: Key

    def __post_init__(self) -> None:
        plain_text("generator: algorithm", self.algorithm)
        object.__setattr__(self, "key", member("generator: key", Key, self.key))
        if self.secure and self.algorithm not in CRYPTOGRAPHIC:
            raise InputError(
                "generator: the algorithm is not known to be cryptographic, so a key from the operating system does not make its"
                f" noise secret: expected one of {', '.join(CRYPTOGRAPHIC)}, or key {Key.NOT_CRYPTOGRAPHIC.value!r}."
            )

    @property
    def secure(self) -> bool:
        """Whether nobody can compute the noise."""
        return self.key is Key.OPERATING_SYSTEM

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {"algorithm": self.algorithm, "key": self.key.value}

    def __str__(self) -> str:
        return f"{self.algorithm}, {KEYS[self.key]}"


def plain_text(name: str, value: Any) -> str:
    """``value``, if it is a text that can be printed: no line breaks, no control characters, none that are invisible or turn text
    around. The message never quotes it.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} is not text.")
    if not value.strip() or len(value) > LONGEST:
        raise InputError(f"{name} is a text of {len(value):,} characters: expected 1 to {LONGEST:,}, and not only blanks.")
    if not is_printable(value):
        raise InputError(f"{name} has control characters, line breaks or invisible characters: expected text in one line.")
    return value


def member(name: str, kind: type[E], value: Any) -> E:
    """The member of an enumeration that ``value`` is, or names."""
    for one in kind:
        if isinstance(value, str) and value == one.value:
            return one
    raise InputError(f"{name} is none of those that are known: expected one of {', '.join(one.value for one in kind)}.")
