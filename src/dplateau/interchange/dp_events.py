"""Runs as dp-accounting's events, and back.

A ``GaussianDpEvent`` is a sum of vectors of norm at most C plus noise of standard deviation ``noise_multiplier * C``. That is a
``Run``'s noise multiplier, whatever the neighbouring relation: ``REPLACE_ONE`` changes the sum by up to 2C, and it is for the
accountant to know. (dp-accounting 0.6.0's PLD accountant does; its RDP accountant takes C, and its epsilons for ``REPLACE_ONE`` are
too small.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dplateau.interchange.noisy_sums import Block, NoisySum, merged, to_runs
from dplateau.spec import FullBatch, InputError, Run, Runs
from dplateau.spec.arguments import integer, real
from dplateau.spec.missing import explained
from dplateau.spec.runs import checked_run, runs_of, single_run
from dplateau.spec.schedule import constant, is_constant

with explained():
    import dp_accounting
    from dp_accounting import NeighboringRelation


class UnsupportedEventError(InputError):
    """An event that no run stands for; ``event`` is it."""

    def __init__(self, event: Any, why: str) -> None:
        self.event = event
        super().__init__(f"{event!r}: {why}")


def to_event(run: Run | Runs) -> dp_accounting.DpEvent:
    """The event that describes all noisy gradients of a run, or of several runs on the same records.

    Equal steps in a row are counted together. Batches fixed by positions become the Gaussian events of the record that is worst
    off: one an epoch if they are cyclic or shuffled, one if there is one pass, one a step if they are full. For ``released="last"``
    the event describes more than what is released: last-iterate bounds have no event. So it does for a ``Selection``, as if all
    candidates were told.

    Parameters
    ----------
    run : Run or Runs
        What was computed.

    Returns
    -------
    DpEvent
        To be accounted for under ``neighboring_relation(run)``.

    Raises
    ------
    InputError
        The batches are allocated at random: no event is.

    Examples
    --------
    >>> import dplateau as dp
    >>> to_event(dp.Run(n=1_000, sampling=dp.Poisson(10), steps=500, noise_multiplier=1.3)).count
    500
    """
    blocks = (block for one in runs_of(run) for block in _noisy_sums(one))
    events = [
        event if count == 1 else dp_accounting.SelfComposedDpEvent(event, count)
        for event, count in ((_event(one), count) for one, count in merged(blocks))
    ]
    return events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)


def neighboring_relation(run: Run | Runs) -> NeighboringRelation:
    """The neighbouring relation that a run's adjacency is in dp-accounting.

    "replace" is ``REPLACE_ONE``. "add-remove" is ``ADD_OR_REMOVE_ONE`` for Poisson and full batches; for the others it leaves the
    record's place empty, which is ``REPLACE_SPECIAL``.
    """
    if checked_run(run).adjacency == "replace":
        return NeighboringRelation.REPLACE_ONE
    runs = runs_of(run)
    free = all(one.sampling.random_size or one.sampling.full for one in runs)
    return NeighboringRelation.ADD_OR_REMOVE_ONE if free else NeighboringRelation.REPLACE_SPECIAL


def from_event(event: dp_accounting.DpEvent, *, n: int, adjacency: str = "add-remove") -> Run | Runs:
    """The run that releases what an event describes, or the runs where it samples in several ways.

    Noise, rates, batch sizes and the number of steps come back as they were; what an event does not state (clip norm, step sizes,
    convexity, which scheme made a Gaussian event) does not. Steps of a repeated ``ComposedDpEvent`` are put in another order, which
    no bound on all noisy gradients depends on. Several Gaussian events on one sample become one step with their joint noise.

    Parameters
    ----------
    event : DpEvent
        Composed of Gaussian events, on all records, on Poisson samples or on samples drawn without replacement.
    n : int
        Number of records.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        As in ``Run``. For samples without replacement "add-remove" leaves the record's place empty (``REPLACE_SPECIAL``).

    Raises
    ------
    InputError
        A part of the event has no run (``UnsupportedEventError`` names it), has no noise, or samples from other than ``n`` records;
        or the event releases nothing.
    """
    blocks = read_event(event)
    if not blocks:
        raise InputError("the event releases nothing, so there is no run.")
    runs = to_runs(blocks, integer("n", n), adjacency)
    return runs[0] if len(runs) == 1 else Runs(runs)


def read_event(event: Any) -> list[Block]:
    """The noisy sums that an event is composed of; raises ``UnsupportedEventError`` on the first part that is none."""
    try:
        return _read(event)
    except UnsupportedEventError:
        raise
    except InputError as error:
        raise UnsupportedEventError(event, str(error)) from None


def _read(event: Any) -> list[Block]:
    match event:
        case dp_accounting.NoOpDpEvent():
            return []
        case dp_accounting.NonPrivateDpEvent():
            return [(NoisySum(0.0), 1)]
        case dp_accounting.GaussianDpEvent():
            return [(NoisySum(real("noise_multiplier", event.noise_multiplier, inclusive=True)), 1)]
        case dp_accounting.ComposedDpEvent():
            return [block for part in event.events for block in read_event(part)]
        case dp_accounting.SelfComposedDpEvent():
            count = integer("count", event.count, low=0)
            return [(one, count * times) for one, times in read_event(event.event)] if count else []
        case dp_accounting.PoissonSampledDpEvent():
            rate = real("sampling_probability", event.sampling_probability, inclusive=True, high=1.0)
            noise = _joint_noise(event)
            return [(NoisySum(noise, rate=rate), 1)] if rate and noise < math.inf else []
        case dp_accounting.SampledWithoutReplacementDpEvent():
            source = integer("source_dataset_size", event.source_dataset_size)
            size = integer("sample_size", event.sample_size, low=0)
            if size > source:
                raise InputError(f"sample_size {size} exceeds source_dataset_size {source}.")
            noise = _joint_noise(event)
            return [(NoisySum(noise, drawn=(size, source)), 1)] if size and noise < math.inf else []
        case _:
            raise UnsupportedEventError(
                event, "expected Gaussian events, sampled (Poisson, without replacement) or not, and their compositions."
            )


def _joint_noise(event: Any) -> float:
    """The noise of one Gaussian release that dominates all of those on one sample; infinite for none.

    Proof: ``docs/decisions/0010-interchange.md``.
    """
    blocks = read_event(event.event)
    if any(one.kind[0] is not FullBatch for one, _ in blocks):
        raise UnsupportedEventError(event, "a sample of a sample is not supported; multiply the rates of Poisson samples.")
    noises = [(one.noise, count) for one, count in blocks]
    if len(noises) == 1 and noises[0][1] == 1:
        return noises[0][0]
    if any(noise == 0 for noise, _ in noises):
        return 0.0
    mu = math.hypot(*(math.sqrt(count) / noise for noise, count in noises)) * (1 + 1e-14)  # The rounding must not gain.
    return 1 / mu if mu else math.inf


def _event(one: NoisySum) -> dp_accounting.DpEvent:
    gaussian = dp_accounting.GaussianDpEvent(one.noise)
    if one.drawn is not None:
        size, source = one.drawn
        return dp_accounting.SampledWithoutReplacementDpEvent(source, size, gaussian)
    return gaussian if one.rate is None else dp_accounting.PoissonSampledDpEvent(one.rate, gaussian)


def _noisy_sums(run: Run) -> Sequence[Block]:
    """What the steps of a run release, step by step where they differ."""
    if single_run(run).sampling.allocated:
        raise InputError("dp-accounting has no event for random allocation: account for the run with dp.account.")
    if not run.sampling.drawn:
        return _of_the_worst_position(run)
    rows = zip(*(column.tolist() for column in (run.table.size, run.table.noise, run.table.count)), strict=True)
    if run.sampling.random_size:
        return [(NoisySum(noise, rate=b / run.n), count) for b, noise, count in rows]
    return [(NoisySum(noise, drawn=(int(b), run.n)), count) for b, noise, count in rows]


def _of_the_worst_position(run: Run) -> Sequence[Block]:
    """The noisy sums that a record takes part in, where positions decide the batches."""
    z, length = run.noise_multiplier, run.sampling.period(run.n, run.steps)
    if is_constant(z):
        return [(NoisySum(constant(z)), math.ceil(run.steps / length))]
    noises = np.full(math.ceil(run.steps / length) * length, np.inf)
    noises[: run.steps] = run.table.written().noise
    epochs = noises.reshape(-1, length)
    # A shuffled record may sit anywhere in every epoch; the others keep their place.
    place = np.argmax(((noises.min() / epochs) ** 2).sum(axis=0))
    worst = epochs.min(axis=1) if run.sampling.shuffled else epochs[:, place]
    return [(NoisySum(noise), 1) for noise in worst.tolist() if math.isfinite(noise)]
