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


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *((kind, seed) for kind in ("cyclic", "shuffled", "one-pass", "full") for seed in range(12)),
        *(("poisson", n) for n in range(3)),
    ],
)
def test_a_random_run(random_run, kind, seed):
    """Random batches take seconds each: most of them are left to the long experiment."""
    run, delta = random_run(np.random.default_rng([2026, seed]), kind)
    report = dp.account(run, delta)
    proof = prove(run, report.epsilon, delta)
    assert proof.verified, (proof.why, proof.lower, proof.upper, report.epsilon)
    if not report.best.bound.guarantee.family:  # Of a family either side takes the member that it finds best.
        assert report.best.epsilon.lower <= proof.upper
