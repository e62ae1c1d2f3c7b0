"""``p4-privacy``: its page, with tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from dplateau.accounting.enclosure import rounded_up
from dplateau_papers.p4 import PAPER
from dplateau_papers.p4.pictures import langevin_picture
from dplateau_papers.p4.privacy import DIMENSION, Full, Growth, Minibatch, Privacy, compute
from dplateau_papers.p4.settings import DELTA, FLAT, FLAT_EPSILON, FLAT_ROWS, HALVED, STEPS
from dplateau_papers.page import Entry, Inputs, Reproduction, Table


def page(found: Privacy) -> Reproduction:
    """Tables, sentences and the picture."""
    tables = (
        minibatch_table(found.minibatches),
        full_table(found.constant, found.falling),
        factor_table(found.constant, found.falling),
        growth_table(found.growth),
    )
    pictures = {
        "p4-privacy": (
            "Epsilon against the number of steps, full batches; and what minibatches cost against what is claimed",
            partial(langevin_picture, found),
        )
    }
    return Reproduction("p4-privacy", f"Privacy in {PAPER}", tables, found.to_dict(), pictures)


def minibatch_table(rows: Sequence[Minibatch]) -> Table:
    """Theorem 4.2's noise."""
    lines = tuple(
        (
            f"{r.n:,}",
            f"{r.m:,}",
            f"{r.noise:.3f}",
            f"{r.claimed:g}",
            f"{r.exact:.3f}",
            f"{r.delta:.1e}",
            rounded_up(r.certified, 3),
            f"{r.factor:.2f}",
            r.status,
        )
        for r in rows
    )
    heads = ("n", "m", "z", "claimed epsilon", "exact", "delta there", "certi- fied", "noise, times", "printed is")
    broken = [r for r in rows if r.refuted]
    kept = [r for r in rows if not r.refuted]
    sentences = (
        f"Losses x^2/2 + a x on [-2, 2], |a| at most 3, L = {HALVED.lipschitz:g}, {STEPS} steps of size 1/2, sigma from Theorem "
        "4.2 "
        f"at delta {DELTA:g}; z is that noise as a multiple of L on the sum. Exact: the last iterate's laws for a = 3 and a = -3, "
        "all other a being 0.",
        f"The claim is false in {len(broken)} of {len(rows)} rows, the minibatches: there the exact epsilon is "
        f"{min(r.exact / r.claimed for r in broken):.2g} to {max(r.exact / r.claimed for r in broken):.3g} times what is claimed, "
        f"and delta {min(r.delta / DELTA for r in broken):.2g} to {max(r.delta / DELTA for r in broken):,.0f} times."
        if broken
        else "No claim is false in these rows.",
        *(
            f"With full batches (n = {r.n:,}) it holds: {r.exact:.3f} for a claimed {r.claimed:g}, and {r.factor:.2f} times the "
            "noise is enough."
            for r in kept
        ),
        "Noise, times: by what the printed noise must be multiplied until the claimed epsilon is Proved "
        f"({', '.join(dict.fromkeys(r.by for r in rows))}; the longer search of `dplateau account` may certify less).",
    )
    return Table("The noise of Theorem 4.2, minibatches of m", heads, lines, sentences)


def full_table(constant: Sequence[Full], falling: Sequence[Full]) -> Table:
    """Epsilon against K."""
    right = {r.steps: _epsilons(r) for r in falling}
    lines = tuple((f"{r.steps:,}", *_epsilons(r), *right.get(r.steps, ("",) * 4)) for r in constant)
    heads = ("K", *("Cor. 3.2", "ours", "exact", "all"), *("Cor. 3.3", "ours", "exact", "all"))
    both = (*constant, *falling)
    late = [max((r.steps for r in rows if r.printed >= r.composed), default=0) for rows in (constant, falling)]
    sentences = (
        f"n = {FLAT_ROWS:,}, lambda = {FLAT.curvature:g}, beta = {FLAT.smoothness:g}, L = {FLAT.lipschitz:g}, sigma of Theorems "
        "4.2 "
        f"and 4.4 for epsilon {FLAT_EPSILON:g} at delta {DELTA:g}. Left: steps 1/(2 beta); right: steps 1/(2 beta + lambda k/2). "
        "Ours "
        "is fixed-order; the corollaries, ours and all (the composition of all iterates) are Proved here; exact: quadratic losses.",
        f"Ours is {min(r.proved / r.printed for r in both):.2f} to {max(r.proved / r.printed for r in both):.2f} of the printed "
        f"bound, and the exact epsilon at least {min(r.exact / r.proved for r in both):.2f} of ours: there is nothing left to "
        "gain.",
        f"Releasing all iterates costs no more than the printed bound says of the last one up to K = {late[0]:,} (constant steps) "
        f"and {late[1]:,} (falling ones) in this table; beta/lambda is {FLAT.smoothness / FLAT.curvature:g}.",
    )
    return Table("Full batches: epsilon after K steps", heads, lines, sentences)


def _epsilons(r: Full) -> tuple[str, str, str, str]:
    shown = [f"{value:.3f}" if value < 10 else f"{value:.1f}" for value in (r.printed, r.proved, r.exact, r.composed)]
    return shown[0], shown[1], shown[2], shown[3]


def factor_table(constant: Sequence[Full], falling: Sequence[Full]) -> Table:
    """The factors of the discussion."""
    ratio = FLAT.smoothness / FLAT.curvature
    others = {r.steps: r for r in falling}
    lines = tuple(
        (
            f"{r.steps / ratio:g}",
            *(f"{value:.4g}" for value in r.units),
            *((f"{value:.4g}" for value in others[r.steps].units) if r.steps in others else ("",) * 4),
        )
        for r in constant
    )
    heads = ("K lambda/ beta", *("Cor. 3.2", "ours", "exact", "all"), *("Cor. 3.3", "ours", "exact", "all"))
    first, last = constant[0], constant[-1]
    sentences = (
        f"The numbers before a L^2/(lambda n^2 sigma^2) in the divergence of order a. Many steps: printed {last.units[0]:.3g}, "
        f"proved {last.units[1]:.4g}, exact {last.units[2]:.4g} (2 - lambda/(2 beta) for ours; times (a/L)^2, a = {FLAT.slope:g}, "
        "for quadratic losses). So the 4 of the discussion should be a 2.",
        f"Few steps: the printed bound is {first.units[0] / first.units[3]:.2f} times composition (the paper says 2).",
        "Cor. 3.3 is Theorem 3.2 with the steps that the algorithm takes, k = 0, ..., K - 1. The corollary's own factor, 4 lambda "
        f"K/(4 beta + lambda K), sums k = 1, ..., K and is less, here by at most {100 * _missed(falling, ratio):.2g} %.",
    )
    return Table("The factors of section 3's discussion", heads, lines, sentences)


def _missed(falling: Sequence[Full], ratio: float) -> float:
    """The largest share by which the closed form of Corollary 3.3 is below Theorem 3.2."""
    return max(1 - 4 * r.steps / (4 * ratio + r.steps) / r.units[0] for r in falling)


def growth_table(rows: Sequence[Growth]) -> Table:
    """K against n."""
    lines = tuple(
        (
            f"{r.n:,}",
            f"{r.constant:,}",
            f"{r.composed[0]:.3f}",
            f"{r.plateau:.3f}",
            f"{r.falling:.3g}",
            f"{r.composed[1]:.3f}",
        )
        for r in rows
    )
    heads = ("n", "K, Theorem 4.2", "all iterates", "last iterate", "K, Theorem 4.4", "all iterates")
    least, most = rows[0], rows[-1]
    times = most.n / least.n
    sentences = (
        f"Epsilon at delta {DELTA:g}, full batches, d = {DIMENSION}, beta/lambda = {FLAT.smoothness / FLAT.curvature:g}, claimed "
        f"{FLAT_EPSILON:g}. While n grows by {times:g}, K grows by {most.constant / least.constant:.2g} with constant steps and "
        f"by {most.falling / least.falling:.2g} with falling ones.",
        f"With falling steps all iterates together cost {least.composed[1]:.2f} to {most.composed[1]:.2f}: the steps fall so fast "
        "that composition grows with the logarithm of K only.",
    )
    return Table("How K grows", heads, lines, sentences)


def run(_: Inputs) -> Reproduction:
    """Everything."""
    return page(compute())


P4_PRIVACY: Final = Entry(
    "p4-privacy",
    PAPER,
    "Theorem 3.2, Corollaries 3.2 and 3.3, the noise and the K of Theorems 4.2 and 4.4: printed, exact and certified, for "
    "minibatches (refuted) and full batches",
    "nothing; matplotlib for the pictures of --output",
    "half a minute",
    run,
)
