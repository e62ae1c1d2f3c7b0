"""Two final laws, and what they say: hockey-stick and Renyi divergences, epsilon at a delta, trade-off curves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from dplateau.audit.quadrature import Array
from dplateau.spec import InputError

POINTS: Final = 10
_LEGENDRE = np.polynomial.legendre
_INNER = _LEGENDRE.Legendre.basis(POINTS - 1).deriv().roots().real
LOBATTO: Final = np.concatenate([[-1.0], np.sort(_INNER), [1.0]])
"""Gauss-Lobatto nodes of a cell: both ends are nodes, so that a change of sign between cells is seen."""
LOBATTO_WEIGHTS: Final = 2 / (POINTS * (POINTS - 1) * _LEGENDRE.Legendre.basis(POINTS - 1)(LOBATTO) ** 2)
_TO_SERIES = np.linalg.inv(_LEGENDRE.legvander(LOBATTO, POINTS - 1))
_GAUSS, _GAUSS_WEIGHTS = _LEGENDRE.leggauss(POINTS)

TINY: Final = 1e-300
"""Densities and masses below this are treated as this: doubles end here."""
_LARGEST: Final = 600.0
"""Larger epsilons are beyond what densities in double precision can tell."""
_TAIL: Final = 1e-9


class Law(NamedTuple):
    """Density in cells, shape ``(cells, POINTS)``, and the masses of the lower and the upper end."""

    density: Array
    atoms: Array


@dataclass(frozen=True)
class Direction:
    """The first law P against the second law Q, on common cells.

    Attributes
    ----------
    half : float
        Half the width of a cell.
    log_p, log_q : array of shape (cells, POINTS)
        Log densities at the Lobatto nodes of every cell.
    log_p_atoms, log_q_atoms : array of shape (2,)
        Log masses of the ends.
    open_ends : tuple of bool
        Ends that are no wall: the laws go on there, beyond reach.
    """

    half: float
    log_p: Array
    log_q: Array
    log_p_atoms: Array
    log_q_atoms: Array
    open_ends: tuple[bool, bool]

    @cached_property
    def _flat(self) -> tuple[Array, Array]:
        """Log masses of P and Q at all nodes and ends."""
        weights = np.log(self.half * LOBATTO_WEIGHTS)
        p = np.concatenate([(self.log_p + weights).ravel(), self.log_p_atoms])
        return p, np.concatenate([(self.log_q + weights).ravel(), self.log_q_atoms])

    @cached_property
    def _range(self) -> tuple[Array, Array]:
        """Bounds on the log likelihood ratio in every cell: a parabola leaves its values at the nodes by at most 3%."""
        ratio = self.log_p - self.log_q
        least, most = ratio.min(axis=1), ratio.max(axis=1)
        room = 0.1 * (most - least)
        return least - room, most + room

    def event(self, epsilon: float) -> tuple[float, float]:
        """``P(S)`` and ``e^epsilon Q(S)`` for the event S where the log likelihood ratio exceeds epsilon."""
        least, most = self._range
        full, some = least > epsilon, most > epsilon
        weights = self.half * LOBATTO_WEIGHTS
        p = float((np.exp(self.log_p[full]) @ weights).sum())
        q = float((np.exp(self.log_q[full] + epsilon) @ weights).sum())
        for low, high, log_p, log_q in self._pieces(np.flatnonzero(some & ~full), epsilon):
            centre, half = (low + high) / 2, (high - low) / 2
            at = _LEGENDRE.legvander(centre + half * _GAUSS, POINTS - 1)
            p += self.half * half * float(_GAUSS_WEIGHTS @ np.exp(at @ log_p))
            q += self.half * half * float(_GAUSS_WEIGHTS @ np.exp(at @ log_q + epsilon))
        ends = self.log_p_atoms - self.log_q_atoms > epsilon
        return p + float(np.exp(self.log_p_atoms[ends]).sum()), q + float(np.exp(self.log_q_atoms[ends] + epsilon).sum())

    def _pieces(self, cells: Array, epsilon: float) -> Iterator[tuple[float, float, Array, Array]]:
        """Parts of the given cells, in units of [-1, 1], where the ratio exceeds epsilon, with the Legendre series of both logs."""
        for cell in cells:
            log_p, log_q = _TO_SERIES @ self.log_p[cell], _TO_SERIES @ self.log_q[cell]
            excess = log_p - log_q
            excess[0] -= epsilon
            roots = _LEGENDRE.legroots(excess)
            real = np.sort(roots.real[(np.abs(roots.imag) < 1e-12) & (np.abs(roots.real) < 1)])
            edges = [-1.0, *real.tolist(), 1.0]
            for low, high in pairwise(edges):
                if _LEGENDRE.legval((low + high) / 2, excess) > 0:
                    yield low, high, log_p, log_q

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence ``sup over S of P(S) - e^epsilon Q(S)``."""
        p, q = self.event(epsilon)
        return max(p - q, 0.0)

    def rough_epsilon(self, delta: float) -> float:
        """Epsilon at ``delta`` over events that are unions of nodes: never above the truth, but for quadrature error."""
        p, q = self._flat
        order = np.argsort(q - p)
        mass_p, mass_q = np.cumsum(np.exp(p[order])), np.cumsum(np.exp(q[order]))
        over = mass_p > delta
        if not over.any():
            return 0.0
        return max(float(np.log((mass_p[over] - delta) / np.maximum(mass_q[over], TINY)).max()), 0.0)

    def epsilon(self, delta: float) -> float:
        """The least ``epsilon >= 0`` at ``delta``: Newton's method on the convex function delta(e^epsilon), from below."""
        if not 0 < delta < 1:
            raise InputError(f"delta is {delta:g}: expected a number in (0, 1).")
        if self.delta(0.0) <= delta:
            return 0.0
        epsilon = max(self.rough_epsilon(delta) - 1e-9, 0.0)
        for _ in range(60):
            p, q = self.event(epsilon)
            if p <= delta or q <= 0:
                epsilon /= 2  # Rounding put the start above the root; delta(0) is above it.
                continue
            step = math.log((p - delta) / q)
            epsilon = max(epsilon + step, 0.0)
            if epsilon > _LARGEST:
                raise ArithmeticError(f"epsilon exceeds {_LARGEST:g}: beyond double precision.")
            if abs(step) <= 1e-13 * (1 + epsilon):
                return epsilon
        raise ArithmeticError(f"Newton's method for epsilon at delta {delta:g} did not converge.")

    def renyi(self, order: float) -> float:
        """The Renyi divergence of the given order > 1.

        Raises
        ------
        ArithmeticError
            The tails that decide it are beyond the reach of the laws, or below double precision.
        """
        if not 1 < order < math.inf:
            raise InputError(f"order is {order:g}: expected a finite number > 1.")
        p, q = self._flat
        terms = order * p + (1 - order) * q
        total = float(np.logaddexp.reduce(terms))
        lost = np.minimum(p, q) < math.log(TINY) + 10
        density = (order * self.log_p + (1 - order) * self.log_q) + math.log(self.half)
        ends = [density[0, 0], density[-1, -1]]
        beyond = [end for end, is_open in zip(ends, self.open_ends, strict=True) if is_open]
        if any(end > total + math.log(_TAIL) for end in beyond) or (lost.any() and terms[lost].max() > total + math.log(_TAIL)):
            raise ArithmeticError(f"order {order:g} weighs tails that were not computed: raise reach, or lower the order.")
        return max(total / (order - 1), 0.0)

    def trade_off(self, alpha: float) -> float:
        """The least type II error of a test of P against Q with type I error ``alpha`` (Neyman, Pearson)."""
        if not 0 <= alpha <= 1:
            raise InputError(f"alpha is {alpha:g}: expected a number in [0, 1].")
        # f(alpha) = max over x of 1 - D_x(Q || P) - e^x alpha, with D_x the hockey stick: the best x has P(ratio > x) = alpha.
        reverse = self.reversed
        low, high = -_LARGEST, _LARGEST
        for _ in range(60):
            middle = (low + high) / 2
            _, scaled = reverse.event(middle)
            low, high = (middle, high) if scaled > alpha * math.exp(middle) else (low, middle)
        values = (1 - reverse.delta(x) - math.exp(x) * alpha for x in (low, high))
        return min(max(0.0, *values), 1.0)

    @cached_property
    def reversed(self) -> Direction:
        """Q against P."""
        return Direction(self.half, self.log_q, self.log_p, self.log_q_atoms, self.log_p_atoms, self.open_ends)


@dataclass(frozen=True)
class Laws:
    """The final laws of two neighbouring data sets.

    Attributes
    ----------
    forward, backward : Direction
        The first against the second, and the second against the first.
    accuracy : float
        Relative accuracy of the log likelihood ratios, measured by refining the quadrature (NaN: not measured).
    """

    forward: Direction
    backward: Direction
    accuracy: float

    def delta(self, epsilon: float) -> float:
        """The larger hockey-stick divergence."""
        return max(self.forward.delta(epsilon), self.backward.delta(epsilon))

    def epsilon(self, delta: float) -> float:
        """The larger epsilon at ``delta``."""
        return max(self.forward.epsilon(delta), self.backward.epsilon(delta))

    def rough_epsilon(self, delta: float) -> float:
        """The larger epsilon at ``delta``, quickly: for a search, never above the truth but for quadrature error."""
        return max(self.forward.rough_epsilon(delta), self.backward.rough_epsilon(delta))

    def renyi(self, order: float) -> float:
        """The larger Renyi divergence."""
        return max(self.forward.renyi(order), self.backward.renyi(order))

    def trade_off(self, alpha: float) -> float:
        """The smaller type II error at type I error ``alpha``."""
        return min(self.forward.trade_off(alpha), self.backward.trade_off(alpha))


def laws(half: float, first: Law, second: Law, open_ends: tuple[bool, bool], accuracy: float) -> Laws:
    """Both directions of two laws on common cells."""
    p, q, p_atoms, q_atoms = (np.log(np.maximum(x, TINY)) for x in (first.density, second.density, first.atoms, second.atoms))
    forward = Direction(half, p, q, p_atoms, q_atoms, open_ends)
    return Laws(forward, forward.reversed, accuracy)
