"""The noise allocation that is best under exact accounting of random batches.

It is ours. The ``alpha_t = sqrt(b_t)`` of Wu et al. 2021 is best where a step costs in proportion to ``1 / z^2``, as it does with
random batches only while there is much noise.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize_scalar

from dplateau.accounting import compositions
from dplateau.accounting.contour import rough_epsilon
from dplateau.accounting.mechanism import sensitivity, step_kinds
from dplateau.accounting.roots import root
from dplateau.algorithms.noise_allocation import noise_energy, noise_weights, normalised
from dplateau.calibration import calibrate
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import real

Array: TypeAlias = NDArray[np.float64]

RATES: Final = 64
"""Greatest number of different batch sizes that an optimal allocation is sought for."""
_LEAST, _LARGEST, _SADDLES = 0.1, 300.0, 17
"""The range of saddle points, and how many are tried before the line search."""
_NEAR: Final = (1.2, 0.5)
"""How far below and above the best of them the line search goes, in logs."""
_LEVELS: Final = 120
"""Noise levels at which a step's K is evaluated; between them it is interpolated."""
_FINE: Final = 6_000
_RANGE: Final = 300.0
"""The ratio of the largest to the least of them."""
_FAR: Final = 200.0
_NONE: Final = 1e100
"""The energy where no noise meets the target; the line search does not take infinity."""


def optimal_noise(run: Run, *, epsilon: float, delta: float) -> Run:
    """The noise of least ``noise_energy`` whose exact composition costs (epsilon, delta) at most.

    With K the log of the moment generating function of a step's privacy loss, delta(epsilon) is about the least value over s of
    ``exp(sum_t K(s; z_t) - s epsilon)`` but for a factor, so the least energy is that over s and z_t together. For every s the best
    noise has ``w_t = -lambda dK/dv`` with ``w_t = (eta_t / B_t)^2``, ``v = z_t^2`` and one lambda; s is found by a line search.
    Full batches need none: there ``K = a^2 s (s + 1) / (2 v)``, and z_t is proportional to ``w_t^(-1/4)``, which is
    ``adapted_noise``.

    The search is approximate: the best allocation that was found by trying was better by less than one per cent as a rule, and by
    2 to 5 per cent for a few dozen batches of one to three records, where saddle points say little. The result is certified: it
    is scaled as a whole by ``dplateau.calibrate``, and never worse than constant or adapted noise, which are calibrated beside it.

    Parameters
    ----------
    run : Run
        With ``step_size``, and Poisson, fixed-size or full-batch sampling; its ``noise_multiplier`` may have any value.
    epsilon, delta : float
        The target.

    Returns
    -------
    Run
        The run with the noise.

    Raises
    ------
    InputError
        There is no ``step_size``, the sampling is another one, or there are more than 64 different batch sizes; no noise reaches
        epsilon.

    Examples
    --------
    >>> import dplateau as dp
    >>> from dplateau.algorithms import polynomial_decay
    >>> steps = polynomial_decay(1000, a=20, c=1)
    >>> run = dp.Run(n=50_000, sampling=dp.Poisson(256), steps=1000, noise_multiplier=1.0, step_size=steps)
    >>> best = optimal_noise(run, epsilon=4.0, delta=1e-5)
    >>> constant = dp.calibrate(run, epsilon=4.0, delta=1e-5)
    >>> noise_energy(best) < noise_energy(constant)
    True
    """
    weights = noise_weights(run)
    adapted = normalised(weights**-0.25)
    if run.is_full_batch:
        return calibrate(run.replace(noise_multiplier=adapted), epsilon=epsilon, delta=delta)
    if not run.sampling.drawn:
        raise InputError(
            f"no allocation of noise is sought under {run.sampling.kind} sampling: use Poisson, FixedSize or FullBatch."
        )
    plain = run.replace(released="all", update="post-processed")  # Composition alone.
    shapes = [1.0, adapted]
    search = _Search(plain, weights, real("epsilon", epsilon), real("delta", delta, high=1.0))
    with suppress(ArithmeticError, ValueError):  # Where the search fails, the others stay.
        shapes.append(search.best())
    tried = [calibrate(plain.replace(noise_multiplier=z), epsilon=epsilon, delta=delta) for z in shapes]
    best = run.replace(noise_multiplier=min(tried, key=noise_energy).noise_multiplier)
    return best if run.released == "all" else calibrate(best, epsilon=epsilon, delta=delta)


class _Search:
    """Noise with one lambda at one s, and the s and lambda of least energy among those that meet the target."""

    def __init__(self, run: Run, weights: Array, epsilon: float, delta: float) -> None:
        rates = run.table.written().rate
        different = np.unique(rates)
        if different.size > RATES:
            raise InputError(
                f"batch_size has {different.size} different values: an allocation is sought for at most {RATES}. Round them."
            )
        self._pairs, place, counts = np.unique(np.stack([rates, np.log(weights)]), axis=1, return_inverse=True, return_counts=True)
        self._counts: Array = counts.astype(float)
        self.rates: list[float] = different.tolist()
        self._run, self._place, self._epsilon, self._delta = run, place.ravel(), epsilon, delta
        # Of the two directions of add-remove the removal, which mostly costs more; epsilon is that of both.
        self._kind, self._shift = step_kinds(run)[0][0], step_kinds(run)[1]

    def best(self) -> tuple[float, ...]:
        """The noise of least energy."""
        starts = {x: self._started(x) for x in np.linspace(math.log(_LEAST), math.log(_LARGEST), _SADDLES).tolist()}
        x = min(starts, key=lambda x: starts[x][0])
        log_lambda = starts[x][1]
        found: dict[float, tuple[float, ...]] = {}

        def energy(x: float) -> float:
            nonlocal log_lambda
            try:
                allocation = _Allocation(self, math.exp(x))
                log_lambda = self._met(allocation, log_lambda)
            except (ArithmeticError, ValueError):
                return _NONE
            z = allocation.noise(log_lambda)
            found[x] = tuple(z[self._place].tolist())
            return self.energy(z)

        answer = minimize_scalar(energy, bounds=(x - _NEAR[0], x + _NEAR[1]), method="bounded", options={"xatol": 0.05})
        if float(answer.x) not in found:
            raise ValueError("no noise meets the target")
        return found[float(answer.x)]

    def energy(self, z: Array) -> float:
        """The sum of ``w_t z_t^2``."""
        return float(self._counts @ (np.exp(self._pairs[1]) * z**2))

    def _started(self, x: float) -> tuple[float, float]:
        """Energy and log lambda at which a Chernoff bound meets the target; infinite where it cannot."""
        s = math.exp(x)
        allowed = math.log(self._delta) + s * self._epsilon - s * x + (1 + s) * math.log1p(s)
        with suppress(ArithmeticError, ValueError):
            allocation = _Allocation(self, s)
            log_lambda = root(lambda y: allocation.k(y) - allowed, -_FAR, _FAR, xtol=1e-6)
            return self.energy(allocation.noise(log_lambda)), log_lambda
        return math.inf, 0.0

    def _met(self, allocation: _Allocation, log_lambda: float) -> float:
        """The log lambda at which epsilon is the one wanted, in the saddle-point approximation: secants."""
        slope, last = -0.33, None
        for _ in range(12):
            z = tuple(allocation.noise(log_lambda)[self._place].tolist())
            directions = compositions(self._run.replace(noise_multiplier=z))[0]
            value = math.log(max(rough_epsilon(one, self._delta) for one in directions) / self._epsilon)
            if abs(value) < 1e-4:
                return log_lambda
            if last is not None and log_lambda != last[0]:
                slope = min((value - last[1]) / (log_lambda - last[0]), -0.02)
            last = log_lambda, value
            log_lambda -= min(max(value / slope, -2.0), 2.0)
        raise ValueError("the secants did not find the target")

    def pairs(self, q: float) -> tuple[NDArray[np.bool_], Array, Array]:
        """Which pairs of rate and weight have the rate; the logs of their weights, and their counts."""
        here = self._pairs[0] == q
        return here, self._pairs[1, here], self._counts[here]

    def exponent(self, q: float, s: float, z: float) -> float:
        """K(s; z) of a step, well enough for a search; infinite where it cannot be computed."""
        if q == 1:
            return s * (s + 1) / 2 * (sensitivity(self._run) / z) ** 2
        with np.errstate(all="ignore"):
            try:
                k = math.log1p(self._kind(q, self._shift / z).nodes(s, 0.0, math.log(1e-14)).moments(s)[0])
            except (ArithmeticError, ValueError):
                return math.inf
        return k if math.isfinite(k) else math.inf


class _Allocation:
    """The noise with ``w_t = -lambda dK(s; z_t)/d(z_t^2)``, for one s and any lambda."""

    def __init__(self, search: _Search, s: float) -> None:
        self._parts = [(*search.pairs(q), _table(search, q, s)) for q in search.rates]
        self._size = sum(counts.size for _, _, counts, _ in self._parts)

    def noise(self, log_lambda: float) -> Array:
        """z for every pair of rate and weight."""
        z = np.empty(self._size)
        for here, log_weights, _, table in self._parts:
            z[here] = table.noise(log_weights - log_lambda)
        return z

    def k(self, log_lambda: float) -> float:
        """The sum of K."""
        return sum(float(counts @ table.k(table.noise(weights - log_lambda))) for _, weights, counts, table in self._parts)


def _table(search: _Search, q: float, s: float) -> _Table:
    # The least noise is what a single step may have; just above it K falls by orders of magnitude, so levels are dense there.
    low, high = -_FAR, math.log(s + 1) + 5
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if search.exponent(q, s, math.exp(middle)) < 20 + 10 * s else (middle, high)
    z = np.exp(high + math.log(_RANGE) * np.linspace(0.0, 1.0, _LEVELS) ** 2)
    return _Table(z, np.array([search.exponent(q, s, level) for level in z.tolist()]))


class _Table:
    """K(s; z) and -dK/d(z^2) of a step as functions of its noise z; both in logs, and continued like a Gaussian step's."""

    def __init__(self, z: Array, k: Array) -> None:
        curve = PchipInterpolator(np.log(z), np.log(k))
        x = np.linspace(math.log(z[0]), math.log(z[-1]), _FINE)
        log_k = curve(x)
        # Where K is nearly as large as it can be, it may hardly fall with z: such noise is never best.
        slope = np.minimum.accumulate(log_k + np.log(np.maximum(-curve(x, 1), 1e-12) / 2) - 2 * x)
        self._x = np.append(x, x[-1] + _FAR)
        self._log_k = np.append(log_k, log_k[-1] - 2 * _FAR)
        self._log_slope = np.append(slope, slope[-1] - 4 * _FAR)

    def k(self, z: Array) -> Array:
        return np.exp(np.interp(np.log(z), self._x, self._log_k))

    def noise(self, log_slope: Array) -> Array:
        """The z whose ``log(-dK/d(z^2))`` is the one given."""
        return np.exp(np.interp(-log_slope, -self._log_slope, self._x))
