"""Rounding that makes floating-point noise as good as real noise.

A floating-point sampler does not reach every number, and which numbers ``gradient + noise`` can reach depends on the gradient:
outputs that one data set can give and its neighbour cannot tell the two apart, whatever the noise (Mironov 2012, "On
significance of the least significant bits for differential privacy"; Jin, McMurtry, Rubinstein, Ohrimenko 2022, "Are we there
yet? Timing and floating-point attacks on differential privacy systems").

So the summed gradient and the noise are both rounded to one public grid, 2^-20 (in float64: 2^-30) times the power of two at or
below the smallest standard deviation of the noise, before they are added. Both are then small multiples of the spacing, which
double precision adds *exactly*, and rounding the noise commutes with adding a multiple of the spacing: the sum equals "rounded
gradient plus ideal noise, rounded", a function of what the analysis is about. All later arithmetic is post-processing.

Rounding moves each of the D coordinates of a sum by at most half a spacing, so two sums move apart by at most
``sqrt(D) * spacing``, once, whichever adjacency. Examples are therefore clipped to the clip norm *less* that margin, and the
sensitivity of the rounded sums is the clip norm that the ``Run`` states.

The margin also pays for the arithmetic before rounding: a few units in the last place for clipping one example, and b/2 units
for adding b of them, because the rounding errors of a long sum change with one record.

**Limits.** In float32 the worst case of a sum of b terms is larger than b/2 units; what was measured, on gradients that all
point the same way, is a third of that (5e-4 clip norms at b = 29,305, 1e-6 at b = 256). With ``dtype="float64"`` it is below 1e-12
either way.

A last-iterate bound takes the gradient step for a contraction, which rounding violates by at most ``step_size * sqrt(D) * spacing /
b`` a step, and arithmetic by some units in the last place of the weights. The bound allows ``ROUND_OFF`` of the noise for both; so
such runs are trained in float64, and refused where even that is too coarse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import ROUND_OFF, InputError, Run

_BITS: Final = {"float32": 20, "float64": 30}
_LARGEST_MARGIN: Final = 0.1


@dataclass(frozen=True)
class Grid:
    """The public grid of one run.

    Parameters
    ----------
    spacing : float
        Distance of two grid points, a power of two, in units of the summed gradient.
    clip_norm : float
        What examples are clipped to so that the rounded sums have the sensitivity of the run's ``clip_norm``; slightly smaller.
    """

    spacing: float
    clip_norm: float

    def noise(self, normals: NDArray[np.float64], deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        """The normals of shape ``(steps, D)``, scaled by ``deviations`` of shape ``(steps,)``, on the grid. Works in place."""
        normals *= deviations[:, None] / self.spacing
        np.rint(normals, out=normals)
        normals *= self.spacing
        return normals


def grid_of(run: Run, weights: int, outputs: int = 1, dtype: str = "float32") -> Grid:
    """The grid for a model of ``weights`` coordinates and ``outputs`` scores a row, trained in precision ``dtype``.

    Raises
    ------
    InputError
        The margin would exceed a tenth of the clip norm: too much noise or too large batches for so many coordinates; or a
        last-iterate bound would not allow for the rounding.
    """
    noise_multiplier = min(run.noise_multiplier) if isinstance(run.noise_multiplier, tuple) else run.noise_multiplier
    sizes = run.sampling.divisors(run.n)
    batch = max(sizes) if isinstance(sizes, tuple) else sizes
    # A sum of the batch must keep its place in a double.
    bits = min(_BITS[dtype], 50 - math.ceil(math.log2(max(batch / noise_multiplier, 1.0))))
    spacing = 2.0 ** (math.floor(math.log2(noise_multiplier * run.clip_norm)) - bits)
    margin = math.sqrt(weights) * spacing + (outputs + 16 + batch / 2) * float(np.finfo(dtype).eps) * run.clip_norm
    if margin > _LARGEST_MARGIN * run.clip_norm:
        raise InputError(
            f"rounding would take more than a tenth of clip_norm (noise_multiplier {noise_multiplier:g}, {weights} weights, "
            f"batches of {batch:g}, {dtype}): use dtype='float64', or lower the noise, the number of weights or the batch size."
        )
    if run.is_last_iterate and _round_off(run, weights, spacing) > ROUND_OFF:
        raise InputError(
            f"rounding would move {weights} weights by more than the last-iterate bounds allow (diameter {run.diameter}): use "
            "fewer weights or a smaller diameter, or a run with released='all'."
        )
    return Grid(spacing=spacing, clip_norm=run.clip_norm - margin)


def _round_off(run: Run, weights: int, spacing: float) -> float:
    """Most that one step's rounding moves the iterate, in standard deviations of its noise."""
    z, eta, sizes = (np.asarray(value) for value in (run.noise_multiplier, run.step_size or 0.0, run.sampling.divisors(run.n)))
    # Schedules of an epoch (cyclic, shuffled) are shorter than those of a run: there the least of each is taken.
    shapes = {array.shape for array in (z, eta, sizes)} - {()}
    z, eta, sizes = (z, eta, sizes) if len(shapes) <= 1 else (z.min(), eta.min(), sizes.max())
    least = float(np.min(eta * z / sizes)) * run.clip_norm
    units = 8 * float(np.finfo("float64").eps) * (run.diameter or 0.0)
    return math.sqrt(weights) * spacing / (float(z.min()) * run.clip_norm) + (units / least if units else 0.0)
