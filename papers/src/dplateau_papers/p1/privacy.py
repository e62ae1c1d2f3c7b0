"""What the schedules of Feldman, Koren and Talwar 2020 cost: Theorem 3.1, printed noise, the records of Theorem 3.6, averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from dplateau._account import account
from dplateau.accounting import Bound, gdp_delta, gdp_epsilon, gdp_mu
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses import PNSGDBound
from dplateau.spec import OnePass, Run
from dplateau.utility import DECAYING_STEPS, snowball_batch_sizes
from dplateau_papers.p1.schedules import DELTA
from dplateau_papers.page import Table
from dplateau_papers.utility import phased_erm_sensitivity

PRINTED_SENSITIVITY: Final = 4.0
"""Of a phase of Phased-ERM, over L eta: Lemma 4.7."""


def lemma_2_6(rho: float, delta: float) -> float:
    """The epsilon that the paper gets from rho: ``rho^2/2 + rho sqrt(2 ln(1/delta))``."""
    return rho**2 / 2 + rho * math.sqrt(-2 * math.log(delta))


@dataclass(frozen=True)
class Cost:
    """One schedule.

    Attributes
    ----------
    name : str
        Its theorem.
    rho : float
        What the theorem says.
    formula : float or None
        What Theorem 3.1 says of the schedule, where it applies.
    mu, epsilon : float
        Certified; epsilon at ``DELTA``.
    """

    name: str
    rho: float
    formula: float | None
    mu: float
    epsilon: float


def cost(name: str, run: Run, rho: float) -> Cost:
    """Certify one schedule."""
    report, bound = account(run, DELTA), PNSGDBound().bound(run)
    concentrated = bound.guarantee if isinstance(bound, Bound) else None
    printed = math.sqrt(2 * concentrated.rho) if isinstance(concentrated, ZeroConcentratedDP) else None
    mu = gdp_mu(report.epsilon, DELTA) if report.mu is None else report.mu
    return Cost(name, rho, printed, mu, report.epsilon)


@dataclass(frozen=True)
class Records:
    """The records that T steps of Theorem 3.6 take.

    Attributes
    ----------
    steps, d, rho : int, int, float
        T, d and rho.
    taken : int
        The sum of the batch sizes.
    statement, proof : float
        ``T + 4 sqrt(d T)/rho`` and ``T + 8 sqrt(3 d T)/rho``.
    """

    steps: int
    d: int
    rho: float
    taken: int
    statement: float
    proof: float


def records(steps: int, d: int, rho: float) -> Records:
    """Count them."""
    taken = int(snowball_batch_sizes(steps, d, rho, DECAYING_STEPS).sum())
    root = math.sqrt(d * steps) / rho
    return Records(steps, d, rho, taken, steps + 4 * root, steps + 8 * math.sqrt(3) * root)


@dataclass(frozen=True)
class OutputNoise:
    """The noise of Lemma 4.6, ``sigma = gamma sqrt(ln(1/delta))/epsilon``, said to be (epsilon, 2 delta).

    Attributes
    ----------
    epsilon, delta : float
        As in the lemma.
    true_delta, true_epsilon : float
        Of the Gaussian mechanism with sensitivity gamma: delta at ``epsilon``, and epsilon at ``delta``.
    sharper : float
        Epsilon at ``delta`` of a phase of Algorithm 3 as printed, whose sensitivity is 3 L eta_i and not gamma = 4 L eta_i.
    """

    epsilon: float
    delta: float
    true_delta: float
    true_epsilon: float
    sharper: float


def output_noise(epsilon: float, delta: float) -> OutputNoise:
    """The exact Gaussian mechanism with the lemma's noise."""
    mu = epsilon / math.sqrt(-math.log(delta))
    smaller = mu * phased_erm_sensitivity(1.0, 1.0, 1.0) / PRINTED_SENSITIVITY
    return OutputNoise(epsilon, delta, gdp_delta(mu, epsilon), gdp_epsilon(mu, delta), gdp_epsilon(smaller, delta))


@dataclass(frozen=True)
class Average:
    """Section 6: a snowball whose losses pull in step 1, do nothing until step ``still``, and then contract to zero.

    Attributes
    ----------
    still : int
        See above.
    last, average : float
        mu of the last iterate and of the mean of the iterates; all is linear, so both are exact.
    bound : float
        Theorem 3.1's rho of the last iterate.
    """

    still: int
    last: float
    average: float
    bound: float


def average(steps: int, still: int, noise: float = 4.0, step_size: float = 0.5) -> Average:
    """Run the recursion on unit vectors."""
    sizes = np.ceil(math.sqrt(steps) / np.sqrt(np.arange(steps, 0, -1.0)))
    run = Run(
        n=int(sizes.sum()),
        sampling=OnePass(tuple(sizes.tolist())),
        steps=steps,
        noise_multiplier=tuple((noise * sizes).tolist()),
        step_size=step_size,
        smoothness=1 / step_size,
        strong_convexity=0.0,
        adjacency="replace",
        released="last",
    )
    last, total, moved, moved_total = np.zeros(steps), np.zeros(steps), 0.0, 0.0
    for step in range(steps):
        if step >= still:  # A loss x^2/(2 eta) takes the iterate to zero.
            last[:], moved = 0.0, 0.0
        last[step] += step_size * noise
        moved += 2 * step_size / float(sizes[0]) if step == 0 else 0.0
        total, moved_total = total + last, moved_total + moved
    bound = cost("", run, 0.0).formula or math.inf
    return Average(still, moved / float(np.linalg.norm(last)), moved_total / float(np.linalg.norm(total)), bound)


@dataclass(frozen=True)
class Privacy:
    """All numbers of this file."""

    costs: tuple[Cost, ...]
    records: tuple[Records, ...]
    noise: tuple[OutputNoise, ...]
    averages: tuple[Average, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "delta": DELTA,
            "schedules": [asdict(each) for each in self.costs],
            "records_of_theorem_3_6": [asdict(each) for each in self.records],
            "lemma_4_6": [asdict(each) for each in self.noise],
            "section_6": [asdict(each) for each in self.averages],
        }


def privacy(runs: Sequence[tuple[str, Run, float]], *, steps: int = 2000) -> Privacy:
    """Everything but the runs themselves, which are named and have a rho."""
    return Privacy(
        tuple(cost(*each) for each in runs),
        tuple(records(*each) for each in ((100, 16, 1.0), (1000, 16, 1.0), (1000, 100, 0.1), (10_000, 100, 1.0))),
        tuple(output_noise(epsilon, 1e-5) for epsilon in (0.5, 1.0, 4.0)),
        tuple(average(steps, still) for still in (round(math.sqrt(steps)), steps)),
    )


def privacy_tables(found: Privacy) -> tuple[Table, ...]:
    """Four tables."""
    return _costs(found.costs), _records(found.records), _noise(found.noise), _averages(found.averages)


def _costs(costs: Sequence[Cost]) -> Table:
    rows = tuple(
        (
            each.name,
            f"{each.rho:g}",
            "" if each.formula is None else f"{each.formula:.4f}",
            rounded_up(each.mu, 5),
            f"{lemma_2_6(each.rho, DELTA):.3f}",
            rounded_up(each.epsilon, 4),
        )
        for each in costs
    )
    over = [each.mu / each.rho - 1 for each in costs]
    sentences = (
        f"Certified mu is at most {100 * max(over):.2g} % above rho: the certificate allows for rounding in every step.",
        *(f"{each.name} costs only {each.mu / each.rho:.2f} of its rho." for each in costs if each.mu < 0.9 * each.rho),
        "The same rho costs a smaller epsilon than the paper's conversion (Lemma 2.6) says: what is proved is rho-GDP, which is "
        "more than the Renyi bound.",
    )
    heads = ("schedule", "rho printed", "Theorem 3.1", "certified mu", "epsilon, Lemma 2.6", "certified epsilon")
    return Table(f"Privacy of the theorems' schedules, delta = {DELTA:g}", heads, rows, sentences)


def _records(found: Sequence[Records]) -> Table:
    rows = tuple((f"{r.steps:,}", str(r.d), f"{r.rho:g}", f"{r.taken:,}", f"{r.statement:,.0f}", f"{r.proof:,.0f}") for r in found)
    false = [r for r in found if r.taken > r.statement]
    sentence = (
        f"The statement is exceeded in {len(false)} of {len(found)} rows, by a factor of up to "
        f"{max(r.taken / r.statement for r in found):.2f}; the proof's number holds in "
        f"{sum(r.taken <= r.proof for r in found)} of {len(found)}."
    )
    heads = ("T", "d", "rho", "records", "printed in the statement", "in the proof")
    return Table("How many records Theorem 3.6 takes", heads, rows, (sentence,))


def _noise(found: Sequence[OutputNoise]) -> Table:
    rows = tuple(
        (
            f"{x.epsilon:g}",
            f"{x.delta:g}",
            rounded_up(x.true_delta, 3),
            f"{x.true_delta / x.delta:.1f}",
            rounded_up(x.true_epsilon, 4),
            rounded_up(x.sharper, 4),
        )
        for x in found
    )
    over = [x for x in found if x.true_delta > 2 * x.delta]
    safe = [x for x in found if x.sharper <= x.epsilon]
    sentences = (
        "Lemma 4.6 promises delta for the noise and delta for the accident that its sensitivity does not hold. The noise alone "
        f"needs more than both in {len(over)} of {len(found)} rows: the lemma is refuted.",
        "Algorithm 3 adds the noise for a sensitivity of 4 L eta_i where 3 L eta_i is true: with that, the noise of a phase costs "
        f"no more than epsilon at delta in {len(safe)} of {len(found)} rows.",
    )
    heads = ("epsilon", "delta", "true delta", "times", "true epsilon", "with 3 L eta_i")
    return Table("Noise of Phased-ERM (Lemma 4.6)", heads, rows, sentences)


def _averages(found: Sequence[Average]) -> Table:
    rows = tuple((f"{x.still:,}", f"{x.bound:.4f}", f"{x.last:.4f}", f"{x.average:.4f}") for x in found)
    worst = max(found, key=lambda x: x.average / x.bound)
    sentence = (
        f"Released as a mean of its iterates, the run of {max(x.still for x in found):,} steps costs up to "
        f"{worst.average / worst.bound:.1f} times what the last iterate costs at most: Theorem 3.1 is not a bound on averages."
    )
    return Table(
        "The mean of the iterates (section 6)", ("still until step", "Theorem 3.1", "mu, last", "mu, mean"), rows, (sentence,)
    )
