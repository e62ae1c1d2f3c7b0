# pyright: basic
"""Removing a record moves the noiseless sum by at most the clip norm, on data and in orders that an adversary chose.

One step with hardly any noise releases the sum that it was added to.
"""

from __future__ import annotations

import numpy as np
import pytest

from dplateau.black_box.neighbours import (
    denormal,
    float32_cancellation,
    float32_order,
    huge,
    one_record,
    saturated_softmax,
    vanishing_norm,
)
from dplateau.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, Run
from dplateau.training import SecureGenerator, train

NOISE = 1e-6
SCHEMES = [lambda _: FullBatch(), Poisson, FixedSize, Cyclic, OnePass]


def noiseless_sum(data, loss, clip_norm, scheme, dtype, start):
    features, target = data
    n = len(target)
    run = Run(n=n, sampling=scheme(n), steps=1, noise_multiplier=NOISE, clip_norm=clip_norm, step_size=1.0)
    generator = SecureGenerator(insecure_seed=1)
    weights = train(run, loss, features, target, generator=generator, dtype=dtype, start=start).weights
    return ((0 if start is None else start) - weights.astype(np.float64)) * n


def moved(neighbours, loss, clip_norm, scheme=SCHEMES[0], dtype="float32"):
    """How far the record moves the sum, in clip norms."""
    sums = [
        noiseless_sum(data, loss, clip_norm, scheme, dtype, neighbours.start) for data in (neighbours.present, neighbours.absent)
    ]
    return float(np.linalg.norm(sums[0] - sums[1])) / clip_norm


@pytest.mark.parametrize("scheme", SCHEMES, ids=["full", "poisson", "fixed-size", "cyclic", "one-pass"])
def test_order_of_a_sum(scheme):
    assert moved(float32_order(100_000), Logistic(), 0.5, scheme) <= 1 + 1e-3


def test_order_of_a_sum_by_chance():
    """Orders, lengths and classes by chance, the record at the place where the sum crosses a power of two most often."""
    random = np.random.default_rng(3)
    for _ in range(5):
        neighbours = float32_order(30_000)
        neighbours.features[:, 0] *= random.choice([1, 2.0**-10, 1e-5], 30_000)
        neighbours.features[:, 1] = random.normal(size=30_000) * 10.0 ** random.integers(-12, 0, 30_000)
        neighbours.features[:] /= np.maximum(1, np.linalg.norm(neighbours.features, axis=1))[:, None]
        assert moved(neighbours, Logistic(), 0.5) <= 1 + 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [vanishing_norm, denormal, huge])
@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[-1]], ids=["full", "one-pass"])
def test_extreme_numbers(make, dtype, scheme):
    assert moved(make(dtype), Squared(), 1.0, scheme, dtype) <= 1 + 1e-3


def test_cancellation():
    assert moved(float32_cancellation(100_001), Logistic(), 0.5) <= 1 + 1e-3


def test_saturated_softmax():
    assert moved(saturated_softmax(), Softmax(3), 1.0) <= 1 + 1e-3


@pytest.mark.parametrize("loss", [Squared(), Huber(), Logistic(), SmoothedHinge()], ids=lambda loss: type(loss).__name__)
def test_a_clipped_record_moves_it_by_nearly_the_clip_norm(loss):
    """The measure itself: what is seen is the sum, and not less."""
    target = 1e6 if type(loss) in (Squared, Huber) else 0.0
    assert 0.85 < moved(one_record(64, target=target), loss, 0.5) <= 1 + 1e-3
