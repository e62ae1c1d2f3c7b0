"""``p0-theorem41``: the lower bound of Altschuler and Talwar 2022, its exact walks, and how tight the plateau is known to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dplateau.accounting import gdp_epsilon
from dplateau.accounting.enclosure import rounded_up
from dplateau.analyses import FixedOrderBound
from dplateau.audit import final_laws, printed_lower_bound, random_walks
from dplateau.audit.lower_bound import C_SIGMA, ORDER
from dplateau.report.picture import COLOURS, MARKERS, TEXT, figure_type, style_axes
from dplateau.spec import FixedSize, FullBatch
from dplateau_papers.p0 import PAPER
from dplateau_papers.p0.curves import LAST, applicable, least_epsilon
from dplateau_papers.p0.settings import DELTA, bounded, turned_walks
from dplateau_papers.page import Entry, Inputs, Reproduction, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHORT: Final = 0.75
"""T_bar of Theorem 4.1 is this times D n/(L eta)."""
INSIDE_STEPS: Final = (1, 3, 10)
RATIOS: Final = (0.005, 0.01, 0.1, 1.0, 10.0, 100.0)
_AFTER: Final = 8
"""So many times T_bar is long after it."""


@dataclass(frozen=True)
class Inside:
    """A run that meets the theorem's conditions, with the most noise that they allow.

    Attributes
    ----------
    steps : int
        T.
    share : float
        T over T_bar.
    printed, exact : float
        Renyi divergence of order 100: (4.1), and that of the walks.
    epsilon, certified : float
        Of the walks and proved, at ``DELTA``.
    """

    steps: int
    share: float
    printed: float
    exact: float
    epsilon: float
    certified: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def inside(steps: int) -> Inside:
    """D = 1000, eta = L = 1, n = 100, full batches."""
    n, diameter = 100, 1000.0
    burn_in = _SHORT * diameter * n
    sigma = math.sqrt(C_SIGMA * diameter**2 / burn_in) * (1 - 1e-12)
    run = bounded(FullBatch(), sigma * n, diameter, n=n, steps=steps)
    # A divergence of order a weighs places a mu deviations away.
    reach = 12 + ORDER * math.sqrt(steps) / (n * sigma)
    laws = final_laws(run, random_walks(run), reach=reach)
    certified = FixedOrderBound().guarantee(run).epsilon(DELTA).upper
    printed = printed_lower_bound(run).epsilon
    return Inside(steps, steps / burn_in, printed, laws.renyi(ORDER), laws.epsilon(DELTA), certified)


@dataclass(frozen=True)
class Plateau:
    """A run long after T_bar.

    Attributes
    ----------
    batches : str
        "full" or "random".
    ratio : float
        ``sigma^2 eta^2 T_bar / D^2``, which the theorem wants to be at most ``C_SIGMA``.
    noise : float
        Noise multiplier.
    walks, turned : float
        Exact epsilons at ``DELTA``: of the theorem's walks, and where both slopes turn.
    certified : float
        Proved.
    """

    batches: str
    ratio: float
    noise: float
    walks: float
    turned: float
    certified: float

    @property
    def factor(self) -> float:
        """What is certified, over the larger exact epsilon."""
        return self.certified / max(self.walks, self.turned)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def plateau(ratio: float, size: int) -> Plateau:
    """D = eta = L = 1, n = 100, batches of ``size``."""
    n = 100
    burn_in = _SHORT * n
    noise = math.sqrt(ratio / burn_in) * size
    full = size == n
    run = bounded(FullBatch() if full else FixedSize(size), noise, 1.0, n=n, steps=round(_AFTER * burn_in))
    walks, turned = (final_laws(run, instance).epsilon(DELTA) for instance in (random_walks(run), turned_walks(run)))
    certified = least_epsilon(applicable(LAST, run), run)
    return Plateau("full" if full else f"random, {size}", ratio, noise, walks, turned, certified)


def compute(
    steps: Sequence[int] = INSIDE_STEPS, ratios: Sequence[float] = RATIOS
) -> tuple[tuple[Inside, ...], tuple[Plateau, ...]]:
    """Everything."""
    full = tuple(plateau(ratio, 100) for ratio in ratios)
    return tuple(inside(each) for each in steps), (*full, *(plateau(ratio, 10) for ratio in ratios if ratio >= 1))


def page(insides: Sequence[Inside], plateaus: Sequence[Plateau]) -> Reproduction:
    """Tables, sentences and the picture."""
    numbers = {"paper": PAPER, "delta": DELTA, "inside": [r.to_dict() for r in insides], "plateau": [r.to_dict() for r in plateaus]}
    what = "Epsilon on the plateau against noise: certified, and exact on two pairs of data sets"
    pictures = {"p0-theorem41": (what, partial(tightness_picture, plateaus))}
    return Reproduction(
        "p0-theorem41", f"Theorem 4.1 of {PAPER}", (inside_table(insides), plateau_table(plateaus)), numbers, pictures
    )


def inside_table(rows: Sequence[Inside]) -> Table:
    """The statement."""
    lines = tuple(
        (
            f"{r.steps}",
            f"{r.share:.1e}",
            f"{r.printed:.2e}",
            f"{r.exact:.4g}",
            f"{r.exact / r.printed:.1e}",
            f"{r.epsilon:.3f}",
            rounded_up(r.certified, 4),
            f"{r.certified / r.epsilon:.2f}",
        )
        for r in rows
    )
    heads = ("T", "T/T_bar", "(4.1)", "exact", "ratio", "exact epsilon", "certified", "ratio")
    holds = all(r.exact >= r.printed for r in rows)
    sentences = (
        "Full batches, n = 100, D = 1000, eta = L = 1, with the most noise that the theorem allows. (4.1) and exact: the Renyi "
        f"divergence of order {ORDER:g}; epsilon at delta {DELTA:g}. Exact: the theorem's walks, between 0 and L; certified "
        "(fixed-order, Proved): records that turn round.",
        f"The statement {'holds' if holds else 'fails'} in these rows, with constants that are "
        f"{rows[0].exact / rows[0].printed:.0e} "
        "times too small.",
    )
    return Table("Theorem 4.1 where its conditions hold", heads, lines, sentences)


def plateau_table(rows: Sequence[Plateau]) -> Table:
    """How tight."""
    lines = tuple(
        (
            r.batches,
            f"{r.ratio:g}",
            f"{r.noise:.3g}",
            f"{r.walks:.3g}",
            f"{r.turned:.3g}",
            rounded_up(r.certified, 3),
            f"{r.factor:.3g}",
        )
        for r in rows
    )
    heads = ("batches", "r", "z", "exact 4.1", "exact turned", "certified", "ratio")
    edge = gdp_epsilon(math.sqrt(_SHORT**2 / C_SIGMA), DELTA)
    least, most = min(rows, key=lambda r: r.ratio), max(rows, key=lambda r: r.ratio)
    useful = [r for r in rows if r.certified <= 10]
    sentences = (
        f"n = 100, D = eta = L = 1, T = {_AFTER} T_bar; r = sigma^2 eta^2 T_bar/D^2. Theorem 4.1 needs r at most {C_SIGMA:g}: at "
        "T_bar the "
        f"drift is {math.sqrt(_SHORT**2 / C_SIGMA):.1f} deviations of the noise or more, as much as an epsilon of {edge:.0f}.",
        f"At r = {least.ratio:g} the walks have epsilon {least.walks:.0f} and what is certified is {least.factor:.2g} times the "
        f"exact epsilon; at r = {most.ratio:g} it is {most.factor:.2g} times.",
        "So where the theorem's conditions hold, the plateau protects nobody. (D at least 1000 eta L is not met here; laws on so "
        "long an interval are out of reach.) Where less than 10 is certified "
        f"(r from {min(r.ratio for r in useful):g} on), the walks forget after (D/(eta sigma))^2 steps, before T_bar, and lose "
        f"less: the factor between is {min(r.factor for r in useful):.2g} to {max(r.factor for r in useful):.2g}, and open."
        if useful
        else "Nothing useful is certified in these rows.",
    )
    return Table("Long after T_bar: how tight is the plateau?", heads, lines, sentences)


def tightness_picture(rows: Sequence[Plateau]) -> Figure:
    """Epsilon on the plateau against the noise."""
    figure = figure_type()(figsize=(6.4, 4.4))
    axes = figure.add_axes((0.11, 0.12, 0.87, 0.85))
    style_axes(axes)
    for k, batches in enumerate(dict.fromkeys(row.batches for row in rows)):
        chosen = [row for row in rows if row.batches == batches]
        places = [row.ratio for row in chosen]
        lines: tuple[tuple[str, list[float], Any], ...] = (
            ("certified (Proved)", [row.certified for row in chosen], "-"),
            ("exact, turned", [row.turned for row in chosen], (0, (4, 2))),
            ("exact, 4.1", [row.walks for row in chosen], (0, (1, 1.5))),
        )
        for what, values, dash in lines:
            style: dict[str, Any] = {"color": COLOURS[k], "marker": MARKERS[k], "markersize": 4.5, "linewidth": 1.3}
            axes.plot(places, values, **style, linestyle=dash, label=f"{batches.split(',')[0]} batches: {what}")
    axes.axvspan(5e-4, 1e-3, color="0.9", zorder=0)
    axes.annotate("Theorem 4.1", (1e-3, 0.03), (4, 0), ("data", "axes fraction"), "offset points", fontsize=TEXT)
    axes.set(xscale="log", yscale="log", xlim=(5e-4, 200), xlabel="r = sigma^2 eta^2 T_bar / D^2")
    axes.set_ylabel(f"epsilon at delta = {DELTA:g}")
    axes.legend(frameon=False, fontsize=TEXT)
    return figure


def run(_: Inputs) -> Reproduction:
    """Everything; seconds."""
    return page(*compute())


P0_THEOREM_41: Final = Entry(
    "p0-theorem41",
    PAPER,
    "the lower bound: (4.1), the exact laws of its random walks, what is certified, and where the two meet",
    "nothing; matplotlib for the pictures of --output",
    "10 seconds",
    run,
)
