"""What the accountant certifies of random runs is proved again; ``python experiments/verify_all.py`` does two thousand."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flint")

import dplateau as dp
from dplateau.certificate import prove

FILE = Path(__file__).parents[2] / "experiments" / "verify_all.py"


@pytest.fixture(scope="module")
def random_run():
    found = importlib.util.spec_from_file_location("verify_all", FILE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.random_run


@pytest.mark.parametrize("kind", ["poisson", "fixed-size", "cyclic", "shuffled", "one-pass", "full"])
@pytest.mark.parametrize("seed", range(9))
def test_a_random_run(random_run, kind, seed):
    if kind == "fixed-size" and seed > 4:
        pytest.skip("they take seconds: five are enough here")
    rng = np.random.default_rng([2026, seed])
    run, delta = random_run(rng, kind)
    report = dp.account(run, delta)
    proof = prove(run, report.epsilon, delta)
    assert proof.verified, (proof.why, proof.lower, proof.upper, report.epsilon)
