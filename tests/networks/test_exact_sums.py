"""What one record adds is a function of that record alone, at most the clip norm long, and sums are exact in any order."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.networks import train_network
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.lattice import Lattice, lattice_of
from dplateau.networks.noise import Noise
from dplateau.networks.recorded import record
from dplateau.networks.rounded import _LARGE, Factors, Formed, _integers, _inverse, multipliers, rounded_sum
from dplateau.spec import FullBatch, InputError, Run

from .small import run_of, seeded
from .uses import conv

N = 50


def test_an_order_chosen_by_an_adversary_does_not_help_one_record():
    """In single precision the record carries the sum across 2^13, and later rows are rounded to nothing instead of a whole ulp."""
    micro, ulp = 16, 2.0**-11
    rows = [np.full(1170 * micro, 0.4375), np.full(micro, 1.75 / micro), [0.4375], np.zeros(micro - 1)]
    rows = np.concatenate([*rows, np.full(2700 * micro, -0.99 * ulp / micro)]).astype(np.float32)
    run = run_of(n=len(rows), sampling=FullBatch(), steps=1, clip_norm=1.0, noise_multiplier=1.0, step_size=float(len(rows)))
    released = []
    for weight in (0.4375, 0.0):
        rows[1171 * micro] = weight
        result = train_network(
            run, lambda p, e: p["w"] * e, {"w": np.float32(0)}, rows, generator=seeded(), microbatch=micro, workers=1
        )
        released.append(float(result.params["w"]))
    assert abs(released[0] - released[1]) <= 1


def network(p, e):
    """Products at one place and at several, a convolution, a table, copies: all kinds of leaves."""
    x, codes = e
    h = jnp.tanh(conv(x[:, None], p["c"], (2,), "SAME", ("NHC", "HIO", "NHC")) @ p["m"])
    h = h.sum(0) * p["s"] + p["t"][codes].mean(0)
    return jnp.sum((jax.nn.relu(h @ p["w"] + p["b"]) @ p["v"]) ** 2)


def problem(dtype=np.float32):
    rng = np.random.default_rng(4)
    shapes = {"c": (3, 1, 4), "m": (4, 6), "s": (6,), "t": (7, 6), "w": (6, 5), "b": (5,), "v": (5, 2)}
    params = {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    rows = rng.normal(size=(N, 8)).astype(dtype) * 10.0 ** rng.uniform(-3, 3, (N, 1)).astype(dtype)
    rows[3], rows[4], rows[5], rows[6] = 1e30, 1e-42, np.inf, np.nan
    rows[7], rows[8] = 3e38, 0
    return params, (rows, rng.integers(0, 7, (N, 3)).astype(np.int32))


def summing(params, examples, microbatch, workers=1, loss=network):
    run = run_of(n=len(jax.tree.leaves(examples)[0]), clip_norm=0.3, sampling=FullBatch())
    lattice = lattice_of(run, sum(leaf.size for leaf in jax.tree.leaves(params)))
    recorded = record(loss, params, jax.tree.map(lambda column: column[0], examples))
    return ClippedSums(run, recorded, params, examples, lattice, microbatch, workers), lattice


def test_what_normalises_an_example_is_a_power_of_two():
    exponents = np.arange(-999, 1001)
    with jax.enable_x64(True):  # The largest of two numbers lies at or above half of the power.
        inverse, power = jax.jit(_inverse)(np.ldexp([[0.5], [-0.75]], exponents).T)
        (none, huge), (nothing, infinite) = jax.jit(_inverse)(np.array([[2.0**-1001], [2.0**1001]]))
    assert np.asarray(power).tolist() == [math.ldexp(1, int(e)) for e in exponents]
    assert np.asarray(inverse).tolist() == [math.ldexp(1, -int(e)) for e in exponents]
    assert (float(nothing), float(infinite)) == (0, math.inf)
    assert 0 < float(huge) < 1 < float(none)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [8, _LARGE, 2 * _LARGE + 3])
@pytest.mark.parametrize("count", [1, 8, 13])
def test_integers_are_added_exactly_one_after_the_other_or_at_once(dtype, width, count):
    rng = np.random.default_rng(width)
    values = rng.normal(size=(count, width)).astype(dtype) * 10.0 ** rng.uniform(-3, 3, (count, 1)).astype(dtype)
    values[-1, 0] = np.nan  # The last example is left out.
    lattice, before = Lattice(0.3, 28, 10), rng.integers(-(1 << 40), 1 << 40, width).astype(float)
    with jax.enable_x64(True):
        gradient = Formed(jnp.asarray(values))
        (how,), valid = jax.jit(multipliers, static_argnames="lattice")([gradient], np.ones(count, bool), lattice=lattice)
        alone, after = (np.asarray(jax.jit(rounded_sum)(gradient, how, one)) for one in (np.zeros(width), before))
        each = [
            np.asarray(rounded_sum(Formed(values[k : k + 1]), jax.tree.map(lambda x, k=k: x[k : k + 1], how), np.zeros(width)))
            for k in range(count)
        ]
    assert valid.tolist() == [True] * (count - 1) + [False]
    assert all((one == np.rint(one)).all() for one in each)
    assert count == 1 or all(np.abs(one).max() > 1000 for one in each[:-1])
    exact = [sum(int(one[entry]) for one in each) for entry in range(width)]
    assert alone.tolist() == exact
    assert after.tolist() == [int(old) + new for old, new in zip(before, exact, strict=True)]


def test_derivatives_that_are_all_rounded_away_from_zero_keep_to_the_clip_norm():
    """Where units are coarse: equal entries move together, by up to 1/2 each, and as often as a product has inputs."""
    rng, many = np.random.default_rng(6), 400
    inputs, signs = rng.integers(1, 9, (many, 5)) / 8, rng.choice([-1.0, 1.0], (many, 48))
    lattice, compiled = Lattice(1.0, 10, 3), jax.jit(multipliers, static_argnames="lattice")
    for gradients in ([Factors(inputs, signs)], [Factors(inputs, signs), Formed(signs[:, :7] * 5)]):
        with jax.enable_x64(True):
            found, valid = compiled(gradients, np.ones(many, bool), lattice=lattice)
            whole = [np.asarray(_integers(*one)) for one in zip(gradients, found, strict=True)]
        assert valid.all()
        rows = [np.ones((many, 1)) if how.inputs is None else np.asarray(how.inputs) for how in found]
        squares = sum((m**2).sum(axis=1) * (k**2).sum(axis=1) for m, k in zip(rows, whole, strict=True))
        assert squares.max() + lattice.tally**2 <= 4.0**lattice.bits
        assert squares.max() > 0.97 * lattice.room**2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_removing_any_record_moves_the_sum_by_at_most_the_clip_norm_in_any_order(dtype):
    with jax.enable_x64(dtype == np.float64):
        params, examples = problem(dtype)
        rng, everybody = np.random.default_rng(5), np.arange(N, dtype=np.int32)
        summed, lattice = summing(params, examples, 8)
        whole, lengths = summed(params, everybody), []
        assert (whole == np.rint(whole)).all()
        for record in range(N):
            order = rng.permutation(np.delete(everybody, record)).astype(np.int32)
            moved = whole - summed(params, order)
            lengths.append(sum(int(entry) ** 2 for entry in moved))  # Exact: Python's integers.
            np.testing.assert_array_equal(moved, summed(params, np.int32([record])))
        assert max(lengths) <= 4**lattice.bits
        assert max(lengths) > 0.999 * 4**lattice.bits  # Or more noise than needed would hide it.
        assert lengths[5] == lengths[6] == 0  # Not finite.
        assert lengths[8] >= lattice.tally**2  # All zeros: finite, and counted.


@pytest.mark.parametrize("microbatch", [1, 3, 16, 50])
def test_order_and_workers_do_not_change_a_bit(microbatch):
    params, examples = problem()
    rng, found = np.random.default_rng(microbatch), []
    for workers in (1, 2, 3):
        summed, lattice = summing(params, examples, microbatch, workers)
        found += [summed(params, rng.permutation(N).astype(np.int32)) for _ in range(2)]
        summed.close()
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    # Gradients are computed in single precision, in shapes that depend on the microbatch.
    other = summing(params, examples, 8)[0](params, np.arange(N, dtype=np.int32))
    assert np.linalg.norm(other - found[0]) < 1e-3 * 2**lattice.bits


def test_settings_of_the_calling_thread_do_not_divide_a_batch():
    """Operations that are compiled one by one round otherwise. Threads do not have the settings of the one that started them."""
    params, examples = problem()
    with jax.disable_jit():
        summed, _ = summing(params, examples, 32, workers=2)
        many, few = (np.arange(count, dtype=np.int32) for count in (33, 32))  # in two microbatches, and in one
        moved, alone = summed(params, many) - summed(params, few), summed(params, many[32:])
        gradients, _, _ = summed.contributions(params, jax.tree.map(lambda column: column[:32], examples))
    summed.close()
    np.testing.assert_array_equal(moved, alone)
    usual = summing(params, examples, 32)[0].contributions(params, jax.tree.map(lambda column: column[:32], examples))[0]
    jax.tree.map(np.testing.assert_array_equal, gradients, usual)


@pytest.mark.parametrize(("row", "target"), [(1e-170, 1e300), (1e-300, 1e300), (1e200, 1e-50), (1e-20, 1e25), (5e-324, 1e300)])
@pytest.mark.parametrize("places", [1, 2])
def test_norms_whose_squares_leave_double_precision_are_clipped(row, target, places):
    """A row of 1e-170 has a square of zero; with a target of 1e300 its gradient is 1e130 all the same."""

    def loss(p, e):
        x, y = e
        return jnp.sum((x @ p["w"] + p["b"] - y) ** 2) / 2

    with jax.enable_x64(True):
        params = {"w": np.zeros((4, 3)), "b": np.zeros(3)}
        examples = np.full((2, 4) if places == 1 else (2, 2, 4), row), np.float64([target, 0])
        summed, lattice = summing(params, examples, 2, loss=loss)
        alone = summed(params, np.int32([0]))
    assert sum(int(entry) ** 2 for entry in alone) <= 4**lattice.bits
    assert np.isfinite(alone).all()
    if row > 1e-300 and row * target > 1:
        assert np.linalg.norm(alone) >= 0.99 * 2.0**lattice.bits


def test_double_precision_contributions_are_those_of_the_gradients():
    with jax.enable_x64(True):
        params, (rows, codes) = problem(np.float64)
        rows = np.random.default_rng(6).normal(size=rows.shape)
        summed, lattice = summing(params, (rows, codes), 8)
        gradients = jax.jit(jax.vmap(jax.grad(network), (None, 0)))(params, (rows, codes))
        flat = np.concatenate([np.asarray(leaf).reshape(N, -1) for leaf in jax.tree.leaves(gradients)], axis=1)
        norms = np.linalg.norm(flat, axis=1, keepdims=True)
        wanted = (flat * np.minimum(1, lattice.room * lattice.unit / np.maximum(norms, 1e-300))).sum(0)
        found = summed(params, np.arange(N, dtype=np.int32))[:-1] * lattice.unit
    np.testing.assert_allclose(found, wanted, atol=2e-4)


def test_the_lattice_follows_the_noise_and_the_number_of_records():
    run = run_of(clip_norm=0.7)
    for noise, n, bits in ((1.0, 40, 28), (2.0, 40, 27), (1.1, 40, 27), (0.25, 40, 30), (1e-9, 1 << 20, 32)):
        lattice = lattice_of(run.replace(noise_multiplier=noise, n=n, sampling=FullBatch()), 1000)
        assert lattice.bits == bits
        assert lattice.unit * 2**bits == 0.7
        assert lattice.room**2 + lattice.tally**2 <= 4**bits < (1 + 1e-9) * (lattice.room**2 + lattice.tally**2)
    with pytest.raises(InputError, match=r"bits are left .* rounding 1000000000 weights .* lower noise_multiplier or the number"):
        lattice_of(run.replace(noise_multiplier=300.0), 10**9)


def test_noise_is_rounded_to_whole_units_and_has_its_scale():
    lattice = Lattice(0.7, 20, 8)
    noise = list(Noise(seeded(), 40_001).steps(lattice.deviations(np.array([1.0, 0.25]))))
    for halves, deviation in zip(noise, (2.0**20, 2.0**18), strict=True):
        row = np.concatenate(halves)
        assert row.shape == (40_002,)
        assert (row == np.rint(row)).all()
        assert abs(np.var(row) / deviation**2 - 1) < 6 * math.sqrt(2 / 40_000)


@pytest.mark.parametrize(("n", "noise", "weights"), [(1, 1e-7, 64), (64, 1e-5, 4096), (1000, 1e-4, 1 << 20), (1000, 1.0, 1 << 20)])
def test_the_square_of_a_row_of_inputs_is_exact(n, noise, weights):
    """It is a sum of squares of whole numbers, at most one for each weight: below 2^53, in any order."""
    lattice = lattice_of(Run(n=n, sampling=FullBatch(), steps=1, noise_multiplier=noise, clip_norm=1.0, step_size=1.0), weights)
    assert weights * 4**lattice.input_bits <= 2**53
