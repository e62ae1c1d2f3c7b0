"""``p3-figure1`` and ``p3-figure2``: the schedules, noises and budgets of Wu et al. 2021; the accuracies are no part of this."""

from __future__ import annotations

from typing import Final

from dplateau_papers.p3 import PAPER
from dplateau_papers.page import Entry, Inputs, Reproduction


def run_first(_: Inputs) -> Reproduction:
    """Figure 1 and the budgets."""
    # Schedules live beside algorithms that load JAX, which a list of entries does not need.
    from dplateau_papers.p3.noise import CLAIMS, both, claim, first_page

    return first_page(both(), tuple(claim(*each) for each in CLAIMS))


def run_second(_: Inputs) -> Reproduction:
    """Figure 2 and the gains."""
    from dplateau_papers.p3.noise import LENGTHS, SCHEDULES, gain, second_page

    return second_page(tuple(gain(name, steps) for name in SCHEDULES for steps in LENGTHS))


P3_FIGURE_1: Final = Entry(
    "p3-figure1",
    PAPER,
    "noise and privacy along the run, alpha = 1 and 1/sqrt(eta), as printed and certified; the budgets of section 6",
    "nothing; matplotlib for the pictures of --output",
    "half a minute",
    run_first,
)
P3_FIGURE_2: Final = Entry(
    "p3-figure2",
    PAPER,
    "both schedules, M_dp/M_adp, and what adapted noise gains at the same certified epsilon",
    "nothing; matplotlib for the pictures of --output",
    "1 minute",
    run_second,
)
