"""A process whose processor rounds in one direction: a library for interval arithmetic may have left it so."""

import ctypes
import platform
from contextlib import contextmanager

import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic
from dplateau.training import train

X86 = platform.machine() in ("x86_64", "AMD64")
DIRECTIONS = {"down": 0x400, "up": 0x800, "to zero": 0xC00}
RUN = dp.Run(n=100, sampling=dp.FullBatch(), steps=3, noise_multiplier=3.0, clip_norm=1.0, step_size=0.1)

pytestmark = pytest.mark.skipif(not X86 or platform.system() != "Linux", reason="numbers of other machines")


@contextmanager
def rounding(direction):
    system = ctypes.CDLL("libm.so.6")
    system.fesetround(DIRECTIONS[direction])
    try:
        yield
    finally:
        system.fesetround(0)


def fit(ledger):
    dp.PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_norm=1.0, classes=[0, 1], ledger=ledger).fit(*rows())


def rows():
    x = np.random.default_rng(0).normal(size=(100, 3))
    return x, (x[:, 0] > 0).astype(float)


WORKS = {
    "account": lambda ledger: dp.account(RUN, delta=1e-5),
    "calibrate": lambda ledger: dp.calibrate(RUN, epsilon=1.0, delta=1e-5),
    "train": lambda ledger: train(RUN, Logistic(), *rows(), ledger=ledger),
    "estimator": fit,
}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", WORKS)
def test_is_refused_before_a_charge(name, direction):
    class Ledger:
        def __getattr__(self, name):
            raise AssertionError(name)

    work = WORKS[name]
    with rounding(direction), pytest.raises(dp.InputError, match="round all numbers in one direction"):
        work(Ledger())
