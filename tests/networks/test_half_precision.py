"""Losses that compute in half precision: no copies, gradients of the parameters' precision, and clipping as for all others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.networks import train_network
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.lattice import lattice_of
from dplateau.networks.recorded import record
from dplateau.spec import FullBatch, InputError

from .small import N, data, flat, loss, run_of, seeded, start
from .uses import LAST, B, by_hand, compiled, conv, sites

HALF = jnp.bfloat16
rng = np.random.default_rng(3)


def whole(*shape, low=-2, high=3):
    """Small whole numbers: their products and sums are exact in half precision."""
    return rng.integers(low, high, shape).astype(np.float32)


def halved(tree):
    return jax.tree.map(lambda leaf: leaf.astype(HALF) if leaf.dtype == jnp.float32 else leaf, tree)


# Name: a loss that is exact on whole numbers, its parameters, examples, and the parameters that need no copies.
CASES = {
    "one place": (lambda p, e: jnp.sum(jax.nn.relu(e @ p["w"] + p["b"])), {"w": whole(4, 3), "b": whole(3)}, whole(B, 4), {"w"}),
    "several places": (lambda p, e: jnp.sum(jax.nn.relu(e @ p["w"])), {"w": whole(4, 3)}, whole(B, 5, 4), {"w"}),
    "two layers": (
        lambda p, e: jnp.sum(jax.nn.relu(e @ p["w"]) @ p["v"]),
        {"w": whole(4, 3), "v": whole(3, 2)},
        whole(B, 4),
        {"w", "v"},
    ),
    "weight first": (lambda p, e: jnp.sum(jax.nn.relu(p["w"] @ e)), {"w": whole(3, 4)}, whole(B, 4), {"w"}),
    "convolution": (
        lambda p, e: jnp.sum(jax.nn.relu(conv(e, p["w"], (1, 1), "SAME", LAST))),
        {"w": whole(3, 3, 1, 2)},
        whole(B, 4, 3, 1),
        {"w"},
    ),
    "embedding": (
        lambda p, e: jnp.sum(p["t"][e[0]].sum(0) @ p["w"]) * e[1],
        {"t": whole(5, 3), "w": whole(3, 2)},
        (rng.integers(0, 5, (B, 4)).astype(np.int32), whole(B)),
        {"t", "w"},
    ),
    "converted for nothing": (
        lambda p, e: (p["w"].astype(jnp.float32), jnp.sum(e @ p["w"]))[1],
        {"w": whole(4, 3)},
        whole(B, 4),
        {"w"},
    ),
    "twice": (lambda p, e: jnp.sum(e @ p["w"]) + jnp.sum(p["w"]), {"w": whole(4, 3)}, whole(B, 4), set()),
}


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_where_half_precision_is_exact_the_sum_is_that_of_single_precision(name, kind):
    loss, params, examples, wanted = CASES[name]
    cast = lambda tree: jax.tree.map(lambda leaf: leaf.astype(kind) if leaf.dtype == jnp.float32 else leaf, tree)  # noqa: E731
    half = lambda p, e: loss(cast(p), cast(e)).astype(jnp.float32)  # noqa: E731
    total, clip_norm = by_hand(loss, params, examples, None)
    np.testing.assert_allclose(
        compiled(half, params, examples, False)(examples, clip_norm), total, rtol=2e-4, atol=2e-5 * clip_norm
    )
    assert sites(half, params, examples) == wanted


@pytest.mark.parametrize("name", CASES)
def test_gradients_have_the_precision_of_the_parameters(name):
    loss, params, examples, _ = CASES[name]
    half = lambda p, e: loss(halved(p), halved(e))  # noqa: E731
    recorded = record(half, params, jax.tree.map(lambda column: column[0], examples))
    for gradient in jax.eval_shape(recorded.gradients, params, examples):
        assert {leaf.dtype for leaf in jax.tree.leaves(gradient) if leaf.dtype != jnp.int32} == {np.dtype("float32")}


def test_lower_precisions_get_copies():
    """Their types do not mix with others, so they are left to JAX."""
    quarter = lambda p, e: jnp.sum((e.astype(jnp.float8_e4m3fn) @ p["w"].astype(jnp.float8_e4m3fn)).astype(jnp.float32))  # noqa: E731
    params, rows = {"w": whole(4, 3)}, whole(B, 4)
    total, clip_norm = by_hand(lambda p, e: jnp.sum(e @ p["w"]), params, rows, None)
    assert sites(quarter, params, rows) == set()
    np.testing.assert_allclose(compiled(quarter, params, rows, False)(rows, clip_norm), total, rtol=2e-4)


def test_a_product_of_half_precision_with_a_single_precision_result_keeps_it():
    rows, params = (1 + rng.integers(0, 128, (B, 64)) / 128).astype(np.float32), {"w": np.ones((64, 2), np.float32)}

    def wide(p, e):
        product = jax.lax.dot(e.astype(HALF)[None], p["w"].astype(HALF), preferred_element_type=jnp.float32)
        return jnp.sum(product**2)  # its derivative is the product

    single = lambda p, e: jnp.sum((e @ p["w"]) ** 2)  # noqa: E731
    total, clip_norm = by_hand(single, params, rows, None)
    assert sites(wide, params, rows) == {"w"}
    found = compiled(wide, params, rows, False)(rows, clip_norm)
    np.testing.assert_allclose(found, total, rtol=2e-5)
    # A compiler may keep more digits than it was asked for, so once without one.
    (site,) = record(wide, params, rows[0]).sites.values()
    product, _ = site.forward(jnp.asarray(params["w"], HALF), jnp.asarray(rows[:1], HALF), jnp.float32)
    np.testing.assert_allclose(product.reshape(-1), rows[0] @ params["w"], rtol=1e-6)


def mixed(params, example):
    """The loss of the other tests: products, a bias and a root in half precision."""
    return loss(halved(params), halved(example)).astype(jnp.float32)


def test_no_record_adds_more_than_the_clip_norm_and_removing_one_moves_the_sum_by_what_it_adds():
    x, y = data()
    x = x * 10.0 ** np.random.default_rng(5).uniform(-20, 20, (N, 1)).astype(np.float32)
    x[3], x[4], x[5], x[6] = 3e38, 1e-42, np.inf, np.nan
    params, run = start(), run_of(sampling=FullBatch(), clip_norm=0.3)
    lattice = lattice_of(run, 20)
    recorded = record(mixed, params, (x[0], y[0]))
    assert recorded.sites.keys() == {1, 2}  # v and w
    summed, everybody = ClippedSums(run, recorded, params, (x, y), lattice, 8, 1), np.arange(N, dtype=np.int32)
    total, order, lengths = summed(params, everybody), np.random.default_rng(6), []
    assert (total == np.rint(total)).all()
    for one in range(N):
        moved = total - summed(params, order.permutation(np.delete(everybody, one)).astype(np.int32))
        np.testing.assert_array_equal(moved, summed(params, np.int32([one])))
        lengths.append(sum(int(entry) ** 2 for entry in moved))
    assert max(lengths) <= 4**lattice.bits
    assert max(lengths) > 0.999 * 4**lattice.bits
    assert lengths[5] == lengths[6] == 0


def test_training_in_half_precision_is_near_training_in_single_precision():
    half, single = (train_network(run_of(), one, start(), data(), generator=seeded()) for one in (mixed, loss))
    assert half.dtype == "float32"
    assert {leaf.dtype for leaf in jax.tree.leaves(half.params)} == {np.dtype("float32")}
    moved = np.linalg.norm(flat(single.params) - flat(start()))
    assert 0 < np.linalg.norm(flat(half.params) - flat(single.params)) < 0.05 * moved


def test_parameters_of_half_precision_are_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"bfloat16: expected arrays of float32 only .* convert to half precision in the loss"):
        train_network(run_of(), loss, jax.tree.map(lambda leaf: jnp.asarray(leaf, HALF), start()), data())
