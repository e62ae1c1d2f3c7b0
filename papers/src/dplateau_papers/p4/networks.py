"""The trainings of ``p4-table3``: an output layer on frozen features, or with the second convolution below it, on MNIST.

The network was trained on Fashion-MNIST, which counts as public (``study.features``). Its first block stays as it is, so what it
gives is computed once. The head is the same in both: the 512 outputs of the second block are centred, rotated and scaled with what
was learnt from the public images, every row is scaled to norm 1 with a constant entry for the intercept, and 129 numbers go to 10
classes. Where the second convolution is frozen too, this is a logistic regression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from dplateau.networks import noisy_sgd, train_network
from dplateau_papers import networks
from dplateau_papers.networks import Apply, Loss, Network, Params
from dplateau_papers.p4.fine_tuning import HEAD, MOMENTUM, Row, batch_size, run_of, steps
from dplateau_papers.page import Inputs
from dplateau_papers.readers.idx import read_mnist
from dplateau_papers.study.features import INTERCEPT, PublicNetwork, public_network, second_block

Array: TypeAlias = NDArray[Any]
Part: TypeAlias = tuple[Array, NDArray[np.int32]]

CLASSES: Final = 10


class Task(NamedTuple):
    """Records to train on, others to score on, the first weights, the outputs for one example, and the loss."""

    train: Part
    test: Part
    params: Params
    apply: Apply
    loss: Loss

    def score(self, params: Params) -> float:
        """Accuracy in per cent."""
        return 100 * networks.accuracy(self.apply, params, *self.test)

    def held_out(self) -> Task:
        """The same with a sixth of the records to train on in place of those to score on, to choose hyperparameters with."""
        x, y = self.train
        kept, held = networks.split(len(y), len(y) // 6, 0)
        return self._replace(train=(x[kept], y[kept]), test=(x[held], y[held]))


def linear(params: Params, x: jax.Array) -> jax.Array:
    """Features to classes."""
    return x @ params["out"]


def fine_tuned(mean: jax.Array, components: jax.Array) -> Apply:
    """Outputs of the first block to classes, through a second convolution that is trained too."""

    def apply(params: Params, x: jax.Array) -> jax.Array:
        values = (second_block(params["conv2"], x) - mean) @ components
        squared = jnp.maximum(values @ values, 1e-24)
        return jnp.append(values * jax.lax.rsqrt(squared / (1 - INTERCEPT**2)), INTERCEPT) @ params["out"]

    return apply


@cache
def task(inputs: Inputs, layers: str) -> Task:
    """MNIST, as the frozen part of the public network sees it; an output layer of zeros."""
    network, folder = public_network(inputs), inputs.folder("mnist")
    seen: Callable[[Array], Array] = network.features if layers == HEAD else network.blocks
    read = [read_mnist(folder, part) for part in ("train", "test")]
    train, test = ((seen(part.x).astype(np.float32), part.y.astype(np.int32)) for part in read)
    params, apply = started(network, layers)
    return Task(train, test, params, apply, networks.cross_entropy(Network(lambda _: params, apply)))


def started(network: PublicNetwork, layers: str) -> tuple[Params, Apply]:
    """The first weights, which are public, and what they do."""
    mean, components = (jnp.asarray(each, jnp.float32) for each in (network.mean, network.components))
    out = jnp.zeros((components.shape[1] + 1, CLASSES), jnp.float32)
    return ({"out": out}, linear) if layers == HEAD else ({"conv2": network.conv2, "out": out}, fine_tuned(mean, components))


def train(task: Task, row: Row, seed: int) -> dict[str, float]:
    """Train once.

    Parameters
    ----------
    task : Task
        The records.
    row : Row
        The hyperparameters.
    seed : int
        Of the order of the records where there is no privacy. Private trainings draw fresh batches and fresh noise.

    Returns
    -------
    dict
        ``score``: accuracy of the last iterate in per cent.
    """
    optimizer = noisy_sgd(row.rate, momentum=MOMENTUM)
    if not row.private:
        return {"score": task.score(_plain(task, optimizer, seed))}
    run = run_of(row, len(task.train[1]))
    return {"score": task.score(train_network(run, task.loss, task.params, task.train, optimizer=optimizer).last)}


def _plain(task: Task, optimizer: optax.GradientTransformation, seed: int) -> Params:
    """As many steps on as many records, without clipping and without noise."""
    (x, y), params = task.train, task.params
    state = optimizer.init(params)
    for chosen in places(len(y), seed):
        params, state = networks.plain_step(params, state, x[chosen], y[chosen], optimizer=optimizer, loss=task.loss)
    return params


def places(n: int, seed: int) -> Array:
    """Places of the records of every step: equal parts of one order of all records after another."""
    size, count, random = max(1, round(batch_size(n))), steps(), np.random.default_rng(seed)
    orders = [random.permutation(n) for _ in range(math.ceil(count * size / n))]
    return np.concatenate(orders)[: count * size].reshape(count, size)


def tried(task: Task, row: Row, seed: int = 0) -> dict[Row, float]:
    """Scores on held-out records over the grid of a row: this is how ``ROWS`` were chosen."""
    held = task.held_out()
    return {each: train(held, each, seed)["score"] for each in row.tried()}
