"""The last iterate when the order is shuffled afresh in every epoch."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.accounting import Guarantee, Proved
from dplateau.accounting.gaussian import Array
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.analyses.base import Analysis
from dplateau.analyses.last_uses import both_ways, constant_steps, is_constant, least, rounded_mu, too_many, varying_steps
from dplateau.analyses.requirements import missing
from dplateau.spec import Run, Shuffled

_FEW: Final = 32
_APART: Final = 64
_STRETCH: Final = 0.03
"""Places with fewer steps after them are kept apart; the others are gathered over stretches whose ends have this log ratio."""


class ShuffledBound(Analysis):
    """delta is the mean, over the record's place in the last epoch, of that of the taut string with this place, and the last place
    in all earlier epochs. **Proved.**

    Setting: as for ``fixed-order``, but the order is uniformly random in every epoch, independent of the data and not released.
    For steps that vary, the places of earlier epochs are replaced by one at their end with the largest jump of the epoch, and
    places far from the end of the last one by the last of their stretch with its largest jump.

    Source: ours; ``docs/proofs/shuffled.md``.
    """

    name = "shuffled"
    source = "last iterate, mixture over the last epoch; docs/proofs/shuffled.md"
    status = Proved

    def why_not(self, run: Run) -> str | None:
        return missing(run, samplings=(Shuffled,)) or too_many(run)

    def guarantee(self, run: Run) -> Guarantee:
        places, weights = _places(run)
        mus = _constant(run, places) if is_constant(run) else _varying(run, places)
        if places[0] < 0:  # Who is left out has a jump less than the first place, whose late start may have saved rounding.
            mus[0] = mus[:2].min()
        below = (_earlier(places, mus) if is_constant(run) else mus) * both_ways(run)
        return MixtureOfGaussianDP(tuple(mus.tolist()), tuple(weights.tolist()), tuple(below.tolist()))


def _places(run: Run) -> tuple[Array, Array]:
    """Places in the last epoch, -1 for a record that a shorter last epoch leaves out, and their probabilities."""
    length = run.sampling.epoch_length(run.n)
    steps = run.steps - (-(-run.steps // length) - 1) * length
    # The last places count most: they are kept apart, earlier ones are gathered by the steps that follow them.
    stretches = np.arange(math.ceil(math.log(max(steps / _APART, 1.0)) / _STRETCH))
    follow = np.append(np.arange(min(_APART, steps)), np.ceil(_APART * np.exp(_STRETCH * stretches)).astype(int))
    last = steps - 1 - np.unique(follow[follow < steps])[::-1]
    used = _used(run, last + 1)
    weights = np.diff(used, prepend=0) / run.n
    left_out = (run.n - float(used[-1])) / run.n
    return (np.append(-1, last), np.append(left_out, weights)) if left_out else (last, weights)


def _used(run: Run, steps: Array) -> Array:
    """How many records the first steps of an epoch use."""
    assert isinstance(run.sampling, Shuffled)
    sizes = run.sampling.batch_size
    return np.cumsum((0.0, *sizes))[steps] if isinstance(sizes, tuple) else np.minimum(steps * float(sizes), float(run.n))


def _earlier(places: Array, mus: Array) -> Array:
    """What places cost at least, of equal steps: no less than earlier ones, so a stretch no less than the place before it."""
    return np.minimum(mus, np.where(np.diff(places, prepend=-1) <= 1, mus, np.append(0.0, mus[:-1])))


def _constant(run: Run, places: Array) -> Array:
    length = run.sampling.epoch_length(run.n)
    epochs = math.ceil(run.steps / length)
    remaining = run.steps - (epochs - 1) * length
    steps = constant_steps(run)
    used = places[places >= 0]
    mus = steps.cost(remaining - 1.0 - used, np.asarray(float(remaining)), epochs)
    if places[0] >= 0:
        return mus
    if epochs == 1:
        return np.append(rounded_mu(0.0, run.steps), mus)
    return np.append(steps.cost(np.asarray(float(remaining)), np.asarray(float(remaining + length)), epochs - 1), mus)


def _varying(run: Run, places: Array) -> Array:
    steps, skipped = varying_steps(run)
    length = run.sampling.epoch_length(run.n)
    start = (math.ceil(run.steps / length) - 1) * length - skipped
    # Within a rounded group of places, the largest jump at the last place.
    lasts = places[places >= 0]
    firsts = np.append(0, lasts[:-1] + 1)
    if start <= 0:
        # All that is not forgotten lies in the last epoch: a record is used once there, or never.
        alone = steps.alone()
        largest = [alone[max(first + start, 0) : max(last + start, 0) + 1].max() for first, last in zip(firsts, lasts, strict=True)]
        unused = float(rounded_mu(0.0, run.steps) if run.steps <= length else alone.max())
        return np.array([unused, *largest] if places[0] < 0 else largest)
    begins = np.arange(start % length - length if start % length else 0, start, length)
    jumps = np.array([steps.jump[max(begin, 0) : begin + length].max() for begin in begins])
    ends = begins + length - 1
    mus: list[float] = []
    # The best look-back of each place, or one for all of many places.
    back = None if places.size <= _FEW else 0
    if back is not None and steps.late:
        back = least(steps.from_afar(ends, jumps), ends.size)[1] + 1
    if places[0] < 0:
        mus.append(steps.cost(ends, jumps, back=back))
    for first, last in zip(firsts, lasts, strict=True):
        largest = steps.jump[start + first : start + last + 1].max()
        mus.append(steps.cost(np.append(ends, start + last), np.append(jumps, largest), back=back))
    return np.array(mus)
