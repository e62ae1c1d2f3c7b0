"""The noise that reaches the iterates, and everything that ``train`` refuses or keeps to itself."""

import io
import math
import signal
import sys
from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from dplateau.losses import Logistic, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run, Shuffled
from dplateau.training import SecureGenerator, TrainingDiverged, TrainingInterrupted, progress_bar, train
from dplateau.training.checks import check_curvature

FALSE_ALARM = 1e-9
SAMPLINGS = (Poisson(3.0), FixedSize(3), RandomAllocation(3), Cyclic(3), Shuffled(3), OnePass(1), FullBatch())


def run_of(**changes):
    return Run(**{"n": 30, "sampling": Poisson(3.0), "steps": 30, "noise_multiplier": 2.0, "step_size": 0.1, **changes})


def problem(n=30, d=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n)


def noise_of(run, d, dtype="float64", seed=0):
    """The standardised noise of every step, read off the iterates of a run on rows of zeros; shape (steps, d)."""
    generator = SecureGenerator(insecure_seed=seed)
    rows = np.zeros((run.n, d))
    iterates = train(run, Logistic(), rows, np.zeros(run.n), generator=generator, dtype=dtype, keep_iterates=True).iterates
    divisor = run.sampling.divisors(run.n)
    deviation = np.asarray(run.step_size) * np.asarray(run.noise_multiplier) * run.clip_norm / np.asarray(divisor)
    return np.diff(iterates.astype(float), axis=0) / np.broadcast_to(deviation, run.steps)[:, None]


def right_scale(noise):
    """Two-sided chi-square test that the noise has unit variance."""
    tail = stats.chi2(noise.size).cdf(np.sum(noise**2))
    return 2 * min(tail, 1 - tail) > FALSE_ALARM


def independent(noise):
    """Whether coordinates and neighbouring steps are uncorrelated."""
    shifted = np.hstack([noise[:-1], noise[1:]])
    correlation = np.corrcoef(shifted, rowvar=False)
    return abs(correlation - np.eye(len(correlation))).max() < 6.5 / math.sqrt(len(shifted))


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.kind)
def test_the_noise_in_the_iterates_has_the_scale_that_the_run_states(sampling):
    steps = 400
    noise = noise_of(run_of(n=400, sampling=sampling, steps=steps, clip_norm=0.7), d=20)
    assert right_scale(noise)
    assert not right_scale(0.9 * noise)
    assert not right_scale(1.1 * noise)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-6


def test_single_precision_has_the_same_noise():
    noise = noise_of(run_of(n=400, steps=400), d=20, dtype="float32")
    assert right_scale(noise)
    assert not right_scale(0.9 * noise)
    assert not right_scale(1.1 * noise)


def test_scheduled_noise_follows_its_schedule():
    rng = np.random.default_rng(1)
    schedules = {"noise_multiplier": rng.uniform(0.3, 9, 2000), "step_size": rng.uniform(0.01, 1, 2000)}
    noise = noise_of(run_of(sampling=Poisson(rng.uniform(1, 20, 2000)), steps=2000, **schedules), d=5)
    assert right_scale(noise)
    halves = np.split(noise[np.argsort(schedules["noise_multiplier"])], 2)
    assert all(right_scale(half) for half in halves)
    assert not any(right_scale(factor * half) for half in halves for factor in (0.9, 1.1))


def test_noise_is_independent_across_steps_and_coordinates():
    noise = noise_of(run_of(steps=5000), d=8)
    assert independent(noise)
    smoothed, mixed = noise.copy(), noise.copy()
    smoothed[1:] += 0.15 * noise[:-1]
    mixed[:, 0] += 0.15 * noise[:, 5]
    assert not independent(smoothed)
    assert not independent(mixed)


def test_softmax_noise_is_independent_across_classes():
    run = run_of(steps=4000)
    generator = SecureGenerator(insecure_seed=0)
    iterates = train(run, Softmax(3), np.zeros((30, 2)), np.zeros(30), generator=generator, keep_iterates=True).iterates
    assert iterates.shape == (4001, 2, 3)
    noise = np.diff(iterates.astype(float), axis=0).reshape(4000, 6) / (0.1 * 2 / 3)
    assert independent(noise)
    assert right_scale(noise)


def test_fresh_noise_every_time_unless_seeded():
    run, (rows, target) = run_of(), problem()
    first, second = (train(run, Logistic(), rows, target) for _ in range(2))
    assert (first.weights != second.weights).any()
    assert first.generator.secure
    seeded = [train(run, Logistic(), rows, target, generator=SecureGenerator(insecure_seed=1)) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].weights, seeded[1].weights)
    assert {a.name: a.how for a in first.assumptions}["noise"] == "enforced"
    assert {a.name: a.how for a in seeded[0].assumptions}["noise"] == "declared"


@dataclass(frozen=True)
class CountingLogistic(Logistic):
    """Counts how often it is traced, hence compiled."""

    traces: ClassVar[list] = []

    def residual(self, scores, target):
        self.traces.append(scores.shape)
        return super().residual(scores, target)


def test_nothing_is_compiled_again_for_other_batch_sizes_steps_or_constants():
    rows, target = problem(n=3000)
    run = run_of(n=3000, sampling=Poisson(100.0), steps=1500, diameter=5.0)
    train(run, CountingLogistic(), rows, target)
    once = len(CountingLogistic.traces)
    assert once > 0
    train(run.replace(noise_multiplier=3.0, step_size=0.2, diameter=None), CountingLogistic(), rows, target, l2=0.1)
    train(run.replace(steps=2000, sampling=Poisson(101.0)), CountingLogistic(), rows, target)
    assert len(CountingLogistic.traces) == once
    train(run.replace(sampling=Poisson(500.0)), CountingLogistic(), rows, target)
    assert len(CountingLogistic.traces) > once


def interrupt(done, _total):
    if done:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interruptible():
    """A process that was started in the background ignores the signal."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_releases_nothing():
    rows, target = problem()
    with pytest.raises(KeyboardInterrupt, match="nothing was released") as caught:
        train(run_of(steps=3000), Logistic(), rows, target, progress=interrupt)
    error = caught.value
    assert type(error) is TrainingInterrupted
    assert error.__context__ is None
    assert error.__cause__ is None
    frame, names = error.__traceback__, set()
    while frame:
        names |= set(frame.tb_frame.f_locals)
        frame = frame.tb_next
    assert "arithmetic" in names
    assert not names & {"state", "weights", "iterates", "kept"}


def test_divergence_is_an_error():
    rows, target = problem()
    with pytest.raises(TrainingDiverged, match="step_size"):
        train(run_of(step_size=1e30, steps=200), Squared(), rows, target, l2=1.0)
    large = run_of(step_size=1e40, steps=2)
    assert np.isfinite(train(large, Logistic(), rows, target > 0, dtype="float64").weights).all()
    with pytest.raises(TrainingDiverged, match="no longer finite"):
        train(large, Logistic(), rows, target > 0, dtype="float32")


def test_progress_tells_steps_and_nothing_else():
    rows, target = problem()
    calls = []
    train(run_of(steps=2500), Logistic(), rows, target, progress=lambda *numbers: calls.append(numbers))
    assert calls == [(0, 2500), (1024, 2500), (2048, 2500), (2500, 2500)]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_is_silent_unless_standard_error_is_a_terminal(terminal, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    for name in ("TTY_COMPATIBLE", "FORCE_COLOR", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("fitting") as show:
        show(3, 7)
    assert ("3/7" in stream.getvalue()) == terminal
    assert bool(stream.getvalue()) == terminal


def test_the_result_is_a_frozen_record_of_the_last_iterate():
    rows, target = problem()
    result = train(run_of(released="last"), Logistic(), rows, target, dtype="float64")
    assert result.iterates is None
    assert result.weights.shape == (4,)
    assert result.run == run_of(released="last")
    assert {a.how for a in result.assumptions} == {"enforced", "declared"}
    with pytest.raises(FrozenInstanceError):
        result.weights = 0


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"momentum": 0.5}, "post-processed"),
        ({}, {"average": 0.5}, "post-processed"),
        ({"released": "last"}, {"average": 0.5}, "post-processed"),
        ({"released": "last"}, {"dtype": "float32"}, "double precision"),
        ({"released": "last"}, {"keep_iterates": True, "dtype": "float64"}, "keep_iterates"),
        ({"released": "last", "update": "post-processed"}, {"keep_iterates": True}, "keep_iterates"),
        ({"update": "post-processed"}, {"momentum": 1.0}, "momentum"),
        ({"update": "post-processed"}, {"momentum": -0.1}, "momentum"),
        ({"update": "post-processed"}, {"average": 1.1}, "average"),
        ({"step_size": None}, {}, "step_size"),
        ({}, {"dtype": "float16"}, "dtype"),
        ({}, {"l2": -1.0}, "l2"),
        ({}, {"l2": [1.0, 2.0]}, "l2"),
        ({}, {"l2": math.nan}, "l2"),
        ({}, {"start": np.zeros(3)}, "start"),
        ({}, {"start": np.full(4, math.nan)}, "start"),
        ({"diameter": 1.0}, {"start": np.ones(4)}, "ball"),
        ({"n": 31}, {}, "n = 31"),
        ({"smoothness": 0.1}, {}, "smoothness"),
        ({"smoothness": 1e6, "strong_convexity": 0.1}, {"l2": 0.05}, "strong_convexity"),
        ({"smoothness": 1e6, "strong_convexity": 0.1, "l2": 0.1}, {"l2": [0.2, 0.1, 0.05, 0.2]}, "states l2 0.1"),
        ({"noise_multiplier": 1e10}, {}, "rounding would take"),
        ({"clip_norm": 1e-120}, {}, "clip_norm"),
    ],
)
def test_what_does_not_fit_is_refused(changes, options, message):
    rows, target = problem()
    with pytest.raises(InputError, match=message):
        train(run_of(**changes), Logistic(), rows, target, **options)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_data_that_is_not_finite_is_refused(value):
    rows, target = problem()
    rows[3, 2] = value
    with pytest.raises(InputError, match="finite"):
        train(run_of(), Logistic(), rows, target)
    with pytest.raises(InputError, match="finite"):
        train(run_of(), Squared(), problem()[0], rows[:, 2])


def test_a_row_as_long_as_numbers_get_is_a_record_like_any_other():
    rows, target = problem()
    rows[3, 2] = 7.7e307
    assert np.isfinite(train(run_of(sampling=FullBatch()), Logistic(), rows, target).weights).all()
    with pytest.raises(InputError, match="smoothness") as error:
        train(run_of(smoothness=1.0), Logistic(), rows, target)
    assert "7.7" not in str(error.value)


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i2", np.longdouble])
@pytest.mark.parametrize("sampling", [Poisson(10.0), OnePass(10)], ids=lambda s: s.kind)
def test_numbers_of_any_type_are_numbers(kind, sampling):
    """Of other byte orders, and of more than 64 bits, the compiled loop has none: they ended in an error of JAX's."""
    rows, target = problem()
    rows = (10 * rows).astype(kind)
    run = run_of(sampling=sampling, steps=2)
    usual = rows.astype(np.float32 if kind == ">f4" else np.float64)
    found, wanted = (train(run, Logistic(), one, target, generator=SecureGenerator(insecure_seed=0)) for one in (rows, usual))
    np.testing.assert_array_equal(found.weights, wanted.weights)


@pytest.mark.filterwarnings("error")
def test_a_number_beyond_double_precision_is_told_in_an_error_and_no_warning():
    rows, target = problem()
    huge = np.full(30, np.longdouble("1e400"))
    for some, labels in ((rows, huge), (rows * huge[:, None], target)):
        with pytest.raises(InputError, match="finite"):
            train(run_of(), Squared(), some, labels)


def test_shapes_and_types_of_the_data_are_checked():
    rows, target = problem()
    for bad_rows, bad_target in (
        (rows[0], target),
        (rows, target[:-1]),
        (rows.astype(str), target),
        (rows, rows),
        (rows[:, :0], target),
    ):
        with pytest.raises(InputError, match=r"features|target"):
            train(run_of(), Logistic(), bad_rows, bad_target)


def test_stated_curvature_is_enforced_on_the_rows():
    rows, target = problem()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    run = run_of(smoothness=0.26, strong_convexity=0.01, released="last")
    names = {a.name for a in train(run, Logistic(), rows, target, l2=0.01, dtype="float64").assumptions}
    assert {"smoothness", "strong convexity"} <= names
    with pytest.raises(InputError, match="smoothness"):
        train(run, Logistic(), 1.1 * rows, target, l2=0.01, dtype="float64")
    with pytest.raises(InputError, match="smoothness"):
        train(run, Logistic(), (1 + 1e-5) * rows, target, l2=0.01, dtype="float64")
    with pytest.raises(InputError, match="strong_convexity"):
        train(run, Logistic(), rows, target, l2=[0.01, 0.01, 0.01, 0.0], dtype="float64")


@pytest.mark.parametrize(("released", "allowed"), [("last", 1e-12), ("all", 1e-6)])
def test_what_a_run_states_may_miss_what_the_rows_have_by_rounding_alone(released, allowed):
    """Last-iterate bounds count on it to the precision of their arithmetic."""
    large = {"smoothness": 9.0}
    for stated, rows, l2, words in (
        ({"smoothness": 0.75}, lambda error: math.sqrt(1 + 3 * error), lambda error: 0.5, "some row is too long"),
        ({"smoothness": 0.75}, lambda error: 1.0, lambda error: 0.5 + 0.75 * error, "some row is too long"),
        ({"strong_convexity": 0.5, "l2": 0.5, **large}, lambda error: 1.0, lambda error: 0.5 * (1 - error), "the run states l2"),
        ({"strong_convexity": 0.5, **large}, lambda error: 1.0, lambda error: 0.5 * (1 - error), "strong_convexity"),
    ):
        run = run_of(released=released, **stated)
        for error in (-10 * allowed, 0.0, allowed / 2):
            check_curvature(run, Logistic(), 1.0, rows(error), np.array([l2(error)]))
        with pytest.raises(InputError, match=words):
            check_curvature(run, Logistic(), 1.0, rows(2 * allowed), np.array([l2(2 * allowed)]))


def test_no_rounding_makes_a_last_iterate_expand():
    """At 2/smoothness a row that is longer in its last bits would, and noise would not forget it."""
    run = run_of(released="last", smoothness=0.25, strong_convexity=0.0, step_size=8.0)
    longer = 1 + 1e-13
    check_curvature(run, Logistic(), 1.0, 1.0, np.zeros(1))
    check_curvature(run.replace(step_size=7.99), Logistic(), 1.0, longer, np.zeros(1))
    for step_size in (8.0, (0.1,) * 29 + (8.0,)):
        with pytest.raises(InputError, match="2/smoothness, and rounding"):
            check_curvature(run.replace(step_size=step_size), Logistic(), 1.0, longer, np.zeros(1))


def test_softmax_counts_as_convex_only_where_clipping_never_acts():
    rows, target = problem()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    run = run_of(smoothness=1.0, strong_convexity=0.0, clip_norm=math.sqrt(2), noise_multiplier=1.0)
    with pytest.raises(InputError, match="stay convex under clipping"):
        train(run, Softmax(2), rows * (1 + 1e-5), target)
    train(run, Softmax(2), rows, target)
    train(run.replace(strong_convexity=None, smoothness=None), Softmax(2), rows, target)


def test_rows_of_zeros_and_an_unclipped_row_do_no_harm():
    rows, target = problem()
    rows[0] = 0
    rows[1] *= 1e-30
    assert np.isfinite(train(run_of(sampling=FullBatch()), Squared(), rows, target).weights).all()
