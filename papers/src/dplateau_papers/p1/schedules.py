"""The algorithms of Feldman, Koren and Talwar 2020 with the schedules of their theorems, each with its printed and proved risk."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting import gdp_epsilon
from dplateau.algorithms import PNSGD, Algorithm, Budget, PhasedSGD, plan_pnsgd
from dplateau.algorithms import Problem as PublicFacts
from dplateau.algorithms.phased_erm import PhasedERM
from dplateau.spec import OnePass, Run
from dplateau.training import SecureGenerator
from dplateau.utility import (
    DECAYING_STEPS,
    FIXED_STEPS,
    jnn_step_sizes,
    last_iterate_risk,
    snowball_batch_sizes,
    snowball_steps,
    snowball_strongly_convex_step_size,
)
from dplateau_papers.p1.problems import Array, Problem
from dplateau_papers.utility import (
    Phases,
    jnn_risk,
    localised_risk,
    phased_erm_phases,
    phased_sgd_phases,
    phased_sgd_strongly_convex_phases,
    printed_phased_sgd_risk,
    printed_reduction_risk,
    reduction_counts,
    shamir_zhang_risk,
    shamir_zhang_step_size,
    snowball_decaying_risk,
    snowball_strongly_convex_risk,
)

DELTA: Final = 1e-6
"""At which rho is turned into an epsilon, and back."""
_ROOM: Final = 1 + 1e-12
_SILENT: Final = 1e-6
"""Noise multiplier of a run that is not private."""


@dataclass(frozen=True)
class Schedule:
    """An algorithm with the schedule of a theorem, for a problem of known constants.

    Attributes
    ----------
    algorithm : Algorithm
        What is carried out.
    proved : float
        Bound on the expected excess risk.
    printed : float or None
        What the paper prints; None where that has no constant.
    rho : float or None
        The privacy that the theorem promises, under replacement; None where it promises none.
    """

    algorithm: Algorithm
    proved: float
    printed: float | None
    rho: float | None

    @property
    def run(self) -> Run:
        """What is computed and released."""
        return self.algorithm.run

    def excess(self, problem: Problem, seed: int) -> float:
        """Train on records drawn with the seed; the exact excess risk of what is released."""
        features, target = problem.draw(self.run.n, seed)
        result = self.algorithm.fit(features, target, generator=SecureGenerator(insecure_seed=seed))
        weights: Array = np.asarray(result.weights, dtype=float)
        return problem.excess(weights)


Rule = Callable[[Problem, int, float], Schedule]
"""A schedule for a problem, n records and rho. Problems of one family get the same one: signals are not public."""


def _one_pass(
    problem: Problem, n: int, sizes: Sequence[int], steps: Array, noise: float | tuple[float, ...], released: str = "last"
) -> PNSGD:
    run = Run(
        n=n,
        sampling=OnePass(tuple(sizes)),
        steps=len(steps),
        noise_multiplier=noise,
        clip_norm=1.0,
        step_size=tuple(steps.tolist()),
        smoothness=problem.loss.smoothness(1.0) * _ROOM + problem.l2,
        strong_convexity=problem.l2,
        l2=problem.l2,
        diameter=2 * problem.radius,
        adjacency="replace",
        released=released,
    )
    return PNSGD(run, problem.loss, problem.l2)


def fixed_steps(problem: Problem, n: int, rho: float) -> Schedule:  # noqa: ARG001
    """Theorem 3.2: steps on single records, without noise that would count."""
    steps = np.full(n, shamir_zhang_step_size(n, problem.radius, problem.lipschitz))
    proved = last_iterate_risk(steps, problem.lipschitz**2, problem.radius)
    printed = shamir_zhang_risk(n, problem.radius, problem.lipschitz)
    return Schedule(_one_pass(problem, n, (1,) * n, steps, _SILENT, "all"), proved, printed, None)


def halving_steps(problem: Problem, n: int, rho: float) -> Schedule:  # noqa: ARG001
    """Theorem 3.4: as Theorem 3.2, with the steps of Definition 3.3."""
    steps = jnn_step_sizes(n, problem.radius / problem.lipschitz)
    proved = last_iterate_risk(steps, problem.lipschitz**2, problem.radius)
    printed = jnn_risk(n, problem.radius, problem.lipschitz)
    return Schedule(_one_pass(problem, n, (1,) * n, steps, _SILENT, "all"), proved, printed, None)


def silent_linear(problem: Problem, n: int, rho: float) -> Schedule:  # noqa: ARG001
    """Linearly falling steps on single records, without noise that would count: what the lack of privacy buys."""
    steps = problem.radius / problem.lipschitz * np.arange(n, 0, -1) / (n + 1) ** 1.5
    proved = last_iterate_risk(steps, problem.lipschitz**2, problem.radius)
    return Schedule(_one_pass(problem, n, (1,) * n, steps, _SILENT, "all"), proved, None, None)


def _snowball(problem: Problem, n: int, rho: float, factor: float, least: int = 1) -> tuple[int, list[int], tuple[float, ...]]:
    """Steps, batch sizes and noise of the longest snowball of n records whose batches have at least ``least``."""
    sizes = np.maximum(snowball_batch_sizes(n // least, problem.d, rho, factor), least)
    # Batches are counted from the end: their sizes do not depend on the number of steps.
    steps = snowball_steps(n, problem.d, rho, factor) if least == 1 else int(np.sum(np.cumsum(sizes[::-1]) <= n))
    sizes = sizes[len(sizes) - steps :]
    return steps, sizes.tolist(), tuple((sizes / math.sqrt(problem.d)).tolist())


def _least_batch(n: int) -> int:
    """Beyond 32,768 records the batches of Theorem 3.6 are raised: its last steps would be lost in rounding."""
    return 1 if n <= 1 << 15 else n >> 13


def snowball_fixed(problem: Problem, n: int, rho: float) -> Schedule:
    """Theorem 3.5, whose second moment of gradients is 2 L^2."""
    steps, sizes, noise = _snowball(problem, n, rho, FIXED_STEPS)
    scale = math.sqrt(2) * problem.lipschitz
    eta = np.full(steps, shamir_zhang_step_size(steps, problem.radius, scale))
    proved = last_iterate_risk(eta, scale**2, problem.radius, lipschitz=problem.lipschitz)
    printed = 2 * shamir_zhang_risk(steps, problem.radius, scale)
    return Schedule(_one_pass(problem, n, sizes, eta, noise), proved, printed, rho)


def snowball_falling(problem: Problem, n: int, rho: float) -> Schedule:
    """Theorem 3.6."""
    steps, sizes, noise = _snowball(problem, n, rho, DECAYING_STEPS, _least_batch(n))
    scale = math.sqrt(2) * problem.lipschitz
    eta = jnn_step_sizes(steps, problem.radius / scale)
    proved = last_iterate_risk(eta, scale**2, problem.radius, lipschitz=problem.lipschitz)
    printed = snowball_decaying_risk(steps, problem.lipschitz, problem.radius)
    return Schedule(_one_pass(problem, n, sizes, eta, noise), proved, printed, rho)


def snowball_strong(problem: Problem, n: int, rho: float) -> Schedule:
    """Theorem 5.4."""
    steps, sizes, noise = _snowball(problem, n, rho, FIXED_STEPS)
    eta = np.full(steps, snowball_strongly_convex_step_size(steps, problem.l2))
    printed = 20 * problem.lipschitz**2 / problem.l2 * math.log(steps) ** 2 / steps
    proved = min(
        snowball_strongly_convex_risk(steps, problem.lipschitz, problem.l2),
        last_iterate_risk(eta, problem.lipschitz**2 + 1, problem.radius, lipschitz=problem.lipschitz, strong_convexity=problem.l2),
    )
    return Schedule(_one_pass(problem, n, sizes, eta, noise), proved, printed, rho)


def _phased(problem: Problem, n: int, phases: Phases, noise_multiplier: float, *, update: str = "phased-sgd") -> Run:
    by_steps = update == "phased-sgd"
    return Run(
        n=n,
        sampling=OnePass(phases.counts),
        steps=len(phases.counts),
        noise_multiplier=noise_multiplier,
        clip_norm=_ROOM,
        step_size=phases.step_sizes,
        smoothness=problem.loss.smoothness(1.0) * _ROOM + problem.l2 if by_steps else None,
        strong_convexity=problem.l2,
        l2=problem.l2,
        diameter=2 * problem.radius if by_steps else None,
        adjacency="replace",
        released="last",
        update=update,
    )


def _with_noise(phases: Phases, multiplier: float) -> Phases:
    """Phases with the noise that is really added: the l2 term is the same for all records and moves nothing apart."""
    return Phases(phases.counts, phases.step_sizes, tuple(multiplier * _ROOM * size for size in phases.step_sizes))


def phased_sgd(problem: Problem, n: int, rho: float, noise_factor: float = 2.0) -> Schedule:
    """Theorem 4.4 with noise 2 L eta_i / rho in place of 4 L eta_i / rho."""
    phases = phased_sgd_phases(n, problem.d, rho, problem.lipschitz, problem.radius, noise_factor=noise_factor)
    bound = localised_risk(_with_noise(phases, noise_factor / rho), problem.d, problem.lipschitz, problem.radius)
    printed = printed_phased_sgd_risk(n, problem.d, rho, problem.lipschitz, problem.radius)
    return Schedule(PhasedSGD(_phased(problem, n, phases, noise_factor / rho), problem.loss), bound, printed, rho)


def phased_sgd_as_printed(problem: Problem, n: int, rho: float) -> Schedule:
    """Theorem 4.4 with the noise that Algorithm 2 prints."""
    return phased_sgd(problem, n, rho, 4.0)


def phased_erm(problem: Problem, n: int, rho: float, accuracy: float = 1e-3) -> Schedule:
    """Theorem 4.8: phases are solved to certainty, over all of space."""
    planned = phased_erm_phases(n, problem.d, rho, 1.0, problem.radius, accuracy=accuracy / 2)
    run = _phased(problem, n, planned, 2 / rho, update="phased-erm")
    bound = localised_risk(
        _with_noise(planned, (1 + accuracy) / rho), problem.d, 1.0, problem.radius, start_factor=1.0, step_factor=1 + accuracy
    )
    return Schedule(PhasedERM(run, problem.loss, accuracy), bound, None, rho)


def reduction(problem: Problem, n: int, rho: float) -> Schedule:
    """Theorem 5.1 with Phased-SGD: every run takes the distance that the bound of the one before leaves."""
    reach, bound, parts = problem.radius, math.inf, list[Phases]()
    for count in reduction_counts(n):
        planned = phased_sgd_phases(count, problem.d, rho, problem.lipschitz, reach)
        parts.append(_with_noise(planned, 2 / rho))
        bound = localised_risk(parts[-1], problem.d, problem.lipschitz, reach)
        reach = min(problem.radius, math.sqrt(2 * bound / problem.l2))
    joined = Phases(
        tuple(count for part in parts for count in part.counts),
        tuple(size for part in parts for size in part.step_sizes),
        tuple(noise for part in parts for noise in part.noise),
    )
    printed = printed_reduction_risk(n, problem.d, rho, problem.lipschitz, problem.l2, 10.0)
    return Schedule(PhasedSGD(_phased(problem, n, joined, 2 / rho), problem.loss), bound, printed, rho)


def phased_sgd_strong(problem: Problem, n: int, rho: float) -> Schedule:
    """Theorem 5.3 with noise 2 L eta_i / rho and ceil(log2 log2 n) phases."""
    planned = phased_sgd_strongly_convex_phases(n, rho, problem.lipschitz, problem.l2)
    start = min(problem.radius, problem.lipschitz / problem.l2)
    bound = localised_risk(_with_noise(planned, 2 / rho), problem.d, problem.lipschitz, start, strong_convexity=problem.l2)
    run = _phased(problem, n, planned, 2 / rho)
    return Schedule(PhasedSGD(run, problem.loss, weighting="growing"), bound, None, rho)


def falling_pnsgd(problem: Problem, n: int, rho: float) -> Schedule:
    """Ours: PNSGD with linearly falling steps and the least noise that hides every record; no theorem of the paper."""
    plan = plan_pnsgd(
        PublicFacts(n, problem.d, problem.loss, l2=problem.l2, residual_clip=1.0),
        Budget(gdp_epsilon(rho, DELTA), DELTA, "replace"),
        batch_size=max(1, n // 65536),
        distance=problem.radius,
        diameter=2 * problem.radius,
    )
    return Schedule(plan, schedule_risk(plan.run, problem), None, rho)


def schedule_risk(run: Run, problem: Problem) -> float:
    """The proved bound for the steps and the noise of a one-pass run, whatever they are."""
    steps = run.table.written()
    second = problem.lipschitz**2 + problem.d * (steps.noise * run.clip_norm / steps.size) ** 2
    return last_iterate_risk(steps.step_size, second, problem.radius, lipschitz=problem.lipschitz, strong_convexity=problem.l2)
