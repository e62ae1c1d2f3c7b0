"""What last-iterate bounds need of the arithmetic: noise that can hide every shift, and steps that are nearly contractions.

The lemma behind these bounds moves the iterate before the noise by whatever distance two runs are apart, and lets the noise hide
it. Noise on a grid hides only shifts of the grid: if the iterate before the noise has finer bits, they are released as they are. So
iterates are whole numbers of one unit, a power of two; a step rounds what it moves the weights by to whole units, and adds noise in
whole units. What comes out is a function of the rounded iterate plus real Gaussian noise, and every shift between two iterates is
one of the grid. Weights are never rounded but where they are projected, however small steps get.

Rounding and arithmetic violate the contraction. ``round_off`` bounds by how much, from public numbers alone; the bounds allow
``ROUND_OFF`` of the noise for it. Proof: ``docs/proofs/arithmetic.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import ROUND_OFF, Run
from dplateau.training.errors import TooCoarse
from dplateau.training.integers import Bits, most_records, records_that_count

_NOISE_BITS: Final = 30
"""The least noise of a step is 2 to this power of the unit, where that leaves room for the rest; twice that for many weights."""
_MANY: Final = 4096
"""Of more weights, their roundings add up to more than is usual."""
_LARGEST_NOISE: Final = 49
"""The largest is not more: 16 standard deviations are exact in a double."""
_LARGEST_WEIGHT: Final = 60
"""Of the unit: weights are 64-bit integers."""
_ROOM, _SCORE = 16, 64.0
"""Weights that are not projected have room for about 2 to this power of the largest noise, and for such a score each: one pass over
a million records that one feature tells apart gives a weight of 51.
"""
LARGEST_MOVE: Final = 2.0**61
"""A move of the weights is cut off there, in units."""
_LARGEST_MARGIN: Final = 0.1
_DEVIATION: Final = 2.0**-50
"""The share by which the noise may be less than its deviation says, which is computed with up to seven roundings."""
_SMALLEST: Final = 1e-200
"""Noise of a smaller deviation is no number of double precision when it is multiplied, nor the inverse of one."""


@dataclass(frozen=True)
class Lattice:
    """The grid of the iterates of a run; made by ``lattice_of``.

    Attributes
    ----------
    unit : float
        Distance of two grid points, a power of two.
    box : int
        Weights are kept between plus and minus so many units.
    share : float
        The part of the clip norm that gradients may use; the rest pays for rounding when steps are composed.
    """

    unit: float
    box: int
    share: float


def lattice_of(run: Run, loss: GeneralisedLinearLoss, bits: Bits, shape: tuple[int, ...], l2: float, start: float = 0.0) -> Lattice:
    """The grid of a run for weights of ``shape`` that start below ``start`` and l2 coefficients up to ``l2``.

    Raises
    ------
    InputError
        Rounding would take more of the clip norm than a tenth, or more of the noise than the last-iterate bounds allow.
    """
    noise, step, batch = run.table.noise, run.table.step_size, run.table.size
    size = math.prod(shape)
    with np.errstate(over="ignore"):  # refused below
        deviation = step * noise * (run.clip_norm / batch)
        moved = 2 * run.steps * step.max() * run.clip_norm + 16 * math.sqrt(run.steps) * deviation.max()
    # A weight that alone gives such a score has room; no row is longer than its smoothness says.
    curved = loss.smoothness(1.0)
    room = run.diameter or 2 * start + (
        _SCORE * math.sqrt(curved / run.smoothness) if run.smoothness and curved < math.inf else 0.0
    )
    # As far as clipped gradients and noise may take a weight, or as far as rounding allows to follow one.
    reach = start + moved if run.diameter is None else run.diameter
    if not (deviation.min() >= _SMALLEST and reach <= 1 / _SMALLEST):
        raise TooCoarse(
            f"noise of deviation {deviation.min():.3g} on weights that may reach {reach:.3g} is beyond double precision: choose "
            "step_size, noise_multiplier, clip_norm or diameter closer to 1."
        )
    finer = _NOISE_BITS + (size > _MANY)
    wanted = max(deviation.min() * 2.0**-finer, deviation.max() * 2.0**-_LARGEST_NOISE, 2 * room * 2.0**-_LARGEST_WEIGHT)
    unit = 2.0 ** math.floor(math.log2(wanted))
    while True:
        box = 1 << max(0, min(_LARGEST_WEIGHT, math.ceil(math.log2(reach / unit))))
        moved = math.sqrt(size) * (1 + 2.0**-8) * unit * float((batch / step).max()) / run.clip_norm
        found = Lattice(unit, box, 1 - moved - 2 * _arithmetic(run, size, l2, box * unit) - _DEVIATION)
        missed = round_off(run, loss, bits, found, shape, l2)
        fits = found.share >= 1 - _LARGEST_MARGIN and missed <= ROUND_OFF
        if fits or run.diameter is not None or reach <= max(room, 2 * start + deviation.max() * 2.0**_ROOM):
            break
        reach /= 2
    if not found.share >= 1 - _LARGEST_MARGIN:
        raise TooCoarse(
            f"rounding would take more than a tenth of clip_norm ({size} weights, noise_multiplier from {noise.min():g} to "
            f"{noise.max():g}, step sizes from {step.min():g} to {step.max():g}): use fewer weights, a smaller diameter or steps "
            "of more equal sizes."
        )
    if missed > ROUND_OFF:
        raise TooCoarse(
            f"rounding would move {size} weights by {missed:.1g} of the noise, and last-iterate bounds allow {ROUND_OFF:g} "
            f"(diameter {run.diameter}): use fewer weights, a smaller diameter or smaller batches, or released='all'."
        )
    return found


def _arithmetic(run: Run, size: int, l2: float, reach: float) -> float:
    """Most by which the computed move of the weights misses that of the sum, in units of what one record can move them by."""
    batch = float(run.table.size.max())
    return 2.0**-50 * (most_records(run) + math.sqrt(size) * l2 * reach * batch / run.clip_norm)


def round_off(run: Run, loss: GeneralisedLinearLoss, bits: Bits, lattice: Lattice, shape: tuple[int, ...], l2: float) -> float:
    """Most by which a step misses an exact one of its kind, in standard deviations of its noise; 0 where no bound asks."""
    bounded = run.strong_convexity is not None or run.diameter is not None
    if run.smoothness is None or not bounded or not math.isfinite(loss.smoothness(1.0)):
        return 0.0
    noise, step, batch = run.table.noise, run.table.step_size, run.table.size
    size, d = math.prod(shape), shape[0]
    reach = lattice.box * lattice.unit * math.sqrt(size) if run.diameter is None else run.diameter / 2
    least = float((step * noise * (run.clip_norm / batch)).min())
    grid = math.sqrt(size) * (1 + 2.0**-8) * lattice.unit / least
    projection = 0.0
    if run.diameter is not None:
        projection = ((size.bit_length() / 2 + 6) * 2.0**-53 * reach + math.sqrt(size) / 2 * lattice.unit) / least
    row = loss.longest_row(run.smoothness)
    widest = min(reach, lattice.box * lattice.unit)
    scores = row * (widest * math.sqrt(d) * 2.0 ** (-2 * bits.weight) + reach * 2.0**-51)
    residuals = row * (loss.smoothness(1.0) * scores + loss.residual_error) / run.clip_norm
    whole = math.sqrt(size) * 2.0 ** (bits.widest(run) - bits.trailing - bits.gradient) + 2.0**-48
    gradients = records_that_count(run) * (residuals + whole) + _arithmetic(run, size, l2, reach)
    return grid + projection + gradients / float(noise.min())
