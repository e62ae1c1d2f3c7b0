"""The best of several candidates, of which each is tried with some probability: the Renyi divergence of what is told.

Proof: ``docs/proofs/private-selection.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import logsumexp

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.gaussian import ULP, Array
from dplateau.accounting.renyi import convert
from dplateau.accounting.renyi_curve import RenyiCurve
from dplateau.accounting.trade_offs import TradeOff, trade_off

_POINTS: Final = 60
"""Supporting lines of a candidate's trade-off function."""
_LEAST: Final = 1e-6
"""Its smallest delta: what is told seldom has a rank further out."""
_STEP: Final = 0.05
"""Orders are 1 + exp(k times this), k whole, so that the readings at several deltas share them."""
_FIRST, _LAST, _STRIDE = -80, 240, 16
"""The k that are tried, and how far apart they are at first."""
_FURTHER: Final = 2.0
"""The tail of a trade-off function is bounded by the divergence of this times the order."""
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Selected(RenyiCurve):
    """What tells the best of the candidates that were tried.

    Attributes
    ----------
    candidates : tuple of Guarantee
        What holds of each candidate, its score included. Equal ones may be the same object.
    probability : float
        With which each of them is tried, independently, until at least one is.
    """

    candidates: tuple[Guarantee, ...]
    probability: float

    def point(self, order: float, delta: float) -> tuple[float, float]:
        """The theorem of the proof page; it holds without exception."""
        found = self._known.get(order)
        if found is None:
            found = self._known[order] = self._divergence(order)
        return found, 0.0

    def order(self, delta: float) -> float:
        """The order at which ``epsilon(delta)`` is read, or would be if an epsilon could be negative."""

        def at(order: float) -> float:
            return convert(order, self.point(order, delta)[0], delta, classical=False)

        self._least(at)
        return min(self._known, key=at)

    @cached_property
    def _known(self) -> dict[float, float]:
        return {}

    @cached_property
    def _distinct(self) -> list[tuple[Guarantee, TradeOff, int]]:
        """Candidates that differ, their trade-off functions, and how often each occurs."""
        counts: dict[int, tuple[Guarantee, int]] = {}
        for one in self.candidates:
            counts[id(one)] = one, counts.get(id(one), (one, 0))[1] + 1
        return [(one, trade_off(one, points=_POINTS, least=_LEAST), count) for one, count in counts.values()]

    def _divergence(self, order: float) -> float:
        p, ranked, terms = self.probability, 0.0, list[float]()
        for one, f, count in self._distinct:
            own = (order - 1) * one.divergence(order)
            further = 1 + _FURTHER * (order - 1)
            rank = min(log_rank_factor(f, p, order, further, one.divergence(further)), own)
            ranked += count * rank
            terms += [own - rank] * count
        if not all(term < math.inf for term in terms):
            return math.inf
        tried = -math.expm1(len(terms) * math.log1p(-p)) if p < 1 else 1.0
        total = math.log(p) - math.log(tried) + ranked + float(np.asarray(logsumexp(terms)))
        # A corner is good to a rounding of 1.
        return (total + _ROUNDING * (1 + abs(total) + ranked) + 8 * ULP * order * p * len(terms)) / (order - 1)

    def _least(self, f: Callable[[float], float]) -> float:
        """The least value of f over orders that all readings share: coarsely, then around the best one."""

        def at(k: int) -> float:
            return f(1 + math.exp(_STEP * k))

        stride = _STRIDE
        value, best = min((at(k), k) for k in range(_FIRST, _LAST + 1, stride))
        while stride > 1:
            stride //= 2
            value, best = min((value, best), *((at(k), k) for k in (best - stride, best + stride)))
        return value


def log_rank_factor(f: TradeOff, probability: float, order: float, further: float, divergence: float) -> float:
    """The largest log of ``c^order c'^(1 - order)``: c and c' are the probabilities, under the two data sets, that a candidate does
    not come before a given place in the ranking.

    Parameters
    ----------
    f : TradeOff
        The candidate's trade-off function, or one below it.
    probability : float
        With which the candidate is tried.
    order : float
        Above 1.
    further, divergence : float
        An order above ``order``, and the candidate's divergence there. It bounds the tail of f, which ends early.
    """
    p, corners = probability, f.polygon()
    alpha, beta = corners.alpha, corners.beta
    if alpha.size < 2:
        return math.inf
    slope = np.diff(beta) / np.diff(alpha)
    # Within an edge the derivative's sign changes where a linear function of alpha does.
    left, right = alpha[:-1], alpha[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        intercept = -order * (1 - p + p * (beta[:-1] - slope * left)) - (order - 1) * slope
        inner = intercept / (p * slope)
    inner = np.clip(np.where(np.isfinite(inner), inner, left), left, right)
    edges = np.array([left, inner, right])
    heights = np.array([beta[:-1], beta[:-1] + slope * (inner - left), beta[1:]])
    values = _log_ratio(p, edges, heights, order).max(axis=0)
    # c' >= c^(further / (further - 1)) exp(-divergence): what that allows rises with c, so falls with alpha.
    tail = (order - 1) * divergence + (1 - (order - 1) / (further - 1)) * _log_missed(p, left, 1 - left)
    return float(np.minimum(values, tail).max(initial=0.0))


def _log_ratio(p: float, alpha: Array, beta: Array, order: float) -> Array:
    """``order log(1 - p alpha) + (1 - order) log(1 - p + p beta)``, rounded up; infinite where the latter is the log of 0."""
    before, after = order * _log_missed(p, alpha, 1 - alpha), (1 - order) * _log_missed(p, 1 - beta, beta)
    with np.errstate(invalid="ignore"):
        found = before + after + 8 * ULP * (after - before)  # Each logarithm is good to some roundings of its size.
    return np.where(after < math.inf, found, math.inf)


def _log_missed(p: float, x: Array, rest: Array) -> Array:
    """``log(1 - p x)``, with ``rest`` = 1 - x: near p x = 1 the difference would have lost its digits."""
    with np.errstate(divide="ignore"):
        return np.where(p * x < 0.5, np.log1p(-p * x), np.log(1 - p + p * rest))
