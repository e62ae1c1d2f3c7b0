"""Going on in the middle of a stream of random numbers, and in the middle of a run's batches."""

from __future__ import annotations

import numpy as np
import pytest

from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Shuffled
from dplateau.training import SecureGenerator
from dplateau.training import noise as noise_module
from dplateau.training.batches import batches

from .small import run_of, seeded

DRAWS = {
    "uniform": lambda g: g.uniform((3, 5)),
    "normal": lambda g: g.normal((7, 3)),
    "integers": lambda g: g.integers((1 << 63) + 1, 50),  # Half of the words are rejected.
    "permutation": lambda g: g.permutation(11),
    "subsets": lambda g: g.subsets(20, 4, 9),
    "coins": lambda g: g.bernoulli_positions(300, 0.05),
    "nothing": lambda g: g.uniform(0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_goes_on_where_another_one_stopped(name):
    first, second = seeded(), seeded()
    assert first.drawn == 0
    DRAWS[name](first)
    second.skip(first.drawn)
    assert second.drawn == first.drawn
    np.testing.assert_array_equal(second.uniform(100), first.uniform(100))
    assert second.drawn == first.drawn


def test_every_word_counts():
    generator = seeded()
    generator.uniform((3, 5))
    assert generator.drawn == 15
    generator.skip(4)
    assert generator.drawn == 19
    for none in (0, -1):
        generator.skip(none)
    assert generator.drawn == 19
    np.testing.assert_array_equal(generator.uniform(3), seeded().uniform(22)[-3:])


def test_long_skips_are_cut_in_parts(monkeypatch):
    monkeypatch.setattr(noise_module, "_SKIPPED", 7)
    for words in (6, 7, 8, 14, 30):
        generator = seeded()
        generator.skip(words)
        assert generator.drawn == words
        np.testing.assert_array_equal(generator.uniform(2), seeded().uniform(words + 2)[-2:])


def test_rare_words_are_counted():
    """A normal number far in the tail takes another word."""

    class Rare(SecureGenerator):
        def _words(self, count):
            words = super()._words(count)
            words[: count // 2] &= np.uint64((1 << 63) | 0xFFFF)
            return words

    generator = Rare(insecure_seed=1)
    generator.normal(10)
    assert generator.drawn == 15


def test_a_forked_process_cannot_skip(monkeypatch):
    generator = seeded()
    monkeypatch.setattr(noise_module.os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="a fork would repeat its noise"):
        generator.skip(1)
    assert generator.drawn == 0


def all_batches(run, chunk, generator, start=0):
    parts = list(batches(run, chunk, generator, start))
    return [batch.tolist() for part in parts for batch in np.split(part.records, np.cumsum(part.counts)[:-1])]


SCHEDULES = (
    (Poisson(6.0), 4),
    (Poisson(np.linspace(1, 20, 12)), 4),
    (FixedSize(7), 4),
    (FixedSize(np.arange(1, 13)), 8),
    (Cyclic(15), 3),
    (Cyclic((5, 15, 20)), 6),
    (RandomAllocation(15), 3),
    (RandomAllocation(6.5), 7),
    (Shuffled(15), 3),
    (Shuffled((5, 15, 20)), 6),
    (OnePass(3), 0),
)


@pytest.mark.parametrize(("sampling", "start"), SCHEDULES, ids=lambda s: getattr(s, "kind", s))
def test_batches_go_on_as_if_they_had_never_stopped(sampling, start):
    run, first = run_of(sampling=sampling, steps=12), seeded()
    chunk = start or 4
    whole, ends, position = [], [], 0
    for part in batches(run, chunk, first):
        whole += [batch.tolist() for batch in np.split(part.records, np.cumsum(part.counts)[:-1])]
        ends.append(first.drawn)
    for k, words in enumerate([0, *ends[:-1]]):
        position = k * chunk
        if position and isinstance(sampling, OnePass):
            continue
        second = seeded()
        second.skip(words)
        assert all_batches(run, chunk, second, position) == whole[position:]
    assert len(whole) == 12


def test_batches_from_a_start_follow_the_schedule_of_sizes():
    run = run_of(sampling=FixedSize(np.arange(1, 13)), steps=12)
    assert [len(batch) for batch in all_batches(run, 5, SecureGenerator(), 7)] == [8, 9, 10, 11, 12]
    run = run_of(sampling=Cyclic(15), steps=12)
    assert [len(batch) for batch in all_batches(run, 2, SecureGenerator(), 6)] == [15, 15, 10] * 2
    assert all_batches(run, 2, SecureGenerator(), 9)[0] == list(range(15))
    assert all_batches(run, 2, SecureGenerator(), 12) == []


def test_full_batches_have_no_list():
    with pytest.raises(InputError, match="full-batch"):
        batches(run_of(sampling=FullBatch()), 4, SecureGenerator(), 4)


def test_more_records_than_numbers_of_32_bits_are_refused():
    batches(run_of(n=2**31 - 1, sampling=Poisson(15.0)), 4, SecureGenerator())
    with pytest.raises(InputError, match="fewer than 2\\^31 records"):
        batches(run_of(n=2**31, sampling=Poisson(15.0)), 4, SecureGenerator())


@pytest.mark.parametrize("sampling", [FixedSize(15), Cyclic(15), Shuffled(15), OnePass(3)], ids=lambda s: s.kind)
def test_parts_of_whole_batches_are_not_drawn(sampling):
    """As many records of each part in every batch would be another law, and a record more in one part moved those of the others."""
    with pytest.raises(InputError, match="not drawn record by record"):
        batches(run_of(sampling=sampling, steps=12), 4, SecureGenerator(), own=20)
