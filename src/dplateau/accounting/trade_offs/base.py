"""Trade-off functions, held as their profile.

``f = T(P, Q)`` maps a type I error alpha to the least type II error of a test of P against Q. It is convex, continuous and at most
``1 - alpha``. Its convex conjugate is the privacy profile of (Q, P): for every real epsilon

    ``delta(epsilon) = 1 + f*(-e^epsilon) = sup over events S of Q(S) - e^epsilon P(S)``,

and back again ``f(alpha) = sup over epsilon of 1 - delta(epsilon) - e^epsilon alpha``. A closed form for epsilon >= 0, of f and of
its inverse ``T(Q, P)``, is all that a class has to give: ``delta(-e) = 1 - e^-e + e^-e delta_inverse(e)``.

Source: Dong, Roth, Su, "Gaussian differential privacy" (JRSS B 2022); Bu, Dong, Long, Su 2020, sections 2.1, 2.2, Appendix A.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import Array
from dplateau.accounting.roots import root
from dplateau.spec import InputError
from dplateau.spec.arguments import numbers, of_type, real, sequence
from dplateau.spec.shown import shown

FAR: Final = 600.0
"""The largest |epsilon| that is looked at."""
_ROOM: Final = 1e-11
"""Room for rounding in enclosures of closed forms."""
_LAST_DIGITS: Final = 4e-15
"""The same where corners are joined by lines."""
_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {}
_Operation = TypeVar("_Operation", bound=Callable[..., Any])


def operation(function: _Operation) -> _Operation:
    """Use ``function`` in the methods of every trade-off function. They stand here; what they make is defined on top of it."""
    _OPERATIONS[function.__name__] = function
    return function


class TradeOff(ABC):
    """A trade-off function. ``f(alpha)`` is never above the true value, but for rounding."""

    def __repr__(self) -> str:
        return shown(self)

    @abstractmethod
    def log_delta_above(self, epsilon: Array) -> Array:
        """``log delta(epsilon)``, elementwise, for ``epsilon >= 0``; never below the true value, but for rounding."""

    @abstractmethod
    def log_alpha_above(self, epsilon: Array) -> Array:
        """Log of the type I error of the test ``dQ/dP > e^epsilon``, for ``epsilon >= 0``: minus delta's slope in e^epsilon."""

    @property
    @abstractmethod
    def inverse(self) -> TradeOff:
        """``T(Q, P)``: the inverse function, where f has one."""

    @property
    def certain(self) -> float:
        """``1 - f(0)``: the probability of an outcome that P never has."""
        return 0.0

    @property
    def greatest(self) -> float:
        """The supremum of the finite values of ``log dQ/dP``."""
        return math.inf

    # The profile at any epsilon.

    def log_delta(self, epsilon: Array) -> Array:
        """``log delta(epsilon)`` at any real ``epsilon``, elementwise."""
        epsilon = numbers("epsilon", epsilon)
        size, below = np.abs(epsilon), np.minimum(epsilon, -1e-300)
        with np.errstate(divide="ignore"):
            mirrored = np.logaddexp(np.log(-np.expm1(below)), below + self.inverse.log_delta_above(size))
        return np.minimum(np.where(epsilon < 0, mirrored, self.log_delta_above(size)), 0.0)

    def log_alpha(self, epsilon: Array) -> Array:
        """Log of the type I error of the test ``dQ/dP > e^epsilon`` at any real ``epsilon``."""
        epsilon = numbers("epsilon", epsilon)
        size, back = np.abs(epsilon), self.inverse
        with np.errstate(divide="ignore"):
            below = np.log(np.maximum(1 - np.exp(back.log_beta_above(size)), 0.0))
        return np.where(epsilon < 0, below, self.log_alpha_above(size))

    def log_beta_above(self, epsilon: Array) -> Array:
        """Log of the power ``1 - f(alpha)`` of that test, for ``epsilon >= 0``."""
        return np.minimum(np.logaddexp(self.log_delta_above(epsilon), epsilon + self.log_alpha_above(epsilon)), 0.0)

    def delta(self, epsilon: float) -> float:
        """``1 + f*(-e^epsilon)``: the least delta at any real ``epsilon``, for this order of P and Q."""
        epsilon = real("epsilon", epsilon, low=-math.inf)
        return math.exp(float(self.log_delta(np.asarray(epsilon, dtype=float))))

    def conjugate(self, slope: float) -> float:
        """The convex conjugate ``f*(slope) = sup over alpha of slope alpha - f(alpha)``, for a slope <= 0."""
        if not real("slope", slope, low=-math.inf) <= 0:
            raise InputError(f"slope is {slope:g}: a trade-off function falls, so its conjugate is asked at slopes <= 0.")
        return 0.0 if slope == 0 else self.delta(math.log(-slope)) - 1

    def epsilon(self, delta: float) -> float:
        """The least ``epsilon >= 0`` with ``delta(epsilon) <= delta``; infinite where there is none."""
        target = math.log(probability("delta", delta))

        def excess(x: float) -> float:
            return max(float(self.log_delta(np.asarray(x))) - target, -1e3)

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > FAR:
                return math.inf
        return root(excess, 0.0, high, xtol=1e-15)

    # The function itself.

    def __call__(self, alpha: Any) -> Any:
        """``f(alpha)``, elementwise, for alpha in [0, 1]; a float for a float.

        Raises
        ------
        InputError
            An alpha is outside [0, 1].
        """
        at = numbers("alpha", alpha)
        if not ((at >= 0) & (at <= 1)).all():
            raise InputError("alpha is a type I error: expected numbers in [0, 1].")
        value = self.values(at)
        return float(value) if at.ndim == 0 else value

    @abstractmethod
    def values(self, alpha: Array) -> Array:
        """``f(alpha)`` for an array in [0, 1]."""

    def enclosure(self, alpha: float) -> Enclosure:
        """``f(alpha)``, enclosed."""
        value = self(alpha)
        return Enclosure(max(value - _ROOM, 0.0), min(value + _ROOM, 1.0))

    def deciding(self, alpha: float) -> float:
        """The epsilon, of any sign, whose delta decides f(alpha): about the one with ``f(alpha) = 1 - delta - e^epsilon alpha``."""
        low, high = -FAR, FAR
        with np.errstate(divide="ignore"):
            level = float(np.log(alpha))
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self.log_alpha(np.asarray(middle)) > level else (low, middle)
        return high

    def polygon(self, points: int = 1000, *, least: float = 1e-12) -> Any:
        """The maximum of supporting lines: a ``Piecewise`` that is nowhere above f, and touches it ``points`` times.

        ``least`` is the smallest delta that decides the range of epsilons.
        """
        return _OPERATIONS["supported"](self, points, least)

    # New ones from old ones.

    def subsampled(self, p: float) -> TradeOff:
        """``f_p = p f + (1 - p) Id``: P against the mixture of P and Q that a record sampled with probability p leads to."""
        return _OPERATIONS["subsampled"](self, p)

    @property
    def symmetrized(self) -> TradeOff:
        """``min{f, f^-1}**``: what holds in both orders of P and Q if f does in one (Bu et al. 2020, section 2.2)."""
        return _OPERATIONS["minimum"](self, self.inverse)

    def amplified(self, p: float) -> TradeOff:
        """``C_p(f) = min{f_p, f_p^-1}**``."""
        return self.subsampled(p).symmetrized

    def group(self, size: int) -> TradeOff:
        """For data sets that differ in ``size`` records, each of them f: ``1 - (1 - f) o ... o (1 - f)``, never above it."""
        return self.polygon().group(size)

    def __matmul__(self, other: TradeOff) -> TradeOff:
        """``f @ g``: the tensor product ``T(P x P', Q x Q')``."""
        return _OPERATIONS["product"]([(self, 1), (other, 1)])

    def __pow__(self, times: int) -> TradeOff:
        """``f ** n``: the n-fold tensor product."""
        return _OPERATIONS["product"]([(self, times)])


def pairs_of(name: str, pairs: Any) -> list[tuple[TradeOff, Any]]:
    """``pairs``, if each is a trade-off function with how often it occurs."""
    found = [sequence("a factor and its count", pair) for pair in sequence(name, pairs)]
    if any(len(pair) != 2 for pair in found):
        raise InputError(f"{name} has an entry that is no pair: expected each factor with how often it occurs.")
    return [(of_type("factor", f, TradeOff), count) for f, count in found]


def rounded_down(value: float) -> float:
    """A value between corners, less what rounding may have added."""
    return max(value - _LAST_DIGITS, 0.0)


def probability(name: str, value: float) -> float:
    """``value``, if it is in (0, 1]."""
    value = real(name, value)
    if value > 1:
        raise InputError(f"{name} is {value:g}: expected a probability in (0, 1].")
    return value
