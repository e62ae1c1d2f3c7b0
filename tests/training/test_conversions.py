"""What the proofs take for granted of compiled conversions and comparisons: each is exact, or rounded once, at every place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

COUNT = 1003  # whole registers, and a rest


def compiled(formula, *values):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(formula)(*values))


@pytest.mark.parametrize("kind", [np.uint64, np.int64])
def test_words_become_the_nearest_doubles(kind):
    """Noise is made of words of 64 bits; vectors of unsigned ones are converted in two halves."""
    words = np.random.default_rng(0).integers(0, 2**64, COUNT, np.uint64)
    words[:8] = [2**64 - 1, 2**64 - 2**10, 2**64 - 2**10 - 1, 2**63, 2**63 - 2**9, 2**53 + 1, 2**53 + 3, 0]
    words[8:500] >>= np.arange(492, dtype=np.uint64) % np.uint64(64)
    for given in (words, np.roll(words, 499)):
        values = given.view(kind)
        assert compiled(lambda x: x.astype(jnp.float64), values).tolist() == [float(int(one)) for one in values]


def test_a_number_is_rounded_to_single_precision_before_it_is_a_double_again():
    """XLA may leave out pairs of conversions (``xla_allow_excess_precision``); squares would not be exact then."""
    values = np.random.default_rng(0).normal(size=COUNT)
    single = (values * 3).astype(np.float32).astype(np.float64)
    assert (compiled(lambda x: (x * 3).astype(jnp.float32).astype(jnp.float64) ** 2, values) == single**2).all()


def test_halves_are_rounded_to_even_and_numbers_cut_off_towards_zero():
    values = np.arange(-COUNT, COUNT) / 2
    values[:4] = [np.nextafter(0.5, 0), -np.nextafter(0.5, 0), 2.0**52 - 0.5, 2.0**53 - 1]
    assert (compiled(jnp.rint, values) == np.rint(values)).all()
    assert (compiled(jnp.trunc, values) == np.trunc(values)).all()
    assert (compiled(lambda x: x.astype(jnp.int64), np.rint(values)) == np.rint(values)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_below_the_normal_ones_are_zero_everywhere_or_nowhere(dtype):
    """A maximum that takes one for zero, and a product that does not, would leave it out of a norm."""
    least = float(np.finfo(dtype).tiny)
    values = np.full(COUNT, least / 8, dtype)
    scaled = compiled(lambda x: x.astype(jnp.float64) * 2.0**100, values)
    found = [
        *np.unique(scaled),
        float(compiled(lambda x: jnp.max(jnp.abs(x)).astype(jnp.float64), values) * 2.0**100),
        *np.unique(compiled(lambda x: jnp.where(x > 0, 1.0, 0.0), values)),
        float(compiled(lambda x: jnp.sum(x.astype(jnp.float64) * 2.0**100), np.full((2000, 2000), least / 8, dtype))),  # by threads
    ]
    assert len({one > 0 for one in found}) == 1, found


@pytest.mark.parametrize("place", [0, 1, 7, 8, COUNT - 1])
def test_nothing_hides_what_is_not_a_number(place):
    values = np.ones(COUNT)
    values[place] = np.nan
    for most in (lambda x: jnp.max(jnp.abs(x)), lambda x: jnp.maximum(x[place], 1.0), lambda x: jnp.minimum(1.0, x)[place]):
        assert np.isnan(compiled(most, values))
    assert compiled(lambda x: jnp.where(x * x > 0, x, 0.0), values)[place] == 0
    assert compiled(lambda x: x.astype(jnp.int64), values)[place] == 0


def test_powers_of_two_are_read_from_doubles_and_written_into_them():
    exponents = np.arange(-1022, 1024)
    powers = np.ldexp(1.0, exponents)
    assert (compiled(lambda e: jax.lax.bitcast_convert_type((e + 1023) << 52, jnp.float64), exponents) == powers).all()
    assert (compiled(lambda x: jnp.frexp(x)[1], powers) == exponents + 1).all()
    assert (compiled(lambda x: jnp.frexp(x)[1], np.nextafter(powers, np.inf)) == exponents + 1).all()


@pytest.mark.parametrize("shape", [(1, 2048, 1), (7, 2048, 3), (64, 300, 65), (512, 512, 512)])
def test_products_of_whole_numbers_up_to_53_bits_are_exact(shape):
    """In any order, fused or not, by any library: also where every partial sum is next to the end."""
    rows, inner, columns = shape
    rng, bits = np.random.default_rng(0), 53 - (inner - 1).bit_length()
    left = rng.integers(2 ** (bits // 2 - 1), 2 ** (bits // 2), (rows, inner))
    right = rng.integers(2 ** (bits - bits // 2 - 1), 2 ** (bits - bits // 2), (inner, columns))
    found = compiled(lambda a, b: jnp.matmul(a, b, precision="highest"), left + 0.0, right + 0.0)
    assert (found == left @ right).all()
    assert ((left + 0.0) @ (right + 0.0) == left @ right).all()
