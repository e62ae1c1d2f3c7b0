"""Piecewise linear trade-off functions: (epsilon, delta)-DP, tables of epsilons and deltas, pairs of discrete laws.

Every operation on them is exact, but for rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array, sums_from
from dplateau.accounting.trade_offs.base import TradeOff, operation, probability
from dplateau.spec import InputError
from dplateau.spec.arguments import integer, numbers, real

_MOST: Final = 20_000
"""Most corners of an exact product."""
_SAME: Final = 1e-12
"""Ratios whose logs are closer than this count as equal."""
_GREATEST: Final = 700.0
"""Beyond this epsilon exp overflows: it says nothing."""
_TINY: Final = 1e-300
"""Smaller type I errors of groups count as 0."""


def rest(x: Array | float) -> Array:
    """``1 - x``, elementwise, rounded down: a small delta is not lost, and many of them neither."""
    x = np.asarray(x, dtype=float)
    left = 1 - x
    return np.where(1 - left < x, np.nextafter(left, 0.0), left)


@dataclass(frozen=True, eq=False, repr=False)
class Piecewise(TradeOff):
    """The convex function through the corners ``(alpha_i, beta_i)``.

    Between two corners ``dQ/dP`` is constant. Q has mass ``1 - beta_0`` where P has none, P mass ``1 - alpha_k`` where Q has none.

    Parameters
    ----------
    alpha, beta : array of shape (k,)
        Corners from ``alpha_0 = 0`` to ``beta_k = 0``, alpha strictly rising, beta strictly falling, convex.
    """

    alpha: Array
    beta: Array

    def __post_init__(self) -> None:
        alpha, beta = numbers("alpha", self.alpha), numbers("beta", self.beta)
        if alpha.ndim != 1 or alpha.shape != beta.shape or not alpha.size:
            raise InputError(f"corners need alpha and beta of one equal length, got shapes {alpha.shape} and {beta.shape}.")
        fits = alpha[0] == 0 and beta[-1] == 0 and (np.diff(alpha) > 0).all() and (np.diff(beta) < 0).all()
        if not fits or not 0 <= alpha[-1] <= 1 or not 0 <= beta[0] <= 1:
            raise InputError("corners must run from alpha = 0 to beta = 0 within [0, 1], alpha rising and beta falling.")
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)

    @property
    def log_ratios(self) -> Array:
        """``log dQ/dP`` between the corners, shape (k - 1,), falling."""
        return np.log(-np.diff(self.beta)) - np.log(np.diff(self.alpha))

    def _touched(self, epsilon: Array) -> Array:
        """The corner that a line of slope ``-e^epsilon`` touches."""
        return np.searchsorted(-self.log_ratios, -np.asarray(epsilon, dtype=float))

    def log_delta_above(self, epsilon: Array) -> Array:
        corner = self._touched(epsilon)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - self.beta[corner] - np.exp(np.minimum(epsilon, 700.0)) * self.alpha[corner], 0.0))

    def log_alpha_above(self, epsilon: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self.alpha[self._touched(epsilon)])

    @property
    def inverse(self) -> Piecewise:
        """``T(Q, P)``."""
        return Piecewise(self.beta[::-1], self.alpha[::-1])

    @property
    def certain(self) -> float:
        return float(1 - self.beta[0])

    @property
    def greatest(self) -> float:
        return float(self.log_ratios[0]) if self.alpha.size > 1 else 0.0

    def values(self, alpha: Array) -> Array:
        return np.interp(alpha, self.alpha, self.beta)

    def polygon(self, points: int = 1000, *, least: float = 1e-12) -> Piecewise:
        """Itself."""
        return self

    def subsampled(self, p: float) -> Piecewise:
        p = probability("p", p)
        # Id adds a last stretch where Q had no mass left.
        alpha = np.append(self.alpha, 1.0) if self.alpha[-1] < 1 else self.alpha
        beta = np.append(self.beta, 0.0) if self.alpha[-1] < 1 else self.beta
        found = p * beta + (1 - p) * (1 - alpha)
        found[0] = min(found[0], rest(p * self.certain))
        return corners(alpha, found)

    def group(self, size: int) -> Piecewise:
        size = integer("size", size)
        # The power for some rows is the type I error for one row more. Powers, not 1 less them: small ones keep their digits.
        alpha, power, beta = self.alpha, 1 - self.beta, self.beta
        for _ in range(size - 1):
            # Corners: those of the rows before, and where their power meets one of f.
            met = self.alpha[self.alpha >= power[0]]
            at = np.interp(met, power, alpha)
            alpha, error = np.append(alpha, np.where(at < _TINY, 0.0, at)), np.append(power, met)
            order = np.argsort(alpha, kind="stable")
            alpha, error = alpha[order], np.maximum.accumulate(error[order])
            power, beta = np.interp(error, self.alpha, 1 - self.beta), np.interp(error, self.alpha, self.beta)
        return corners(alpha, beta)


def no_privacy() -> Piecewise:
    """``f = 0``: there is a test that never errs."""
    return Piecewise(*np.zeros((2, 1)))


def times(f: Piecewise, g: Piecewise) -> Piecewise | None:
    """The tensor product, exactly; None where it would have too many corners."""
    stretches = (f.alpha.size - 1) * (g.alpha.size - 1)
    if stretches > 50 * _MOST:
        return None
    p, q = (np.multiply.outer(a, b).ravel() for a, b in zip(_masses(f), _masses(g), strict=True))
    if not p.size:
        return no_privacy()
    ratio = np.add.outer(f.log_ratios, g.log_ratios).ravel()
    order = np.argsort(-ratio, kind="stable")
    p, q, ratio = p[order], q[order], ratio[order]
    first = np.flatnonzero(np.diff(np.floor(ratio / _SAME), prepend=np.inf))
    if first.size > _MOST:
        return None
    last = np.append(first[1:], ratio.size) - 1
    p, q = np.add.reduceat(p, first), np.add.reduceat(q, first)
    # The chord of stretches that are nearly as steep is above them, by no more than its fall times the range of log ratios.
    above = float(np.nanmax(q * (ratio[first] - ratio[last])))
    beta = np.minimum(np.append(sums_from(q), 0.0), 1.0)
    return corners(np.minimum(np.append(0.0, np.cumsum(p)), 1.0), np.maximum(beta - above, 0.0))


def _masses(f: Piecewise) -> tuple[Array, Array]:
    """The masses of P and Q between the corners."""
    return np.diff(f.alpha), -np.diff(f.beta)


def corners(alpha: Array, beta: Array) -> Piecewise:
    """The double conjugate of points with alpha rising from 0 and beta falling to 0: the greatest convex function below them."""
    kept: list[int] = []
    for i in range(alpha.size):
        if kept and not (alpha[i] > alpha[kept[-1]] and beta[i] < beta[kept[-1]]):
            if alpha[i] <= alpha[kept[-1]] and beta[i] < beta[kept[-1]]:
                kept.pop()
            else:
                continue
        while len(kept) > 1 and _above(alpha, beta, kept[-2], kept[-1], i):
            kept.pop()
        kept.append(i)
    return Piecewise(alpha[kept], beta[kept])


def _above(alpha: Array, beta: Array, first: int, middle: int, last: int) -> bool:
    """Whether the middle point is on or above the line between the other two."""
    left = (beta[first] - beta[middle]) * (alpha[last] - alpha[middle])
    return bool(left <= (beta[middle] - beta[last]) * (alpha[middle] - alpha[first]))


@np.errstate(divide="ignore", invalid="ignore")  # Lines that are equally steep meet nowhere.
def envelope(epsilon: Array, delta: Array, reverse: Array) -> Piecewise:
    """The maximum of the lines ``1 - delta_i - e^epsilon_i alpha``: what a table of epsilons and deltas says.

    Parameters
    ----------
    epsilon : array of shape (k,)
        Rising, of any sign.
    delta : array of shape (k,)
        Upper bounds on the profile of (Q, P) at epsilon.
    reverse : array of shape (k,)
        Upper bounds on that of (P, Q) at minus epsilon: ``delta = 1 - e^epsilon + e^epsilon reverse``. Each of the two is accurate
        where the other one has lost its digits.
    """
    y = np.exp(epsilon)
    kept: list[int] = []

    def meets(i: int, j: int) -> tuple[float, float]:
        """Where the lines i < j cross: alpha may be off by a rounding over the gap, but the point is then still on line i."""
        alpha = (delta[i] - delta[j]) / (y[j] - y[i])
        return alpha, y[i] * (1 - alpha - reverse[i]) if y[i] < 1 else 1 - delta[i] - y[i] * alpha

    for j in range(y.size):
        alpha = 1.0
        while kept:
            alpha, beta = meets(kept[-1], j)
            if len(kept) == 1:
                done = alpha < 1 - reverse[kept[-1]] and beta > 0
            else:
                before = meets(kept[-2], kept[-1])
                done = alpha < before[0] and beta > before[1]
            if done:
                break
            kept.pop()
        if not kept or alpha > 0:  # Otherwise the line is steeper and starts no higher: an upper bound may rise with epsilon.
            kept.append(j)
    alphas, betas = [float(rest(reverse[kept[0]]))], [0.0]
    for i, j in pairwise(kept):
        alpha, beta = meets(i, j)
        alphas.append(alpha)
        betas.append(beta)
    if alphas[-1] > 0:
        alphas.append(0.0)
        betas.append(float(rest(delta[kept[-1]])))
    alpha, beta = np.clip(alphas[::-1], 0.0, 1.0), np.clip(betas[::-1], 0.0, 1.0)
    return corners(alpha, beta)


@operation
def supported(f: TradeOff, points: int, least: float) -> Piecewise:
    """The maximum of ``points`` supporting lines of f; ``least`` is the smallest delta that decides the range of epsilons."""
    points, least = integer("points", points, low=2), probability("least", least)
    sides = [_spread(side, points // 2, least) for side in (f, f.inverse)]
    epsilon = np.unique(np.concatenate([sides[0], -sides[1]]))
    return envelope(epsilon, np.exp(f.log_delta(epsilon)), np.exp(f.inverse.log_delta(-epsilon)))


def _spread(f: TradeOff, points: int, least: float) -> Array:
    """Epsilons >= 0 whose deltas run from delta(0) to ``least``: dense where the curve bends."""
    last = f.epsilon(min(max(least, f.certain * (1 + 1e-9) + least), 0.5))
    last = min(last, f.greatest) if math.isfinite(f.greatest) else last
    if not 0 < last < math.inf:
        return np.zeros(1)
    # Between two lines f is missed by about (e^epsilon |d alpha / d epsilon|) step^2 / 8: most points go where that is large, the
    # others evenly, and evenly in the fourth root of alpha, for plots on a logarithmic scale.
    fine = np.linspace(0.0, last, 20 * points)
    alpha = np.exp(f.log_alpha_above(fine))
    fallen = np.maximum(-np.diff(alpha), 0.0)
    found = [np.linspace(0.0, last, points // 4 + 2)]
    for share, density in ((2, np.sqrt(np.exp(fine[1:]) * fallen)), (4, -np.diff(alpha**0.25))):
        place = np.append(0.0, np.cumsum(density))
        if place[-1] > 0:
            found.append(np.interp(np.linspace(0, place[-1], points // share), place, fine))
    return np.unique(np.concatenate(found))


def epsilon_delta(epsilon: float, delta: float) -> Piecewise:
    """``f_{epsilon, delta}``: what (epsilon, delta)-DP says (Bu et al. 2020, equation 2.1; Wasserman, Zhou 2010).

    Parameters
    ----------
    epsilon, delta : float
        epsilon >= 0, delta in [0, 1].
    """
    epsilon, delta = real("epsilon", epsilon, inclusive=True), real("delta", delta, inclusive=True)
    if delta > 1:
        raise InputError(f"delta is {delta:g}: expected a number in [0, 1].")
    left = float(rest(delta))
    if delta == 1 or epsilon > _GREATEST:
        return no_privacy()
    if epsilon == 0:
        return Piecewise(np.array([0.0, left]), np.array([left, 0.0]))
    middle = left / (1 + math.exp(epsilon))
    return Piecewise(np.array([0.0, middle, left]), np.array([left, middle, 0.0]))


def of_table(epsilons: Array, deltas: Array) -> Piecewise:
    """``sup over i of f_{epsilon_i, delta_i}``: every row of a table of (epsilon, delta) statements holds.

    Source: Bu, Dong, Long, Su 2020, Theorem 1.

    Parameters
    ----------
    epsilons, deltas : array of shape (k,)
        epsilons >= 0, deltas in [0, 1].
    """
    epsilon, delta = numbers("epsilons", epsilons), numbers("deltas", deltas)
    if epsilon.shape != delta.shape or epsilon.ndim != 1 or not epsilon.size:
        raise InputError(f"a table needs as many deltas as epsilons, got shapes {epsilon.shape} and {delta.shape}.")
    if not ((epsilon >= 0) & (delta >= 0) & (delta <= 1) & np.isfinite(epsilon)).all():
        raise InputError("a table needs finite epsilons >= 0 and deltas in [0, 1].")
    order = np.lexsort((delta, epsilon))
    epsilon, delta = epsilon[order], np.minimum.accumulate(delta[order])
    shrunk = -np.expm1(-epsilon) + np.exp(-epsilon) * delta
    both = np.concatenate([-epsilon[::-1], epsilon])
    below, above = np.concatenate([shrunk[::-1], delta]), np.concatenate([delta[::-1], shrunk])
    keep = np.append(True, np.diff(both) > 0)
    return envelope(both[keep], below[keep], above[keep])


def of_masses(p: Array, q: Array) -> Piecewise:
    """``T(P, Q)`` of two laws on the same finite set (Neyman, Pearson).

    Parameters
    ----------
    p, q : array of shape (k,)
        Masses, each summing to 1.
    """
    p, q = numbers("p", p), numbers("q", q)
    if p.shape != q.shape or p.ndim != 1 or not ((p >= 0) & (q >= 0)).all() or max(abs(p.sum() - 1), abs(q.sum() - 1)) > 1e-9:
        raise InputError("two laws need masses >= 0 on the same points, each summing to 1.")
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(q > 0, q / np.where(p > 0, p, 1.0) + np.where(p > 0, 0.0, np.inf), -1.0), kind="stable")
    # Of sums from both ends the one that is small keeps its digits.
    first, last = (np.append(0.0, np.cumsum(mass)) for mass in (p[order], q[order][::-1]))
    others, power = np.append(0.0, np.cumsum(p[order][::-1]))[::-1], np.append(0.0, np.cumsum(q[order]))
    return corners(np.maximum(np.minimum(first, rest(others)), 0.0), np.maximum(np.minimum(last[::-1], rest(power)), 0.0))
