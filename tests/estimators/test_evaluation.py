"""What is said of a model on public rows, against scikit-learn."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from dplateau.data import schema_from_toml
from dplateau.estimators.table_model import TableModel

COLUMNS = """
[columns.a]
type = "number"
low = -1
high = 1
[columns.t]
type = "target"
"""
TARGETS = {
    "logistic": 'classes = ["no", "yes"]\naliases = {y = "yes"}',
    "svc": 'classes = ["no", "yes"]',
    "three": 'classes = ["p", "q", "r"]',
    "linear": "low = -3\nhigh = 5",
}


def rows(kind, n, seed):
    random = np.random.default_rng(seed)
    a = random.uniform(-1, 1, n)
    noisy = a + random.normal(0, 0.3, n)
    target = {"linear": 1 + 3 * noisy, "three": np.array(["p", "q", "r"])[np.digitize(noisy, [-0.3, 0.5])]}
    return pd.DataFrame({"a": a, "t": target.get(kind, np.where(noisy > 0.4, "yes", "no"))})


@pytest.fixture(scope="module", params=TARGETS)
def trained(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluation") / "rows.csv"
    rows(request.param, 3000, 0).to_csv(path, index=False)
    kind = request.param if request.param in ("svc", "linear") else None
    schema = schema_from_toml(COLUMNS + TARGETS[request.param])
    model = TableModel.train(path, schema, epsilon=4, delta=1e-6, model=kind, max_iter=50, insecure_seed=2)
    return model, rows(request.param, 701, 1)


def test_against_scikit_learn(trained):
    model, public = trained
    found, predicted = model.evaluate(public), model.predict(public)
    assert found.rows == 701
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    if not model.classes:
        target = public["t"]
        assert (target < -3).any() or (target > 5).any()
        assert found.rmse == pytest.approx(metrics.root_mean_squared_error(target, predicted))
        assert found.rmse == model.rmse(public)
        assert found.mae == pytest.approx(metrics.mean_absolute_error(target, predicted))
        assert found.r2 == pytest.approx(metrics.r2_score(target, predicted))
        mean = np.full(701, found.mean)
        assert found.mean_rmse == pytest.approx(metrics.root_mean_squared_error(target, mean))
        assert found.mean_mae == pytest.approx(metrics.mean_absolute_error(target, mean))
        assert metrics.r2_score(target, mean) == pytest.approx(0)
        assert 0.3 < found.r2 < 1
        return
    target = public["t"]
    assert found.accuracy == pytest.approx(metrics.accuracy_score(target, predicted)) == model.accuracy(public)
    assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(target, predicted))
    assert found.majority == target.mode()[0]
    assert found.majority_accuracy == pytest.approx((target == found.majority).mean())
    assert list(found.recall.values()) == pytest.approx(metrics.recall_score(target, predicted, average=None).tolist())
    assert found.actual == {name: int((target == name).sum()) for name in model.classes}
    assert found.predicted == {name: int((predicted == name).sum()) for name in model.classes}
    assert found.warning is None
    if model.model == "svc":
        assert found.log_loss is None
        assert 0.8 < found.auc < 1
        return
    probabilities = model.predict_proba(public)
    assert found.log_loss == pytest.approx(metrics.log_loss(target, probabilities, labels=list(model.classes)))
    if len(model.classes) == 2:
        assert found.auc == pytest.approx(metrics.roc_auc_score(target == "yes", probabilities[:, 1]))
    else:
        assert found.auc is None


def test_encoded_rows_and_files_are_the_same(trained, tmp_path):
    model, public = trained
    public.to_csv(tmp_path / "public.csv", index=False)
    expected = model.evaluate(public)
    assert model.evaluate(model.read(tmp_path / "public.csv")) == expected
    assert model.evaluate(tmp_path / "public.csv") == expected
    assert model.accuracy(str(tmp_path / "public.csv")) == getattr(expected, "accuracy", None)


def test_one_row_and_one_class(trained):
    """Scores that such rows do not have are None, and nothing warns."""
    model, public = trained
    found = model.evaluate(public.head(1))
    assert found.rows == 1
    if not model.classes:
        assert found.r2 is None
        public = public.head(2).assign(t=[0.0, 1e-200])  # squares of such targets vanish
        assert model.evaluate(public).r2 is None
        return
    assert found.auc is None
    assert sorted(found.actual.values())[:-1] == [0] * (len(model.classes) - 1)
    assert list(found.recall.values()).count(None) == len(model.classes) - 1
    assert found.majority_accuracy == 1.0


def test_a_model_that_says_one_thing_is_told():
    """All rows are the same to it."""
    schema = schema_from_toml(COLUMNS + TARGETS["svc"])
    model = TableModel("svc", _always_no(), schema)
    found = model.evaluate(rows("svc", 100, 3))
    assert found.accuracy == found.majority_accuracy
    assert found.balanced_accuracy == 0.5
    assert "every row is predicted as 'no'" in found.warning
    only = rows("svc", 100, 3).query("t == 'no'")
    assert model.evaluate(only).warning is None


def _always_no():
    from dplateau.estimators import PrivateLinearSVC

    found = PrivateLinearSVC(classes=[0, 1], fit_intercept=False)
    found.coef_, found.intercept_, found.classes_ = np.array([[0.0, 0.0, -1.0]]), np.zeros(1), np.arange(2)
    found.n_features_in_ = 3
    return found


def test_aliases_are_their_classes(trained):
    model, public = trained
    if "y" not in dict(model.schema.target.aliases):
        pytest.skip("no aliases")
    assert model.evaluate(public.replace({"t": {"yes": "y"}})) == model.evaluate(public)
