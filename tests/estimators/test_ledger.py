"""Trainings that are charged to a real ledger."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

import dplateau as dp
from dplateau.estimators import PrivateLogisticRegression, TableModel
from dplateau.losses import Logistic
from dplateau.training import train

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
