"""Streams of records, and an estimator with everything that it does itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from dplateau.algorithms import SOLVERS, Budget, OnlineSGD, Problem, start_online_sgd
from dplateau.black_box.case import DELTA, Case
from dplateau.black_box.neighbours import FAR, Neighbours, float32_order, one_record, vanishing_norm
from dplateau.black_box.solvers import LONG, MIDDLE, SMALL, N
from dplateau.estimators import PrivateLogisticRegression
from dplateau.losses import Squared
from dplateau.training import SecureGenerator

_BLOCK: Final = 7
"""Records of a block: no batch ends where a block does."""
_STEPS: Final = 20
"""Steps where they can be chosen: ten epochs of two batches each."""


def stream_cases() -> Iterator[Callable[[], Case]]:
    """Records that arrive in blocks, once or several times, and a stream without an end."""
    for solver, dtype in (("pnsgd", "float64"), ("noisy-sgd", "float32")):
        yield partial(_blocks, solver, one_record(N, target=FAR), MIDDLE)
        yield partial(_blocks, solver, vanishing_norm(dtype), SMALL)
    for neighbours, epsilon in ((one_record(N, target=FAR, record=N - 1), MIDDLE), (vanishing_norm("float64"), SMALL)):
        yield partial(_online, neighbours, epsilon)


def estimator_cases() -> Iterator[Callable[[], Case]]:
    """``PrivateLogisticRegression``, from its rows to its coefficients."""
    yield partial(_logistic_regression, float32_order(LONG))


def _blocks(solver: str, neighbours: Neighbours, epsilon: float) -> Case:
    n, d = neighbours.features.shape
    plan = SOLVERS[solver].plan_stream(Problem(n, d, Squared()), Budget(epsilon, DELTA), steps=_STEPS)

    def trained(features: Any, target: Any, generator: SecureGenerator) -> Any:
        cuts = range(0, n, _BLOCK)
        blocks = [(features[k : k + _BLOCK], target[k : k + _BLOCK]) for k in cuts]
        return plan.fit_stream(lambda: blocks, generator=generator).weights

    return Case(f"{solver}, stream", neighbours, plan.run, trained)


def _online(neighbours: Neighbours, epsilon: float) -> Case:
    """Two batches, and what is released after each of them."""
    n, d = neighbours.features.shape
    first = start_online_sgd(Problem(n, d, Squared()), Budget(epsilon, DELTA))

    def trained(features: Any, target: Any, generator: SecureGenerator) -> Any:
        state: OnlineSGD = first
        released: list[Any] = []
        for part in (slice(0, n // 2), slice(n // 2, n)):
            state, _ = state.step(features[part], target[part], generator=generator)
            released.append(state.weights)
        return np.concatenate([*released, released[1] - released[0]])

    return Case("online-sgd", neighbours, first.step_run, trained)


def _logistic_regression(neighbours: Neighbours) -> Case:
    def fitted(features: Any, target: Any) -> PrivateLogisticRegression:
        model = PrivateLogisticRegression(1.0, delta=DELTA, classes=[0, 1], fit_intercept=False, max_iter=1)
        return model.fit(features, target)

    def trained(features: Any, target: Any, _: SecureGenerator) -> Any:
        return fitted(features, target).coef_  # an estimator draws from a generator of its own

    return Case("logistic regression", neighbours, fitted(*neighbours.absent).run_, trained)
