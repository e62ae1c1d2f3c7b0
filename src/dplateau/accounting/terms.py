"""What a composition is made of: one law repeated, or a family of laws whose noise differs from step to step.

A family of thousands of noise levels is not evaluated one by one. As a function of x = log mu the transform m(s; mu) is analytic:
with mu of argument psi, |psi| < pi/4, the line ``mu g - mu^2/2`` = real turns the integrand into that of a real mu, so that

    ``|m(s; mu)| <= exp(|mu|^2 (1/k - k) / 8) / sqrt(k) * m(Re s; |mu| / sqrt(k))``, k = cos(2 psi).

Hence m - 1 is interpolated in x at Chebyshev points, with the classical error bound ``4 M rho^-n / (rho - 1)`` on the ellipse rho
(Trefethen, Approximation Theory and Approximation Practice, Theorem 8.2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.polynomial import chebyshev
from scipy.fft import dct

from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import StepLaw, TooSlowError

_WORK: Final = 4_000_000
"""Greatest number of complex exponentials that one law may cost; beyond it the lattice is the better method."""
_TINY: Final = 1e-300
_TURNS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_ANCHORS: Final = 25
_LEBESGUE: Final = 6.0
"""Interpolation at up to 500 Chebyshev points enlarges the errors of the values by no more than this."""

Cumulants = Callable[[float], Array]


def _excess(law: StepLaw, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
    """``m(c + i at) - 1`` and a bound on its error (rounding and quadrature)."""
    nodes = law.nodes(c, float(at[-1]), log_tolerance)
    if nodes.g.size * at.size > _WORK:
        raise TooSlowError
    parts = [nodes.excess(c, part) for part in np.array_split(at, 1 + nodes.g.size * at.size // 200_000)]
    value, rounding = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return value, rounding + nodes.error * (1 + float(value[0].real))


def _cumulants(law: StepLaw, reach: float) -> Cumulants:
    nodes = law.nodes(reach, 0.0, math.log(1e-14))

    def at(c: float) -> Array:
        excess, first, second = nodes.moments(c)
        slope = first / (1 + excess)
        return np.array([math.log1p(excess), slope, second / (1 + excess) - slope**2])

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
    def repeated(self) -> list[Repeated]:
        """The same steps, law by law."""

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
        """``log M(c + i at)``, and a bound on the error of its real part and phase, both of shape ``at.shape``."""


@dataclass(frozen=True)
class Repeated(Term):
    """One law, ``count`` times."""

    law: StepLaw
    count: int

    @property
    def steps(self) -> int:
        return self.count

    @property
    def greatest(self) -> float:
        return self.count * self.law.greatest

    @property
    def repeated(self) -> list[Repeated]:
        return [self]

    def variation(self) -> float:
        return self.count * math.exp(float(self.law.log_delta(np.array(0.0))))

    def cumulants(self, reach: float) -> Cumulants:
        one = _cumulants(self.law, reach)
        return lambda c: self.count * one(c)

    def log_tail(self, c: float, omega: float) -> float:
        return self.count * self.law.tail(c, omega)

    def log_transform(self, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
        excess, error = _excess(self.law, c, at, log_tolerance - math.log(self.count))
        relative = np.minimum(error / np.maximum(np.abs(1 + excess), _TINY), 1e6)
        return self.count * np.log1p(excess), 1.01 * self.count * relative


@dataclass(frozen=True, eq=False)
class Family(Term):
    """Laws of one ``kind`` and rate with different shifts ``mus`` (shape (k,), increasing), ``counts`` of each."""

    kind: type[StepLaw]
    q: float
    mus: Array
    counts: Array

    def _law(self, mu: float) -> StepLaw:
        return self.kind(self.q, mu)

    @property
    def steps(self) -> int:
        return int(self.counts.sum())

    @property
    def greatest(self) -> float:
        return self.steps * self._law(float(self.mus[-1])).greatest

    @property
    def repeated(self) -> list[Repeated]:
        return [Repeated(self._law(float(mu)), int(count)) for mu, count in zip(self.mus, self.counts, strict=True)]

    def variation(self) -> float:
        return self.steps * Repeated(self._law(float(self.mus[-1])), 1).variation()

    @property
    def _interval(self) -> tuple[float, float, Array]:
        """Middle and half-length of the range of log mu, and where the members lie in it, from -1 to 1."""
        x = np.log(self.mus)
        middle, half = float(x[0] + x[-1]) / 2, float(x[-1] - x[0]) / 2
        return middle, half, np.clip((x - middle) / half, -1.0, 1.0)

    def cumulants(self, reach: float) -> Cumulants:
        middle, half, place = self._interval
        points = chebyshev.chebpts1(_ANCHORS)
        ones = [_cumulants(self._law(math.exp(middle + half * float(t))), reach) for t in points]
        to_points = np.linalg.solve(
            chebyshev.chebvander(points, _ANCHORS - 1).T, chebyshev.chebvander(place, _ANCHORS - 1).T @ self.counts
        )
        return lambda c: to_points @ np.array([one(c) for one in ones])

    def log_tail(self, c: float, omega: float) -> float:
        """The worse of the two anchors around each member; the bound is smooth in log mu and used with a margin."""
        anchors = np.geomspace(self.mus[0], self.mus[-1], _ANCHORS)
        tails = np.array([self._law(float(mu)).tail(c, omega) for mu in anchors])
        worse = np.maximum(tails[:-1], tails[1:])
        cell = np.clip(np.searchsorted(anchors, self.mus, side="right") - 1, 0, _ANCHORS - 2)
        return float(self.counts @ worse[cell])

    def _points(self, c: float, log_tolerance: float) -> tuple[int, float]:
        """The fewest Chebyshev points whose error bound is below the tolerance, and that bound."""
        middle, half, _ = self._interval
        best = (math.inf, 0.0)
        for psi in _TURNS:
            rho = psi / half + math.hypot(1.0, psi / half)
            k = math.cos(2 * psi)
            mu = math.exp(middle + half * (rho + 1 / rho) / 2)
            try:
                excess, _, _ = self._law(mu / math.sqrt(k)).nodes(c, 0.0, math.log(1e-3)).moments(c)
            except (TooSlowError, OverflowError):
                break
            log_m = math.log(2 + 2 * excess) + mu**2 * (1 / k - k) / 8 - math.log(k) / 2 if math.isfinite(excess) else math.inf
            best = min(best, ((math.log(8) + log_m - math.log(rho - 1) - log_tolerance) / math.log(rho) + 1, psi))
        if not best[0] < 500:
            raise TooSlowError
        return math.ceil(best[0]), math.exp(log_tolerance)

    def log_transform(self, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
        log_tolerance -= math.log(self.steps)
        middle, half, place = self._interval
        number, interpolation = self._points(c, log_tolerance)
        values, errors = np.empty((number, at.size), complex), np.zeros(at.size)
        for i, t in enumerate(np.cos((2 * np.arange(number) + 1) * math.pi / (2 * number))):
            values[i], error = _excess(self._law(math.exp(middle + half * float(t))), c, at, log_tolerance)
            errors = np.maximum(errors, error)
        real, imaginary = (np.asarray(dct(part, type=2, axis=0)) for part in (np.real(values), np.imag(values)))
        coefficients = (real + 1j * imaginary) / number
        coefficients[0] /= 2
        size = np.abs(coefficients).max(axis=1)
        rest = np.cumsum(size[::-1])[::-1]
        keep = int(np.argmax(rest <= interpolation)) or number
        dropped = rest[keep] if keep < number else 0.0
        absolute = _LEBESGUE * errors + interpolation + dropped
        total, error = np.zeros(at.size, complex), np.zeros(at.size)
        for part in np.array_split(np.arange(place.size), 1 + place.size * at.size // 1_000_000):
            excess = chebyshev.chebvander(place[part], keep - 1) @ coefficients[:keep]
            total += self.counts[part] @ np.log1p(excess)
            error += self.counts[part] @ np.minimum(absolute / np.maximum(np.abs(1 + excess), _TINY), 1e6)
        return total, 1.01 * error


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
    def greatest(self) -> float:
        """The supremum of the total loss."""
        return math.inf if self.gaussian else sum(term.greatest for term in self.terms)
