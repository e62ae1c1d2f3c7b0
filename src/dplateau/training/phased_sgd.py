"""Phased-SGD's phases: one noiseless pass of projected gradient steps, then noise on the mean iterate.

In the step that uses a record, its presence moves the iterate by at most ``step_size * clip_norm / b``; no later step, of size at
most 2 / smoothness, moves two iterates further apart, nor does a mean of them (``docs/proofs/localisation.md``).

**Arithmetic.** In floating point every step misses its exact map by a few units in the last place of the weights, and by d of them
where d terms are added up. ``_round_off`` bounds that from public numbers alone. Twice its sum over the steps, and what rounding to
the noise's grid adds, is taken off the clip norm, so that the *computed* results have the sensitivity that the ``Run`` states.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run, Training
from dplateau.spec.arguments import integer, one_of
from dplateau.spec.assumption import InnerSteps
from dplateau.training.checks import check_curvature, checked_l2, checked_start
from dplateau.training.errors import TooCoarse, TrainingDiverged, uninterrupted
from dplateau.training.exact_products import check_products
from dplateau.training.noise import SecureGenerator
from dplateau.training.output_noise import OutputNoise, output_noise
from dplateau.training.persons import MOST_ROWS, check_most_rows
from dplateau.training.phases import (
    EPS,
    Phase,
    Records,
    checked_phases,
    checked_records,
    gradient_round_off,
    phase_assumptions,
    projected,
)
from dplateau.training.result import TrainResult

WEIGHTINGS: Final = ("uniform", "growing")
_LARGEST_MARGIN: Final = 0.1
_STEPS: Final = 1 << 16
"""Steps between two looks at the keyboard."""
_BLOCK: Final = 256
"""Rows of persons that are added up at once."""


class Data(NamedTuple):
    """The rows: ``features`` (N, d), ``target`` (N,) and ``largest`` (N,), the residual norm that each is clipped to."""

    features: Any
    target: Any
    largest: Any


class People(NamedTuple):
    """Where the rows of each person begin, (n + 1,), and the share of each row of its person, (N,)."""

    starts: Any
    share: Any


def clipped_sum(loss: GeneralisedLinearLoss, weights: jax.Array, data: Data, share: Any = 1.0) -> jax.Array:
    """Sum over the examples of their clipped gradients times ``share``, in two matrix products."""
    dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)
    residual = loss.residual(dot(data.features, weights), data.target)
    factor = jnp.minimum(1, data.largest / loss.residual_norm(residual)) * share
    return dot((residual.T * factor), data.features).T


def train_phased_sgd(
    run: Run,
    loss: GeneralisedLinearLoss,
    features: ArrayLike,
    target: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    batch_size: int = 1,
    weighting: str = "uniform",
    start: ArrayLike | None = None,
    generator: SecureGenerator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainResult:
    """Carry out a run whose update is "phased-sgd", in double precision.

    Parameters
    ----------
    run : Run
        One step a phase; with ``smoothness`` and ``diameter``. Every inner step adds ``run.l2 * weights`` to the mean gradient.
    loss : GeneralisedLinearLoss
        Loss of one example.
    features, target : array of shape (n, d), (n,)
        The records; private. The order must be public, and random where the theorems on utility are to apply.
    groups : array of shape (rows,), optional
        For a run with ``unit="person"``: whose each row is; see ``dplateau.training.train``.
    batch_size : int, default 1
        b: records of one inner step. A phase of k records has ceil(k / b) points; its last batch, whole or not, makes no new one.
    weighting : {"uniform", "growing"}, default "uniform"
        Whether a phase's result is the plain mean of the points at which it took gradients, or point t counts as
        ``(1 - step_size * l2)^-t``.
    start : array of shape (d,) or (d, K), optional
        First point; public. Zero by default.
    generator : SecureGenerator, optional
        Source of the noise; by default a new one with a key from the operating system.
    progress : callable, optional
        Called with the points done and their total.

    Raises
    ------
    InputError
        The arguments do not fit each other, the run states a smoothness or convexity that the rows do not have, or rounding would
        take more than a tenth of the clip norm.
    TrainingInterrupted
        By the keyboard. Nothing is released.
    """
    phases, b = checked_phases(run, "phased-sgd", loss, generator, progress), integer("batch_size", batch_size)
    _check_plan(run, loss, phases, b, weighting)
    records = checked_records(run, loss, features, target, groups)
    check_most_rows(int(np.diff(records.starts).max()))
    shape, longest = loss.weights_shape(records.rows.shape[1]), float(records.norms.max())
    first = checked_start(run, start, shape)
    outputs = [phase_noise(run, loss, phase, b, shape) for phase in phases]
    clips = [clip for clip, _ in outputs]
    check_products(_products(shape[0], math.prod(shape[1:]), b, records.share is not None))
    check_curvature(run, loss, min(clips), longest, checked_l2(run.l2, shape[0]))
    _check_contraction(run, loss, phases, longest)
    generator = SecureGenerator() if generator is None else generator
    total = sum(-(-phase.size // b) for phase in phases)

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total)

    def all_phases() -> NDArray[np.float64]:
        weights, done = first, 0
        data, people = _on_device(records)
        for phase, (clip, noise) in zip(phases, outputs, strict=True):
            points, carry = -(-phase.size // b), (weights, weights)
            numbers = (phase.first, phase.step_size, clip, run.l2, (run.diameter or 0.0) / 2)
            for begin in range(1, points, _STEPS):  # the gradient at the last point would enter no point
                report(done + begin - 1)
                ends = begin, min(begin + _STEPS, points)
                made = _steps(*carry, data, people, *ends, numbers, loss=loss, batch=b, growing=weighting == "growing")
                carry = jax.block_until_ready(made)
            mean = np.array(carry[1])
            if not np.isfinite(mean).all():
                raise TrainingDiverged("the weights are no longer finite: nothing was released.")
            weights = projected(noise.add(mean, generator), run.diameter)
            done += points
            report(done)
        return weights

    weights = uninterrupted(all_phases)
    held = phase_assumptions(run, generator, InnerSteps(clip_norm=run.clip_norm, batch_size=b))
    return TrainResult(weights, run, held, generator.source, "float64", training=Training.PHASES)


def phase_noise(
    run: Run, loss: GeneralisedLinearLoss, phase: Phase, batch_size: int, shape: tuple[int, ...]
) -> tuple[float, OutputNoise]:
    """What gradients are clipped to in a phase, and the noise on its result.

    Raises
    ------
    InputError
        Rounding would take more than a tenth of the clip norm.
    """
    unit = phase.step_size / batch_size
    noise = output_noise(phase.noise_multiplier * unit * run.clip_norm, 2 * (run.diameter or 0.0))
    moved = 2 * -(-phase.size // batch_size) * _round_off(run, loss, phase.step_size, batch_size, shape)
    margin = (moved + noise.margin(math.prod(shape))) / unit + (shape[0] + 8) * EPS * run.clip_norm
    if not margin <= _LARGEST_MARGIN * run.clip_norm:
        raise TooCoarse(
            f"rounding would take more than a tenth of clip_norm in a phase of {phase.size} records with step_size "
            f"{phase.step_size:.3g}: use fewer phases, larger steps, a smaller diameter or fewer weights."
        )
    return run.clip_norm - margin, noise


def _round_off(run: Run, loss: GeneralisedLinearLoss, step_size: float, batch_size: int, shape: tuple[int, ...]) -> float:
    """Most by which one computed step, and the mean that it enters, miss the exact ones, from public numbers alone.

    The step, the projection and the mean cost some units in the last place of the weights, the norm one a coordinate.
    """
    radius, smoothness = (run.diameter or 0.0) / 2, (run.smoothness or 0.0) - run.l2
    terms = batch_size * (MOST_ROWS + 8 if run.unit == "person" else 1)
    gradient = gradient_round_off(loss, smoothness, run.clip_norm, radius=radius, features=shape[0], terms=terms)
    units = (math.prod(shape) + 24) * radius + 4 * step_size * (run.clip_norm + run.l2 * radius)
    return step_size * gradient + EPS * units


def _products(features: int, outputs: int, batch_size: int, persons: bool) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of the matrices of a step: ``_round_off`` holds where their products are those of double precision."""
    rows = _BLOCK if persons else batch_size
    return {((rows, features), (features, outputs)), ((outputs, rows), (rows, features))}


def _check_plan(run: Run, loss: GeneralisedLinearLoss, phases: list[Phase], batch_size: int, weighting: str) -> None:
    if not math.isfinite(loss.smoothness(1.0)):
        raise InputError(f"{type(loss).__name__} is not smooth, so gradient steps are not contractions: use Phased-ERM.")
    if run.diameter is None:
        raise InputError("the run has no diameter: Phased-SGD projects its iterates on a ball, state its diameter.")
    if batch_size > (least := min(phase.size for phase in phases)):
        raise InputError(f"batch_size {batch_size} exceeds the smallest phase of {least} records: lower it or use fewer phases.")
    one_of("weighting", weighting, WEIGHTINGS)
    if (run.smoothness or 0.0) <= run.l2:
        raise InputError(f"smoothness {run.smoothness:g} leaves nothing for the loss beside l2 {run.l2:g}: state their sum.")
    if weighting == "growing" and not 0 < max(phase.step_size for phase in phases) * run.l2 < 1:
        raise InputError("growing weights need l2 > 0 and step_size * l2 < 1: use weighting='uniform'.")


def _check_contraction(run: Run, loss: GeneralisedLinearLoss, phases: list[Phase], largest_row: float) -> None:
    """The smoothness that the rows have, without any slack, keeps the largest step a contraction."""
    largest = max(phase.step_size for phase in phases)
    if not largest * (loss.smoothness(largest_row) + run.l2) * (1 + 1e-9) <= 2:
        raise InputError(f"step_size {largest:g} is 2/smoothness, and rounding makes some row less smooth: lower it by a little.")


def _on_device(records: Records) -> tuple[Data, People | None]:
    """The rows on the device; those of persons with a block of others at the end, because the loop reads that far."""
    columns = records.rows, records.target, 1 / records.norms
    if records.share is None:
        return Data(*map(jax.device_put, columns)), None
    *columns, share = (np.concatenate([one, np.zeros((_BLOCK, *one.shape[1:]))]) for one in (*columns, records.share))
    return Data(*map(jax.device_put, columns)), People(jax.device_put(records.starts), jax.device_put(share))


def _sum_of_persons(
    loss: GeneralisedLinearLoss, weights: jax.Array, data: Data, share: Any, first: Any, last: Any, clip: Any
) -> jax.Array:
    """The sum over persons of the means of the clipped gradients of their rows, which stand from ``first`` to ``last``."""

    def body(k: jax.Array, total: jax.Array) -> jax.Array:
        begin = first + k * _BLOCK
        rows, target, largest, each = (jax.lax.dynamic_slice_in_dim(one, begin, _BLOCK) for one in (*data, share))
        mine = jnp.arange(_BLOCK) < last - begin
        # Whatever other rows hold, not even a number, must not count.
        used = Data(jnp.where(mine[:, None], rows, 0), jnp.where(mine, target, 0), clip * jnp.where(mine, largest, 1))
        return total + clipped_sum(loss, weights, used, jnp.where(mine, each, 0))

    return jax.lax.fori_loop(0, -((first - last) // _BLOCK), body, jnp.zeros_like(weights))


@partial(jax.jit, static_argnames=("loss", "batch", "growing"))
def _steps(
    weights: jax.Array,
    mean: jax.Array,
    data: Data,
    people: People | None,
    begin: int,
    end: int,
    numbers: tuple[Any, ...],
    *,
    loss: GeneralisedLinearLoss,
    batch: int,
    growing: bool,
) -> tuple[jax.Array, jax.Array]:
    """Points ``begin`` to ``end`` of a phase, and the mean of all points up to there."""
    first, step_size, clip, l2, radius = numbers

    def body(point: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        weights, mean = carry
        used = first + (point - 1) * batch
        if people is None:
            rows = Data(*(jax.lax.dynamic_slice_in_dim(column, used, batch) for column in data))
            total = clipped_sum(loss, weights, rows._replace(largest=clip * rows.largest))
        else:
            total = _sum_of_persons(loss, weights, data, people.share, people.starts[used], people.starts[used + batch], clip)
        weights = weights - step_size * (total / batch + l2 * weights)
        weights = weights * jnp.minimum(1, radius / jnp.linalg.norm(weights))
        count = point + 1
        # The weight of a point over the sum of all weights up to its own.
        share = jnp.minimum(1, -l2 * step_size / jnp.expm1(count * jnp.log1p(-l2 * step_size))) if growing else 1 / count
        return weights, mean + share * (weights - mean)

    return jax.lax.fori_loop(begin, end, body, (weights, mean))
