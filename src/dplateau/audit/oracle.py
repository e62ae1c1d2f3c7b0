"""The exact laws of the last iterate on an interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from dplateau.audit.chain import Chain, Mixture, Step, chain
from dplateau.audit.instance import Instance, check_instance, check_run
from dplateau.audit.laws import LOBATTO, POINTS, Law, Laws, laws
from dplateau.audit.quadrature import ORDER, Array, Grid, densities, grid, kernel, tails, window
from dplateau.spec import Run

REACH: Final = 12.0
"""Standard deviations that the computed window extends beyond where the maps alone lead, unless a wall comes first."""
_PANEL: Final = 5.0
"""Standard deviations of the noise in a panel of 20 nodes at first."""
_CELL: Final = 0.25
"""Standard deviations of the last step's noise in a cell of the final laws."""
_NODES: Final = 6000
_ROUNDING: Final = 1e-11
"""Absolute error of log likelihood ratios that is put down to rounding."""
_LEAST: Final = 1e-25
"""Mass of a node below which its ratio need not be accurate."""

Kernels: TypeAlias = Callable[[float, Mixture], Array]
Parts: TypeAlias = list[tuple[Array, Mixture]]


def final_laws(run: Run, instance: Instance, accuracy: float = 1e-6, reach: float = REACH) -> Laws:
    """The laws of the last iterate on both data sets of ``instance``, exact but for quadrature.

    Parameters
    ----------
    run : Run
        What is trained; needs ``diameter``, ``step_size`` and ``smoothness``.
    instance : Instance
        The data sets; they must satisfy everything that the run states.
    accuracy : float, default 1e-6
        Relative to the largest log likelihood ratio (at most 1): the quadrature is refined until none changes by more.
    reach : float, default 12
        Standard deviations of tail that are kept where no wall ends them; Renyi divergences of high order need more.

    Returns
    -------
    Laws
        ``laws.epsilon(delta)``, ``laws.delta(epsilon)``, ``laws.renyi(order)``, ``laws.trade_off(alpha)``.

    Raises
    ------
    InputError
        The instance contradicts the run.
    ArithmeticError
        The accuracy could not be reached.

    Notes
    -----
    Poisson batch sizes less likely than 1e-18 a step are left out where the other records matter, and tails beyond ``reach``.
    """
    check_instance(run, instance)
    problem = _Problem(run, instance, reach)
    panels = problem.panels(_PANEL)
    coarse = problem.final(panels, _CELL)
    while True:
        panels += max(panels // 2, 1)
        fine = problem.final(panels, _CELL)
        error, spread = _difference(coarse, fine, problem.half_cell(_CELL))
        if error <= max(accuracy * min(spread, 1.0), _ROUNDING):
            return laws(problem.half_cell(_CELL), *fine, problem.open_ends, error / max(min(spread, 1.0), _ROUNDING))
        coarse = fine


def rough_laws(run: Run, instance: Instance) -> Laws:
    """The same in one pass, with an accuracy that is not measured: for a search, whose winner is then computed exactly."""
    problem = _Problem(run, instance, 8.0)
    return laws(problem.half_cell(1.0), *problem.final(problem.panels(6.0), 1.0), problem.open_ends, math.nan)


def _difference(coarse: tuple[Law, Law], fine: tuple[Law, Law], half: float) -> tuple[float, float]:
    """The largest change of a log density or log mass, and the largest log likelihood ratio, where there is any mass."""
    old, new = ([np.concatenate([law.density.ravel() * half, law.atoms]) for law in pair] for pair in (coarse, fine))
    seen = np.maximum(*new) > _LEAST
    old, new = ([np.log(np.maximum(law[seen], 1e-300)) for law in pair] for pair in (old, new))
    error = max(float(np.abs(a - b).max()) for a, b in zip(old, new, strict=True))
    return error, float(np.abs(new[0] - new[1]).max())


class _Problem:
    """A run and an instance, ready for quadratures of any fineness."""

    def __init__(self, run: Run, instance: Instance, reach: float) -> None:
        half, _, _ = check_run(run)
        first = chain(run, instance, instance.first)
        self.chains = (first, chain(run, instance, instance.second))
        self.start = instance.start
        self.ends = window(self.chains, instance.start, half, reach)
        self.walls = self.ends[0] == -half, self.ends[1] == half
        self.open_ends = not self.walls[0], not self.walls[1]
        steps = [step for c in self.chains for step in c.steps]
        steepest = max(abs(m.slope) for step in steps for m in step.maps + step.recorded)
        self.scale = min(step.deviation for step in steps) / max(steepest, 1.0)
        self.last = first.steps[first.order[-1]].deviation

    def panels(self, width: float) -> int:
        """Panels of at most ``width`` standard deviations of the least noise."""
        return max(math.ceil((self.ends[1] - self.ends[0]) / (width * self.scale)), 1)

    def cells(self, width: float) -> int:
        """Cells of at most ``width`` standard deviations of the last noise."""
        return max(math.ceil((self.ends[1] - self.ends[0]) / (width * self.last)), 1)

    def half_cell(self, width: float) -> float:
        """Half their width."""
        return (self.ends[1] - self.ends[0]) / self.cells(width) / 2

    def final(self, panels: int, cell: float) -> tuple[Law, Law]:
        """Both final laws from so many panels, in cells of at most ``cell`` standard deviations of the last noise."""
        if panels * ORDER > _NODES:
            raise ArithmeticError(
                f"the noise is so small beside the interval that {panels * ORDER} nodes are needed: at most {_NODES} are used."
            )
        where = grid(self.ends, self.walls, panels)
        known: dict[tuple[float, Mixture], Array] = {}

        def kernels(deviation: float, maps: Mixture) -> Array:
            key = deviation, maps
            if key not in known:
                if sum(k.size for k in known.values()) > 1 << 25:
                    known.clear()
                known[key] = kernel(where, where.positions, deviation, maps)
            return known[key]

        half, count = self.half_cell(cell), self.cells(cell)
        centres = self.ends[0] + half * (2 * np.arange(count) + 1)
        points = (centres[:, None] + half * LOBATTO).ravel()
        first, second = (self._law(_parts(c, self.start, where, kernels), c, points) for c in self.chains)
        return first, second

    def _law(self, parts: tuple[Array, Parts], steps: Chain, points: Array) -> Law:
        sources, mixtures = parts
        deviation = steps.steps[steps.order[-1]].deviation
        density, atoms = np.zeros(len(points)), np.zeros(2)
        for masses, maps in mixtures:
            density += densities(points, sources, masses, deviation, maps)
            atoms += tails(self.ends, self.walls, sources, deviation, maps) @ masses
        return Law(density.reshape(-1, POINTS), atoms)


def _parts(steps: Chain, start: float, where: Grid, kernels: Kernels) -> tuple[Array, Parts]:
    """Where the mass sits before the last step, and the masses with the maps that the last step takes them through."""
    order, period = steps.order, steps.period
    if len(order) == 1:
        return np.array([start]), _last(steps.steps[order[0]], np.ones(1), np.zeros(1), 0)
    point = np.array([start])
    fresh, seen = _advance(
        steps.steps[order[0]], np.ones(1), np.zeros(1), lambda deviation, maps: kernel(where, point, deviation, maps)
    )
    done = 1
    while done < min(period, len(order) - 1):
        fresh, seen = _advance(steps.steps[order[done]], fresh, seen, kernels)
        done += 1
    if done == period:
        fresh, seen, done = _epochs(steps, fresh + seen, where, kernels)
    while done < len(order) - 1:
        if done % period == 0:
            fresh, seen = fresh + seen, np.zeros_like(seen)
        fresh, seen = _advance(steps.steps[order[done]], fresh, seen, kernels)
        done += 1
    return where.positions, _last(steps.steps[order[-1]], fresh, seen, done % period)


def _last(step: Step, fresh: Array, seen: Array, batch: int) -> Parts:
    if not step.recorded:
        return [(fresh, step.maps)]
    if batch == 0:
        fresh, seen = fresh + seen, np.zeros_like(seen)
    return [(step.hazard * fresh, step.recorded), ((1 - step.hazard) * fresh + seen, step.maps)]


def _advance(step: Step, fresh: Array, seen: Array, kernels: Kernels) -> tuple[Array, Array]:
    """One step of the masses whose epoch has not met the record yet, and of those whose epoch has, where its place is random."""
    if not step.recorded:
        return kernels(step.deviation, step.maps) @ fresh, np.zeros(1)
    moved = kernels(step.deviation, step.maps)
    met = kernels(step.deviation, step.recorded) @ (step.hazard * fresh)
    return moved @ ((1 - step.hazard) * fresh), met + (moved @ seen if seen.any() else 0.0)


def _epochs(steps: Chain, masses: Array, where: Grid, kernels: Kernels) -> tuple[Array, Array, int]:
    """Whole further epochs at once, where all are alike and a power of the epoch's matrix is cheaper than its steps."""
    order, period = steps.order, steps.period
    whole = (len(order) - 1 - period) // period
    nothing = np.zeros_like(masses)
    alike = bool((order[period : period * (1 + whole)] == np.tile(order[:period], whole)).all())
    size = len(where.nodes) + 2
    if not alike or period * whole < 0.2 * size * ((period > 1) * period + 2 * math.log2(max(whole, 2))):
        return masses, nothing, period
    epoch, seen = np.eye(size), np.zeros((size, size))
    for index in order[:period]:
        epoch, seen = _advance(steps.steps[index], epoch, seen, kernels)
    return np.linalg.matrix_power(epoch + seen, whole) @ masses, nothing, period * (1 + whole)
