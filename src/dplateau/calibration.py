"""``calibrate``: what must change for a run to cost no more than wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Final, overload

from dplateau._account import checked_delta, leading_analyses, least_epsilon
from dplateau.accounting import NotApplicable, compositions
from dplateau.accounting.contour import rough_epsilon
from dplateau.accounting.roots import root
from dplateau.analyses import Analysis, ExactCompositionBound
from dplateau.analyses.composed import composed, each_by_its_best
from dplateau.spec import InputError, Run, Runs
from dplateau.spec.schedule import is_constant, real, scaled

VARY: Final = ("noise_multiplier", "steps", "batch_size")
Guess = tuple[float, float]


def _scaled(run: Run | Runs, factor: float) -> Run | Runs:
    if isinstance(run, Runs):
        return Runs(_louder(one, factor) for one in run.runs)
    return _louder(run, factor)


def _louder(run: Run, factor: float) -> Run:
    return run.replace(noise_multiplier=scaled(run.noise_multiplier, factor))


def _guess(run: Run | Runs, leading: Sequence[Analysis], epsilon: float, delta: float) -> Guess | None:
    """The log of the factor that the noise needs, and d log(epsilon) by it, in the saddle-point approximation.

    None where other bounds than the exact composition apply as well, or where the search fails.
    """
    if isinstance(run, Runs) or [one.name for one in leading if one.why_not(run) is None] != [ExactCompositionBound.name]:
        return None
    x, slope, last = 0.0, -1.3, None
    with suppress(ArithmeticError, ValueError):
        for _ in range(12):
            candidate = _scaled(run, math.exp(x))
            direction = compositions(candidate)[0][0] if isinstance(candidate, Run) else None
            if direction is None or not direction.terms:
                return None
            value = math.log(rough_epsilon(direction, delta) / epsilon)
            if last is not None and x != last[0]:
                slope = (value - last[1]) / (x - last[0])
            if not -50 < slope < -0.01:
                return None
            if abs(value) < 1e-3:
                return x - value / slope, slope
            last = x, value
            x -= min(max(value / slope, -1.0), 1.0)
    return None


def _by_secants(excess: Callable[[float], float], guess: Guess) -> float | None:
    """Where ``excess`` is at most 0 and at least -1.5e-8, from a good guess; None where a few secants do not find it."""
    x, slope = guess
    last: Guess | None = None
    for _ in range(6):
        value = excess(x)
        if -1.5e-8 <= value <= 0:
            return x
        if last is not None and abs(x - last[0]) > 1e-7:
            slope = (value - last[1]) / (x - last[0])
        if not -50 < slope < -0.01 or abs(value) > 0.1:
            return None
        last = x, value
        x -= (value + 5e-9) / slope
    return None


def _calibrate_noise(run: Run | Runs, epsilon: float, spent: Callable[[Run | Runs], float], guess: Guess | None) -> Run | Runs:
    """The least noise, to a relative 1e-8; a schedule is scaled as a whole, and so are several runs."""

    def excess(log_factor: float) -> float:
        value = spent(_scaled(run, math.exp(log_factor)))
        return min(max(math.log(max(value, 1e-12) / epsilon), -30.0), 30.0)

    near = _by_secants(excess, guess) if guess else None
    if near is not None and spent(answer := _scaled(run, math.exp(near))) <= epsilon:
        return answer
    # log epsilon falls about as 1.3 log(noise); the root is bracketed from that guess outwards.
    first = excess(0.0)
    low, high = sorted((0.0, first * 1.2))
    step = 0.2 + abs(first) / 2
    while excess(high) > 0:
        low, high, step = high, high + step, 2 * step
        if high > 40:
            raise InputError(f"no noise_multiplier reaches epsilon {epsilon:g} at this delta: raise epsilon or delta.")
    while excess(low) <= 0:
        high, low, step = low, low - step, 2 * step
        if low < -12:
            raise InputError(f"epsilon {epsilon:g} needs almost no noise here (noise_multiplier below 1e-5): lower epsilon.")
    least = root(excess, low, high, xtol=1e-8)
    for nudge in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        answer = _scaled(run, math.exp(least + nudge))
        if spent(answer) <= epsilon:
            return answer
    raise InputError(f"epsilon {epsilon:g} cannot be certified at this delta: raise epsilon or delta.")


def _calibrate_count(epsilon: float, spent: Callable[[Run], float], change: Callable[[int], Run], most: int, what: str) -> Run:
    """The largest count that stays within epsilon."""
    if spent(change(1)) > epsilon:
        raise InputError(f"even {what} = 1 costs more than epsilon {epsilon:g}: raise noise_multiplier, epsilon or delta.")
    good, bad = 1, 2
    while bad <= most and spent(change(bad)) <= epsilon:
        good, bad = bad, 2 * bad
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if spent(change(middle)) <= epsilon else (good, middle)
    return change(good)


@overload
def calibrate(run: Run, *, epsilon: float, delta: float = 1e-5, vary: str = "noise_multiplier") -> Run: ...
@overload
def calibrate(run: Runs, *, epsilon: float, delta: float = 1e-5, vary: str = "noise_multiplier") -> Runs: ...
@overload
def calibrate(run: Run | Runs, *, epsilon: float, delta: float = 1e-5, vary: str = "noise_multiplier") -> Run | Runs: ...
def calibrate(run: Run | Runs, *, epsilon: float, delta: float = 1e-5, vary: str = "noise_multiplier") -> Run | Runs:
    """Change one quantity of ``run`` so that its certified epsilon is at most ``epsilon``.

    Parameters
    ----------
    run : Run or Runs
        The starting point; the quantity that varies may have any value. A noise schedule keeps its shape and is scaled, and so is
        the noise of several runs.
    epsilon, delta : float
        The target; epsilon > 0, delta in (0, 1).
    vary : {"noise_multiplier", "steps", "batch_size"}
        Least noise, most steps, or largest batch.

    Returns
    -------
    Run or Runs
        Certified again as a whole: ``account(result, delta).epsilon <= epsilon``.

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
    epsilon, delta = real("epsilon", epsilon), checked_delta(delta, run.n)
    if vary not in VARY:
        raise InputError(f"vary is {vary!r}: expected one of {', '.join(VARY)}.")
    leading = leading_analyses()

    @cache
    def spent(candidate: Run | Runs) -> float:
        if isinstance(candidate, Runs):
            bounds = [each_by_its_best(candidate, leading, delta), *(composed(analysis, candidate) for analysis in leading)]
        else:
            bounds = [analysis.bound(candidate) for analysis in leading]
        return least_epsilon([bound for bound in bounds if not isinstance(bound, NotApplicable)], delta).upper

    if vary == "noise_multiplier":
        return _calibrate_noise(run, epsilon, spent, _guess(run, leading, epsilon, delta))
    if isinstance(run, Runs):
        raise InputError(f'vary="{vary}" is for one run: of several runs only the noise is calibrated.')
    if vary == "steps":
        if not is_constant(run.noise_multiplier, run.step_size, run.sampling.divisors(run.n)):
            raise InputError('vary="steps" needs a constant noise_multiplier, step_size and batch_size.')
        most = int(min(run.sampling.most_steps(run.n), 10**9))
        return _calibrate_count(epsilon, spent, lambda steps: run.replace(steps=steps), most, "steps")
    if not run.sampling.drawn or not is_constant(run.sampling.divisors(run.n)):
        raise InputError('vary="batch_size" needs Poisson or FixedSize sampling with a constant batch_size.')
    sampling = run.sampling
    return _calibrate_count(
        epsilon, spent, lambda size: run.replace(sampling=replace(sampling, batch_size=size)), run.n, "batch_size"
    )
