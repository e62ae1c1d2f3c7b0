from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dplateau as dp
from dplateau.certificate import Certificate, make_certificate
from dplateau.spec import Assumption, Generator, Run, Runs, Training
from dplateau.spec import assumption as a

SECRET, SEEDED = Generator("AES-256-CTR", "operating-system"), Generator("AES-256-CTR", "fixed-seed")
RUNS = {
    "full batch": Run(n=32_561, sampling=dp.FullBatch(), steps=400, noise_multiplier=80.0, update="post-processed"),
    "poisson": Run(n=60_000, sampling=dp.Poisson(2_000), steps=1, noise_multiplier=2.0),
    "schedules": Run(
        n=6, sampling=dp.Cyclic((1, 2, 3)), steps=3, noise_multiplier=(30.0, 40.0, 50.0), adjacency="replace", released="last"
    ),
}


def declared(run: Run | Runs) -> tuple[Assumption, ...]:
    """What somebody has to vouch for whose training ran elsewhere."""
    runs = run.runs if isinstance(run, Runs) else (run,)
    schemes, norms = ({key(one): None for one in runs} for key in (lambda one: one.sampling.kind, lambda one: one.clip_norm))
    lines = [
        a.PublicConstants(),
        *(a.Batches(scheme=scheme) for scheme in schemes),
        a.Noise(grid=True),
        a.Divisor(),
        a.Steps(),
        a.Features(),
        a.Arithmetic(rounding="exact"),
    ]
    if {"cyclic", "one-pass"} & set(schemes):
        lines.append(a.Order())
    if any(one.update == "phased-erm" for one in runs):
        lines.append(a.Minimisers(clip_norm=1.0, accuracy=0.1))
    else:
        lines += [a.Clipping(clip_norm=norm) for norm in norms]
    return tuple(lines)


@dataclass(frozen=True)
class Result:
    """What the certificate reads of a training result: by default of one that ran elsewhere."""

    run: Run | Runs
    generator: Generator = SECRET
    assumptions: tuple[Assumption, ...] = ()
    dtype: str = "float32"
    training: Training = Training.DECLARED
    weights: Any = None


@pytest.fixture(scope="session")
def certify():
    def make(run, generator: Generator = SECRET, delta: float = 1e-5, result_run=None) -> Certificate:
        kept = result_run or run
        return make_certificate(dp.account(run, delta), Result(kept, generator, declared(kept), weights=np.arange(3.0)))

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
