"""``train_network`` on the worst data that we know for it.

An example carries its own share of the loss: 1, or 0 where the place of the record is empty. So its gradient is exactly zero there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from dplateau.black_box.case import DELTA, Case
from dplateau.black_box.neighbours import Neighbours, float32_order, one_record
from dplateau.black_box.scores import along
from dplateau.black_box.solvers import MIDDLE, SMALL, N
from dplateau.calibration import calibrate
from dplateau.networks import train_network
from dplateau.spec import FullBatch, Poisson, Run, Sampling
from dplateau.training import SecureGenerator

HIDDEN: Final = 4
LONG: Final = 20_000
_STEPS: Final = 3

Tree = Any


def perceptron(params: Tree, example: Tree) -> jax.Array:
    """Squared error of a network with one hidden layer, times the example's share."""
    x, y = example
    score = jnp.tanh(x @ params["first"]) @ params["second"]
    return jnp.abs(x).max() * (score - y) ** 2 / 2


def logistic(params: Tree, example: Tree) -> jax.Array:
    """Binary cross-entropy of a linear model."""
    x, y = example
    score = x @ params
    return jax.nn.softplus(score) - y * score


def start() -> Tree:
    """Public weights."""
    random = np.random.default_rng(0)
    return {
        "first": random.normal(size=(2, HIDDEN)).astype(np.float32),
        "second": random.normal(size=HIDDEN).astype(np.float32),
    }


def network_cases() -> Iterator[Callable[[], Case]]:
    """The cases of ``train_network``, planned when they are called."""
    for sampling in (FullBatch(), Poisson(N / 2)):
        yield partial(_perceptron, sampling)
    yield partial(_linear, float32_order(LONG))


def _perceptron(sampling: Sampling) -> Case:
    neighbours, params = one_record(N, target=1e3), start()
    run = Run(n=N, sampling=sampling, steps=_STEPS, noise_multiplier=1.0, step_size=1e-3)
    run = calibrate(run, epsilon=MIDDLE, delta=DELTA)
    example = neighbours.features[0].astype(np.float32), np.float32(neighbours.target[0])
    gradient = _flat(jax.grad(perceptron)(params, example)).astype(np.float64)
    scores = {"record's direction": along(gradient / np.linalg.norm(gradient))}
    return Case(f"network, {sampling.kind}", neighbours, run, partial(_weights, run, perceptron, params), scores)


def _linear(neighbours: Neighbours) -> Case:
    run = Run(n=LONG, sampling=FullBatch(), steps=1, noise_multiplier=1.0, clip_norm=0.5, step_size=1.0)
    run = calibrate(run, epsilon=SMALL, delta=DELTA)
    return Case("network, linear", neighbours, run, partial(_weights, run, logistic, np.zeros(2, np.float32)))


def _weights(run: Run, loss: Any, params: Tree, features: Any, target: Any, generator: SecureGenerator) -> Any:
    examples = features.astype(np.float32), target.astype(np.float32)
    return _flat(train_network(run, loss, params, examples, generator=generator).params)


def _flat(tree: Tree) -> Any:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
