"""One pass over blocks is one pass over the array they make up; whatever is wrong with a block releases nothing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.losses import Logistic, Softmax
from dplateau.spec import Cyclic, InputError, OnePass, Run
from dplateau.training import SecureGenerator, TrainingInterrupted, train, train_one_pass
from dplateau.training.records import Part, Records

N, D = 60, 3
SIZES = (1, 1, 2, 3, 5, 8, 9, 4, 4, 20)


def run_of(**changes):
    values = {"n": N, "sampling": OnePass(SIZES), "steps": len(SIZES), "noise_multiplier": 0.7, "step_size": 0.5, **changes}
    return Run(**{"smoothness": 0.3, "strong_convexity": 0.0, "diameter": 4.0, "released": "last", **values})


def problem(n=N, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, D))
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True)), rng.integers(0, 2, n)


def weights(blocks, run=None, loss=None, **options):
    made = train_one_pass(run or run_of(), loss or Logistic(), blocks, generator=SecureGenerator(insecure_seed=1), **options)
    return made.weights


def cut(rows, target, places):
    edges = [0, *sorted(places), len(target)]
    return [(rows[a:b], target[a:b]) for a, b in pairwise(edges)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, N), max_size=12))
def test_the_lengths_of_the_blocks_do_not_matter(places):
    rows, target = problem()
    assert np.array_equal(weights(cut(rows, target, places)), weights([(rows, target)]))


@pytest.mark.parametrize("length", [1, 7, 13])
def test_a_caller_may_use_one_buffer_for_all_blocks(length):
    rows, target = problem()

    def blocks():
        buffer, labels = np.empty((length, D)), np.empty(length, dtype=np.int64)
        for start in range(0, N, length):
            size = min(length, N - start)
            buffer[:size], labels[:size] = rows[start : start + size], target[start : start + size]
            yield buffer[:size], labels[:size]
            buffer[:], labels[:] = np.nan, -1

    assert np.array_equal(weights(blocks()), weights([(rows, target)]))


def test_large_buffers_too_are_copied_before_the_next_block_is_asked_for():
    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(60_000, 50)) / 10, rng.integers(0, 2, 60_000)
    run = run_of(n=60_000, sampling=OnePass(100), steps=600, smoothness=2.0)
    buffer, labels = np.empty((20_000, 50)), np.empty(20_000, dtype=np.int64)

    def blocks():
        for start in range(0, 60_000, 20_000):
            buffer[:], labels[:] = rows[start : start + 20_000], target[start : start + 20_000]
            yield buffer, labels
            buffer[:], labels[:] = np.nan, -1

    assert np.array_equal(weights(blocks(), run), weights([(rows, target)], run))


@pytest.mark.parametrize("place", [sum(SIZES), sum(SIZES) + 7])
def test_a_record_that_no_step_uses_has_no_influence_on_the_one_before(place):
    rows, target = problem(N + 10)
    run = run_of(n=N + 10)
    expected = weights([(rows, target)], run)
    rows[place] = 1e6
    assert np.array_equal(weights([(rows, target)], run), expected)


def test_it_is_what_train_does():
    rows, target = problem()
    trained = train(run_of(), Logistic(), rows, target, dtype="float64", generator=SecureGenerator(insecure_seed=1))
    assert np.array_equal(trained.weights, weights(cut(rows, target, [7, 30])))


def test_steps_are_those_of_a_slow_loop():
    rows, target = problem()
    unit = 2.0 ** (np.frexp(abs(rows).max(axis=1, keepdims=True))[1] - 20)
    rows = np.trunc(rows / unit) * unit  # as the engine cuts them
    run = run_of(released="all", noise_multiplier=1e-9)
    expected, at = np.zeros(D), 0
    for size in SIZES:
        x, y = rows[at : at + size], target[at : at + size]
        residual = 1 / (1 + np.exp(-x @ expected)) - y
        gradient = x * residual[:, None]
        gradient *= np.minimum(1, run.clip_norm / np.linalg.norm(gradient, axis=1))[:, None]
        expected = expected - 0.5 * gradient.sum(axis=0) / size
        expected *= min(1, 2 / np.linalg.norm(expected))
        at += size
    assert weights(cut(rows, target, [11]), run) == pytest.approx(expected, abs=1e-6)


def test_records_that_no_step_uses_are_counted_and_change_nothing():
    rows, target = problem(N + 10)
    run = run_of(n=N + 10)
    assert np.array_equal(weights([(rows, target)], run), weights(cut(rows, 1 - target, [N]), run)) is False
    changed = np.concatenate([target[: sum(SIZES)], 1 - target[sum(SIZES) :]])
    assert np.array_equal(weights([(rows, target)], run), weights([(rows, changed)], run))


def test_several_scores_and_kept_iterates():
    rows, _ = problem()
    target = np.arange(N) % 3
    run = run_of(released="all", smoothness=0.6, clip_norm=2.0)
    made = train_one_pass(run, Softmax(3), cut(rows, target, [5]), keep_iterates=True, generator=SecureGenerator(insecure_seed=0))
    assert made.iterates.shape == (len(SIZES) + 1, D, 3)
    assert np.array_equal(made.iterates[-1], made.weights)


def test_long_rows_are_clipped_to_the_norm_in_single_precision_too():
    """20,000 equal entries: a norm summed in single precision would be wrong by more than the margin allows."""
    rows = np.full((1, 20_000), 1e-2, np.float32)
    run = Run(n=1, sampling=OnePass(1), steps=1, noise_multiplier=1e-3, step_size=1.0, clip_norm=0.1, released="all")
    with_noise = train_one_pass(run, Logistic(), [(rows, np.ones(1))], dtype="float32", generator=SecureGenerator(insecure_seed=0))
    noise = train_one_pass(run, Logistic(), [(0 * rows, np.ones(1))], dtype="float32", generator=SecureGenerator(insecure_seed=0))
    moved = np.linalg.norm(with_noise.weights.astype(float) - noise.weights.astype(float))
    assert 0.9 * run.clip_norm < moved <= run.clip_norm * (1 + 1e-6)


def test_targets_of_any_type_count_as_numbers():
    rows, target = problem()
    expected = weights([(rows, target)])
    blocks = [(rows[:20], target[:20].astype(bool)), (rows[20:40], target[20:40].astype(np.int8)), (rows[40:], target[40:] * 1.0)]
    assert np.array_equal(weights(blocks), expected)


def test_progress_counts_records():
    seen = []
    rows, target = problem()
    weights(cut(rows, target, [20]), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (N, N)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (lambda x, y: [], "no records"),
        (lambda x, y: [(x[:50], y[:50])], "end after 50 rows but the run has n = 60"),
        (lambda x, y: [(x, y), (x[:1], y[:1])], "more records than n = 60"),
        (lambda x, y: [(x[:9], y[:9]), (x[9:, :2], y[9:])], "2 features, the ones before it 3"),
        (lambda x, y: [(x[:9].astype(int), y[:9]), (x[9:], y[9:])], "of type float64, the ones before it int64"),
        (lambda x, y: [(x, y[:-1])], "expected one entry for each of the 60 rows"),
        (lambda x, y: [(x[:, 0], y)], "expected a table of numbers"),
        (lambda x, y: [(x.astype(str), y)], "expected a table of numbers"),
        (lambda x, y: [(x[:30], y[:30]), (x[30:], y[30:] + 1)], "other than 0 and 1"),
        (lambda x, y: [(3 * x, y)], "some row is too long for the run's smoothness"),
    ],
)
def test_what_is_wrong_with_the_blocks_is_said(blocks, message):
    with pytest.raises(InputError, match=message):
        weights(blocks(*problem()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 31, sum(SIZES) - 1])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(bad, place):
    rows, target = problem()
    rows[place, 1] = bad
    with pytest.raises(InputError, match="not finite numbers"):
        weights(cut(rows, target, [10, 40]))


def test_masked_entries_are_missing_in_memory_and_in_streams():
    """NumPy would use what stands below the mask."""
    rows, target = problem()
    for features, labels in ((np.ma.masked_equal(rows, rows[3, 1]), target), (rows, np.ma.masked_equal(target, target[0]))):
        with pytest.raises(InputError, match="masked entries, which are missing"):
            weights(cut(features, labels, [10, 40]))
        with pytest.raises(InputError, match="masked entries, which are missing"):
            train(run_of(released="all"), Logistic(), features, labels)


def test_a_row_as_long_as_numbers_get_is_a_record_like_any_other():
    """Its norm is beyond double precision: it was said to have features that are not finite."""
    rows, target = problem()
    rows[31] = 1.7e308
    run = run_of(released="all", smoothness=None, strong_convexity=None)
    trained = train(run, Logistic(), rows, target, generator=SecureGenerator(insecure_seed=1), dtype="float64").weights
    assert np.array_equal(weights([(rows, target)], run), trained)
    assert np.isfinite(trained).all()


def test_a_short_count_is_found_where_the_steps_have_enough():
    rows, target = problem(N + 5)
    with pytest.raises(InputError, match="65 records but the run has n = 70"):
        weights([(rows, target)], run_of(n=N + 10))


def test_a_first_block_without_records_tells_nothing_of_a_process():
    run, part = run_of(steps=1, sampling=OnePass(N)), Part(N, bytes(16))
    assert Records([cut(*problem(), [0])[0], *cut(*problem(), [])], run, Logistic(), part).sight == b""


def test_only_one_pass_runs():
    with pytest.raises(InputError, match="expected one-pass"):
        weights([problem()], run_of(sampling=Cyclic(6)))


def test_phases_are_no_gradient_steps():
    run = run_of(update="phased-sgd")
    with pytest.raises(InputError, match="its phases are not gradient steps"):
        weights([problem()], run)


@pytest.mark.parametrize("before", [0, 30])
def test_an_interrupt_releases_nothing(before):
    def blocks():
        rows, target = problem()
        if before:
            yield rows[:before], target[:before]
        raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted, match=r"nothing was released, .* Train anew") as caught:
        weights(blocks())
    assert caught.value.__context__ is None


def test_memory_does_not_grow_with_the_records():
    import tracemalloc

    def blocks(count):
        rng = np.random.default_rng(0)
        for _ in range(count):
            yield rng.normal(size=(1_000, D)) / 10, rng.integers(0, 2, 1_000)

    def peak(count):
        run = run_of(n=1_000 * count, sampling=OnePass(100), steps=10 * count, smoothness=0.5)
        tracemalloc.start()
        weights(blocks(count), run)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(40)  # compiles
    assert peak(4_000) < 3 * peak(400)  # of ten times the records; how many blocks wait depends on how busy the machine is
