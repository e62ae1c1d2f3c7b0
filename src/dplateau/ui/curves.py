"""The two figures: what the run would cost after other numbers of steps, and what an attacker can do at most."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array
from dplateau.accounting.trade_offs import Gaussian, TradeOff
from dplateau.accounting.trade_offs.piecewise import of_table
from dplateau.analyses import ExactCompositionBound
from dplateau.report.plateau import plateau as of_steps
from dplateau.report.plateau import step_numbers as all_steps
from dplateau.spec import Cyclic, Run, Sampling
from dplateau.ui.noise import found, spent_by
from dplateau.ui.settings import MOST_DRAWN, MOST_STEPS, Settings

_SHARES: Final = ((0.5,), (0.1, 0.01), (0.75, 0.3), (0.05, 1e-3), (0.9, 0.6), (0.2, 0.02, 1e-4))
"""Where the profile of a run is asked that has no closed form, in shares of delta(0), by piece: each (epsilon, delta) is a line
that no trade-off function of the run falls below."""
_LARGEST: Final = 600.0
"""Lines of a larger epsilon say nothing, and their slope is not a number."""


def points_of(scheme: Sampling) -> tuple[int, int]:
    """How many numbers of steps are asked for, and in how many pieces, so that each is there soon."""
    if scheme.full or scheme.ordered:
        return 20, 2
    return 12, 6


def plateau(settings: Settings, piece: int) -> list[tuple[int, float, float]]:
    """Other numbers of steps, and what they cost at the noise of the settings: by composition, and by the least proved bound.

    One piece, every so many steps of all.
    """
    run = found(settings).run
    points, pieces = points_of(run.sampling)
    asked = run if settings.counts_on_last else run.replace(released="all")
    rows = []
    for steps in step_numbers(run, points)[piece::pieces]:
        spent = {bound.name: epsilon for bound, epsilon in spent_by(asked.replace(steps=steps), settings.delta)}
        rows.append((steps, spent[ExactCompositionBound.name], min(spent.values())))
    return rows


def step_numbers(run: Run, points: int) -> tuple[int, ...]:
    """Numbers of steps around those of the run, evenly spaced in the logarithm; whole epochs where the order has any."""
    unit = run.sampling.epoch_length(run.n)
    unit = unit if unit <= run.steps else 1
    by_lot = run.sampling.drawn or run.sampling.allocated
    far = 2 * MOST_DRAWN if by_lot and run.released == "last" else 10 * MOST_STEPS
    most = min(max(min(30 * run.steps, far) // unit, 2), run.sampling.most_steps(run.n))
    least = min(max(1.0, run.steps / unit / 300), most)
    return tuple(sorted({unit * round(count) for count in np.geomspace(least, most, points)} | {run.steps}))


def begins(run: Run, delta: float) -> int | None:
    """About from which number of steps on more of them cost at most 1 % more; None where the cost never stops growing.

    For shuffled batches that of the same batches in a fixed order, which is about the same and found faster.
    """
    fixed = run.replace(sampling=Cyclic(run.sampling.divisors(run.n))) if run.sampling.shuffled else run
    numbers, unit = all_steps(fixed, 10 * MOST_STEPS), fixed.sampling.epoch_length(fixed.n)
    if (about := of_steps(fixed, delta, numbers).begins) is None:
        return None
    before = max((number for number in numbers if number < about), default=about)
    closer = {unit * round(count) for count in np.geomspace(before, about, 12) / unit}
    first = of_steps(fixed, delta, [*closer, numbers[-1]]).begins or about
    return int(float(f"{first:.2g}"))


def trade_off_pieces(settings: Settings) -> int:
    """In how many pieces the trade-off curve comes, each sharper than the one before."""
    return len(_SHARES) if settings.by_lot else 1


def trade_off(settings: Settings, piece: int) -> TradeOff:
    """A certified trade-off function, never above the true one: exact for mu-GDP, else the polygon of some (epsilon, delta)."""
    guarantee = found(settings).best.guarantee
    if guarantee.mu is not None:
        return Gaussian(guarantee.mu)
    known = range(piece + 1) if settings.by_lot else range(len(_SHARES))
    return of_table(*np.array([row for each in known for row in _rows(settings, each)]).T)


@lru_cache(maxsize=256)
def _rows(settings: Settings, piece: int) -> list[tuple[float, float]]:
    """Some (epsilon, delta) of the profile."""
    best = found(settings)
    guarantee = best.best.guarantee
    most = guarantee.chosen(settings.delta).delta(0.0).upper if piece == 0 else _rows(settings, 0)[0][1]
    rows = [(0.0, most)] if piece == 0 else []
    for delta in [*([settings.delta] if piece == 0 else []), *(share * most for share in _SHARES[piece])]:
        if not 0 < delta < 1:
            continue
        epsilon = best.epsilon if delta == settings.delta else guarantee.upper(delta)
        if 0 < epsilon < _LARGEST:
            rows.append((epsilon, delta))
    return rows


def false_alarms() -> Array:
    """Where the curve is drawn."""
    return np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 12, endpoint=False), np.linspace(0.05, 1.0, 39)])
