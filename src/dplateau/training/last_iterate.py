"""What last-iterate bounds need of the arithmetic: noise that can hide every shift, and steps that are nearly contractions.

The lemma behind these bounds moves the iterate before the noise by whatever distance two runs are apart, and lets the noise hide
it. Noise on a grid hides only shifts of the grid: if the iterate before the noise has finer bits, they are released as they are. So
a step rounds the *whole* iterate to the grid of the noise in it, ``step_size * unit / batch_size``, and adds the noise in whole
numbers. What comes out is a function of the rounded iterate plus real Gaussian noise, and every shift between two rounded iterates
is one of the grid.

Rounding and arithmetic violate the contraction. ``round_off`` bounds by how much, from public numbers alone; the bounds allow
``ROUND_OFF`` of the noise for it. Proof: ``docs/proofs/arithmetic.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import ROUND_OFF, InputError, Poisson, Run
from dplateau.training.integers import Bits

_NOISE_BITS, _MOST_NOISE_BITS = 30, 34
"""The least noise of a run is 2 to this power of its units, where a double has room for that and the largest is not above that."""
_BOX: Final = 46
"""Weights stay below 2 to this power of the units of the finest step: rounding in double precision is far below a unit."""
LARGEST: Final = 2.0**47
"""In units of its noise, an iterate before the noise is cut off here."""
_LARGEST_MARGIN: Final = 0.1


@dataclass(frozen=True)
class Lattice:
    """The grids of the noise of a last-iterate run; made by ``lattice_of``.

    Attributes
    ----------
    bits : int
        The clip norm is 2^bits units of the noise, on the summed gradient. May be negative.
    box : float
        Weights are kept between plus and minus this number.
    share : float
        The part of the clip norm that gradients may use; the rest pays for rounding when steps are composed.
    """

    bits: int
    box: float
    share: float


def lattice_of(run: Run, loss: GeneralisedLinearLoss, bits: Bits, shape: tuple[int, ...], l2: float) -> Lattice:
    """The grids of a run for weights of ``shape`` and l2 coefficients up to ``l2``.

    Raises
    ------
    InputError
        Rounding would take more of the clip norm than a tenth, or more of the noise than the last-iterate bounds allow.
    """
    noise, step, batch = _ranges(run)
    size = math.prod(shape)
    finest, widest = step.min() / batch.max(), float(step.max() * noise.max() / batch.min())
    # Room: for the ball, or else for 2^13 standard deviations of the iterate; and for the noise.
    room = (
        _BOX - 13 - math.ceil(math.log2(widest / finest))
        if run.diameter is None
        else _BOX + math.floor(math.log2(finest * run.clip_norm / run.diameter))
    )
    places = min(_NOISE_BITS - math.floor(math.log2(noise.min())), _MOST_NOISE_BITS - math.ceil(math.log2(noise.max())), room)
    unit = run.clip_norm * 2.0**-places
    # Of rounding, beside that to the grid, in a coordinate.
    units = 2.0**-4 * (1 + float(step.max()) * l2) + run.n * 2.0 ** (places - 50)
    share = 1 - math.sqrt(size) * (2 * units + 1) * 2.0**-places
    if not share >= 1 - _LARGEST_MARGIN:
        raise InputError(
            f"rounding would take more than a tenth of clip_norm (noise_multiplier {noise.min():g}, {size} weights, step sizes "
            f"from {step.min():g} to {step.max():g}): use fewer weights, a smaller diameter or steps of more equal sizes."
        )
    found = Lattice(bits=places, box=finest * unit * 2.0**_BOX, share=share)
    if (missed := round_off(run, loss, bits, found, shape, units)) > ROUND_OFF:
        raise InputError(
            f"rounding would move {size} weights by {missed:.1g} of the noise, and last-iterate bounds allow {ROUND_OFF:g} "
            f"(diameter {run.diameter}): use fewer weights, a smaller diameter or smaller batches, or released='all'."
        )
    return found


def round_off(run: Run, loss: GeneralisedLinearLoss, bits: Bits, lattice: Lattice, shape: tuple[int, ...], units: float) -> float:
    """Most by which a step misses an exact one of its kind, in standard deviations of its noise; 0 where no bound asks."""
    if run.smoothness is None or run.strong_convexity is None or not math.isfinite(loss.smoothness(1.0)):
        return 0.0
    noise, step, batch = _ranges(run)
    size, d = math.prod(shape), shape[0]
    least = float(np.min(noise)) * run.clip_norm
    # What is rounded after the noise of one step is an error of the next one, whose noise may be smaller.
    falls = float(np.max((step / batch)[:-1] / (step / batch)[1:], initial=1.0))
    grid = math.sqrt(size) * (0.5 + units + 0.6 * falls) * run.clip_norm * 2.0**-lattice.bits / least
    reach = lattice.box * math.sqrt(size) if run.diameter is None else run.diameter / 2
    projection = 0.0 if run.diameter is None else (size + 8) * 2.0**-52 * reach / (least * float(step.min() / batch.max()))
    # Poisson batches that are too large for a contraction are paid for by the bounds themselves.
    largest = float(batch.max())
    if isinstance(run.sampling, Poisson):
        largest = min(run.n, max(largest, 2 * float((batch / step).max()) / run.smoothness))
    row = math.sqrt(run.smoothness / loss.smoothness(1.0))  # no row is longer, or the smoothness would not hold
    scores = row * reach * (math.sqrt(d) * 2.0 ** (-2 * bits.weight) + 2.0**-52)
    residuals = row * (loss.smoothness(1.0) * scores + loss.residual_error)
    whole = run.clip_norm * (math.sqrt(size) * 2.0 ** (bits.row - bits.trailing - bits.gradient) + 2.0**-48)
    return grid + projection + largest * (residuals + whole) / least


def _ranges(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noise multipliers, step sizes and public batch sizes: of every step, or, where their lengths differ, the range of each."""
    columns = [np.atleast_1d(value) for value in (run.noise_multiplier, run.step_size or 0.0, run.sampling.divisors(run.n))]
    lengths = {len(column) for column in columns} - {1}
    if len(lengths) <= 1:
        return tuple(np.broadcast_arrays(*columns))  # type: ignore[return-value]
    noise, step, batch = (np.array([column.max(), column.min()]) for column in columns)
    return noise, step, batch[::-1]
