"""The two figures: what the run would cost after other numbers of steps, and what an attacker can do at most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from dplateau.accounting import NotApplicable
from dplateau.accounting.attack import true_positive_rate
from dplateau.accounting.gaussian import Array
from dplateau.accounting.trade_offs import Gaussian, TradeOff
from dplateau.accounting.trade_offs.piecewise import of_table
from dplateau.analyses import Analysis, ExactCompositionBound, FixedOrderBound, RenyiCompositionBound, ShuffledBound
from dplateau.report.plateau import FLAT
from dplateau.report.trade_off import FALSE_ALARMS
from dplateau.spec import Cyclic, FullBatch, Poisson, Run, Shuffled
from dplateau.ui.noise import found
from dplateau.ui.sampled import is_nearly_gaussian
from dplateau.ui.settings import MOST_STEPS, Settings

POINTS: Final = {FullBatch.kind: (20, 2), Cyclic.kind: (20, 2), Shuffled.kind: (12, 6), Poisson.kind: (12, 6)}
"""How many numbers of steps are asked for, and in how many pieces: each has to be there within a tenth of a second."""
_SHARES: Final = ((0.5, 0.1, 0.01), (0.75, 0.3, 0.05, 1e-3), (0.9, 0.6, 0.2, 0.02, 1e-4))
"""Where the profile of a run is asked that has no closed form, in shares of delta(0), by piece: each (epsilon, delta) is a line
that no trade-off function of the run falls below."""
_LARGEST: Final = 600.0
"""Lines of a larger epsilon say nothing, and their slope is no number."""
_COMPOSITION: Final = ExactCompositionBound()


@dataclass(frozen=True)
class Plateau:
    """A piece of the curve of epsilon against steps.

    Attributes
    ----------
    steps : tuple of int
        Numbers of steps, rising.
    composition, certified : tuple of float
        Epsilon by composition, and by the best bound that holds: equal where no last-iterate bound does.
    """

    steps: tuple[int, ...]
    composition: tuple[float, ...]
    certified: tuple[float, ...]


def last_iterate(run: Run) -> FixedOrderBound | ShuffledBound | None:
    """The last-iterate bound that holds for the run, if one does."""
    return next((analysis for analysis in (FixedOrderBound(), ShuffledBound()) if analysis.why_not(run) is None), None)


def plateau(settings: Settings, piece: int) -> Plateau:
    """Epsilon after other numbers of steps, at the noise of the settings: one piece of ``POINTS``, every so many steps of all.

    Under Poisson sampling by the bound that gave the noise; where that would take long, a number of steps is left out.
    """
    best, delta = found(settings), settings.delta
    run = best.run
    points, pieces = POINTS[run.sampling.kind]
    last, by_renyi = last_iterate(run), best.best.name == RenyiCompositionBound.name
    rows: list[tuple[int, float, float]] = []
    for steps in step_numbers(run, points)[piece::pieces]:
        longer = run.replace(steps=steps)
        if steps == run.steps and last is None:
            rows.append((steps, best.epsilon, best.epsilon))
            continue
        if settings.sampling == Poisson.kind and not by_renyi and not is_nearly_gaussian(longer, delta):
            continue
        composed = _epsilon(RenyiCompositionBound() if by_renyi else _COMPOSITION, longer, delta)
        rows.append((steps, composed, composed if last is None else min(composed, _epsilon(last, longer, delta))))
    steps, composition, certified = zip(*rows, strict=True) if rows else ((), (), ())
    return Plateau(steps, composition, certified)


def step_numbers(run: Run, points: int) -> tuple[int, ...]:
    """Numbers of steps around those of the run, evenly spaced in the logarithm; whole epochs where the order has any."""
    unit = run.sampling.epoch_length(run.n)
    unit = unit if unit <= run.steps else 1
    most = max(min(30 * run.steps, 10 * MOST_STEPS) // unit, 2)
    least = max(1.0, run.steps / unit / 300)
    return tuple(sorted({unit * round(count) for count in np.geomspace(least, most, points)} | {run.steps}))


def begins(run: Run, delta: float) -> int | None:
    """About from which number of steps on more of them cost at most 1 % more; None where the cost never stops growing.

    For shuffled batches that of the same batches in a fixed order, which is about the same and found faster.
    """
    if last_iterate(run) is None or not (run.diameter or run.strong_convexity):
        return None
    fixed = run.replace(sampling=Cyclic(run.sampling.divisors(run.n))) if run.sampling.shuffled else run
    unit, most = int(fixed.sampling.epoch_steps(fixed.n)), 10 * MOST_STEPS

    def cost(steps: int) -> float:
        return FixedOrderBound().guarantee(fixed.replace(steps=steps)).epsilon(delta).upper

    top = cost(most)
    low, high = math.log(unit), math.log(most)
    if not 0 < top < math.inf or cost(most // 10) < top * (1 - FLAT):
        return None
    while high - low > 0.04:
        middle = (low + high) / 2
        enough = cost(unit * max(1, round(math.exp(middle) / unit))) >= top * (1 - FLAT)
        low, high = (low, middle) if enough else (middle, high)
    return int(float(f"{math.exp(high):.2g}"))


def _epsilon(analysis: Analysis, run: Run, delta: float) -> float:
    bound = analysis.bound(run)
    return math.inf if isinstance(bound, NotApplicable) else bound.guarantee.epsilon(delta).upper


def trade_off_pieces(settings: Settings) -> int:
    """In how many pieces the trade-off curve comes, each sharper than the one before."""
    return len(_SHARES) if settings.sampling == Poisson.kind else 1


def trade_off(settings: Settings, piece: int) -> TradeOff:
    """A certified trade-off function, never above the true one: exact for mu-GDP, else the polygon of some (epsilon, delta)."""
    guarantee = found(settings).best.guarantee
    if guarantee.mu is not None:
        return Gaussian(guarantee.mu)
    known = range(piece + 1) if settings.sampling == Poisson.kind else range(len(_SHARES))
    return of_table(*np.array([row for each in known for row in _rows(settings, each)]).T)


@lru_cache(maxsize=256)
def _rows(settings: Settings, piece: int) -> list[tuple[float, float]]:
    """Some (epsilon, delta) of the profile."""
    best = found(settings)
    guarantee, exact = best.best.guarantee, best.best.name == ExactCompositionBound.name
    most = guarantee.delta(0.0).upper if piece == 0 else _rows(settings, 0)[0][1]
    rows = [(0.0, most)] if piece == 0 else []
    for delta in [*([settings.delta] if piece == 0 else []), *(share * most for share in _SHARES[piece])]:
        if not 0 < delta < 1 or (exact and not is_nearly_gaussian(best.run, delta)):
            continue
        epsilon = best.epsilon if delta == settings.delta else guarantee.epsilon(delta).upper
        if 0 < epsilon < _LARGEST:
            rows.append((epsilon, delta))
    return rows


def false_alarms() -> Array:
    """Where the curve is drawn."""
    return np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 12, endpoint=False), np.linspace(0.05, 1.0, 39)])


def readings(f: TradeOff) -> list[tuple[float, float]]:
    """False alarms, and the most that an attack with so many detects."""
    return [(rate, true_positive_rate(f, rate)) for rate in FALSE_ALARMS]
