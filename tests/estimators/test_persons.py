"""Estimators with groups: persons are protected, and everything public counts persons."""

# pyright: basic, reportArgumentType=false
from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, cross_val_score, cross_validate

import dplateau as dp
from dplateau.certificate import Certificate, verify
from dplateau.data import block_stream
from dplateau.estimators import PrivateGridSearch, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dplateau.spec import InputError

RNG = np.random.default_rng(0)
N = 500
GROUPS = RNG.permutation(np.repeat(np.arange(N), RNG.integers(1, 6, N)))
X = RNG.normal(size=(len(GROUPS), 3)) / 3
Y = (X[:, 0] > 0).astype(int)
MODELS = (
    PrivateLogisticRegression(5.0, delta=1e-4, classes=[0, 1], max_iter=30),
    PrivateLinearSVC(5.0, delta=1e-4, classes=[0, 1], max_iter=30),
    PrivateLinearRegression(5.0, delta=1e-4, target_range=(0, 1), max_iter=30),
)


@pytest.mark.parametrize("model", MODELS, ids=lambda one: type(one).__name__)
def test_a_fit_for_persons(model):
    fitted = sklearn.clone(model).fit(X, Y, groups=GROUPS)
    certificate = fitted.certificate_
    assert (fitted.run_.n, fitted.run_.unit, fitted.epsilon_ <= 5.0) == (N, "person", True)
    assert "persons" in {one.name for one in certificate.assumptions}
    assert "All rows of a person are protected together." in certificate.statement
    assert "a person with several rows" not in str(certificate)
    assert f"one person added or removed, with all rows of the person, among {N}" in str(certificate).replace("\n" + " " * 14, " ")
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).agrees
    assert fitted.predict(X).shape == Y.shape
    rows = sklearn.clone(model).fit(X, Y)
    assert (rows.run_.n, rows.run_.unit) == (len(X), "row")
    assert "unit" not in rows.certificate_.to_json()


def test_the_plan_for_persons_is_the_run_of_the_fit():
    fitted = MODELS[0].fit(X, Y, groups=GROUPS)
    facts = {"steps": 30, "feature_norm": float(np.hypot(1, 0.25))}
    made = dp.plan(N, X.shape[1] + 1, 5.0, 1e-4, unit="person", **facts)
    assert made.run == fitted.run_
    assert dp.plan(N, X.shape[1] + 1, 5.0, 1e-4, **facts).run == made.run.replace(unit="row")


def test_delta_follows_from_the_number_of_persons():
    few = PrivateLogisticRegression(5.0, classes=[0, 1], max_iter=5).fit(X[:40], Y[:40], groups=np.arange(40) // 2)
    assert few.certificate_.delta == min(1e-5, 1 / 200)
    assert dp.account(few.run_, few.certificate_.delta).epsilon <= 5.0


def test_a_certificate_of_persons_that_does_not_say_so_is_none():
    certificate = MODELS[0].fit(X, Y, groups=GROUPS).certificate_
    data = certificate.to_json()
    for forged in (
        data.replace('"unit": "person"', '"unit": "row"'),
        data.replace('"name": "persons"', '"name": "features"'),
        data.replace("All rows of a person are protected together.", "A person with several rows is protected less."),
    ):
        assert forged != data
        with pytest.raises(dp.InputError):
            Certificate.from_json(forged)


@pytest.mark.parametrize("solver", ["auto", "pnsgd", "noisy-sgd"])
def test_a_stream_of_persons(solver):
    order = np.argsort(GROUPS, kind="stable")

    def blocks():
        return ((X[part], Y[part], GROUPS[part]) for part in np.array_split(order, 7))

    model = PrivateLogisticRegression(5.0, delta=1e-4, classes=[0, 1], solver=solver, max_iter=20)
    fitted = model.fit_stream(block_stream(blocks, N, 3, unit="person"))
    assert (fitted.run_.n, fitted.run_.unit) == (N, "person")
    assert fitted.score(X, Y) > 0.8
    with pytest.raises(dp.InputError, match="expected features, target and groups"):
        model.fit_stream(block_stream(((X, Y),), N, 3, unit="person"))
    with pytest.raises(dp.InputError, match="expected a pair"):
        model.fit_stream(block_stream(((X, Y, GROUPS),), len(X), 3))


@pytest.mark.parametrize("solver", ["pnsgd", "phased-erm"])
def test_persons_in_a_fixed_order_follow_one_another(solver):
    """Else a row less of a person could move all others, and every step would tell of it. Nothing is spent."""

    class Account:
        def reserve(self, run, **_):
            raise AssertionError(f"reserved for {run}")

    model = PrivateLogisticRegression(5.0, delta=1e-4, classes=[0, 1], solver=solver)
    for other in (model, PrivateGridSearch(model, {"rows": ["clip", "unit"]}, delta=1e-4)):
        with pytest.raises(InputError, match="do not follow one another"):
            sklearn.clone(other).set_params(ledger=Account()).fit(X, Y, groups=GROUPS)
    order = np.argsort(GROUPS, kind="stable")
    assert sklearn.clone(model).fit(X[order], Y[order], groups=GROUPS[order]).run_.n == N


def test_cross_validation_by_groups():
    """Folds by ``groups`` alone are of rows, unless fits are given them too."""
    model = MODELS[0]
    assert cross_val_score(model, X, Y, groups=GROUPS, cv=GroupKFold(2), params={"groups": GROUPS}).shape == (2,)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = sklearn.clone(model).set_fit_request(groups=True)
        found = cross_validate(asked, X, Y, params={"groups": GROUPS}, cv=GroupKFold(2), return_estimator=True)
    assert [one.run_.unit for one in found["estimator"]] == ["person"] * 2
    assert sum(one.run_.n for one in found["estimator"]) == N


def test_a_search_for_persons():
    search = PrivateGridSearch(MODELS[0], {"l2": [0.0, 0.1]}, epsilon=5.0, delta=1e-4).fit(X, Y, groups=GROUPS)
    assert (search.run_.n, search.run_.unit, search.epsilon_ <= 5.0) == (N, "person", True)
    assert search.score_noise_ * N == pytest.approx(search.run_.runs[-1].noise_multiplier)
    assert verify(search.certificate_).agrees
    shown = PrivateGridSearch(MODELS[0], {"l2": [0.0]}, epsilon=5.0, delta=1e-4, validation=(X[:50], Y[:50]))
    assert shown.fit(X, Y, groups=GROUPS).run_.unit == "person"


def test_a_person_adds_one_score_however_many_rows_there_are():
    from dplateau.estimators.grid_search import _Setting

    groups = np.r_[np.zeros(len(X) - 1, int), 1]
    ready = MODELS[0]._ready(X, Y, groups)
    candidate = _Setting({}, MODELS[0], ready, ready).planned(5.0, 1e-4)
    result = candidate.train(candidate.plan.run, generator=MODELS[0]._generator())
    scores = candidate.credits(result)
    assert scores.shape == (2,)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_batches_of_persons_are_refused():
    for model in (PrivateLogisticRegression(delta=1e-4, classes=[0, 1]), PrivateLinearRegression(delta=1e-4, target_range=(0, 1))):
        with pytest.raises(dp.InputError, match="two batches would be two records"):
            model.partial_fit(X, Y, groups=GROUPS)


def test_a_masked_label_is_missing():
    """NumPy would use what stands below the mask."""
    groups = np.ma.masked_array(GROUPS, np.arange(len(GROUPS)) == 7)
    with pytest.raises(dp.InputError, match=f"1 of {len(X)} rows have no label in groups"):
        MODELS[0].fit(X, Y, groups=groups)
    blocks = block_stream([(X, Y, groups)], n=N, d=3, unit="person")
    with pytest.raises(dp.InputError, match=f"1 of {len(X)} rows have no label in groups"):
        MODELS[0].fit_stream(blocks)


def test_labels_are_never_quoted():
    for groups in (["secret"] * (len(X) - 1), ["secret"] * (len(X) - 1) + [None], ["secret"] * (len(X) - 1) + [7]):
        with pytest.raises(dp.InputError) as error:
            MODELS[0].fit(X, Y, groups=groups)
        assert "secret" not in str(error.value)
