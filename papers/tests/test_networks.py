import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dplateau_papers import networks

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)

CASES = {
    "mnist": (networks.mnist_cnn(), BYTES[:, :28, :28, 0], np.array([3, 9, 0]), 10, 26_010),
    "adult-1": (networks.adult_mlp(), RANDOM.normal(0, 0.3, (3, 123)).astype(np.float32), np.array([0, 1, 1]), 1, 124 * 16 + 17),
    "adult-2": (networks.adult_mlp(outputs=2), RANDOM.normal(0, 0.3, (3, 123)).astype(np.float32), np.array([0, 1, 1]), 2, 2_018),
    "imdb": (networks.imdb_network(), RANDOM.integers(0, 10_000, (3, 256)), np.array([1, 0, 1]), 1, 160_000 + 17 * 17),
    "movielens": (networks.movielens_network(), np.array([[0, 0], [6039, 3951], [5, 7]]), np.array([0, 4, 2]), 5, 9_992 * 15 + 130),
    "cifar": (networks.cifar_cnn(), BYTES, np.array([3, 9, 0]), 10, 4_864 + 102_464 + 4_097 * 384 + 3_850),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes_counts_and_gradients(name):
    network, x, y, size, count = CASES[name]
    params = network.init(jax.random.key(0))
    leaves = jax.tree.leaves(params)
    assert sum(leaf.size for leaf in leaves) == count
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}
    assert network.apply(params, jnp.asarray(x[0])).shape == (size,)
    loss = (networks.logistic if size == 1 else networks.cross_entropy)(network)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(loss), (None, 0)))(params, (jnp.asarray(x[:2]), jnp.asarray(y[:2])))
    assert values.shape == (2,)
    # Untrained, every class is about as likely as any other.
    np.testing.assert_allclose(values, math.log(max(size, 2)), atol=2.5)
    for leaf, gradient in zip(leaves, jax.tree.leaves(gradients), strict=True):
        assert gradient.shape == (2, *leaf.shape)
        assert np.isfinite(gradient).all()
        assert (np.abs(gradient).reshape(2, -1).max(axis=1) > 0).all()  # every layer learns from every example


def test_initial_layers_have_the_stated_sizes():
    init = networks.mnist_cnn().init
    params = init(jax.random.key(1))
    assert float(params["dense"]["w"].std()) == pytest.approx(math.sqrt(2 / 512), rel=0.03)
    assert float(params["conv2"]["w"].std()) == pytest.approx(math.sqrt(2 / 256), rel=0.04)
    limit = math.sqrt(6 / 42)
    assert 0.9 * limit < float(jnp.abs(params["out"]["w"]).max()) <= limit
    assert not params["out"]["b"].any()
    other = init(jax.random.key(2))
    assert not (other["dense"]["w"] == params["dense"]["w"]).any()


def test_the_loss_of_the_mlp_by_hand():
    # Units max(0, 1 + 2 - 1) = 2 and max(0, -1 + 1) = 0; output 0.5 * 2 - 3 * 0 - 0.25 = 0.75.
    params = {
        "dense": {"w": jnp.array([[1.0, -1.0], [2.0, 1.0]]), "b": jnp.array([-1.0, 0.0])},
        "out": {"w": jnp.array([[0.5], [-3.0]]), "b": jnp.array([-0.25])},
    }
    x = jnp.array([1.0, 1.0])
    loss = networks.logistic(networks.adult_mlp(2, 2))
    assert float(loss(params, (x, 1))) == pytest.approx(math.log1p(math.exp(-0.75)), rel=1e-6)
    assert float(loss(params, (x, 0))) == pytest.approx(math.log1p(math.exp(0.75)), rel=1e-6)
    # The same as two outputs 0.75 and 0.
    params["out"] = {"w": jnp.array([[0.5, 0.0], [-3.0, 0.0]]), "b": jnp.array([-0.25, 0.0])}
    entropy = networks.cross_entropy(networks.adult_mlp(2, 2, 2))
    assert float(entropy(params, (x, 0))) == pytest.approx(math.log1p(math.exp(-0.75)), rel=1e-6)


def by_loops(x, w, b, stride, before, after):
    """Convolution as it is defined, with rows and columns of zeros before and after."""
    x = np.pad(x.astype(np.float64), ((before, after), (before, after), (0, 0)))
    size = (len(x) - len(w)) // stride + 1
    found = np.empty((size, size, w.shape[-1]))
    for i, j in itertools.product(range(size), repeat=2):
        patch = x[i * stride : i * stride + len(w), j * stride : j * stride + len(w)]
        found[i, j] = np.tensordot(patch, w.astype(np.float64), 3) + b
    return np.maximum(found, 0)


def pooled(x, stride):
    size = (len(x) - 2) // stride + 1
    return np.array(
        [[x[i * stride : i * stride + 2, j * stride : j * stride + 2].max((0, 1)) for j in range(size)] for i in range(size)]
    )


def test_the_convolutional_networks_by_loops():
    def layer(part):
        return np.asarray(part["w"]), RANDOM.normal(size=part["b"].shape).astype(np.float32)

    for network, x, steps in (
        (networks.mnist_cnn(), BYTES[0, :28, :28, :1], [(2, 3, 3, 1), (2, 0, 0, 1)]),
        (networks.cifar_cnn(), BYTES[0], [(1, 2, 2, 2), (1, 2, 2, 2)]),
    ):
        params = network.init(jax.random.key(3))
        layers = {name: layer(part) for name, part in params.items()}
        image = x / 255
        for name, (stride, before, after, pool) in zip(("conv1", "conv2"), steps, strict=True):
            image = pooled(by_loops(image, *layers[name], stride, before, after), pool)
        hidden = np.maximum(image.reshape(-1) @ layers["dense"][0] + layers["dense"][1], 0)
        expected = hidden @ layers["out"][0] + layers["out"][1]
        params = {name: {"w": w, "b": b} for name, (w, b) in layers.items()}
        np.testing.assert_allclose(network.apply(params, jnp.asarray(x)), expected, rtol=1e-4, atol=1e-4)


def test_overlapping_maxima_are_reduce_window():
    def window(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2, 1), (1, 1, 1), "VALID")

    x = jnp.asarray(RANDOM.normal(size=(6, 5, 3)))
    weights = RANDOM.normal(size=(5, 4, 3))
    np.testing.assert_array_equal(networks.overlapping_maxima(x), window(x))
    ours, theirs = (jax.jit(jax.grad(lambda x, f=f: (weights * f(x)).sum()))(x) for f in (networks.overlapping_maxima, window))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_bag_of_words_and_the_branches_of_ratings_by_hand():
    network = networks.imdb_network(4)
    params = network.init(jax.random.key(0))
    mean = np.asarray(params["words"])[[3, 3, 1, 0]].mean(axis=0)
    hidden = np.maximum(mean @ params["dense"]["w"], 0)
    np.testing.assert_allclose(network.apply(params, jnp.array([3, 3, 1, 0])), hidden @ params["out"]["w"], rtol=1e-5)

    network = networks.movielens_network(3, 2)
    params = network.init(jax.random.key(0))
    left, right = ({side: np.asarray(table) for side, table in params[name].items()} for name in ("left", "right"))
    inputs = np.concatenate([left["user"][2] * left["movie"][1], right["user"][2], right["movie"][1]])
    np.testing.assert_allclose(network.apply(params, jnp.array([2, 1])), inputs @ params["out"]["w"], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("batch", [1, 3, 7, 1_000])
def test_evaluation_in_batches(batch):
    x = np.arange(7.0)[:, None] - 2.5

    def sign(params, x):
        return params * x

    def three(params, x):
        return jnp.where(jnp.arange(3) == sum(x[0] > jnp.array([0, 2])), 0.0, -jnp.inf) * params

    assert networks.accuracy(sign, 1.0, x, [0, 0, 0, 1, 1, 1, 0], batch) == pytest.approx(6 / 7)
    assert networks.accuracy(three, 1.0, x, [0, 0, 1, 1, 1, 2, 2], batch) == pytest.approx(6 / 7)
    assert networks.rmse(three, 1.0, x, [0, 0, 2, 1, 1, 2, 0], batch) == pytest.approx(math.sqrt(8 / 7))
    half = np.log([0.5, 0.25, 0.25])
    assert networks.rmse(lambda params, x: jnp.asarray(half), 1.0, x, [0] * 7, batch) == pytest.approx(0.75, rel=1e-6)
