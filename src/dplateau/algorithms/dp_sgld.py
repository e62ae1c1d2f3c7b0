"""DP-SGLD: plain noisy gradient steps on an l2-regularised loss, of which the last iterate is released.

Source: Ryffel, Bach, Pointcheval, "Differential privacy guarantees for stochastic gradient Langevin dynamics" (2022), Algorithm 1
and section 3.1, with noise that is calibrated and certified here. The published noise is not enough for minibatches
(``printed_dp_sgld``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.noise_allocation import adapted_noise
from dplateau.algorithms.noisy_sgd import usual_batch
from dplateau.algorithms.problem import Budget, Problem
from dplateau.algorithms.solver import FitOptions
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import FixedSize, FullBatch, InputError, Run, Sampling, per_step
from dplateau.spec.arguments import array_of, integer, of_type, real
from dplateau.spec.schedule import Schedule, check_length, entries, is_constant, largest, schedule
from dplateau.training import SecureGenerator, TrainResult, train
from dplateau.training.checks import check_helpers
from dplateau.training.loop import arithmetic_of
from dplateau.training.phases import projected
from dplateau.utility.dp_sgld_settings import (
    langevin_noise,
    langevin_step_sizes,
    langevin_steps,
    langevin_steps_decaying,
    regularised_radius,
)

STEPS: Final = ("constant", "decaying")


@dataclass(frozen=True)
class DPSGLD:
    """A plan of DP-SGLD: everything about a training run except the records.

    Parameters
    ----------
    run : Run
        What is computed and released. The variance of the noise in the iterate is ``2 step_size_t s^2``, with one s for all steps.
    loss : GeneralisedLinearLoss
        Loss of one record.
    l2 : float
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss.
    """

    progress_unit: ClassVar[str] = "steps"
    """What ``progress`` counts."""

    run: Run
    loss: GeneralisedLinearLoss
    l2: float

    @property
    def noise(self) -> float:
        """s: the iterate of step t gets noise of standard deviation ``sqrt(2 step_size_t) s`` in every coordinate."""
        run = self.run
        eta, z, b = (first(value) for value in (run.step_size, run.noise_multiplier, run.sampling.divisors(run.n)))
        return math.sqrt(eta / 2) * z * run.clip_norm / b

    def start(self, shape: tuple[int, ...], generator: SecureGenerator) -> NDArray[np.float64]:
        """A random start: ``N(0, 2 s^2 / l2)`` in every coordinate, projected. No record influences it."""
        values = math.sqrt(2 / self.l2) * self.noise * generator.normal(shape)
        # A little inside, so that rounding does not put it outside.
        return projected(values, None if self.run.diameter is None else self.run.diameter * (1 - 1e-9))

    def check_arithmetic(self, d: int) -> None:
        """Raise ``TooCoarse`` where rounding would be too much with d features."""
        arithmetic_of(self.run, self.loss, np.array([self.l2]), 0.0, np.zeros(self.loss.weights_shape(d)))

    def fit(self, features: ArrayLike, target: ArrayLike, **options: Unpack[FitOptions]) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.train``."""
        check_helpers(options.get("generator"), options.get("progress"))
        generator = options["generator"] = options.get("generator") or SecureGenerator()
        columns = array_of("features", features).shape[1:]
        start = self.start(columns if self.loss.outputs == 1 else (*columns, self.loss.outputs), generator)
        return train(self.run, self.loss, features, target, l2=self.l2, dtype="float64", start=start, **options)


@also_by_keywords("n", "loss")
def plan_dp_sgld(
    problem: Problem,
    budget: Budget,
    *,
    steps: int | None = None,
    batch_size: int | None = None,
    step_size: str | float | Sequence[float] = "constant",
    radius: float | None = None,
    sampling: Sampling | None = None,
) -> DPSGLD:
    """Plan DP-SGLD. It uses no private data, and is deterministic.

    The algorithm is the published one: a Gaussian start, steps ``1 / (2 M)`` or ``1 / (2 M + l2 t / 2)`` at the smoothness M of the
    regularised loss, projection on a ball that contains the minimum, whatever the records. The noise is ours: the least that
    reaches epsilon by any bound that is proved. M comes from ``feature_norm``, never from the records, as the paper's Lemma 5.1
    has it.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent. The l2 coefficient m must be above 0: it makes the objective strongly convex.
    steps : int, optional
        K, by default that of Theorem 4.2 (constant steps) or 4.4 (decaying ones), which can be many; see ``dplateau.utility``.
    batch_size : int, optional
        Batches of this size are drawn without replacement in every step; ``n``, and the default up to 2^19 records, means full
        batches.
    step_size : {"constant", "decaying"}, float or sequence of float, default "constant"
        eta: by name, or the sizes themselves, at most ``2 / M``.
    radius : float, optional
        Of the ball around zero that iterates are projected on; by default the lesser of ``sqrt(F(0) / l2)`` and ``c R / l2``, with
        F(0) the largest loss at zero scores.
    sampling : Sampling, optional
        How batches are chosen, in place of ``batch_size``: cyclic or shuffled batches, say.

    Raises
    ------
    InputError
        An argument is out of range, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_dp_sgld(Problem(32_561, 124, Logistic(), l2=1e-3), Budget(epsilon=1.0, delta=1e-5), steps=2_000)
    >>> plan.run.sampling, plan.run.released, round(plan.run.step_size, 3), round(plan.run.diameter / 2, 2)
    (FullBatch(), 'last', 1.992, 26.33)
    """
    n, loss, once = problem.n, problem.loss, real("l2", problem.largest_l2)
    if sampling is None:
        size = usual_batch(n) if batch_size is None else integer("batch_size", batch_size)
        sampling = FullBatch() if size == n else FixedSize(size)
    elif batch_size is not None:
        raise InputError("sampling and batch_size are both given: give one of them.")
    clip, smoothness = problem.contraction()
    if steps is None:
        count = langevin_steps_decaying if step_size == "decaying" else langevin_steps
        steps = count(n, problem.weights, budget.epsilon, budget.delta, smoothness, once)
    eta = _sizes(step_size, integer("steps", steps), smoothness, once)
    if radius is None:
        radius = regularised_radius(clip, once, loss.at_zero) if math.isfinite(loss.at_zero) else clip / once
    run = Run(
        n=n,
        sampling=sampling,
        steps=steps,
        noise_multiplier=_noise(sampling, eta, n, steps),
        clip_norm=clip,
        step_size=eta,
        smoothness=smoothness,
        strong_convexity=once,
        l2=once,
        diameter=2 * real("radius", radius),
        adjacency=budget.adjacency,
        unit=problem.unit,
        released="last",
    )
    return DPSGLD(budget.calibrated(run), loss, once)


def _sizes(step_size: str | float | Sequence[float], steps: int, smoothness: float, l2: float) -> Schedule:
    if not isinstance(step_size, str):
        sizes = schedule("step_size", step_size)
        check_length("step_size", sizes, steps)
        if (longest := largest(sizes)) * smoothness > 2:
            raise InputError(
                f"step_size {longest:g} exceeds 2/smoothness = {2 / smoothness:g}: such steps are not contractions. Lower it."
            )
        return sizes
    if step_size not in STEPS:
        raise InputError(f"step_size is {step_size!r}: expected one of {', '.join(STEPS)}, or numbers.")
    return 1 / (2 * smoothness) if step_size == "constant" else tuple(langevin_step_sizes(steps, smoothness, l2).tolist())


def _noise(sampling: Sampling, eta: Schedule, n: int, steps: int) -> Schedule:
    """Noise multipliers, up to a factor, for which the variance of the iterate's noise is proportional to the step size."""
    if not is_constant(sampling.divisors(n)):
        raise InputError("DP-SGLD needs batches of one size: give the sampling one batch_size.")
    return 1.0 if is_constant(eta) else adapted_noise(per_step(eta, steps))


def printed_dp_sgld(run: Run, epsilon: float, delta: float) -> Run:
    """The run with the noise of Theorems 4.2 and 4.4 as printed, for the replacement of a record. **Refuted** for minibatches.

    ``s^2 = 8 L^2 (epsilon + 2 log(1 / delta)) / (epsilon^2 m n^2)``. With full batches this costs at most epsilon, whatever the
    number of steps; with minibatches it may cost many times more. ``dplateau.account`` says what.

    Parameters
    ----------
    run : Run
        As ``plan_dp_sgld`` makes it; its noise is not used.
    epsilon, delta : float
        What is claimed.

    Returns
    -------
    Run
        To be shown, not to be run on private records.

    Source: Ryffel, Bach, Pointcheval 2022, Theorems 4.2, 4.4.
    """
    of_type("run", run, Run)
    if not run.strong_convexity or run.step_size is None:
        raise InputError("the theorems are for strongly convex losses: state strong_convexity and step_size.")
    s = langevin_noise(run.n, epsilon, delta, run.clip_norm, run.strong_convexity)
    eta, b = np.asarray(run.step_size, dtype=float), first(run.sampling.divisors(run.n))
    z = s * np.sqrt(2 / eta) * b / run.clip_norm
    return run.replace(noise_multiplier=tuple(z.tolist()) if z.ndim else float(z))


def first(values: Schedule | None) -> float:
    """The first entry of a schedule."""
    return float(entries(values or 0.0)[0])
