# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
"""Runs as dp-accounting's events, and back."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import dplateau as dp
from dplateau.analyses import ExactCompositionBound
from dplateau.interchange.dp_accounting_accountant import PlateauAccountant
from dplateau.interchange.dp_events import UnsupportedEventError, from_event, neighboring_relation, to_event
from dplateau.interchange.noisy_sums import LONGEST, NoisySum, batch_size, merged, to_runs
from dplateau.spec import Runs

GAUSSIAN = dp_accounting.GaussianDpEvent
SELF = dp_accounting.SelfComposedDpEvent
COMPOSED = dp_accounting.ComposedDpEvent
POISSON = dp_accounting.PoissonSampledDpEvent
FIXED = dp_accounting.SampledWithoutReplacementDpEvent


def run(sampling: dp.Sampling, **changes: object) -> dp.Run:
    return dp.Run(**{"n": 1_000, "sampling": sampling, "steps": 25, "noise_multiplier": 1.5} | changes)


def accountants_epsilon(one: dp.Run | Runs, delta: float = 1e-6) -> float:
    return PlateauAccountant(neighboring_relation(one)).compose(to_event(one)).get_epsilon(delta)


def test_events_of_runs() -> None:
    assert to_event(run(dp.Poisson(37.5))) == SELF(POISSON(0.0375, GAUSSIAN(1.5)), 25)
    assert to_event(run(dp.FixedSize(40), steps=1)) == FIXED(1_000, 40, GAUSSIAN(1.5))
    assert to_event(run(dp.FullBatch())) == SELF(GAUSSIAN(1.5), 25)
    assert to_event(run(dp.Cyclic(100))) == SELF(GAUSSIAN(1.5), 3)
    assert to_event(run(dp.Shuffled(100))) == SELF(GAUSSIAN(1.5), 3)
    assert to_event(run(dp.OnePass(40))) == GAUSSIAN(1.5)
    stepped = run(dp.Poisson(10), steps=5, noise_multiplier=[1, 1, 2, 2, 2])
    assert to_event(stepped) == COMPOSED([SELF(POISSON(0.01, GAUSSIAN(1.0)), 2), SELF(POISSON(0.01, GAUSSIAN(2.0)), 3)])
    both = Runs([run(dp.Poisson(10), steps=3), run(dp.FullBatch(), steps=1)])
    assert to_event(both) == COMPOSED([SELF(POISSON(0.01, GAUSSIAN(1.5)), 3), GAUSSIAN(1.5)])


def test_the_record_that_is_worst_off() -> None:
    noise = [1.0, 2.0, 3.0, 4.0, 0.9]
    # Positions 0 and 1 take part three and two times; the shuffled record may meet the least noise of every epoch.
    cyclic = run(dp.Cyclic(500), steps=5, noise_multiplier=noise)
    assert to_event(cyclic) == COMPOSED([GAUSSIAN(1.0), GAUSSIAN(3.0), GAUSSIAN(0.9)])
    shuffled = run(dp.Shuffled(500), steps=5, noise_multiplier=[2.0, 1.0, 3.0, 4.0, 0.9])
    assert to_event(shuffled) == COMPOSED([GAUSSIAN(1.0), GAUSSIAN(3.0), GAUSSIAN(0.9)])
    assert to_event(run(dp.OnePass(200), steps=5, noise_multiplier=noise)) == GAUSSIAN(0.9)
    second = run(dp.Cyclic(500), steps=4, noise_multiplier=[1.0, 0.5, 3.0, 0.6])
    assert to_event(second) == COMPOSED([GAUSSIAN(0.5), GAUSSIAN(0.6)])


SAMPLINGS = (dp.Poisson(20), dp.FixedSize(20), dp.Cyclic(90), dp.Shuffled(90), dp.OnePass(30), dp.FullBatch())


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.kind)
def test_an_event_costs_what_its_run_costs(sampling: dp.Sampling, adjacency: str) -> None:
    noise = np.random.default_rng(3).choice([2.0, 3.0, 4.0], size=25)
    for z in (2.5, noise):
        one = run(sampling, noise_multiplier=z, adjacency=adjacency)
        expected = ExactCompositionBound().guarantee(one).epsilon(1e-6)
        assert accountants_epsilon(one) == pytest.approx(expected.upper, abs=2e-7 + 1e-9 * expected.upper)


def test_relations() -> None:
    special, free, replace = (getattr(NeighboringRelation, k) for k in ("REPLACE_SPECIAL", "ADD_OR_REMOVE_ONE", "REPLACE_ONE"))
    found = {sampling.kind: neighboring_relation(run(sampling)) for sampling in SAMPLINGS}
    assert {kind for kind, relation in found.items() if relation is free} == {"poisson", "full"}
    assert {kind for kind, relation in found.items() if relation is special} == {"fixed-size", "cyclic", "shuffled", "one-pass"}
    assert neighboring_relation(run(dp.Cyclic(10), adjacency="replace")) is replace
    assert neighboring_relation(Runs([run(dp.Poisson(10)), run(dp.Cyclic(10))])) is special


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    n=st.integers(1, 10**7),
    share=st.floats(1e-6, 1),
    noise=st.lists(st.sampled_from([0.5, 1.3, 7.0]), min_size=1, max_size=6),
    fixed=st.booleans(),
    adjacency=st.sampled_from(["add-remove", "replace"]),
)
def test_round_trip(n: int, share: float, noise: list[float], fixed: bool, adjacency: str) -> None:
    size = max(1, round(share * n))
    sampling = dp.FixedSize(size) if fixed else dp.Poisson(size)
    steps = len(noise)
    one = dp.Run(
        n=n, sampling=sampling, steps=steps, noise_multiplier=noise if len(set(noise)) > 1 else noise[0], adjacency=adjacency
    )
    assert from_event(to_event(one), n=n, adjacency=adjacency) == one


@settings(derandomize=True, deadline=None, max_examples=200)
@given(rate=st.floats(1e-12, 1, exclude_min=True), n=st.integers(1, 10**9))
def test_rates_are_never_lowered(rate: float, n: int) -> None:
    size = batch_size(rate, n)
    assert rate <= size / n <= math.nextafter(rate, 2)


def test_schedules_of_sizes_and_noise_come_back() -> None:
    sizes, noise = [10, 20, 20, 5], [1.0, 1.0, 2.0, 2.0]
    for sampling in (dp.Poisson(sizes), dp.FixedSize(sizes)):
        one = run(sampling, steps=4, noise_multiplier=noise)
        assert from_event(to_event(one), n=1_000) == one


def test_events_of_several_kinds_become_several_runs() -> None:
    event = COMPOSED([SELF(POISSON(0.01, GAUSSIAN(1.0)), 7), GAUSSIAN(5.0), FIXED(1_000, 20, GAUSSIAN(2.0))])
    found = from_event(event, n=1_000, adjacency="replace")
    assert isinstance(found, Runs)
    assert [(type(one.sampling), one.steps) for one in found.runs] == [(dp.Poisson, 7), (dp.FullBatch, 1), (dp.FixedSize, 1)]
    assert to_event(found) == event


def test_repeated_compositions_are_counted() -> None:
    event = SELF(COMPOSED([SELF(GAUSSIAN(2.0), 3), POISSON(0.5, GAUSSIAN(1.0)), dp_accounting.NoOpDpEvent()]), 10)
    found = from_event(event, n=100)
    assert [(one.sampling.kind, one.steps) for one in found.runs] == [("full", 30), ("poisson", 10)]


def test_long_constant_parts_are_not_written_out() -> None:
    blocks = [(NoisySum(1.0, rate=0.5), 10 * LONGEST), (NoisySum(2.0, rate=0.5), 1)]
    assert [one.noise_multiplier for one in to_runs(blocks, 10, "replace")] == [1.0, 2.0]
    assert merged([blocks[0], blocks[0], blocks[1]])[0][1] == 20 * LONGEST
    assert to_event(dp.Run(n=10, sampling=dp.Poisson(1), steps=10**12, noise_multiplier=1.0)).count == 10**12


def test_several_gaussians_on_one_sample_are_one() -> None:
    inner = COMPOSED([GAUSSIAN(3.0), SELF(GAUSSIAN(8.0), 4)])
    found = from_event(SELF(POISSON(0.1, inner), 6), n=100)
    assert (found.steps, found.sampling) == (6, dp.Poisson(10))
    joint = (3.0**-2 + 4 * 8.0**-2) ** -0.5
    assert joint * (1 - 1e-13) <= found.noise_multiplier <= joint * (1 + 1e-15)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (dp_accounting.LaplaceDpEvent(1.0), r"LaplaceDpEvent\(noise_multiplier=1.0\): expected Gaussian events"),
        (COMPOSED([GAUSSIAN(1.0), dp_event.ZCDpEvent(0.1)]), r"^ZCDpEvent"),
        (POISSON(0.1, dp_accounting.LaplaceDpEvent(1.0)), r"^LaplaceDpEvent"),
        (SELF(dp_accounting.UnsupportedDpEvent(), 3), r"^UnsupportedDpEvent"),
        (POISSON(0.1, POISSON(0.1, GAUSSIAN(1.0))), "a sample of a sample"),
        (dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 10, 1.0), r"^TruncatedSubsampled"),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]), r"^MixtureOfGaussians"),
        (GAUSSIAN(-1.0), "noise_multiplier is -1"),
        (GAUSSIAN(math.nan), "noise_multiplier is nan"),
        (GAUSSIAN(math.inf), "noise_multiplier is inf"),
        (POISSON(1.5, GAUSSIAN(1.0)), "sampling_probability is 1.5"),
        (FIXED(100, 101, GAUSSIAN(1.0)), "sample_size 101 exceeds"),
        (SELF(GAUSSIAN(1.0), 2.5), "count is 2.5"),
        (SELF(GAUSSIAN(1.0), -1), "count is -1"),
    ],
)
def test_events_without_a_run(event: dp_accounting.DpEvent, message: str) -> None:
    with pytest.raises(UnsupportedEventError, match=message):
        from_event(event, n=100)
    assert not PlateauAccountant(NeighboringRelation.REPLACE_ONE).supports(event)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (dp_accounting.NoOpDpEvent(), "releases nothing"),
        (POISSON(0.0, GAUSSIAN(1.0)), "releases nothing"),
        (dp_accounting.NonPrivateDpEvent(), "without noise"),
        (COMPOSED([GAUSSIAN(1.0), POISSON(0.1, GAUSSIAN(0.0))]), "without noise"),
        (FIXED(50, 10, GAUSSIAN(1.0)), "drawn from 50 records, but n is 100"),
    ],
)
def test_events_that_are_no_run_on_these_records(event: dp_accounting.DpEvent, message: str) -> None:
    with pytest.raises(dp.InputError, match=message):
        from_event(event, n=100)


def test_the_peers_renyi_accountant_takes_the_sensitivity_of_add_remove() -> None:
    """Why ``to_event`` does not halve the noise for ``REPLACE_ONE``: its documentation and its other accountant do not."""
    replace = NeighboringRelation.REPLACE_ONE
    event = SELF(FIXED(1_000, 10, GAUSSIAN(4.0)), 1_000)
    exact = ExactCompositionBound().guarantee(from_event(event, n=1_000, adjacency="replace")).epsilon(1e-5)
    assert RdpAccountant(neighboring_relation=replace).compose(event).get_epsilon(1e-5) < 0.9 * exact.lower
    halved = SELF(FIXED(1_000, 10, GAUSSIAN(2.0)), 1_000)
    assert RdpAccountant(neighboring_relation=replace).compose(halved).get_epsilon(1e-5) > exact.upper
