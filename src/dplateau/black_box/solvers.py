"""Every solver that estimators know, on the worst data that we know for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from dplateau.algorithms import SOLVERS, Algorithm, Budget, Problem
from dplateau.black_box.case import DELTA, Case
from dplateau.black_box.neighbours import (
    FAR,
    Neighbours,
    denormal,
    erasing,
    float32_cancellation,
    float32_order,
    huge,
    one_record,
    vanishing_norm,
)
from dplateau.black_box.scores import along
from dplateau.losses import Absolute, GeneralisedLinearLoss, Hinge, Huber, Logistic, SmoothedHinge, Softmax, Squared

MIDDLE: Final = 8.0
"""The epsilon of runs whose noise alone is to be seen: two standard deviations, where a thousand trainings tell most."""
SMALL: Final = 1.0
"""The epsilon of runs that arithmetic may betray: then what is found is far beyond it."""
N: Final = 64
LONG: Final = 60_000
"""Records of data whose order is bad: the more of them, the worse."""
STEPS: Final = {"dp-sgld": 100}
"""Steps of solvers that let one choose, 4 by default; DP-SGLD has to forget its random start."""
_EQUAL: Final = ("snowball-sgd-fixed", "snowball-sgd-strong")
"""One pass with equal steps: there the last record is the one that is hidden least, once earlier noise is erased."""
_LOSSES: Final[dict[str, tuple[GeneralisedLinearLoss, float]]] = {
    "logistic": (Logistic(), 0.0),
    "softmax": (Softmax(3), 0.0),
    "huber": (Huber(), FAR),
    "smooth hinge": (SmoothedHinge(), 0.0),
}
"""Losses beside the squared one, with the target of a record whose gradient is long."""


def solver_cases(solver: str) -> Iterator[Callable[[], Case]]:
    """The cases of a solver of ``dplateau.algorithms.SOLVERS``, planned when they are called."""
    far: GeneralisedLinearLoss = Absolute() if solver == "phased-erm" else Squared()
    for adjacency in ("add-remove", "replace"):
        yield partial(_case, solver, far, one_record(N, target=FAR, adjacency=adjacency), MIDDLE, adjacency=adjacency)
    if solver in _EQUAL:
        yield partial(_erased, solver)
    if SOLVERS[solver].takes_dtype:
        yield partial(_case, solver, Logistic(), float32_order(LONG), SMALL, steps=1)
        yield partial(_case, solver, Logistic(), float32_cancellation(LONG), SMALL, steps=1)
    dtype = "float32" if SOLVERS[solver].takes_dtype else "float64"
    for made in (vanishing_norm(dtype), denormal(dtype), *([huge(dtype)] if SOLVERS[solver].takes_dtype else [])):
        yield partial(_case, solver, far, made, SMALL)


def loss_cases() -> Iterator[Callable[[], Case]]:
    """Every loss, with the solver that takes most of them."""
    for name, (loss, target) in _LOSSES.items():
        yield partial(_case, "noisy-sgd", loss, one_record(N, target=target), MIDDLE, title=f"noisy-sgd, {name}")
    for name, loss in (("hinge", Hinge()), ("absolute", Absolute())):
        made = one_record(N, target=FAR if name == "absolute" else 0.0)
        yield partial(_case, "phased-erm", loss, made, MIDDLE, title=f"phased-erm, {name}")


def _case(
    solver: str,
    loss: GeneralisedLinearLoss,
    neighbours: Neighbours,
    epsilon: float,
    *,
    adjacency: str = "add-remove",
    steps: int | None = None,
    title: str | None = None,
) -> Case:
    plan = _plan(solver, loss, neighbours.features.shape, epsilon, adjacency, steps)
    return Case(title or solver, neighbours, plan.run, partial(_weights, plan), _scores(neighbours, loss))


def _plan(
    solver: str, loss: GeneralisedLinearLoss, shape: tuple[int, ...], epsilon: float, adjacency: str, steps: int | None = None
) -> Algorithm:
    n, d = shape
    problem = Problem(n, d, loss, l2=0.1 if SOLVERS[solver].needs_l2 else 0.0)
    return SOLVERS[solver].plan(problem, Budget(epsilon, DELTA, adjacency), steps=steps or STEPS.get(solver, 4))


def _erased(solver: str) -> Case:
    """The last record of a pass in which every other row erases what noise there was."""
    plan = _plan(solver, Squared(), (N, 2), MIDDLE, "add-remove")
    last = float(np.atleast_1d(np.asarray(plan.run.step_size))[-1])
    return Case(solver, erasing(N, last), plan.run, partial(_weights, plan))


def _weights(plan: Algorithm, features: Any, target: Any, generator: Any) -> Any:
    return plan.fit(features, target, generator=generator).weights


def _scores(neighbours: Neighbours, loss: GeneralisedLinearLoss) -> dict[str, Any]:
    """The direction of the record in the weights of several scores: away from its own class."""
    if loss.outputs == 1:
        return {}
    residual = np.full(loss.outputs, 1 / loss.outputs)
    residual[int(neighbours.target[neighbours.record])] -= 1
    return {"record's direction": along(np.kron(neighbours.direction, residual / np.linalg.norm(residual)))}
