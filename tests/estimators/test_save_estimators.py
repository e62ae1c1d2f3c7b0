"""Estimators in a folder: they come back as they were, bound to their certificate, and damage is one clear error."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
import sklearn.base

import dplateau as dp
from dplateau.certificate import create_key, read_certificate, signing_key
from dplateau.estimators import PrivateGridSearch
from dplateau.spec import ContradictionError, InputError, UncertifiedError

random = np.random.default_rng(0)
X = random.normal(size=(2000, 3)) / 2
SIDE = (X[:, 0] > 0).astype(int)
OPTIONS = {"epsilon": 2.0, "delta": 1e-6, "max_iter": 20, "insecure_seed": 4242424242}
MODELS = {
    "binary": (dp.PrivateLogisticRegression(classes=[False, True], **OPTIONS), SIDE.astype(bool)),
    "texts": (dp.PrivateLogisticRegression(classes=["no", "yes"], fit_intercept=False, **OPTIONS), np.array(["no", "yes"])[SIDE]),
    "unit rows": (dp.PrivateLogisticRegression(classes=[0.5, 1.5], rows="unit", feature_norm=2.5, **OPTIONS), SIDE + 0.5),
    "three": (dp.PrivateLogisticRegression(classes=range(3), **OPTIONS), np.digitize(X[:, 0], [-0.3, 0.3])),
    "svc": (dp.PrivateLinearSVC(classes=[0, 1], **OPTIONS), SIDE),
    "linear": (dp.PrivateLinearRegression(target_range=(-2, np.float64(3)), loss="huber", **OPTIONS), X[:, 0]),
    "one pass": (dp.PrivateLogisticRegression(classes=[0, 1], solver="pnsgd", **OPTIONS), SIDE),
}
ROWS = random.normal(size=(50, 3)) * 2


@pytest.fixture(scope="module", params=MODELS)
def saved(request, tmp_path_factory):
    model, y = MODELS[request.param]
    model.fit(X, y)
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save(folder)
    return model, folder


def test_it_comes_back_as_it_was(saved):
    model, folder = saved
    again = dp.load_estimator(folder)
    assert type(again) is type(model)
    assert again.certificate_ == model.certificate_ == read_certificate(folder)
    assert (again.run_, again.n_iter_, again.n_features_in_) == (model.run_, model.n_iter_, model.n_features_in_)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            assert getattr(again, method)(ROWS).tolist() == getattr(model, method)(ROWS).tolist()
    lost = {"insecure_seed", "classes", "ledger", "verbose"}
    kept = {name: value for name, value in again.get_params().items() if name not in lost}
    assert kept == {name: value for name, value in model.get_params().items() if name not in lost}
    if hasattr(model, "classes_"):
        assert again.classes_.dtype == model.classes_.dtype
        assert again.classes_.tolist() == model.classes_.tolist() == again.classes
    again.set_params(insecure_seed=4242424242)
    assert (again.fit(X, target_of(model)).coef_ == model.coef_).all()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("binary", {"feature_norm": 3.0}),
        ("binary", {"rows": "unit"}),
        ("binary", {"class_weight": {True: 2}}),
        ("linear", {"target_range": (0, 1)}),
    ],
)
def test_arguments_that_were_changed_after_the_fit_are_not_saved(name, change, tmp_path):
    """Nobody could read the folder: the certificate contradicts it."""
    model, y = MODELS[name]
    model = sklearn.base.clone(model).fit(X, y)
    before = {name: getattr(model, name) for name in change}
    with pytest.raises(InputError, match="was changed after the fit"):
        model.set_params(**change).save(tmp_path / "model")
    model.set_params(**before).save(tmp_path / "model")
    assert dp.load_estimator(tmp_path / "model").certificate_ == model.certificate_


def target_of(model):
    return next(y for one, y in MODELS.values() if one is model)


def test_the_folder_holds_no_seed_and_nothing_is_overwritten(saved):
    model, folder = saved
    assert sorted(path.name for path in folder.iterdir()) == ["certificate.json", "model.json", "weights.npz"]
    assert not any(b"4242424242" in path.read_bytes() for path in folder.iterdir())
    with pytest.raises(InputError, match="exists already"):
        model.save(folder)


def copied(saved, tmp_path):
    return shutil.copytree(saved[1], tmp_path / "model")


def change(folder, **changes):
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def parameters(folder, **changes):
    change(folder, parameters={**json.loads((folder / "model.json").read_text())["parameters"], **changes})


DAMAGE = {
    "no folder": (shutil.rmtree, "model.json cannot be read"),
    "a file": (lambda f: (shutil.rmtree(f), f.write_text("x")), "is not a folder"),
    "no JSON": (lambda f: (f / "model.json").write_text("{"), "is not JSON"),
    "deep": (lambda f: (f / "model.json").write_text("[" * 200_000), "is not JSON"),
    "no text": (lambda f: (f / "model.json").write_bytes(b"\xff\xfe\x00"), "is not JSON"),
    "a list": (lambda f: (f / "model.json").write_text("[]"), "describes no model"),
    "a pipe": (lambda f: ((f / "model.json").unlink(), os.mkfifo(f / "model.json")), "is not a file"),
    "a pipe of weights": (lambda f: ((f / "weights.npz").unlink(), os.mkfifo(f / "weights.npz")), "missing or damaged"),
    "other format": (lambda f: change(f, format=2), "no model of format 1"),
    "other kind": (lambda f: change(f, kind="x"), "no model of format 1"),
    "a model": (lambda f: change(f, kind="dplateau model"), "load_model reads it"),
    "other estimator": (lambda f: change(f, estimator="os.system"), "expected one of PrivateLogisticRegression"),
    "an unhashable one": (lambda f: change(f, estimator=[]), "is damaged"),
    "no parameters": (lambda f: change(f, parameters=None), "is damaged"),
    "other parameters": (lambda f: parameters(f, more=1), "not those of the estimator"),
    "a wrong parameter": (lambda f: parameters(f, feature_norm="x"), "is damaged"),
    "a wrong switch": (lambda f: parameters(f, fit_intercept=1), "neither true nor false"),
    "a run": (lambda f: change(f, run={}), "not that of the certificate"),
    "names": (lambda f: change(f, feature_names=["a"]), "names 1 features where the weights have 3"),
    "no names": (lambda f: change(f, feature_names=[1, 2, 3]), "not a list of texts"),
    "no certificate": (lambda f: (f / "certificate.json").unlink(), "certificate.json cannot be read"),
    "no weights": (lambda f: (f / "weights.npz").unlink(), "missing or damaged"),
    "other shape": (
        lambda f: np.savez(f / "weights.npz", coefficients=np.ones((2, 2, 2)), intercept=np.ones(7)),
        "expected finite",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_clear_error(saved, tmp_path, name):
    folder = copied(saved, tmp_path)
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        dp.load_estimator(folder)
    assert "\n" not in str(caught.value)


CLASSES = (
    None,
    {},
    {"dtype": "O", "values": [{}, {}]},
    {"dtype": "<i8", "values": [1]},
    {"dtype": "<i8", "values": [2, 1]},
    {"dtype": "V8", "values": [1, 2]},
    {"dtype": "<i8", "values": ["a", "b"]},
    {"dtype": "<i8", "values": [0, 10**30]},
    {"dtype": "<i8", "values": [0.2, 1.7]},
    {"dtype": "<U1", "values": ["ab", "cd"]},
)


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_damaged_classes(saved, tmp_path, classes):
    if not hasattr(saved[0], "classes_"):
        pytest.skip("a number is predicted")
    folder = copied(saved, tmp_path)
    change(folder, classes=classes)
    with pytest.raises(InputError, match="is damaged"):
        dp.load_estimator(folder)


def test_what_the_certificate_is_not_about_is_refused(saved, tmp_path):
    folder = copied(saved, tmp_path)
    parameters(folder, feature_norm=7.0)
    with pytest.raises(ContradictionError, match="norm of rows"):
        dp.load_estimator(folder)
    with np.load(saved[1] / "weights.npz") as held:
        arrays = dict(held)
    np.savez(folder / "weights.npz", **{**arrays, "coefficients": arrays["coefficients"] * 2})
    for read in (dp.load_estimator, read_certificate):
        with pytest.raises(ContradictionError, match="other weights"):
            read(folder)


def test_the_best_of_a_search(tmp_path):
    model = dp.PrivateLogisticRegression(classes=[0, 1])
    search = PrivateGridSearch(model, {"feature_norm": [0.5, 1.0], "max_iter": [10]}, epsilon=1.0, delta=1e-5).fit(X, SIDE)
    search.best_estimator_.save(tmp_path / "best")
    again = dp.load_estimator(tmp_path / "best")
    assert again.certificate_ == search.certificate_
    assert again.run_ == search.best_estimator_.run_ != search.run_
    assert again.predict_proba(ROWS).tolist() == search.predict_proba(ROWS).tolist()
    other = dp.PrivateLogisticRegression(classes=[0, 1], epsilon=1.0, delta=1e-5, max_iter=11).fit(X, SIDE)
    change(tmp_path / "best", run=other.run_.to_dict())
    with pytest.raises(InputError, match="none of the search"):
        dp.load_estimator(tmp_path / "best")
    change(tmp_path / "best", run=None)
    with pytest.raises(InputError, match="is damaged"):
        dp.load_estimator(tmp_path / "best")


def test_names_of_features(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    dp.PrivateLogisticRegression(classes=[0, 1], **OPTIONS).fit(frame, SIDE).save(tmp_path / "model")
    again = dp.load_estimator(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert len(again.predict(frame)) == 2000
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))


def test_without_a_certificate_nothing_is_saved(tmp_path):
    with pytest.warns(dp.PrivacyWarning):
        model = dp.PrivateLogisticRegression(**OPTIONS).fit(X, SIDE)
    with pytest.raises(UncertifiedError, match="Declare the classes"):
        model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="not fitted"):
        dp.PrivateLogisticRegression().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_classes_that_json_does_not_keep(tmp_path):
    model = dp.PrivateLogisticRegression(classes=[b"n", b"y"], **OPTIONS).fit(X, np.array([b"n", b"y"])[SIDE])
    with pytest.raises(InputError, match="cannot be saved"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_signatures(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))
    create_key("me")
    create_key("other")
    model = dp.PrivateLogisticRegression(classes=[0, 1], **OPTIONS).fit(X, SIDE)
    model.save(tmp_path / "model", sign=signing_key("me"))
    assert dp.load_estimator(tmp_path / "model", signed_by="me").predict(ROWS).tolist() == model.predict(ROWS).tolist()
    with pytest.raises(ContradictionError):
        dp.load_estimator(tmp_path / "model", signed_by="other")


def test_each_folder_has_its_reader(tmp_path):
    dp.PrivateLogisticRegression(classes=[0, 1], **OPTIONS).fit(X, SIDE).save(tmp_path / "model")
    with pytest.raises(InputError, match="load_estimator reads it"):
        dp.load_model(tmp_path / "model")
