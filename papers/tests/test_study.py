"""The study: what is trained, with what noise; what is chosen; what the pages say of it."""

# pyright: basic
import json
import math

import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic, Softmax
from dplateau_papers.entries import ENTRIES
from dplateau_papers.p4 import tables12 as p4_tables12
from dplateau_papers.page import Inputs
from dplateau_papers.study import PROBLEMS
from dplateau_papers.study import entry as study
from dplateau_papers.study import features as study_features
from dplateau_papers.study import langevin as study_langevin
from dplateau_papers.study import methods as study_methods
from dplateau_papers.study import pictures as study_pictures
from dplateau_papers.study import sweep as study_sweep
from dplateau_papers.study import tables as study_tables
from dplateau_papers.study.features import Problem
from dplateau_papers.study.methods import METHODS, Facts

BY_NAME = {method.name: method for method in METHODS}


@pytest.fixture(scope="module")
def problem():
    random = np.random.default_rng(0)
    points = random.normal(size=(2_400, 3))
    values, target = study_features.rows(points), (points @ [1.0, -1.0, 0.5] > 0).astype(int)
    return Problem("points", Logistic(), values[:2_000], target[:2_000], values[2_000:], target[2_000:])


def settings(method):
    """A setting of the method that a small problem allows."""
    return method.grid[0] | ({"batch": 1_000} if "batch" in method.grid[0] else {})


def test_rows_have_norm_one_and_an_intercept():
    values = study_features.rows(np.array([[3.0, 4.0], [0.0, 0.0], [1e-3, 0.0]]))
    norms = np.linalg.norm(values, axis=1)
    assert norms[[0, 2]] == pytest.approx([1, 1], abs=1e-11)
    assert (norms < 1).all()
    assert values[:, 2] == pytest.approx(np.full(3, study_features.INTERCEPT))
    assert values[0, 0] / values[0, 1] == pytest.approx(0.75)


def test_components_make_public_directions_more_alike():
    random = np.random.default_rng(0)
    values = random.normal(size=(4_000, 130)) * np.linspace(0.1, 3, 130) + 5
    mean, components = study_features.principal(values)
    assert components.shape == (130, study_features.FEATURES)
    spread = ((values - mean) @ components).std(axis=0)
    assert spread.max() / spread.min() < 0.6 * 3 / 0.12
    assert np.corrcoef(((values - mean) @ components).T) == pytest.approx(np.eye(128), abs=1e-6)


def test_held_out_records_are_private_ones(problem):
    held = problem.held_out()
    assert len(held.target) + len(held.test_target) == len(problem.target)
    together = np.concatenate([held.features, held.test_features])
    assert np.unique(together, axis=0) == pytest.approx(np.unique(problem.features, axis=0))
    assert not {tuple(row) for row in held.features} & {tuple(row) for row in held.test_features}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_is_certified_and_trains(problem, method):
    made = method.plan(Facts(2_000, 4, Logistic(), 8.0), **settings(method))
    assert made.run.adjacency == "add-remove"
    assert 7.9 < dp.account(made.run, delta=1e-5).epsilon <= 8
    assert made.run.is_last_iterate == (method.accounting != "composition" and not made.run.is_phased)
    assert problem.score(made.fit(problem.features, problem.target).weights) > 65


QUICK = [method for method in METHODS if method.name not in ("poisson", "dp-sgld", "dp-sgld-decaying")]


@pytest.mark.parametrize("method", QUICK, ids=lambda method: method.name)
def test_methods_can_be_planned_for_many_classes(method):
    run = method.plan(Facts(60_000, 129, Softmax(10), 1.0), **method.grid[-1]).run
    assert run.clip_norm >= math.sqrt(2) or method.accounting == "composition"


def test_hyperparameters_are_those_of_the_next_lower_epsilon():
    assert [study_sweep.tuned_at(epsilon) for epsilon in study_sweep.EPSILONS] == [0.25, 0.25, 1.0, 1.0, 4.0, 4.0]


def test_the_printed_noise_is_the_papers_and_the_certified_one_costs_what_it_says():
    printed, certified, free, dp_sgd = (
        study_langevin.planned(60_000, 129, Softmax(10), kind, 0.01, 2048, "constant")
        for kind in ("printed", "certified", "free", "dp-sgd")
    )
    s2 = 8 * printed.run.clip_norm**2 * (1 + 2 * math.log(1e5)) / (0.01 * 60_000**2)
    assert printed.noise == pytest.approx(math.sqrt(s2))
    assert study_langevin.costs(certified)["replace"] == pytest.approx(1, rel=1e-5)
    assert study_langevin.costs(dp_sgd)["add-remove"] == pytest.approx(1, rel=1e-5)
    assert study_langevin.costs(free) == {}
    assert len({(one.run.steps, one.run.step_size, one.run.sampling.divisors(60_000)) for one in (printed, certified, free)}) == 1
    assert (dp_sgd.run.steps, dp_sgd.run.step_size) == (printed.run.steps, printed.run.step_size)
    assert isinstance(dp_sgd.run.sampling, dp.Poisson)


@pytest.fixture
def small(monkeypatch):
    """Few methods, settings and epsilons."""
    chosen = tuple(BY_NAME[name] for name in ("noisy-sgd", "dp-gld", "pnsgd"))
    few = {"METHODS": chosen, "EPSILONS": (4.0,), "TUNED_AT": (4.0,), "CLAIMS": ((0.1, 200),)}
    for module in (study_methods, study_sweep, study_langevin, study_pictures, study_tables):
        for name in few.keys() & vars(module).keys():
            monkeypatch.setattr(module, name, few[name])
    monkeypatch.setattr(study_methods, "FULL_STEPS", 5)
    monkeypatch.setattr(study_sweep, "SEEDS", 2)
    monkeypatch.setattr(study_langevin, "PENALTIES", (0.1, 0.01))
    monkeypatch.setattr(study_langevin, "BATCH", 200)
    monkeypatch.setattr(study_langevin, "EPOCHS", 5)
    # Certified in milliseconds, where batches that are drawn take seconds.
    monkeypatch.setattr(study_langevin, "FixedSize", dp.Cyclic)
    monkeypatch.setattr(study_langevin, "Poisson", dp.Shuffled)
    study_langevin.planned.cache_clear()


@pytest.fixture
def inputs(tmp_path, monkeypatch, problem, small):
    for name in PROBLEMS:
        monkeypatch.setattr(study_features, name, lambda _: problem)
    return Inputs(None, tmp_path / "records")


def unread(_):
    raise AssertionError("the data are read")


def test_the_study_trains_once_and_shows_what_it_found(inputs, monkeypatch):
    found = study.run(inputs)
    titles = [table.title for table in found.tables]
    assert [title.split(":")[0] for title in titles] == ["MNIST features"] * 3 + ["Adult"] * 3
    scores = found.tables[0]
    assert [row[:2] for row in scores.rows] == [
        ("Noisy-SGD, planned", "composition"),
        ("Noisy-GD, full batches", "last iterate"),
        ("PNSGD, planned", "one pass"),
        ("No privacy", ""),
    ]
    assert "Means of 2 trainings" in scores.sentences[0]
    results = json.loads(json.dumps(found.numbers))["problems"][0]
    for line in results["trainings"]:
        assert line["result"]["epsilon"] <= 4
    means = {
        name: np.mean([line["result"]["score"] for line in results["trainings"] if line["setting"]["method"] == name])
        for name in ("noisy-sgd", "dp-gld", "pnsgd")
    }
    assert [float(row[2]) for row in scores.rows[:-1]] == pytest.approx([means[name] for name in means], abs=0.005 + 1e-9)
    best = max(means, key=means.get)
    gap = results["without_privacy"] - means[best]
    where = f"{abs(gap):.2f} points {'below' if gap > 0 else 'above'} no privacy"
    assert f"Epsilon 4: the best is {BY_NAME[best].title}, {where}." in scores.sentences
    claims = found.tables[2]
    costs = [line["result"]["replace"] for line in results["langevin"] if line["setting"]["kind"] == "printed"]
    assert len(costs) == 2
    assert f"is certified in {int(costs[0] > 1)} of 1 cells" in claims.sentences[0]
    assert ("the printed noise buys" in claims.sentences[1]) == (costs[0] > 1)
    pytest.importorskip("matplotlib")
    for _, draw in found.pictures.values():
        assert draw().axes
    # Everything is in the records: nothing is trained, nor are the data read.
    for name in PROBLEMS:
        monkeypatch.setattr(study_features, name, unread)
    again = study.run(inputs)
    assert again.markdown() == found.markdown()


def test_tables_1_and_2(inputs):
    for number in (1, 2):
        found = p4_tables12.reproduce(number, inputs)
        printed, mnist, _ = found.tables
        assert printed.rows[0][1:] == tuple(f"{value:.1f}" for value in p4_tables12.PRINTED[number]["DP-SGLD"])
        assert [row[0] for row in mnist.rows] == list(study_langevin.KINDS.values())
        kinds = dict(zip(study_langevin.KINDS, mnist.rows, strict=True))
        assert kinds["printed"][2] == "1"
        assert float(kinds["certified"][4]) == pytest.approx(1, abs=0.01)
        assert kinds["free"][3:5] == ("none", "none")
        assert {row[-1] for row in mnist.rows} == {"2"}
        assert "Points below the same steps without noise" in mnist.sentences[0]
    steps = {
        line["setting"]["step"]
        for line in (inputs.records / "study-mnist-langevin-trainings.jsonl").open().readlines()
        for line in [json.loads(line)]
    }
    assert steps == {"constant", "decaying"}


def test_with_no_trainings_the_pages_say_so(inputs):
    empty = Inputs(None, inputs.records, seeds=0)
    for found in (study.run(empty), p4_tables12.reproduce(1, empty)):
        assert "not run" in found.markdown()


def test_the_public_network_is_trained_once(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(study_features, "EPOCHS", 1)
    monkeypatch.setattr(study_features, "_BATCH", 12)
    inputs = Inputs(data_dir, tmp_path / "records")
    found = study_features.mnist(inputs)
    assert found.features.shape == (24, 129)
    assert found.features.dtype == np.float64
    assert (np.linalg.norm(found.features, axis=1) < 1).all()
    monkeypatch.setattr(study_features, "train_public", None)
    again = study_features.mnist(inputs)
    assert (again.features == found.features).all()
    adult = study_features.adult(inputs)
    assert adult.features.shape == (40, 124)


@pytest.mark.parametrize("name", ["study", "p4-table1", "p4-table2"])
def test_what_is_needed_is_said_before_any_work(name, tmp_path, data_dir):
    with pytest.raises(dp.InputError, match="--data-dir"):
        ENTRIES[name].check(Inputs(None, tmp_path / "records"))
    with pytest.raises(dp.InputError, match="--records"):
        ENTRIES[name].check(Inputs(data_dir, None))
    ENTRIES[name].check(Inputs(data_dir, tmp_path / "records"))
