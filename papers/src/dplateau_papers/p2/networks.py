"""The data sets of Bu, Dong, Long and Su 2020, split as they say, and the training of its networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import numpy as np
import optax
from numpy.typing import NDArray

from dplateau.data.read_libsvm import read_libsvm
from dplateau.networks import Validation, noisy_adam, noisy_sgd, train_network
from dplateau_papers import networks
from dplateau_papers.p2.settings import Training
from dplateau_papers.readers.idx import read_mnist
from dplateau_papers.readers.imdb import read_imdb
from dplateau_papers.readers.movielens import read_movielens

Array: TypeAlias = NDArray[Any]
Part: TypeAlias = tuple[Array, Array]

AVERAGE: Final = 0.2
"""The part of the iterates, from the last one back, whose mean is scored too."""
A9A_FEATURES: Final = 123


class Task(NamedTuple):
    """Records to train on, public ones to score on, and the network."""

    train: Part
    test: Part
    network: networks.Network
    loss: networks.Loss
    score: Callable[[Any], float]


def _classified(train: Part, test: Part, network: networks.Network, loss: networks.Loss) -> Task:
    """A task that is scored by accuracy, in per cent."""
    return Task(train, test, network, loss, lambda params: 100 * networks.accuracy(network.apply, params, *test))


@cache
def mnist(folder: Path, _: int) -> Task:
    """MNIST's own parts."""
    train, test = read_mnist(folder, "train"), read_mnist(folder, "test")
    network = networks.mnist_cnn()
    return _classified((train.x, train.y.astype(np.int32)), (test.x, test.y), network, networks.cross_entropy(network))


def adult(folder: Path, seed: int) -> Task:
    """a9a, one tenth of its rows for testing; features are 0 or 1."""
    features, target = read_libsvm(folder / "a9a", A9A_FEATURES)
    kept, held = networks.split(len(features), len(features) // 10, seed)
    y = (target > 0).astype(np.float32)
    network = networks.adult_mlp()
    return _classified((features[kept], y[kept]), (features[held], y[held]), network, networks.logistic(network))


@cache
def imdb(folder: Path, _: int) -> Task:
    """IMDb's own parts, codes of 256 words."""
    train, test = read_imdb(folder, "train"), read_imdb(folder, "test")
    network = networks.imdb_network()
    return _classified((train.x, train.y.astype(np.float32)), (test.x, test.y), network, networks.logistic(network))


def movielens(folder: Path, seed: int) -> Task:
    """A fifth of the ratings for testing; one record is one rating, not one user. Scored by RMSE."""
    ratings = read_movielens(folder / "ratings.dat")
    pairs, classes = np.stack([ratings.users, ratings.movies], axis=1).astype(np.int32), (ratings.stars - 1).astype(np.int32)
    kept, held = networks.split(len(classes), len(classes) // 5, seed)
    network = networks.movielens_network()
    return Task(
        (pairs[kept], classes[kept]),
        (pairs[held], classes[held]),
        network,
        networks.cross_entropy(network),
        lambda params: networks.rmse(network.apply, params, pairs[held], classes[held]),
    )


TASKS: Final = {"mnist": mnist, "adult": adult, "imdb": imdb, "movielens": movielens, "figure4": mnist}


def optimizer_of(training: Training) -> optax.GradientTransformation:
    """As the paper says."""
    return noisy_adam(training.rate) if training.optimizer == "adam" else noisy_sgd(training.rate)


def train(task: Task, training: Training, seed: int) -> dict[str, Any]:
    """Train once, with fresh noise; the seed is that of the first weights.

    Returns
    -------
    dict
        ``score`` of the last iterate, ``mean``: that of the mean of the last fifth, and ``curve``: steps and scores on the way, a
        look at public test rows each epoch.
    """
    run = training.run(len(task.train[1]))
    every = max(1, run.steps // training.setting.epochs)
    look = Validation(task.score, every, "the test set of a public data set, used to draw curves", keep_best=False)
    params = task.network.init(jax.random.key(seed))
    result = train_network(run, task.loss, params, task.train, optimizer=optimizer_of(training), average=AVERAGE, validation=look)
    curve = [list(score) for score in result.scores]
    return {"score": task.score(result.last), "mean": task.score(result.params), "curve": curve}
