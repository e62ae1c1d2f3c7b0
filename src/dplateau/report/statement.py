"""What a guarantee means, in plain language."""

from __future__ import annotations

import math

from scipy.special import ndtr

from dplateau.spec import Run, Runs

WHAT = {
    "add-remove": "whether any one row was in the data",
    "replace": "which of two values any one row had",
}


def seen(released: str) -> str:
    """What somebody sees whom the guarantee covers."""
    return "the model" if released == "last" else "the model and every noisy step that led to it"


def guessing_accuracy(epsilon: float, delta: float, mu: float | None) -> float:
    """How often the best guess between two neighbouring data sets, equally likely beforehand, can be right, at most.

    Under (epsilon, delta) the total variation is at most ``(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)``; under mu-GDP it is
    ``2 Phi(mu/2) - 1``. The best guess is right with probability ``(1 + total variation) / 2``.
    """
    bound = (1 + math.tanh(epsilon / 2)) / 2 + delta / (1 + math.exp(min(epsilon, 700.0)))
    return min(1.0, bound, 1.0 if mu is None else float(ndtr(mu / 2)))


def statement(
    run: Run | Runs, epsilon: float, delta: float, mu: float | None, void: str | None = None, without: str = "Otherwise"
) -> str:
    """Two or three sentences for a person who does not know differential privacy; ``void`` says why nothing is certified."""
    if void is not None:
        return f"This certifies nothing: {void}. {without} the same run would cost epsilon {epsilon:.6g} at delta {delta:g}."
    accuracy = math.ceil(1000 * guessing_accuracy(epsilon, delta, mu) - 1e-6) / 10
    return (
        f"Whoever sees {seen(run.released)}, and knows all other rows, can tell {WHAT[run.adjacency]} with at most {accuracy:.1f} %"
        " accuracy; a coin toss has 50 %. It is rows that are protected: a person with several rows is protected less. Their"
        f" number, {run.n:,}, is declared public."
    )
