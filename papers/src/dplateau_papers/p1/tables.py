"""The page of ``p1``: tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from dplateau_papers.p1 import PAPER
from dplateau_papers.p1.measure import Measured, Sweep, slope
from dplateau_papers.p1.pictures import free_picture, slope_picture
from dplateau_papers.p1.privacy import privacy_tables
from dplateau_papers.p1.settings import SIGNAL, STRENGTH, THEOREMS, Sizes, Theorem
from dplateau_papers.p1.simulations import Equal, Found, Free, Risk
from dplateau_papers.page import Reproduction, Table


def page(found: Found) -> Reproduction:
    """Tables, sentences and pictures."""
    tables = (
        printed_table(THEOREMS),
        risk_table(found.risks, found.sizes),
        *(slope_table(found.sweeps, against) for against in ("n", "d", "rho")),
        equal_table(found.equal),
        free_table(found.free),
        *privacy_tables(found.privacy),
    )
    pictures = {
        "p1-free": (
            "Excess risk against n: not private, private with d = 10, private with d = n",
            partial(free_picture, found.free),
        ),
        "p1-slopes": ("Excess risk against n, d and rho", partial(slope_picture, found.sweeps)),
    }
    return Reproduction("p1", f"Utility in {PAPER}", tables, found.to_dict(), pictures)


def printed_table(theorems: Sequence[Theorem]) -> Table:
    """What the theorems print."""
    rows = tuple((each.name, each.title, each.formula) for each in theorems)
    sentence = (
        "D bounds the distance of the start from the minimiser; the paper's D is a diameter, of which starting at the centre saves "
        "half. Printed values of 3.2, 3.4 and 3.6 are proved; those of 3.5 and 5.4 too, with less; those of 4.4 and 5.1 are not "
        "proved, and those in O(.) have no value."
    )
    return Table("What the theorems print", ("theorem", "algorithm", "excess risk at most"), rows, (sentence,))


def risk_table(risks: Sequence[Risk], sizes: Sizes) -> Table:
    """Printed, proved, measured."""
    rows = tuple(
        (
            r.theorem.name,
            r.problem,
            f"{r.steps:,}",
            "" if r.printed is None else f"{r.printed:.3g}",
            f"{r.proved:.3g}",
            str(r.measured),
            f"{r.measured.mean / r.proved:.3f}",
        )
        for r in risks
    )
    above = [r for r in risks if not r.measured.below(r.proved)]
    larger = [r.theorem.name for r in risks if r.printed is not None and r.printed < r.proved]
    ratios = [r.measured.mean / r.proved for r in risks]
    sentences = (
        f"n = {sizes.n:,} ({sizes.n_erm:,} for 4.8), d = {sizes.d}, rho = {sizes.rho:g}; means over {sizes.seeds} seeds with their "
        "standard errors. 3.2 and 3.4 are not private.",
        f"Linear: the smoothed hinge where it is linear, D = 1/2, the worst of nine signals. Logistic and hinge: one-hot rows. "
        f"Strong: linear with signal {SIGNAL:g} and an l2 term of {STRENGTH:g}.",
        "No measured risk is above what is proved." if not above else f"Above what is proved: {_names(above)}.",
        f"They are {min(ratios):.3f} to {max(ratios):.2f} of it."
        + (f" Printed values are below the proved ones for {', '.join(sorted(set(larger)))}." if larger else ""),
    )
    heads = ("theorem", "problem", "T", "printed", "proved", "measured", "of proved")
    return Table("Excess risk: printed, proved, measured", heads, rows, sentences)


def _names(risks: Sequence[Risk]) -> str:
    return ", ".join(f"{r.theorem.name} ({r.problem})" for r in risks)


def slope_table(sweeps: Sequence[Sweep], against: str) -> Table:
    """Powers of one parameter."""
    chosen = [each for each in sweeps if each.against == against]
    rows = tuple(
        (
            s.name,
            s.fixed,
            f"{s.places[0]:g} to {s.places[-1]:g}",
            f"{s.slope.claimed:g}",
            f"{s.slope.proved:.2f}",
            f"{s.slope.value:.2f} +- {s.slope.error:.2f}",
            "yes" if s.slope.agrees else "no",
        )
        for s in chosen
    )
    off = [s for s in chosen if not s.slope.agrees]
    above = [s.name for s in chosen if not s.holds]
    sentences = (
        "Every theorem's power is the nearest multiple of 1/2."
        if not off
        else f"Not the nearest multiple of 1/2, or not told apart by the errors: {', '.join(map(_off, off))}.",
        "No measured risk is above its bound." if not above else f"Above their bounds: {', '.join(above)}.",
    )
    heads = ("theorem", "at", against, "claimed", "of bounds", "measured", "agrees")
    return Table(f"The power of {against}", heads, rows, sentences)


def _off(s: Sweep) -> str:
    """Its name, and the reason where logarithms are one."""
    low, high = sorted((s.slope.claimed, s.slope.proved))
    return s.name + (
        " (between the claimed power and that of its bounds, logarithms included)" if low < s.slope.value < high else ""
    )


def equal_table(found: Sequence[Equal]) -> Table:
    """Schedules at equal privacy."""
    rows = tuple(
        (
            f"{e.n:,}, {e.d}, {e.rho:g}" if first else "",
            e.name,
            f"{1000 * e.proved:.1f}",
            str(e.linear.over(0.001)),
            str(e.logistic.over(0.001)),
        )
        for _, group in groupby(found, key=_place)
        for first, e in ((i == 0, e) for i, e in enumerate(group))
    )
    places = [list(group) for _, group in groupby(found, key=_place)]
    least = [min(group, key=lambda e: e.proved).name for group in places]
    sentences = (
        "In thousandths of D L. All cost rho, but for 4.4 as printed, which costs half of it: Algorithm 2's noise is twice what "
        "its rho needs.",
        f"The least bound is that of ours in {least.count('ours')} of {len(places)} places. Measured risks are another matter: by "
        f"more than two standard errors, {_better(places, lambda e: e.linear)} on the worst linear problem, and "
        f"{_better(places, lambda e: e.logistic)} on the logistic one.",
    )
    heads = ("n, d, rho", "schedule", "proved", "linear", "logistic")
    return Table("Schedules at equal privacy", heads, rows, sentences)


def _better(places: Sequence[Sequence[Equal]], on: Callable[[Equal], Measured]) -> str:
    """Where some schedule is measured below ours, and where ours is below all others."""
    below, above = list[str](), 0
    for group in places:
        ours = next(on(e) for e in group if e.name == "ours")
        others = [(e.name, on(e)) for e in group if e.name != "ours"]
        gaps = [(name, (ours.mean - other.mean) / math.hypot(ours.error, other.error)) for name, other in others]
        below += [name for name, gap in gaps if gap > 2]
        above += all(gap < -2 for _, gap in gaps)
    counted = [f"{name} in {below.count(name)}" for name in dict.fromkeys(below)]
    return f"ours is the least in {above} of {len(places)} places" + (f", above {' and '.join(counted)}" if counted else "")


def _place(e: Equal) -> tuple[int, int, float]:
    return e.n, e.d, e.rho


def free_table(found: Sequence[Free]) -> Table:
    """The cost of privacy for d up to n."""
    rows = tuple(
        (
            f"{f.n:,}",
            *(f"{1000 * bound:.1f}" for bound, _ in (f.silent, f.few, f.many)),
            *(str(m.over(0.001)) for _, m in (f.silent, f.few, f.many)),
        )
        for f in found
    )
    places = [f.n for f in found]
    powers = [
        slope(places, [m for _, m in series], [bound for bound, _ in series], -0.5)
        for series in ([f.silent for f in found], [f.many for f in found])
    ]
    ratios = [f.many[1].mean / f.silent[1].mean for f in found]
    bounds = [f.many[0] / f.silent[0] for f in found]
    sentences = (
        "In thousandths; the first three columns are proved, the others measured.",
        f"With d = n the risk falls as n to the {powers[1].value:.2f} +- {powers[1].error:.2f}, without privacy to the "
        f"{powers[0].value:.2f} +- {powers[0].error:.2f}: the rate is the same, as the paper says.",
        f"The constant is not: with d = n and rho = 1 the measured risk is {min(ratios):.1f} to {max(ratios):.1f} times that "
        f"without privacy, the bound {min(bounds):.1f} to {max(bounds):.1f} times.",
    )
    heads = ("n", "not private", "d = 10", "d = n", "not private", "d = 10", "d = n")
    return Table("Is privacy free for d up to n? rho = 1, ours, the worst linear problem", heads, rows, sentences)
