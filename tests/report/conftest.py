from dataclasses import dataclass

import pytest

import dplateau as dp
from dplateau.report import Certificate, make_certificate
from dplateau.spec import Assumption, Run

SECRET, SEEDED = "AES-256-CTR, key from the operating system", "AES-256-CTR, insecure fixed seed"
ASSUMPTIONS = (
    Assumption("clipping", "gradients were clipped", "enforced"),
    Assumption("public constants", "chosen without looking", "declared"),
    Assumption("sum", "follows from both", "derived"),
)
RUNS = {
    "full batch": Run(n=32_561, sampling=dp.FullBatch(), steps=400, noise_multiplier=80.0, update="post-processed"),
    "poisson": Run(n=60_000, sampling=dp.Poisson(2_000), steps=1, noise_multiplier=2.0),
    "schedules": Run(
        n=6, sampling=dp.Cyclic((1, 2, 3)), steps=3, noise_multiplier=(30.0, 40.0, 50.0), adjacency="replace", released="last"
    ),
}


@dataclass(frozen=True)
class Result:
    """What the certificate reads of a training result."""

    run: Run
    generator: str = SECRET
    assumptions: tuple[Assumption, ...] = ASSUMPTIONS
    dtype: str = "float32"


@pytest.fixture(scope="session")
def certify():
    def make(run: Run, generator: str = SECRET, delta: float = 1e-5, result_run: Run | None = None) -> Certificate:
        return make_certificate(dp.account(run, delta), Result(result_run or run, generator))

    return make


@pytest.fixture(scope="session")
def certificates(certify) -> dict[str, Certificate]:
    return {name: certify(run) for name, run in RUNS.items()}


@pytest.fixture(scope="session")
def certificate(certificates) -> Certificate:
    return certificates["full batch"]


@pytest.fixture(scope="session")
def seeded(certify) -> Certificate:
    return certify(RUNS["full batch"], SEEDED)
