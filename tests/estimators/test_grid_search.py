"""``PrivateGridSearch``: one epsilon for the search and its result."""

# pyright: basic, reportArgumentType=false, reportPrivateUsage=false
from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import dplateau as dp
from dplateau.certificate import Certificate, verify
from dplateau.certificate.weights import weights_digest
from dplateau.estimators import PrivateGridSearch, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dplateau.spec import BudgetError, UncertifiedError

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 4)) / 2
Y = np.where(X[:, 0] > 0, "yes", "no")
V = X[:, 0] + 0.5
GRID = {"max_iter": [10, 40], "feature_norm": [0.5, 1.0]}
LOGISTIC = PrivateLogisticRegression(classes=["no", "yes"])


def test_a_search_releases_one_model_within_epsilon() -> None:
    search = PrivateGridSearch(LOGISTIC, GRID, epsilon=1.0, delta=1e-5).fit(X, Y)
    certificate = search.certificate_
    assert certificate.certifies
    assert 0.98 < search.epsilon_ <= 1.0
    assert certificate.delta == 1e-5
    assert verify(Certificate.from_json(certificate.to_json())).agrees
    model = search.best_estimator_
    assert certificate.weights_sha256 == weights_digest({"coefficients": model.coef_, "intercept": model.intercept_})
    assert search.run_ == certificate.run
    assert isinstance(search.run_, dp.Selection)
    assert len(search.run_.candidates) == 4
    assert search.best_params_ in [{"feature_norm": f, "max_iter": m} for f in (0.5, 1.0) for m in (10, 40)]
    assert {name: model.get_params()[name] for name in GRID} == search.best_params_
    assert (search.predict(X) == model.predict(X)).all()
    assert search.score(X, Y) > 0.9
    assert search.predict_proba(X).shape == (3000, 2)
    assert search.decision_function(X).shape == (3000,)
    assert abs(search.best_score_ - search.score(X, Y)) < 6 * search.score_noise_
    assert search.score_noise_ > 0
    assert list(search.classes_) == ["no", "yes"]


def test_each_setting_alone_costs_less_and_all_told_more() -> None:
    run = PrivateGridSearch(LOGISTIC, GRID, epsilon=1.0, delta=1e-5).fit(X, Y).run_
    assert max(dp.account(one, 1e-5).epsilon for one in run.candidates) < 1.0 < dp.account(dp.Runs(run.runs), 1e-5).epsilon


@pytest.mark.parametrize(("settings", "probability"), [(2, 0.1), (6, 1.0)])
def test_a_search_of_any_size_is_charged_no_more_than_epsilon(settings: int, probability: float) -> None:
    class Account:
        def reserve(self, run: Any, **_: Any) -> None:
            raise BudgetError(str(dp.account(run, 1e-5).epsilon))

    grid = {"feature_norm": np.linspace(0.5, 1.0, settings)}
    model = clone(LOGISTIC).set_params(solver="noisy-sgd")
    search = PrivateGridSearch(model, grid, epsilon=1.0, delta=1e-5, probability=probability, ledger=Account())
    with pytest.raises(BudgetError) as said:
        search.fit(X, Y)
    assert 0.9 < float(str(said.value)) <= 1.0


def test_the_better_setting_wins() -> None:
    """One of two settings learns nothing; where the other one is tried, in 2 of 3 searches, it wins."""
    found = Counter()
    for _ in range(30):
        search = PrivateGridSearch(LOGISTIC, {"l2": [1e6, 0.0], "max_iter": [20], "solver": ["noisy-sgd"]}, epsilon=8.0, delta=1e-5)
        found[search.fit(X, Y).best_params_["l2"]] += 1
    assert 10 <= found[0.0] <= 29  # of 30, each with probability 2/3: five deviations


def test_public_validation_and_regression() -> None:
    search = PrivateGridSearch(
        PrivateLinearRegression(target_range=(-2.0, 3.0)), GRID, epsilon=1.0, delta=1e-5, validation=(X[:200], V[:200])
    ).fit(X, V)
    assert search.score_noise_ == 0.0
    assert search.score(X, V) > 0.5
    assert all(isinstance(one, dp.Run) for one in search.run_.candidates)
    assert "validation rows" in " ".join(one.statement for one in search.certificate_.assumptions)
    error = np.mean((np.clip(search.predict(X[:200]), -2, 3) - V[:200]) ** 2)
    assert search.best_score_ == pytest.approx(1 - error / 25)


def test_svc_several_classes_and_replacement() -> None:
    several = np.digitize(X[:, 0], [-0.3, 0.3])
    for model in (PrivateLinearSVC(classes=range(3), adjacency="replace"), PrivateLogisticRegression(classes=range(3))):
        search = PrivateGridSearch(model, {"max_iter": [10, 30]}, epsilon=2.0, delta=1e-5).fit(X, several)
        assert search.epsilon_ <= 2.0
        assert search.predict(X).shape == (3000,)
        assert hasattr(search, "predict_proba") is hasattr(model, "predict_proba")


@pytest.mark.parametrize("solver", ["noisy-sgd", "adp-sgd", "dp-sgld", "pnsgd", "snowball-sgd"])
def test_every_solver_of_noisy_steps(solver: str) -> None:
    grid = {"solver": [solver], "l2": [0.0 if solver in ("pnsgd", "snowball-sgd") else 0.01], "max_iter": [20, 30]}
    search = PrivateGridSearch(LOGISTIC, grid, epsilon=2.0, delta=1e-5).fit(X, Y)
    assert verify(Certificate.from_json(search.certificate_.to_json())).agrees
    assert search.epsilon_ <= 2.0


class Account:
    def __init__(self, budget: int) -> None:
        self.budget, self.seen = budget, []

    def reserve(self, run: Any) -> Account:
        if len(self.seen) >= self.budget:
            raise BudgetError("no more")
        self.seen.append(run)
        return self

    def commit(self, certificate: Any = None) -> None:
        self.seen.append(certificate)


def test_a_search_is_charged_once() -> None:
    account = Account(1)
    search = PrivateGridSearch(LOGISTIC, GRID, delta=1e-5, ledger=account).fit(X, Y)
    assert account.seen == [search.run_, search.certificate_]
    with pytest.raises(BudgetError):
        search.fit(X, Y)


def test_a_real_ledger(tmp_path: Any) -> None:
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("people", n=3000, epsilon=3.0, delta=1e-5)
    account = ledger.account("people", purpose="search")
    PrivateGridSearch(LOGISTIC, GRID, epsilon=1.0, delta=1e-5, ledger=account).fit(X, Y)
    state = account.state()
    assert (state.reserved, state.committed) == (1, 1)
    assert state.left < 1
    assert ledger.verify(costs=True) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"param_grid": {"max_iter": []}}, "param_grid"),
        ({"param_grid": {"max_iter": 3}}, "param_grid"),
        ({"param_grid": 7}, "param_grid"),
        ({"param_grid": {"epsilon": [1.0]}}, "all candidates share"),
        ({"param_grid": {"no_such": [1.0]}}, "no_such"),
        ({"param_grid": {"solver": ["phased-sgd"]}}, "phased-sgd"),
        ({"param_grid": {"solver": ["wrong"]}}, "solver"),
        ({"probability": 0.0}, "probability"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-9}, "epsilon"),
        ({"estimator": PrivateLogisticRegression()}, "not declared"),
        ({"estimator": 3}, "estimator is int"),
        ({"validation": (X[:5, :2], Y[:5])}, "2 features"),
        ({"validation": X[:5]}, "validation is no pair"),
        ({"validation": (X[:5],)}, "validation is no pair"),
        ({"param_grid": []}, "param_grid has no settings"),
    ],
)
@pytest.mark.filterwarnings("ignore::dplateau.PrivacyWarning")
def test_bad_arguments_spend_nothing(arguments: dict[str, Any], says: str) -> None:
    account = Account(1)
    given: dict[str, Any] = {"estimator": LOGISTIC, "param_grid": GRID, "delta": 1e-5, "ledger": account} | arguments
    with pytest.raises(dp.InputError, match=says):
        PrivateGridSearch(**given).fit(X, Y)
    assert account.seen == []


def test_bad_rows() -> None:
    bad = X.copy()
    bad[3, 2] = np.nan
    for rows, labels in ((bad, Y), (X, np.where(X[:, 0] > 9, "x", "maybe")), (X[:0], Y[:0]), (X, Y[:5])):
        with pytest.raises(ValueError):
            PrivateGridSearch(LOGISTIC, GRID, delta=1e-5).fit(rows, labels)


def test_it_is_an_estimator() -> None:
    search = PrivateGridSearch(LOGISTIC, GRID, epsilon=1.0, delta=1e-5)
    assert clone(search).get_params()["estimator__max_iter"] == 400
    with pytest.raises(AttributeError, match="call fit first"):
        search.predict(X)
    fitted = pickle.loads(pickle.dumps(search.fit(X, Y)))
    assert (fitted.predict(X) == search.predict(X)).all()


def test_a_seed_voids_the_certificate() -> None:
    model = PrivateLogisticRegression(classes=["no", "yes"], insecure_seed=1)
    one, other = (PrivateGridSearch(model, GRID, delta=1e-5).fit(X, Y) for _ in range(2))
    assert not one.certificate_.certifies
    assert (one.best_estimator_.coef_ == other.best_estimator_.coef_).all()


def test_candidates_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is scored a candidate has no certificate, and afterwards no weights."""
    search = PrivateGridSearch(LOGISTIC, GRID, delta=1e-5, probability=1.0)
    kept: list[Any] = []
    original = PrivateLogisticRegression._credits

    def credits(self: Any, *given: Any) -> Any:
        kept.append(self)
        with pytest.raises(UncertifiedError, match="candidate of a search"):
            _ = self.certificate_
        return original(self, *given)

    monkeypatch.setattr(PrivateLogisticRegression, "_credits", credits)
    search.fit(X, Y)
    others = [one for one in kept if one is not search.best_estimator_]
    assert len(others) == 3
    for one in others:
        assert not hasattr(one, "coef_")
        assert not hasattr(one, "_certificate")
