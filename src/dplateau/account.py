"""``account``: what a run costs. ``calibrate``: what must change for it to cost no more than wanted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from textwrap import fill
from typing import Any, Final, overload

from dplateau.accounting import Bound, Enclosure, NotApplicable, compositions
from dplateau.accounting.contour import rough_epsilon
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.roots import root
from dplateau.accounting.trade_offs import TradeOff, maximum, trade_off
from dplateau.analyses import ANALYSES, Analysis, ExactCompositionAnalysis
from dplateau.analyses.composed import composed, each_by_its_best
from dplateau.spec import FixedSize, InputError, OnePass, Poisson, PrivacyWarning, Run, Runs
from dplateau.spec.schedule import real

VARY: Final = ("noise_multiplier", "steps", "batch_size")


@dataclass(frozen=True)
class Row:
    """One analysis in a report: its epsilon at the report's delta, or why it has none.

    Attributes
    ----------
    name, status, source : str
        The analysis, the status of its bound, and where it is from.
    epsilon : Enclosure or None
        What the bound gives at the report's delta; certificates use the upper end.
    why_not : str or None
        The missing assumption and how to meet it, where the analysis does not apply.
    bound : Bound or None
        The statement itself, to read it at other deltas.
    """

    name: str
    status: str
    source: str
    epsilon: Enclosure | None
    why_not: str | None
    bound: Bound | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        finite = self.epsilon if self.epsilon is not None and math.isfinite(self.epsilon.upper) else None
        return {
            "name": self.name,
            "status": self.status,
            "epsilon": finite.upper if finite else None,
            "enclosure": [finite.lower, finite.upper] if finite else None,
            "why_not": self.why_not or (None if finite else "no finite epsilon could be certified"),
            "source": self.source,
        }


@dataclass(frozen=True)
class Report:
    """What every analysis says of one run at one delta.

    Attributes
    ----------
    run : Run or Runs
        The run, or the runs that were composed.
    delta : float
        The delta that every epsilon here belongs to.
    bounds : tuple of Row
        Every analysis, applicable or not.
    """

    run: Run | Runs
    delta: float
    bounds: tuple[Row, ...]

    @property
    def best(self) -> Row | None:
        """The least ``Proved`` bound; None where there is no finite one."""
        proved = [row for row in self.bounds if row.bound is not None and row.bound.certifies and row.epsilon is not None]
        finite = [row for row in proved if row.epsilon is not None and math.isfinite(row.epsilon.upper)]
        least = min((row.epsilon.upper for row in finite if row.epsilon), default=0.0)
        # Closed forms of the same bound differ by a rounding: the first in the table counts.
        return next((row for row in finite if row.epsilon and row.epsilon.upper <= least * (1 + 1e-12)), None)

    @property
    def ranked(self) -> list[tuple[float, Row]]:
        """Every row that has an epsilon, with its upper end: the certified one, then the others, the least first."""
        best = self.best
        values = [(row.epsilon.upper, row) for row in self.bounds if row.epsilon is not None]
        return sorted(values, key=lambda pair: (pair[1] is not best, pair[0]))

    @property
    def epsilon(self) -> float:
        """The certified epsilon at ``delta``: the upper end of the least ``Proved`` bound; infinite where there is none."""
        return self.best.epsilon.upper if self.best is not None and self.best.epsilon is not None else math.inf

    @property
    def mu(self) -> float | None:
        """mu, where the least proved bound is a mu-GDP statement."""
        return self.best.bound.guarantee.mu if self.best is not None and self.best.bound is not None else None

    def profile(self, deltas: Sequence[float]) -> list[Enclosure]:
        """The least proved epsilon at each of ``deltas``, enclosed."""
        return [_least(self._leading, delta) for delta in deltas]

    @property
    def _leading(self) -> list[Bound]:
        """The proved bounds, without those that another one dominates: they could only be asked in vain."""
        dominated = {analysis.name for analysis in ANALYSES if analysis.dominated_by is not None}
        proved = [row.bound for row in self.bounds if row.bound is not None and row.bound.certifies]
        return [bound for bound in proved if bound.name not in dominated]

    @cached_property
    def trade_off(self) -> TradeOff:
        """The certified trade-off function: the largest of those of the proved bounds, all of which hold.

        ``trade_off(alpha)`` is the least type II error of any attack with type I error alpha; ``dplateau.accounting.attack`` reads
        it in plain words.
        """
        functions = [trade_off(bound.guarantee) for bound in self._leading]
        return functions[0] if len(functions) == 1 else maximum(*functions)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        z, best = self.run.noise_multiplier, self.best
        return {
            "epsilon": self.epsilon if best else None,
            "delta": self.delta,
            "noise_multiplier": _plain(z),
            "bound": best.name if best else None,
            "status": best.status if best else None,
            "adjacency": self.run.adjacency,
            "released": self.run.released,
            "bounds": [row.to_dict() for row in self.bounds],
            "run": self.run.to_dict(),
        }

    def __str__(self) -> str:
        """A plain-text table of every analysis: proved values, the least first, then values without a guarantee, then the rest."""
        lines = [
            f"epsilon = {rounded_up(self.epsilon)} at delta = {self.delta:g} ({self.run.adjacency}, released: {self.run.released})"
        ]
        values = self.ranked
        width = max((len(row.name) for _, row in values), default=0) + 2
        for head, proved in (("proved", True), ("no guarantee", False)):
            rows = [(value, row) for value, row in values if (row.status == "Proved") is proved]
            lines += ["", f"{head:<{width + 2}}{'epsilon':<10}source"] if rows else []
            for value, row in rows:
                mark, source = "*" if row is self.best else " ", row.source if proved else f"{row.status}: {row.source}"
                lines.append(f"{mark} {row.name:<{width}}{rounded_up(value):<10}{source}")
        reasons: dict[str, list[str]] = {}
        for row in self.bounds:
            if row.epsilon is None:
                reasons.setdefault(row.why_not or "", []).append(row.name)
        lines += ["", "not applicable, because"] if reasons else []
        for reason, names in reasons.items():
            lines += [
                f"  {reason}",
                fill(", ".join(names), 80, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False),
            ]
        return "\n".join([*lines, "", "* certifies the release; only Proved bounds may."])


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def checked_delta(delta: float, n: int) -> float:
    """``delta``, if it is one; with a ``PrivacyWarning`` at the caller's caller where it is too large for n records."""
    delta = real("delta", delta)
    if delta >= 1:
        raise InputError(f"delta is {delta:g}: expected a number in (0, 1), well below 1/n = {1 / n:.3g}.")
    if delta >= 1 / n:
        message = f"delta {delta:g} is at least 1/n = {1 / n:.3g}: publishing a random record satisfies it. Choose delta below 1/n."
        warnings.warn(message, PrivacyWarning, stacklevel=3)
    return delta


def _least(bounds: Sequence[Bound], delta: float) -> Enclosure:
    return min((bound.guarantee.epsilon(delta) for bound in bounds), key=lambda e: e.upper, default=Enclosure(0.0, math.inf))


def _row(bound: Bound | NotApplicable, delta: float) -> Row:
    if isinstance(bound, NotApplicable):
        return Row(bound.name, bound.status, bound.source, None, bound.why_not, None)
    if (reason := bound.guarantee.why_not(delta)) is not None:
        return Row(bound.name, bound.status, bound.source, None, reason, None)
    return Row(bound.name, bound.status, bound.source, bound.guarantee.epsilon(delta), None, bound)


def _leading() -> list[Analysis]:
    """The proved analyses that no other one dominates."""
    return [analysis for analysis in ANALYSES if analysis.status.certifies and analysis.dominated_by is None]


def _bounds(run: Run | Runs, delta: float) -> Iterator[Bound | NotApplicable]:
    """What every analysis says; of several runs first what their own best bounds say together."""
    if isinstance(run, Runs):
        yield each_by_its_best(run, _leading(), delta)
    for analysis in ANALYSES:
        yield composed(analysis, run) if isinstance(run, Runs) else analysis.bound(run)


def compose(*runs: Run | Runs) -> Runs:
    """Several runs on the same records, as one: phases of a training, or one model after the other.

    ``account`` then says what all of them cost together; each run may use everything that earlier ones released. Their number and
    parameters are fixed in advance: for runs that are chosen on the way see ``Filter``.

    Parameters
    ----------
    *runs : Run or Runs
        In the order in which they take place, all with the same ``n`` and ``adjacency``.

    Raises
    ------
    InputError
        There is no run, or they differ in ``n`` or ``adjacency``.

    Examples
    --------
    >>> import dplateau as dp
    >>> first = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=3516, noise_multiplier=1.3)
    >>> second = dp.Run(n=60_000, sampling=dp.FullBatch(), steps=10, noise_multiplier=20.0)
    >>> round(dp.account(dp.compose(first, second), delta=1e-5).epsilon, 4)
    1.0571
    """
    return Runs(one for run in runs for one in (run.runs if isinstance(run, Runs) else (run,)))


def account(run: Run | Runs, delta: float = 1e-5) -> Report:
    """Ask every analysis what ``run`` costs.

    Parameters
    ----------
    run : Run or Runs
        What was computed and released; several runs on the same records by ``compose``.
    delta : float, default 1e-5
        In (0, 1); at 1/n or above a ``PrivacyWarning`` says why that is too large.

    Returns
    -------
    Report
        ``report.epsilon`` is certified: the upper end of the least ``Proved`` bound. ``print(report)`` shows every analysis.

    Raises
    ------
    InputError
        ``delta`` is not in (0, 1).

    Examples
    --------
    >>> import dplateau as dp
    >>> run = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=3516, noise_multiplier=1.3)
    >>> round(dp.account(run, delta=1e-5).epsilon, 4)
    0.8645
    """
    delta = checked_delta(delta, run.n)
    return Report(run, delta, tuple(_row(bound, delta) for bound in _bounds(run, delta)))


def _scaled(run: Run | Runs, factor: float) -> Run | Runs:
    if isinstance(run, Runs):
        return Runs(_louder(one, factor) for one in run.runs)
    return _louder(run, factor)


def _louder(run: Run, factor: float) -> Run:
    z = run.noise_multiplier
    return run.replace(noise_multiplier=tuple(factor * value for value in z) if isinstance(z, tuple) else factor * z)


Guess = tuple[float, float]


def _guess(run: Run | Runs, leading: Sequence[Analysis], epsilon: float, delta: float) -> Guess | None:
    """The log of the factor that the noise needs, and d log(epsilon) by it, in the saddle-point approximation.

    None where other bounds than the exact composition apply as well, or where the search fails.
    """
    if isinstance(run, Runs) or [one.name for one in leading if one.why_not(run) is None] != [ExactCompositionAnalysis.name]:
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
    leading = _leading()

    @cache
    def spent(candidate: Run | Runs) -> float:
        if isinstance(candidate, Runs):
            bounds = [each_by_its_best(candidate, leading, delta), *(composed(analysis, candidate) for analysis in leading)]
        else:
            bounds = [analysis.bound(candidate) for analysis in leading]
        return _least([bound for bound in bounds if not isinstance(bound, NotApplicable)], delta).upper

    if vary == "noise_multiplier":
        return _calibrate_noise(run, epsilon, spent, _guess(run, leading, epsilon, delta))
    if isinstance(run, Runs):
        raise InputError(f'vary="{vary}" is for one run: of several runs only the noise is calibrated.')
    if vary == "steps":
        if any(
            isinstance(value, tuple) for value in (run.noise_multiplier, run.step_size, getattr(run.sampling, "batch_size", None))
        ):
            raise InputError('vary="steps" needs a constant noise_multiplier, step_size and batch_size.')
        size = run.sampling.divisors(run.n)
        most = int(run.n // size) if isinstance(run.sampling, OnePass) and not isinstance(size, tuple) else 10**9
        return _calibrate_count(epsilon, spent, lambda steps: run.replace(steps=steps), most, "steps")
    if not isinstance(run.sampling, (Poisson, FixedSize)) or isinstance(run.sampling.batch_size, tuple):
        raise InputError('vary="batch_size" needs Poisson or FixedSize sampling with a constant batch_size.')
    sampling = run.sampling
    return _calibrate_count(
        epsilon, spent, lambda size: run.replace(sampling=replace(sampling, batch_size=size)), run.n, "batch_size"
    )
