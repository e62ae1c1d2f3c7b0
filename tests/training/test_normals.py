"""Normal numbers from words: how far they are from exact ones, their law to its finest bits and in its tails."""

import jax
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dplateau.training import SecureGenerator
from dplateau.training import normals as module
from dplateau.training.normals import normals

ONES = (1 << 64) - 1
ROOT_HALF = 13043817825332782212


def computed(words):
    with jax.enable_x64(True):
        return np.stack(jax.jit(normals)(np.asarray(words, np.uint64)))


def drawn(count, seed):
    return np.concatenate(computed(SecureGenerator(insecure_seed=seed).normal_words(count)))


def exact(high, low, angle):
    """The pair in 60 digits, and its radius."""
    u = (high + (low + mpf(0.5)) / 2**64) / 2**64
    radius, turn = mp.sqrt(-2 * mp.log(u)), 2 * mp.pi * mpf(angle) / 2**64
    return radius * mp.cos(turn), -radius * mp.sin(turn), radius


def words_of_all_sizes():
    """Random words; small ones, large ones, angles near multiples of an eighth of a turn; the ends."""
    rng = np.random.default_rng(0)
    random = lambda count: rng.integers(0, 1 << 64, count, dtype=np.uint64)  # noqa: E731
    shifted = lambda count: random(count) >> rng.integers(0, 64, count).astype(np.uint64)  # noqa: E731
    high = np.concatenate([random(300), shifted(600), ~shifted(600)])
    low = np.where(rng.random(high.size) < 0.5, random(high.size), shifted(high.size))
    eighths = rng.integers(0, 8, high.size).astype(np.uint64) << np.uint64(61)
    angle = np.where(rng.random(high.size) < 0.5, random(high.size), eighths + shifted(high.size) - shifted(high.size))
    ends = [(a, b, c) for a in (0, 1, 1 << 63, ROOT_HALF, ROOT_HALF + 1, ONES - 1, ONES) for b in (0, ONES) for c in (0, 1, ONES)]
    return np.concatenate([np.stack([high, low, angle]), np.array(ends, np.uint64).T], axis=1)


def test_each_number_is_as_near_to_the_exact_one_as_the_proof_says():
    mp.dps = 60
    words = words_of_all_sizes()
    for triple, found in zip(words.T.tolist(), computed(words).T.tolist(), strict=True):
        *wanted, radius = exact(*triple)
        for one, other in zip(found, wanted, strict=True):
            assert abs(one - other) <= radius * mpf(2) ** -50 + mpf(2) ** -63


@pytest.mark.parametrize("coefficient", range(3))
def test_a_polynomial_that_is_off_by_a_billionth_breaks_that_bound(coefficient, monkeypatch):
    mp.dps = 60
    name = ("_LOGARITHM", "_COSINE", "_SINE")[coefficient]
    monkeypatch.setattr(module, name, tuple(value * (1 + 1e-9) for value in getattr(module, name)))
    words = SecureGenerator(insecure_seed=1).normal_words(600)
    wrong = 0
    for triple, found in zip(words.T.tolist(), computed(words).T.tolist(), strict=True):
        *wanted, radius = exact(*triple)
        wrong += any(abs(one - other) > radius * mpf(2) ** -50 for one, other in zip(found, wanted, strict=True))
    assert wrong > 100


def test_the_second_word_fills_the_gaps_of_the_first():
    """U = 0: without W all such pairs had one radius, and an observer would know it."""
    count = 1000
    low = np.arange(count, dtype=np.uint64) * np.uint64(ONES // count)
    radius = np.hypot(*computed(np.stack([np.zeros(count, np.uint64), low, np.zeros(count, np.uint64)])))
    assert np.unique(radius).size == count
    assert radius.max() > 13
    near = computed(np.stack([np.full(count, ONES, np.uint64), low, np.zeros(count, np.uint64)]))[0]
    assert np.unique(near).size > count // 2  # near 0 too, where the radius is below 1e-9
    assert near.max() < 1e-9


def test_the_law_passes_kolmogorov_smirnov_and_scaled_ones_do_not():
    found = drawn(1_000_000, 1)
    assert found.size == 1_000_000
    assert stats.kstest(found, "norm").pvalue > 1e-6
    for wrong in (0.98 * found, 1.02 * found, found + 0.01):
        assert stats.kstest(wrong, "norm").pvalue < 1e-9


def test_the_two_of_a_pair_are_independent_and_so_are_their_squares():
    first, second = computed(SecureGenerator(insecure_seed=2).normal_words(1_000_000))
    for power in (1, 2, 4):
        a, b = first**power, second**power
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / np.sqrt(500_000)
    turned = (first + second) / np.sqrt(2)
    assert stats.kstest(turned, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(first**2, turned**2)[0, 1]) > 0.1  # what a dependence looks like


def test_tails_have_their_probabilities():
    found = drawn(4_000_000, 3)
    for bound in (3.0, 4.0, 4.8):
        for side in (found, -found):
            assert stats.binomtest(int((side > bound).sum()), found.size, stats.norm.sf(bound)).pvalue > 1e-6


def test_the_places_within_a_unit_of_the_noise_are_uniform():
    """A unit is 2^-28 standard deviations: where in its unit a number lies must tell nothing, down to 2^-44."""
    found = drawn(1_000_000, 4)
    for bits in (28, 36, 44):
        part = np.floor(np.ldexp(found, bits + 4)).astype(np.int64) & 15
        assert stats.chisquare(np.bincount(part, minlength=16)).pvalue > 1e-6
    coarse = np.ldexp(np.rint(np.ldexp(found, 30)), -30)  # 2^30 values to a standard deviation would not do
    part = np.floor(np.ldexp(coarse, 32)).astype(np.int64) & 15
    assert stats.chisquare(np.bincount(part, minlength=16)).pvalue < 1e-9
