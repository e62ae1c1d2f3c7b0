"""Rare classes: public weights in training, public costs in prediction."""

import json

import numpy as np
import pytest

import dplateau as dp
from dplateau.algorithms import SOLVERS
from dplateau.certificate import verify
from dplateau.estimators.link import unclipped_probability
from dplateau.spec import ContradictionError, InputError
from dplateau.spec.assumption import ClassWeights

BUDGET = {"epsilon": 8.0, "delta": 1e-6, "insecure_seed": 0}
CLASSES = ["no", "yes"]


def rare(n=6_000, seed=0):
    """Rows of which some four in a hundred are "yes", with probabilities that are known."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) / 2
    chance = 1 / (1 + np.exp(4.0 - 2.5 * X[:, 0]))
    return X, np.where(rng.random(n) < chance, "yes", "no"), chance


def recall(model, X, y):
    return float((model.predict(X)[y == "yes"] == "yes").mean())


@pytest.mark.parametrize("estimator", [dp.PrivateLogisticRegression, dp.PrivateLinearSVC])
def test_weights_find_the_rare_class(estimator):
    X, y, _ = rare()
    plain = estimator(classes=CLASSES, **BUDGET).fit(X, y)
    heavy = estimator(classes=CLASSES, class_weight={"yes": 25.0}, **BUDGET).fit(X, y)
    assert recall(plain, X, y) < 0.3
    assert recall(heavy, X, y) > 0.55
    assert heavy.run_ == plain.run_  # the plan, its noise and its cost are the same


def test_probabilities_are_those_of_the_rows_whatever_the_weights():
    X, y, chance = rare()
    model = dp.PrivateLogisticRegression(classes=CLASSES, class_weight={"yes": 25.0}, **BUDGET).fit(X, y)
    found = model.predict_proba(X)[:, 1]
    assert abs(found.mean() - chance.mean()) < 0.02
    assert np.abs(found - chance).mean() < 0.03
    # The boundary of predict is where the expected cost of both errors is the same.
    np.testing.assert_array_equal(model.predict(X), model.predict_at_least_cost(X, {"no": 1.0, "yes": 25.0}))


@pytest.mark.parametrize("weights", [None, {"yes": 25.0}, {"no": 5.0}])
@pytest.mark.parametrize("rows", ["unit", "clip"])
def test_the_boundary_is_where_predict_changes(weights, rows):
    """With little epsilon gradients are clipped at a quarter, which makes pulls of different weights more alike."""
    X, _, _ = rare(500)
    options = {"delta": 1e-6, "insecure_seed": 0, "feature_norm": 0.5, "rows": rows, "fit_intercept": False}
    model = dp.PrivateLogisticRegression(0.5, classes=CLASSES, class_weight=weights, **options)
    model.fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    angles = np.linspace(0, 2 * np.pi, 10_000)
    around = np.column_stack([np.cos(angles), np.sin(angles)])
    found, said = model.predict_proba(around)[:, 1], model.predict(around) == "yes"
    assert found[~said].max() <= model.boundary + 1e-12
    assert found[said].min() >= model.boundary - 1e-12
    assert found[said].min() - found[~said].max() < 0.01
    short = model._bounded(X / 10)
    scores = model._scores(short)
    above = model._probabilities(short, scores)[:, 1] - model._boundaries(short)
    assert np.where(scores > 0, above, -above).min() >= -1e-12  # it may stay there where both pulls are clipped


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.04, 1.0), (1.0, 0.3)])
@pytest.mark.parametrize("largest", [0.1, 0.5, np.inf])
def test_the_undone_probability_balances_the_clipped_weighted_pulls(weights, largest):
    scores = np.linspace(-6, 6, 25)
    q = unclipped_probability(scores, np.full(25, largest), weights)
    p = 1 / (1 + np.exp(-scores))
    pull = q * np.minimum(weights[1] * (1 - p), largest) - (1 - q) * np.minimum(weights[0] * p, largest)
    np.testing.assert_allclose(pull, 0, atol=1e-15)
    mirrored = unclipped_probability(-scores, np.full(25, largest), weights[::-1])
    np.testing.assert_allclose(q + mirrored, 1, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_takes_weights_and_is_certified(solver):
    X, y, _ = rare(2_000)
    l2 = 0.01 if SOLVERS[solver].needs_l2 else 0.0
    for estimator in (dp.PrivateLogisticRegression, dp.PrivateLinearSVC):
        model = estimator(
            epsilon=8.0, delta=1e-6, classes=CLASSES, class_weight={"no": 1, "yes": 9}, solver=solver, l2=l2, max_iter=20
        ).fit(X, y)
        assert verify(model.certificate_).certifies
        (said,) = (one for one in model.certificate_.assumptions if isinstance(one, ClassWeights))
        assert (said.weights, said.how) == ("0.11111111, 1", "declared")


def test_several_classes_weigh_their_own():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(6_000, 2)) / 2
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + rng.normal(size=6_000) / 4, [0.9, 1.1])]
    for estimator in (dp.PrivateLogisticRegression, dp.PrivateLinearSVC):
        plain = estimator(classes=["a", "b", "c"], **BUDGET).fit(X, y)
        heavy = estimator(classes=["a", "b", "c"], class_weight={"b": 20, "c": 20}, **BUDGET).fit(X, y)
        assert (heavy.predict(X) != "a").mean() > 1.5 * (plain.predict(X) != "a").mean()
    model = dp.PrivateLogisticRegression(classes=["a", "b", "c"], class_weight={"b": 20, "c": 20}, **BUDGET).fit(X, y)
    assert abs(model.predict_proba(X).mean(axis=0) - [(y == one).mean() for one in "abc"]).max() < 0.08
    with pytest.raises(InputError, match="there are 3 classes: only two have a boundary"):
        _ = model.boundary


def test_costs_move_the_boundary_and_cost_nothing():
    X, y, _ = rare()
    model = dp.PrivateLogisticRegression(classes=CLASSES, **BUDGET).fit(X, y)
    probability = model.predict_proba(X)[:, 1]
    for cost in (1.0, 3.0, 30.0):
        found = model.predict_at_least_cost(X, {"yes": cost}) == "yes"
        np.testing.assert_array_equal(found, probability > 1 / (1 + cost))
    for cost in ({"maybe": 1.0}, {"yes": 0.0}, {"yes": float("nan")}, {"yes": -1}, [1, 2], "balanced"):
        with pytest.raises(InputError, match="cost"):
            model.predict_at_least_cost(X, cost)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("balanced", "would count the classes in private rows"),
        ({"maybe": 2.0}, "names 'maybe', which is not a class"),
        ({"yes": 0.0}, "class_weight of 'yes'"),
        ({"yes": float("inf")}, "class_weight of 'yes'"),
        ({"yes": "ten"}, "class_weight of 'yes'"),
        ([1.0, 2.0], "expected a dict"),
    ],
)
def test_wrong_weights_are_refused_before_anything_is_drawn(weights, message, monkeypatch):
    X, y, _ = rare(200)
    model = dp.PrivateLogisticRegression(classes=CLASSES, class_weight=weights, **BUDGET)
    monkeypatch.setattr(type(model), "_generator", lambda *_: pytest.fail("drawn"))
    with pytest.raises(InputError, match=message):
        model.fit(X, y)


def test_streams_and_batches_take_weights():
    X, y, _ = rare(4_000)
    online = dp.PrivateLogisticRegression(classes=CLASSES, class_weight={"yes": 9}, **BUDGET)
    for part in (slice(0, 2_000), slice(2_000, 4_000)):
        online.partial_fit(X[part], y[part])
    assert any(isinstance(one, ClassWeights) for one in online.certificate_.assumptions)
    with pytest.raises(InputError, match="arguments were changed"):
        online.set_params(class_weight={"yes": 2}).partial_fit(X, y)


def without(folder, name):
    """Take a parameter out of what was written."""
    about = json.loads((folder / "model.json").read_text())
    del about["parameters"][name]
    (folder / "model.json").write_text(json.dumps(about))


def test_they_are_saved_and_a_search_may_try_them(tmp_path):
    X, y, _ = rare(2_000)
    settings = {"epsilon": 8.0, "delta": 1e-6, "classes": CLASSES, "class_weight": {"yes": 9}}
    model = dp.PrivateLogisticRegression(**settings).fit(X, y)
    model.save(tmp_path / "model")
    loaded = dp.load_estimator(tmp_path / "model")
    assert loaded.class_weight == {"no": 1.0, "yes": 9.0}
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    without(tmp_path / "model", "class_weight")
    with pytest.raises(ContradictionError, match="class_weight"):
        dp.load_estimator(tmp_path / "model")
    del settings["class_weight"]
    dp.PrivateLogisticRegression(**settings).fit(X, y).save(tmp_path / "old")
    without(tmp_path / "old", "class_weight")
    assert dp.load_estimator(tmp_path / "old").class_weight is None  # as older files are
    without(tmp_path / "old", "l2")
    with pytest.raises(InputError, match="parameters"):  # which was always there
        dp.load_estimator(tmp_path / "old")
    search = dp.PrivateGridSearch(
        dp.PrivateLogisticRegression(**{**settings, "max_iter": 10}), {"class_weight": [None, {"yes": 9}, {"yes": 3}]}, epsilon=4.0
    ).fit(X, y)
    assert verify(search.certificate_).certifies
