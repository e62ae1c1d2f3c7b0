"""Phased-ERM's phases: the minimiser of a regularised mean loss, certified, then noise.

Phase i minimises ``(1/n_i) sum f(w, x) + |w - start|^2 / (eta_i n_i) + l2 |w|^2 / 2`` over all of space. With the squares
completed that is a regulariser of strength ``2 / (eta_i n_i) + l2`` around one public centre. The presence of a record moves the
minimiser by at most ``L / (strength n_i)``, the point that is returned by twice its inaccuracy more
(``docs/proofs/localisation.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import CornerLoss, GeneralisedLinearLoss
from dplateau.spec import InputError, Run, Training
from dplateau.spec.arguments import real
from dplateau.spec.assumption import Minimisers
from dplateau.training.checks import checked_start
from dplateau.training.corner_erm import corner_minimiser
from dplateau.training.errors import TooCoarse, uninterrupted
from dplateau.training.noise import SecureGenerator
from dplateau.training.output_noise import OutputNoise, output_noise
from dplateau.training.phases import EPS, Phase, checked_phases, checked_records, phase_assumptions, projected
from dplateau.training.regularised_erm import Problem, smooth_minimiser
from dplateau.training.result import TrainResult


class Setting(NamedTuple):
    """A phase from its start: the regulariser, the distance from the minimiser that is to be certified, the noise."""

    centre: NDArray[np.float64]
    strength: float
    distance: float
    noise: OutputNoise


def train_phased_erm(
    run: Run,
    loss: GeneralisedLinearLoss,
    features: ArrayLike,
    target: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    accuracy: float = 1e-3,
    start: ArrayLike | None = None,
    generator: SecureGenerator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainResult:
    """Carry out a run whose update is "phased-erm", in double precision.

    Parameters
    ----------
    run : Run
        One step a phase; ``clip_norm`` is the Lipschitz constant of the losses, which rows must keep to: nothing is clipped. With a
        ``diameter``, noisy results are projected on the ball, which is post-processing.
    loss : GeneralisedLinearLoss
        Loss of one example: convex, Lipschitz; smooth, or with one corner.
    features, target : array of shape (n, d), (n,)
        The records; private. The order must be public, and random where the theorems on utility are to apply.
    groups : array of shape (rows,), optional
        For a run with ``unit="person"``: whose each row is; see ``dplateau.training.train``.
    accuracy : float, default 1e-3
        Inaccuracy of a phase in units of half of what the presence of a record can move its minimiser: the noise grows by this
        share.
    start : array of shape (d,) or (d, K), optional
        First point; public. Zero by default.
    generator : SecureGenerator, optional
        Source of the noise; by default a new one with a key from the operating system.
    progress : callable, optional
        Called with the phases done and their total.

    Raises
    ------
    InputError
        The arguments do not fit each other, some row is too long, or rounding would take more than half of the inaccuracy.
    TrainingDiverged
        A phase could not be certified to its accuracy. Nothing is released.
    TrainingInterrupted
        By the keyboard. Nothing is released.
    """
    phases, share = checked_phases(run, "phased-erm", loss, generator, progress), real("accuracy", accuracy, high=1.0)
    if not isinstance(loss, CornerLoss) and not math.isfinite(loss.smoothness(1.0)):
        raise InputError(f"{type(loss).__name__} is neither smooth nor a loss with one corner: no solver certifies it.")
    records = checked_records(run, loss, features, target, groups)
    _check_records(run, loss, float(records.norms.max()))
    first = checked_start(run, start, loss.weights_shape(records.rows.shape[1]))
    generator = SecureGenerator() if generator is None else generator

    def all_phases() -> NDArray[np.float64]:
        weights = first
        for done, phase in enumerate(phases):
            if progress is not None:
                progress(done, len(phases))
            used, setting = records.of(phase), phase_setting(run, phase, weights, share)
            rows, labels, norms = (column[used] for column in records[:3])
            weight = None if records.share is None else records.share[used] * (len(rows) / phase.size)
            problem = Problem(rows, norms, labels, setting.centre, setting.strength, weight)
            minimiser = corner_minimiser if isinstance(loss, CornerLoss) else smooth_minimiser
            found = minimiser(loss, problem, setting.distance)  # type: ignore[arg-type]
            weights = projected(setting.noise.add(found.weights, generator), run.diameter)
        if progress is not None:
            progress(len(phases), len(phases))
        return weights

    weights = uninterrupted(all_phases)
    held = phase_assumptions(run, generator, Minimisers(clip_norm=run.clip_norm, accuracy=share))
    return TrainResult(weights, run, held, generator.source, "float64", training=Training.PHASES)


def phase_setting(run: Run, phase: Phase, start: NDArray[np.float64], accuracy: float) -> Setting:
    """What a phase computes from a public start.

    Raises
    ------
    InputError
        Rounding would take more than half of the inaccuracy.
    """
    pull = 2 / (phase.step_size * phase.size)
    strength = pull + run.l2
    centre = start * (pull / strength)
    moved = run.clip_norm / (strength * phase.size)
    inaccuracy = accuracy * moved / 2
    farthest = float(np.linalg.norm(centre)) + run.clip_norm / strength + inaccuracy
    noise = output_noise(phase.noise_multiplier * (moved + 2 * inaccuracy), farthest)
    # Rounding to the grid, of the row norms that bound the losses' slopes, of the weights of persons' rows, of the numbers above.
    lost = noise.margin(start.size) / 2 + EPS * ((len(start) + 16) * moved + 2 * farthest)
    if not lost <= inaccuracy / 2:
        raise TooCoarse(
            f"rounding would take more than half of the inaccuracy of a phase of {phase.size} records with step_size "
            f"{phase.step_size:.3g}: raise accuracy, or use fewer phases."
        )
    return Setting(centre, strength, inaccuracy - lost, noise)


def _check_records(run: Run, loss: GeneralisedLinearLoss, largest: float) -> None:
    if loss.lipschitz(largest) > run.clip_norm:
        raise InputError(
            f"some row is too long for losses that are {run.clip_norm:g}-Lipschitz: clip all rows to a public norm R with "
            f"{type(loss).__name__}.lipschitz(R) <= clip_norm."
        )
    if run.smoothness is not None and loss.smoothness(largest) + run.l2 > run.smoothness * (1 + 1e-12):
        raise InputError(f"some row is too long for the run's smoothness {run.smoothness:g}: leave it out, or clip all rows.")
    if run.strong_convexity is not None and run.strong_convexity > run.l2:
        raise InputError(f"strong_convexity {run.strong_convexity:g} exceeds l2 {run.l2:g}: only the l2 term is known to have any.")
