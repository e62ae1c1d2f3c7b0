"""The public lattice on which a network's contributions, their sum and its noise lie: all of them integers.

The unit is ``clip_norm * 2^-bits``. An example contributes a vector of integers whose norm is at most ``2^bits``, the noise is
``rint(normal * z * 2^bits)``. Integers below 2^53 are added exactly by double precision in any order. For an integer S,
``S + rint(N) = rint(S + N)``: what is released is the Gaussian mechanism of sensitivity ``2^bits``, rounded, and all that follows
is post-processing. No rounding of a sum is left that a margin would have to cover.

How many bits there are is limited by the *noise*. Normal numbers are right to r 2^-49 (``docs/proofs/normals.md``; 2^-52 is usual),
so of 2^28 cells to a standard deviation each has a probability that is right to r 2^-20 (2^-24 is usual). Finer cells would have
less exact probabilities, and a network draws 10^9 numbers: at 2^40 cells their deviations add up to a leak. At 2^28 the usual ones
move mu^2 by 10^-6 even then.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import InputError, Run
from dplateau.spec.schedule import largest

_NOISE_BITS: Final = 28
_EXACT_BITS: Final = 52
_LARGEST_LOSS: Final = 0.1
_COUNT_BITS: Final = 4


class Lattice(NamedTuple):
    """The public lattice of one run.

    Parameters
    ----------
    clip_norm : float
        The run's clip norm, in units of the gradient.
    bits : int
        The clip norm is ``2^bits`` units.
    input_bits : int
        Bits of an entry of a layer's input, relative to the largest; the others are for the derivatives that multiply it.
    """

    clip_norm: float
    bits: int
    input_bits: int

    @property
    def unit(self) -> float:
        """Distance of two lattice points, in units of the gradient."""
        return math.ldexp(self.clip_norm, -self.bits)

    @property
    def tally(self) -> int:
        """What an example with a finite gradient adds to the last entry of the sum, which counts such examples."""
        return 1 << (self.bits - _COUNT_BITS)

    @property
    def room(self) -> float:
        """Largest norm of a clipped gradient, in units: with ``count`` as one more entry it is ``2^bits``, rounded down."""
        return math.ldexp(math.sqrt(1 - 4.0**-_COUNT_BITS) * (1 - 2.0**-50), self.bits)

    def deviations(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviations of the noise of steps, in units, from their noise multipliers."""
        return np.ldexp(multipliers, self.bits)


def lattice_of(run: Run, weights: int) -> Lattice:
    """The lattice for a model of ``weights`` parameters.

    Raises
    ------
    InputError
        Rounding could take more than a tenth of the clip norm: too much noise for so many parameters, or too many records.
    """
    loudest = largest(run.noise_multiplier)
    bits = min(math.floor(_NOISE_BITS - math.log2(loudest)), _EXACT_BITS - math.ceil(math.log2(run.n)))
    # Half a unit in each of the weights, times the largest input: that much the factor allows for, and as much the inputs' own
    # rounding moves a gradient. The square of a row of inputs stays below 2^53.
    input_bits = math.floor(min(bits + 3 - math.log2(weights) / 2, _EXACT_BITS - math.log2(weights))) // 2
    lattice = Lattice(run.clip_norm, bits, max(1, input_bits))
    if bits < _COUNT_BITS + 2 or math.sqrt(weights) * 2.0**lattice.input_bits / 2 > _LARGEST_LOSS * lattice.room:
        raise InputError(
            f"{bits} bits are left for a clipped gradient, and rounding {weights} weights to them could take more than a tenth of "
            f"clip_norm (noise_multiplier {loudest:g}, n = {run.n}): lower noise_multiplier or the number of weights."
        )
    return lattice
