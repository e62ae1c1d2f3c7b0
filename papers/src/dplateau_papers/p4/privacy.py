"""The numbers of ``p4-privacy``: Theorem 3.2, its corollaries and the noise of Theorems 4.2 and 4.4; minibatches, full batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from dplateau.accounting import Bound, gdp_epsilon
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses import (
    Analysis,
    ExactCompositionBound,
    FixedOrderBound,
    LangevinBound,
    LangevinMinibatches,
    SampledLastIterateRenyiBound,
)
from dplateau.spec import Run
from dplateau_papers.p4 import PAPER
from dplateau_papers.p4.settings import (
    DELTA,
    FLAT,
    FLAT_EPSILON,
    FLAT_ROWS,
    MINIBATCHES,
    flat_mu,
    flat_run,
    halved_laws,
    halved_run,
)

PROVED: Final[tuple[Analysis, ...]] = (FixedOrderBound(), SampledLastIterateRenyiBound(), ExactCompositionBound())
"""Those that take no seconds; ``account`` asks ``sampled-last-iterate`` too."""
KS: Final = (1, 10, 100, 300, 1000, 3000, 10_000, 100_000)
LONGEST: Final = 10_000
"""Falling steps are listed one by one: no more than so many."""
NS: Final = (1000, 10_000, 100_000, 1_000_000)
DIMENSION: Final = 100


@dataclass(frozen=True)
class Minibatch:
    """A run with the noise of Theorem 4.2.

    Attributes
    ----------
    n, m, claimed : int, int, float
        Rows, batch size, and the epsilon of the theorem.
    noise : float
        Its noise multiplier.
    exact, delta : float
        Of the worst known data sets: epsilon at ``DELTA``, and delta at ``claimed``.
    certified, by : float, str
        The least proved epsilon at ``DELTA``, and whose it is.
    factor : float
        How many times that noise certifies what is claimed.
    """

    n: int
    m: int
    claimed: float
    noise: float
    exact: float
    delta: float
    certified: float
    by: str
    factor: float

    @property
    def refuted(self) -> bool:
        """Whether the exact laws contradict the claim."""
        return self.exact > self.claimed

    @property
    def status(self) -> str:
        """Of the paper's statement."""
        return (LangevinBound if self.m == self.n else LangevinMinibatches).status.__name__

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"status": self.status}


def certified(run: Run) -> tuple[float, str]:
    """The least proved epsilon of the last iterate, and its analysis."""
    bounds = [bound for analysis in PROVED if isinstance(bound := analysis.bound(run), Bound)]
    return min((bound.guarantee.epsilon(DELTA).upper, bound.name) for bound in bounds)


def noise_factor(run: Run, epsilon: float, close: float = 0.99) -> float:
    """By what to multiply the noise so that ``epsilon`` is certified, and at least ``close`` times it is used.

    By secants between logarithms; what is returned is a certificate of its own.
    """
    assert isinstance(run.noise_multiplier, float)
    noise = run.noise_multiplier

    def spent(factor: float) -> float:
        return certified(run.replace(noise_multiplier=factor * noise))[0]

    enough = 1.0
    while (least := spent(enough)) > epsilon:
        enough *= 2
    tried = [(math.log(enough), math.log(least / epsilon))]
    for _ in range(12):
        if -tried[-1][1] < -math.log(close) and tried[-1][1] <= 0:
            return math.exp(tried[-1][0])
        x, y = tried[-1]
        slope = -1.5
        if len(tried) > 1 and tried[-2][0] != x:
            slope = min((y - tried[-2][1]) / (x - tried[-2][0]), -0.5)
        step = -(y - math.log(close) / 2) / slope
        x += min(max(step, -1.0), 1.0)
        tried.append((x, math.log(spent(math.exp(x)) / epsilon)))
    raise ArithmeticError(f"no noise that certifies epsilon {epsilon:g} was found closely enough.")


def minibatch(n: int, m: int, claimed: float) -> Minibatch:
    """Certify and refute one."""
    run, laws = halved_run(n, m, claimed), halved_laws(n, m, claimed)
    assert isinstance(run.noise_multiplier, float)
    epsilon, by = certified(run)
    factor = noise_factor(run, claimed)
    return Minibatch(n, m, claimed, run.noise_multiplier, laws.epsilon(DELTA), laws.delta(claimed), epsilon, by, factor)


@dataclass(frozen=True)
class Full:
    """Full batches after K steps.

    Attributes
    ----------
    steps : int
        K.
    falling : bool
        Whether the steps fall.
    printed, proved, exact, composed : float
        Epsilon at ``DELTA``: of Corollary 3.2 or 3.3, of the taut string, of quadratic losses, of all iterates.
    units : tuple of float
        Of the same four, what stands before ``a L^2/(lambda n^2 sigma^2)`` in the divergence of order a.
    """

    steps: int
    falling: bool
    printed: float
    proved: float
    exact: float
    composed: float
    units: tuple[float, float, float, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def full(steps: int, *, falling: bool) -> Full:
    """Account for one."""
    run = flat_run(steps, falling=falling)
    printed, proved, composed = (each.guarantee(run) for each in (LangevinBound(), FixedOrderBound(), ExactCompositionBound()))
    assert isinstance(printed, ZeroConcentratedDP)
    assert proved.mu is not None
    assert composed.mu is not None
    mu, unit = flat_mu(run), _unit(run)
    epsilons = printed.epsilon(DELTA).upper, proved.epsilon(DELTA).upper, gdp_epsilon(mu, DELTA), composed.epsilon(DELTA).upper
    halves = (found**2 / (2 * unit) for found in (proved.mu, mu, composed.mu))
    return Full(steps, falling, *epsilons, (printed.rho / unit, *halves))  # type: ignore[arg-type]


def _unit(run: Run) -> float:
    """L^2/(lambda n^2 sigma^2)."""
    eta, z = run.table.step_size[0], run.table.noise[0]
    variance = eta * (z * run.clip_norm / run.n) ** 2 / 2
    return run.clip_norm**2 / ((run.strong_convexity or 0.0) * run.n**2 * variance)


@dataclass(frozen=True)
class Growth:
    """How many steps Theorems 4.2 and 4.4 take, and what they cost with full batches.

    Attributes
    ----------
    n : int
        Rows.
    constant, falling : int
        K of Theorem 4.2, and of Theorem 4.4.
    composed : tuple of float
        Epsilon at ``DELTA`` of all iterates, with those K.
    plateau : float
        Epsilon of the last iterate after K constant steps, proved.
    """

    n: int
    constant: int
    falling: int
    composed: tuple[float, float]
    plateau: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def growth(n: int) -> Growth:
    """For one n; the dimension is ``DIMENSION``."""
    ratio = FLAT.smoothness / FLAT.curvature
    size = FLAT_EPSILON**2 * n**2 / (4 * math.log(1 / DELTA) * DIMENSION)
    constant = math.ceil(2 * ratio * math.log(size))
    falling = math.ceil(max(ratio * size, size**2 / ratio))
    run = flat_run(constant, falling=False, n=n)
    # A step costs mu^2 = 2 L^2 eta_k/(n sigma)^2; falling steps make up at most 1/(2 beta) + (2/lambda) log(1 + lambda K/(4 beta)).
    each = 2 * _unit(run) * FLAT.curvature
    travel = 2 / FLAT.curvature * math.log1p(falling / (4 * ratio)) + 0.5 / FLAT.smoothness
    total = constant * 0.5 / FLAT.smoothness, travel
    composed = tuple(gdp_epsilon(math.sqrt(each * way), DELTA) for way in total)
    return Growth(n, constant, falling, (composed[0], composed[1]), FixedOrderBound().guarantee(run).epsilon(DELTA).upper)


@dataclass(frozen=True)
class Privacy:
    """All numbers of ``p4-privacy``."""

    minibatches: tuple[Minibatch, ...]
    constant: tuple[Full, ...]
    falling: tuple[Full, ...]
    growth: tuple[Growth, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        parts = {"minibatches": self.minibatches, "constant": self.constant, "falling": self.falling, "growth": self.growth}
        problem = {"delta": DELTA, "full_batches": {"n": FLAT_ROWS, "epsilon": FLAT_EPSILON} | asdict(FLAT)}
        return {"paper": PAPER} | problem | {name: [each.to_dict() for each in part] for name, part in parts.items()}


def compute(minibatches: Sequence[tuple[int, int, float]] = MINIBATCHES, ks: Sequence[int] = KS) -> Privacy:
    """Compute everything; half a minute."""
    constant = tuple(full(k, falling=False) for k in ks)
    falling = tuple(full(k, falling=True) for k in ks if k <= LONGEST)
    return Privacy(tuple(minibatch(*each) for each in minibatches), constant, falling, tuple(growth(n) for n in NS))
