"""What the low bits of a last iterate tell of the noise before.

With ``step_size * l2 = 1 - c`` the second iterate is ``c`` times the first, plus a noisy sum. A last-iterate bound takes the noise
of that sum to hide all but a share ``c`` of what the first step did. But the noise lies on a lattice. With c so small that ``c``
times the first iterate stays between two of its points, the place between them *is* the first iterate, unless that was rounded away
before the noise was added. Then both noisy sums can be read, and their losses add up: sqrt(2) times the mu that is certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from dplateau.black_box.case import DELTA, Case
from dplateau.black_box.neighbours import FAR, one_record
from dplateau.black_box.scores import Array, Score
from dplateau.black_box.solvers import MIDDLE, N
from dplateau.calibration import calibrate
from dplateau.losses import Squared
from dplateau.spec import FullBatch, Run
from dplateau.training import SecureGenerator, train

_NORM: Final = 2.0**-5
_BITS: Final = 34
"""The lattice is so many bits finer than the noise, or fewer (``dplateau.training.last_iterate``)."""
_LEFT: Final = 2.0 ** -(_BITS + 4)
"""c: what is left of the first iterate after the second step; its noise is below eight standard deviations."""


def last_iterate_cases() -> Iterator[Callable[[], Case]]:
    """The case, planned when it is called."""
    yield _low_bits


def _low_bits() -> Case:
    l2 = 1 - _LEFT
    run = Run(
        n=N,
        sampling=FullBatch(),
        steps=2,
        noise_multiplier=1.0,
        clip_norm=_NORM,
        step_size=1.0,
        smoothness=l2 + _NORM**2,
        strong_convexity=l2,
        l2=l2,
        released="last",
    )
    run = calibrate(run, epsilon=MIDDLE, delta=DELTA)
    neighbours = one_record(N, target=FAR, norm=_NORM)
    return Case("train, last iterate", neighbours, run, partial(_weights, run), {"both sums": _both_sums(run)}, times=4)


def _both_sums(run: Run) -> Score:
    """The sum of the two noisy sums, in clip norms: the one from the lattice point, the other from the place between two."""
    noise = float(run.noise_multiplier) * run.clip_norm  # type: ignore[arg-type]
    spacing = 2.0 ** (math.floor(math.log2(noise)) - _BITS) / run.n

    def score(releases: Array) -> Array:
        places = releases[:, 0].astype(np.float64) / spacing
        points = np.rint(places)
        return (points + (places - points) / _LEFT) * spacing * run.n / run.clip_norm

    return score


def _weights(run: Run, features: Any, target: Any, generator: SecureGenerator) -> Any:
    return train(run, Squared(), features, target, l2=run.l2, generator=generator, dtype="float64").weights
