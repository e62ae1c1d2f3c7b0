"""The computations of ``p3-figure1`` and ``p3-figure2``, with their pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dplateau._account import account
from dplateau.accounting.enclosure import rounded_up
from dplateau.algorithms.noise_allocation import adaptation_gain, noise_energy, printed_sigma
from dplateau.algorithms.step_schedules import polynomial_decay, square_root_decay
from dplateau.analyses import AdaptiveNoiseBound, ExactCompositionBound
from dplateau.calibration import calibrate
from dplateau.report.plateau import first_steps
from dplateau.spec import Poisson, Run
from dplateau_papers.p2.privacy import moments_accountant
from dplateau_papers.p3 import PAPER
from dplateau_papers.page import Reproduction, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N: Final = 50_000
BATCH: Final = 256
DELTA: Final = 1e-5
C_EPSILON: Final = 16.0
"""The paper divides its epsilon by this before it prints it."""
LENGTHS: Final = (11_760, 23_520, 39_200)
"""60, 120 and 200 epochs of 196 steps."""
FIGURE_STEPS: Final = 23_520
FIGURE_BUDGET: Final = 3.2
CLAIMS: Final = ((0.8, 0.29), (1.2, 0.43), (1.6, 0.57), (3.2, 1.23), (6.4, 3.24))
"""Budgets as printed, and what the paper's own moments accountant says of them (60 epochs, clip 1)."""
CLAIMED_STEPS: Final = 11_700
EQUAL: Final = (0.29, 1.23, 3.24)
"""Budgets at which the gain is measured: three of those."""


def polynomial(steps: int) -> tuple[float, ...]:
    """``1/sqrt(20 + t)``."""
    return polynomial_decay(steps, a=20, c=1)


def square_root(steps: int) -> tuple[float, ...]:
    """``0.1 - r sqrt(t)`` with ``eta_T = 1e-10``."""
    return square_root_decay(steps, first=0.1, last=1e-10)


SCHEDULES: Final = {"1/sqrt(20 + t)": polynomial, ".1 - r sqrt(t)": square_root}


def trained(alpha: Sequence[float], sigma: float, step_sizes: Sequence[float]) -> Run:
    """The run whose mean gradients get noise ``alpha_t sigma`` times the clip norm; CIFAR-10's rows, all iterates released."""
    noise = tuple((np.asarray(alpha) * sigma * BATCH).tolist())
    return Run(n=N, sampling=Poisson(BATCH), steps=len(noise), noise_multiplier=noise, step_size=tuple(step_sizes))


def printed_budget(alpha: Sequence[float], sigma: float) -> float:
    """What equation (6) says of that noise, over 16."""
    return printed_sigma(N, 1.0, DELTA, alpha, batch_size=BATCH) / sigma / C_EPSILON


@dataclass(frozen=True)
class Along:
    """A training, step by step.

    Attributes
    ----------
    name : str
        "alpha = 1" or "alpha = 1/sqrt(eta)".
    steps : tuple of int
        After how many.
    noise : tuple of float
        Standard deviation of the noise in the iterate at these steps, ``eta_t alpha_t sigma``, over the clip norm.
    multiplier : tuple of float
        Noise multiplier at these steps.
    printed, certified : tuple of float
        epsilon-bar, and the certified epsilon of all iterates so far.
    energy : float
        ``sum (eta_t alpha_t sigma)^2``.
    holds : bool
        Whether the conditions under which equation (6) is proved are met.
    """

    name: str
    steps: tuple[int, ...]
    noise: tuple[float, ...]
    multiplier: tuple[float, ...]
    printed: tuple[float, ...]
    certified: tuple[float, ...]
    energy: float
    holds: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def along(name: str, alpha: Sequence[float], step_sizes: Sequence[float], steps: Sequence[int], budget: float) -> Along:
    """Account for the first steps; sigma is equation (6)'s for all of them."""
    sigma = printed_sigma(N, C_EPSILON * budget, DELTA, alpha, batch_size=BATCH)
    run = trained(alpha, sigma, step_sizes)
    noise = tuple(sigma * alpha[t - 1] * step_sizes[t - 1] for t in steps)
    printed = tuple(printed_budget(alpha[:t], sigma) for t in steps)
    certified = tuple(_spent(first_steps(run, t)) for t in steps)
    multiplier = tuple(BATCH * sigma * alpha[t - 1] for t in steps)
    holds = AdaptiveNoiseBound().guarantee(run).epsilon(DELTA).upper < math.inf
    return Along(name, tuple(steps), noise, multiplier, printed, certified, noise_energy(run), holds)


def _spent(run: Run) -> float:
    return ExactCompositionBound().guarantee(run).epsilon(DELTA).upper


def both(steps: int = FIGURE_STEPS, points: int = 24, budget: float = FIGURE_BUDGET) -> tuple[Along, Along]:
    """DP-SGD and ADP-SGD of Figure 1."""
    etas = polynomial(steps)
    at = sorted({round(t) for t in np.linspace(1, steps, points)} | {max(steps // 196, 2)})
    adapted = [eta**-0.5 for eta in etas]
    return along("alpha = 1", [1.0] * steps, etas, at, budget), along("alpha = 1/sqrt(eta)", adapted, etas, at, budget)


@dataclass(frozen=True)
class Claim:
    """A printed budget.

    Attributes
    ----------
    budget, numerical : float
        epsilon-bar, and the paper's own accountant.
    noise : float
        The noise multiplier of equation (6).
    moments, certified : float
        The moments accountant here, and the certified epsilon.
    """

    budget: float
    numerical: float
    noise: float
    moments: float
    certified: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def claim(budget: float, numerical: float, steps: int = CLAIMED_STEPS) -> Claim:
    """Account for one, with constant noise."""
    z = printed_sigma(N, C_EPSILON * budget, DELTA, [1.0] * steps, batch_size=BATCH) * BATCH
    run = Run(n=N, sampling=Poisson(BATCH), steps=steps, noise_multiplier=z)
    return Claim(budget, numerical, z, moments_accountant(run).epsilon(DELTA).upper, account(run, DELTA).epsilon)


@dataclass(frozen=True)
class Gain:
    """What adapted noise gains on one schedule.

    Attributes
    ----------
    schedule : str
        Its name.
    steps : int
        T.
    first, middle, last : float
        eta at t = 1, T/2 and T.
    gain : float
        M_dp/M_adp, as the paper accounts.
    exact : tuple of float
        By what the noise in the iterate, squared, falls at the same certified epsilon; one for each of ``EQUAL``.
    """

    schedule: str
    steps: int
    first: float
    middle: float
    last: float
    gain: float
    exact: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"epsilons": list(EQUAL)}


def gain(schedule: str, steps: int, epsilons: Sequence[float] = EQUAL) -> Gain:
    """Compute one."""
    etas = SCHEDULES[schedule](steps)
    adapted = [eta**-0.5 for eta in etas]
    found: list[float] = []
    for epsilon in epsilons:
        energies = []
        for alpha in ([1.0] * steps, adapted):
            # Started near enough for a search by secants.
            run = trained(alpha, printed_sigma(N, 10 * epsilon, DELTA, alpha, batch_size=BATCH) / 8, etas)
            energies.append(noise_energy(calibrate(run, epsilon=epsilon, delta=DELTA)))
        found.append(energies[0] / energies[1])
    b = [1 / eta for eta in etas]
    return Gain(schedule, steps, etas[0], etas[steps // 2 - 1], etas[-1], adaptation_gain(b), tuple(found))


def first_page(pair: tuple[Along, Along], claims: Sequence[Claim]) -> Reproduction:
    """Tables, sentences and the picture."""
    numbers = {"paper": PAPER, "delta": DELTA, "curves": [a.to_dict() for a in pair], "claims": [c.to_dict() for c in claims]}
    what = "Noise in the iterate and privacy along the run, for constant and adapted noise of the same printed budget"
    pictures = {"p3-figure1": (what, partial(first_picture, pair))}
    return Reproduction("p3-figure1", f"Figure 1 of {PAPER}", (along_table(pair), claim_table(claims)), numbers, pictures)


def along_table(pair: tuple[Along, Along]) -> Table:
    """Both trainings."""
    one, other = pair
    chosen = [i for i, _ in enumerate(one.steps) if i % max(len(one.steps) // 6, 1) == 0 or i in (1, len(one.steps) - 1)]
    rows = tuple(
        (
            f"{one.steps[i]:,}",
            *(f"{x.noise[i]:.1e}" for x in pair),
            *(f"{x.multiplier[i]:.3g}" for x in pair),
            *(f"{x.printed[i]:.3f}" for x in pair),
            *(rounded_up(x.certified[i], 3) for x in pair),
        )
        for i in chosen
    )
    heads = ("t", *("noise, DP", "ADP", "z, DP", "ADP", "printed, DP", "ADP", "certified, DP", "ADP"))
    steps, ratio = one.steps[-1], one.energy / other.energy
    half = one.steps[len(one.steps) // 2]
    sentences = (
        f"eta_t = 1/sqrt(20 + t), T = {steps:,} (120 epochs), batches of {BATCH} of {N:,}, delta {DELTA:g}. DP: alpha = 1; ADP: "
        "alpha = "
        f"1/sqrt(eta). sigma is equation (6)'s for epsilon {C_EPSILON * FIGURE_BUDGET:g}, which is {FIGURE_BUDGET:g} after the "
        f"division by {C_EPSILON:g}. Noise: eta_t alpha_t sigma over the clip norm. Printed: the same formula for t steps.",
        f"As printed both end at {one.printed[-1]:.3g}. Certified, they end at {rounded_up(one.certified[-1], 3)} and "
        f"{rounded_up(other.certified[-1], 3)}: the theorem's own epsilon is "
        f"{C_EPSILON * one.printed[-1] / one.certified[-1]:.0f} and "
        f"{C_EPSILON * other.printed[-1] / other.certified[-1]:.0f} times too large, and the same printed budget is not the same "
        f"privacy. The conditions of the theorem (adaptive-noise) {_conditions(pair)}.",
        f"ADP has less noise in the first steps and more in the last ones; its sum of squares is {1 / ratio:.2f} of DP's, and its "
        f"certified epsilon {other.certified[-1] / one.certified[-1]:.2f} of DP's. After half of the steps (t = {half:,}) it has "
        f"spent {_share(other):.0%} of it, DP {_share(one):.0%}.",
    )
    return Table("Figure 1: noise and privacy along the run", heads, rows, sentences)


def _conditions(pair: tuple[Along, Along]) -> str:
    kept = [one.holds for one in pair]
    return (
        "hold for both" if all(kept) else "hold for one of them only" if any(kept) else "hold for neither, so that it says nothing"
    )


def _share(one: Along) -> float:
    return one.certified[len(one.steps) // 2] / one.certified[-1]


def claim_table(claims: Sequence[Claim]) -> Table:
    """Budgets, as printed and as they are."""
    rows = tuple(
        (
            *(f"{c.budget:g}", f"{C_EPSILON * c.budget:g}", f"{c.noise:.3f}", f"{c.numerical:.2f}", f"{c.moments:.2f}"),
            rounded_up(c.certified, 3),
            f"{C_EPSILON * c.budget / c.certified:.0f}",
        )
        for c in claims
    )
    heads = ("epsilon-bar", "(6)'s epsilon", "z", "their MA", "MA here", "certified", "(6) over it")
    off = [c for c in claims if abs(c.moments - c.numerical) > 0.05 * c.numerical]
    apart = max(abs(c.moments / c.numerical - 1) for c in claims)
    below = [c for c in claims if c.numerical + 0.005 < c.certified]
    sentences = (
        f"Constant noise of equation (6), T = {CLAIMED_STEPS:,} as in the paper's footnote, clip 1. MA: the moments accountant.",
        "Our moments accountant is within 5 % of their number"
        + (
            f", but for {', '.join(f'{c.budget:g}' for c in off)}: there the two differ by up to {100 * apart:.0f} %."
            if off
            else "."
        ),
        "Each is at least what is certified."
        if not below
        else f"Less than what is certified: {', '.join(f'{c.budget:g}' for c in below)}.",
    )
    return Table("The budgets of section 6", heads, rows, sentences)


def first_picture(pair: tuple[Along, Along]) -> Figure:
    """The left panel of the paper's figure, and certified epsilons beside it."""
    from dplateau.report.picture import COLOURS, MARKERS, TEXT, figure_type, style_axes

    figure = figure_type()(figsize=(9.2, 3.6))
    panels: Any = figure.subplots(1, 3)
    for k, one in enumerate(pair):
        style: dict[str, Any] = {"color": COLOURS[k], "marker": MARKERS[k], "markersize": 3.5, "linewidth": 1.4, "label": one.name}
        for axes, values in zip(panels, (one.noise, one.printed, one.certified), strict=True):
            axes.plot(one.steps, values, **style)
    titles = ("noise, eta_t alpha_t sigma / clip norm", "epsilon-bar, as printed", f"certified epsilon, delta = {DELTA:g}")
    for axes, title in zip(panels, titles, strict=True):
        style_axes(axes)
        axes.set_title(title, loc="left", fontsize=TEXT, color="0.3")
        axes.set_xlabel("t")
        axes.legend(frameon=False, fontsize=TEXT)
    panels[0].set_yscale("log")
    figure.subplots_adjust(left=0.06, right=0.985, top=0.91, bottom=0.14, wspace=0.2)
    return figure


def second_page(gains: Sequence[Gain]) -> Reproduction:
    """The table and the picture."""
    numbers = {"paper": PAPER, "delta": DELTA, "rows": [g.to_dict() for g in gains]}
    pictures = {"p3-figure2": ("The two schedules for 60, 120 and 200 epochs", partial(second_picture, gains))}
    return Reproduction("p3-figure2", f"Figure 2 of {PAPER}", (gain_table(gains),), numbers, pictures)


def gain_table(gains: Sequence[Gain]) -> Table:
    """Schedules and gains."""
    rows = tuple(
        (
            g.schedule,
            f"{g.steps:,}",
            f"{g.first:.4f}",
            f"{g.middle:.4f}",
            f"{g.last:.1e}",
            *(f"{v:.3f}" for v in (g.gain, *g.exact)),
        )
        for g in gains
    )
    heads = ("eta_t", "T", "eta_1", "eta_T/2", "eta_T", "M_dp/ M_adp", *(f"at {epsilon:g}" for epsilon in EQUAL))
    worse = [(g, e) for g in gains for e, value in zip(EQUAL, g.exact, strict=True) if value < 1]
    guesses = [math.log1p(g.steps / 20) / 4 for g in gains if g.schedule == "1/sqrt(20 + t)"]
    sentences = (
        "M_dp/M_adp: by what adapted noise lowers the noise term where a step costs 1/alpha^2, as the paper accounts; the other "
        f"columns: by what it lowers the squared noise in the iterate at the same certified epsilon (delta {DELTA:g}).",
        f"The gain is log(1 + T c/a)/4 = {', '.join(f'{value:.2f}' for value in guesses)} for the first schedule, not 2 log(1 + T "
        "c/a), as the ratio of (9) and (10) suggests.",
        f"Adapted noise is worse than constant noise in {len(worse)} of {len(gains) * len(EQUAL)} places"
        + (f": {'; '.join(f'{g.schedule}, T = {g.steps:,}, epsilon {e:g}' for g, e in worse)}." if worse else "."),
    )
    return Table("Figure 2: the schedules, and what adapted noise gains", heads, rows, sentences)


def second_picture(gains: Sequence[Gain]) -> Figure:
    """One panel a number of epochs."""
    from dplateau.report.picture import COLOURS, TEXT, figure_type, style_axes

    lengths = list(dict.fromkeys(g.steps for g in gains))
    figure = figure_type()(figsize=(9.2, 3.2))
    panels: Any = figure.subplots(1, len(lengths), squeeze=False)
    for axes, steps in zip(panels[0], lengths, strict=True):
        style_axes(axes)
        at = np.unique(np.linspace(1, steps, 400).round().astype(int))
        for k, (name, schedule) in enumerate(SCHEDULES.items()):
            axes.plot(
                at, np.asarray(schedule(steps))[at - 1], color=COLOURS[k], linestyle=("-", "--")[k], linewidth=1.6, label=name
            )
        axes.set(xlabel="t", ylim=(0, 0.22), xticks=[0, steps // 2, steps])
        axes.set_title(f"T = {steps:,}", loc="left", fontsize=TEXT, color="0.3")
        axes.legend(frameon=False, fontsize=TEXT)
    panels[0][0].set_ylabel("eta_t")
    figure.subplots_adjust(left=0.08, right=0.985, top=0.91, bottom=0.16, wspace=0.24)
    return figure
