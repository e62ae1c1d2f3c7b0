"""``p0-figure1`` and ``p0-figure2``: privacy against the number of steps, the sketches of Altschuler and Talwar 2022 in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from dplateau.accounting.enclosure import rounded_up
from dplateau.spec import FixedSize
from dplateau_papers.p0 import PAPER
from dplateau_papers.p0.curves import COMPOSED, OURS, PRINTED, TURNED, WALKS, Curve, Panel, panel
from dplateau_papers.p0.pictures import first_picture, second_picture
from dplateau_papers.p0.settings import (
    CONVEXITY,
    DELTA,
    FIGURE_1,
    FIGURE_1_STEPS,
    FIGURE_2,
    FIGURE_2_STEPS,
    ORDER,
    N,
    Setting,
)
from dplateau_papers.page import Entry, Inputs, Reproduction, Table


def first_figure(settings: Sequence[Setting] = FIGURE_1, steps: Sequence[int] = FIGURE_1_STEPS) -> tuple[Panel, ...]:
    """Random batches, convex losses."""
    return tuple(panel(setting, steps) for setting in settings)


def second_figure(steps: Sequence[int] = FIGURE_2_STEPS) -> dict[float, tuple[Panel, ...]]:
    """Four ways to form batches, by strong convexity."""
    return {m: tuple(panel(setting, steps, divergences=False) for setting in settings) for m, settings in FIGURE_2.items()}


def first_page(panels: Sequence[Panel]) -> Reproduction:
    """Tables, sentences and the picture."""
    tables = tuple(steps_table(each) for each in panels)
    what = "Renyi divergence and epsilon against steps: composition, the printed bound, ours, and two exact random walks"
    numbers = {"paper": PAPER, "delta": DELTA, "order": ORDER, "settings": [each.to_dict() for each in panels]}
    title = f"Figure 1 of {PAPER}"
    return Reproduction("p0-figure1", title, tables, numbers, {"p0-figure1": (what, partial(first_picture, panels))})


def steps_table(found: Panel) -> Table:
    """One setting of Figure 1."""
    columns = [(curve, 3) for curve in found.epsilon.values()] + [(curve, 2) for curve in found.divergence.values()]
    rows = tuple((f"{steps:,}", *(_short(curve, i, digits) for curve, digits in columns)) for i, steps in enumerate(found.steps))
    heads = ("T", *(_head(curve) for curve, _ in columns))
    run = found.setting.run
    assert isinstance(run.sampling, FixedSize)
    printed, walks = found.epsilon[PRINTED], found.epsilon[WALKS]
    refuted = ", ".join(f"{steps:,}" for steps in found.refuted_at)
    sentences = (
        f"n = {run.n:,}, batches of {run.sampling.batch_size:g} drawn at random, noise multiplier {run.noise_multiplier:g}, L = M "
        f"= eta = 1, D = {run.diameter:g}, replace. Left: epsilon at delta {DELTA:g}; right: the Renyi divergence of order "
        f"{ORDER:g}.",
        _when(found),
        f"{printed.by} is {printed.status}: "
        + (f"an exact epsilon is larger at T = {refuted}." if refuted else "not by these walks, whose epsilon is never larger."),
        f"The walks' epsilon stops at {walks.values[-1]:.3g} ({found.epsilon[TURNED].values[-1]:.3g} where both slopes turn): the "
        f"certified one is {found.plateau / walks.values[-1]:.3g} times as large, and where between the two the truth lies is "
        "open.",
    )
    return Table(f"Figure 1: {found.setting.name}", heads, rows, sentences)


def _when(found: Panel) -> str:
    """Where the plateau pays."""
    assert isinstance(found.setting.run.sampling, FixedSize)
    start = f"T_bar = D n/(L eta) = {found.setting.burn_in:,.0f}. "
    if found.crossing is None:
        return start + f"Up to T = {found.steps[-1]:,} nothing is gained over composition."
    epochs = found.crossing / found.setting.run.sampling.epoch_steps(found.setting.run.n)
    composed = found.epsilon[COMPOSED].values[-1]
    return start + (
        f"From T = {found.crossing:,} on ({epochs:,.0f} epochs) less is certified than composition says; the plateau is at epsilon "
        f"{rounded_up(found.plateau, 3)}, where composition has {rounded_up(composed, 3)} at T = {found.steps[-1]:,}."
    )


def _head(curve: Curve) -> str:
    return {COMPOSED: "all", PRINTED: "print", OURS: "ours", WALKS: "exact 4.1", TURNED: "exact turned"}[curve.name]


def _short(curve: Curve, i: int, digits: int = 3) -> str:
    """A few digits; bounds are rounded up."""
    value = curve.values[i]
    digits = 1 if value < 1e-3 else digits
    if value >= 100:
        return f"{math.ceil(value):,}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e")
    return f"{value:.{digits}g}" if curve.status == "exact" else rounded_up(value, digits)


def second_page(panels: dict[float, tuple[Panel, ...]]) -> Reproduction:
    """Tables, sentences and the picture."""
    tables = (*(schemes_table(m, each) for m, each in panels.items()), ends_table(panels))
    what = "Epsilon against steps for cyclic, shuffled, random and full batches, convex and strongly convex"
    numbers = {
        "paper": PAPER,
        "delta": DELTA,
        "settings": [{"strong_convexity": m, "panels": [one.to_dict() for one in each]} for m, each in panels.items()],
    }
    title = f"Figure 2 of {PAPER}"
    return Reproduction("p0-figure2", title, tables, numbers, {"p0-figure2": (what, partial(second_picture, panels))})


def schemes_table(convexity: float, panels: Sequence[Panel]) -> Table:
    """Four ways to form batches."""
    columns = [(found, name) for found in panels for name in (COMPOSED, PRINTED, OURS) if _shown(found, name)]
    steps = panels[0].steps
    rows = tuple((f"{number:,}", *(_short(f.epsilon[name], i) for f, name in columns)) for i, number in enumerate(steps))
    heads = ("T", *(f"{f.setting.name.replace('shuffled', 'shuf- fled')} {_head(f.epsilon[name])}" for f, name in columns))
    prints = [f"{f.epsilon[PRINTED].by} ({f.epsilon[PRINTED].status})" for f in panels if _shown(f, PRINTED)]
    first = {f.setting.name: f.epsilon[OURS].values[0] for f in panels}
    ends = {f.setting.name: f.plateau for f in panels}
    run = panels[0].setting.run
    sentences = (
        f"Epsilon at delta {DELTA:g}, n = {N:,}, L = M = eta = 1, D = {run.diameter:g}, m = {convexity:g}; batches of 100 with "
        "noise "
        "multiplier 20, full batches with 200: the same noise on the mean gradient. All: composition of all iterates; ours: the "
        f"last one, Proved. As printed: {', '.join(dict.fromkeys(prints))}.",
        f"After {steps[0]} steps a cyclic order costs {first['cyclic'] / first['random']:.2g} times what random batches do: the "
        f"initial phase of Figure 2(a). A shuffled one costs {first['shuffled'] / first['random']:.2g} times as much.",
        f"In the end: {', '.join(f'{name} {rounded_up(value, 3)}' for name, value in ends.items())}.",
    )
    return Table(f"Figure 2: {'strongly convex' if convexity else 'convex'} losses, m = {convexity:g}", heads, rows, sentences)


def _shown(found: Panel, name: str) -> bool:
    """Shuffling composes as cyclic batches do; prints are shown for random batches, and for cyclic ones of convex losses."""
    if name == PRINTED:
        return found.setting.name in (("random",) if found.setting.run.strong_convexity else ("random", "cyclic"))
    return not (name == COMPOSED and found.setting.name == "shuffled")


def ends_table(panels: dict[float, tuple[Panel, ...]]) -> Table:
    """The plateaus, and what is known of them from below."""
    rows = tuple(
        (
            f"{found.setting.name}, m = {m:g}",
            "never" if found.crossing is None else f"{found.crossing:,}",
            rounded_up(found.plateau, 3),
            *(f"{found.epsilon[name].values[-1]:.3g}" for name in (WALKS, TURNED)),
            f"{found.plateau / found.epsilon[TURNED].values[-1]:.3g}",
        )
        for m, each in panels.items()
        for found in each
    )
    heads = ("batches", "pays from T", "plateau", "exact 4.1", "exact turned", "ratio")
    convex, strong = panels[0.0], panels[CONVEXITY]
    gains = [a.plateau / b.plateau for a, b in zip(convex, strong, strict=True)]
    ratios = [f.plateau / f.epsilon[TURNED].values[-1] for each in panels.values() for f in each]
    sentences = (
        f"With strong convexity m = {CONVEXITY:g} the plateau is {min(gains):.2g} to {max(gains):.2g} times lower. It is reached, "
        f"to 1 % of its height, after at most {max(f.begins for f in strong):,} steps; without it, after at most "
        f"{max(f.begins for f in convex):,}. Beside these: 1/(eta m) = {1 / CONVEXITY:g} steps, and T_bar = "
        f"{convex[0].setting.burn_in:,.0f} steps.",
        f"The certified plateaus are {min(ratios):.2g} to {max(ratios):.2g} times as high as what we computed exactly: the epsilon "
        "of two pairs of data sets with linear losses.",
    )
    return Table("Figure 2: plateaus, certified and exact", heads, rows, sentences)


def run_first(_: Inputs) -> Reproduction:
    """Figure 1; a minute."""
    return first_page(first_figure())


def run_second(_: Inputs) -> Reproduction:
    """Figure 2; half a minute."""
    return second_page(second_figure())


P0_FIGURE_1: Final = Entry(
    "p0-figure1",
    PAPER,
    "privacy against steps for random batches: composition, (B.2) as printed (refuted) and repaired, our bound, and exact random "
    "walks, in three settings",
    "nothing; matplotlib for the pictures of --output",
    "1 minute",
    run_first,
)
P0_FIGURE_2: Final = Entry(
    "p0-figure2",
    PAPER,
    "the same for cyclic, shuffled and full batches, convex and strongly convex losses",
    "nothing; matplotlib for the pictures of --output",
    "half a minute",
    run_second,
)
