"""Trade-off functions made of others: sampling, the lesser of two, mixtures.

Each is exact: the conjugate of a minimum is the maximum of the conjugates, that of ``p f + (1 - p) Id`` a rescaled one, and a
mixture whose component is revealed has the mean of the profiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import Array, magnified
from dplateau.accounting.trade_offs.base import TradeOff, operation, probability, rounded_down
from dplateau.accounting.trade_offs.piecewise import Piecewise, corners
from dplateau.accounting.trade_offs.smooth import Smooth
from dplateau.spec import InputError
from dplateau.spec.arguments import of_type, sequence

_NOTHING: Final = 1e-9
"""A member of a maximum that raises it by no more than this is left out."""


@dataclass(frozen=True)
class Subsampled(Smooth):
    """``f_p = p f + (1 - p) Id`` (Bu et al. 2020, Proposition A.1): the null against a mixture with p of the alternative.

    ``delta_p(epsilon) = p delta(log(1 + (e^epsilon - 1)/p))``; of the inverse ``(1 - (1 - p) e^epsilon) delta_inverse(e')`` with
    ``e^e' = p / (e^-epsilon - 1 + p)``, 0 from ``epsilon = -log(1 - p)`` on.

    Parameters
    ----------
    base : TradeOff
        f.
    p : float
        In (0, 1].
    reversed : bool
        The inverse of f_p instead.
    """

    base: TradeOff
    p: float
    reversed: bool = False

    def _inner(self, epsilon: Array) -> Array:
        """The epsilon at which f (or its inverse) is asked."""
        return -magnified(-epsilon, self.p) if self.reversed else magnified(epsilon, self.p)

    def log_delta_above(self, epsilon: Array) -> Array:
        inner = self._inner(epsilon)
        if not self.reversed:
            return math.log(self.p) + self.base.log_delta_above(inner)
        with np.errstate(divide="ignore", over="ignore"):
            kept = np.log(np.maximum(1 - (1 - self.p) * np.exp(np.minimum(epsilon, 700.0)), 0.0))
        finite = np.isfinite(inner)
        return np.where(finite, kept + self.base.inverse.log_delta_above(np.where(finite, inner, 0.0)), -np.inf)

    def log_alpha_above(self, epsilon: Array) -> Array:
        inner = self._inner(epsilon)
        if not self.reversed:
            return self.base.log_alpha_above(inner)
        # The null of the inverse is the mixture: p of the test's type I error, and 1 - p of its power.
        finite = np.isfinite(inner)
        inner = np.where(finite, inner, 0.0)
        back = self.base.inverse
        drawn, absent = math.log(self.p) + back.log_alpha_above(inner), back.log_beta_above(inner)
        if self.p < 1:
            drawn = np.logaddexp(drawn, math.log1p(-self.p) + absent)
        return np.where(finite, drawn, -np.inf)

    @property
    def inverse(self) -> Subsampled:
        """The mixture as null hypothesis."""
        return Subsampled(self.base, self.p, not self.reversed)

    @property
    def certain(self) -> float:
        if self.reversed:
            return 0.0 if self.p < 1 else self.base.inverse.certain
        return self.p * self.base.certain

    @property
    def greatest(self) -> float:
        if self.reversed:
            return -math.log1p(-self.p) if self.p < 1 else self.base.inverse.greatest
        top = self.base.greatest
        return top + math.log(self.p) if top > 700 else math.log1p(self.p * math.expm1(top))


@dataclass(frozen=True)
class Minimum(Smooth):
    """``min{f_1, f_2, ...}**``: the greatest trade-off function below all. What is f_1- or f_2-DP, but not known which."""

    members: tuple[TradeOff, ...]

    def _at(self, epsilon: Array) -> tuple[Array, Array]:
        deltas = np.array([member.log_delta_above(epsilon) for member in self.members])
        largest = np.argmax(deltas, axis=0)
        return np.take_along_axis(deltas, largest[None], axis=0)[0], largest

    def log_delta_above(self, epsilon: Array) -> Array:
        return self._at(np.asarray(epsilon, dtype=float))[0]

    def log_alpha_above(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        alphas = np.array([member.log_alpha_above(epsilon) for member in self.members])
        return np.take_along_axis(alphas, self._at(epsilon)[1][None], axis=0)[0]

    @property
    def inverse(self) -> TradeOff:
        """The minimum of the inverses."""
        return Minimum(tuple(member.inverse for member in self.members))

    @property
    def certain(self) -> float:
        return max(member.certain for member in self.members)

    @property
    def greatest(self) -> float:
        return max(member.greatest for member in self.members)


@dataclass(frozen=True)
class Mixture(Smooth):
    """One of several tests takes place, with known probabilities, and everybody sees which: ``delta`` is the mean of the deltas.

    Parameters
    ----------
    members : tuple of TradeOff
        The components.
    weights : tuple of float
        Their probabilities.
    """

    members: tuple[TradeOff, ...]
    weights: tuple[float, ...]

    def _mean(self, parts: list[Array]) -> Array:
        with np.errstate(divide="ignore"):
            logs = np.array([math.log(w) + part for w, part in zip(self.weights, parts, strict=True)])
            return np.logaddexp.reduce(logs, axis=0)

    def log_delta_above(self, epsilon: Array) -> Array:
        return self._mean([member.log_delta_above(epsilon) for member in self.members])

    def log_alpha_above(self, epsilon: Array) -> Array:
        return self._mean([member.log_alpha_above(epsilon) for member in self.members])

    @property
    def inverse(self) -> TradeOff:
        """The mixture of the inverses."""
        return Mixture(tuple(member.inverse for member in self.members), self.weights)

    @property
    def certain(self) -> float:
        return sum(w * member.certain for w, member in zip(self.weights, self.members, strict=True))

    @property
    def greatest(self) -> float:
        return max(member.greatest for member in self.members)


@operation
def subsampled(f: TradeOff, p: float) -> TradeOff:
    """``f_p``; f itself for p = 1."""
    p = probability("p", p)
    return f if p == 1 else Subsampled(f, p)


@operation
def minimum(*members: TradeOff) -> TradeOff:
    """``min{f_1, f_2, ...}**``."""
    members = _checked(members)
    if not members:
        raise InputError("the minimum of no trade-off function: give at least one.")
    if all(member is members[0] for member in members):
        return members[0]
    lines = [member for member in members if isinstance(member, Piecewise)]
    if len(lines) == len(members):
        alpha, beta = (np.concatenate([getattr(member, name) for member in lines]) for name in ("alpha", "beta"))
        order = np.lexsort((beta, alpha))
        return corners(alpha[order], beta[order])
    return Minimum(members)


@dataclass(frozen=True, eq=False, repr=False)
class Maximum(Piecewise):
    """``max{f_1, f_2, ...}`` of the members' polygons, never above that of the members.

    Attributes
    ----------
    members : tuple of TradeOff
        All of them hold.
    others : tuple of TradeOff
        These hold too; as far as is known they are nowhere larger, but they may be, within their enclosures.
    """

    members: tuple[TradeOff, ...]
    others: tuple[TradeOff, ...] = ()

    @property
    def inverse(self) -> Maximum:
        """The maximum of the inverses."""
        members, others = (tuple(member.inverse for member in some) for some in (self.members, self.others))
        return Maximum(self.beta[::-1], self.alpha[::-1], members, others)

    def enclosure(self, alpha: float) -> Enclosure:
        """The members' maximum, enclosed."""
        lower = rounded_down(float(self(alpha)))
        return Enclosure(lower, max(lower, *(member.enclosure(alpha).upper for member in (*self.members, *self.others))))


def _checked(members: Sequence[TradeOff]) -> tuple[TradeOff, ...]:
    return tuple(of_type("member", one, TradeOff) for one in sequence("members", members))


def maximum(*members: TradeOff) -> Maximum:
    """``max{f_1, f_2, ...}`` of the members' polygons: all of them hold. Never above the true maximum.

    Members that are nowhere larger than the others, but for 1e-9, are left out, but for the upper end of the enclosure.
    """
    members = _checked(members)
    if not members:
        raise InputError("the maximum of no trade-off function: give at least one.")
    kept, left_out, result = members[:1], list[TradeOff](), members[0].polygon()
    for member in members[1:]:
        other = member.polygon()
        alpha = np.union1d(result.alpha, other.alpha)
        first, second = result.values(alpha), other.values(alpha)
        gap = first - second
        if (gap >= -_NOTHING).all():
            left_out.append(member)
            continue
        if (gap <= _NOTHING).all():
            left_out += kept
            kept, result = (member,), other
            continue
        turn = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        crossing = alpha[turn] + np.diff(alpha)[turn] * gap[turn] / (gap[turn] - gap[turn + 1])
        alpha = np.union1d(alpha, crossing)
        kept, result = (*kept, member), corners(alpha, np.maximum(result.values(alpha), other.values(alpha)))
    return Maximum(result.alpha, result.beta, kept, tuple(left_out))


def mixture(members: Sequence[TradeOff], weights: Sequence[float]) -> TradeOff:
    """The mixture whose component is revealed; see ``Mixture``.

    Parameters
    ----------
    members : sequence of TradeOff
        The components.
    weights : sequence of float
        Their probabilities, positive, summing to 1.
    """
    members, weights = _checked(members), sequence("weights", weights)
    if len(members) != len(weights) or not members:
        raise InputError(f"a mixture needs one weight a component, got {len(members)} and {len(weights)}.")
    found = tuple(probability("weight", weight) for weight in weights)
    if abs(sum(found) - 1) > 1e-9:
        raise InputError(f"the weights of a mixture sum to {sum(found):g}: expected 1.")
    return members[0] if len(members) == 1 else Mixture(tuple(members), found)
