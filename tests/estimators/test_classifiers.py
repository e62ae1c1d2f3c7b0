"""Classifiers: accuracy on real rows, calibrated probabilities, and what they do with classes and long rows."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.linear_model import LogisticRegression

from dplateau.data import load_dataset, sample_path
from dplateau.estimators import PrivateLinearSVC, PrivateLogisticRegression
from dplateau.spec import InputError, PrivacyWarning, UncertifiedError

CLASSIFIERS = (PrivateLogisticRegression, PrivateLinearSVC)
DATA = Path(os.environ.get("DPLATEAU_DATA", Path(__file__).parents[2] / "../shared/data"))


def blobs(n=2_000, classes=(0, 1), seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(classes), n)
    angle = 2 * np.pi * y / len(classes)
    X = 0.5 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * rng.normal(size=(n, 2))
    return X, np.asarray(classes)[y]


@pytest.fixture(scope="module")
def adult():
    train, test = (load_dataset(sample_path(f"adult-{part}"), "adult") for part in ("train", "test"))
    plain = LogisticRegression(max_iter=200).fit(train.features, train.target)
    return train.features, train.target, test.features, test.target, plain.score(test.features, test.target)


def in_objects(*entries):
    array = np.empty(len(entries), object)
    array[:] = entries
    return array


@pytest.mark.parametrize(
    ("classes", "labels", "other"),
    [
        ((0, 2**53, 2**53 + 1), [2**53 + 1, 2**53, 0], [2**53 + 1, 2**53, 0.0]),
        ((0.1, float(np.float32(0.1))), in_objects(0.1, 0.1, float(np.float32(0.1))), in_objects(0.1, 0.1, np.float32(0.1))),
    ],
)
def test_the_type_of_a_label_does_not_change_the_class_of_another(classes, labels, other):
    def fitted(y):
        X = np.repeat([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]], 20, axis=0)
        y = [y[place // 20] for place in range(len(X))] if isinstance(y, list) else np.repeat(y, 20)
        return PrivateLogisticRegression(1.0, delta=1e-3, classes=classes, solver="noisy-sgd", max_iter=2, insecure_seed=0).fit(
            X, y
        )

    assert np.array_equal(fitted(labels).coef_, fitted(other).coef_)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_the_bundled_adult_sample_is_learnt_nearly_as_well_as_without_privacy(classifier, adult):
    X, y, X_test, y_test, plain = adult
    model = classifier(2.0, delta=1e-6, classes=[0, 1], fit_intercept=False, insecure_seed=0).fit(X, y)
    assert model.score(X_test, y_test) > plain - 0.015


@pytest.mark.skipif(not (DATA / "a9a").is_dir(), reason="the data set a9a is not here")
def test_a9a_at_epsilon_one_is_as_good_as_without_privacy():
    X, y = load_svmlight_file(str(DATA / "a9a/a9a"), n_features=123)
    X_test, y_test = load_svmlight_file(str(DATA / "a9a/a9a.t"), n_features=123)
    model = PrivateLogisticRegression(1.0, delta=1e-5, rows="unit", classes=[-1, 1], insecure_seed=0).fit(X.toarray(), y)
    assert model.score(X_test.toarray(), y_test) > 0.847  # logistic regression without privacy: 0.850


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_several_classes(classifier):
    X, y = load_digits(return_X_y=True)
    model = classifier(8.0, rows="unit", classes=range(10), insecure_seed=0).fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.8
    assert model.coef_.shape == (10, 64)
    assert model.decision_function(X[:7]).shape == (7, 10)
    assert classifier(0.01, rows="unit", classes=range(10), insecure_seed=0).fit(X[:1200], y[:1200]).score(X, y) < 0.5


def test_probabilities_match_frequencies_where_the_plain_sigmoid_does_not():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 200_000)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    truth = 5 * X[:, 0]
    likelier = 1 / (1 + 2 * expit(-abs(truth)))
    y = rng.random(len(X)) < np.where(truth > 0, likelier, 1 - likelier)
    model = PrivateLogisticRegression(1e4, delta=1e-6, classes=[False, True], fit_intercept=False, insecure_seed=0).fit(X, y)
    expected = np.where(truth > 0, likelier, 1 - likelier)
    assert abs(model.predict_proba(X)[:, 1] - expected).max() < 0.02
    assert abs(expit(model.decision_function(X)) - expected).max() > 0.05


def test_probabilities_agree_with_predictions():
    for classes in (["no", "yes"], ["a", "b", "c"]):
        X, y = blobs(classes=classes)
        model = PrivateLogisticRegression(10.0, classes=classes, insecure_seed=0).fit(X, y)
        probabilities = model.predict_proba(X)
        assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(X)).all()
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities)


def test_declared_classes_are_sorted_and_may_be_empty_in_the_data():
    X, y = blobs(classes=("b", "c"))
    model = PrivateLogisticRegression(10.0, classes=["c", "b", "a"], insecure_seed=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, y) > 0.9
    one = PrivateLogisticRegression(10.0, classes=[0, 1], insecure_seed=0).fit(X, np.ones(len(X)))
    assert (one.predict(X) == 1).mean() > 0.9


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_classes_taken_from_the_target_have_no_certificate(classifier):
    X, y = blobs()
    with pytest.warns(PrivacyWarning, match=r"classes=\[\.\.\.\]") as caught:
        model = classifier(insecure_seed=0).fit(X, y)
    assert caught[0].filename == __file__
    for name in ("certificate_", "epsilon_"):
        with pytest.raises(UncertifiedError, match=r"taken from y.*Declare the classes, which must be public: classes=\[\.\.\.\]"):
            getattr(model, name)
    assert "certificate_" not in dir(model)
    assert classifier.__name__ in model._repr_html_()  # what a notebook shows
    assert model.score(X, y) > 0.9
    y[0] = 7  # one record, which would have had the same certificate with a model of another shape
    with pytest.warns(PrivacyWarning):
        assert classifier(insecure_seed=0).fit(X, y).coef_.shape == (3, 2)
    with pytest.raises(AttributeError, match="no certificate_ yet"):
        _ = classifier().certificate_
    assert not hasattr(classifier(), "epsilon_")


def test_batches_after_a_fit_that_took_its_classes_from_the_target():
    X, y = blobs()
    model = PrivateLogisticRegression(delta=1e-5, insecure_seed=0)
    with pytest.warns(PrivacyWarning):
        model.fit(X, y)
    for classes in (None, None, [0, 1]):  # declared too late for the batches before
        with pytest.warns(PrivacyWarning, match="taken from y"):
            model.partial_fit(X, y, classes)
        with pytest.raises(UncertifiedError, match="taken from y"):
            _ = model.epsilon_
    with pytest.warns(PrivacyWarning):
        model.fit(X, y)
    assert model.partial_fit(X, y, classes=[0, 1]).epsilon_ <= 1.0
    assert model.partial_fit(X, y).epsilon_ <= 1.0
    with pytest.warns(PrivacyWarning):
        model.fit(X, y)
    assert model.set_params(classes=[0, 1]).fit(X, y).epsilon_ <= 1.0


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_undeclared_and_missing_classes_are_refused(classifier):
    X, y = blobs(classes=("lion", "tiger"))
    with pytest.raises(InputError, match="2000 rows have a class that is not") as error:
        classifier(classes=["lion", "cat"]).fit(X, y)
    assert "tiger" not in str(error.value)
    with pytest.raises(InputError, match=r"not among the declared.* The labels are texts, and the declared classes numbers"):
        classifier(classes=[0, 1]).fit(X, y)
    with pytest.raises(InputError, match="or nothing: 1 of 2000 labels"):
        classifier(classes=["lion", "tiger"]).fit(X, pd.array([pd.NA, *y[1:]], dtype="string"))
    with pytest.raises(InputError, match="only 1 class"):
        classifier(classes=["lion"]).fit(X, y)
    with pytest.raises(InputError, match="classes is of type int: expected a list"):
        classifier(classes=20).fit(X, y)
    with pytest.warns(PrivacyWarning), pytest.raises(InputError, match="only 1 class"):
        classifier().fit(X, np.zeros(len(X)))


def test_unit_rows_are_rows_of_unit_length():
    X, y = blobs()
    X[0] = 0
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    options = {"classes": [0, 1], "insecure_seed": 0, "dtype": "float64", "feature_norm": 2.0}
    unit = PrivateLogisticRegression(**options, rows="unit").fit(1e200 * X, y)
    by_hand = PrivateLogisticRegression(**options).fit(2 * X / np.where(norms > 0, norms, 1), y)
    np.testing.assert_allclose(unit.coef_, by_hand.coef_, rtol=1e-6)
    np.testing.assert_allclose(unit.decision_function(1e-200 * X), unit.decision_function(X), rtol=1e-9)


def test_one_long_row_counts_no_more_than_a_row_of_the_norm():
    X, y = blobs()
    options = {"classes": [0, 1], "insecure_seed": 0, "dtype": "float64"}
    long, bounded = X.copy(), X.copy()
    long[0] *= 1e9
    bounded[0] /= np.linalg.norm(bounded[0])
    models = [PrivateLogisticRegression(**options).fit(rows, y) for rows in (long, bounded)]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-6)


def test_the_intercept_learns_an_unbalanced_target_and_is_not_shrunk():
    rng = np.random.default_rng(0)
    X, y = 0.1 * rng.normal(size=(20_000, 2)), rng.random(20_000) < 0.1
    model = PrivateLogisticRegression(1e3, delta=1e-6, classes=[False, True], l2=10.0, insecure_seed=0).fit(X, y)
    assert model.predict_proba(np.zeros((1, 2)))[0, 1] == pytest.approx(y.mean(), abs=0.01)
    assert abs(model.coef_).max() < 0.01
    bare = PrivateLogisticRegression(1.0, classes=[False, True], fit_intercept=False, insecure_seed=0).fit(X, y)
    assert bare.intercept_.tolist() == [0.0]
