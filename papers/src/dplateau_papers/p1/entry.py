"""``p1``: the utility theorems of Feldman, Koren and Talwar 2020, simulated: printed, proved and measured excess risks."""

from __future__ import annotations

from typing import Final

from dplateau_papers.p1 import PAPER
from dplateau_papers.page import Entry, Inputs, Reproduction


def run(_: Inputs) -> Reproduction:
    """Everything; some minutes."""
    # Training loads JAX, which a list of entries does not need.
    from dplateau_papers.p1.simulations import compute
    from dplateau_papers.p1.tables import page

    return page(compute())


P1: Final = Entry(
    "p1",
    PAPER,
    "excess risks under Theorems 3.2 to 5.4, printed, proved and measured on problems with known minimisers; their powers of n, d "
    "and rho; schedules at equal privacy; Theorem 3.1, Lemma 4.6 and section 6",
    "nothing; matplotlib for the pictures of --output",
    "4 minutes",
    run,
)
