"""Networks of random layers: what a record adds is its own clipped gradient, whoever else is there, and never more."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.lattice import lattice_of
from dplateau.networks.recorded import record
from dplateau.spec import FullBatch

from .small import run_of
from .uses import conv

N = 7
LAYOUT = ("NHC", "HIO", "NHC")


def dense(normal, width, out, _):
    return [normal(width, out), normal(out)], lambda w, h: jnp.tanh(h @ w[0] + w[1])


def weight_first(normal, width, out, _):
    return [normal(out, width)], lambda w, h: jnp.sin(w[0] @ h.T).T


def convolution(normal, width, out, k):
    return [normal(3, width, out)], lambda w, h: conv(h, w[0], (1 + k % 2,), "SAME", LAYOUT, (1 + k // 2,))


def depthwise(normal, width, out, _):
    return [normal(2, 1, width * out)], lambda w, h: conv(h, w[0], layout=LAYOUT, groups=width)


def attention(normal, width, out, _):
    def apply(w, h):
        return h + jax.nn.softmax((h @ w[0]) @ (h @ w[1]).T) @ (h @ w[2])

    return [normal(width, out), normal(width, out), normal(width, width)], apply


def adapter(normal, width, out, _):
    return [normal(width, out), normal(width, 1), normal(1, out)], lambda w, h: h @ (w[0] + w[1] @ w[2])


def parts_of_a_weight(normal, width, out, _):
    return [normal(width + 2, out)], lambda w, h: h @ w[0][1:-1] + w[0][0]


def two_weights_as_one(normal, width, out, _):
    return [normal(width, out), normal(width, 1)], lambda w, h: h @ jnp.concatenate(w, axis=1)


def recurrent(normal, width, _, __):
    def step(w, before, row):
        now = jnp.tanh(before @ w + row)
        return now, now

    return [normal(width, width)], lambda w, h: lax.scan(lambda b, row: step(w[0], b, row), jnp.zeros(h.shape[1]), h)[1]


def layers_in_a_loop(normal, width, _, __):
    return [normal(3, width, width)], lambda w, h: lax.scan(lambda g, one: (jnp.tanh(g @ one), None), h, w[0])[0]


def branches(normal, width, _, __):
    return [normal(width)], lambda w, h: lax.cond(h.sum() > 0, lambda: h * w[0], lambda: h + w[0])


def tied(normal, width, out, _):
    return [normal(width, out)], lambda w, h: jnp.tanh(h @ w[0]) @ w[0].T


def normalised(normal, width, _, __):
    return [normal(width)], lambda w, h: (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-3) * w[0]


def directions(normal, width, out, _):
    return [normal(width, out), normal(out)], lambda w, h: h @ (w[0] / jnp.linalg.norm(w[0], axis=0) * w[1])


LAYERS = [
    *(dense, weight_first, convolution, depthwise, attention, adapter, parts_of_a_weight, two_weights_as_one, recurrent),
    *(layers_in_a_loop, branches, tied, normalised, directions),
]


def network_of(rng, length, width):
    """A loss of up to four random layers, and its weights; half of the networks begin with a table."""

    def normal(*shape):
        return rng.normal(size=shape) / np.sqrt(shape[0])

    params, layers, h = [[normal(5, width)]], [], jax.ShapeDtypeStruct((length, width), float)
    table = rng.random() < 0.5
    for maker in rng.choice(LAYERS, rng.integers(1, 5)):
        weights, layer = maker(normal, h.shape[1], int(rng.integers(1, 5)), int(rng.integers(4)))
        h = jax.eval_shape(layer, weights, h)
        params.append(weights)
        layers.append(layer)

    def loss(p, example):
        rows, codes, target = example
        h = p[0][0][codes] if table else rows + p[0][0].mean(0)
        for layer, weights in zip(layers, p[1:], strict=True):
            h = layer(weights, h)
        return jnp.sum((h - target) ** 2)

    return loss, params


@pytest.mark.parametrize("seed", range(16))
def test_a_record_adds_its_own_clipped_gradient_and_nothing_longer(seed):
    rng = np.random.default_rng(seed)
    length, width = int(rng.choice([1, 2, 5])), int(rng.integers(2, 5))
    with jax.enable_x64(True):
        loss, params = network_of(rng, length, width)
        rows = rng.normal(size=(N, length, width)) * 10 ** rng.uniform(-2, 1, (N, 1, 1))
        examples = rows, rng.integers(0, 5, (N, length)).astype(np.int32), rng.normal(size=N)
        run = run_of(n=N, sampling=FullBatch(), clip_norm=float(10 ** rng.uniform(-2, 1)))
        lattice = lattice_of(run, sum(leaf.size for leaf in jax.tree.leaves(params)))
        recorded = record(loss, params, jax.tree.map(lambda column: column[0], examples))
        summed = ClippedSums(run, recorded, params, examples, lattice, int(rng.integers(1, N + 1)), 1)
        each = jax.vmap(jax.grad(loss), (None, 0))(params, examples)
        flat = np.concatenate([np.asarray(leaf).reshape(N, -1) for leaf in jax.tree.leaves(each)], axis=1)
        room = lattice.room * lattice.unit
        clipped = flat * np.minimum(1, room / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300))
        everybody = np.arange(N, dtype=np.int32)
        whole = summed(params, everybody)
        for one in range(N):
            added = whole - summed(params, rng.permutation(np.delete(everybody, one)))
            assert sum(int(entry) ** 2 for entry in added) <= 4**lattice.bits
            np.testing.assert_allclose(added[:-1] * lattice.unit, clipped[one], atol=1.5e-4 * run.clip_norm)
