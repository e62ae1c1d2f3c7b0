"""The generator: right laws (tests that also reject wrong ones), no repeats, no secrets."""

import copy
import math
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import mpmath
import numpy as np
import pytest
from scipy import stats

from dplateau.spec import InputError
from dplateau.training import SecureGenerator
from dplateau.training.coins import whole_gap

FALSE_ALARM = 1e-9


class Scripted(SecureGenerator):
    """A generator whose words are given."""

    def __init__(self, *words):
        super().__init__(insecure_seed=0)
        self.script = [np.array(part, dtype=np.uint64) for part in words]

    def _words(self, count):
        part = self.script.pop(0)
        assert len(part) == count
        return part


def test_normals_pass_kolmogorov_smirnov_and_scaled_ones_do_not():
    draws = SecureGenerator(insecure_seed=1).normal(200_000)
    assert stats.kstest(draws, "norm").pvalue > 1e-6
    for wrong in (0.97 * draws, 1.03 * draws, draws + 0.02, np.round(draws, 1)):
        assert stats.kstest(wrong, "norm").pvalue < FALSE_ALARM


def test_normals_have_the_tails_of_a_normal():
    draws = SecureGenerator(insecure_seed=2).normal(2_000_000)
    for bound in (3.0, 4.0, 4.5):
        for side in (draws, -draws):
            assert stats.binomtest(int((side > bound).sum()), draws.size, stats.norm.sf(bound)).pvalue > 1e-6


def test_sign_and_tail_bits_map_to_quantiles():
    word = 5 << 58  # tail probability 5/64
    up, down = Scripted([word | 1 << 63, word], []).normal(2)
    assert up == -down == pytest.approx(stats.norm.isf(5 / 64), rel=1e-15)


def test_a_rare_word_gets_further_bits():
    """Without them, the least probability would be 2^-65 and its neighbours far apart."""
    rare = Scripted([0, 0, 1], [0, (1 << 64) - 1, 0]).normal(3)
    wanted = stats.norm.ppf([2.0**-117, 2.0**-64, 2.0**-64])
    np.testing.assert_allclose(rare, wanted, rtol=1e-12)


def test_uniforms_are_uniform_and_never_zero_or_one():
    draws = SecureGenerator(insecure_seed=3).uniform((1000, 200))
    assert draws.shape == (1000, 200)
    assert stats.kstest(draws.ravel(), "uniform").pvalue > 1e-6
    assert stats.kstest(draws.ravel() ** 1.02, "uniform").pvalue < FALSE_ALARM
    least, most = Scripted([0, (1 << 64) - 1]).uniform(2)
    assert 0 < least < 1e-15
    assert 1 - 1e-15 < most < 1


def test_integers_are_uniform_and_reject_the_incomplete_multiple():
    counts = np.bincount(SecureGenerator(insecure_seed=4).integers(7, 70_000), minlength=7)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    last = (1 << 64) // 7 * 7
    assert Scripted([last, last - 1, 8], [9]).integers(7, 3).tolist() == [2, 6, 1]


def test_permutations_are_uniform():
    generator = SecureGenerator(insecure_seed=5)
    orders, counts = np.unique([generator.permutation(4) for _ in range(12_000)], axis=0, return_counts=True)
    assert len(orders) == 24
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_a_tie_between_keys_is_drawn_again():
    assert Scripted([5, 5, 1], [9, 7, 8]).permutation(3).tolist() == [1, 2, 0]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_subsets_are_uniform(size):
    rows = SecureGenerator(insecure_seed=6).subsets(20_000, size, 6)
    assert (np.diff(rows, axis=1) > 0).all()
    found, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(found) == {2: 15, 3: 20, 4: 15}[size]
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_subsets_at_the_ends():
    generator = SecureGenerator(insecure_seed=6)
    assert generator.subsets(3, 5, 5).tolist() == [list(range(5))] * 3
    assert generator.subsets(3, 0, 5).shape == (3, 0)
    with pytest.raises(InputError, match="size"):
        generator.subsets(1, 6, 5)


@pytest.mark.parametrize("probability", [1e-4, 0.03, 0.5, 0.97])
def test_coins_fall_with_their_probability(probability):
    count = 300_000
    heads = SecureGenerator(insecure_seed=8).bernoulli_positions(count, probability)
    assert (np.diff(heads) > 0).all()
    assert heads[0] >= 0
    assert heads[-1] < count
    assert stats.binomtest(len(heads), count, probability).pvalue > FALSE_ALARM
    assert stats.kstest(heads / count, "uniform").pvalue > FALSE_ALARM
    if probability == 0.03:
        assert stats.binomtest(len(heads), count, 0.9 * probability).pvalue < FALSE_ALARM
        assert stats.binomtest(len(heads), count, 1.1 * probability).pvalue < FALSE_ALARM


@pytest.mark.parametrize("rate", [2.0**-10, 2.0**-20, 2.0**-30])
@pytest.mark.parametrize("means", [0.0, 0.5, 5.0, 15.0, 25.0, 35.0, 60.0])
def test_a_gap_between_heads_may_have_any_length(means, rate):
    """With uniform numbers of 52 bits there were lengths from 15 times the mean on that no gap had, and none of 37 times."""
    wanted = int(means / rate)
    with mpmath.workdps(60):
        place = (1 - mpmath.mpf(rate)) ** (wanted + 0.5) * 2**64  # the middle of the gap's part of the unit interval
        word = int(place)
        fraction = int((place - word) * 2**52) << 12
        rest = int((place - word) * 2**116) % 2**64  # asked for where 116 digits leave two lengths

    class Same(SecureGenerator):
        digits: ClassVar[list[int]] = [word, fraction, rest]

        def _words(self, count, memory=None):
            return np.full(count, self.digits.pop(0) if len(self.digits) > 1 else self.digits[0], np.uint64)

    assert Same(insecure_seed=0).bernoulli_positions(wanted + 2, rate)[0] == wanted


@pytest.mark.parametrize("rate", [4.7e-10, 1e-9, 1.7e-6, 0.003, 0.6, 0.999])
@pytest.mark.parametrize("tails", [1, 2, 5])
def test_numbers_next_to_the_end_of_a_gap_are_on_their_side_of_it(rate, tails):
    """Rounded logarithms put hundreds of words on the wrong side: a ten-millionth of a rate of one in two billion."""

    class Same(SecureGenerator):
        def _words(self, count, memory=None):
            return np.full(count, self.queue.pop(0) if len(self.queue) > 1 else self.queue[0], np.uint64)

    def first(digits, rest):
        generator = Same(insecure_seed=0)
        further = [] if places == 64 else [(digits & ((1 << 52) - 1)) << 12]
        generator.queue = [digits >> (places - 64), *(further or [0]), rest]
        return len(generator.bernoulli_positions(tails, rate))

    with mpmath.workdps(80):
        end = (1 - mpmath.mpf(rate)) ** tails  # there are so many tails exactly where u is below
        places = 64 if end > 2.0**-11 else 116
        last = int(end * 2**places)
        between = end * 2**places > last
    for off in (1, 2, 50, 700):
        assert first(last - off, 0) == 0
        assert first(last + off, 0) > 0
    if between:  # further digits decide
        assert first(last, 0) == 0
        assert first(last, (1 << 64) - 1) > 0


def test_a_gap_that_is_long_enough_needs_no_further_digits():
    """That it passes the end is known long before its length is."""
    assert whole_gap(12345, 64, 1e-300, 10**40) == 10**40
    assert whole_gap(0, 64, 1e-3, 40_000) == 40_000
    assert whole_gap(0, 64, 1e-3, 10**6) is None
    assert whole_gap((1 << 63) - 1, 64, 0.5, 100) is None  # none at its end, or one
    for digits in (1 << 30, 1 << 50, (1 << 63) + 12345):
        whole = whole_gap(digits, 64, 1e-3, 10**9)
        assert whole is not None
        assert whole == int(math.log(digits * 2.0**-64) / math.log1p(-1e-3))
        assert [whole_gap(digits, 64, 1e-3, most) for most in (whole + 1, whole, whole // 2)] == [whole, whole, whole // 2]


def test_few_gaps_are_decided_digit_by_digit(monkeypatch):
    calls, decided = [], SecureGenerator._gap
    monkeypatch.setattr(SecureGenerator, "_gap", lambda self, *asked: calls.append(1) or decided(self, *asked))
    generator = SecureGenerator(insecure_seed=0)
    for count, rate in ((100, 1e-6), (10**6, 1e-3), (1000, 0.9)):
        generator.bernoulli_positions(count, rate)
    assert not calls
    with np.errstate(all="raise"):
        assert not len(generator.bernoulli_positions(100, 1e-300))
    assert calls


@pytest.mark.parametrize("stride", [1, 3])
def test_logarithms_are_right_to_two_units_in_the_last_place(stride):
    """NumPy has several of them, and gaps between heads allow for 16."""
    rng = np.random.default_rng(0)
    values = np.concatenate([1 - 2.0 ** -rng.uniform(1, 53, 3001), 2.0 ** -rng.uniform(0, 116, 3001), rng.uniform(size=3001)])
    found = np.log(values[::stride]).astype(np.longdouble)
    true = np.log(values[::stride].astype(np.longdouble))
    assert (abs(found - true) <= 2.0**-51 * abs(true)).all()
    for rate in (2.0 ** -rng.uniform(0, 60, 300)).tolist():
        with mpmath.workdps(40):
            assert abs(math.log1p(-rate) / mpmath.log(1 - mpmath.mpf(rate)) - 1) <= 2.0**-51


def test_certain_coins_and_impossible_probabilities():
    generator = SecureGenerator(insecure_seed=8)
    assert generator.bernoulli_positions(4, 1.0).tolist() == [0, 1, 2, 3]
    for wrong in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="probability"):
            generator.bernoulli_positions(4, wrong)


def test_two_generators_differ_and_equal_seeds_agree():
    assert (SecureGenerator().normal(4) != SecureGenerator().normal(4)).all()
    assert (SecureGenerator(insecure_seed=3).normal(4) == SecureGenerator(insecure_seed=3).normal(4)).all()
    assert (SecureGenerator(insecure_seed=3).normal(4) != SecureGenerator(insecure_seed=4).normal(4)).all()


def test_the_stream_goes_on():
    generator = SecureGenerator(insecure_seed=1)
    assert not np.intersect1d(generator.uniform(1000), generator.uniform(1000)).size


def test_it_says_whether_it_is_secure_and_nothing_of_its_key():
    secure, seeded = SecureGenerator(), SecureGenerator(insecure_seed=987_654)
    assert (secure.insecure, seeded.insecure) == (False, True)
    assert "insecure" in str(seeded.source)
    assert "insecure" not in str(secure.source)
    assert "987" not in repr(seeded) + str(vars(seeded)) + str(seeded.source)
    with pytest.raises(InputError, match="insecure_seed"):
        SecureGenerator(insecure_seed="x")


def test_it_cannot_be_pickled_or_copied():
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            attempt(SecureGenerator())


def test_a_forked_process_cannot_repeat_the_noise(monkeypatch):
    generator = SecureGenerator()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="fork"):
        generator.normal(1)


class _Counter:
    """A key stream of the numbers 0, 1, ... that lets other threads in between, as a cipher may that waits for no one."""

    def __init__(self) -> None:
        self.next = 0

    def update_into(self, data, room):
        first, count = self.next, len(data) // 8
        time.sleep(1e-3)
        np.frombuffer(room, np.uint64)[:count] = np.arange(first, first + count)
        self.next = first + count
        return len(data)


def test_threads_that_share_a_generator_get_no_word_twice():
    generator = SecureGenerator()
    generator._stream = _Counter()
    with ThreadPoolExecutor(4) as pool:
        words = np.concatenate(list(pool.map(lambda _: generator.key().view(np.uint64), range(40))))
    assert len(np.unique(words)) == len(words) == generator.drawn == 160


def test_threads_that_share_a_cipher_get_no_word_twice():
    generator = SecureGenerator()
    with ThreadPoolExecutor(4) as pool:
        words = np.concatenate(list(pool.map(lambda _: generator.normal_words(20_000).ravel(), range(16))))
    assert len(np.unique(words)) == len(words) == generator.drawn
