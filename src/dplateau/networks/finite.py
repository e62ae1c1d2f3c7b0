"""Does the loss have gradients at all? A count that is part of the noisy sum, so that asking costs nothing.

A gradient that is not finite is left out of the sum. Where all of them are, the model is noise, and that must not pass for
training. But whether the examples of one batch have finite gradients is a fact about records: an error that shows it would be a
release of its own. So every example with a finite gradient adds a constant to one more entry of the clipped sum, within the clip
norm and under the same noise, and the check reads the noisy entries only: it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dplateau.training import TrainingDiverged

_DEVIATIONS: Final = 6.0


@dataclass
class NoisyCount:
    """Finite gradients so far: their noisy number, its variance, and the number of examples that were to be expected."""

    found: float = 0.0
    variance: float = 0.0
    expected: float = 0.0

    def add(self, found: float, deviation: float, expected: float) -> None:
        """Count a step: a noisy number with this standard deviation, of so many expected examples."""
        self.found += found
        self.variance += deviation**2
        self.expected += expected

    def check(self, steps: int) -> None:
        """Raise ``TrainingDiverged`` where hardly any gradient was finite, as soon as the noise allows to tell."""
        deviation = math.sqrt(self.variance + self.expected)
        if self.expected >= 2 * _DEVIATIONS * deviation and self.found < _DEVIATIONS * deviation:
            raise TrainingDiverged(
                f"hardly any example had a finite gradient up to step {steps}, by a noisy count that the guarantee covers: the "
                "model is noise. Try the loss on a few public examples, and lower the step size."
            )
