"""Clipped sums of per-example gradients: nobody counts for more than the clip norm, whatever the numbers are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.networks.recorded import record
from dplateau.spec import InputError

from .uses import CASES, LAST, OWN_KERNELS, B, W, by_hand, compiled, conv, dense, normal, normalised, numbers, ours, sites


def test_the_order_of_the_row_is_that_of_the_leaves():
    params = {"b": normal(3), "a": normal(4, 3)}
    row = ours(lambda p, e: jnp.sum(e @ p["a"] + p["b"]), params, normal(B, 4), 1e6)
    np.testing.assert_allclose(row[12:], B, rtol=1e-5)  # a comes first


def test_nobody_used_gives_zero_and_everybody_is_one_by_one():
    loss, params, examples, _ = CASES["dense"]
    summed = compiled(loss, params, examples)
    assert not summed(examples, 0.1, np.zeros(B, bool)).any()
    alone = [summed(examples, 0.1, np.arange(B) == k) for k in range(B)]
    np.testing.assert_allclose(np.sum(alone, 0), summed(examples, 0.1), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 0.1, rtol=1e-5)


@pytest.mark.parametrize("mode", ["promise_in_bounds", "clip", "fill"])
def test_numbers_that_no_row_has_do_no_harm(mode):
    """Two numbers beyond the table may mean the same row: their derivatives then add up, and so does what the norm must see."""
    loss = lambda p, e: 3 * jnp.sum(p["t"].at[e].get(mode=mode))  # noqa: E731
    params, examples = {"t": normal(5, 3)}, np.int32([[0, 1, 1], [4, 5, 6], [-1, -2, 0], [99, 4, -99], [7, 8, 2], [3, 3, 3]])
    summed = compiled(loss, params, examples)
    alone = np.array([summed(examples, 1.0, np.arange(B) == k) for k in range(B)])
    assert (np.linalg.norm(alone, axis=1) <= 1 + 1e-5).all()
    total, _ = by_hand(loss, params, examples, 1.0)
    if mode == "clip":  # Otherwise there is no gradient that means anything.
        np.testing.assert_allclose(summed(examples, 1.0), total, atol=1e-5)


def test_zero_gradients_do_no_harm():
    assert not ours(lambda p, e: jnp.sum(e @ p["w"]) * 0, W, normal(B, 4), 1.0).any()


@pytest.mark.parametrize("name", ["dense", "places", "conv NHWC, stride, same", "tied", "layer norm", "embedding"])
def test_gradients_that_are_not_finite_contribute_nothing(name):
    loss, params, examples, _ = CASES[name]
    square = lambda p, e: loss(p, e) ** 2  # noqa: E731 (overflows for large entries)
    summed, gradient = compiled(square, params, examples, False), jax.jit(jax.grad(square))
    others = np.arange(B) != 2
    wanted = summed(examples, 0.5, others)
    met = 0
    for entry in (np.nan, np.inf, 3e38):
        numbers, reals = (examples[0], examples[1].copy()) if isinstance(examples, tuple) else (None, examples.copy())
        reals[2] = np.where(np.arange(reals[2].size).reshape(reals[2].shape) % 2, reals[2], entry)
        bad = reals if numbers is None else (numbers, reals)
        finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(params, jax.tree.map(lambda x: x[2], bad))))
        met += not finite
        found = summed(bad, 0.5)
        assert np.linalg.norm(found - wanted) <= (0.5 + 1e-5 if finite else 1e-6)
        np.testing.assert_allclose(summed(bad, 0.5, others), wanted, atol=1e-6)
    assert met


@pytest.mark.parametrize("name", OWN_KERNELS)
def test_an_example_that_overflows_changes_no_other_where_each_has_its_own_kernel(name):
    """The compiler's product for all kernels has zeros, which times an infinite number are not a number."""
    loss, params, examples, _ = CASES[name]
    summed, others = compiled(loss, params, examples, False), np.arange(B) != 2
    wanted = summed(examples, 0.5, others)
    assert wanted.any()
    for entry in (np.nan, np.inf, 3e38):
        bad = examples.copy()
        bad[2] = entry
        assert (summed(bad, 0.5, others) == wanted).all()


def test_no_convolution_is_left_that_works_on_several_examples():
    """Those by a kernel that all share stay; those in functions with derivatives of their own cannot be seen, and are refused."""
    image, weight = np.zeros((5, 5, 2), np.float32), np.zeros((3, 3, 1, 4), np.float32)
    grouped = lambda e, w: conv(e, w, layout=LAST, strides=(1, 1), groups=2)  # noqa: E731
    own = jax.custom_jvp(grouped)
    own.defjvps(lambda t, _, e, w: grouped(t, w), lambda t, _, e, w: grouped(e, t))
    assert record(lambda p, e: jnp.sum(grouped(e, weight) * p["s"]), {"s": np.zeros(4, np.float32)}, image)
    with pytest.raises(InputError, match="convolution by a kernel that differs between examples"):
        record(lambda p, e: jnp.sum(own(e, p["w"])), {"w": weight}, image)


def test_norms_that_overflow_clip_to_almost_nothing():
    loss = lambda p, e: jnp.sum(e @ p["w"])  # noqa: E731
    huge = np.full((B, 4), 1e30, np.float32)
    assert np.linalg.norm(ours(loss, {"w": normal(4, 3)}, huge, 1.0)) <= B


def test_double_precision():
    with jax.enable_x64(True):
        for name in ("dense", "conv NHWC, stride, same", "embedding", "layer norm", "scan"):
            loss, params, examples, _ = CASES[name]
            params, examples = jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, (params, examples))
            total, _ = by_hand(loss, params, examples, 0.3)
            found = compiled(loss, params, examples, False)(examples, 0.3)
            np.testing.assert_allclose(found, total, rtol=1e-4, atol=1e-4)


def test_single_precision_stays_single_where_double_is_allowed():
    with jax.enable_x64(True):
        loss, params, examples, _ = CASES["dense"]
        total, _ = by_hand(loss, params, examples, 0.3)
        for precision in (np.float32, np.float64):
            found = compiled(loss, params, examples.astype(precision), False)(examples.astype(precision), 0.3)
            np.testing.assert_allclose(found, total, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "places"),
    [("uint8", ()), ("uint8", (2,)), ("int8", ()), ("int32", ()), ("bool", (2,)), ("float16", ()), ("bfloat16", (2,))],
)
def test_examples_of_other_types_are_clipped_as_they_count(kind, places):
    """A product of bytes and weights needs no conversion in JAX; the squares of bytes do."""
    examples = jnp.asarray(numbers(120, B, *places, 4)).astype(kind)
    loss = lambda p, e: jnp.sum(e @ p["w"])  # noqa: E731
    params = {"w": normal(4, 3)}
    assert sites(loss, params, examples) == {"w"}
    total, clip_norm = by_hand(lambda p, e: loss(p, e.astype(np.float32)), params, examples, None)
    np.testing.assert_allclose(compiled(loss, params, examples, False)(examples, clip_norm), total, rtol=1e-4)


@st.composite
def problems(draw):
    """A small network, its examples of any scale, and a clip norm."""
    places, inputs, units = draw(st.sampled_from([0, 3])), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    scales = draw(st.lists(st.floats(-7, 7), min_size=3, max_size=3))
    kind = draw(st.sampled_from(["dense", "tied", "normalised", "embedded"]))
    return places, inputs, units, kind, seed, *(10.0**scale for scale in scales)


def network(places, inputs, units, kind, generator, scale):
    make = lambda *shape: (scale * generator.normal(size=shape)).astype(np.float32)  # noqa: E731
    if kind == "embedded":
        params = {"t": jnp.asarray(make(4, units)), "v": make(units, 2)}
        return lambda p, e: jnp.sum((jnp.tanh(p["t"][e[1]]).sum(0) @ p["v"]) ** 2) * e[0].sum(), params
    if kind == "tied":
        return lambda p, e: jnp.sum(jnp.tanh(e[0] @ p["w"]) @ p["w"].T * e[0]), {"w": make(inputs, units)}
    if kind == "normalised":
        return lambda p, e: normalised(p, e[0]), {"w": make(inputs, units), "scale": make(units), "shift": make(units)}
    return lambda p, e: jnp.sum((jax.nn.relu(e[0] @ p["w"] + p["b"]) @ p["v"]) ** 2), {
        "w": make(inputs, units), "b": make(units), "v": make(units, 2)
    }  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(problems())
def test_no_example_contributes_more_than_the_clip_norm(problem):
    places, inputs, units, kind, seed, size, weight, clip_norm = problem
    generator = np.random.default_rng(seed)
    loss, params = network(places, inputs, units, kind, generator, weight)
    shape = (8, places, inputs) if places else (8, inputs)
    examples = (size * generator.normal(size=shape)).astype(np.float32), generator.integers(0, 4, (8, 5)).astype(np.int32)
    summed = compiled(loss, params, examples, False, bits=28)
    norms = [np.linalg.norm(summed(examples, clip_norm, used)) for used in np.eye(8, dtype=bool)]
    assert max(norms) <= clip_norm * (1 + 2.0**-40)


@pytest.mark.parametrize("scale", [1e-19])
def test_inputs_whose_square_vanishes_are_clipped_too(scale):
    """The norm is |x| |g|: where |x|^2 is zero in floating point, |g| must not be taken to be multiplied by zero."""

    def loss(p, e):
        return jnp.sum((e[0] @ p["w"] - e[1]) ** 2) / 2

    examples = np.full((1, 4), scale, np.float32), np.float32([1 / scale])
    assert np.linalg.norm(ours(loss, {"w": np.zeros((4, 2), np.float32)}, examples, 0.1)) <= 0.1 * (1 + 1e-5)


@pytest.mark.parametrize("size", [1e12])
def test_derivatives_that_cancel_in_a_row_do_not_touch_the_other_examples(size):
    """What one example adds to a row of a table must be summed before it meets the others: for floats, a + x - x is not a."""

    def loss(p, e):
        rows = p["t"][e[0]]
        return (jnp.sum(rows[0] - rows[1]) - e[1]) ** 2 / 2

    rows, targets = np.tile(np.int32([0, 1]), (64, 1)), np.full(64, -1, np.float32)
    rows[-1], targets[-1] = 0, size
    others, summed = np.arange(64) < 63, compiled(loss, {"t": np.zeros((5, 3), np.float32)}, (rows, targets))
    change = summed((rows, targets), 1.0) - summed((rows, targets), 1.0, others)
    assert np.linalg.norm(change) <= 1 + 1e-4


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_gradients_that_cancel_over_places_do_not_touch_the_other_examples(kind):
    def loss(p, e):
        x, signs, target = e
        y = x @ p["w"] if kind == "dense" else conv(x, p["w"][None], (1,), "SAME", ("NHC", "HIO", "NHC"))
        return (jnp.sum(y * signs[:, None]) - target) ** 2 / 2

    rows, signs = normal(16, 7, 3), normal(16, 7)
    exact = np.float64(rows[-1] * np.float32(1e6))
    signs[-1] -= exact @ np.linalg.lstsq(exact, np.float64(signs[-1]), rcond=None)[0]
    rows[-1] *= 1e6
    examples = rows, signs, np.append(np.ones(15), 1e3).astype(np.float32)
    others, summed = np.arange(16) < 15, compiled(loss, {"w": np.zeros((3, 2), np.float32)}, examples)
    change = summed(examples, 1.0) - summed(examples, 1.0, others)
    assert np.linalg.norm(change) <= 1 + 1e-4


@pytest.mark.parametrize(
    ("loss", "params", "message"),
    [
        (lambda p, e: e @ p["w"], W, r"gives \[\(\(3,\), 'float32'\)\] at one example: expected one number"),
        (lambda p, e: (jnp.sum(e @ p["w"]), 1.0), W, "expected one number.* add terms to the number"),
        (lambda p, e: (jnp.sum(e @ p["w"]),) * 9, W, r"float32'\)\] and 6 more at one example"),
        (lambda p, e: jnp.argmax(e @ p["w"]), W, "'int32'.* expected one number"),
        (dense, {**W, "n": np.int32(3)}, "keep everything that is not trained out of it"),
        (lambda p, e: jnp.sum(e), {}, "tree of arrays of real numbers"),
    ],
)
def test_what_is_no_loss_is_refused(loss, params, message):
    with pytest.raises(InputError, match=message):
        record(loss, params, normal(4))
