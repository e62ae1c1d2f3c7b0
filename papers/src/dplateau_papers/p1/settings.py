"""What ``p1`` measures, and where: the theorems, what they print, the sweeps. Numbers of the paper are here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dplateau_papers.p1 import schedules
from dplateau_papers.p1.schedules import Rule

STRENGTH: Final = 4.0
"""l2 of the strongly convex problem, whose signal is 1/2: the minimiser is 1/8 away from the start."""
SIGNAL: Final = 0.5
SMALL_NOISE: Final = 8.0
"""rho at which privacy costs next to nothing."""


@dataclass(frozen=True)
class Theorem:
    """One utility theorem.

    Attributes
    ----------
    name, title, formula : str
        Its number, its algorithm, and the bound that it prints.
    rule : callable
        Its schedule.
    problems : tuple of str
        Of "linear", "logistic", "hinge" and "strong".
    """

    name: str
    title: str
    formula: str
    rule: Rule
    problems: tuple[str, ...] = ("linear", "logistic")


THEOREMS: Final = (
    Theorem("3.2", "fixed steps, no noise", "D L (2 + ln T)/sqrt(T)", schedules.fixed_steps),
    Theorem("3.4", "halving steps, no noise", "15 D L/sqrt(T)", schedules.halving_steps),
    Theorem("3.5", "Snowball-SGD, fixed steps", "sqrt(8) D L (2 + ln T)/sqrt(T)", schedules.snowball_fixed),
    Theorem("3.6", "Snowball-SGD, halving steps", "15 sqrt(2) D L/sqrt(T)", schedules.snowball_falling),
    Theorem("4.4", "Phased-SGD", "10 L D (1/sqrt(n) + sqrt(d)/(rho n))", schedules.phased_sgd),
    Theorem("4.8", "Phased-ERM", "O(L D (1/sqrt(n) + sqrt(d ln(1/delta))/(epsilon n)))", schedules.phased_erm, ("hinge",)),
    Theorem("5.1", "Phased-SGD, repeated", "8 c^2 (L^2/m) (1/n + d/(rho n)^2), c = 10", schedules.reduction, ("strong",)),
    Theorem("5.3", "Phased-SGD, strongly convex", "O((L^2/m) ln n lnln n (1/n + d lnln n/(rho n)^2))",
            schedules.phased_sgd_strong, ("strong",)),
    Theorem("5.4", "Snowball-SGD, strongly convex", "20 (L^2/m) ln(T)^2/T", schedules.snowball_strong, ("strong",)),
)  # fmt: skip
OURS: Final = Theorem("ours", "PNSGD, linear steps, least noise", "none", schedules.falling_pnsgd)


@dataclass(frozen=True)
class Along:
    """Rules along one parameter.

    Attributes
    ----------
    rules : tuple of (str, callable)
        Names and schedules.
    against : str
        "n", "d" or "rho".
    places : tuple of float
        Its values.
    claimed : float
        The power that the theorems claim there.
    n, d, rho : int, int, float
        The other parameters.
    strength : float
        l2 of the problem; 0: the worst linear problem.
    seeds : int
        Runs of each mean.
    """

    rules: tuple[tuple[str, Rule], ...]
    against: str
    places: tuple[float, ...]
    claimed: float
    n: int = 0
    d: int = 0
    rho: float = 0.0
    strength: float = 0.0
    seeds: int = 10


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes
    ----------
    n, d, rho : int, int, float
        Of the table of theorems.
    n_erm : int
        Records of Phased-ERM, whose time grows faster.
    seeds : int
        Runs of a mean.
    sweeps : tuple of Along
        Slopes.
    equal : tuple of (int, int, float)
        (n, d, rho) at which schedules are compared.
    free : tuple of int
        Records at which d = n is compared with d = 10.
    """

    n: int
    d: int
    rho: float
    n_erm: int
    seeds: int
    sweeps: tuple[Along, ...]
    equal: tuple[tuple[int, int, float], ...]
    free: tuple[int, ...]


_FIXED: Final = ("3.5", schedules.snowball_fixed)
_FALLING: Final = ("3.6", schedules.snowball_falling)
_PHASED: Final = ("4.4", schedules.phased_sgd)
_OURS: Final = ("ours", schedules.falling_pnsgd)
_REDUCED: Final = ("5.1", schedules.reduction)
_EQUAL: Final = ("5.3", schedules.phased_sgd_strong)
_STRONG: Final = ("5.4", schedules.snowball_strong)

SWEEPS: Final = (
    Along((_FIXED, _FALLING, _PHASED, _OURS), "n", (256, 1024, 4096, 16384), -0.5, d=16, rho=SMALL_NOISE),
    Along((_FIXED, _PHASED, _OURS), "d", (16, 125, 1000), 0.5, n=8192, rho=0.1, seeds=6),
    Along((_FALLING,), "d", (4, 16, 64, 256), 0.5, n=8192, rho=0.1),
    Along((_FIXED, _PHASED, _OURS), "rho", (0.025, 0.05, 0.1, 0.2), -1.0, n=8192, d=64),
    Along((_FALLING,), "rho", (0.025, 0.05, 0.1, 0.2), -1.0, n=8192, d=4),
    Along((_REDUCED, _EQUAL, _STRONG), "n", (1024, 4096, 16384, 65536), -1.0, d=4, rho=SMALL_NOISE, strength=STRENGTH, seeds=16),
    Along((_REDUCED, _EQUAL), "d", (4, 16, 64), 1.0, n=65536, rho=0.04, strength=STRENGTH, seeds=16),
    Along((_STRONG,), "d", (4, 16, 64), 1.0, n=65536, rho=0.01, strength=STRENGTH, seeds=12),
    Along((_REDUCED,), "rho", (0.01, 0.02, 0.04), -2.0, n=1 << 18, d=4, strength=STRENGTH, seeds=32),
    Along((_EQUAL,), "rho", (0.03, 0.06, 0.12), -2.0, n=65536, d=16, strength=STRENGTH, seeds=24),
    Along((_STRONG,), "rho", (0.004, 0.008, 0.016), -2.0, n=1 << 17, d=16, strength=STRENGTH, seeds=16),
)
FULL: Final = Sizes(
    n=16384,
    d=16,
    rho=1.0,
    n_erm=4096,
    seeds=8,
    sweeps=SWEEPS,
    equal=((8192, 64, 0.2), (8192, 64, 1.0), (8192, 16, 4.0), (65_536, 16, 1.0)),
    free=(128, 256, 512, 1024, 2048),
)
