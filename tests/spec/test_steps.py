# pyright: basic, reportArgumentType=false
from __future__ import annotations

import numpy as np
import pytest

import dplateau as dp
from dplateau.spec import SAMPLINGS, InputError, Run
from dplateau.spec.schedule import constant, entries, is_constant, largest, part, plain, scaled, smallest, window
from dplateau.spec.steps import distinct


def run_of(**changes: object) -> Run:
    fields = {"n": 100, "sampling": dp.Poisson(10), "steps": 6, "noise_multiplier": 2.0, "step_size": 0.5, "clip_norm": 3.0}
    return Run(**(fields | changes))


def test_what_schedules_answer():
    assert is_constant(2.0, None)
    assert not is_constant(2.0, (1.0, 1.0))
    assert (smallest((3.0, 1.0)), largest((3.0, 1.0)), smallest(2.0), largest(2.0)) == (1.0, 3.0, 2.0, 2.0)
    assert (entries(2.0), entries((1.0, 2.0))) == ((2.0,), (1.0, 2.0))
    assert (scaled(2.0, 3), scaled((1.0, 2.0), 3)) == (6.0, (3.0, 6.0))
    assert (part(2.0, 1, 3), part((1.0, 2.0, 3.0), 1, 3)) == (2.0, (2.0, 3.0))
    assert (plain(2.0), plain((1.0, 2.0))) == (2.0, [1.0, 2.0])
    assert window((1.0, 2.0, 3.0), 2, 7).tolist() == [3.0, 1.0, 2.0, 3.0, 1.0]
    assert window((1.0, 2.0, 3.0), 1, 3).tolist() == [2.0, 3.0]
    assert window(4.0, 5, 7).tolist() == [4.0, 4.0]
    for value in ((1.0,), None):
        with pytest.raises(TypeError, match="one number"):
            constant(value)


def test_equal_steps_have_one_row_however_many():
    table = run_of(steps=10**9).table
    assert table.alike
    assert table.count.tolist() == [10**9]
    assert table.only == (0.5, 2.0, 10.0, 0.1, 0.5 * 2.0 * 3.0 / 10.0)
    assert table.last(7).steps == 7
    assert [column.tolist() for column in table.draws()] == [[0.1], [2.0], [10**9]]


def test_steps_that_differ():
    table = run_of(noise_multiplier=(2.0, 2.0, 3.0, 3.0, 2.0, 2.0), step_size=None).table
    assert table.changing == ("noise_multiplier",)
    assert (table.noise.tolist(), table.count.tolist(), table.steps) == ([2.0, 3.0, 2.0], [2, 2, 2], 6)
    assert table.written().noise.tolist() == [2.0, 2.0, 3.0, 3.0, 2.0, 2.0]
    assert (table.last(3).noise.tolist(), table.last(3).count.tolist()) == ([3.0, 2.0, 2.0], [1, 1, 1])
    assert [column.tolist() for column in table.draws()] == [[0.1, 0.1], [2.0, 3.0], [4, 2]]
    assert not table.deviation.any()  # No step size is stated.
    with pytest.raises(TypeError, match="differ"):
        _ = table.only


def test_sizes_of_an_epoch_are_repeated():
    table = run_of(sampling=dp.Cyclic((20, 30, 50)), steps=7).table
    assert table.written().size.tolist() == [20, 30, 50, 20, 30, 50, 20]


def test_distinct_pairs_ascend_and_count():
    first, second, count = distinct(np.array([2.0, 1.0, 2.0]), np.array([5.0, 7.0, 5.0]), np.array([1, 10, 100]))
    assert (first.tolist(), second.tolist(), count.tolist()) == ([1.0, 2.0], [7.0, 5.0], [10, 101])


def test_a_part_of_a_run():
    run = run_of(sampling=dp.Poisson((1, 2, 3, 4, 5, 6)), noise_multiplier=(1, 2, 3, 4, 5, 6))
    middle = run.part(2, 5)
    assert (middle.steps, middle.sampling, middle.noise_multiplier, middle.step_size) == (3, dp.Poisson((3, 4, 5)), (3, 4, 5), 0.5)
    assert run_of(sampling=dp.Cyclic((40, 60))).part(0, 20) == run_of(sampling=dp.Cyclic((40, 60)), steps=20)


@pytest.mark.parametrize("kind", SAMPLINGS)
def test_what_samplings_answer(kind: str):
    sampling = SAMPLINGS[kind]() if kind == "full" else SAMPLINGS[kind](7)
    assert [sampling.drawn, sampling.ordered, sampling.shuffled, sampling.allocated, sampling.full].count(True) == 1
    assert sampling.random_size == (kind in ("poisson", "random-allocation"))
    assert sampling.once == (kind == "one-pass")
    epoch = 15 if kind in ("cyclic", "shuffled", "random-allocation") else 1
    assert sampling.epoch_length(100) == epoch
    assert sampling.period(100, 9) == (9 if kind == "one-pass" else epoch)
    assert sampling.remainder(100) == (2 if kind in ("cyclic", "shuffled") else 0)
    assert sampling.most_steps(100) == (14 if kind == "one-pass" else np.inf)
    sizes = {"full": [100.0] * 3, "cyclic": [7.0, 2.0, 7.0], "shuffled": [7.0, 2.0, 7.0], "random-allocation": [100 / 15] * 3}
    assert sampling.batch_sizes(100, 13, 16).tolist() == sizes.get(kind, [7.0] * 3)
    assert sampling.largest_likely(49) == (113 if sampling.random_size else 49)
    assert not sampling.by_step


def test_samplings_are_final():
    assert set(SAMPLINGS) == {"poisson", "fixed-size", "random-allocation", "cyclic", "shuffled", "one-pass", "full"}

    class Mine(dp.Poisson):
        """A scheme that no analysis knows."""

    with pytest.raises(InputError, match="expected one of"):
        run_of(sampling=Mine(10))
