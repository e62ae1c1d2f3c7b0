"""The engine of generalised linear models by itself: every batch scheme, with all iterates released."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from dplateau.black_box.case import DELTA, Case
from dplateau.black_box.likelihood import equal_steps, log_likelihood_ratio
from dplateau.black_box.neighbours import FAR, Neighbours, float32_order, one_record, saturated_softmax
from dplateau.black_box.scores import along
from dplateau.black_box.solvers import LONG, MIDDLE, SMALL, N
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss, Logistic, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, RandomAllocation, Run, Sampling, Shuffled
from dplateau.training import SecureGenerator, train

_HALF: Final = N // 2
DRAWN: Final = (Poisson(_HALF), FixedSize(_HALF), RandomAllocation(_HALF), Shuffled(_HALF))
SAMPLINGS: Final = (FullBatch(), *DRAWN, Cyclic(_HALF), OnePass(N // 4))
_STEPS: Final = 4
_ROWS: Final = 20
"""Rows of a person."""


def engine_cases() -> Iterator[Callable[[], Case]]:
    """The cases of ``dplateau.training.train``, planned when they are called."""
    for sampling in SAMPLINGS:
        for adjacency in ("add-remove", "replace"):
            yield partial(_all_iterates, sampling, adjacency)
    for adjacency in ("add-remove", "replace"):
        yield partial(_all_iterates, Poisson(_HALF), adjacency, rows=_ROWS)
    # Every scheme whose batches keep the order of the records, here with all of them in one batch.
    for sampling in (FullBatch(), Poisson(LONG), FixedSize(LONG), RandomAllocation(LONG), Cyclic(LONG), OnePass(LONG)):
        yield partial(_one_step, sampling, Logistic(), float32_order(LONG), clip_norm=0.5)
    away = np.kron([1.0, 0.0], np.array([-1.0, 1.0, 1.0]) / math.sqrt(3))
    yield partial(_one_step, FullBatch(), Softmax(3), saturated_softmax(), moved=away)


def _run(sampling: Sampling, n: int, epsilon: float, **options: Any) -> Run:
    run = Run(n=n, sampling=sampling, noise_multiplier=1.0, released="all", **options)
    return calibrate(run, epsilon=epsilon, delta=DELTA)


def _all_iterates(sampling: Sampling, adjacency: str, rows: int = 0) -> Case:
    """All iterates of a run on rows; or on persons, of whom the one in question has so many rows and every other one two."""
    neighbours = one_record(N, target=FAR, adjacency=adjacency)
    run = _run(sampling, N, MIDDLE, steps=_STEPS, step_size=1.0, adjacency=adjacency, unit="person" if rows else "row")
    gradient = -neighbours.direction  # the target is far above every score
    scores = {"likelihood ratio": log_likelihood_ratio(run, gradient), "equal steps": equal_steps(run, gradient)}
    groups = None
    if rows:
        groups = np.repeat(np.arange(N), np.r_[rows, np.full(N - 1, 2)])
        neighbours = replace(neighbours, name=f"{neighbours.name}: a person with {rows} rows")
    return Case(f"train, {sampling.kind}", neighbours, run, partial(_iterates, run, groups), scores)


def _one_step(
    sampling: Sampling, loss: GeneralisedLinearLoss, neighbours: Neighbours, *, clip_norm: float = 1.0, moved: Any = None
) -> Case:
    run = _run(sampling, len(neighbours.target), SMALL, steps=1, step_size=1.0, clip_norm=clip_norm)
    scores = {} if moved is None else {"record's direction": along(moved)}
    return Case(f"train, {sampling.kind}", neighbours, run, partial(_weights, run, loss, neighbours.start), scores)


def _iterates(run: Run, groups: Any, features: Any, target: Any, generator: SecureGenerator) -> Any:
    if groups is not None:
        features, target = features[groups], target[groups]
    return train(run, Squared(), features, target, groups=groups, generator=generator, keep_iterates=True).iterates


def _weights(run: Run, loss: GeneralisedLinearLoss, start: Any, features: Any, target: Any, generator: SecureGenerator) -> Any:
    return train(run, loss, features, target, generator=generator, start=start).weights
