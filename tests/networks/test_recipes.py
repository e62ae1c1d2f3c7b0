"""Networks of equinox and flax, as the how-to page writes them down: trained, frozen in part, with dropout, saved and read."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dplateau as dp
from dplateau.certificate import make_certificate
from dplateau.networks import noisy_adam, train_network
from dplateau.networks.keys import NO_KEY, Keyed
from dplateau.networks.recorded import record
from dplateau.spec import InputError

RUN = dp.Run(n=120, sampling=dp.Poisson(30), steps=4, noise_multiplier=2.0, update="post-processed")
ROWS = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0).astype(np.int32)
cross_entropy = optax.softmax_cross_entropy_with_integer_labels


def trained(loss, params, **options):
    return train_network(RUN, loss, params, (ROWS, CLASSES), optimizer=noisy_adam(0.01), rng=True, **options)


def copied(loss, params):
    """The parameters that get a copy for every example."""
    recorded = record(Keyed(loss), params, ((ROWS[0], CLASSES[0]), NO_KEY))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [path for leaf, path in enumerate(paths) if leaf not in recorded.sites]


def saved_and_read(result, folder, like=None):
    certificate = make_certificate(dp.account(result.run, delta=1e-5), result)
    dp.save_network(folder, result.params, certificate)
    found = dp.load_network(folder, like=like).params
    assert jax.tree.structure(found) == jax.tree.structure(result.params)
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(result.params), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))
    return found


def moved(one, two):
    return [bool((np.asarray(a) != np.asarray(b)).any()) for a, b in zip(*map(jax.tree.leaves, (one, two)), strict=True)]


def equinox_model():
    eqx = pytest.importorskip("equinox")

    class Net(eqx.Module):
        first: eqx.nn.Linear
        norm: eqx.nn.LayerNorm
        drop: eqx.nn.Dropout
        last: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key)
            self.first, self.last = eqx.nn.Linear(6, 8, key=keys[0]), eqx.nn.Linear(8, 2, key=keys[1])
            self.norm, self.drop = eqx.nn.LayerNorm(8), eqx.nn.Dropout(0.2)

        def __call__(self, x, key=None):
            return self.last(self.drop(self.norm(jax.nn.relu(self.first(x))), key=key))

    return eqx, Net(jax.random.key(0))


def test_equinox(tmp_path):
    eqx, model = equinox_model()
    weights, rest = eqx.partition(model, eqx.is_inexact_array)

    def loss(weights, example, key):
        x, y = example
        return cross_entropy(eqx.combine(weights, rest)(x, key=key), y)

    assert not [path for path in copied(loss, weights) if "weight" in path and "norm" not in path]
    result = trained(loss, weights)
    assert all(moved(result.params, weights))
    again = eqx.nn.inference_mode(eqx.combine(saved_and_read(result, tmp_path / "n", weights), rest))
    assert jax.vmap(again)(ROWS).shape == (120, 2)
    last = eqx.tree_at(lambda w: w.last, jax.tree.map(lambda _: False, weights), True)
    result = trained(loss, weights, trainable=last, average=0.5)
    assert moved(result.params.last, weights.last) == [True, True]
    assert not any(moved((result.params.first, result.params.norm), (weights.first, weights.norm)))
    saved_and_read(result, tmp_path / "frozen", weights)


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
def test_flax_linen(dtype, tmp_path):
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.LayerNorm()(nn.relu(nn.Dense(8, dtype=dtype)(x)))
            return nn.Dense(2, dtype=dtype)(nn.Dropout(0.2, deterministic=not train)(x))

    net = Net()
    params = net.init(jax.random.key(0), ROWS[0], train=False)["params"]

    def loss(params, example, key):
        x, y = example
        return cross_entropy(net.apply({"params": params}, x, train=True, rngs={"dropout": key}).astype(jnp.float32), y)

    assert not [path for path in copied(loss, params) if "kernel" in path]
    result = trained(loss, params)
    assert all(moved(result.params, params))
    assert net.apply({"params": saved_and_read(result, tmp_path / "n")}, ROWS, train=False).shape == (120, 2)
    result = trained(loss, params, trainable={"Dense_0": False, "LayerNorm_0": False, "Dense_1": True})
    assert moved(result.params["Dense_1"], params["Dense_1"]) == [True, True]
    assert not any(moved(result.params["Dense_0"], params["Dense_0"]))
    with pytest.raises(InputError, match=r"InvalidRngError.*random numbers come from the key of rng=True"):
        trained(lambda p, e, key: cross_entropy(net.apply({"params": p}, e[0], train=True), e[1]), params)


def test_batch_normalisation_of_flax_is_refused_unless_its_statistics_are_frozen():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            return nn.Dense(2)(nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x)))

    net = Net()
    variables = net.init(jax.random.key(0), ROWS[:4], train=False)
    learning = lambda v, e, key: cross_entropy(net.apply(v, e[0][None], train=True, mutable="batch_stats")[0][0], e[1])  # noqa: E731
    with pytest.raises(InputError, match="running statistics"):
        trained(learning, variables)
    with pytest.raises(InputError, match="changes something outside itself"):
        trained(lambda v, e, key: cross_entropy(net.apply(v, e[0], train=True), e[1]), variables)
    using = lambda v, e, key: cross_entropy(net.apply(v, e[0], train=False), e[1])  # noqa: E731
    result = trained(using, variables, trainable={"params": True, "batch_stats": False})
    assert not any(moved(result.params["batch_stats"], variables["batch_stats"]))


def test_flax_nnx(tmp_path):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(6, 8, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)
            self.drop = nnx.Dropout(0.2)

        def __call__(self, x, rngs=None):
            return self.last(self.drop(nnx.relu(self.first(x)), rngs=rngs))

    graph, params, rest = nnx.split(Net(nnx.Rngs(0)), nnx.Param, ...)

    def loss(params, example, key):
        x, y = example
        return cross_entropy(nnx.merge(graph, params, rest)(x, rngs=nnx.Rngs(dropout=key)), y)

    assert not [path for path in copied(loss, params) if "kernel" in path]
    result = trained(loss, params)
    assert all(moved(result.params, params))
    again = nnx.merge(graph, saved_and_read(result, tmp_path / "n", params), rest)
    again.eval()
    assert again(ROWS).shape == (120, 2)
    last = jax.tree_util.tree_map_with_path(lambda path, _: "last" in jax.tree_util.keystr(path), params)
    result = trained(loss, params, trainable=last)
    assert moved(result.params["last"], params["last"]) == [True, True]
    assert not any(moved(result.params["first"], params["first"]))


def test_a_module_of_flax_with_keys_of_its_own_is_refused():
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    drop, layer = nnx.Dropout(0.2, rngs=rngs), nnx.Linear(6, 2, rngs=rngs)
    graph, params = nnx.split(layer)
    with pytest.raises(InputError, match=r"changes something outside itself .*a layer's own random keys.*key of rng=True"):
        trained(lambda p, e, key: cross_entropy(nnx.merge(graph, p)(drop(e[0])), e[1]), params)


def test_a_recurrent_layer_of_flax_takes_its_keys_when_it_is_called():
    nnx = pytest.importorskip("flax.nnx")
    graph, params, rest = nnx.split(nnx.RNN(nnx.GRUCell(2, 2, rngs=nnx.Rngs(0))), nnx.Param, ...)

    def loss(params, example, key, **keys):
        return cross_entropy(nnx.merge(graph, params, rest)(example[0].reshape(3, 2), **keys)[-1], example[1])

    with pytest.raises(InputError, match="changes something outside itself"):
        trained(loss, params)
    trained(lambda p, e, key: loss(p, e, key, rngs=nnx.Rngs(carry=key)), params)
