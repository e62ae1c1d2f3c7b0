"""``calibrate``: what must change for a run to cost no more than wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, overload

from dplateau._account import checked_delta, leading_analyses
from dplateau.accounting import Bound, ExactComposition, Guarantee, NotApplicable, compositions, gdp_mu
from dplateau.accounting.enclosure import down
from dplateau.accounting.mechanism import drawn, sensitivity
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.renyi import about_epsilon
from dplateau.accounting.sparse import rough_sparse_epsilon
from dplateau.accounting.terms import Composition
from dplateau.analyses.composed import composed, each_by_its_best
from dplateau.analyses.exact_composition import few_draws
from dplateau.analyses.private_selection import best_of_candidates
from dplateau.spec import InputError, Run, Runs, Selection
from dplateau.spec.arguments import one_of, real
from dplateau.spec.floating import check_rounding, usual_errors
from dplateau.spec.runs import checked_run, runs_of
from dplateau.spec.schedule import is_constant, largest, scaled, smallest

VARY: Final = ("noise_multiplier", "steps", "batch_size")
Curve = Callable[[float], float]
"""Epsilon by the log of the factor that the noise is scaled by."""
Place = tuple[float, float]
"""Such a log, and the slope of log(epsilon) there."""
_SLOPE: Final = -1.1
"""About how log(epsilon) falls with it."""
_NEAR: Final = 1e-9
"""How far below the target, as a share of it, a certified epsilon may lie."""
_COMPOSED: Final = 4e-6
"""The same where every evaluation takes its time: of exact compositions, whose enclosures are about as wide, and of mixtures."""
_LOOKING: Final = 1e-5
"""The same for bounds that look back: they jump a little where another look-back is chosen."""
_ALLOCATED: Final = 1e-4
"""The same under random allocation, whose enclosures are up to so wide."""
_ROUGH: Final = 1e-3
"""The same of a number that is only shown."""
_TRUSTED: Final = 30.0
"""Within so many tolerances, a search takes the word of a slope that it was told: such slopes are off by a share of 1/60."""
_NEARLY: Final = 0.01
"""No secant's word is taken further away than this."""
_LONG, _SHORT = 200, 12
"""Most values of a curve that are looked at; of one to search with fewer, since it may jump back and forth."""
_BESIDE: Final = 0.2
"""What a bound said at noise whose log is smaller by no more than this tells whether it may be the least."""
_STEEPEST: Final = 6.0
"""Its log(epsilon) is taken to fall no faster than this with the log of the noise."""
_BEHIND: Final = 1.1
"""A bound is left out for the moment if it is larger than the best by this factor even so."""
_JUMP: Final = 1e-4
"""Where a curve jumps, the log of the noise is found to this."""
_STEP: Final = 24.0
"""Between two points so close a curve that falls faster than this jumps."""
_CLOSE, _STEPS = 0.1, (0.3, 12.0)
"""Between points that are nearer than this a rough curve whose slope is not within these is not smooth."""
_OFF: Final = 1.0
"""The nearest value of such a curve counts if its log is no further from the target's."""
_MANY, _TOLD, _UNSURE = 300, 0.5, 1.6
"""Of so many steps, what is about so large is less than this factor above what it stands for."""
_EVEN: Final = 0.01
"""Of a smaller variance an epoch of random allocation is nearly Gaussian."""
_LEAST: Final = 1e-12
"""Smaller epsilons are this one."""
_SAME: Final = 1e-12
"""Bounds that differ by no more than this share are the same one."""


def _scaled(run: Run | Runs, factor: float) -> Run | Runs:
    if isinstance(run, Selection):
        return Selection((_scaled(one, factor) for one in run.candidates), run.probability)
    return Runs(_louder(one, factor) for one in run.runs) if isinstance(run, Runs) else _louder(run, factor)


def _louder(run: Run, factor: float) -> Run:
    return run.replace(noise_multiplier=scaled(run.noise_multiplier, factor))


def _closed(run: Run, epsilon: float, delta: float) -> float:
    """The log of the factor that the central limit theorem asks for."""
    rate = largest(run.sampling.divisors(run.n)) / run.n
    z = sensitivity(run) / math.sqrt(math.log1p((gdp_mu(epsilon, delta) / rate) ** 2 / run.steps))
    return math.log(z / largest(run.noise_multiplier))


def _spread_of_epoch(run: Run) -> float:
    """The variance of an epoch's likelihood ratio under random allocation: where it is small, the central limit theorem says nearly
    all, and Poisson sampling, which may draw a record twice, says less.
    """
    mu = sensitivity(run) / smallest(run.noise_multiplier)
    return math.expm1(min(mu**2, 700.0)) / run.sampling.epoch_length(run.n)


def _by_composition(run: Run, epsilon: float, delta: float) -> Place:
    """Where composition costs about ``epsilon``, whatever is assumed of the loss."""
    assumed = {"step_size": None, "smoothness": None, "strong_convexity": None, "l2": 0.0, "diameter": None, "released": "all"}
    return _composed_place(run.replace(**assumed) if run.update == "sgd" else run, epsilon, delta)


@lru_cache(maxsize=64)
def _composed_place(run: Run, epsilon: float, delta: float) -> Place:
    def once(x: float) -> Composition:
        return compositions(drawn(_louder(run, math.exp(x))))[0][0]

    def tilted(x: float) -> float:
        return about_epsilon(once(x), delta, 0.0)

    def convolved(x: float) -> float:
        return rough_sparse_epsilon(once(x), delta, _NEARLY)

    floor, closed = _floor(run), _closed(run, epsilon, delta)
    if run.sampling.allocated and _spread_of_epoch(_louder(run, math.exp(closed))) < _EVEN:
        return closed, -_NEARLY / (_closed(run, epsilon * math.exp(-_NEARLY), delta) - closed)
    place = _reached(tilted, epsilon, (closed, _SLOPE), _ROUGH, floor, rough=True)
    if few_draws(once(0.0)) and not run.sampling.allocated:
        with suppress(ArithmeticError, ValueError):
            # To a hundredth: the slope is known, and the last step is a secant's.
            place = _reached(convolved, epsilon * (1 + _NEARLY / 2), place, _NEARLY, floor, rough=True)
    return place


def _start(run: Run | Runs, spent: _Spent, epsilon: float) -> tuple[Place, list[Curve], float]:
    """Where to begin, curves that are nearly the wanted one and found faster (to search with, never to certify with), and how near
    to the target to come.
    """
    delta, start = spent.delta, (0.0, _SLOPE)
    if isinstance(run, Runs):
        return start, [], _NEAR
    said = [analysis.guarantee(run) for analysis in spent.leading if analysis.why_not(run) is None]
    # The mus of last-iterate bounds, and of Gaussian steps, fall as 1/noise, up to round-off.
    mixed = [one for one in said if isinstance(one, MixtureOfGaussianDP)]
    if mus := [one.mu for one in said if one.mu] + [max(one.mus) for one in mixed]:

        def noisier(x: float) -> float:
            return min(replace(one, mus=tuple(mu * math.exp(-x) for mu in one.mus), below=()).epsilon(delta).upper for one in mixed)

        start = math.log(min(mus) / gdp_mu(epsilon, delta)), _SLOPE
        return start, [noisier] if mixed else [], _COMPOSED if mixed else _NEAR

    families, allocated = any(one.family for one in said), run.sampling.allocated
    if not families and not all(isinstance(one, ExactComposition) for one in said):
        return start, [], _NEAR
    near = _ALLOCATED if allocated else _LOOKING if families else _COMPOSED
    # Families need no more noise than composition does, and are slow where there is too little.
    start = _closed(run, epsilon, delta), _SLOPE
    with suppress(ArithmeticError, ValueError):
        start = _by_composition(run, epsilon, delta)
    return start, [lambda x: spent.about(_louder(run, math.exp(x)))], near


class _Spent:
    """What a candidate costs by its least bound, or, of noise, by the least of those that may be the least.

    While the noise is searched a bound is left out where it was far behind at nearly as much noise: it makes certificates no larger
    to leave it out, and most of the time is spent on it. ``said`` is what bounds certified, or hardly lie below, and ``guessed``
    what they are about; each is told from others of its kind.
    """

    def __init__(self, delta: float, vary: str) -> None:
        self.leading, self.delta, self.vary = leading_analyses(), delta, vary
        self.said: dict[str, list[tuple[float, float]]] = {analysis.name: [] for analysis in self.leading}
        self.guessed: dict[str, list[tuple[float, float]]] = {analysis.name: [] for analysis in self.leading}
        self.known: dict[Run | Runs, float] = {}
        self.by: dict[Run, dict[str, tuple[float, Guarantee]]] = {}

    def __call__(self, candidate: Run | Runs) -> float:
        if candidate not in self.known:
            self.known[candidate] = self._composed(candidate) if isinstance(candidate, Runs) else self._least(candidate)
        return self.known[candidate]

    def best(self, candidate: Run) -> Bound:
        """The bound that said the least, once a run is known; of closed forms that differ by a rounding the first."""
        by, most = self.by[candidate], self.known[candidate] * (1 + _SAME)
        best = next(one for one in self.leading if one.name in by and by[one.name][0] <= most)
        return best.status(best.name, best.source, by[best.name][1])

    def about(self, candidate: Run) -> float:
        """About what it costs; found faster, to search with."""
        return self._least(candidate, about=True)

    def _composed(self, candidate: Runs) -> float:
        found = [each_by_its_best(candidate, self.leading, self.delta), *(composed(one, candidate) for one in self.leading)]
        if isinstance(candidate, Selection):
            found.append(best_of_candidates(candidate, self.leading, self.delta))
        return min(one.guarantee.upper(self.delta) for one in found if not isinstance(one, NotApplicable))

    def _least(self, candidate: Run, *, about: bool = False) -> float:
        level, best = math.log(largest(candidate.noise_multiplier)), math.inf
        by: dict[str, tuple[float, Guarantee]] = {}
        heard = self.guessed if about else self.said
        # The last one that was least comes first.
        for analysis in sorted(self.leading, key=lambda one: heard[one.name][-1][1] if heard[one.name] else math.inf):
            said = heard[analysis.name]
            if self.vary == "noise_multiplier" and _lowest(said, level) > math.log(max(best * _BEHIND, _LEAST)):
                continue
            if analysis.why_not(candidate) is None:
                if about:
                    read = analysis.about(candidate, self.delta)
                else:
                    guarantee = analysis.guarantee(candidate)
                    read = guarantee.upper(self.delta)
                    by[analysis.name] = read, guarantee
                best = min(best, read)
                said.append((level, math.log(max(read, _LEAST))))
                if about and candidate.steps >= _MANY and read >= _TOLD:
                    self.said[analysis.name].append((level, math.log(max(read / _UNSURE, _LEAST))))
        if not about:
            self.by[candidate] = by
        return best


def _lowest(said: Sequence[tuple[float, float]], level: float) -> float:
    """What log(epsilon) of a bound is hardly below at this log of the noise, by what was said at others."""
    lowest = -math.inf
    for there, value in said:
        if there >= level or (level - there < _BESIDE and value < math.inf):
            lowest = max(lowest, value - _STEEPEST * max(level - there, 0.0))
    return lowest


def _reached(curve: Curve, epsilon: float, place: Place, near: float, floor: float, *, rough: bool = False) -> Place:
    """Where a falling curve lies at most a share ``near`` below ``epsilon`` and never above it, and its slope there.

    Below ``floor`` nothing is searched. By secants of the logarithms, which are kept within a bracket. Of a ``rough`` curve the
    last secant is not checked, nor the first if another curve told the slope, and where it is not smooth the nearest value counts.
    """
    (x, slope), told = place, place[1] != _SLOPE
    best, most = (math.inf, *place), _SHORT if rough else _LONG
    start, low, high, reach, last = x, -math.inf, math.inf, 1.0, (math.inf, 0.0)
    above = below = 0.0
    for attempt in range(most):
        value = max(min(30.0, math.log(max(curve(x), _LEAST) / epsilon)), -30.0)  # What is not a number counts as infinite.
        if -near <= value <= 0 and not rough:
            return x, slope
        change = (value - last[1]) / (x - last[0]) if abs(x - last[0]) > 1e-7 else 0.0
        if rough and abs(x - last[0]) < _CLOSE and not -_STEPS[1] < change < -_STEPS[0]:
            break
        slope = change if -50 < change < -0.01 else slope
        # A secant errs by about the product of what its two points missed by; a slope that was told, by some share.
        trusted = min(max(_TRUSTED * near if told else 0.0, near / abs(last[1] or 1.0)), _NEARLY)
        if -near <= value <= 0 or (rough and abs(value) <= trusted):
            return x - (value + near / 2) / slope, slope
        best = min(best, (abs(value), x, slope))
        if value > 0:
            low, above = x, value
        else:
            high, below = x, value
        last = x, value
        if high - low < _JUMP and above - below > _STEP * (high - low):
            return high, (below - above) / (high - low)
        if low > start + 40:
            raise InputError(f"no noise_multiplier reaches epsilon {epsilon:g} at this delta: raise epsilon or delta.")
        if high < floor:
            raise InputError(f"epsilon {epsilon:g} needs almost no noise here (noise_multiplier below 1e-5): lower epsilon.")
        x -= min(max((value + near / 2) / slope, -reach), reach)
        if not low < x < high or (attempt % 6 == 5 and high - low < math.inf):
            x = (low + high) / 2
        reach *= 2
    if rough and best[0] < _OFF:
        return best[1:]
    raise InputError(f"epsilon {epsilon:g} cannot be certified at this delta: raise epsilon or delta.")


def _floor(run: Run | Runs) -> float:
    """The log of the factor below which there is almost no noise: nothing is searched there."""
    return math.log(1e-5 / max(largest(one.noise_multiplier) for one in runs_of(run)))


def _calibrate_noise(run: Run | Runs, epsilon: float, spent: _Spent) -> Run | Runs:
    """The least noise, nearly; a schedule is scaled as a whole, and so are several runs.

    Certificates round up to eight digits, and must not say more than ``epsilon`` then.
    """
    place, rough, near = _start(run, spent, epsilon)
    floor, epsilon = _floor(run), down(epsilon)
    for curve in rough:
        with suppress(ArithmeticError, ValueError):
            place = _reached(curve, epsilon, place, near, floor, rough=True)
    x, _ = _reached(lambda x: spent(_scaled(run, math.exp(x))), epsilon, place, near, floor)
    return _scaled(run, math.exp(x))


def rough_noise(run: Run, epsilon: float, delta: float) -> float:
    """About the noise multiplier that composition needs for an epsilon, at once: it certifies nothing."""
    x, _ = _by_composition(run, epsilon, delta)
    return largest(_louder(run, math.exp(x)).noise_multiplier)


def least_noise(run: Run, epsilon: float, delta: float) -> tuple[Run, float, Bound]:
    """``calibrate(run, epsilon=epsilon, delta=delta)`` with what it found on the way, so that nobody need ask again.

    Returns
    -------
    tuple of Run, float and Bound
        The run, its certified epsilon, and the proved bound that says so.
    """
    spent = _Spent(delta, "noise_multiplier")
    found = _calibrate_noise(run, epsilon, spent)
    return found, spent(found), spent.best(found)  # type: ignore[return-value, arg-type]


def _calibrate_count(epsilon: float, spent: _Spent, change: Callable[[int], Run], most: int, what: str, good: int = 1) -> Run:
    """The largest count that stays within epsilon, at least ``good`` where that does."""
    if spent(change(good)) > epsilon:
        raise InputError(f"even {what} = {good} costs more than epsilon {epsilon:g}: raise noise_multiplier, epsilon or delta.")
    bad = 2 * good
    while bad <= most and spent(change(bad)) <= epsilon:
        good, bad = bad, 2 * bad
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if spent(change(middle)) <= epsilon else (good, middle)
    return change(good)


def _most_steps(run: Run, epsilon: float, spent: _Spent) -> Run:
    """Of shuffled batches the last iterate may cost less after all of an epoch than inside it: whole epochs are tried first."""

    def change(steps: int) -> Run:
        return run.replace(steps=steps)

    most, good = int(min(run.sampling.most_steps(run.n), 10**9)), 1
    epoch = run.sampling.epoch_length(run.n)
    if run.sampling.shuffled and run.is_last_iterate and epoch <= most and spent(change(epoch)) <= epsilon:
        good = _calibrate_count(epsilon, spent, lambda epochs: change(epochs * epoch), most // epoch, "epochs").steps
    return _calibrate_count(epsilon, spent, change, most, "steps", good)


@overload
def calibrate(run: Run, *, epsilon: float, delta: float | None = None, vary: str = "noise_multiplier") -> Run: ...
@overload
def calibrate(run: Runs, *, epsilon: float, delta: float | None = None, vary: str = "noise_multiplier") -> Runs: ...
@overload
def calibrate(run: Run | Runs, *, epsilon: float, delta: float | None = None, vary: str = "noise_multiplier") -> Run | Runs: ...
def calibrate(run: Run | Runs, *, epsilon: float, delta: float | None = None, vary: str = "noise_multiplier") -> Run | Runs:
    """Change one quantity of ``run`` so that its certified epsilon is at most ``epsilon``.

    Parameters
    ----------
    run : Run or Runs
        The starting point; the quantity that varies may have any value. A noise schedule keeps its shape and is scaled, and so is
        the noise of several runs.
    epsilon, delta : float
        The target; epsilon > 0, delta in (0, 1), by default ``min(1e-5, 1 / (10 n))``.
    vary : {"noise_multiplier", "steps", "batch_size"}
        Least noise, most steps, or largest batch.

    Returns
    -------
    Run or Runs
        Certified again as a whole: ``account(result, delta).epsilon <= epsilon``. With the noise that varies, neither does a
        certificate say more, which rounds up to eight digits, and it is less by at most 1e-5 of itself, or 1e-4 under random
        allocation, unless a bound jumps there: the noise is then that of the jump, to 1e-4.

    Raises
    ------
    InputError
        The target cannot be met, or a schedule would have to change its length.

    Examples
    --------
    >>> import dplateau as dp
    >>> run = dp.Run(n=10_000, sampling=dp.Poisson(batch_size=100), steps=10_000, noise_multiplier=1.0)
    >>> round(dp.calibrate(run, epsilon=2.0, delta=1e-5).noise_multiplier, 3)
    2.127
    """
    epsilon, delta = real("epsilon", epsilon), checked_delta(delta, checked_run(run).n)
    one_of("vary", vary, VARY)
    check_rounding()
    with usual_errors():
        return _calibrated(run, epsilon, _Spent(delta, vary))


def _calibrated(run: Run | Runs, epsilon: float, spent: _Spent) -> Run | Runs:
    vary = spent.vary
    if vary == "noise_multiplier":
        return _calibrate_noise(run, epsilon, spent)
    if isinstance(run, Runs):
        raise InputError(f'vary="{vary}" is for one run: of several runs only the noise is calibrated.')
    if vary == "steps":
        if not is_constant(run.noise_multiplier, run.step_size, run.sampling.divisors(run.n)):
            raise InputError('vary="steps" needs a constant noise_multiplier, step_size and batch_size.')
        return _most_steps(run, epsilon, spent)
    if not (run.sampling.drawn or run.sampling.allocated) or not is_constant(run.sampling.divisors(run.n)):
        raise InputError('vary="batch_size" needs Poisson, FixedSize or RandomAllocation sampling with a constant batch_size.')
    sampling = run.sampling
    return _calibrate_count(
        epsilon, spent, lambda size: run.replace(sampling=replace(sampling, batch_size=size)), run.n, "batch_size"
    )
