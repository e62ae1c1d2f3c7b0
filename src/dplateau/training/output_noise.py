"""Gaussian noise on the result of a noiseless computation, on one grid with it.

The result and the noise are both rounded to a public grid, 2^-30 times the power of two at or below the noise's standard deviation,
and then added exactly. A floating-point sampler does not reach every number, and which ones ``result + noise`` can reach depends on
the result (Mironov 2012, "On significance of the least significant bits for differential privacy"); on one grid the sum is "rounded
result plus real noise, rounded" (``docs/proofs/arithmetic.md``, section 5). Rounding moves each of the D coordinates of a result by
at most half a spacing, so two results move apart by at most ``sqrt(D) * spacing``: a margin that the sensitivity has to leave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.training.errors import TooCoarse
from dplateau.training.noise import SecureGenerator

_BITS: Final = 30
_PLACES: Final = 50
_LEAST: Final = 1e-200


@dataclass(frozen=True)
class OutputNoise:
    """Noise of one standard deviation on one grid; made by ``output_noise``.

    Parameters
    ----------
    deviation : float
        Standard deviation of the noise in each coordinate.
    spacing : float
        Distance of two grid points, a power of two.
    """

    deviation: float
    spacing: float

    def margin(self, coordinates: int) -> float:
        """Most that rounding moves two results of so many coordinates apart."""
        return math.sqrt(coordinates) * self.spacing

    def add(self, result: NDArray[np.float64], generator: SecureGenerator) -> NDArray[np.float64]:
        """The result, rounded, plus fresh noise."""
        noise = generator.normal(result.shape)
        noise *= self.deviation / self.spacing
        np.rint(noise, out=noise)
        noise += np.rint(result / self.spacing)
        noise *= self.spacing
        return noise


def output_noise(deviation: float, largest: float) -> OutputNoise:
    """The noise for results of which no coordinate exceeds ``largest``, a public bound.

    Raises
    ------
    InputError
        Double precision cannot hold a result and its noise on one grid.
    """
    # A result must keep its place in a double.
    known = _LEAST < deviation < math.inf and largest / deviation < math.inf
    bits = min(_BITS, _PLACES - math.ceil(math.log2(max(largest / deviation, 1.0)))) if known else 0
    if bits < 1:
        raise TooCoarse(
            f"noise of deviation {deviation:.3g} on results up to {largest:.3g} is beyond double precision: use fewer phases, or "
            "larger steps in the last one."
        )
    return OutputNoise(deviation=deviation, spacing=2.0 ** (math.floor(math.log2(deviation)) - bits))
