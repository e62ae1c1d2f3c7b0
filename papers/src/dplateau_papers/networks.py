"""The networks of the papers as plain JAX functions.

A ``Network`` has ``init(key)``, which makes parameters (a dictionary of arrays), and ``apply(params, x)``, the outputs for *one*
example. ``cross_entropy(network)`` and ``logistic(network)`` are losses ``loss(params, example)`` of one example ``(x, y)``, as a
private training wants them; ``accuracy`` and ``rmse`` evaluate on rows that are public.

The initial parameters are random but no secret: they depend on no record. Layers before a ReLU are drawn as He et al. 2015 propose
(normal, variance 2 / inputs), other layers as Glorot and Bengio 2010 do (uniform on +-sqrt(6 / (inputs +
outputs))), embeddings uniform on +-0.05; biases are 0. Pixels may be bytes, which are divided by 255, a public constant.

Sources: P2 is Z. Bu, J. Dong, Q. Long, W. J. Su, "Deep learning with Gaussian differential privacy", 2020; P3 is X. Wu et al.,
"Adaptive differentially private empirical risk minimization", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

Params = dict[str, Any]
Apply = Callable[[Params, Any], jax.Array]
Loss = Callable[[Params, tuple[Any, Any]], jax.Array]

LAYOUT = ("NHWC", "HWIO", "NHWC")


class Network(NamedTuple):
    """``init(key)`` makes parameters; ``apply(params, x)`` is the outputs, shape (outputs,), for one example."""

    init: Callable[[jax.Array], Params]
    apply: Apply


# ---- layers ----------------------------------------------------------------------------------------------------------------------


def drawn_with(key: jax.Array) -> np.random.Generator:
    """A generator that the key seeds. NumPy draws: compiling JAX's draws takes longer than many a training."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def he(random: np.random.Generator, *shape: int) -> Params:
    """A layer before a ReLU, whose last dimension is that of the outputs."""
    return {"w": single(random.normal(0, math.sqrt(2 / math.prod(shape[:-1])), shape)), "b": jnp.zeros(shape[-1], jnp.float32)}


def glorot(random: np.random.Generator, inputs: int, outputs: int) -> Params:
    """A layer before no ReLU."""
    limit = math.sqrt(6 / (inputs + outputs))
    return {"w": single(random.uniform(-limit, limit, (inputs, outputs))), "b": jnp.zeros(outputs, jnp.float32)}


def embedding(random: np.random.Generator, rows: int, width: int) -> jax.Array:
    """One row for each code."""
    return single(random.uniform(-0.05, 0.05, (rows, width)))


def single(values: np.ndarray) -> jax.Array:
    """In single precision."""
    return jnp.asarray(values, jnp.float32)


def dense(layer: Params, x: jax.Array) -> jax.Array:
    """Inputs of any shape, flattened, to outputs."""
    return x.reshape(-1) @ layer["w"] + layer["b"]


def convolution(layer: Params, x: jax.Array, stride: int, padding: str) -> jax.Array:
    """An image (rows, columns, channels) to an image."""
    return lax.conv_general_dilated(x[None], layer["w"], (stride, stride), padding, dimension_numbers=LAYOUT)[0] + layer["b"]


def overlapping_maxima(x: jax.Array) -> jax.Array:
    """2 x 2 max pooling with stride 1.

    It is ``reduce_window`` written as four shifted images. On a CPU, gradients of single examples took as long or up to 10 % less.
    """
    rows = jnp.maximum(x[:-1], x[1:])
    return jnp.maximum(rows[:, :-1], rows[:, 1:])


def maxima(x: jax.Array) -> jax.Array:
    """2 x 2 max pooling with stride 2."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2, 1), (2, 2, 1), "VALID")


def pixels(x: jax.Array, *shape: int) -> jax.Array:
    """An image of this shape, in [0, 1] if it was of bytes."""
    return (x / 255 if jnp.issubdtype(x.dtype, jnp.integer) else x).reshape(shape)


# ---- networks: made once, so that what is compiled for one is used again ------------------------------------------------------


@cache
def mnist_cnn() -> Network:
    """The network for MNIST of the TensorFlow Privacy tutorial, which P2 uses: 26,010 weights.

    Input 28 x 28. Convolution of 16 filters 8 x 8, stride 2, "same"; 2 x 2 maxima, stride 1; convolution of 32 filters 4 x 4,
    stride 2, "valid"; 2 x 2 maxima, stride 1; 32 units; 10 classes.
    """

    def init(key: jax.Array) -> Params:
        random = drawn_with(key)
        return {
            "conv1": he(random, 8, 8, 1, 16),
            "conv2": he(random, 4, 4, 16, 32),
            "dense": he(random, 4 * 4 * 32, 32),
            "out": glorot(random, 32, 10),
        }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = overlapping_maxima(jax.nn.relu(convolution(params["conv1"], pixels(x, 28, 28, 1), 2, "SAME")))
        x = overlapping_maxima(jax.nn.relu(convolution(params["conv2"], x, 2, "VALID")))
        return dense(params["out"], jax.nn.relu(dense(params["dense"], x)))

    return Network(init, apply)


@cache
def adult_mlp(features: int = 123, units: int = 16, outputs: int = 1) -> Network:
    """The network for Adult of P2: one layer of 16 ReLU units; 1 output for ``logistic`` or 2 for ``cross_entropy``."""

    def init(key: jax.Array) -> Params:
        random = drawn_with(key)
        return {"dense": he(random, features, units), "out": glorot(random, units, outputs)}

    def apply(params: Params, x: jax.Array) -> jax.Array:
        return dense(params["out"], jax.nn.relu(dense(params["dense"], x)))

    return Network(init, apply)


@cache
def imdb_network(words: int = 10_000) -> Network:
    """The network for IMDb of P2: embedding of 16 units, its mean over the positions, 16 ReLU units, 1 output for ``logistic``.

    ``x`` is the codes of a review, as ``readers.imdb`` gives them. The mean is over all positions, filled ones too.
    The gradient of one example is an array of the size of the embedding: 160,000 numbers, so take few examples at a time.
    """

    def init(key: jax.Array) -> Params:
        random = drawn_with(key)
        return {"words": embedding(random, words, 16), "dense": he(random, 16, 16), "out": glorot(random, 16, 1)}

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = params["words"][x].mean(axis=0)
        return dense(params["out"], jax.nn.relu(dense(params["dense"], x)))

    return Network(init, apply)


@cache
def movielens_network(users: int = 6_040, movies: int = 3_952) -> Network:
    """The network for MovieLens 1M of P2, section 4.1: two branches on embeddings of a user and a movie, 5 classes.

    The left branch multiplies embeddings of 5 factors, entry by entry (generalised matrix factorisation); the right one puts
    embeddings of 10 factors side by side. Both are concatenated before the output layer. ``x`` is (user, movie), from 0; the
    classes are the stars less 1. As with ``imdb_network``, the gradient of one example is as large as the embeddings.
    """

    def init(key: jax.Array) -> Params:
        random = drawn_with(key)
        return {
            "left": {"user": embedding(random, users, 5), "movie": embedding(random, movies, 5)},
            "right": {"user": embedding(random, users, 10), "movie": embedding(random, movies, 10)},
            "out": glorot(random, 25, 5),
        }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        (user, movie), left, right = x, params["left"], params["right"]
        both = [left["user"][user] * left["movie"][movie], right["user"][user], right["movie"][movie]]
        return dense(params["out"], jnp.concatenate(both))

    return Network(init, apply)


@cache
def cifar_cnn() -> Network:
    """A network for CIFAR-10 in the style of Abadi et al. 2016: our choice, because P3 shows its own in a picture only.

    Input 32 x 32 x 3. Twice a convolution of 64 filters 5 x 5, "same", and 2 x 2 maxima, stride 2; 384 units; 10 classes.
    """

    def init(key: jax.Array) -> Params:
        random = drawn_with(key)
        return {
            "conv1": he(random, 5, 5, 3, 64),
            "conv2": he(random, 5, 5, 64, 64),
            "dense": he(random, 8 * 8 * 64, 384),
            "out": glorot(random, 384, 10),
        }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = maxima(jax.nn.relu(convolution(params["conv1"], pixels(x, 32, 32, 3), 1, "SAME")))
        x = maxima(jax.nn.relu(convolution(params["conv2"], x, 1, "SAME")))
        return dense(params["out"], jax.nn.relu(dense(params["dense"], x)))

    return Network(init, apply)


# ---- losses of one example, and evaluation ---------------------------------------------------------------------------------------


@cache
def cross_entropy(network: Network) -> Loss:
    """Multinomial logistic loss; the target is the index of a class."""

    def loss(params: Params, example: tuple[Any, Any]) -> jax.Array:
        x, y = example
        return -jax.nn.log_softmax(network.apply(params, x))[y]

    return loss


@cache
def logistic(network: Network) -> Loss:
    """Logistic loss of one output; the target is 0 or 1."""

    def loss(params: Params, example: tuple[Any, Any]) -> jax.Array:
        x, y = example
        score = network.apply(params, x)[0]
        return jax.nn.softplus(score) - y * score

    return loss


def split(n: int, held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places to train on, and places to score on."""
    order = np.random.default_rng(seed).permutation(n)
    return order[held_out:], order[:held_out]


@partial(jax.jit, static_argnames=("optimizer", "loss"))
def plain_step(
    params: Params, state: Any, x: Any, y: Any, *, optimizer: optax.GradientTransformation, loss: Loss
) -> tuple[Params, Any]:
    """A step on the mean loss of a batch, without privacy: the parameters and the optimizer's state after it."""
    gradient = jax.grad(lambda params: jnp.mean(jax.vmap(loss, (None, 0))(params, (x, y))))(params)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(params, updates), state  # type: ignore[return-value]


def outputs(apply: Apply, params: Params, x: Any, batch: int = 1_000) -> np.ndarray:
    """The outputs for all examples, shape (n, outputs), computed ``batch`` at a time."""
    x = np.asarray(x)
    batch = min(batch, len(x))
    # The last batch is filled up, so that one compiled function serves all.
    parts = [_outputs(params, x[np.minimum(np.arange(i, i + batch), len(x) - 1)], apply=apply) for i in range(0, len(x), batch)]
    return np.concatenate([np.asarray(part) for part in parts])[: len(x)]


@partial(jax.jit, static_argnames="apply")
def _outputs(params: Params, x: jax.Array, *, apply: Apply) -> jax.Array:
    return jax.vmap(apply, (None, 0))(params, x)


def accuracy(apply: Apply, params: Params, x: Any, y: Any, batch: int = 1_000) -> float:
    """The share of public examples whose class is the largest output, or for one output, whose sign fits (0: negative)."""
    scores = outputs(apply, params, x, batch)
    found = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float(np.mean(found == np.asarray(y)))


def rmse(apply: Apply, params: Params, x: Any, y: Any, batch: int = 1_000) -> float:
    """The root mean squared error of the expected class, for public examples: P2's measure for ratings."""
    scores = outputs(apply, params, x, batch).astype(np.float64)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = chances @ np.arange(scores.shape[1]) / chances.sum(axis=1)
    return float(np.sqrt(np.mean((expected - np.asarray(y)) ** 2)))
