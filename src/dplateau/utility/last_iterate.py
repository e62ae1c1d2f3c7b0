"""The risk of the last iterate of projected stochastic gradient steps, for any step sizes.

Source: the comparators are those of Zamani, Glineur 2023 ("Exact convergence rate of the last iterate in subgradient methods") and
Defazio, Cutkosky, Mehta, Mishchenko 2023; the search, strong convexity and smoothness are ours. Proof:
``docs/explanation/utility.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from dplateau.spec import InputError
from dplateau.spec.arguments import is_sequence, real, vector
from dplateau.spec.steps import Array

_MANY: Final = 512
"""Longer runs are searched with their early steps gathered in blocks; the value that is returned is always that of all steps."""
_POINTS: Final = 48
"""Weights that are tried first."""
_EXTREME: Final = 1e100
_FASTEST: Final = 1 - 1e-9
"""Part of 1/step_size up to which strong convexity is used: a smaller one than the true one is allowed at every step."""


def last_iterate_risk(
    step_sizes: Sequence[float] | Array,
    noise: float | Sequence[float] | Array,
    distance: float,
    *,
    lipschitz: float | None = None,
    strong_convexity: float = 0.0,
    smoothness: float | None = None,
) -> float:
    """Bound on ``E F(x_{T+1}) - F(x*)`` after the steps ``x_{t+1} = Pi_K(x_t - step_sizes[t] g_t)``. **Proved.**

    Setting: F convex on the convex set K, x* in K, x_1 in K, ``E[g_t | past]`` a subgradient of F at x_t. Two cases:

    - *Lipschitz* (no ``smoothness``): ``E[|g_t|^2 | past] <= noise[t]``, wherever in K the iterate is.
    - *Smooth*: F is ``smoothness``-smooth on all of space and its gradient at x* is zero; then ``noise[t]`` need only bound the
      variance ``E[|g_t - gradient of F(x_t)|^2 | past]``.

    A bound is computed for every weight of the last iterate, and the least one is returned (up to rounding), in time O(T).

    Parameters
    ----------
    step_sizes : sequence of float, shape (T,)
        eta_t.
    noise : float or sequence of float, shape (T,)
        See above; constant or one a step, >= 0.
    distance : float
        Bound on ``|x_1 - x*|``, or on the root of its mean square.
    lipschitz : float, optional
        Bound on the norm of F's subgradients on K, where it is less than the root of the least ``noise``. Not with ``smoothness``.
    strong_convexity : float, default 0.0
        m: F is m-strongly convex on K.
    smoothness : float, optional
        M of the smooth case.

    Returns
    -------
    float
        The bound; infinite where a step exceeds ``1/smoothness``.

    Raises
    ------
    InputError
        An argument is outside its range, lengths differ, or strong convexity exceeds smoothness.

    Examples
    --------
    >>> steps = np.full(100, 0.1)  # distance / (L sqrt(T))
    >>> round(last_iterate_risk(steps, 1.0, 1.0), 3)
    0.226
    """
    eta, second = vector("step_sizes", step_sizes), vector("noise", noise, inclusive=True)
    if is_sequence(noise) and second.size != eta.size:
        raise InputError(f"noise has {second.size} entries, step_sizes {eta.size}: give one entry a step, or one number.")
    if eta.min() < 1 / _EXTREME or max(eta.max(), second.max()) > _EXTREME:
        raise InputError("step_sizes or noise lie beyond 1e+-100: their squares are no numbers. Choose other units.")
    start = real("distance", distance, inclusive=True, high=_EXTREME)
    convexity = real("strong_convexity", strong_convexity, inclusive=True, high=_EXTREME)
    if smoothness is None:
        slope = float(second.min())
        if lipschitz is not None:
            slope = min(slope, real("lipschitz", lipschitz, inclusive=True, high=_EXTREME) ** 2)
        return _least(_chain(eta, second, start, convexity, 0.0, slope))
    if lipschitz is not None:
        raise InputError("lipschitz and smoothness are both given: they belong to two cases. Give one, or take the less of both.")
    curvature = real("smoothness", smoothness, high=_EXTREME)
    if convexity > curvature:
        raise InputError(f"strong_convexity {convexity:g} exceeds smoothness {curvature:g}: no function has both.")
    if float(eta.max()) * curvature > 1:
        return math.inf
    return _least(_chain(eta, second, start, convexity, curvature, None))


@dataclass(frozen=True, eq=False)
class _Chain:
    """The inequality of all steps, read from the last to the first; weights are scaled by that of the last step."""

    gain: Array  # Gamma_t eta_t
    cost: Array  # Gamma_t eta_t^2 noise_t
    loss: Array  # M eta_t
    start: float  # Gamma_0 distance^2
    convexity: float
    curvature: float
    slope: float | None

    def risk(self, omega: float) -> float:
        """The bound with weight ``omega`` on the last iterate."""
        steepness = self.convexity + 1 / omega
        if self.slope is None and steepness <= self.curvature:
            return math.inf
        v, s, spent = 1.0, omega, 0.0
        for gain, cost, loss in zip(self.gain.tolist(), self.cost.tolist(), self.loss.tolist(), strict=True):
            spent += cost * v * v
            here = gain * v
            total = s + here
            v *= (s + loss * here) / total
            s = total
        spent += self.start * v * v
        if self.slope is None:
            return spent / (2 * omega * (1 - self.curvature / steepness))
        return spent / (2 * omega) + self.slope / (2 * steepness)

    def gathered(self) -> _Chain:
        """The same with early steps gathered in blocks: close to this one, but no bound."""
        size = self.gain.size
        if size <= _MANY:
            return self
        first = np.unique(np.concatenate([[0], np.geomspace(1, size - 1, _MANY).astype(int)]))
        gain, cost, loss = (np.add.reduceat(part, first) for part in (self.gain, self.cost, self.gain * self.loss))
        loss = np.divide(loss, gain, out=np.zeros_like(loss), where=gain > 0)
        return _Chain(gain, cost, loss, self.start, self.convexity, self.curvature, self.slope)


def _chain(eta: Array, noise: Array, start: float, convexity: float, curvature: float, slope: float | None) -> _Chain:
    growth = -np.log1p(-np.minimum(convexity * eta, _FASTEST))[::-1]  # log of Gamma_t / Gamma_{t-1}, from the last step on
    later = np.concatenate([[0.0], np.cumsum(growth)])
    gain = np.exp(-later[:-1]) * eta[::-1]
    cost = gain * (eta * noise)[::-1]
    return _Chain(gain, cost, curvature * eta[::-1], math.exp(-later[-1]) * start**2, convexity, curvature, slope)


def _least(chain: _Chain) -> float:
    """The least bound that a search of the weight finds: every weight's bound holds, so the search may be rough."""
    rough = chain.gathered()
    low, high = 1e-6 * float(chain.gain[0]), 10 * float(chain.gain.sum())
    if chain.convexity:
        high += 1e4 / chain.convexity
    if chain.slope is None and chain.curvature > chain.convexity:
        high = min(high, (1 - 1e-9) / (chain.curvature - chain.convexity))
        low = min(low, 1e-6 * high)
    grid = np.linspace(math.log(low), math.log(high), _POINTS)
    best = int(np.argmin([rough.risk(math.exp(log)) for log in grid.tolist()]))  # Uneven steps have several local minima.
    between = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _POINTS - 1)]))
    optimize: Any = import_module("scipy.optimize")  # loaded at first use
    found = optimize.minimize_scalar(
        lambda log: rough.risk(math.exp(log)), bounds=between, method="bounded", options={"xatol": 1e-5}
    )
    risk = chain.risk(math.exp(float(found.x)))
    if chain.convexity and chain.slope is not None:
        risk = min(risk, chain.slope / (2 * chain.convexity))  # what holds everywhere, with no steps at all
    return risk if not math.isnan(risk) else math.inf
