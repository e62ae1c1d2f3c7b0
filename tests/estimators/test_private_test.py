"""A score of private rows that were held out: its cost, its noise, its split, and what is read off it."""

import itertools
import json
import math
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import dplateau as dp
from dplateau.certificate import bound_to, read_certificate, verify
from dplateau.estimators.private_test import (
    ERRORS,
    HALVES,
    PrivateTest,
    cells_of,
    cells_of_classes,
    cells_of_numbers,
    drawn_split,
    planned_test,
    write_test,
)
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.spec import ContradictionError, InputError
from dplateau.spec.assumption import HeldOut
from dplateau.training import SecureGenerator

COLUMN = '[columns.{}]\ntype = "number"\nlow = 0\nhigh = 1\n'
SCHEMA = COLUMN.format("a") + COLUMN.format("b") + '[columns.y]\ntype = "target"\n'
CLASSES = SCHEMA + 'classes = ["no", "yes"]\n'
NUMBER = SCHEMA + "low = 0\nhigh = 1\n"


def planned(rows_of=3_000, share=0.5, epsilon=1.0, delta=1e-5, adjacency="add-remove", seed=1):
    settings = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency, "insecure_seed": seed - 1}
    return planned_test(dp.PrivateLogisticRegression(**settings), rows_of, share)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 4,000 rows with a class and one with a number."""
    made = tmp_path_factory.mktemp("private-test")
    rng = np.random.default_rng(0)
    rows = rng.random((4_000, 2))
    chance = rng.random(4_000) < 1 / (1 + np.exp(-8 * (rows[:, 0] - 0.5)))
    number = np.clip(rows[:, 0] + rng.normal(size=4_000) / 50, 0, 1)
    for name, schema, target in (("classes", CLASSES, np.where(chance, "yes", "no")), ("number", NUMBER, number.round(4))):
        lines = [f"{a:.4f},{b:.4f},{y}" for (a, b), y in zip(rows, target, strict=True)]
        (made / f"{name}.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
        (made / f"{name}.toml").write_text(schema)
    return made


def train(folder, name="classes", **options):
    settings = {"epsilon": 2.0, "max_iter": 30, "private_test": 0.25, **options}
    return TableModel.train(folder / f"{name}.csv", folder / f"{name}.toml", **settings)


# The split.


def test_a_row_is_in_one_part_and_the_split_sees_no_row():
    split = drawn_split(1_001, 0.3, SecureGenerator())
    assert sorted([*split.kept, *split.held]) == list(range(1_001))
    assert len(split.held) == 300


def test_every_place_is_held_out_as_often():
    """5,000 splits of 40 places: each is held out 1/4 of the time; a place that has 1/4 + 0.05 would be seen."""
    generator = SecureGenerator(insecure_seed=5)
    found = np.zeros(40)
    for _ in range(5_000):
        found[drawn_split(40, 0.25, generator).held] += 1
    limit = norm.isf(1e-6 / 80) * math.sqrt(5_000 * 0.25 * 0.75)
    assert (abs(found - 1_250) < limit).all()
    assert limit + 3 * math.sqrt(5_000 * 0.25 * 0.75) * 0.5 < 5_000 * 0.05


@pytest.mark.parametrize("share", [0.0, -0.1, 0.51, 1.0, float("nan"), float("inf"), 1e-6])
def test_shares_that_leave_nothing_are_refused(share):
    with pytest.raises(InputError, match="private_test"):
        drawn_split(1_000, share, SecureGenerator())


# What a record can do.


def test_a_row_counts_in_one_cell_whatever_is_predicted():
    rng = np.random.default_rng(1)
    extreme = np.array([0.0, 1.0, -1.0, 2.0, np.nan, np.inf, -np.inf, 1e-320])
    for proba, place, target in itertools.product(extreme, (0, 1), (0, 1)):
        cells = cells_of_classes(np.array([target]), np.array([place]), 2, np.array([proba]), 0.3)
        assert cells.shape == (2, 2, HALVES)
        assert cells.sum() == cells.max() == 1
    for predicted, target in itertools.product(extreme, (-5.0, 0.0, 0.5, 1.0, 7.0)):
        cells = cells_of_numbers(np.array([target]), np.array([predicted]), 0.0, 1.0)
        assert cells.shape == (len(ERRORS) - 1,)
        assert cells.sum() == cells.max() == 1
    target, place = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    with_all = cells_of_classes(target, place, 2, rng.random(50), 0.5)
    assert with_all.sum() == 50


def test_with_a_row_and_without_it_the_whole_numbers_differ_by_one():
    rng = np.random.default_rng(2)
    target, place, proba = rng.integers(0, 2, 60), rng.integers(0, 2, 60), rng.random(60)
    whole = cells_of_classes(target, place, 2, proba, 0.5)
    for i in range(60):
        left = np.delete(np.arange(60), i)
        moved = whole - cells_of_classes(target[left], place[left], 2, proba[left], 0.5)
        assert float((moved**2).sum()) == 1.0


def test_how_a_row_is_counted_does_not_depend_on_the_others():
    """Rows whose score is zero but for rounding: a matrix product rounds some of them up where there is one row more."""
    rng, run = np.random.default_rng(0), dp.Run(n=1_000, sampling=dp.FullBatch(), steps=1, noise_multiplier=100.0)
    X = rng.normal(size=(2_000, 20)) / 10
    settings = {"epsilon": 1.0, "delta": 1e-5, "fit_intercept": False, "insecure_seed": 0, "max_iter": 20}
    model = dp.PrivateLogisticRegression(classes=[0, 1], **settings).fit(X, (X[:, 0] > 0).astype(int))
    number = dp.PrivateLinearRegression(target_range=(0.0, 1.0), **settings).fit(X, X[:, 0] > 0)
    number.coef_ = model.coef_[0]
    one = np.ones(1_000, int)
    for _ in range(300):
        row = rng.normal(size=20) / 10
        row[-1] -= row @ model.coef_[0] / model.coef_[0, -1]
        rows = np.tile(row, (1_000, 1))
        for used in (model, number):
            all_of_them, less = (used._credits(rows[:many], one[:many]) for many in (1_000, 999))
            assert len({*all_of_them.tolist(), *less.tolist()}) == 1
        assert (cells_of(model, run, rows, one) - cells_of(model, run, rows[1:], one[1:])).sum() == 1.0
        assert np.count_nonzero(cells_of(model, run, rows, one)) == 1


def test_training_rows_and_held_out_rows_do_not_mix(folder):
    """With a known seed: another held-out row leaves the model as it was; the histogram is of the held-out rows alone."""
    model = train(folder, insecure_seed=3)
    # The draw of the split is the first thing that its generator does.
    split = drawn_split(4_000, 0.25, SecureGenerator(insecure_seed=4))
    lines = (folder / "classes.csv").read_text().splitlines()
    changed = list(lines)
    for place in split.held[:50]:
        a, b, y = changed[1 + place].split(",")
        changed[1 + place] = f"{a},{b},{'no' if y == 'yes' else 'yes'}"
    (folder / "changed.csv").write_text("\n".join(changed) + "\n")
    (folder / "changed.toml").write_text(CLASSES)
    other = train(folder, "changed", insecure_seed=3)
    np.testing.assert_array_equal(model.estimator.coef_, other.estimator.coef_)
    assert abs(model.private_test.counts - other.private_test.counts).sum() >= 50
    changed = list(lines)
    changed[1 + split.kept[0]] = "0.0,0.0,yes"
    (folder / "changed.csv").write_text("\n".join(changed) + "\n")
    third = train(folder, "changed", insecure_seed=3)
    assert (model.estimator.coef_ != third.estimator.coef_).any()


# What it costs.


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-7)])
def test_the_noise_is_that_of_the_exact_gaussian_mechanism(adjacency, epsilon, delta):
    run = planned(epsilon=epsilon, delta=delta, adjacency=adjacency).run
    moved = 1.0 if adjacency == "add-remove" else 2.0  # of which the histogram needs the root of 2
    mu = moved / run.noise_multiplier
    exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert exact <= delta
    assert exact > 0.99 * delta
    assert run.clip_norm == 1


def test_both_certificates_hold_at_the_same_epsilon_and_tell_of_both(folder, tmp_path):
    model = train(folder)
    model.save(tmp_path / "model")
    for path, n in ((tmp_path / "model", 3_000), (tmp_path / "model" / "private-test", 1_000)):
        certificate = read_certificate(path / "certificate.json")
        assert verify(certificate).certifies
        assert certificate.run.n == n
        assert certificate.epsilon <= 2.0
        assert certificate.delta == 1e-5
        (told,) = (one for one in certificate.assumptions if isinstance(one, HeldOut))
        assert (told.rows, told.how) == (1_000, "enforced")
        assert told.noise_multiplier == model.private_test.deviation


def delta_of(P, Q, epsilon):
    """The exact delta of two laws on finitely many outcomes, in the worse direction."""
    keys = P.keys() | Q.keys()
    gains = [sum(max(0.0, a.get(k, 0.0) - math.exp(epsilon) * b.get(k, 0.0)) for k in keys) for a, b in ((P, Q), (Q, P))]
    return max(gains)


def released(records, split, keep_train, keep_test):
    """The law of (a noisy model of the one part, a noisy count of the other that looks at the model), and of nothing else."""
    law = {}
    for held, chance in split(records):
        model_true = sum(r for i, r in enumerate(records) if r is not None and i not in held) % 2
        for flip, p in ((0, keep_train), (1, 1 - keep_train)):
            model = model_true ^ flip
            count = sum((r == model) for i, r in enumerate(records) if r is not None and i in held) % 2
            for flop, q in ((0, keep_test), (1, 1 - keep_test)):
                law[model, count ^ flop] = law.get((model, count ^ flop), 0.0) + chance * p * q
    return law


def by_lot(records):
    places = list(itertools.combinations(range(len(records)), 2))
    return [(held, 1 / len(places)) for held in places]


def by_rank(records):
    """The two largest records are held out: which records these are depends on all."""
    order = sorted((i for i, r in enumerate(records) if r is not None), key=lambda i: (-records[i], i))
    return [(tuple(order[:2]), 1.0)]


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.6, 0.9])
def test_two_parts_drawn_by_lot_cost_the_larger_of_the_two(epsilon):
    """All data sets of five places with records 0 and 1, with a record and without it: exact laws, however the coins fall."""
    keep_train, keep_test = 0.7, 0.6
    alone = [delta_of({0: keep, 1: 1 - keep}, {1: keep, 0: 1 - keep}, epsilon) for keep in (keep_train, keep_test)]
    worst = 0.0
    for records in itertools.product((0, 1), repeat=5):
        for place in range(5):
            without = [*records]
            without[place] = None
            laws = [released(data, by_lot, keep_train, keep_test) for data in (list(records), without)]
            worst = max(worst, delta_of(*laws, epsilon))
    assert worst <= max(alone) + 1e-12


def test_a_split_that_looks_at_the_records_costs_more():
    """The refutation: held out by rank, a record moves another one into the other part, and both releases change."""
    keep_train, keep_test = 0.7, 0.6
    alone = max(delta_of({0: keep, 1: 1 - keep}, {1: keep, 0: 1 - keep}, 0.6) for keep in (keep_train, keep_test))
    worst = 0.0
    for records in itertools.product((0, 1, 2), repeat=4):
        for place in range(4):
            without = [*records]
            without[place] = None
            laws = [released(data, by_rank, keep_train, keep_test) for data in (list(records), without)]
            worst = max(worst, delta_of(*laws, 0.6))
    assert worst > alone + 0.01


# The noise that is drawn.


def test_the_noise_has_its_standard_deviation_and_no_other():
    """8,000 cells: the true scale is accepted with a false alarm below 1e-6, scales 8 % off are rejected."""
    test = planned(rows_of=16_000, share=0.5, seed=11)
    sigma, size = test.run.noise_multiplier, 8_000
    cells = np.zeros((1, 1, size))
    cells[0, 0, 0] = test.run.n
    noise = (test.released(cells, ("a",), "0" * 64, "0" * 64).counts - cells).ravel()
    limit = norm.isf(5e-7) * math.sqrt(2 / size)
    ratio = float((noise**2).mean()) / sigma**2
    assert abs(ratio - 1) < limit
    assert abs(noise.mean()) < norm.isf(5e-7) * sigma / math.sqrt(size)
    for wrong in (0.92, 1.08):
        assert abs(ratio / wrong**2 - 1) > limit
    grid = noise / 2.0**-20
    assert len(set(noise)) == size
    assert abs(grid).max() < 2.0**53


def test_counts_and_noise_are_on_one_grid():
    test = planned(rows_of=1_000)
    cells = np.zeros((2, 2, 1))
    cells[0, 0, 0] = 500
    counts = test.released(cells, ("a", "b"), "0" * 64, "0" * 64).counts
    spacing = 2.0 ** (math.floor(math.log2(test.run.noise_multiplier)) - 30)
    assert (counts / spacing == np.rint(counts / spacing)).all()
    with pytest.raises(InputError, match="Nothing was released"):
        planned(rows_of=998).released(cells, ("a", "b"), "0" * 64, "0" * 64)


# What is read off it.


def test_errors_are_as_large_as_they_are_said_to_be():
    """300 draws of rows and noise from known chances: estimates are centred, and spread as their standard errors say."""
    rng, rows, K = np.random.default_rng(4), 1_500, 2
    chances = np.array([[[0.30, 0.10], [0.02, 0.05]], [[0.03, 0.05], [0.10, 0.35]]]).reshape(K, K, 2)
    test = planned(rows_of=2 * rows, share=0.5)
    true = {
        "accuracy": chances[0, 0].sum() + chances[1, 1].sum(),
        "balanced_accuracy": (chances[0, 0].sum() / chances[0].sum() + chances[1, 1].sum() / chances[1].sum()) / 2,
    }
    negative, positive = chances.reshape(2, -1)
    true["auc"] = positive @ (np.cumsum(negative) - negative / 2) / (negative.sum() * positive.sum())
    certificate = test.released(np.full((2, 2, 1), rows / 4), ("a", "b"), "0" * 64, "0" * 64).certificate
    found = {name: [] for name in true}
    for _ in range(300):
        counts = rng.multinomial(rows, chances.ravel()).reshape(chances.shape) + test.run.noise_multiplier * rng.normal(
            size=chances.shape
        )
        estimates = PrivateTest(counts, rows, ("a", "b"), certificate, "0" * 64).estimates
        for name in true:
            found[name].append((estimates[name].value, estimates[name].error))
    for name, values in found.items():
        value, error = np.array(values).T
        assert abs(value.mean() - true[name]) < 5 * error.mean() / math.sqrt(300), name
        assert 0.85 < value.std() / error.mean() < 1.15, name


def test_where_noise_is_all_there_is_nothing_is_said():
    test = planned(rows_of=40, share=0.5, epsilon=0.1)
    cells = np.array([[[20.0], [0.0]], [[0.0], [0.0]]])
    found = test.released(cells, ("a", "b"), "0" * 64, "0" * 64).estimates
    assert found["recall"]["b"] is None
    assert found["accuracy"] is None
    assert found["balanced_accuracy"] is None
    assert found["auc"] is None


def test_the_estimate_is_near_what_the_rows_say(folder):
    for kind in ("logistic", "svc"):
        model = train(folder, model=kind, epsilon=8.0)
        accuracy = model.private_test.estimates["accuracy"]
        whole = model.accuracy(folder / "classes.csv")
        assert abs(accuracy.value - whole) < 6 * accuracy.error
        assert accuracy.error < 0.05
    number = train(folder, "number", epsilon=8.0).private_test
    assert number.estimates["within"]["0.2"].value > 0.8
    assert number.counts.shape == (len(ERRORS) - 1,)


# Files.


def test_it_is_saved_and_loaded_and_what_was_changed_is_refused(folder, tmp_path):
    model = train(folder, epsilon=4.0)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.private_test.counts, model.private_test.counts)
    assert loaded.private_test.estimates == model.private_test.estimates
    assert json.loads((tmp_path / "model" / "private-test" / "test.json").read_text()) == loaded.private_test.to_dict()
    loaded.save(tmp_path / "again")
    assert load_model(tmp_path / "again").private_test.estimates == model.private_test.estimates
    counts = np.load(tmp_path / "model" / "private-test" / "weights.npz")["counts"]
    for wrong, error in ((counts + 1, ContradictionError), (counts[:1], InputError), (counts * np.nan, InputError)):
        np.savez(tmp_path / "model" / "private-test" / "weights.npz", counts=wrong, model=np.zeros(32, np.uint8))
        with pytest.raises(error, match="private-test"):
            load_model(tmp_path / "model")
    other = train(folder, epsilon=3.0)
    other.save(tmp_path / "other")
    shutil.rmtree(tmp_path / "model" / "private-test")
    assert load_model(tmp_path / "model").private_test is None
    shutil.copytree(tmp_path / "other" / "private-test", tmp_path / "model" / "private-test")
    with pytest.raises(ContradictionError, match="different things about the rows held out"):
        load_model(tmp_path / "model")


def test_a_test_of_rows_of_another_schema_is_refused(folder, tmp_path):
    """Of as many rows, with as much noise."""
    (folder / "wide.toml").write_text(CLASSES.replace("high = 1\n", "high = 2\n"))
    for name, schema in (("model", "classes"), ("other", "wide")):
        TableModel.train(
            folder / "classes.csv", folder / f"{schema}.toml", epsilon=2.0, max_iter=2, solver="noisy-sgd", private_test=0.25
        ).save(tmp_path / name)
    shutil.rmtree(tmp_path / "model" / "private-test")
    shutil.copytree(tmp_path / "other" / "private-test", tmp_path / "model" / "private-test")
    with pytest.raises(ContradictionError, match="schema"):
        load_model(tmp_path / "model")


def test_a_test_of_another_model_is_refused(folder, tmp_path):
    """Of as many rows of the same schema, with as much noise."""
    for name in ("model", "other"):
        train(folder, max_iter=2, solver="noisy-sgd").save(tmp_path / name)
    shutil.rmtree(tmp_path / "model" / "private-test")
    shutil.copytree(tmp_path / "other" / "private-test", tmp_path / "model" / "private-test")
    with pytest.raises(ContradictionError, match="private-test: a model with other weights was tested"):
        load_model(tmp_path / "model")
    found = load_model(tmp_path / "other").private_test
    assert found.model_sha256 == load_model(tmp_path / "other").certificate.weights_sha256
    inside = tmp_path / "model" / "private-test"
    np.savez(inside / "weights.npz", counts=found.counts)  # Without the model, the certificate is of something else, too.
    with pytest.raises(ContradictionError, match="private-test"):
        load_model(tmp_path / "model")
    bound = bound_to(found.certificate, {"counts": found.counts})
    (inside / "certificate.json").write_text(bound.to_json())
    with pytest.raises(ContradictionError, match="private-test: a model with other weights was tested"):
        load_model(tmp_path / "model")


def test_the_certificate_of_the_model_is_none_of_its_test(folder, tmp_path):
    """The noise of its steps differs."""
    train(folder, solver="pnsgd").save(tmp_path / "model")
    shutil.copy(tmp_path / "model" / "certificate.json", tmp_path / "model" / "private-test")
    with pytest.raises(InputError, match=r"private-test: the certificate is of Run, not of one run with one noise"):
        load_model(tmp_path / "model")


def test_a_certificate_of_a_search_is_refused(folder, tmp_path):
    train(folder, max_iter=2, solver="noisy-sgd").save(tmp_path / "model")
    inside = tmp_path / "model" / "private-test" / "certificate.json"
    model = dp.PrivateLogisticRegression(classes=[0, 1], insecure_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = dp.PrivateGridSearch(model, {"max_iter": [1, 2]}, epsilon=2.0, delta=1e-5).fit(np.eye(40), np.arange(40) % 2)
    inside.write_text(search.certificate_.to_json())
    with pytest.raises(InputError, match=r"private-test: the certificate is of Selection, not of one run"):
        load_model(tmp_path / "model")


def test_a_test_that_says_nothing_of_rows_held_out_is_refused(folder, tmp_path):
    """Nor does the model's certificate: the two agree."""
    found = train(folder, max_iter=2, solver="noisy-sgd").private_test
    train(folder, max_iter=2, solver="noisy-sgd", private_test=None).save(tmp_path / "model")
    rests = tuple(one for one in found.certificate.assumptions if not isinstance(one, HeldOut))
    write_test(replace(found, certificate=replace(found.certificate, assumptions=rests)), tmp_path / "model", None)
    with pytest.raises(ContradictionError, match="different things about the rows held out"):
        load_model(tmp_path / "model")


def test_a_known_seed_certifies_nothing_there_either(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(folder, insecure_seed=0)
    assert not model.certificate.certifies
    assert not model.private_test.certificate.certifies


def test_streams_ledgers_and_persons_are_refused(folder):
    for options in ({"stream": True}, {"ledger": object()}, {"person": "age"}):
        with pytest.raises(InputError, match="private_test does not go with"):
            train(folder, **options)
    assert dp.PrivateLogisticRegression().delta is None


def test_the_usual_delta_is_that_of_all_rows(folder):
    assert train(folder).private_test.certificate.delta == 1e-5
    assert planned(rows_of=100_000, delta=1e-6).delta == 1e-6
