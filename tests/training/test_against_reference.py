"""The engine against the update in plain NumPy: one example after the other, every gradient written out."""

import jax
import numpy as np
import pytest

import dplateau.training.chunks as chunks_module
from dplateau.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, Run, Shuffled, per_step
from dplateau.training import SecureGenerator, grid_of, train
from dplateau.training.batches import batches
from dplateau.training.loop import Data, clipped_sum

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5), Softmax(3))
SAMPLINGS = (Poisson(6.5), FixedSize(6), Cyclic(7), Shuffled(7), OnePass(2), FullBatch())


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


def reference(run, loss, features, target, *, l2=0.0, seed=0, chunk=1024, momentum=0.0, start=None):
    """All iterates at zero noise, shape (steps + 1, *weights)."""
    features = np.asarray(features, float)
    d = features.shape[1]
    weights = np.zeros(d if loss.outputs == 1 else (d, loss.outputs)) if start is None else np.array(start, float)
    l2 = np.broadcast_to(l2, d).reshape(-1, *(1,) * (weights.ndim - 1))
    grid = grid_of(run, weights.size, loss.outputs, "float64")
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
            total += clipped(loss, features[record], target[record], weights, grid.clip_norm)
        total = np.rint(total / grid.spacing) * grid.spacing
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
def test_double_precision_agrees_with_the_reference_to_1e_12(sampling, loss):
    run = run_of(sampling=sampling, diameter=3.0)
    rows, target = problem(loss)
    found = train(run, loss, rows, target, l2=0.03, generator=Noiseless(insecure_seed=0), dtype="float64", keep_iterates=True)
    wanted = reference(run, loss, rows, target, l2=0.03)
    np.testing.assert_allclose(found.iterates, wanted, rtol=0, atol=1e-12)
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
    np.testing.assert_allclose(found.iterates, wanted, rtol=0, atol=1e-12)
    assert np.isclose(np.linalg.norm(wanted, axis=(1, 2)), 1.0, rtol=1e-12).any()
    same["generator"] = Noiseless(insecure_seed=0)
    averaged = train(run, Softmax(3), rows, target, average=0.3, **options, **same)
    np.testing.assert_allclose(averaged.weights, wanted[-6:].mean(axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "sampling", [Cyclic((7, 3, 30)), Shuffled((1, 39)), OnePass(tuple([1] * 10 + [3] * 10)), FixedSize((6, 30) * 10)]
)
def test_varying_batch_sizes_have_their_own_divisors(sampling, monkeypatch):
    monkeypatch.setattr(chunks_module, "_STEPS", 8)
    run, (rows, target) = run_of(sampling=sampling), problem(Logistic())
    found = train(run, Logistic(), rows, target, generator=Noiseless(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(found.weights, reference(run, Logistic(), rows, target, chunk=8)[-1], rtol=0, atol=1e-12)


def test_a_poisson_batch_larger_than_its_room_is_not_truncated(monkeypatch):
    run, (rows, target) = run_of(n=400, sampling=Poisson(120.0)), problem(Logistic(), n=400)
    monkeypatch.setattr(chunks_module, "largest_likely_size", lambda *_: 1)
    found = train(run, Logistic(), rows, target, generator=Noiseless(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(found.weights, reference(run, Logistic(), rows, target)[-1], rtol=0, atol=1e-12)


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
        np.testing.assert_allclose(clipped_sum(loss, weights, data), np.sum(wanted, axis=0), rtol=0, atol=1e-12)
        one_by_one = np.array([clipped_sum(loss, weights, Data(*(c[i : i + 1] for c in data))) for i in range(200)])
    np.testing.assert_allclose(one_by_one, wanted, rtol=0, atol=1e-13)


def rounded_sum(loss, rows, target, start, dtype):
    """What one full-batch step adds the noise to, through the engine: a step of size n on zero noise."""
    run = run_of(n=len(rows), sampling=FullBatch(), steps=1, step_size=float(len(rows)), noise_multiplier=30.0)
    result = train(run, loss, rows, target, start=start, generator=Noiseless(insecure_seed=0), dtype=dtype)
    return start - result.weights, grid_of(run, start.size, loss.outputs, dtype)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_record_moves_the_rounded_sum_by_at_most_the_clip_norm(loss, dtype):
    """Neighbours by one record more: at most clip_norm, and nearly that; by another record: at most twice that."""
    rng = np.random.default_rng(5)
    largest = 0.0
    limit = 0.6 * (1 + (0 if dtype == "float64" else 1e-4))  # float32 subtraction in this test
    for trial in range(8):
        rows, target = problem(loss, n=25, seed=trial)
        start = np.zeros(5 if loss.outputs == 1 else (5, loss.outputs))
        rows[-1] *= 100
        other, other_target = rows.copy(), target.copy()
        other[-1] = rng.normal(size=5) * 100
        other_target[-1] = 1 - target[-1] if target[-1] < 2 else 0
        whole = rounded_sum(loss, rows, target, start, dtype)[0]
        without = rounded_sum(loss, rows[:-1], target[:-1], start, dtype)[0]
        swapped = rounded_sum(loss, other, other_target, start, dtype)[0]
        added, replaced = np.linalg.norm(whole - without), np.linalg.norm(whole - swapped)
        largest = max(largest, added)
        assert added <= limit
        assert replaced <= 2 * limit
    assert largest > 0.59


def test_the_margin_covers_long_sums_in_single_precision():
    """With gradients that all point the same way, where a float32 sum errs most. Clipping to clip_norm itself fails there."""
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(20_000, 50)) + 4).astype(np.float32)
    norms = np.linalg.norm(rows, axis=1)
    run = run_of(n=20_000, sampling=FullBatch())

    def largest_move(clip_norm):
        data = Data(rows, np.zeros(20_000, np.float32), (clip_norm / norms).astype(np.float32))
        total = jax.jit(lambda data: clipped_sum(Logistic(), np.zeros(50, np.float32), data))
        whole = np.asarray(total(data), float)
        rest = (Data(*(np.delete(column, i, axis=0) for column in data)) for i in range(0, 20_000, 4000))
        return max(np.linalg.norm(whole - np.asarray(total(part), float)) for part in rest)

    assert largest_move(run.clip_norm) > run.clip_norm
    assert largest_move(grid_of(run, 50).clip_norm) <= run.clip_norm


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_rounded_sums_lie_on_the_public_grid(loss):
    rows, target = problem(loss)
    start = np.zeros(5 if loss.outputs == 1 else (5, 3))
    total, grid = rounded_sum(loss, rows, target, start, "float64")
    # A step of n/n: division by n and multiplication by it may leave one unit in the last place.
    multiples = total / grid.spacing
    np.testing.assert_allclose(multiples, np.rint(multiples), rtol=1e-15, atol=0)
    assert abs(multiples).max() > 1000
