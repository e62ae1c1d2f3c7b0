"""The training of a small network with given steps, for the comparisons of Wu, Wang, Cristali, Gu and Willett 2021.

The paper has CIFAR-10 and a convolutional network that was trained before. Here it is Fashion-MNIST or MNIST and one layer of 32
ReLU units (25,450 weights), which start from random weights.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from dplateau.networks import Validation, adagrad_norm, train_network
from dplateau.spec import Poisson, Run
from dplateau_papers import networks
from dplateau_papers.p2.settings import sampling_rate
from dplateau_papers.readers.idx import read_mnist

LOOKS: Final = 40
Part: TypeAlias = tuple[NDArray[Any], NDArray[np.int32]]


@cache
def images(folder: Path, part: str) -> Part:
    """Images in rows, in [0, 1], and their classes."""
    read = read_mnist(folder, part)
    return read.x.reshape(len(read.x), -1).astype(np.float32) / 255, read.y.astype(np.int32)


def train(folder: Path, run: Run, seed: int, b0_squared: float | None = None) -> dict[str, Any]:
    """Train once, with fresh noise; the seed is that of the first weights.

    Parameters
    ----------
    folder : Path
        MNIST, or another data set in its files.
    run : Run
        What to train, for any number of records: it is taken at the same p, where it costs the same.
    seed : int
        Of the first weights.
    b0_squared : float, optional
        Steps of AdaGrad-norm from this b_0^2, in place of the run's step sizes.

    Returns
    -------
    dict
        ``last`` and ``best``: scores on the public test set, of the last iterate and the best of 40 on the way; ``curve``: all of
        them, with their steps.
    """
    examples, test = images(folder, "train"), images(folder, "test")
    if (n := len(examples[1])) != run.n:
        run = run.replace(n=n, sampling=Poisson(sampling_rate(run) * n))
    network = networks.adult_mlp(examples[0].shape[1], 32, 10)
    look = Validation(
        lambda params: 100 * networks.accuracy(network.apply, params, *test),
        every=-(-run.steps // LOOKS),
        declared_public="the test set of a public data set, used to draw curves",
        keep_best=False,
    )
    result = train_network(
        run,
        networks.cross_entropy(network),
        network.init(jax.random.key(seed)),
        examples,
        optimizer=None if b0_squared is None else adagrad_norm(b0_squared=b0_squared),
        validation=look,
        workers=1,
    )
    curve = [list(score) for score in result.scores]
    return {"last": curve[-1][1], "best": max(score for _, score in curve), "curve": curve}
