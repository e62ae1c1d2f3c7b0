"""``p0-statements``: the sampled step, the claims for one step and the best look-back of Altschuler and Talwar 2022, recomputed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.terms import Composition, Repeated
from dplateau.analyses import NoisySGDBound, PrintedNoisySGD
from dplateau.audit import final_laws
from dplateau.spec import Poisson, Run
from dplateau_papers.p0 import PAPER
from dplateau_papers.p0.settings import DELTA, bounded, turned_walks
from dplateau_papers.page import Entry, Inputs, Reproduction, Table

STEPS: Final = ((0.1, 4.0, 8.0), (0.1, 4.0, 32.0), (0.5, 1.0, 8.0), (0.01, 1.0, 8.0), (0.01, 10.0, 32.0))
"""q, noise in gradient norms, order."""
CLAIMS: Final = ((0.5, 1.0), (0.1, 1.0), (0.1, 4.0), (0.01, 0.7))
"""q, noise multiplier."""
_LEMMA: Final = tuple((q, s) for q in (0.001, 0.01, 0.1, 0.19) for s in (4.0, 8.0, 20.0))
LOOKS: Final = ((8.0, 0.9, 1e-4), (8.0, 0.99, 1e-4), (8.0, 0.999, 1e-4), (8.0, 0.99, 1e-6))
"""Order, c, Q; D = 2, eta sigma_1 = 0.2."""


def divergence(law: StepLaw, order: float) -> float:
    """Of one step."""
    return renyi_divergence(Composition((Repeated(law, 1),)), order)


@dataclass(frozen=True)
class Step:
    """One sampled step under replacement.

    Attributes
    ----------
    rate, noise, order : float
        q, the noise in gradient norms, and a.
    printed : float
        S_a(q, noise/2) of Definition 2.10.
    true : float
        The divergence of the mixtures with centres 1 and -1.
    larger : float
        The other direction of Definition 2.10.
    """

    rate: float
    noise: float
    order: float
    printed: float
    true: float
    larger: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def step(rate: float, noise: float, order: float) -> Step:
    """Compute one."""
    laws = PoissonAdd(rate, 2 / noise), PoissonReplace(rate, 1 / noise), PoissonRemove(rate, 2 / noise)
    return Step(rate, noise, order, *(divergence(law, order) for law in laws))


@dataclass(frozen=True)
class Claim:
    """(B.2) for one step on a wide set.

    Attributes
    ----------
    rate, noise : float
        q and z.
    printed, repaired : float
        Epsilon at ``DELTA``.
    exact : float
        That of the walks whose slopes turn.
    delta : float
        Their delta at the printed epsilon.
    """

    rate: float
    noise: float
    printed: float
    repaired: float
    exact: float
    delta: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def wide(rate: float, noise: float) -> Run:
    """One step of 1,000 records, Poisson batches, walls out of reach."""
    return bounded(Poisson(1000 * rate), noise, 1e6, step_size=0.5)


def claim(rate: float, noise: float) -> Claim:
    """Compute one."""
    run = wide(rate, noise)
    laws = final_laws(run, turned_walks(run))
    printed, repaired = (analysis.guarantee(run).epsilon(DELTA).upper for analysis in (PrintedNoisySGD(), NoisySGDBound()))
    return Claim(rate, noise, printed, repaired, laws.epsilon(DELTA), laws.delta(printed))


def greatest_order(rate: float, noise: float) -> float:
    """alpha* of section 2.3, by bisection."""

    def allowed(order: float) -> bool:
        m = math.log1p(1 / (rate * (order - 1)))
        top = m**2 * noise**2 / 2 - math.log(5 * noise**2)
        return order <= m * noise**2 / 2 - math.log(noise**2) and order <= top / (m + math.log(rate * order) + 1 / (2 * noise**2))

    low, high = 1.001, 1e6
    if not allowed(low):
        return 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def lemma_share() -> tuple[float, int]:
    """The largest divergence of the larger direction over ``2 a q^2/s^2`` (Lemma 2.12) on a grid within its conditions."""
    shares: list[float] = []
    for rate, noise in _LEMMA:
        if (most := greatest_order(rate, noise)) >= 2:
            for order in (2.0, max(math.sqrt(most), 2.0), most):
                bound = 2 * order * rate**2 / noise**2
                shares.append(max(divergence(kind(rate, 1 / noise), order) for kind in (PoissonAdd, PoissonRemove)) / bound)
    return max(shares), len(shares)


@dataclass(frozen=True)
class Look:
    """The look-back that (B.3) recommends.

    Attributes
    ----------
    order, factor, step : float
        a, c and Q.
    printed, right, best : float
        Look-back with (1 - c)^2 as printed, with 1 - c^2, and the best whole number.
    bounds : tuple of float
        The bound at each.
    """

    order: float
    factor: float
    step: float
    printed: float
    right: float
    best: int
    bounds: tuple[float, float, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def look(order: float, factor: float, each: float, diameter: float = 2.0, noise: float = 0.2) -> Look:
    """Compute one; ``noise`` is eta sigma_1."""
    far = order * (diameter / noise) ** 2

    def bound(steps: float) -> float:
        return steps * each + far * (1 - factor**2) / (2 * math.expm1(-2 * steps * math.log(factor)))

    def recommended(shrink: float) -> float:
        beta = shrink * far * math.log(factor) / each
        root = (2 - beta + math.sqrt((2 - beta) ** 2 - 4)) / 2
        return max(-math.log(root) / (2 * math.log(factor)), 1.0)

    printed, right = recommended((1 - factor) ** 2), recommended(1 - factor**2)
    best = min((max(math.floor(right) + i, 1) for i in range(-2, 4)), key=bound)
    return Look(order, factor, each, printed, right, best, (bound(round(printed)), bound(round(right)), bound(best)))


@dataclass(frozen=True)
class Statements:
    """All numbers of ``p0-statements``."""

    steps: tuple[Step, ...]
    claims: tuple[Claim, ...]
    lemma: tuple[float, int]
    looks: tuple[Look, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        parts = {"definition_2_10": self.steps, "b2_one_step": self.claims, "b3_look_back": self.looks}
        lemma = {"largest_share": self.lemma[0], "places": self.lemma[1]}
        return {"paper": PAPER, "delta": DELTA, "lemma_2_12": lemma} | {k: [one.to_dict() for one in v] for k, v in parts.items()}


def compute() -> Statements:
    """Everything; seconds."""
    steps, claims = tuple(step(*each) for each in STEPS), tuple(claim(*each) for each in CLAIMS)
    return Statements(steps, claims, lemma_share(), tuple(look(*each) for each in LOOKS))


def page(found: Statements) -> Reproduction:
    """Tables and sentences."""
    tables = step_table(found.steps, found.lemma), claim_table(found.claims), look_table(found.looks)
    return Reproduction("p0-statements", f"Statements of {PAPER}", tables, found.to_dict())


def step_table(rows: Sequence[Step], lemma: tuple[float, int]) -> Table:
    """Definition 2.10."""
    lines = tuple(
        (
            f"{r.rate:g}",
            f"{r.noise:g}",
            f"{r.order:g}",
            *(f"{v:.3g}" for v in (r.printed, r.true, r.larger)),
            f"{r.true / r.printed:.3g}",
        )
        for r in rows
    )
    heads = ("q", "noise", "order", "printed", "true", "larger direction", "true/printed")
    broken = [r for r in rows if r.true > r.printed * (1 + 1e-9)]
    kept = all(r.larger >= r.true * (1 - 1e-9) for r in rows)
    sentences = (
        f"One step, replace, noise in gradient norms. Printed: D(N || mixture), the smaller direction. It is below the truth in "
        f"{len(broken)} of {len(rows)} rows: Refuted. The larger direction of the same pair is "
        f"{'large enough in all of them' if kept else 'not always large enough'}.",
        f"Lemma 2.12, S_a at most 2 a q^2/s^2, also holds for the larger direction at all of {lemma[1]} places that were tried "
        f"within its conditions, by a factor of {1 / lemma[0]:.2g} at least: so the rates of the theorems stand."
        if lemma[0] <= 1
        else f"Lemma 2.12 fails for the larger direction, by a factor of {lemma[0]:.3g}.",
    )
    return Table("Definition 2.10: the sampled step", heads, lines, sentences)


def claim_table(rows: Sequence[Claim]) -> Table:
    """(B.2), one step."""
    lines = tuple(
        (f"{r.rate:g}", f"{r.noise:g}", f"{r.printed:.3f}", f"{r.exact:.3f}", f"{r.delta:.1e}", f"{r.repaired:.3f}") for r in rows
    )
    heads = ("q", "z", "printed epsilon", "exact", "exact delta there", "repaired")
    broken = [r for r in rows if r.exact > r.printed]
    sentences = (
        f"n = 1,000, Poisson batches, replace, one step on a wide set; epsilon at delta {DELTA:g}. (B.2) as printed is "
        f"{PrintedNoisySGD.status.__name__}: below the exact epsilon in {len(broken)} of {len(rows)} rows, by a factor of up to "
        f"{max(r.exact / r.printed for r in rows):.3g}. Repaired (noisy-sgd) it is {NoisySGDBound.status.__name__}. (B.3) and "
        "(5.7) are the same for one step.",
    )
    return Table("(B.2) as printed, one step", heads, lines, sentences)


def look_table(rows: Sequence[Look]) -> Table:
    """(B.3)."""
    lines = tuple(
        (
            f"{r.factor:g}",
            f"{r.step:g}",
            f"{r.printed:.1f}",
            f"{r.right:.1f}",
            str(r.best),
            *(f"{v:.4g}" for v in r.bounds[:2]),
            f"{r.bounds[0] / r.bounds[2]:.3g}",
        )
        for r in rows
    )
    heads = ("c", "Q", "T~ printed", "with 1 - c^2", "best", "bound, printed", "with 1 - c^2", "times the best")
    sentences = (
        "Order 8, D = 2, eta sigma_1 = 0.2. The best look-back of (B.3) is printed with (1 - c)^2 in beta, where 1 - c^2 belongs. "
        "Any look-back gives a valid bound; the printed one gives one that is up to "
        f"{max(r.bounds[0] / r.bounds[2] for r in rows):.3g} "
        f"times larger than the best, the right one {max(r.bounds[1] / r.bounds[2] for r in rows):.4g} times.",
    )
    return Table("(B.3): the best look-back", heads, lines, sentences)


def run(_: Inputs) -> Reproduction:
    """Everything."""
    return page(compute())


P0_STATEMENTS: Final = Entry(
    "p0-statements",
    PAPER,
    "Definition 2.10's direction, Lemma 2.12 for the other one, (B.2) for one step, and the look-back of (B.3): printed and true",
    "nothing",
    "seconds",
    run,
)
