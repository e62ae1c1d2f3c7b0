# pyright: basic
"""The likelihood ratio of all iterates: its mean under each law is that of the mixtures that it is a ratio of."""

from __future__ import annotations

import numpy as np
import pytest

from dplateau.black_box.likelihood import equal_steps, log_likelihood_ratio
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, RandomAllocation, Run, Shuffled

N, Z, STEPS = 8, 1.5, 4
SAMPLINGS = [FullBatch(), Poisson(2), FixedSize(2), RandomAllocation(4), Shuffled(4), Cyclic(4), OnePass(2)]


def joined(sampling, random, count):
    """In which steps the first record is, shape (count, STEPS)."""
    if isinstance(sampling, FullBatch):
        return np.ones((count, STEPS))
    if isinstance(sampling, Poisson | FixedSize):
        return (random.random((count, STEPS)) < sampling.batch_size / N).astype(float)
    if isinstance(sampling, OnePass):
        return np.tile([1.0, 0, 0, 0], (count, 1))
    if isinstance(sampling, Cyclic):
        return np.tile([1.0, 0, 1, 0], (count, 1))
    first = random.integers(0, 2, (count, 2))
    return np.stack([first[:, 0] == 0, first[:, 0] == 1, first[:, 1] == 0, first[:, 1] == 1], axis=1).astype(float)


def releases(run, random, count, sign, noises=STEPS):
    """All iterates of weights of two features, along (0.6, 0.8); ``sign``: 1, 0 or -1 times the record's gradient."""
    sums = sign * joined(run.sampling, random, count) + Z * np.resize(random.normal(size=(noises, count)), (STEPS, count)).T
    divisors = np.resize(np.asarray(run.sampling.divisors(N)), STEPS)
    steps = -sums * run.step_size * run.clip_norm / divisors
    along = np.concatenate([np.zeros((count, 1)), np.cumsum(steps, axis=1)], axis=1)
    return (along[..., None] * np.array([0.6, 0.8])).reshape(count, -1)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.kind)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_it_is_a_likelihood_ratio(sampling, adjacency):
    """Under the null law the mean of the ratio is 1, and under the other that of its inverse is."""
    run = Run(n=N, sampling=sampling, steps=STEPS, noise_multiplier=Z, clip_norm=0.5, step_size=2.0, adjacency=adjacency)
    score = log_likelihood_ratio(run, np.array([0.6, 0.8]))
    random = np.random.default_rng(7)
    null = 0 if adjacency == "add-remove" else -1
    count = 100_000
    with_record = np.exp(-score(releases(run, random, count, 1)))
    without = np.exp(score(releases(run, random, count, null)))
    for values in (with_record, without):
        assert abs(values.mean() - 1) < 6 * values.std() / np.sqrt(count)
        assert values.std() > 0.1  # it does distinguish


@pytest.mark.parametrize("noises", [1, 3])
@pytest.mark.parametrize("sampling", [one for one in SAMPLINGS if not isinstance(one, FullBatch)], ids=lambda one: one.kind)
def test_noise_that_is_used_twice_is_seen(sampling, noises):
    """In all steps, or in the first and the last one."""
    run = Run(n=N, sampling=sampling, steps=STEPS, noise_multiplier=Z, clip_norm=0.5, step_size=2.0)
    score, random = equal_steps(run, np.array([0.6, 0.8])), np.random.default_rng(7)
    present, absent = (score(releases(run, random, 1000, sign, noises)) for sign in (1, 0))
    assert np.mean(absent == {1: 6, 3: 1}[noises]) > 0.95  # two numbers may be alike
    assert np.mean(present < absent) > 0.3
    assert np.mean(score(releases(run, random, 1000, 1)) > 0) < 0.05
