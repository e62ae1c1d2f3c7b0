"""What a composition is made of: laws that are repeated, and families of laws that differ from step to step (``family.py``)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting.gaussian import SLACK, ULP, Array
from dplateau.accounting.nodes import Nodes
from dplateau.accounting.privacy_loss import StepLaw, TooSlowError

_ROOM: Final = 1e-9
_WORK: Final = 12_000_000
"""Greatest number of points times frequencies of one law; beyond it the lattice is the better method."""
_TINY: Final = 1e-300
_FEW: Final = 24
"""Up to this many frequencies are evaluated one by one."""
_PRODUCT: Final = 8_000
_LARGE: Final = 600.0
_PIECES: Final = 64
"""Most laws whose overflowing moments are looked at one by one."""

Cumulants = Callable[[Array], Array]
"""K, K' and K'' at each c, shape (3, *c.shape)."""


def excess(law: StepLaw, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
    """``m(c + i at) - 1`` at equally spaced frequencies from 0 on, and a bound on its error (rounding and quadrature)."""
    nodes = law.nodes(c, float(at[-1]), log_tolerance)
    if nodes.g.size * at.size > _WORK:
        raise TooSlowError
    value, rounding = nodes.excess(c, at) if at.size <= _FEW else _equally_spaced(nodes, c, at)
    return value, rounding + nodes.error * (1 + float(value[0].real))


def logarithm(excess: Array) -> tuple[Array, Array]:
    """``log(1 + excess)`` of complex numbers, and a bound on its rounding.

    NumPy rounds ``1 + excess`` first, which is 1e-16 however small the excess is, and many steps multiply that.
    """
    x, y, size = np.real(excess), np.imag(excess), np.abs(excess)
    near = np.log1p(np.maximum(x * (2 + x) + y * y, -0.9)) / 2
    value = np.where(size < 0.5, near, np.log(np.hypot(1 + x, y))) + 1j * np.arctan2(y, 1 + x)
    return value, ULP * (10 * np.minimum(size, 1.0) + 2 * np.abs(value))


def _equally_spaced(nodes: Nodes, c: float, at: Array) -> tuple[Array, Array]:
    """``nodes.excess`` with fewer exponentials: with u = e^(i a L) - 1 and v = e^(i b L) - 1, e^(i (a + b) L) - 1 = u v + u + v."""
    short = math.isqrt(at.size - 1) + 1
    first, rounding = nodes.excess(c, at[:1])
    tilted = np.exp(nodes.log_p + c * nodes.loss)

    def turned(omega: Array) -> Array:
        half = np.multiply.outer(omega / 2, nodes.loss)
        sine, value = np.sin(half), np.empty(half.shape, complex)
        value.real, value.imag = -2 * sine * sine, 2 * sine * np.cos(half)
        return value

    value = np.zeros((-(-at.size // short), short), complex)
    # Small products: beyond some size a linear algebra library starts threads, which costs more than the product.
    count = min(1 + tilted.size * short**2 // _PRODUCT, tilted.size)
    factors = turned(at[::short]) * tilted, turned(at[:short]), tilted
    for u, v, weight in zip(*(np.array_split(factor, count, axis=-1) for factor in factors), strict=True):
        value += u @ v.T + u.sum(axis=1)[:, None] + v @ weight
    # Each factor is good to a few roundings of a |L|, and a sum of J terms to J/2 of the sum of the sizes, |u v| + |u| + |v|.
    scale = 3 * (6 + np.abs(nodes.log_p) + np.abs(c * nodes.loss)) + 16 + 1.5 * (-(-tilted.size // count) + count)
    return first + value.ravel()[: at.size], rounding + ULP * at * ((scale * tilted) @ np.abs(nodes.loss))


def cumulants(laws: Sequence[StepLaw], weights: Array, reach: float) -> Cumulants:
    """The weighted sum of the laws' K, K' and K'' at any c up to ``reach``."""
    nodes = [law.nodes(reach, 0.0, math.log(1e-14)) for law in laws]
    starts = np.cumsum([0, *(one.g.size for one in nodes)])[:-1]
    loss, log_p = np.concatenate([one.loss for one in nodes]), np.concatenate([one.log_p for one in nodes])
    p, powers = np.exp(log_p), np.stack([np.ones_like(loss), loss, loss**2])
    least = np.add.reduceat(p * powers, starts, axis=1)
    least[0] = 0.0

    def at(c: Array) -> Array:
        x = np.multiply.outer(c, loss)
        grown = p * np.expm1(x) if np.abs(x).max() < _LARGE else np.exp(log_p + x) - p
        if starts.size == 1:
            m, first, second = (powers @ grown.T)[:, None] + least[..., None]
        else:
            m, first, second = np.add.reduceat(grown * powers[:, None], starts, axis=2).transpose(0, 2, 1) + least[..., None]
        slope = first / (1 + m)
        return weights @ np.array([np.log1p(m), slope, second / (1 + m) - slope**2])

    return at


class Term(ABC):
    """Some of the steps of a composition, in one direction."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of steps."""

    @property
    @abstractmethod
    def greatest(self) -> float:
        """The supremum of their total loss."""

    @property
    @abstractmethod
    def unsampled(self) -> float:
        """The sum of the squared mu of Gaussian steps that these are never worse than."""

    @property
    @abstractmethod
    def repeated(self) -> list[Repeated]:
        """The same steps, law by law."""

    @property
    def on_points(self) -> bool:
        """Whether the law has no contour; those of families have one."""
        return False

    @abstractmethod
    def variation(self) -> float:
        """A bound on the sum of their total variations."""

    @abstractmethod
    def cumulants(self, reach: float) -> Cumulants:
        """K, K' and K'' of their total loss at any c up to ``reach``, well enough for a search."""

    @abstractmethod
    def log_tail(self, c: float, omega: float) -> float:
        """A bound on ``log |M(c + i w) / M(c)|`` for every ``w >= omega``."""

    @abstractmethod
    def log_transform(self, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
        """``log M(c + i at)``, and a bound on the error of its real part and phase, both of shape ``at.shape``.

        ``at`` holds equally spaced frequencies, the first of them 0.
        """

    def bound(self, c: float, log_tolerance: float) -> float:
        """``log M(c)``, rounded up by about the tolerance, and by more where M(c) overflows and the laws are many."""
        with suppress(TooSlowError):
            value, error = self.log_transform(c, np.zeros(1), log_tolerance)
            found = float(value[0].real) + float(error[0])
            if found < self.steps * _LARGE:
                return found
        return sum(part.overflowing(c, log_tolerance) for part in worst(self.repeated))

    def far_bound(self, c: float, log_tolerance: float) -> float:
        """``bound`` by other means, where it says nothing; infinite where there are none."""
        return math.inf


@dataclass(frozen=True)
class Repeated(Term):
    """One law, ``count`` times."""

    law: StepLaw
    count: int
    rounded: ClassVar[bool] = False
    """Whether the law is only near what is composed: for searches, and where nothing better is known."""

    @property
    def steps(self) -> int:
        return self.count

    @property
    def greatest(self) -> float:
        return self.count * self.law.greatest

    @property
    def unsampled(self) -> float:
        return self.count * self.law.unsampled**2

    @property
    def repeated(self) -> list[Repeated]:
        return [self]

    @property
    def on_points(self) -> bool:
        return self.law.on_points

    def variation(self) -> float:
        return self.count * sum(self.law.closed(0.0))

    def bound(self, c: float, log_tolerance: float) -> float:
        known = self.law.log_moment(c)
        return super().bound(c, log_tolerance) if known is None else self.count * known

    def overflowing(self, c: float, log_tolerance: float) -> float:
        """``log M(c)``, rounded up, where M(c) overflows."""
        return self.count * self.law.log_overflowing(c, log_tolerance - math.log(self.count))

    def cumulants(self, reach: float) -> Cumulants:
        return cumulants([self.law], np.array([float(self.count)]), reach)

    def log_tail(self, c: float, omega: float) -> float:
        return self.count * self.law.tail(c, omega)

    def log_transform(self, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
        value, error = excess(self.law, c, at, log_tolerance - math.log(self.count))
        relative = np.minimum(error / np.maximum(np.abs(1 + value), _TINY), 1e6)
        found, rounding = logarithm(value)
        return self.count * found, 1.01 * self.count * (relative + rounding)


def worst(steps: list[Repeated]) -> list[Repeated]:
    """At most ``_PIECES`` laws, each of which dominates its share of the given laws, which are of one kind."""
    if len(steps) <= _PIECES:
        return steps
    order = sorted(steps, key=lambda one: one.law.mu)
    found: list[Repeated] = []
    for part in np.array_split(np.arange(len(order)), _PIECES):
        some = [order[i] for i in part]
        law = type(some[0].law)(max(one.law.q for one in some), max(one.law.mu for one in some), max(one.law.shift for one in some))
        found.append(Repeated(law, sum(one.count for one in some)))
    return found


@dataclass(frozen=True)
class Composition:
    """Independent steps: terms, and one Gaussian step that gathers all exact Gaussian steps."""

    terms: tuple[Term, ...]
    gaussian: float = 0.0

    @property
    def steps(self) -> int:
        """Number of steps with a law of their own."""
        return sum(term.steps for term in self.terms)

    @property
    def alone(self) -> Repeated | None:
        """The term, where there is one step in all."""
        term = self.terms[0] if self.steps == 1 and not self.gaussian else None
        return term if isinstance(term, Repeated) else None

    @property
    def greatest(self) -> float:
        """The supremum of the total loss."""
        return math.inf if self.gaussian else math.fsum(term.greatest for term in self.terms) * (1 + 4 * ULP)

    @property
    def unsampled(self) -> float:
        """mu of the composition without sampling, which is never better."""
        return math.sqrt(self.gaussian**2 + sum(term.unsampled for term in self.terms))

    @property
    def on_points(self) -> bool:
        """Whether a law has no contour."""
        return any(term.on_points for term in self.terms)

    def variation(self) -> float:
        """A bound on the sum of the total variations of these steps, rounded up: no two runs can be told apart by more."""
        return sum(term.variation() for term in self.terms) * (1 + SLACK)

    @property
    def laws(self) -> list[tuple[StepLaw, int]]:
        """Every law, and how often it occurs."""
        return [(one.law, one.count) for term in self.terms for one in term.repeated]

    @property
    def rate(self) -> float:
        """The largest rate."""
        return max((law.q for law, _ in self.laws), default=1.0)

    def bound(self, c: float, tolerance: float = 1e-10, *, far: bool = False) -> float:
        """K(c), rounded up by about ``tolerance``; infinite where it cannot be computed, by slower means too if ``far``."""
        total = self.gaussian**2 / 2 * c * (c + 1)
        with np.errstate(all="ignore"):
            for term in self.terms:
                known = math.inf
                for method in (term.bound, term.far_bound)[: 1 + far]:
                    if not math.isfinite(known):
                        with suppress(ArithmeticError, ValueError):
                            known = method(c, math.log(tolerance))
                total += known
        return total * (1 + 1e-12) if 0 <= total < math.inf else math.inf


def renyi_divergence(composition: Composition, order: float) -> float:
    """The Renyi divergence of the composition at ``order`` > 1, rounded up; infinite where it cannot be computed."""
    return composition.bound(order - 1, far=True) / (order - 1) * (1 + _ROOM)
