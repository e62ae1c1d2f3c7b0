"""Callers who have told NumPy to raise where a number is too small: it is no error here, and no record decides on one."""

import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic
from dplateau.training import SecureGenerator, train

RUN = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=3516, noise_multiplier=1.3)
LAST = dp.Run(
    n=1000,
    sampling=dp.FullBatch(),
    steps=1000,
    noise_multiplier=3.0,
    step_size=0.1,
    smoothness=1.0,
    strong_convexity=0.0,
    diameter=1.0,
    released="last",
)
RUNS = {
    "sampled": RUN,
    "shuffled": RUN.replace(sampling=dp.Shuffled(256)),
    "last iterate": LAST,
    "selection": dp.Selection([RUN, RUN.replace(steps=100)], 0.5),
}


@pytest.fixture(autouse=True)
def raising():
    with np.errstate(all="raise"):
        yield


def usually(work):
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        return work()


@pytest.mark.parametrize("name", RUNS)
def test_accounting_does_not_raise(name):
    found = dp.account(RUNS[name], delta=1e-5)
    assert found.epsilon == usually(lambda: dp.account(RUNS[name], delta=1e-5)).epsilon


def test_calibration_and_plans_do_not_raise():
    def work():
        return dp.calibrate(RUN, epsilon=1.0, delta=1e-5), dp.plan(1000, 10, epsilon=1.0, delta=1e-5).algorithm.run

    assert work() == usually(work)


def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 10))
    x[3], x[4], x[5] = 1e-200, 1e200, 5e-324
    return x, (x[:, 0] > 0).astype(float)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["noisy-sgd", "pnsgd", "phased-sgd", "phased-erm"])
def test_a_record_of_tiny_numbers_ends_no_fit(solver, tmp_path):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("rows", n=400, epsilon=2.0, delta=1e-5)

    def work(**options):
        model = dp.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, solver=solver, classes=[0, 1], insecure_seed=0, **options)
        return model.fit(*rows()).coef_

    np.testing.assert_array_equal(work(ledger=ledger.account("rows")), usually(work))
    assert ledger.account("rows").state().committed == 1


def test_nor_a_training():
    run = dp.Run(n=400, sampling=dp.Poisson(50), steps=3, noise_multiplier=1.0, step_size=0.5)

    def work():
        return train(run, Logistic(), *rows(), generator=SecureGenerator(insecure_seed=0)).weights

    np.testing.assert_array_equal(work(), usually(work))
