"""``plan``: which algorithm, and with what parameters, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dplateau.algorithms import (
    PNSGD,
    plan_adp_sgd,
    plan_dp_sgld,
    plan_noisy_sgd,
    plan_phased_erm,
    plan_phased_sgd,
    plan_pnsgd,
    plan_reduction,
    plan_snowball_sgd,
)
from dplateau.algorithms.constants import default_distance
from dplateau.algorithms.noisy_sgd import LARGEST_FULL_BATCH
from dplateau.algorithms.pnsgd import MOST_STEPS
from dplateau.losses import GeneralisedLinearLoss, Logistic, Softmax
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import Schedule, entries, integer, real
from dplateau.training import SecureGenerator, TrainResult


class Algorithm(Protocol):
    """What every plan of an algorithm has."""

    counts: ClassVar[str]
    """What ``progress`` is told."""

    @property
    def run(self) -> Run:
        """What it computes and releases."""
        ...

    @property
    def loss(self) -> GeneralisedLinearLoss:
        """Loss of one record."""
        ...

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        generator: SecureGenerator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry it out on records."""
        ...


@dataclass(frozen=True)
class Solver:
    """A way to train, by name: how it is planned, and what it is."""

    name: str
    title: str
    build: Callable[..., Algorithm]
    needs_l2: bool = False
    takes_steps: bool = False


def _snowball(rule: str) -> Callable[..., Algorithm]:
    def build(n: int, loss: GeneralisedLinearLoss, **options: Any) -> Algorithm:
        return plan_snowball_sgd(n, loss, rule=rule, least_batch=_least_batch(n), **options)

    return build


def _phased(build: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    def built(n: int, loss: GeneralisedLinearLoss, *, feature_norm: float, **options: Any) -> Algorithm:
        diameter = 2 * default_distance(loss, feature_norm)
        return build(n, loss, feature_norm=feature_norm, diameter=diameter, batch_size=_least_batch(n), **options)

    return built


def _phased_erm(n: int, loss: GeneralisedLinearLoss, *, feature_norm: float, **options: Any) -> Algorithm:
    del options["residual_clip"]  # It clips no gradients: its rows are short enough.
    return plan_phased_erm(n, loss, feature_norm=feature_norm, distance=default_distance(loss, feature_norm), **options)


def _least_batch(n: int) -> int:
    """At most some thousand batches: more of them are slower to certify and not better."""
    return max(1, n // MOST_STEPS)


SOLVERS: Final = {
    solver.name: solver
    for solver in (
        Solver("noisy-sgd", "Noisy-SGD with momentum and averaging", plan_noisy_sgd, takes_steps=True),
        Solver("adp-sgd", "ADP-SGD: falling steps, noise adapted to them", plan_adp_sgd, takes_steps=True),
        Solver("dp-sgld", "DP-SGLD: plain steps, only the last iterate is released", plan_dp_sgld, True, True),
        Solver("pnsgd", "one noisy pass with falling steps (PNSGD)", plan_pnsgd),
        Solver("snowball-sgd", "Snowball-SGD, falling steps (Theorem 3.6)", _snowball("falling")),
        Solver("snowball-sgd-fixed", "Snowball-SGD, equal steps (Theorem 3.5)", _snowball("fixed")),
        Solver("snowball-sgd-strong", "Snowball-SGD, strongly convex (Theorem 5.4)", _snowball("strongly-convex"), True),
        Solver("phased-sgd", "Phased-SGD (Theorem 4.4)", _phased(plan_phased_sgd)),
        Solver("phased-sgd-strong", "Phased-SGD, strongly convex (Theorem 5.3)", _phased(plan_phased_sgd), True),
        Solver("phased-erm", "Phased-ERM (Theorem 4.8)", _phased_erm),
        Solver("reduction", "Phased-SGD, repeated on parts (Theorem 5.1)", _phased(plan_reduction), True),
    )
}
"""Every algorithm that estimators know by name. Theorem numbers are those of Feldman, Koren, Talwar 2020."""
SHRINKS_EACH: Final = ("noisy-sgd", "adp-sgd")
"""Those that take an l2 coefficient for each feature."""


MOST_WEIGHTS: Final = 10_000
"""With more weights, rounding would move the last iterate by more than its bounds allow."""


def choose(n: int, d: int, loss: GeneralisedLinearLoss, *, one_pass: bool = False) -> tuple[str, str]:
    """The name of the solver for n records of d features, and why."""
    if not math.isfinite(loss.smoothness(1.0)):
        return "phased-erm", f"{type(loss).__name__} is not smooth, and Phased-ERM is the algorithm that does not need it"
    if one_pass:
        return "pnsgd", "the records are read once, and falling steps need the least noise for that"
    if n > LARGEST_FULL_BATCH and d * loss.outputs > MOST_WEIGHTS:
        return "noisy-sgd", f"{d * loss.outputs:,} weights (over {MOST_WEIGHTS:,}) are too many to certify the last iterate alone"
    if n > LARGEST_FULL_BATCH:
        return "pnsgd", f"with n = {n:,} (over {LARGEST_FULL_BATCH:,}) many passes would take minutes, and gain little"
    return "noisy-sgd", f"with n = {n:,} (at most {LARGEST_FULL_BATCH:,}) many passes cost seconds, and gain a little accuracy"


def build(
    solver: str,
    n: int,
    d: int,
    loss: GeneralisedLinearLoss,
    *,
    epsilon: float,
    delta: float,
    feature_norm: float = 1.0,
    adjacency: str = "add-remove",
    residual_clip: float | None = None,
    l2: float | Sequence[float] = 0.0,
    steps: int = 400,
) -> Algorithm:
    """The plan of the solver of that name; arguments as in ``plan``, and those of Noisy-SGD.

    Noisy-SGD and ADP-SGD take an l2 coefficient for each feature; the others take the largest for all.
    """
    if solver not in SOLVERS:
        raise InputError(f"solver is {solver!r}: expected one of auto, {', '.join(SOLVERS)}.")
    options: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "feature_norm": feature_norm,
        "adjacency": adjacency,
        "residual_clip": residual_clip,
    }
    if SOLVERS[solver].takes_steps:
        options["steps"] = steps
    if solver in SHRINKS_EACH:
        return SOLVERS[solver].build(n, loss, l2=l2, **options)
    shrinkage = float(np.max(l2))
    if SOLVERS[solver].needs_l2 and not shrinkage:
        raise InputError(f"solver {solver!r} is for strongly convex objectives: give l2 > 0, or choose another solver.")
    if f"{solver}-strong" in SOLVERS and shrinkage:
        raise InputError(f"solver {solver!r} is for objectives without an l2 term: leave out l2, or choose {solver}-strong.")
    return SOLVERS[solver].build(n, loss, d=d, **options, **({"l2": shrinkage} if shrinkage else {}))


@dataclass(frozen=True)
class Plan:
    """What to run, and why.

    Attributes
    ----------
    solver : str
        Name of the algorithm.
    algorithm : Algorithm
        Its plan; ``algorithm.fit(features, target)`` carries it out.
    epsilon, delta : float
        What it may cost, at most.
    reasons : tuple of str
        Three lines: the algorithm, its steps, its noise.
    """

    solver: str
    algorithm: Algorithm
    epsilon: float
    delta: float
    reasons: tuple[str, ...]

    @property
    def run(self) -> Run:
        """What is computed and released."""
        return self.algorithm.run

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        run = self.run
        return {
            "solver": self.solver,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "reasons": list(self.reasons),
            "steps": run.steps,
            "sampling": run.sampling.kind,
            "batch_size": _span(run.sampling.divisors(run.n)),
            "step_size": None if run.step_size is None else _span(run.step_size),
            "radius": None if run.diameter is None else run.diameter / 2,
            "noise_multiplier": _span(run.noise_multiplier),
            "clip_norm": run.clip_norm,
            "run": run.to_dict(),
        }

    def __str__(self) -> str:
        """The three lines."""
        return "\n".join(self.reasons)


def _span(values: Schedule) -> list[float]:
    """The first and the last entry of a schedule."""
    return [entries(values)[0], entries(values)[-1]]


def plan(
    n: int,
    d: int,
    epsilon: float,
    delta: float | None = None,
    *,
    loss: GeneralisedLinearLoss | None = None,
    classes: int = 2,
    feature_norm: float = 1.0,
    adjacency: str = "add-remove",
    l2: float = 0.0,
    solver: str = "auto",
    one_pass: bool = False,
) -> Plan:
    """Choose an algorithm and its parameters from public facts; it costs no privacy, and equal arguments give equal plans.

    Parameters
    ----------
    n, d : int
        Number of records and of features (an intercept is a feature).
    epsilon : float
        What the run may cost, at most.
    delta : float, optional
        By default ``min(1e-5, 1 / (10 n))``.
    loss : GeneralisedLinearLoss, optional
        Loss of one record, by default logistic.
    classes : int, default 2
        Number of classes where no loss is given: logistic for two, softmax for more.
    feature_norm : float, default 1.0
        Public bound on the Euclidean norm of every row.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        What neighbouring data sets are; see ``Run``.
    l2 : float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss.
    solver : str, default "auto"
        A name from ``dplateau.planning.SOLVERS``, or "auto".
    one_pass : bool, default False
        Whether the records can be read only once.

    Returns
    -------
    Plan
        ``print(plan)`` says in three lines what was chosen and why; ``plan.algorithm.fit(features, target)`` trains.

    Raises
    ------
    InputError
        An argument is out of range, or the solver does not fit the loss.

    Examples
    --------
    >>> import dplateau as dp
    >>> print(dp.plan(1_000_000, 100, epsilon=1.0))
    pnsgd: with n = 1,000,000 (over 524,288) many passes would take minutes, and gain little.
    4,096 steps of 244 to 245 records, step size 8 falling to 0.00195.
    Noise of 0.104 to 4.68 clip norms (0.5) on a sum; alone it would move a score by at most 0.0611.
    """
    n, d = integer("n", n), integer("d", d)
    delta = min(1e-5, 1 / (10 * n)) if delta is None else delta
    if loss is None:
        loss = Logistic() if integer("classes", classes, low=2) == 2 else Softmax(classes)
    if solver == "auto":
        solver, why = choose(n, d, loss, one_pass=one_pass)
    else:
        why = "asked for by name"
    made = build(
        solver,
        n,
        d,
        loss,
        epsilon=real("epsilon", epsilon),
        delta=delta,
        feature_norm=real("feature_norm", feature_norm),
        adjacency=adjacency,
        l2=l2,
    )
    if one_pass and not isinstance(made, PNSGD):
        raise InputError(f"solver {solver!r} reads records more than once or keeps them: for one pass use pnsgd or snowball-sgd.")
    return Plan(solver, made, epsilon, delta, (f"{solver}: {why}.", _steps(made.run), _noise(made.run, feature_norm)))


def _steps(run: Run) -> str:
    first, last = _span(run.sampling.divisors(run.n))
    what = "phases" if run.is_phased else "steps"
    batches = "all records" if run.is_full_batch else f"{_between(first, last, ',.0f')} records"
    eta = _span(run.step_size or 0.0)
    size = f"step size {eta[0]:.3g}" + ("" if eta[0] == eta[1] else f" falling to {eta[1]:.3g}")
    radius = "" if run.diameter is None else f", weights within {run.diameter / 2:g}"
    return f"{run.steps:,} {what} of {batches}, {size}{radius}."


def _noise(run: Run, feature_norm: float) -> str:
    first, last = _span(run.noise_multiplier)
    if run.is_phased:
        return f"Noise of {_between(first, last)} times what one record can move the result of a phase."
    eta, z, b = (
        np.broadcast_to(np.asarray(value, dtype=float), run.steps)
        for value in (run.step_size, run.noise_multiplier, run.sampling.divisors(run.n))
    )
    moved = run.clip_norm * feature_norm * float(np.sqrt(np.sum((eta * z / b) ** 2)))
    score = f"; alone it would move a score by at most {moved:.3g}" if run.update == "sgd" else ""
    return f"Noise of {_between(first, last)} clip norms ({run.clip_norm:.3g}) on a sum{score}."


def _between(first: float, last: float, form: str = ".3g") -> str:
    a, b = format(first, form), format(last, form)
    return a if a == b else f"{a} to {b}"
