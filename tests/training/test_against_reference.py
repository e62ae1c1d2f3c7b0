"""The engine against the update in plain NumPy: one example after the other, every gradient written out.

Rows have 20 bits of their largest entry, and gradients are whole multiples of clip_norm / 2^42: that is all that may differ.
"""

from functools import partial

import jax
import numpy as np
import pytest

import dplateau.training.chunks as chunks_module
from dplateau.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, RandomAllocation, Run, Shuffled, per_step
from dplateau.training import SecureGenerator, train
from dplateau.training.batches import batches
from dplateau.training.phased_sgd import Data, clipped_sum

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5), Softmax(3))
ATOL = 1e-6
"""Residuals have 20 bits or so where all iterates are accounted for."""
SAMPLINGS = (Poisson(6.5), FixedSize(6), RandomAllocation(6.5), Cyclic(7), Shuffled(7), OnePass(2), FullBatch())


class Noiseless(SecureGenerator):
    """Draws batches as its seed says, and noise that is zero."""

    def normal(self, shape):
        return np.zeros(shape)


def gradient(loss, row, target, weights):
    """Gradient of one example, in the shape of the weights."""
    score = row @ weights
    if isinstance(loss, Logistic):
        return (1 / (1 + np.exp(-score)) - target) * row
    if isinstance(loss, Squared):
        return (score - target) * row
    if isinstance(loss, Huber):
        return max(-loss.delta, min(loss.delta, score - target)) * row
    if isinstance(loss, SmoothedHinge):
        sign = 1 if target == 1 else -1
        return -sign * max(0, min(1, (1 - sign * score) / loss.width)) * row
    assert isinstance(loss, Softmax)
    p = np.exp(score - score.max())
    p /= p.sum()
    p[int(target)] -= 1
    return np.outer(row, p)


def clipped(loss, row, target, weights, clip_norm):
    g = gradient(loss, row, target, weights)
    norm = np.linalg.norm(g)
    return g if norm <= clip_norm else g * (clip_norm / norm)


def in_20_bits(rows):
    """Every row cut to multiples of 2^-20 of the power of two above its largest entry."""
    unit = 2.0 ** (np.frexp(abs(rows).max(axis=1, keepdims=True))[1] - 20)
    return np.trunc(rows / unit) * unit


def reference(run, loss, features, target, *, l2=0.0, seed=0, chunk=1024, momentum=0.0, start=None):
    """All iterates at zero noise, shape (steps + 1, *weights)."""
    features = in_20_bits(np.asarray(features, float))
    d = features.shape[1]
    weights = np.zeros(d if loss.outputs == 1 else (d, loss.outputs)) if start is None else np.array(start, float)
    l2 = np.broadcast_to(l2, d).reshape(-1, *(1,) * (weights.ndim - 1))
    if run.is_full_batch:
        plan = [np.arange(run.n)] * run.steps
    else:
        parts = batches(run, chunk, Noiseless(insecure_seed=seed))
        plan = [batch for part in parts for batch in np.split(part.records, np.cumsum(part.counts)[:-1])]
    divisors = run.sampling.divisors(run.n)
    step_sizes, iterates, velocity = per_step(run.step_size, run.steps), [weights], np.zeros_like(weights)
    for t, batch in enumerate(plan):
        total = np.zeros_like(weights)
        for record in batch:
            total += clipped(loss, features[record], target[record], weights, run.clip_norm)
        divisor = divisors if isinstance(divisors, float) else divisors[t % len(divisors)]
        velocity = momentum * velocity + total / divisor + l2 * weights
        weights = weights - step_sizes[t] * velocity
        if run.diameter is not None and (norm := np.linalg.norm(weights)) > run.diameter / 2:
            weights = weights * (run.diameter / 2 / norm)
        iterates.append(weights)
    return np.array(iterates)


def problem(loss, n=40, d=5, seed=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.05, 2, size=(n, 1))
    return rows, rng.integers(0, max(2, loss.outputs), n).astype(float)


def run_of(**changes):
    fields = {"n": 40, "sampling": Poisson(6.5), "steps": 20, "noise_multiplier": 1.0, "step_size": 0.4, "clip_norm": 0.6}
    return Run(**{**fields, **changes})


PAIRS = [(s, loss) for s in SAMPLINGS for loss in LOSSES if isinstance(s, Poisson | FullBatch) or isinstance(loss, Softmax)]


@pytest.mark.parametrize(("sampling", "loss"), PAIRS, ids=lambda x: getattr(x, "kind", None) or repr(x))
def test_the_engine_agrees_with_the_reference_to_its_last_bits(sampling, loss):
    run = run_of(sampling=sampling, diameter=3.0)
    rows, target = problem(loss)
    found = train(run, loss, rows, target, l2=0.03, generator=Noiseless(insecure_seed=0), dtype="float64", keep_iterates=True)
    wanted = reference(run, loss, rows, target, l2=0.03)
    np.testing.assert_allclose(found.iterates, wanted, rtol=0, atol=ATOL)
    np.testing.assert_array_equal(found.weights, found.iterates[-1])
    assert np.linalg.norm(wanted[-1]) > 0.05


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_single_precision_is_close_to_the_reference(loss):
    run, (rows, target) = run_of(), problem(loss)
    found = train(run, loss, rows, target, generator=Noiseless(insecure_seed=0))
    assert found.weights.dtype == np.float32
    np.testing.assert_allclose(found.weights, reference(run, loss, rows, target)[-1], atol=3e-5)


def test_every_schedule_start_and_option_reaches_the_update(monkeypatch):
    """Everything varies step by step, over several chunks of which the last is shorter."""
    monkeypatch.setattr(chunks_module, "_STEPS", 7)
    rng = np.random.default_rng(0)
    run = run_of(
        sampling=Poisson(np.maximum(rng.uniform(0.5, 40, 20), 1)),
        noise_multiplier=rng.uniform(0.5, 2, 20),
        step_size=rng.uniform(0.1, 1, 20),
        diameter=2.0,
        update="post-processed",
    )
    rows, target = problem(Softmax(3))
    start = rng.normal(size=(5, 3)) / 6
    options = {"l2": [0, 0.1, 0.2, 0.3, 0.4], "momentum": 0.7, "start": start}
    wanted = reference(run, Softmax(3), rows, target, chunk=7, **options)
    same = {"generator": Noiseless(insecure_seed=0), "dtype": "float64", "keep_iterates": True}
    found = train(run, Softmax(3), rows, target, **options, **same)
    np.testing.assert_allclose(found.iterates, wanted, rtol=0, atol=ATOL)
    assert np.isclose(np.linalg.norm(wanted, axis=(1, 2)), 1.0, rtol=1e-12).any()
    same["generator"] = Noiseless(insecure_seed=0)
    averaged = train(run, Softmax(3), rows, target, average=0.3, **options, **same)
    np.testing.assert_allclose(averaged.weights, wanted[-6:].mean(axis=0), rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    "sampling", [Cyclic((7, 3, 30)), Shuffled((1, 39)), OnePass(tuple([1] * 10 + [3] * 10)), FixedSize((6, 30) * 10)]
)
def test_varying_batch_sizes_have_their_own_divisors(sampling, monkeypatch):
    monkeypatch.setattr(chunks_module, "_STEPS", 8)
    run, (rows, target) = run_of(sampling=sampling), problem(Logistic())
    found = train(run, Logistic(), rows, target, generator=Noiseless(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(found.weights, reference(run, Logistic(), rows, target, chunk=8)[-1], rtol=0, atol=ATOL)


def test_a_poisson_batch_larger_than_its_room_is_not_truncated(monkeypatch):
    run, (rows, target) = run_of(n=400, sampling=Poisson(120.0)), problem(Logistic(), n=400)
    monkeypatch.setattr(Poisson, "largest_likely", lambda *_: 1)
    found = train(run, Logistic(), rows, target, generator=Noiseless(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(found.weights, reference(run, Logistic(), rows, target)[-1], rtol=0, atol=ATOL)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_clipped_sums_are_exact_and_clipping_is_active(loss):
    rows, target = problem(loss, n=200)
    weights = np.random.default_rng(1).normal(size=5 if loss.outputs == 1 else (5, loss.outputs))
    wanted = [clipped(loss, row, y, weights, 0.6) for row, y in zip(rows, target, strict=True)]
    active = np.mean([np.linalg.norm(gradient(loss, row, y, weights)) > 0.6 for row, y in zip(rows, target, strict=True)])
    assert 0.1 < active < 0.9
    assert max(np.linalg.norm(g) for g in wanted) <= 0.6 * (1 + 1e-12)
    with jax.enable_x64(True):
        data = Data(rows, target, 0.6 / np.linalg.norm(rows, axis=1))
        summed = jax.jit(partial(clipped_sum, loss))
        np.testing.assert_allclose(summed(weights, data), np.sum(wanted, axis=0), rtol=0, atol=1e-12)
        one_by_one = np.array([summed(weights, Data(*(c[i : i + 1] for c in data))) for i in range(200)])
    np.testing.assert_allclose(one_by_one, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
def test_a_last_iterate_has_nearly_double_precision(loss):
    run = run_of(sampling=Cyclic(8), released="last", smoothness=6.0, strong_convexity=0.03, l2=0.03, diameter=3.0, step_size=0.3)
    rows, target = problem(loss)
    rows /= 2 * np.linalg.norm(rows, axis=1, keepdims=True)
    found = train(run, loss, rows, target, l2=0.03, generator=Noiseless(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(found.weights, reference(run, loss, rows, target, l2=0.03)[-1], rtol=0, atol=1e-9)
