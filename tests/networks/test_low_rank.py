"""Low-rank products of weights are multiplied with the rows of an example one after the other: the same sums, no copies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.networks import train_network
from dplateau.networks.lattice import Lattice
from dplateau.networks.recorded import record
from dplateau.networks.rounded import multipliers, rounded_sum
from dplateau.networks.trainable import parts_of

from .small import data, flat, run_of, seeded
from .uses import CLIPPED, FAST, B, by_hand, normal

W, A, C = normal(12, 10), normal(12, 2), normal(2, 10)
MULTIPLIED = jax.jit(multipliers, static_argnames="lattice", compiler_options=FAST)
ADDED = jax.jit(rounded_sum, compiler_options=FAST)
PARAMS = {"w": W, "a": A, "c": C}


def squared(product):
    return jnp.sum(jnp.sin(product))


@jax.jit
def adapted(p):
    return p["w"] + 0.5 * (p["a"] @ p["c"])


# Name: a loss, the parameters beside a and c, the example's shape, what is trained, and what of that needs no copies.
CASES = {
    "frozen base": (lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"])), {}, (12,), "ac", "ac"),
    "trained base": (lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"])), {}, (12,), "acw", "acw"),
    "no base": (lambda p, e: squared(e @ (p["a"] @ p["c"])), {}, (12,), "ac", "ac"),
    "places": (lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"])), {}, (5, 12), "ac", "ac"),
    "scaled": (lambda p, e: squared(e @ (p["w"] + 4.0 * (p["a"] @ p["c"]) / 3)), {}, (12,), "ac", "ac"),
    "scaled entry by entry": (
        lambda p, e: squared(e @ (p["w"] + jax.lax.mul(p["a"] @ p["c"], jnp.full((12, 10), p["s"])))),
        {"s": normal()},
        (12,),
        "acs",
        "a",
    ),
    "scaled by a learned number": (
        lambda p, e: squared(e @ (p["w"] + p["s"] * (p["a"] @ p["c"]))),
        {"s": np.float32(0.7)},
        (12,),
        "acs",
        "ac",
    ),
    "scaled together": (lambda p, e: squared(e @ ((p["w"] + p["a"] @ p["c"]) / 3)), {}, (12,), "ac", "ac"),
    "in jit": (lambda p, e: squared(e @ adapted(p)), {}, (12,), "ac", "ac"),
    "matrix first": (lambda p, e: squared((p["w"] + p["a"] @ p["c"]) @ e), {}, (10,), "ac", "ac"),
    "matrix first, places": (lambda p, e: squared((p["w"] + p["a"] @ p["c"]) @ e), {}, (10, 4), "ac", "ac"),
    "transposed": (lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"]).T), {}, (10,), "ac", "ac"),
    "turned factors": (
        lambda p, e: squared(e @ (p["w"] + jnp.einsum("ka,kc->ac", p["x"], p["c"]))),
        {"x": normal(2, 12)},
        (12,),
        "cx",
        "cx",
    ),
    "einsum": (lambda p, e: squared(jnp.einsum("sd,do->os", e, p["w"] + p["a"] @ p["c"])), {}, (5, 12), "ac", "ac"),
    "two adapters": (
        lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"] + p["x"] @ p["y"])),
        {"x": normal(12, 1), "y": normal(1, 10)},
        (12,),
        "acxy",
        "acxy",
    ),
    "half of it frozen": (lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"])), {}, (12,), "a", "a"),
    "a rank that is too high": (
        lambda p, e: squared(e @ (p["x"] @ p["y"])),
        {"x": normal(4, 4), "y": normal(4, 4)},
        (4,),
        "xy",
        "x",
    ),
    "used twice": (lambda p, e: squared(e @ (p["a"] @ p["c"])) + squared(e @ (p["a"] @ p["c"])), {}, (12,), "ac", ""),
    "formed": (lambda p, e: squared(p["a"] @ p["c"] * e[:, None]), {}, (12,), "ac", "a"),
    "formed and returned": (lambda p, e: (p["a"] @ p["c"])[0, 0] * e[0], {}, (12,), "ac", "a"),
    "minus": (lambda p, e: squared(e @ (p["w"] - p["a"] @ p["c"])), {}, (12,), "ac", "a"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sum_is_that_of_the_clipped_gradients_and_adapters_need_no_copies(name):
    loss, more, shape, trained, wanted = CASES[name]
    params, examples = {**PARAMS, **more}, normal(B, *shape)
    params = {name: params[name] for name in params if name in trained or name in "wac"}
    parts = parts_of(params, {name: name in trained for name in params})
    recorded = record(loss, parts.start, examples[0], parts)
    names = [name for name in sorted(params) if name in trained]
    assert {names[leaf] for leaf in recorded.sites} == set(wanted)
    ours = {name: params[name] for name in names}
    total, clip_norm = by_hand(lambda p, e: loss({**params, **p}, e), ours, examples, None)
    lattice = Lattice(clip_norm / CLIPPED, 48, 16)
    gradients = jax.jit(recorded.gradients, compiler_options=FAST)(parts.start, examples, parts.frozen)
    with jax.enable_x64(True):
        how, valid = MULTIPLIED(gradients, np.ones(B, bool), lattice=lattice)
        before = [np.zeros(leaf.size) for leaf in jax.tree.leaves(parts.start)]
        sums = [np.asarray(ADDED(*one)) for one in zip(gradients, how, before, strict=True)]
    assert valid.all()
    np.testing.assert_allclose(np.concatenate(recorded.arranged(sums)) * lattice.unit, total, rtol=3e-4, atol=3e-5 * clip_norm)


def test_memory_for_an_adapter_is_that_of_its_factors():
    parts = parts_of(PARAMS, {"w": False, "a": True, "c": True})
    footprints = [
        record(loss, parts.start, normal(12), parts).footprint
        for loss in (
            lambda p, e: squared(e @ (p["w"] + p["a"] @ p["c"])),
            lambda p, e: squared(e @ p["w"] + (e @ p["a"]) @ p["c"]),
            lambda p, e: squared(e @ (p["w"] - p["a"] @ p["c"])),
        )
    ]
    assert footprints[0] == footprints[1] < footprints[2] / 3


def test_training_an_adapter_is_training_its_factors_and_half_precision_goes_through():
    params = {"w": normal(3, 8), "a": normal(3, 1), "c": normal(1, 8)}
    mask = {"w": False, "a": True, "c": True}
    half = lambda p: jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), p)  # noqa: E731
    together = lambda p, e: squared(e[0] @ (p["w"] + p["a"] @ p["c"])) * e[1]  # noqa: E731
    apart = lambda p, e: squared(e[0] @ p["w"] + (e[0] @ p["a"]) @ p["c"]) * e[1]  # noqa: E731
    in_half = lambda p, e: together(half(p), (e[0].astype(jnp.bfloat16), e[1]))  # noqa: E731
    found = [train_network(run_of(), one, params, data(), trainable=mask, generator=seeded()) for one in (together, apart, in_half)]
    np.testing.assert_allclose(flat(found[0].params), flat(found[1].params), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(flat(found[0].params), flat(found[2].params), rtol=0.1, atol=0.1)
    assert len(record(in_half, parts_of(params, mask).start, (data()[0][0], data()[1][0]), parts_of(params, mask)).sites) == 2
