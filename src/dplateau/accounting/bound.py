"""How far a bound may be trusted, as part of its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dplateau.accounting.composition import Guarantee


@dataclass(frozen=True)
class Bound:
    """A privacy statement about one run, made by one analysis. Only its subclasses are used: they say how far it may be trusted.

    Attributes
    ----------
    name : str
        The analysis.
    source : str
        Paper, theorem, version.
    guarantee : Guarantee
        The statement.
    """

    name: str
    source: str
    guarantee: Guarantee
    certifies: ClassVar[bool] = False

    @property
    def status(self) -> str:
        """The name of the type."""
        return type(self).__name__


@dataclass(frozen=True)
class Proved(Bound):
    """There is a complete proof in ``docs/proofs/``, and the numerics are enclosed. Only this may certify a release."""

    certifies: ClassVar[bool] = True


@dataclass(frozen=True)
class Conjectured(Bound):
    """Believed and never refuted, but its proof has a gap."""


@dataclass(frozen=True)
class Asymptotic(Bound):
    """A limit or an approximation; the truth may be larger."""


@dataclass(frozen=True)
class Refuted(Bound):
    """As printed in a paper, with a counterexample that the tests recompute."""


@dataclass(frozen=True)
class NotApplicable:
    """An analysis says nothing about a run, and why: which assumption is missing and how to meet it."""

    name: str
    source: str
    status: str
    why_not: str
