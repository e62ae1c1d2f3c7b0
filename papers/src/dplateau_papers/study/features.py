"""The study's data: features of MNIST from a network that was trained on Fashion-MNIST, which is public; and Adult.

The network has two convolutions and 64 units. Its second convolution has 512 outputs; they are centred, rotated and scaled by the
mean and the 128 first principal components of the *public* images, and every row is scaled to norm 1 with a constant for the
intercept. Nothing here is computed from private records but each record's own row.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from dplateau.data.read_libsvm import read_libsvm
from dplateau.losses import GeneralisedLinearLoss, Logistic, Softmax
from dplateau_papers import networks
from dplateau_papers.networks import Network, Params, convolution, dense, drawn_with, glorot, he, maxima, pixels
from dplateau_papers.page import Inputs
from dplateau_papers.readers.idx import read_mnist

Array: TypeAlias = NDArray[Any]

FEATURES: Final = 128
INTERCEPT: Final = 0.1
"""The constant entry of every row of norm 1."""
EPOCHS: Final = 3
_BATCH: Final = 128
_RATE: Final = 2e-3
_FLATTEN: Final = 0.25
"""A component of variance v is divided by v to this power: between leaving the rows as they are and making all directions alike."""
_FLOOR: Final = 1e-3
"""Added to the variances, in units of the largest."""
A9A_FEATURES: Final = 123


class Problem(NamedTuple):
    """Private records, public ones to score on, and the loss; rows have norm 1 at most."""

    name: str
    loss: GeneralisedLinearLoss
    features: Array
    target: Array
    test_features: Array
    test_target: Array

    def score(self, weights: Array) -> float:
        """Accuracy on the public records, in per cent."""
        scores = self.test_features @ weights
        found = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return 100 * float(np.mean(found == self.test_target))

    def held_out(self) -> Problem:
        """The same with a sixth of the private records in place of the public ones, to choose hyperparameters with."""
        kept, held = networks.split(len(self.target), len(self.target) // 6, 0)
        return self._replace(
            features=self.features[kept],
            target=self.target[kept],
            test_features=self.features[held],
            test_target=self.target[held],
        )


@cache
def public_cnn() -> Network:
    """28 x 28 pixels; 16 filters 5 x 5 and 2 x 2 maxima; 32 filters 5 x 5 and 2 x 2 maxima; 64 units; 10 classes."""

    def init(key: jax.Array) -> Params:
        random = drawn_with(key)
        return {
            "conv1": he(random, 5, 5, 1, 16),
            "conv2": he(random, 5, 5, 16, 32),
            "dense": he(random, 512, 64),
            "out": glorot(random, 64, 10),
        }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = second_block(params["conv2"], first_block(params["conv1"], x))
        return dense(params["out"], jax.nn.relu(dense(params["dense"], x)))

    return Network(init, apply)


def first_block(layer: Params, x: jax.Array) -> jax.Array:
    """An image to 12 x 12 x 16 numbers."""
    return maxima(jax.nn.relu(convolution(layer, pixels(x, 28, 28, 1), 1, "VALID")))


def second_block(layer: Params, x: jax.Array) -> jax.Array:
    """12 x 12 x 16 numbers to 512."""
    return maxima(jax.nn.relu(convolution(layer, x, 1, "VALID"))).reshape(-1)


class PublicNetwork(NamedTuple):
    """What was learnt from the public images: the layers, and the mean and the scaled components of the 512 outputs."""

    conv1: Params
    conv2: Params
    mean: Array
    components: Array
    accuracy: float
    """On the test set of the public images, in per cent."""

    @classmethod
    def from_result(cls, result: dict[str, Any]) -> PublicNetwork:
        """What ``train_public`` returned, from JSON."""
        first, second = (
            {name: jnp.asarray(result[layer][name], jnp.float32) for name in ("w", "b")} for layer in ("conv1", "conv2")
        )
        return cls(first, second, np.array(result["mean"]), np.array(result["components"]), result["accuracy"])

    def blocks(self, images: Array) -> Array:
        """The outputs of the first block, shape (n, 12, 12, 16)."""
        return networks.outputs(first_block, self.conv1, images)

    def features(self, images: Array) -> Array:
        """Rows of norm 1 in double precision, shape (n, 129)."""
        flat = networks.outputs(second_block, self.conv2, self.blocks(images)).astype(np.float64)
        return rows((flat - self.mean) @ self.components)


def rows(values: Array) -> Array:
    """Every row scaled to a norm just below 1, with the constant entry that an intercept is multiplied with."""
    norms = np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    scaled = values / norms * np.sqrt(1 - INTERCEPT**2)
    return np.concatenate([scaled, np.full((len(values), 1), INTERCEPT)], axis=1) * (1 - 1e-12)


def train_public(folder: Path) -> dict[str, Any]:
    """Train the network on Fashion-MNIST, without privacy, and find the principal components; plain data."""
    train, test = read_mnist(folder, "train"), read_mnist(folder, "test")
    network = public_cnn()
    loss = networks.cross_entropy(network)
    batches = len(train.y) // _BATCH
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, max(1, EPOCHS * batches)))

    params = network.init(jax.random.key(0))
    state, random, target = optimizer.init(params), np.random.default_rng(0), train.y.astype(np.int32)
    for _ in range(EPOCHS):
        for chosen in np.split(random.permutation(len(target))[: batches * _BATCH], batches) if batches else ():
            params, state = networks.plain_step(params, state, train.x[chosen], target[chosen], optimizer=optimizer, loss=loss)
    flat = networks.outputs(second_block, params["conv2"], networks.outputs(first_block, params["conv1"], train.x))
    mean, components = principal(flat.astype(np.float64))
    return {
        **{layer: {name: np.asarray(params[layer][name]).tolist() for name in ("w", "b")} for layer in ("conv1", "conv2")},
        "mean": mean.tolist(),
        "components": components.tolist(),
        "accuracy": 100 * networks.accuracy(network.apply, params, test.x, test.y),
    }


def principal(values: Array) -> tuple[Array, Array]:
    """The mean, shape (512,), and the scaled first principal components, shape (512, 128)."""
    mean = values.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov((values - mean).T))
    variances, directions = variances[-FEATURES:], directions[:, -FEATURES:]
    return mean, directions * (np.maximum(variances, 0) / variances[-1] + _FLOOR) ** -_FLATTEN


def public_network(inputs: Inputs) -> PublicNetwork:
    """The trained network, from the records or trained now; half a minute."""
    records = inputs.records_of("study-network")
    setting = {"public": "fashion-mnist", "epochs": EPOCHS, "features": FEATURES}
    records.collect([setting], (0,), lambda *_: train_public(inputs.folder("fashion-mnist")), inputs.say)
    return PublicNetwork.from_result(records.results(setting)[0])


def mnist(inputs: Inputs) -> Problem:
    """MNIST, as the public network sees it."""
    network, folder = public_network(inputs), inputs.folder("mnist")
    train, test = read_mnist(folder, "train"), read_mnist(folder, "test")
    parts = [(network.features(part.x), part.y.astype(np.int64)) for part in (train, test)]
    return Problem("MNIST features", Softmax(10), *parts[0], *parts[1])


def adult(inputs: Inputs) -> Problem:
    """Adult as 123 binary features."""
    folder = inputs.folder("a9a")
    parts = [read_libsvm(folder / name, A9A_FEATURES) for name in ("a9a", "a9a.t")]
    scaled = [(rows(features.astype(np.float64)), (target > 0).astype(np.int64)) for features, target in parts]
    return Problem("Adult", Logistic(), *scaled[0], *scaled[1])
