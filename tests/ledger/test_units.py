"""An account of persons pays for runs on persons only, and one of rows for runs on rows."""

import numpy as np
import pytest

import dplateau as dp
from dplateau.estimators import PrivateLogisticRegression

ROWS = dp.Run(n=100, sampling=dp.FullBatch(), steps=1, noise_multiplier=30.0)
PERSONS = ROWS.replace(unit="person")


@pytest.mark.parametrize(("unit", "fits", "does_not"), [("row", ROWS, PERSONS), ("person", PERSONS, ROWS), ("ward", PERSONS, ROWS)])
def test_units_must_agree(tmp_path, unit, fits, does_not):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("a", n=1000, epsilon=2.0, delta=1e-6, unit=unit)
    account = ledger.account("a")
    for run in (does_not, dp.Runs((does_not,)), dp.Selection([does_not])):
        with pytest.raises(dp.InputError, match=f"a record of the run is a {does_not.unit}, of the account a {unit}"):
            account.reserve(run)
        with pytest.raises(dp.InputError, match="what one costs says nothing of the other"):
            account.forecast(run)
    assert account.state().reserved == 0
    account.reserve(fits)
    assert account.state().reserved == 1
    assert ledger.verify() == []


def test_an_estimator_is_charged_for_persons(tmp_path):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("patients", n=50, epsilon=2.0, delta=1e-3, unit="person")
    X = np.random.default_rng(0).normal(size=(200, 2)) / 3
    model = PrivateLogisticRegression(1.0, delta=1e-3, classes=[0, 1], max_iter=5, ledger=ledger.account("patients"))
    with pytest.raises(dp.InputError, match="give groups="):
        model.fit(X, X[:, 0] > 0)
    model.fit(X, X[:, 0] > 0, groups=np.arange(200) % 50)
    assert (ledger.account("patients").state().committed, model.certificate_.run.unit) == (1, "person")


def test_a_filter_keeps_to_its_unit():
    kept = dp.Filter(n=100, epsilon=2.0, delta=1e-6, unit="person")
    kept.spend(PERSONS)
    with pytest.raises(dp.InputError, match="the run has unit row, the filter person"):
        kept.spend(ROWS)
    with pytest.raises(dp.InputError, match="the run has unit person, the filter row"):
        dp.Filter(n=100, epsilon=2.0, delta=1e-6).spend(PERSONS)
    with pytest.raises(dp.InputError, match="unit is 'family'"):
        dp.Filter(n=100, epsilon=2.0, delta=1e-6, unit="family")
