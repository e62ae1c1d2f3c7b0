"""The seven samplings, each against its definition."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run, Shuffled
from dplateau.training import SecureGenerator
from dplateau.training.batches import batches

FALSE_ALARM = 1e-9


def membership(sampling, n, steps, chunk=64, seed=0):
    """Which record is in which batch: a table of shape (steps, n)."""
    run = Run(n=n, sampling=sampling, steps=steps, noise_multiplier=1.0)
    rows = []
    for part in batches(run, chunk, SecureGenerator(insecure_seed=seed)):
        assert part.records.dtype == part.counts.dtype == np.int32
        assert part.counts.sum() == len(part.records)
        for batch in np.split(part.records, np.cumsum(part.counts)[:-1]):
            rows.append(np.bincount(batch, minlength=n))
    return np.array(rows)


def largest_correlation(table):
    correlation = np.corrcoef(table, rowvar=False)
    return abs(correlation - np.diag(np.diag(correlation))).max()


def test_poisson_includes_every_record_at_its_rate_independently_of_others_and_of_steps():
    n, steps, rate = 40, 20_000, 0.15
    table = membership(Poisson(n * rate), n, steps, chunk=1000)
    assert table.max() == 1
    for record in range(n):
        assert stats.binomtest(int(table[:, record].sum()), steps, rate).pvalue > FALSE_ALARM
    for wrong in (0.98, 1.02):
        assert stats.binomtest(int(table.sum()), n * steps, wrong * rate).pvalue < FALSE_ALARM
    assert largest_correlation(table) < 6.5 / np.sqrt(steps)
    assert largest_correlation(np.hstack([table[:-1, :5], table[1:, :5]])) < 6.5 / np.sqrt(steps)
    sizes = np.bincount(table.sum(axis=1), minlength=n + 1)
    kept = slice(2, 11)
    wanted = stats.binom.pmf(np.arange(n + 1), n, rate)
    observed, expected = np.append(sizes[kept], steps - sizes[kept].sum()), np.append(wanted[kept], 1 - wanted[kept].sum())
    assert stats.chisquare(observed, steps * expected).pvalue > FALSE_ALARM


def test_the_correlation_test_rejects_batches_of_fixed_size():
    assert largest_correlation(membership(FixedSize(6), 10, 20_000, chunk=1000)) > 6.5 / np.sqrt(20_000)


@pytest.mark.parametrize("size", [1.0, 2.0, 1e3, 98765.4])
def test_rounding_never_makes_a_smaller_rate_larger(size):
    """A rate is the largest one times a share: records are kept by as many of 2^52 intervals as lie below it."""
    n, largest = 10**6, 3e5

    class Cells(SecureGenerator):
        def bernoulli_positions(self, count, probability):
            assert probability == largest / n
            return np.arange(count)

        def uniform(self, shape):
            around = int(size / largest * 2.0**52) + np.arange(-8, 9)
            return (np.append(np.zeros(shape - 17), around) + 0.5) * 2.0**-52

    run = Run(n=n, sampling=Poisson((largest, size)), steps=2, noise_multiplier=1.0)
    (part,) = batches(run, 2, Cells(insecure_seed=0))
    left_out = 2 * n - int(part.counts.sum())
    first = int(size / largest * 2.0**52) + 9 - left_out  # the first interval that is left out
    assert Fraction(first, 2**52) * Fraction(largest / n) <= Fraction(size / n)
    assert first >= size / largest * 2.0**52 - 4


def test_poisson_schedules_are_followed_step_by_step():
    n, steps = 50, 4000
    sizes = np.tile([2.0, 10.0, 50.0, 1.0], steps // 4)
    table = membership(Poisson(sizes), n, steps)
    assert (table[2::4] == 1).all()
    for phase, size in enumerate((2.0, 10.0, 50.0, 1.0)):
        assert stats.binomtest(int(table[phase::4].sum()), n * steps // 4, size / n).pvalue > FALSE_ALARM


def test_fixed_size_subsets_are_distinct_uniform_and_of_their_size():
    sizes = np.tile([3, 3, 8], 2000)
    table = membership(FixedSize(sizes), 12, 6000)
    assert table.max() == 1
    assert (table.sum(axis=1) == sizes).all()
    assert stats.chisquare(table.sum(axis=0)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("chunk", [1, 2, 5, 64])
def test_random_allocation_uses_every_record_once_an_epoch(chunk):
    """Whatever a chunk holds: parts of an epoch, or several."""
    n, batches_an_epoch, epochs = 23, 4, 5
    table = membership(RandomAllocation(n / batches_an_epoch), n, batches_an_epoch * epochs, chunk=chunk)
    assert (table.reshape(epochs, batches_an_epoch, n).sum(axis=1) == 1).all()
    cut = membership(RandomAllocation(n / batches_an_epoch), n, 10, chunk=chunk)
    assert cut.tolist() == table[:10].tolist()  # the same seed


def test_random_allocation_draws_every_place_of_every_record_and_epoch_by_itself():
    n, length, epochs = 12, 3, 20_000
    table = membership(RandomAllocation(n / length), n, length * epochs, chunk=999).reshape(epochs, length, n)
    place = table.argmax(axis=1)  # shape (epochs, n)
    for record in range(n):
        assert stats.chisquare(np.bincount(place[:, record], minlength=length)).pvalue > FALSE_ALARM
    # Pairs of records, and a record in two epochs, have every pair of places equally often.
    for first, second in ((place[:, 0], place[:, 1]), (place[:, 4], place[:, 11]), (place[:-1, 3], place[1:, 3])):
        pairs = np.bincount(length * first + second, minlength=length**2)
        assert stats.chisquare(pairs).pvalue > FALSE_ALARM
    sizes = np.bincount(table.sum(axis=2).ravel(), minlength=n + 1)
    wanted = stats.binom.pmf(np.arange(n + 1), n, 1 / length)
    kept = slice(1, 9)
    expected = length * epochs * np.append(wanted[kept], 1 - wanted[kept].sum())
    # The batches of an epoch depend on each other: the first ones alone do not.
    firsts = np.bincount(table[:, 0].sum(axis=1), minlength=n + 1)
    observed = np.append(firsts[kept], epochs - firsts[kept].sum())
    assert stats.chisquare(observed, expected / length).pvalue > FALSE_ALARM
    assert np.abs(sizes[kept] / expected[:-1] - 1).max() < 0.2


def test_the_tests_of_random_allocation_reject_shuffled_batches():
    """Their sizes are fixed, and two records meet less often."""
    place = membership(Shuffled(4), 12, 60_000, chunk=999).reshape(20_000, 3, 12).argmax(axis=1)
    pairs = np.bincount(3 * place[:, 0] + place[:, 1], minlength=9)
    assert stats.chisquare(pairs).pvalue < FALSE_ALARM


def test_cyclic_batches_are_the_same_blocks_in_every_epoch():
    table = membership(Cyclic(4), 10, 7, chunk=2)
    blocks = [[1] * 4 + [0] * 6, [0] * 4 + [1] * 4 + [0] * 2, [0] * 8 + [1] * 2]
    assert table.tolist() == [*blocks, *blocks, blocks[0]]


def test_one_pass_takes_the_records_in_their_order_and_once():
    table = membership(OnePass((1, 4, 2)), 9, 3, chunk=2)
    assert [np.flatnonzero(row).tolist() for row in table] == [[0], [1, 2, 3, 4], [5, 6]]


@pytest.mark.parametrize("size", [5, (2, 9, 1)])
def test_shuffled_uses_every_record_once_an_epoch_in_fresh_uniform_orders(size):
    n, epochs = 12, 1500
    table = membership(Shuffled(size), n, 3 * epochs, chunk=50).reshape(epochs, 3, n)
    assert (table.sum(axis=1) == 1).all()
    assert (table.sum(axis=2) == ([5, 5, 2] if size == 5 else size)).all()
    last = table[:, 2, :]
    rate = last[0].sum() / n
    for record in range(n):
        assert stats.binomtest(int(last[:, record].sum()), epochs, rate).pvalue > FALSE_ALARM
    assert largest_correlation(np.hstack([last[:-1, :4], last[1:, :4]])[:, [0, 4]]) < 6.5 / np.sqrt(epochs)


def test_batch_sizes_name_the_smaller_last_batch():
    assert Shuffled(4).batch_sizes(10, 1, 7).tolist() == [4, 2, 4, 4, 2, 4]
    assert Cyclic(5).batch_sizes(10, 0, 3).tolist() == [5, 5, 5]


def test_full_batches_are_never_listed():
    with pytest.raises(InputError, match="full"):
        batches(Run(n=3, sampling=FullBatch(), steps=1, noise_multiplier=1.0), 1, SecureGenerator())
