"""``plan``: which algorithm, and with what parameters, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from dplateau.algorithms import SOLVERS as SOLVERS
from dplateau.algorithms import Algorithm, Budget, Problem, solver_named
from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.noisy_sgd import LARGEST_FULL_BATCH
from dplateau.algorithms.pnsgd import plan_pnsgd
from dplateau.losses import GeneralisedLinearLoss, Logistic, Softmax
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import boolean, integer
from dplateau.spec.promise import usual_delta, warn_if_weak
from dplateau.spec.schedule import Schedule, entries, largest, smallest
from dplateau.training.errors import TooCoarse

MOST_WEIGHTS: Final = 10_000
"""With more weights, rounding would move the last iterate by more than its bounds allow."""


def passes_once(problem: Problem, budget: Budget) -> bool:
    """Whether arithmetic is exact enough to certify the last iterate of a single pass."""
    if problem.weights > MOST_WEIGHTS or not math.isfinite(problem.smoothness):
        return False
    try:
        plan_pnsgd(problem, budget).check_arithmetic(problem.d)
    except TooCoarse:
        return False
    return True


def choose(problem: Problem, budget: Budget, *, one_pass: bool = False) -> tuple[str, str]:
    """The name of the solver for a problem, and why."""
    n, weights, loss = problem.n, problem.weights, problem.loss
    if not math.isfinite(problem.smoothness):
        return "phased-erm", f"{type(loss).__name__} is not smooth, and Phased-ERM is the algorithm that does not need it"
    if one_pass:
        return "pnsgd", "the records are read once, and falling steps need the least noise for that"
    if n <= LARGEST_FULL_BATCH:
        return "noisy-sgd", f"with n = {n:,} (at most {LARGEST_FULL_BATCH:,}) many passes cost seconds, and gain a little accuracy"
    if weights > MOST_WEIGHTS:
        return "noisy-sgd", f"{weights:,} weights (over {MOST_WEIGHTS:,}) are too many to certify the last iterate alone"
    if not passes_once(problem, budget):
        return "noisy-sgd", f"for so little noise, {weights:,} weights and n = {n:,} are too many to certify the last iterate alone"
    return "pnsgd", f"with n = {n:,} (over {LARGEST_FULL_BATCH:,}) many passes would take minutes, and gain little"


def clipped(problem: Problem, solver: str, residual_clip: float | None) -> Problem:
    """The problem with what its loss is best clipped to, where the solver's steps may be clipped so."""
    return replace(problem, residual_clip=residual_clip) if solver == "noisy-sgd" or problem.loss.convex_after_clipping else problem


@also_by_keywords("solver", "n", "d", "loss")
def build(solver: str, problem: Problem, budget: Budget, *, steps: int = 400) -> Algorithm:
    """The plan of the solver of that name, with ``steps`` steps where they can be chosen."""
    return solver_named(solver).plan(problem, budget, steps=steps)


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
        """Plain data for JSON; of what differs from step to step the first and the last value, and all of them in ``run``."""
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
    residual_clip: float | None = None,
    steps: int = 400,
    unit: str = "row",
) -> Plan:
    """Choose an algorithm and its parameters from public facts. It uses no private data, and is deterministic.

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
        A name from ``dplateau.algorithms.SOLVERS``, or "auto".
    one_pass : bool, default False
        Whether the records can be read only once.
    residual_clip : float, optional
        The norm that residuals are clipped to, by default half of the largest.
    steps : int, default 400
        Number of steps, where it can be chosen.
    unit : {"row", "person"}, default "row"
        What a record is; see ``Run``. A plan for persons is fitted with ``groups``.

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
    Noise of 0.103 to 4.68 clip norms (0.5) on a sum; alone it would move a score by a standard deviation of at most 0.0767.
    """
    if loss is None:
        loss = Logistic() if integer("classes", classes, low=2) == 2 else Softmax(classes)
    problem = Problem(n, d, loss, feature_norm, l2, unit=unit)
    budget = Budget(epsilon, usual_delta(problem.n) if delta is None else delta, adjacency)
    boolean("one_pass", one_pass)
    auto = isinstance(solver, str) and solver == "auto"
    given = clipped(problem, "pnsgd", residual_clip)  # how exact a pass must be depends on what it clips to
    solver, why = choose(given, budget, one_pass=one_pass) if auto else (solver, "asked for by name")
    named = solver_named(solver)
    if one_pass and not named.one_pass:
        raise InputError(f"solver {solver!r} reads records more than once or keeps them: for one pass use pnsgd or snowball-sgd.")
    warn_if_weak(budget.epsilon)
    made = named.plan(clipped(problem, solver, residual_clip), budget, steps=integer("steps", steps))
    made.check_arithmetic(problem.d)
    reasons = f"{solver}: {why}.", _steps(made.run), _noise(made.run, problem.feature_norm)
    return Plan(solver, made, budget.epsilon, budget.delta, reasons)


def _reach(values: Schedule) -> tuple[float, float]:
    """The first and the last entry where all others lie between them, otherwise the least and the largest."""
    ends = entries(values)[0], entries(values)[-1]
    extremes = smallest(values), largest(values)
    return ends if sorted(ends) == list(extremes) else extremes


def _steps(run: Run) -> str:
    what = "phases" if run.is_phased else "steps"
    batches = "all records" if run.is_full_batch else f"{_between(*_reach(run.sampling.divisors(run.n)), ',.0f')} records"
    eta = run.step_size or 0.0
    first, last = _span(eta)
    falls = all(a >= b for a, b in pairwise(entries(eta)))
    size = f"step size {first:.3g}" + ("" if first == last else f" falling to {last:.3g}")
    if not falls:  # the reduction begins with long steps again and again
        size = f"step sizes from {smallest(eta):.3g} to {largest(eta):.3g}"
    radius = "" if run.diameter is None else f", weights within {run.diameter / 2:g}"
    return f"{run.steps:,} {what} of {batches}, {size}{radius}."


def _noise(run: Run, feature_norm: float) -> str:
    first, last = _reach(run.noise_multiplier)
    if run.is_phased:
        return f"Noise of {_between(first, last)} times what one record can move the result of a phase."
    moved = feature_norm * math.sqrt(float(run.table.deviation**2 @ run.table.count))
    score = f"; alone it would move a score by a standard deviation of at most {moved:.3g}" if run.update == "sgd" else ""
    return f"Noise of {_between(first, last)} clip norms ({run.clip_norm:.3g}) on a sum{score}."


def _between(first: float, last: float, form: str = ".3g") -> str:
    a, b = format(first, form), format(last, form)
    return a if a == b else f"{a} to {b}"
