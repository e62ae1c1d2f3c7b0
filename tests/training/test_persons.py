"""Persons with several rows: what all rows of one add together, whatever they are, however many, and wherever they stand."""

import math
from fractions import Fraction
from functools import partial

import jax
import numpy as np
import pytest

from dplateau.algorithms import SOLVERS, Budget, Problem
from dplateau.data import block_stream
from dplateau.losses import Hinge, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run, Runs, Shuffled
from dplateau.training import SecureGenerator, corner_erm, train, train_one_pass, train_stream
from dplateau.training.batches import Batches
from dplateau.training.corner_erm import corner_minimiser
from dplateau.training.integers import bits_of, cut, encode, integer_sum, unpacked
from dplateau.training.person_records import PersonRecords
from dplateau.training.persons import MOST_ROWS, checked_groups, codes_of, names_of, persons_of
from dplateau.training.phased_erm import train_phased_erm
from dplateau.training.phased_sgd import Data, clipped_sum
from dplateau.training.phases import checked_records
from dplateau.training.records import Part
from dplateau.training.regularised_erm import Certified
from dplateau.training.regularised_erm import Problem as Regularised

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5), Softmax(3))
SAMPLINGS = (FullBatch(), Poisson(5.0), FixedSize(5), Shuffled(5), Cyclic(5), OnePass(5), RandomAllocation(5))


class Noiseless(SecureGenerator):
    def normal(self, shape):
        return np.zeros(shape)


def run_of(n, **changes):
    fields = {"n": n, "sampling": FullBatch(), "steps": 1, "noise_multiplier": 1.0, "step_size": 1.0, "clip_norm": 1.0}
    return Run(**{**fields, "unit": "person", **changes})


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@partial(jax.jit, static_argnames=("loss", "bits"))
def compiled_sum(loss, whole, unit, data, per_unit, bits):
    return integer_sum(loss, whole, unit, unpacked(data), per_unit, bits)


def each_row(run, loss, rows, target, weights, sizes, trailing=False):
    """What every row adds, in whole units, as Python integers of the finest ones."""
    bits = bits_of(run, rows.shape[1], trailing=trailing)
    (data,), _ = encode(rows, target, bits, 1.0, len(rows), together=True, sizes=sizes)
    whole, unit = cut(weights, bits)
    per_unit = 2.0**bits.gradient / run.clip_norm
    found = [np.asarray(compiled_sum(loss, whole, unit, (data[i : i + 1],), per_unit, bits)) for i in range(len(rows))]
    ints = [sum(part.astype(object) * 2 ** (bits.trailing * (1 - k)) for k, part in enumerate(one)).ravel() for one in found]
    return np.array(ints), bits


def hostile(loss, seed, n, d=3):
    """Rows, targets and weights of all sizes."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-320, -170, -30, -3, 0, 0, 0, 3, 30, 160, 300], n)[:, None]
    rows[rng.random(rows.shape) < 0.2] = 0.0
    if isinstance(loss, Squared | Huber):
        target = rng.normal(size=n) * 10.0 ** rng.choice([-300, 0, 300, 307], n)
    else:
        target = rng.integers(0, max(loss.outputs, 2), n).astype(float)
    shape = (d,) if loss.outputs == 1 else (d, loss.outputs)
    return rows, target, rng.normal(size=shape) * 10.0 ** rng.choice([-3, 0, 3, 200])


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.usefixtures("double")
def test_all_rows_of_a_person_add_at_most_the_clip_norm(loss, trailing):
    """In whole numbers, without any tolerance, for persons of 1 to 37 rows, some of them all alike."""
    near = 0
    for seed in range(3):
        counts = np.array([1, 2, 3, 7, 37])
        groups, sizes = np.repeat(np.arange(5), counts), np.repeat(counts, counts).astype(float)
        rows, target, weights = hostile(loss, seed, len(groups))
        rows[groups >= 3] = rows[-1] if np.isfinite(rows[-1]).all() and rows[-1].any() else 1.0
        target[groups >= 3] = target[-1]
        ints, bits = each_row(run_of(5, clip_norm=(1.0, 1e-9)[seed % 2]), loss, rows, target, weights, sizes, trailing)
        largest = 1 << (bits.gradient + bits.trailing)
        for person in range(5):
            square = sum(int(x) ** 2 for x in ints[groups == person].sum(axis=0))
            assert square <= largest**2
            near += square > (0.9 * largest) ** 2
    assert near > 2


@pytest.mark.parametrize("rows", [1000, MOST_ROWS, 30_001, 1_000_000])
def test_a_person_of_many_rows_counts_as_one_and_is_not_lost(rows):
    """All rows pull the same way as hard as they can: the sum is one clip norm, and never more."""
    features = np.zeros((rows + 1, 2))
    features[:-1] = [0.6, 0.8]
    target = np.full(rows + 1, 1e6)
    groups = np.r_[np.zeros(rows, int), 1]
    run = run_of(2, step_size=2.0)
    moved = train(run, Squared(), features, target, groups=groups, generator=Noiseless(insecure_seed=0), dtype="float64").weights
    assert 0.99 < math.hypot(*moved) <= 1


def reference(loss, rows, target, groups, weights, clip):
    """The sum over persons of the means of clipped gradients, in double precision."""
    total = np.zeros(weights.shape)
    for person in np.unique(groups):
        mine = np.flatnonzero(groups == person)
        for i in mine:
            residual = np.asarray(loss.residual((rows[i] @ weights)[None], target[i : i + 1]))[0]
            gradient = np.multiply.outer(rows[i], residual)
            total += gradient * min(1, clip / max(np.linalg.norm(gradient), 1e-300)) / len(mine)
    return total


def people(loss=None, seed=0, n=23, most=9, d=4):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n) * 7 - 3, rng.integers(1, most, n)))
    rows = rng.normal(size=(len(groups), d))
    target = rng.integers(0, max(2, loss.outputs if loss else 2), len(groups)).astype(float)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), target, groups


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.usefixtures("double")
def test_a_step_is_that_of_the_mean_of_clipped_gradients(loss):
    rows, target, groups = people(loss)
    rng = np.random.default_rng(1)
    start = rng.normal(size=loss.weights_shape(4))
    for labels in (groups, groups.astype(str), [f"person {one}" for one in groups]):
        run = run_of(23, clip_norm=0.4, step_size=23.0)
        result = train(run, loss, rows, target, groups=labels, start=start, generator=Noiseless(insecure_seed=0), dtype="float64")
        np.testing.assert_allclose(start - result.weights, reference(loss, rows, target, groups, start, 0.4), atol=1e-4)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.kind)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_person_moves_the_noiseless_sum_by_no_more_than_is_certified(sampling, adjacency):
    """A step on all persons, with somebody's rows, without them (an empty place), and with any others in their place."""
    n, limit = 40, 1.0 if adjacency == "add-remove" else 2.0
    rng = np.random.default_rng(5)
    scheme = sampling if sampling.full else type(sampling)(n)
    run = run_of(n, sampling=scheme, step_size=float(n), update="post-processed", adjacency=adjacency)

    def moved(mine, targets):
        groups = np.r_[np.repeat(np.arange(n - 1), 3), np.full(len(mine), n)]
        features, target = np.r_[others, mine], np.r_[other_targets, targets]
        generator = Noiseless(insecure_seed=0)
        return train(run, Squared(), features, target, groups=groups, generator=generator, dtype="float64").weights

    others, other_targets = rng.normal(size=(3 * (n - 1), 2)), rng.normal(size=3 * (n - 1)) * 10
    worst = 0.0
    for count in (2, 1001):
        up = np.tile([1e3, 0.0], (count, 1)), np.full(count, 1e9)
        down = (np.zeros((1, 2)), [0.0]) if adjacency == "add-remove" else (-up[0][: count // 2 + 1], up[1][: count // 2 + 1])
        worst = max(worst, float(np.linalg.norm(moved(*up) - moved(*down))))
        any_rows = rng.normal(size=(count, 2)) * 10.0 ** rng.uniform(-100, 100, (count, 1)), rng.normal(size=count) * 1e10
        worst = max(worst, float(np.linalg.norm(moved(*any_rows) - moved(*down))))
    assert 0.99 * limit < worst <= limit * (1 + 1e-9)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.kind)
def test_copies_of_a_row_are_one_row(sampling):
    """Batches are drawn of persons, and every row of a person is in the batches of that person."""
    rows, target, _ = people(n=20, most=2)
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(20), rng.integers(1, 9, 20))
    steps = 4 if isinstance(sampling, OnePass) else 12
    run = run_of(20, sampling=sampling, steps=steps, step_size=0.5, update="post-processed", noise_multiplier=0.01)
    one = train(run.replace(unit="row"), Logistic(), rows, target, generator=SecureGenerator(insecure_seed=3)).weights
    copies = train(run, Logistic(), rows[groups], target[groups], groups=groups, generator=SecureGenerator(insecure_seed=3)).weights
    np.testing.assert_allclose(copies, one, atol=2e-5)


def test_the_places_of_rows_do_not_matter():
    rows, target, groups = people()
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        run = run_of(23, steps=5, step_size=0.5, update="post-processed")
        generator = SecureGenerator(insecure_seed=1)
        found.append(train(run, Logistic(), rows[order], target[order], groups=groups[order], generator=generator).weights)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_rows_of_persons():
    persons = persons_of(run_of(3), ["b", "a", "b", "c", "a", "b"], 6)
    assert persons.order.tolist() == [0, 2, 5, 1, 4, 3]
    assert persons.sizes().tolist() == [3, 2, 3, 1, 2, 3]
    found = persons.rows_of(Batches(np.array([2, 0, 1], np.int32), np.array([2, 0, 1], np.int32)))
    assert (found.records.tolist(), found.counts.tolist()) == ([3, 0, 2, 5, 1, 4], [4, 0, 2])


def test_the_shares_of_a_person_add_up_to_no_more_than_one():
    """Nor to much less. One over a number of rows, rounded, is often above it: 1/5 is, 1/3 is not."""
    counts = np.arange(1, 1025)
    shares = persons_of(run_of(1024), np.repeat(counts, counts), int(counts.sum())).shares()
    for count, share in zip(counts.tolist(), shares[np.cumsum(counts) - 1].tolist(), strict=True):
        assert 1 - 2.0**-48 < count * Fraction(share) <= 1
    assert sum(count * Fraction(1 / count) > 1 for count in counts.tolist()) > 100


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([1, 2], "shape"),
        ([[1], [2], [3]], "shape"),
        (np.array([1.0, 2.0, np.nan]), "1 of 3 rows"),
        (np.array([1.5, 2.0, 3.0]), "1 of 3 rows"),
        (np.array([2.0**53, 1, 2]), "1 of 3 rows"),
        (np.array([2**24, 2**24 + 1, 1], np.float32), "2 of 3 rows"),
        (np.array([2**11, 2**11 + 1, 1], np.float16), "2 of 3 rows"),
        (["a", None, "b"], "1 of 3 rows"),
        (["a", 1, "b"], "several types"),
        ([1, "1", 2], "several types"),
        (np.array(["2020-01-01"] * 3, "datetime64[D]"), "type"),
        ([1, 1, 1], "name 1 persons but the run has n = 2"),
        ([1, 2, 3], "name 3 persons but the run has n = 2"),
        (None, "give groups"),
    ],
)
def test_labels_that_do_not_say_whose_a_row_is(groups, says):
    with pytest.raises(InputError, match=says):
        train(run_of(2), Logistic(), np.ones((3, 2)), np.zeros(3), groups=groups)


def test_groups_are_for_runs_on_persons():
    with pytest.raises(InputError, match="unit='person'"):
        train(run_of(3, unit="row"), Logistic(), np.ones((3, 2)), np.zeros(3), groups=[1, 2, 3])
    with pytest.raises(InputError, match="differ in unit"):
        Runs((run_of(3), run_of(3, unit="row")))
    assert "persons" in {
        one.name for one in train(run_of(3), Logistic(), np.ones((3, 2)), np.zeros(3), groups=[1, 2, 3]).assumptions
    }


def blocks_of(rows, target, groups, size):
    return [(rows[i : i + size], target[i : i + size], groups[i : i + size]) for i in range(0, len(rows), size)]


@pytest.mark.parametrize("size", [1, 3, 8, 1000])
def test_a_pass_over_persons_is_the_same_however_blocks_are_cut(size):
    rows, target, groups = people()
    order = np.argsort(codes_of(groups, len(groups)), kind="stable")
    run = run_of(23, sampling=OnePass(4), steps=5, step_size=0.5, update="post-processed")
    rows, target, groups = rows[order], target[order], groups[order]
    want = train(run, Logistic(), rows, target, groups=groups, generator=SecureGenerator(insecure_seed=1), dtype="float64").weights
    for labels in (groups, groups.astype(str)):
        given = blocks_of(rows, target, labels, size)
        found = train_one_pass(run, Logistic(), given, generator=SecureGenerator(insecure_seed=1)).weights
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("size", [1, 7, 13])
def test_a_caller_may_use_one_buffer_for_the_rows_of_all_persons(size):
    """Also where those of one person are in several blocks, or wait for the batch that they are in."""
    rows, target, groups = people()
    order = np.argsort(groups, kind="stable")
    given = rows[order], target[order], groups[order]

    def blocks():
        buffers = [np.empty((size, *one.shape[1:]), one.dtype) for one in given]
        for start in range(0, len(rows), size):
            count = min(size, len(rows) - start)
            for buffer, one in zip(buffers, given, strict=True):
                buffer[:count] = one[start : start + count]
            yield tuple(buffer[:count] for buffer in buffers)
            for buffer in buffers:
                buffer[:] = -1

    run = run_of(23, sampling=OnePass(4), steps=5, step_size=0.5, update="post-processed")
    found, want = (
        train_one_pass(run, Logistic(), one, generator=SecureGenerator(insecure_seed=1)).weights for one in (blocks(), [given])
    )
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("sampling", [OnePass(1), Cyclic(1)], ids=lambda one: one.kind)
def test_a_row_more_of_a_person_moves_no_other_person(sampling):
    """Among rows of others it would: by the order of first rows, all persons in between would come one step earlier."""
    groups = np.array([0, 1, 1, 2, 3, 0])
    run = run_of(4, sampling=sampling, steps=4, step_size=1.0, update="post-processed", released="all")

    def steps(kept):
        rows, target, labels = np.eye(4)[groups[kept]], np.zeros(len(kept)), groups[kept]
        given = {"groups": labels, "generator": Noiseless(insecure_seed=0), "keep_iterates": True}
        return np.diff(train(run, Logistic(), rows, target, **given).iterates, axis=0)

    with pytest.raises(InputError, match="do not follow one another"):
        steps([0, 1, 2, 3, 4, 5])
    for fewer in ([0, 1, 3, 4], [0, 2, 3, 4]):
        np.testing.assert_array_equal(steps([0, 1, 2, 3, 4]), steps(fewer))


def test_persons_in_phases_follow_one_another():
    rows, target, groups = people(n=30)
    run = Run(
        n=30, sampling=OnePass(15), steps=2, noise_multiplier=1.0, clip_norm=1.0, step_size=0.4, strong_convexity=0.0,
        released="last", update="phased-erm", unit="person",
    )  # fmt: skip
    with pytest.raises(InputError, match="do not follow one another"):
        train_phased_erm(run, Logistic(), rows, target, groups=groups)


def test_a_stream_of_persons_is_the_same_however_it_is_read():
    rows, target, groups = people(most=30)
    order = np.argsort(groups, kind="stable")
    run = run_of(23, sampling=RandomAllocation(4), steps=12, step_size=0.5, update="post-processed")
    given = blocks_of(rows[order], target[order], groups[order], 11)
    found = [
        train_stream(run, Logistic(), lambda: given, rows=rows_kept, generator=SecureGenerator(insecure_seed=1)).weights
        for rows_kept in (None, 1, 40)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert np.linalg.norm(found[0]) > 0.1


def test_a_stream_takes_the_steps_of_train_where_a_record_is_a_person():
    """Rows are in a person's mean: were each a record by itself, somebody with many of them would move a sum by many clip norms."""
    rows, target, groups = people(most=30)
    order = np.argsort(groups, kind="stable")
    given = rows[order], target[order], groups[order]
    run = run_of(23, sampling=RandomAllocation(4), steps=12, step_size=0.5, update="post-processed")
    blocks, seed = blocks_of(*given, 11), {"insecure_seed": 1}
    found = train_stream(run, Logistic(), lambda: blocks, rows=40, generator=Noiseless(**seed), dtype="float64").weights
    want = train(run, Logistic(), *given[:2], groups=given[2], generator=Noiseless(**seed), dtype="float64").weights
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("sampling", [OnePass(1), RandomAllocation(1)], ids=lambda one: one.kind)
@pytest.mark.parametrize(
    ("labels", "n", "says"),
    [
        ("aabbcca", 4, "do not follow one another"),
        ("aabbcc", 4, "3 persons|3 records"),
        ("aabbcc", 2, "more records than n = 2"),
        ([1, 1, "b", 2], 3, "texts in one place|several types"),
    ],
)
def test_streams_whose_persons_are_not_as_they_should_be(sampling, labels, n, says):
    groups = np.array(list(labels), object)
    rows, target = np.ones((len(groups), 2)), np.zeros(len(groups))
    run = run_of(n, sampling=sampling, steps=n, update="post-processed")
    fit = train_one_pass if sampling.once else train_stream
    for size in (1, 2, 7):
        given = blocks_of(rows, target, groups, size)
        with pytest.raises(InputError, match=says):
            fit(run, Logistic(), given if sampling.once else lambda given=given: given)


@pytest.mark.parametrize(
    ("groups", "says"),
    [(["a", np.nan, np.nan, "b"], "2 of 4 rows"), (["a", None, None, "b"], "2 of 4 rows"), ([1, "1", 2, 3], "texts in one place")],
)
def test_lists_of_labels_in_blocks_are_not_made_texts(groups, says):
    """Else rows without a label would all be the rows of one person, whose label is nan."""
    given = block_stream([(np.ones((4, 2)), np.zeros(4), groups)], 3, 2, unit="person")
    with pytest.raises(InputError, match=says):
        train_one_pass(run_of(3, sampling=OnePass(3)), Logistic(), given.blocks())


@pytest.mark.parametrize("sizes", [(3, 1, 1), (1, 1, 1)])
def test_the_reading_that_counts_the_rows_of_persons_is_compared_with_the_others(sizes):
    """Whose rows are counted first must be whose rows are used: else one person's would fall in the batches of others."""

    def ordered(*order):
        groups = np.repeat(order, np.take(sizes, order))
        return [(np.eye(3)[groups], np.zeros(len(groups)), groups)]

    readings = iter([ordered(0, 1, 2)] * 2 + [ordered(1, 2, 0)] * 9)
    run = run_of(3, sampling=RandomAllocation(2), steps=2, update="post-processed")
    with pytest.raises(InputError, match="two readings of the records differ"):
        train_stream(run, Logistic(), lambda: next(readings))


def test_blocks_without_labels():
    run = run_of(2, sampling=OnePass(1), steps=2)
    with pytest.raises(InputError, match="a block has 2 parts: expected features, target and groups"):
        train_one_pass(run, Logistic(), [(np.ones((2, 2)), np.zeros(2))])
    with pytest.raises(InputError, match="a block has 3 parts"):
        train_one_pass(run.replace(unit="row"), Logistic(), [(np.ones((2, 2)), np.zeros(2), np.arange(2))])


@pytest.mark.parametrize("entries", [3, 5])
def test_one_pass_over_persons_wants_one_target_for_each_row(entries):
    with pytest.raises(InputError, match=rf"target has shape \({entries},\): expected one entry for each of the 4 rows"):
        train(run_of(2, sampling=OnePass(1), steps=2), Logistic(), np.ones((4, 2)), np.zeros(entries), groups=[0, 0, 1, 1])


@pytest.mark.usefixtures("double")
def test_last_iterates_allow_for_the_rounding_of_every_row():
    """The integers of a person miss the exact mean by less than ``round_off`` counts, for as many rows as are let in."""
    for count, d in ((1, 3), (7, 3), (MOST_ROWS, 3), (MOST_ROWS, 40)):
        rng = np.random.default_rng(count + d)
        run = run_of(2, released="last", clip_norm=1e6)
        rows, target = rng.normal(size=(count, d)), rng.normal(size=count)
        bits = bits_of(run, d, trailing=True)
        sizes = np.full(count, float(count))
        (data,), _ = encode(rows, target, bits, 1.0, count, together=True, sizes=sizes)
        sums = compiled_sum(Squared(), *cut(np.zeros(d), bits), (data,), 2.0**bits.gradient / run.clip_norm, bits)
        leading, trailing = np.asarray(sums).astype(object)
        stored = [np.asarray(part) for part in unpacked((data,))]
        unit = Fraction(1, 2 ** (bits.gradient + bits.trailing))
        missed = []
        for j in range(d):  # the residual at zero is minus the target, exactly
            exact = sum(
                -Fraction(float(t)) * Fraction(float(w)) * Fraction(float(s)) * int(m) / 10**6
                for t, w, s, m in zip(target, stored[4], stored[2], stored[0][:, j], strict=True)
            )
            missed.append(float((leading[j] * 2**bits.trailing + trailing[j]) * unit - exact))
        allowed = math.sqrt(d) * 2.0 ** (bits.widest(run) - bits.trailing - bits.gradient) + 2.0**-48
        assert np.linalg.norm(missed) <= allowed


def test_more_rows_than_rounding_allows_for_are_refused():
    features, target, groups = np.ones((MOST_ROWS + 2, 2)) / 2, np.zeros(MOST_ROWS + 2), np.r_[np.zeros(MOST_ROWS + 1, int), 1]
    last = run_of(2, released="last", smoothness=1.0, strong_convexity=0.0)
    train(last, Logistic(), features[1:], target[1:], groups=groups[1:], dtype="float64")
    with pytest.raises(InputError, match="more than 1,024 rows"):
        train(last, Logistic(), features, target, groups=groups, dtype="float64")
    once = last.replace(sampling=OnePass(1), steps=2)
    with pytest.raises(InputError, match="more than 1,024 rows"):
        train_one_pass(once, Logistic(), blocks_of(features, target, groups, 100), dtype="float64")
    train(last.replace(released="all"), Logistic(), features, target, groups=groups)


def test_more_rows_than_numbers_of_32_bits_are_refused():
    with pytest.raises(InputError, match="fewer than 2\\^31"):
        persons_of(run_of(2), np.zeros(2), 1 << 31)


@pytest.mark.parametrize("name", [*SOLVERS])
def test_every_solver_takes_persons(name):
    """Copies of a row are one row, so the model is nearly that of the rows, with the same noise."""
    solver = SOLVERS[name]
    rows, target, _ = people(n=400, most=2)
    groups = np.repeat(np.arange(400), np.random.default_rng(2).integers(1, 5, 400))
    problem = Problem(400, 4, Logistic(), l2=0.05 if solver.needs_l2 else 0.0)
    one = solver.plan(problem, Budget(5.0, 1e-4), steps=20)
    many = solver.plan(Problem(400, 4, Logistic(), l2=problem.l2, unit="person"), Budget(5.0, 1e-4), steps=20)
    assert many.run == one.run.replace(unit="person")
    result = many.fit(rows[groups], target[groups], groups=groups, generator=SecureGenerator(insecure_seed=4))
    want = one.fit(rows, target, generator=SecureGenerator(insecure_seed=4)).weights
    np.testing.assert_allclose(result.weights, want, atol=2e-3 * np.linalg.norm(want))
    assert "persons" in {one.name for one in result.assumptions}
    with pytest.raises(InputError, match="give groups"):
        many.fit(rows, target)
    with pytest.raises(InputError, match="unit='person'"):
        one.fit(rows, target, groups=np.arange(400))


@pytest.mark.parametrize("width", [3, 170, 9_000])
def test_a_row_more_of_a_person_leaves_what_phases_compute_of_the_others(width, monkeypatch):
    """Norms, by which gradients are clipped, and corners: NumPy's ``einsum`` has to round a row's sum alike wherever the row is.
    (It rounds another way where there is one row alone, of more than 8,192 entries.)
    """
    rng = np.random.default_rng(width)
    rows, centre = rng.normal(size=(40, width)), rng.normal(size=width)
    rows /= 2 * np.linalg.norm(rows, axis=1, keepdims=True)
    run = Run(
        n=39, sampling=OnePass(39), steps=1, noise_multiplier=1.0, step_size=0.4, strong_convexity=0.0, released="last",
        update="phased-erm", unit="person",
    )  # fmt: skip
    seen = []
    monkeypatch.setattr(corner_erm, "_interior", lambda dual, _: seen.append(dual.offset) or (Certified(centre, 0.0), None))
    for first in (0, 1):  # one person has two rows, or one
        groups = np.maximum(np.arange(40), 1)[first:]
        found = checked_records(run, Hinge(), rows[first:], np.ones(40 - first), groups)
        corner_minimiser(Hinge(), Regularised(found.rows, found.norms, found.target, centre, 1.0), 1.0)
        seen.append(found.norms)
    for two, one in zip(seen[:2], seen[2:], strict=True):
        np.testing.assert_array_equal(two[1:], one)


@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=repr)
def test_phased_erm_minimises_the_mean_over_persons(loss):
    """With hardly any noise the result is the minimiser that a general solver finds."""
    from scipy.optimize import minimize

    rows, target, groups = people(n=30)
    order = np.argsort(groups, kind="stable")
    rows, target, groups = rows[order], target[order], groups[order]
    run = Run(
        n=30, sampling=OnePass(30), steps=1, noise_multiplier=1e-6, clip_norm=1.0, step_size=0.4, strong_convexity=0.0,
        released="last", update="phased-erm", unit="person",
    )  # fmt: skip
    found = train_phased_erm(run, loss, rows, target, groups=groups, generator=SecureGenerator(insecure_seed=0)).weights
    share = 1 / np.array([np.sum(groups == one) for one in groups])

    def objective(w):
        values = np.asarray(loss.value(rows @ w, target), dtype=float)
        return float(share @ values) / 30 + w @ w / (0.4 * 30)

    best = minimize(objective, found, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
    assert objective(found) <= best.fun + 1e-7
    assert objective(found + 0.01) > objective(found)


@pytest.mark.usefixtures("double")
def test_rows_that_are_not_of_the_batch_do_not_count_in_phased_sgd():
    """Whatever the rows of others hold: infinite scores here."""
    from dplateau.training.phased_sgd import _BLOCK, _sum_of_persons

    rng = np.random.default_rng(0)
    rows = np.r_[np.full((2, 2), 1e300), rng.normal(size=(5, 2)), np.full((_BLOCK, 2), 1e300)]
    target, share = np.ones(len(rows)), np.full(len(rows), 0.2)
    data = Data(rows, target, 1 / np.linalg.norm(np.minimum(rows, 1e100), axis=1))
    weights = np.array([1e100, 1.0])
    found = _sum_of_persons(Squared(), weights, data, share, 2, 7, 0.5)
    mine = Data(rows[2:7], target[2:7], 0.5 * data.largest[2:7])
    np.testing.assert_allclose(found, clipped_sum(Squared(), weights, mine, share[2:7]))
    assert np.linalg.norm(found) <= 0.5


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["a", "b", "a", "\udcff", "ab"], True),
        (np.array(["a", "b", "a", "z"]), True),
        (np.array([b"a", b"b", b"a"]), True),
        ([1, 2, 1, -(2**63), 2**63 - 1], False),
        (np.array([1, 2, 1, 2**64 - 1], np.uint64), False),
        (np.array([1.0, 2.0, 1.0]), False),
        (np.array([True, False, True]), False),
    ],
)
def test_labels_have_one_number_each_whoever_holds_them(labels, text):
    """Two processes that know the same key have the same numbers, and different labels have different ones."""
    labels = checked_groups(labels, len(labels))
    key = bytes(range(16))
    first, second = names_of(labels, key), names_of(labels[::-1], key)
    assert first.text is second.text is text
    assert first.numbers.tolist() == second.numbers.tolist()[::-1]
    assert len(set(first.numbers.tolist())) == len(set(labels.tolist()))
    if text:
        assert not set(first.numbers.tolist()) & set(names_of(labels, bytes(16)).numbers.tolist())


@pytest.mark.parametrize(
    ("labels", "words"), [(["a", 1], "texts in one place and numbers in another"), ([1, 2**70], "more than 64 bits: use texts")]
)
def test_labels_that_have_no_numbers_are_refused(labels, words):
    with pytest.raises(InputError, match=words):
        names_of(checked_groups(labels, len(labels)), bytes(16))


def test_progress_does_not_tell_how_many_rows_there_are():
    """A person of 100,000 rows made chunks shorter, and steps were told after each of them."""
    rng, told = np.random.default_rng(0), []
    run = Run(n=100, sampling=Poisson(50.0), steps=2000, noise_multiplier=5.0, step_size=0.1, unit="person")
    for more in (0, 100_000):
        whose, calls = np.r_[np.arange(100), np.zeros(more, int)], []
        rows, target = rng.normal(size=(len(whose), 2)), rng.integers(0, 2, len(whose))
        train(run, Logistic(), rows, target, groups=whose, progress=lambda *said, calls=calls: calls.append(said))
        told.append(calls)
    assert told[0] == told[1] == [(0, 2000), (1024, 2000), (2000, 2000)]


def test_progress_of_a_stream_does_not_tell_how_many_rows_there_are():
    """Steps that are made at once depend on how many rows fit the memory, and so on those of persons."""
    rng, told = np.random.default_rng(0), []
    run = Run(n=100, sampling=RandomAllocation(10), steps=25, noise_multiplier=5.0, step_size=0.1, unit="person")
    for more in (0, 500):
        whose, calls = np.r_[np.zeros(more, int), np.arange(100)], []
        rows, target = rng.normal(size=(len(whose), 2)), rng.integers(0, 2, len(whose))
        read = lambda rows=rows, target=target, whose=whose: [(rows, target, whose)]  # noqa: E731
        train_stream(run, Logistic(), read, rows=60, progress=lambda *said, calls=calls: calls.append(said))
        told.append(calls)
    assert told[0] == told[1] == [(0, 250), (100, 250), (200, 250), (250, 250)]


def test_a_process_without_persons_is_refused_before_anything_is_charged():
    """Not when their labels are compared, after the last step."""
    run = Run(n=30, sampling=OnePass(30), steps=1, noise_multiplier=1.0, step_size=0.4, unit="person")
    nobody = [(np.zeros((0, 3)), np.zeros(0), np.zeros(0, int))]
    with pytest.raises(InputError, match="every process needs one at least"):
        PersonRecords(nobody, run, Logistic(), Part(0, bytes(16)))
