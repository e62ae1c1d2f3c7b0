"""Iterative localisation: phases that start where the last one ended, each with its own records, and noise on every result.

The parameter rho of the algorithms that use it is that of Gaussian differential privacy of the release, under the replacement of a
record: noise of standard deviation ``sensitivity / rho`` on each result. Phases use disjoint records, so they do not add up.

Source: Feldman, Koren, Talwar 2020, section 4 and the proof of Theorem 4.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real, vector
from dplateau.utility.fixed_step_strongly_convex import start_weight
from dplateau.utility.halving import halving_sizes


@dataclass(frozen=True)
class Phases:
    """What the phases are; every tuple has one entry a phase.

    Attributes
    ----------
    counts : tuple of int
        Records, or gradient steps where a step takes several records.
    step_sizes : tuple of float
        eta_i.
    noise : tuple of float
        sigma_i: standard deviation of the noise on the result, in every coordinate.
    """

    counts: tuple[int, ...]
    step_sizes: tuple[float, ...]
    noise: tuple[float, ...]

    def __post_init__(self) -> None:
        counts = tuple(integer("counts", count) for count in self.counts)
        sizes = tuple(vector("step_sizes", self.step_sizes).tolist())
        noise = tuple(vector("noise", self.noise, inclusive=True).tolist())
        if not len(counts) == len(sizes) == len(noise):
            raise InputError(
                f"phases have {len(counts)} counts, {len(sizes)} step_sizes, {len(noise)} noise levels: give one of each a phase."
            )
        for name, value in (("counts", counts), ("step_sizes", sizes), ("noise", noise)):
            object.__setattr__(self, name, value)


def localised_risk(
    phases: Phases,
    d: int,
    lipschitz: float,
    distance: float,
    *,
    start_factor: float = 0.5,
    step_factor: float = 0.5,
    strong_convexity: float = 0.0,
) -> float:
    """``sum over phases of (A E|xi_{i-1}|^2 / (eta_i n_i) + C eta_i L^2) + L sqrt(d) sigma_k``. **Proved.**

    ``|xi_0| = distance`` and ``E|xi_i|^2 = d sigma_i^2``.

    Setting: phase i starts at the noisy result of the one before and makes a point ``u`` with ``E F(u) - F(w) <= A E|start - w|^2 /
    (eta_i n_i) + C eta_i L^2`` for every w of the set that does not depend on its records; noise is added, and the result of the
    last phase is released. A and C are 1/2 and 1/2 for ``fixed_step_risk``, 1 and 1 + accuracy for ``phased_erm_risk``.

    Assumptions: F is L-Lipschitz on the set, and noisy results are projected on it. The first start has mean squared distance at
    most ``distance^2`` from the minimiser.

    Parameters
    ----------
    phases : Phases
        n_i, eta_i and sigma_i.
    d : int
        Dimension.
    lipschitz, distance : float
        L, and see above.
    start_factor, step_factor : float
        A and C.
    strong_convexity : float, default 0.0
        m: phases are those of ``fixed_step_risk`` with this m, so A must be 1/2.

    Returns
    -------
    float
        The bound on ``E F - F*`` of the release.

    Raises
    ------
    InputError
        An argument is outside its range.
    """
    slope, dimension = real("lipschitz", lipschitz), integer("d", d)
    first, each = real("start_factor", start_factor), real("step_factor", step_factor)
    if real("strong_convexity", strong_convexity, inclusive=True) and first != 0.5:
        raise InputError(f"strong_convexity is known for gradient steps only: start_factor is {first:g}, expected 0.5.")
    spread = [real("distance", distance, inclusive=True) ** 2, *(dimension * sigma**2 for sigma in phases.noise)]
    starts = [2 * first * start_weight(n, eta, strong_convexity) for n, eta in zip(phases.counts, phases.step_sizes, strict=True)]
    return float(np.dot(starts, spread[:-1])) + each * slope**2 * sum(phases.step_sizes) + slope * math.sqrt(spread[-1])


def halving_phases(n: int, d: int, rho: float, lipschitz: float, distance: float, sensitivity: float, phases: int | None) -> Phases:
    """Phases of ``halving_sizes``, steps ``4^-i (D/L) min(4/sqrt(n), rho/sqrt(d))`` and noise ``sensitivity L eta_i / rho``."""
    n, rho, slope = integer("n", n, low=2), real("rho", rho), real("lipschitz", lipschitz)
    counts = halving_sizes(n, phases)
    eta = real("distance", distance) / slope * min(4 / math.sqrt(n), rho / math.sqrt(integer("d", d)))
    sizes = [eta * 4.0**-i for i in range(1, len(counts) + 1)]
    noise = [real("sensitivity", sensitivity) * slope * size / rho for size in sizes]
    return Phases(counts, tuple(sizes), tuple(noise))
