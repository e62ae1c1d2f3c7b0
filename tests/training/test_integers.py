"""The arithmetic of a step under attack: orders, places and values that an adversary would choose."""

import math
from fractions import Fraction
from functools import partial

import jax
import numpy as np
import pytest

from dplateau.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.losses.exponential import ERROR, exp_of_minus
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, Run, Shuffled
from dplateau.training import SecureGenerator, train
from dplateau.training.integers import BLOCK, _shortened, bits_of, cut, encode, integer_sum, noise_bits_of, unpacked
from dplateau.training.loop import _in_blocks

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5), Softmax(3))


class Noiseless(SecureGenerator):
    def normal(self, shape):
        return np.zeros(shape)


def run_of(n, **changes):
    fields = {"n": n, "sampling": FullBatch(), "steps": 1, "noise_multiplier": 1.0, "step_size": 1.0, "clip_norm": 1.0}
    return Run(**{**fields, **changes})


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@partial(jax.jit, static_argnames=("loss", "bits"))
def compiled_sum(loss, whole, unit, data, per_unit, bits):
    return integer_sum(loss, whole, unit, unpacked(data), per_unit, bits)


def shares(run, loss, rows, target, weights, trailing=False):
    """What every record adds, in whole units, by itself; shape (n, parts, *weights)."""
    bits = bits_of(run, rows.shape[1], trailing=trailing)
    (data,), _ = encode(rows, target, bits, 1.0, len(rows), together=True)
    whole, unit = cut(weights, bits)
    per_unit = 2.0**bits.gradient / run.clip_norm
    each = [compiled_sum(loss, whole, unit, (data[i : i + 1],), per_unit, bits) for i in range(len(rows))]
    return np.array(each).swapaxes(2, -1), bits


def whole_sum(run, loss, rows, target, weights, order, trailing=False):
    """The same for all records at once, in any order and with rows of nothing between them."""
    bits = bits_of(run, rows.shape[1], trailing=trailing)
    data, _ = encode(rows[order], target[order], bits, 1.0, len(order), together=False)
    whole, unit = cut(weights, bits)
    per_unit = 2.0**bits.gradient / run.clip_norm
    return np.asarray(compiled_sum(loss, whole, unit, data, per_unit, bits)).swapaxes(1, -1)


def joined(parts, bits):
    """Leading and trailing integers as one, of any length, in units of the last trailing bit."""
    return sum(np.asarray(part).astype(object) << (bits.trailing * (1 - k)) for k, part in enumerate(parts))


def hostile(loss, seed, n=60, d=4):
    """Rows, targets and weights of all sizes: denormals, tiny, huge, zeros, and nearly cancelling scores."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.choice([-320, -300, -170, -160, -30, -3, 0, 0, 0, 3, 30, 160, 300], n)
    rows = rng.normal(size=(n, d)) * sizes[:, None]
    rows[rng.random(rows.shape) < 0.2] = 0.0
    rows[:3] = np.array([0.0, 1e308, 5e-324])[:, None]
    if isinstance(loss, Squared | Huber):
        target = rng.normal(size=n) * 10.0 ** rng.choice([-300, 0, 300, 307], n)
    else:
        target = rng.integers(0, max(loss.outputs, 2), n).astype(float)
    shape = (d,) if loss.outputs == 1 else (d, loss.outputs)
    return rows, target, rng.normal(size=shape) * 10.0 ** rng.choice([-300, -3, 0, 3, 200])


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.usefixtures("double")
def test_a_record_adds_at_most_the_clip_norm_and_always_the_same(loss, trailing):
    """In whole numbers, without any tolerance: norms by integers of any length, sums in three orders and between other rows."""
    clipped = 0
    for seed in range(6):
        run = run_of(60, clip_norm=(1.0, 0.3, 1e-9)[seed % 3])
        rows, target, weights = hostile(loss, seed)
        each, bits = shares(run, loss, rows, target, weights, trailing)
        for share in each:
            parts = [[int(x) << (bits.trailing * (1 - k)) for x in part.ravel()] for k, part in enumerate(share)]
            square = sum(sum(column) ** 2 for column in zip(*parts, strict=True))
            largest = 1 << (bits.gradient + bits.trailing)
            assert square <= largest**2
            clipped += square > (0.9 * largest) ** 2
        rng = np.random.default_rng(seed)
        for order in (np.arange(60), np.arange(60)[::-1], rng.permutation(60), rng.permutation(60)[:37]):
            found = whole_sum(run, loss, rows, target, weights, order, trailing)
            np.testing.assert_array_equal(joined(found, bits), joined(each[order].sum(axis=0), bits))
    assert clipped > 20


def row_of_square(square, d):
    """A row of d whole numbers below 2^20, the first of which are as large as that, whose squares add up to this number."""
    many, rest = divmod(square, (2**20 - 1) ** 2)
    row = [2**20 - 1] * many
    while rest:
        row.append(math.isqrt(rest))
        rest -= row[-1] ** 2
    return np.pad(np.array(row, float), (0, d - len(row)))


@pytest.mark.usefixtures("double")
def test_roots_and_quotients_that_are_rounded_let_no_row_count_for_more():
    """Norms just above 2^42 over a whole number: in double precision most of the quotients are that number, which is too large."""
    d, top = 4200, 2**42
    squares = [2**52 + 1, *(top**2 // k**2 + 1 for k in range(2**16, 2**16 + 40))]
    bits = bits_of(run_of(10), d)
    assert (bits.row, bits.gradient) == (20, 42)
    given = np.array([row_of_square(square, d) for square in squares])
    rows = unpacked(encode(given, np.zeros(len(given)), bits, 1.0, len(given), together=False)[0])
    assert (rows.features.astype(int) ** 2).sum(axis=1).tolist() == squares
    too_large = 0
    for square, limit in zip(squares, np.asarray(rows.limit).tolist(), strict=True):
        assert int(limit) ** 2 * square <= top**2 < (int(limit) + 2) ** 2 * square
        too_large += int(top / math.sqrt(square)) ** 2 * square > top**2
    assert too_large > 10


@pytest.mark.parametrize("trailing", [0, 22])
@pytest.mark.usefixtures("double")
def test_nor_one_of_several_residuals(trailing):
    """The norm of (L, 1) is L in double precision for L = 2^26, and nearly so below: to divide by it leaves the vector as it is."""
    whole = np.array([(2**26 - k, one) for k in range(20) for one in (-3, 0, 1, 2, 5)])
    limit = np.array([math.isqrt(int(a) ** 2 + int(b) ** 2) for a, b in whole], float)
    steps = np.asarray(_shortened(whole * 2.0**-26, np.full(len(whole), 2.0**60), limit, trailing))
    for one, most in zip(steps.tolist(), limit.tolist(), strict=True):
        assert (most - 4) ** 2 < sum(Fraction(x) ** 2 for x in one) <= most**2


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.usefixtures("double")
def test_a_record_whose_score_is_no_number_adds_no_more_than_others(trailing):
    """Units of a row and of the weights multiply to infinity here, and the score in these units is 0."""
    run, loss, weights = run_of(2), Squared(), np.array([0.0, 1e200])
    rows, target = np.array([[1e308, 0.0], [0.5, 0.25]]), np.array([1.0, 0.0])
    each, bits = shares(run, loss, rows, target, weights, trailing)
    assert sum(int(x) ** 2 for x in joined(each[0], bits).ravel()) <= 1 << 2 * (bits.gradient + bits.trailing)
    both = whole_sum(run, loss, rows, target, weights, [0, 1], trailing)
    np.testing.assert_array_equal(joined(both, bits), joined(each.sum(axis=0), bits))


@pytest.mark.parametrize("loss", [Squared(), Softmax(3)], ids=repr)
@pytest.mark.usefixtures("double")
def test_the_trailing_bits_of_millions_of_records_do_not_overflow(loss):
    """From 2^22 records on their sum may have more than 64 bits: one record moved a sum of 4,394,304 by 3.5 clip norms."""
    n = 1 << 24
    bits = bits_of(run_of(n, noise_multiplier=100.0, released="last"), 2, trailing=True)
    rows = unpacked(encode(np.full((BLOCK, 2), 0.7), np.ones(BLOCK), bits, 1.0, BLOCK, together=True)[0])
    weights = np.pi / 7 * np.ones(loss.weights_shape(2)) / np.arange(1, loss.outputs + 1)

    def summed(first, whole, unit):
        return integer_sum(loss, whole, unit, rows, 2.0**bits.gradient, bits), 0.0

    one, all_ = (joined(_in_blocks(weights, np.int64(count), summed, bits, BLOCK)[0], bits) for count in (BLOCK, n))
    np.testing.assert_array_equal(all_, one * (n // BLOCK))


def order_attack(n, copies=0):
    """Rows that make a float32 sum depend on one record: it carries the partial sum across a power of two, so that what every later
    row adds is rounded away; without it, every later row counts as a whole unit in the last place. The record comes ``copies``
    times."""
    g = 0.4375
    k = int(math.log2(n * g / 2))
    before = math.ceil(2**k / g) - 1
    after = n - 1 - before
    rows = np.zeros((n, 2))
    rows[: before + 1, 0] = 2 * g
    rows[before + 1 :, 0] = 2 * 0.99 * 2.0 ** (k - 24)
    target = np.r_[np.zeros(before + 1), np.ones(after)]
    keep = np.r_[np.ones(before, bool), np.full(1, bool(copies)), np.ones(after, bool)]
    return rows[keep], target[keep]


def summed(run, rows, target, dtype):
    """The noiseless sum of a full batch, by the engine: a step of size n from zero."""
    run = run.replace(n=len(rows), step_size=float(len(rows)))
    return -train(run, Logistic(), rows, target, generator=Noiseless(insecure_seed=0), dtype=dtype).weights.astype(float)


@pytest.mark.parametrize("n", [5_000, 32_561, 100_000])
@pytest.mark.parametrize(
    "sampling", [FullBatch(), Poisson(1.0), FixedSize(1), Cyclic(1), Shuffled(1), OnePass(1)], ids=lambda s: s.kind
)
def test_no_order_of_the_records_gives_one_of_them_more_weight(n, sampling):
    """Sums in single precision moved by 1.2, 14.4 and 123 clip norms here."""
    if not isinstance(sampling, FullBatch):
        sampling = type(sampling)(n - 1)
    (with_it, y), (without, y_without) = order_attack(n, 1), order_attack(n)
    run = run_of(n, clip_norm=0.5)
    moves = []
    for rows, target in ((with_it, y), (without, y_without)):
        size = sampling if isinstance(sampling, FullBatch) else type(sampling)(len(rows))
        moves.append(summed(run.replace(n=len(rows), sampling=size), rows, target, "float64"))
    assert 0.43 < np.linalg.norm(moves[0] - moves[1]) <= 0.5 + n * 1e-15


def test_the_order_attack_moves_a_single_precision_sum_by_many_clip_norms():
    """What the engine must not do: the power of the test above."""
    sums = []
    for copies in (1, 0):
        rows, target = order_attack(32_561, copies)
        gradients = ((0.5 - target)[:, None] * rows)[:, 0].astype(np.float32)
        sums.append(np.cumsum(gradients, dtype=np.float32)[-1])
    assert sums[0] - sums[1] > 10 * 0.5


@pytest.mark.parametrize("released", ["all", "last"])
def test_rows_whose_norm_underflows_are_clipped(released):
    """A row of 1e-170 with target 1e300 had norm 0, so its gradient of 1e130 passed as it was."""
    rows, target = np.full((4, 2), 0.1), np.array([0.0, 0.0, 0.0, 1e300])
    rows[3] = 1e-170
    run = run_of(4, released=released)
    total = train(run, Squared(), rows, target, generator=Noiseless(insecure_seed=0), dtype="float64").weights * 4
    assert 0.99 < np.linalg.norm(total) <= 1 + 1e-8


def test_softmax_near_the_end_of_single_precision_is_clipped():
    rows = np.array([[3e38, 3e38], [1e-38, 1e-38]])
    total = train(run_of(2), Softmax(2), rows, np.zeros(2), generator=Noiseless(insecure_seed=0)).weights * 2
    assert 0.99 < np.linalg.norm(total) <= 1 + 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.usefixtures("double")
def test_a_residual_does_not_depend_on_its_place(loss):
    """Middles and ends of arrays are compiled differently; what they compute must be the same, bit for bit."""
    rng = np.random.default_rng(0)
    residual = jax.jit(loss.residual)
    shape = () if loss.outputs == 1 else (loss.outputs,)
    scores, target = rng.normal(size=(67, *shape)) * 3, rng.integers(0, 2, 67).astype(float)
    wanted = np.asarray(residual(scores, target))
    np.testing.assert_array_equal(
        loss.residual(jax.numpy.asarray(scores), jax.numpy.asarray(target)), wanted
    )  # nor on what is fused
    few = (1, 2, 3, 4, 5, 7, 8, 9, 16, 31)
    for count in (*few, *(67 - one for one in few)):
        np.testing.assert_array_equal(residual(scores[:count], target[:count]), wanted[:count])
        np.testing.assert_array_equal(residual(scores[count:], target[count:]), wanted[count:])


def test_the_exponential_is_for_double_precision_alone():
    with pytest.raises(TypeError, match="takes double precision"):
        exp_of_minus(np.zeros(3, np.float32))


@pytest.mark.usefixtures("double")
def test_the_exponential_is_as_right_as_it_says():
    import mpmath

    rng = np.random.default_rng(1)
    values = np.r_[0.0, 2.0**-60, 2.0**-27, 2.0**-5 - 2.0**-40, 1 / 3, 63.99, 64.0, 1e300, rng.exponential(4, 3000)]
    compiled = jax.jit(exp_of_minus)
    found = np.asarray(compiled(values))
    for value, one in zip(values, found, strict=True):
        assert abs(mpmath.mpf(float(one)) - mpmath.exp(-mpmath.mpf(float(value)))) <= ERROR / 2
    for i, one in enumerate(np.asarray(compiled(np.arange(2048) / 32))):
        assert abs(mpmath.mpf(float(one)) - mpmath.exp(-mpmath.mpf(i) / 32)) <= 2.0**-52
    falling = np.asarray(compiled(np.sort(values)))
    assert (np.diff(falling) <= 0).all()


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.usefixtures("double")
def test_scores_and_rows_are_what_the_proof_says(trailing):
    """Against exact fractions: m is the row cut to 20 bits, weights have one or two integers, the sum is their exact product."""
    rng = np.random.default_rng(2)
    rows, target, weights = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3)
    run = run_of(5, clip_norm=0.7)
    each, bits = shares(run, Squared(), rows, target, weights, trailing)
    assert bits.row == 20
    assert bits.gradient == 42
    for row, y, share in zip(rows, target, each, strict=True):
        exponent = math.frexp(max(abs(row)))[1]
        whole = [int(Fraction(x) * 2 ** (20 - exponent)) for x in row]
        norm = math.sqrt(sum(m * m for m in whole))
        places = bits.weight * (2 if trailing else 1) - math.frexp(max(abs(weights)))[1]
        score = sum(m * Fraction(round(Fraction(w) * 2**places), 2**places) for m, w in zip(whole, weights, strict=True))
        wanted = (float(score) * 2.0 ** (exponent - 20) - y) * 2.0 ** (exponent - 20) * 2.0**42 / 0.7
        wanted = max(-(2**42 // norm), min(2**42 // norm, wanted))
        factors = share[0] / np.array(whole) + (share[1] / np.array(whole) * 2.0**-bits.trailing if trailing else 0)
        np.testing.assert_allclose(factors, wanted, rtol=0, atol=1.0 if not trailing else 1e-5)


@pytest.mark.parametrize(
    ("n", "d", "row", "weight", "gradient", "residual"),
    [(10**6, 100, 20, 26, 42, 18), (10**6, 1000, 20, 23, 42, 17), (10**8, 1000, 17, 26, 35, 13), (10**6, 10**6, 16, 17, 42, 16)],
)
def test_bits_are_those_of_the_page(n, d, row, weight, gradient, residual):
    bits = bits_of(run_of(n), d)
    assert (bits.row, bits.weight, bits.gradient) == (row, weight, gradient)
    assert residual == gradient - row - -(-(d - 1).bit_length() // 2)


def test_bits_are_those_of_a_batch_where_its_size_is_fixed():
    run = run_of(10**8)
    batches = run.replace(sampling=OnePass(2**14), steps=10**8 // 2**14)
    assert (bits_of(run, 100).gradient, bits_of(batches, 100).gradient) == (35, 42)
    assert bits_of(run.replace(sampling=Poisson(100.0)), 100).gradient == 35  # all may be drawn at once
    # Rows give way until a residual keeps ten bits as well.
    assert bits_of(run_of(10**9), 10_000)[:2] == (15, 32)
    assert bits_of(run_of(10**9), 1_000)[:2] == (16, 32)
    with pytest.raises(InputError, match="batches of up to 1125899906842624 records"):
        bits_of(run_of(2**50), 100)


def test_what_no_bits_are_left_for_is_refused():
    assert bits_of(run_of(10), 100).gradient == 42
    assert bits_of(run_of(2**30), 100).gradient == 32
    for run, d in ((run_of(10), 2**36), (run_of(2**50), 100)):
        with pytest.raises(InputError, match="do not suffice"):
            bits_of(run, d)


def test_the_noise_has_units_that_its_law_can_fill():
    """Finer digits of a normal number in double precision are not as they should be, and the sum would be told by them."""
    bits = bits_of(run_of(10), 100)
    for noise, places in ((1.0, 28), (1.1, 27), (75.0, 21), (1e-6, 42), ((0.5, 75.0), 21)):
        run = run_of(10, noise_multiplier=noise, steps=1 if isinstance(noise, float) else 2)
        found, share = noise_bits_of(run, bits, 100)
        assert found == places
        assert share == (1 - 10 * 2.0**-places if places < 42 else 1)
    with pytest.raises(InputError, match="rounding would take"):
        noise_bits_of(run_of(10, noise_multiplier=1e8), bits, 100)


@pytest.mark.parametrize("noise", [0.3, 1.0, 75.0, 1e5])
def test_one_record_moves_the_rounded_sum_by_at_most_the_clip_norm(noise):
    """In whole units of the noise, whatever the noise, and nearly reached."""
    largest = 0.0
    for seed in range(10):
        rows, target, _ = hostile(Squared(), seed)
        run = run_of(60, noise_multiplier=noise)
        unit = 2.0 ** -noise_bits_of(run, bits_of(run, 4), 4)[0]
        whole = [
            np.rint(train(run, Squared(), some, target, generator=Noiseless(insecure_seed=0), dtype="float64").weights * 60 / unit)
            for some in (rows, np.vstack([rows[:-1], np.zeros(4)]))
        ]
        square = sum(int(a - b) ** 2 for a, b in zip(*whole, strict=True))
        assert square <= (1 / unit) ** 2
        largest = max(largest, square * unit**2)
    assert largest > 0.97


def test_large_batches_are_summed_block_by_block():
    rng = np.random.default_rng(4)
    n = 2 * BLOCK + 77
    rows, target = rng.normal(size=(n, 3)), rng.integers(0, 2, n).astype(float)
    full = summed(run_of(n), rows, target, "float64")
    for sampling in (Poisson(n), FixedSize(n), Cyclic(n), OnePass(n)):
        np.testing.assert_array_equal(summed(run_of(n, sampling=sampling), rows, target, "float64"), full)
