"""Trainings that are charged to a real ledger."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold

import dplateau as dp
from dplateau.algorithms import SOLVERS
from dplateau.data import array_stream
from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, TableModel
from dplateau.filter import cost_of
from dplateau.losses import Logistic
from dplateau.training import SecureGenerator, train

pytest.importorskip("sqlalchemy")
N, D = 400, 3
ROWS = np.random.default_rng(0).normal(size=(N, D)) / 4
TARGET = ROWS[:, 0] > 0
SCHEMA = """
[columns.a]
type = "number"
low = -1
high = 1
[columns.b]
type = "target"
classes = ["no", "yes"]
"""


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    found = dp.Ledger(f"sqlite:///{tmp_path / 'privacy.db'}")
    found.create("people", n=N, epsilon=2.0, delta=1e-5)
    return found


def model(ledger: Any, epsilon: float = 0.5, **given: Any) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        epsilon=epsilon, delta=1e-6, classes=[False, True], max_iter=20, l2=0.0, ledger=ledger.account("people"), **given
    )


def test_fits_are_refused_when_the_budget_is_spent(ledger: dp.Ledger) -> None:
    fitted: list[PrivateLogisticRegression] = []

    def fit_often() -> None:
        for _ in range(20):
            fitted.append(model(ledger).fit(ROWS, TARGET))

    with pytest.raises(dp.BudgetError, match="nothing was reserved"):
        fit_often()
    state = ledger.account("people").state()
    assert state.reserved == state.committed == len(fitted) > 2
    assert ledger.verify() == []
    digests = [entry.data["weights_sha256"] for entry in ledger.entries("people") if entry.kind == "committed"]
    assert digests == [one.certificate_.weights_sha256 for one in fitted]
    together = dp.compose(*(one.certificate_ for one in fitted))
    assert dp.account(together, 1e-5).epsilon <= 2.0


@pytest.mark.parametrize(
    ("solver", "l2"), [("dp-sgld", 1e-20), ("snowball-sgd-strong", 1e8), ("phased-sgd-strong", 1e8), ("reduction", 1e8)]
)
def test_a_fit_that_rounding_forbids_costs_nothing(ledger: dp.Ledger, solver: str, l2: float) -> None:
    """Public numbers tell before it is reserved, and the planner refuses it, too."""
    with pytest.raises(dp.InputError, match=r"The solver cannot train this: .* Nothing was released"):
        model(ledger, solver=solver).set_params(l2=l2).fit(ROWS, TARGET)
    state = ledger.account("people").state()
    assert (state.reserved, state.spent) == (0, 0.0)
    with pytest.raises(dp.InputError, match=r"rounding would|beyond double precision"):
        dp.plan(N, D + 1, 0.5, 1e-6, l2=l2, solver=solver, steps=20)


def test_nor_does_a_stream(ledger: dp.Ledger) -> None:
    refused = model(ledger, solver="snowball-sgd-strong").set_params(l2=1e8)
    with pytest.raises(dp.InputError, match=r"The solver cannot train this: .* Nothing was released"):
        refused.fit_stream(array_stream(ROWS, TARGET))
    assert ledger.account("people").state().reserved == 0


def test_a_refused_fit_leaves_the_model_unfitted_and_draws_nothing(ledger: dp.Ledger) -> None:
    ledger.close("people")
    refused = model(ledger)
    with pytest.raises(dp.BudgetError, match="closed"):
        refused.fit(ROWS, TARGET)
    assert not hasattr(refused, "coef_")


def test_every_candidate_of_a_search_is_charged(ledger: dp.Ledger) -> None:
    search = GridSearchCV(model(ledger, epsilon=0.1), {"max_iter": [5, 10]}, cv=KFold(2), refit=True)
    search.fit(ROWS, TARGET)
    runs = [dp.Run.from_dict(entry.data["run"]) for entry in ledger.entries("people") if entry.kind == "reserved"]
    assert sorted((run.n, run.steps) for run in runs[:4]) == [(200, 5), (200, 5), (200, 10), (200, 10)]
    assert [run.n for run in runs[4:]] == [400]
    assert ledger.account("people").state().committed == 5


MODELS = {
    "logistic": (PrivateLogisticRegression(classes=[False, True]), TARGET),
    "softmax": (PrivateLogisticRegression(classes=[0, 1, 2]), np.digitize(ROWS[:, 0], [-0.1, 0.1])),
    "svc": (PrivateLinearSVC(classes=[False, True]), TARGET),
    "one versus rest": (PrivateLinearSVC(classes=[0, 1, 2]), np.digitize(ROWS[:, 0], [-0.1, 0.1])),
    "squared": (PrivateLinearRegression(target_range=(-1, 1)), ROWS[:, 0]),
    "absolute": (PrivateLinearRegression(target_range=(-1, 1), loss="absolute"), ROWS[:, 0]),
}
ROADS: dict[str, Any] = {
    "fit": lambda model, target: model.fit(ROWS, target),
    "fit_stream": lambda model, target: model.fit_stream(array_stream(ROWS, target)),
    "partial_fit": lambda model, target: model.partial_fit(ROWS, target),
}


def test_these_are_all_roads() -> None:
    for model, _ in MODELS.values():
        inherited = {name for one in BaseEstimator.__mro__ for name in vars(one)}
        public = {name for name in dir(type(model)) if not name.startswith("_") and name not in inherited}
        assert {name for name in public if not name.startswith("set_") and ("fit" in name or "train" in name)} == set(ROADS)
        assert public - set(ROADS) <= {
            *("certificate_", "epsilon_", "predict", "predict_proba", "predict_log_proba", "decision_function", "score", "save"),
            *("set_score_request", "set_partial_fit_request", "set_fit_request"),
            *("weights_in_words", "predict_at_least_cost", "boundary"),
        }


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("road", ROADS)
def test_every_road_of_every_estimator_charges_or_refuses(
    ledger: dp.Ledger, road: str, name: str, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the solver: what is trained is reserved first, and a closed account draws nothing and gives no model."""
    made, target = MODELS[name]
    ledger.create("closed", n=N, epsilon=1.0, delta=1e-5)
    ledger.close("closed")
    settings = {"epsilon": 0.5, "delta": 1e-6, "max_iter": 5, "solver": solver}
    refused = clone(made).set_params(**settings, ledger=ledger.account("closed"))
    with monkeypatch.context() as patch:
        patch.setattr(SecureGenerator, "_words", lambda *_: pytest.fail("a number was drawn"))
        # AttributeError: no such method with this solver. InputError: the solver is not for this loss.
        with pytest.raises((dp.BudgetError, dp.InputError, AttributeError)) as error:
            ROADS[road](refused, target)
    assert not hasattr(refused, "coef_")
    trained = clone(made).set_params(**settings, ledger=ledger.account("people"))
    if not isinstance(error.value, dp.BudgetError):
        with pytest.raises(type(error.value)):
            ROADS[road](trained, target)
        assert ledger.account("people").state().spent == 0
        return
    ROADS[road](trained, target)
    state = ledger.account("people").state()
    assert (state.reserved, state.committed) == (1, 1)
    assert state.spent >= cost_of(trained.run_, state.order)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "absolute"])
def test_a_stream_costs_what_one_batch_costs(ledger: dp.Ledger, name: str) -> None:
    made, target = MODELS[name]
    account = ledger.account("people")
    model = clone(made).set_params(epsilon=0.5, delta=1e-6, ledger=account)
    costs = []
    for first, last in ((0, 150), (150, 180), (180, 400)):
        model.partial_fit(ROWS[first:last], target[first:last])
        costs.append(account.state().spent)
    assert costs == [pytest.approx(cost_of(model.run_, account.state().order))] * 3
    with pytest.raises(dp.InputError, match="have 401 records together, and the account 400"):
        model.partial_fit(ROWS[:1], target[:1])
    assert ledger.verify(costs=True) == []
    assert account.state().committed == 3


def test_a_copy_of_a_stream_and_a_batch_that_is_taken_in_again_cost_once_more(
    ledger: dp.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ledger.account("people")
    one = model(ledger, epsilon=0.3).partial_fit(ROWS[:100], TARGET[:100])
    other, cost = copy.deepcopy(one), account.state().spent
    one.partial_fit(ROWS[100:200], TARGET[100:200])
    assert account.state().spent == cost
    other.partial_fit(ROWS[100:200], TARGET[100:200])
    assert account.state().spent == pytest.approx(2 * cost)
    with monkeypatch.context() as patch:
        patch.setattr(SecureGenerator, "normal", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            one.partial_fit(ROWS[200:300], TARGET[200:300])
    one.partial_fit(ROWS[200:300], TARGET[200:300])
    assert account.state().spent == pytest.approx(2 * cost)  # batch 3: twice, as batch 2
    assert one.run_.n == 300
    model(ledger, epsilon=0.3).partial_fit(ROWS[:50], TARGET[:50])
    assert account.state().spent == pytest.approx(3 * cost)  # another stream
    assert ledger.verify(costs=True) == []


def test_a_training_without_an_estimator(ledger: dp.Ledger) -> None:
    run = dp.Run(n=N, sampling=dp.Poisson(40), steps=10, noise_multiplier=3.0, clip_norm=0.5, step_size=0.5)
    train(run, Logistic(), ROWS, TARGET, ledger=ledger.account("people", purpose="by hand"))
    reserved, committed = ledger.entries("people")[1:]
    assert (reserved.kind, reserved.data["purpose"], dp.Run.from_dict(reserved.data["run"])) == ("reserved", "by hand", run)
    assert (committed.kind, committed.reservation) == ("committed", reserved.number)
    with pytest.raises(dp.InputError, match=r"n 401, and the account 400 records in all"):
        ledger.account("people").reserve(run.replace(n=N + 1))


def test_a_table_model_commits_the_certificate_that_it_writes(ledger: dp.Ledger, tmp_path: Path) -> None:
    file, schema = tmp_path / "rows.csv", tmp_path / "schema.toml"
    labels = np.where(TARGET, "yes", "no")
    file.write_text("a,b\n" + "".join(f"{a:.3f},{b}\n" for a, b in zip(ROWS[:, 0], labels, strict=True)))
    schema.write_text(SCHEMA)
    for stream in (False, True):
        trained = TableModel.train(file, schema, epsilon=0.5, max_iter=10, stream=stream, ledger=ledger.account("people"))
        trained.save(tmp_path / f"model-{stream}")
        written = (tmp_path / f"model-{stream}" / "certificate.json").read_bytes()
        entry = ledger.entries("people")[-1]
        assert entry.data["certificate_sha256"] == hashlib.sha256(written).hexdigest()
        assert entry.data["weights_sha256"] == trained.certificate.weights_sha256 is not None
        assert trained.estimator.get_params()["ledger"] is None
