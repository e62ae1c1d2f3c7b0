"""Phased-SGD against a slow reference, its sensitivity by search, its rounding against extended precision."""

import math
import traceback

import jax
import numpy as np
import pytest

from dplateau.losses import Hinge, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError, OnePass, Run
from dplateau.training import SecureGenerator, TrainingInterrupted, exact_products
from dplateau.training.persons import MOST_ROWS
from dplateau.training.phased_sgd import _round_off, phase_noise, train_phased_sgd
from dplateau.training.phases import phases_of

QUIET = 1e-8


def phased(sizes, steps, *, noise=QUIET, **changes):
    values = {"clip_norm": 0.5, "smoothness": 1.0, "diameter": 6.0, "strong_convexity": 0.0, **changes}
    return Run(
        n=sum(sizes),
        sampling=OnePass(tuple(sizes)),
        steps=len(sizes),
        noise_multiplier=noise,
        step_size=tuple(steps),
        released="last",
        update="phased-sgd",
        **values,
    )


def records(n, d, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True)), rng.integers(0, 2, n)


def fit(run, loss, rows, target, **options):
    return train_phased_sgd(run, loss, rows, target, generator=SecureGenerator(insecure_seed=0), **options).weights


def residual(loss, scores, y):
    if isinstance(loss, Logistic):
        return 1 / (1 + np.exp(-scores)) - y
    if isinstance(loss, Squared):
        return scores - y
    p = np.exp(scores - scores.max())
    return p / p.sum() - np.eye(len(p))[int(y)]


def slow(run, loss, rows, target, b, growing, number=np.float64):
    """One record at a time, as the algorithm is printed; no noise."""
    rows, target = rows.astype(number), target.astype(number)
    shape = (rows.shape[1],) if loss.outputs == 1 else (rows.shape[1], loss.outputs)
    weights, first = np.zeros(shape, number), 0
    for size, eta in zip(run.sampling.batch_size, run.step_size, strict=True):
        total, mass, factor = np.zeros(shape, number), number(0), number(1)
        for start in range(first, first + int(size), b):
            factor = factor / (1 - number(eta) * number(run.l2)) if growing else factor
            total, mass = total + factor * weights, mass + factor
            gradient = number(run.l2) * weights
            for j in range(start, min(start + b, first + int(size))):
                one = np.multiply.outer(rows[j], residual(loss, rows[j] @ weights, target[j]))
                norm = np.sqrt((one**2).sum())
                gradient = gradient + one * min(number(1), number(run.clip_norm) / max(norm, number(1e-300))) / b
            weights = weights - number(eta) * gradient
            norm = np.sqrt((weights**2).sum())
            weights = weights * min(number(1), number(run.diameter) / 2 / norm) if norm > 0 else weights
        weights, first = total / mass, first + int(size)
    return weights


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("weighting", ["uniform", "growing"])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_it_does_what_is_printed(loss, weighting, batch):
    rows, target = records(31, 3)
    clip = 1.5 if isinstance(loss, Softmax) else 0.2
    run = phased([17, 9, 5], [0.8, 0.5, 0.3], clip_norm=clip, smoothness=1.2, l2=0.2, strong_convexity=0.2, diameter=0.7)
    found = fit(run, loss, rows, target, batch_size=batch, weighting=weighting)
    wanted = slow(run, loss, rows, target, batch, weighting == "growing")
    np.testing.assert_allclose(found, wanted, atol=3e-7)
    assert np.linalg.norm(wanted) > 0.05


def test_phases_use_their_own_records_and_no_other():
    rows, target = records(20, 2)
    run = phased([8, 4], [0.5, 0.5]).replace(n=20)
    other = rows.copy()
    other[12:] = 0
    np.testing.assert_array_equal(fit(run, Logistic(), rows, target), fit(run, Logistic(), other, target))
    other[11] = 0  # the gradient at the last point of a phase would enter no point
    np.testing.assert_array_equal(fit(run, Logistic(), rows, target), fit(run, Logistic(), other, target))
    other[10] = 0
    assert (fit(run, Logistic(), rows, target) != fit(run, Logistic(), other, target)).any()


def moved(run, loss, data, other, **options):
    return np.linalg.norm(fit(run, loss, *data, **options) - fit(run, loss, *other, **options))


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_sensitivity_is_never_above_its_bound(batch, replace):
    rng = np.random.default_rng(5)
    most = 0.0
    for trial in range(150):
        loss = (Logistic(), Squared(), Huber(0.5), SmoothedHinge(1.0))[trial % 4]
        eta, l2 = rng.uniform(0.05, 1.6), (0.0, 0.2)[trial % 2]
        run = phased([13], [eta], clip_norm=0.4, smoothness=1.0 + l2, l2=l2, strong_convexity=l2, diameter=rng.uniform(0.5, 5))
        rows, target = records(13, 2, seed=trial)
        rows *= rng.random() ** 2 if trial % 3 else 1
        place = int(rng.integers(0, 12))
        other, label = rows.copy(), target.copy()
        other[place] = -rows[place] if replace else 0
        weighting = "growing" if l2 else "uniform"
        distance = moved(run, loss, (rows, target), (other, label), batch_size=batch, weighting=weighting)
        most = max(most, distance / (eta * 0.4 / batch))
    assert 0.3 < most / (2 if replace else 1) <= 1 + 1e-7


@pytest.mark.parametrize("batch", [1, 3])
def test_the_sensitivity_is_reached(batch):
    rows, target = np.zeros((60, 2)), np.full(60, 1e6)
    present, opposite = rows.copy(), rows.copy()
    present[0, 0], opposite[0, 0] = 1.0, -1.0
    run = phased([60], [0.3], diameter=50.0)
    bound, steps = 0.3 * 0.5 / batch, 60 / batch
    for data, factor in ((rows, 1), (opposite, 2)):
        distance = moved(run, Squared(), (present, target), (data, target), batch_size=batch)
        assert distance == pytest.approx(factor * bound * (1 - 1 / steps), rel=1e-6)


def test_the_noise_has_the_scale_of_the_last_phase():
    d = 20_000
    run = phased([30, 20], [0.5, 0.4], noise=2.0, clip_norm=0.3, diameter=1e4)
    weights = fit(run, Logistic(), np.zeros((50, d)), np.zeros(50), batch_size=5)
    wanted = math.hypot(*(2.0 * eta * 0.3 / 5 for eta in (0.5, 0.4)))  # without gradients a phase ends where it starts
    for factor, accepted in ((1.0, True), (1.1, False), (0.9, False)):
        assert bool(abs(np.std(weights) / (factor * wanted) - 1) < 5 / math.sqrt(2 * d)) is accepted


def test_rounding_stays_within_what_is_paid_for():
    rows, target = records(400, 6, seed=2)
    run = phased([400], [1.5], diameter=4.0, clip_norm=0.4)
    wanted = slow(run, Logistic(), rows, target, 1, growing=False, number=np.longdouble)
    clip, _ = phase_noise(run, Logistic(), phases_of(run, "phased-sgd")[0], 1, (6,))
    assert clip < run.clip_norm
    missed = np.linalg.norm(slow(run, Logistic(), rows, target, 1, growing=False) - wanted)
    bound = 400 * _round_off(run, Logistic(), 1.5, 1, (6,))
    assert 0 < float(missed) <= bound
    assert (run.clip_norm - clip) * 1.5 >= 2 * bound
    coarse = run.replace(noise_multiplier=1e6)
    clip, noise = phase_noise(coarse, Logistic(), phases_of(coarse, "phased-sgd")[0], 1, (6,))
    assert (run.clip_norm - clip) * 1.5 >= noise.margin(6) > 10 * bound


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diameter": None}, "diameter"),
        ({"smoothness": 0.1, "steps": [20.0]}, "smoothness"),
        ({"steps": [1e-13]}, "rounding"),
        ({"steps": [1e-13], "noise": 1e-9}, "double precision"),
        ({"clip_norm": 1e-12}, "rounding"),
        ({"l2": 0.1, "strong_convexity": 0.1, "smoothness": 0.1}, "smoothness"),
    ],
    ids=str,
)
def test_runs_that_cannot_be_carried_out_soundly_are_refused(changes, message):
    rows, target = records(20, 3)
    changes = dict(changes)
    run = phased([20], changes.pop("steps", [0.5]), **{"noise": 1.0, **changes})
    with pytest.raises(InputError, match=message):
        fit(run, Logistic(), rows, target)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize(("unit", "rows"), [("row", 1), ("person", MOST_ROWS)])
@pytest.mark.parametrize("b", [1, 8, 64])
def test_rounding_allows_for_as_many_additions_as_a_batch_has_rows(loss, unit, rows, b):
    """A sum of k numbers may miss by (k - 1) 2^-53 of what their absolute values add up to, the mean over a batch by as much."""
    run = phased([64], [0.5], unit=unit)
    additions = b * rows - 1
    assert _round_off(run, loss, 0.5, b, loss.weights_shape(3)) >= 0.5 * additions * 2.0**-53 * run.clip_norm


def test_other_bad_input():
    rows, target = records(20, 3)
    run = phased([16, 4], [0.5, 0.1])
    for options, message in (
        ({"batch_size": 5}, "smallest"),
        ({"weighting": "last"}, "weighting"),
        ({"weighting": "growing"}, "l2"),
    ):
        with pytest.raises(InputError, match=message):
            fit(run, Logistic(), rows, target, **options)
    for loss, data, labels, message in (
        ("logistic", rows, target, "loss is str"),
        (Hinge(), rows, target, "smooth"),
        (Logistic(), 100 * rows, target, "too long"),
        (Logistic(), rows[:19], target[:19], "rows"),
        (Softmax(2), rows, target, "clipped"),
        (Squared(), rows, np.full(20, 1e200), "target"),
    ):
        with pytest.raises(InputError, match=message):
            fit(run, loss, data, labels)
    with pytest.raises(InputError, match="update"):
        fit(run.replace(update="phased-erm"), Logistic(), rows, target)
    for sizes, steps in (([20], [2.0]), ([10, 10], [2.0, 0.1]), ([10, 10], [0.1, 2.0])):
        with pytest.raises(InputError, match="2/smoothness"):
            fit(phased(sizes, steps), Squared(), np.eye(20), np.zeros(20))
    with pytest.raises(InputError, match="longer than 1e154"):
        fit(run, Logistic(), np.full((20, 3), 1e200), target)


def test_an_interrupt_releases_nothing_and_progress_counts_steps():
    rows, target = records(20, 3)
    run, seen = phased([16, 4], [0.5, 0.1]), []
    fit(run, Logistic(), rows, target, batch_size=2, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 10)
    assert seen[-1] == (10, 10)

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted) as caught:
        train_phased_sgd(run, Logistic(), rows, target, progress=stop)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert caught.value.__context__ is None
    assert frames[-1].f_code.co_name == "uninterrupted"
    assert not {"weights", "mean", "found"} & {name for frame in frames[1:] for name in frame.f_locals}


def test_the_result_says_what_was_enforced():
    rows, target = records(20, 3)
    run = phased([16, 4], [0.5, 0.1], noise=1.0)
    result = train_phased_sgd(run, Logistic(), rows, target)
    found = {one.name: one.how for one in result.assumptions}
    assert found["inner steps"] == found["noise"] == found["arithmetic"] == found["smoothness"] == "enforced"
    assert found["public constants"] == "declared"
    assert result.run == run
    assert result.dtype == "float64"
    assert np.linalg.norm(result.weights) <= 3 * (1 + 1e-12)
    seeded = train_phased_sgd(run, Logistic(), rows, target, generator=SecureGenerator(insecure_seed=1))
    assert {one.name: one.how for one in seeded.assumptions}["noise"] == "declared"


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)])
def test_an_accelerator_whose_products_are_coarser_is_refused(loss, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(exact_products, "product", lambda left, right: left @ right * (1 + 2.0**-40))
    exact_products._exact.cache_clear()
    exact_products._equal.clear_cache()
    try:
        with pytest.raises(InputError, match="does not add up whole numbers exactly"):
            fit(phased((20, 10), (0.5, 0.5)), loss, *records(30, 4), batch_size=5)
    finally:
        exact_products._exact.cache_clear()
        exact_products._equal.clear_cache()
