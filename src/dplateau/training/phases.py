"""What the phases of Phased-SGD and Phased-ERM share: their records, their order, what their guarantee rests on."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Assumption, InputError, Run
from dplateau.spec.assumption import Arithmetic, Rounding
from dplateau.training.checks import check_helpers, check_is_run, check_loss, checked_data
from dplateau.training.noise import SecureGenerator
from dplateau.training.persons import persons_of
from dplateau.training.result import shared_assumptions, stated_assumptions

EPS: Final = float(np.finfo("float64").eps)
TINY: Final = 1e-150
"""Squares of smaller entries underflow; nothing may exceed its inverse."""


class Phase(NamedTuple):
    """One phase: it uses ``size`` records from number ``first`` on."""

    first: int
    size: int
    step_size: float
    noise_multiplier: float


def checked_phases(
    run: Run, update: str, loss: GeneralisedLinearLoss, generator: SecureGenerator | None, progress: object
) -> list[Phase]:
    """The phases of a run; raises ``InputError`` unless what they are to be carried out with is what it must be."""
    check_is_run(run)
    check_loss(loss)
    check_helpers(generator, progress)
    return phases_of(run, update)


def phases_of(run: Run, update: str) -> list[Phase]:
    """The phases of a run in their order; raises ``InputError`` unless its update is ``update``."""
    if run.update != update:
        raise InputError(f"the run's update is {run.update!r}: expected {update!r}.")
    steps = run.table.written()
    sizes = [int(size) for size in steps.size]
    firsts = accumulate(sizes, initial=0)
    return [Phase(*one) for one in zip(firsts, sizes, steps.step_size.tolist(), steps.noise.tolist(), strict=False)]


class Records(NamedTuple):
    """The records in their order: ``rows`` (N, d), ``target`` (N,) and ``norms`` (N,), of which no row is longer; those of record i
    stand from ``starts[i]`` to ``starts[i + 1]``, each with its ``share`` (N,) of its record, None where each is one.
    """

    rows: NDArray[np.float64]
    target: NDArray[np.float64]
    norms: NDArray[np.float64]
    starts: NDArray[np.int64]
    share: NDArray[np.float64] | None

    def of(self, phase: Phase) -> slice:
        """The rows of a phase."""
        return slice(int(self.starts[phase.first]), int(self.starts[phase.first + phase.size]))


def checked_records(
    run: Run, loss: GeneralisedLinearLoss, features: ArrayLike, target: ArrayLike, groups: ArrayLike | None
) -> Records:
    """The records of a run, of persons where ``groups`` say whose each row is, in double precision.

    Raises
    ------
    InputError
        See ``checked_data`` and ``persons_of``; or some norm, or some target, is beyond the range in which squares can be trusted.
    """
    rows, labels = checked_data(run, loss, features, target)
    persons = persons_of(run, groups, len(rows))
    if persons is not None:
        rows, labels = rows[persons.order], labels[persons.order]
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    if not np.isfinite(norms).all():
        raise InputError("some row of features is longer than 1e154: squares overflow. Clip all rows to a public norm.")
    if (abs(labels) > 1 / TINY).any():
        raise InputError(f"the target has values beyond {1 / TINY:g}: clip it to a declared range.")
    norms = norms + math.sqrt(rows.shape[1]) * TINY  # squares of tiny entries underflow
    if persons is None:
        return Records(rows, labels, norms, np.arange(len(rows) + 1), None)
    return Records(rows, labels, norms, persons.starts, persons.shares())


def gradient_round_off(
    loss: GeneralisedLinearLoss, smoothness: float, clip_norm: float, *, radius: float, features: int, terms: int
) -> float:
    """Most by which a computed mean gradient at weights of norm ``radius`` misses the exact one, from public numbers alone.

    Scores are sums of as many products as there are features and turn into an error of the gradient by the smoothness; residuals
    have the error that their loss states; ``terms`` is the number of additions that a record's gradient goes through.
    """
    row = loss.longest_row(smoothness)
    steepest = loss.lipschitz(row)
    steepest = max(clip_norm, steepest) if math.isfinite(steepest) else clip_norm
    units = (features + 16) * smoothness * (radius + 1 / row) + (terms + loss.outputs + 32) * steepest
    return EPS * units + row * loss.residual_error


def projected(weights: NDArray[np.float64], diameter: float | None) -> NDArray[np.float64]:
    """The nearest point of the ball of ``diameter`` around zero; None means no ball."""
    norm = float(np.linalg.norm(weights))
    return weights if diameter is None or norm <= diameter / 2 else weights * (diameter / 2 / norm)


def phase_assumptions(run: Run, generator: SecureGenerator, sensitivity: Assumption) -> tuple[Assumption, ...]:
    """What the guarantee rests on; ``sensitivity`` says how a phase's sensitivity was made true."""
    rounding = Arithmetic(rounding=Rounding.BOUNDED)
    return *shared_assumptions(run, generator), sensitivity.enforced(), rounding.enforced(), *stated_assumptions(run)
