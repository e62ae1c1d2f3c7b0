"""``study``: every algorithm of the five papers on the same records, at the same certified cost.

MNIST, seen by a network that was trained on Fashion-MNIST, and Adult; epsilon from 1/4 to 8 at delta 1e-5. Hyperparameters are
those of the library's planner, or were chosen on held-out private records; each table says which. Choosing is not accounted for.
"""

from __future__ import annotations

from typing import Final

from dplateau_papers.page import Entry, Inputs, Reproduction
from dplateau_papers.study import DATA, PAPER, PROBLEMS


def run(inputs: Inputs) -> Reproduction:
    """Train what is missing, and show everything."""
    # Training loads JAX, which a list of entries does not need.
    from dplateau_papers.study.langevin import Study, trainings
    from dplateau_papers.study.sweep import Sweep
    from dplateau_papers.study.tables import page

    studies = [
        Study(PROBLEMS[name], Sweep(inputs, f"study-{name}", langevin.problem), langevin)
        for name, langevin in trainings(inputs).items()
    ]
    for study in studies:
        study.sweep.run()
        study.langevin.claims()
    return page(studies)


STUDY: Final = Entry(
    "study",
    PAPER,
    "16 ways to train logistic regression on MNIST features and on Adult, epsilon 1/4 to 8; what a refuted claim would have bought",
    f"--records, and --data-dir with {', '.join(DATA)}; matplotlib for the pictures of --output",
    "70 minutes on one core, 5 seeds",
    run,
    DATA,
    trains=True,
)
