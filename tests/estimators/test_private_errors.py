"""Whatever is wrong with private data: no message quotes an entry, no exception behind it does, no warning depends on entries."""

import datetime
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix

from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression

N = 40
SECRET, TEXT = 12345.678, "secret"
ESTIMATORS = {
    PrivateLogisticRegression: {"classes": [0, 1]},
    PrivateLinearSVC: {"classes": [0, 1]},
    PrivateLinearRegression: {"target_range": (0, 1)},
}
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, size=(N, 3))
LABELS = np.arange(N) % 2


def with_entry(array, entry, dtype=object):
    changed = np.array(array, dtype=dtype)
    changed[np.unravel_index(4, changed.shape)] = entry
    return changed


ENTRIES = {
    "text": TEXT,
    "dictionary": {TEXT: SECRET},
    "list": [SECRET, TEXT],
    "NaN": np.nan,
    "infinity": np.inf,
    "None": None,
    "missing": pd.NA,
    "date": datetime.date(2012, 3, 4),
    "complex": SECRET + 1j,
    "complex of NumPy": np.complex128(SECRET + 1j),
    "bytes": b"secret",
    "decimal": Decimal("NaN"),
    "array": np.array([SECRET, 1.0]),
}
BAD_X = {
    "one-dimensional": np.full(N, SECRET),
    "scalar": SECRET,
    "text": TEXT,
    "three-dimensional": np.full((N, 1, 3), SECRET),
    "complex": np.full((N, 3), SECRET + 1j),
    "complex list": [[SECRET + 1j, 1, 2]] * N,
    "complex row": [*ROWS[1:], np.array([SECRET + 1j, 1, 2])],
    "sparse": csr_matrix(np.full((N, 3), SECRET)),
    "sparse array": csr_array(np.full((N, 3), SECRET)),
    "uneven": [[SECRET, 1, 2]] * (N - 1) + [[SECRET]],
    "texts": np.full((N, 3), TEXT),
    "dates": np.full((N, 3), np.datetime64("2012-03-04")),
    "records": np.array([(SECRET, TEXT)] * N, dtype=[("a", float), ("b", "U9")]),
    "masked": np.ma.masked_array(np.full((N, 3), SECRET), np.eye(N, 3, dtype=bool)),
    "masked row": [*ROWS[1:], np.ma.masked_array([SECRET, 1, 2], [True, False, False])],
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((N, 0)),
    "series": pd.Series(np.full(N, SECRET)),
    "frame": pd.DataFrame({"a": [TEXT] * N, "b": SECRET, "c": 1.0}),
    "frame with missing": pd.DataFrame({"a": pd.array([1, None] * (N // 2), dtype="Int64"), "b": SECRET, "c": 1.0}),
    "frame of categories": pd.DataFrame({"a": pd.Categorical([TEXT] * N), "b": SECRET, "c": 1.0}),
    "categories with missing": pd.DataFrame({f"x{one}": pd.Categorical([one, None] * (N // 2)) for one in range(3)}),
    **{f"entry {name}": with_entry(ROWS, entry) for name, entry in ENTRIES.items()},
}
BAD_Y = {
    "two-dimensional": np.full((N, 2), SECRET),
    "scalar": SECRET,
    "text": TEXT,
    "complex": np.full(N, SECRET + 1j),
    "complex list": [SECRET + 1j] * N,
    "sparse": csr_matrix(np.full((N, 1), SECRET)),
    "uneven": [[SECRET]] * (N - 1) + [[SECRET, 1]],
    "short": np.full(3, SECRET),
    "none": None,
    "dates": np.full(N, np.datetime64("2012-03-04")),
    "records": np.array([(SECRET, TEXT)] * N, dtype=[("a", float), ("b", "U9")]),
    "series of texts with missing": pd.Series([TEXT, None] * (N // 2)),
    "masked": [*LABELS[1:].tolist(), np.ma.masked],
    "mixed": [TEXT, 1] * (N // 2),
    "lists": pd.Series([[SECRET], [TEXT]] * (N // 2)),
    "lists of numbers": pd.Series([[SECRET], [1.0]] * (N // 2)),
    **{f"entry {name}": with_entry(LABELS, entry) for name, entry in ENTRIES.items()},
}


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: estimator.__name__)
def make(request):
    return lambda: request.param(delta=1e-3, insecure_seed=0, max_iter=2, **ESTIMATORS[request.param])


@pytest.fixture(scope="module")
def fitted():
    return {
        kind: kind(delta=1e-3, insecure_seed=0, max_iter=2, **options).fit(ROWS, LABELS) for kind, options in ESTIMATORS.items()
    }


def refused(call):
    """The call fails, and nothing that is or could be shown of it quotes an entry."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
    error = caught.value
    assert error.__suppress_context__ or error.__context__ is None
    while error is not None:
        assert not re.search(r"1\.?2345|secret|2012", str(error)), str(error)
        error = error.__cause__
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", BAD_X)
def test_bad_rows(make, fitted, name):
    X = BAD_X[name]
    refused(lambda: make().fit(X, LABELS))
    refused(lambda: make().partial_fit(X, LABELS))
    model = fitted[type(make())]
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        if hasattr(model, method):
            refused(lambda method=method: getattr(model, method)(X))
    refused(lambda: model.score(X, LABELS))


@pytest.mark.parametrize("name", BAD_Y)
def test_bad_targets(make, fitted, name):
    y = BAD_Y[name]
    refused(lambda: make().fit(ROWS, y))
    refused(lambda: make().partial_fit(ROWS, y))
    unknown = ("text", "bytes", "date", "dictionary", "list", "complex of NumPy")  # classes that no row is said to have
    if name not in ("mixed", *(f"entry {one}" for one in unknown)):
        refused(lambda: fitted[type(make())].score(ROWS, y))
    for weights in (y,) if y is not None else (np.zeros(N), -np.arange(N), np.ones(N) - 2 * (np.arange(N) == 3)):
        refused(lambda weights=weights: fitted[type(make())].score(ROWS, LABELS, sample_weight=weights))


@pytest.mark.parametrize("taken", [False, True])
def test_no_warning_depends_on_the_number_of_classes(taken):
    """scikit-learn warns where more than half of the labels differ."""
    X, model = ROWS[:4], PrivateLogisticRegression(delta=1e-3, insecure_seed=0, classes=None if taken else range(4), max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for y in ([0, 1, 2, 3], [0, 0, 1, 1]):
            model.fit(X, y).score(X, y)
    said = [str(one.message) for one in caught if "classes=[" not in str(one.message)]
    few = [one for one in said if one.startswith("few rows for epsilon 1: there are 4")]
    assert len(few) == 2
    assert said == few


def test_no_entry_changes_the_precision_of_others():
    """A list of single-precision numbers with one number of another type is the same rows as before."""
    rows = [[np.float32(value) for value in row] for row in ROWS.tolist()]
    models = []
    for entry in (np.float32(0.1), float(np.float32(0.1)), str(float(np.float32(0.1)))):
        rows[0][0] = entry
        models.append(
            PrivateLogisticRegression(delta=1e-3, insecure_seed=0, classes=[0, 1], feature_norm=0.3, max_iter=9).fit(rows, LABELS)
        )
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


def test_scores_are_those_of_scikit_learn():
    from sklearn.metrics import accuracy_score, r2_score

    rng = np.random.default_rng(1)
    weights = rng.random(N)
    model = PrivateLogisticRegression(delta=1e-3, insecure_seed=0, classes=["a", "b"]).fit(ROWS, np.array(["a", "b"])[LABELS])
    y = pd.Series(rng.choice(["a", "b", "c"], N))
    for options in ({}, {"sample_weight": weights}):
        assert model.score(ROWS, y, **options) == pytest.approx(accuracy_score(y, model.predict(ROWS), **options))
    line = PrivateLinearRegression(delta=1e-3, insecure_seed=0, target_range=(0, 1)).fit(ROWS, LABELS)
    for options in ({}, {"sample_weight": weights}):
        assert line.score(ROWS, LABELS, **options) == pytest.approx(r2_score(LABELS, line.predict(ROWS), **options))
