"""A run, its assumptions and its guarantee in words, which certificates, the terminal, pictures and pages share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from scipy.special import ndtr

from dplateau.certificate.format_1 import Stated
from dplateau.spec import Assumption, By, How, Run, Runs, Selection, UncertifiedError
from dplateau.spec.runs import runs_of
from dplateau.spec.schedule import Schedule, largest, smallest

BATCHES = {
    "poisson": "Poisson batches of {size} expected {unit}s",
    "fixed-size": "random batches of {size} {unit}s",
    "random-allocation": "in every epoch each {unit} in one batch, drawn at random, of {size} expected {unit}s",
    "cyclic": "batches of {size} {unit}s, in the same public order in every epoch",
    "shuffled": "batches of {size} {unit}s, shuffled in every epoch",
    "one-pass": "batches of {size} {unit}s, every {unit} used once",
    "full": "all {unit}s in every step",
}
RELEASED = {"last": "the last iterate only", "all": "every noisy step, and all that is computed from them"}
FINAL_MODEL = "the final model only"
ADJACENCY = {"add-remove": "one {unit} added or removed", "replace": "one {unit} replaced by another"}
GUESSED: Final = {
    ("row", "add-remove"): "whether one particular row was in the data",
    ("row", "replace"): "which of two values, A or B, one particular row had",
    ("person", "add-remove"): "whether one particular person was in the data",
    ("person", "replace"): "which of two sets of rows, A or B, one particular person had",
}
OTHERS: Final = {"row": "all the other rows", "person": "the rows of everybody else"}
UNITS: Final = {"row": "rows", "person": "people"}
PROTECTED: Final = {
    "row": "A person with several rows is protected less.",
    "person": "All rows of a person are protected together.",
}
FORMAT_1: Final = {"add-remove": "whether any one row was in the data", "replace": "which of two values any one row had"}
HOW: Final = tuple(How)
BY: Final = {By.DPLATEAU: " by dplateau", By.OPACUS: " by Opacus", By.CALLER: " by the person who trained", None: ""}


def spread(value: Schedule, digits: int = 6) -> str:
    """A constant, or the range of a schedule."""
    least, greatest = smallest(value), largest(value)
    return f"{least:,.{digits}g}" + ("" if least == greatest else f" to {greatest:,.{digits}g}")


def batches(run: Run) -> str:
    """What a step uses."""
    return batches_of(run, spread(getattr(run.sampling, "batch_size", 0.0)))


def batches_of(run: Run, size: str) -> str:
    """What a step uses, with the size of a batch in words."""
    return BATCHES[run.sampling.kind].format(size=size, unit=run.unit)


def protects(run: Run | Runs) -> str:
    """What neighbouring data sets differ in."""
    return ADJACENCY[run.adjacency].format(unit=run.unit)


def secret(run: Run | Runs) -> str:
    """What an attacker guesses."""
    return GUESSED[run.unit, run.adjacency]


def counted(value: float) -> str:
    """A number of things that need not be whole: four digits, and never a power of ten."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def run_facts(run: Run | Runs) -> list[tuple[str, str]]:
    """What ran, in words."""
    if isinstance(run, Selection):
        tried = f"{len(run.candidates):,} candidates, each trained with probability {run.probability:g}; only the best is told"
        named = [(f"candidate {k}", one) for k, candidate in enumerate(run.candidates, start=1) for one in runs_of(candidate)]
        return [_protects(run), ("selection", tried), *(fact for name, one in named for fact in _phase(name, one))]
    if isinstance(run, Runs):
        return [_protects(run), *(fact for k, one in enumerate(run.runs, start=1) for fact in _phase(f"run {k}", one))]
    return [_protects(run), *_phase("training", run)]


def _protects(run: Run | Runs) -> tuple[str, str]:
    whole = ", with all rows of the person" if run.unit == "person" else ""
    return "protects", f"{protects(run)}{whole}, among {run.n:,} ({run.adjacency})"


def _phase(name: str, run: Run) -> list[tuple[str, str]]:
    """One run, and which one of several it is."""
    steps = "phases" if run.is_phased else "steps"
    return [
        (name, f"{run.steps:,} {steps} ({counted(run.epochs)} epochs), {batches(run)}"),
        ("noise", f"multiplier {spread(run.noise_multiplier)}"),
        ("released", FINAL_MODEL if run.released == "last" and run.update != "sgd" else RELEASED[run.released]),
    ]


def by_whom(assumptions: Sequence[Assumption | Stated]) -> list[tuple[str, list[Assumption | Stated]]]:
    """The assumptions, by how they came to hold and who saw to that, in words."""
    found: dict[str, list[Assumption | Stated]] = {}
    for one in sorted(assumptions, key=lambda one: (HOW.index(one.how), list(BY).index(one.by))):
        found.setdefault(one.how.value + BY[one.by], []).append(one)
    return list(found.items())


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


def percent_right(epsilon: float, delta: float, mu: float | None) -> str:
    """``guessing_accuracy`` in words, rounded up; its own rounding, a few 1e-16, is below the 1e-12 that are added."""
    nothing = mu == 0 or epsilon == delta == 0
    return f"{50 if nothing else min(1000, math.ceil(1000 * (guessing_accuracy(epsilon, delta, mu) + 1e-12))) / 10:.1f} %"


def uncertified(delta: float) -> UncertifiedError:
    """What is raised where nothing can be certified."""
    return UncertifiedError(f"no proved bound gives a finite epsilon at delta {delta:g}: raise delta or the noise multiplier.")


def void_statement(epsilon: str, delta: float, void: str, without: str) -> str:
    """What a certificate that certifies nothing says; ``epsilon`` as it is shown, ``void`` the reason."""
    return f"This certifies nothing: {void}. {without} the same run would cost epsilon {epsilon} at delta {delta:g}."


def statement(run: Run | Runs, epsilon: float, delta: float, mu: float | None) -> str:
    """Two or three sentences for a person who does not know differential privacy."""
    return (
        f"Anyone who sees {seen(run.released)} and knows {OTHERS[run.unit]} can guess correctly {secret(run)} at most"
        f" {percent_right(epsilon, delta, mu)} of the time, if both answers are equally likely beforehand. A coin toss gets 50 %."
        f" {PROTECTED[run.unit]} The number of {UNITS[run.unit]}, {run.n:,}, is public."
    )


def statement_of_format_1(run: Run | Runs, epsilon: float, delta: float, mu: float | None) -> str:
    """``statement`` as certificates of format 1 have it."""
    return (
        f"Whoever sees {seen(run.released)}, and knows all other rows, can tell {FORMAT_1[run.adjacency]} with at most"
        f" {percent_right(epsilon, delta, mu)} accuracy; a coin toss has 50 %. It is rows that are protected: a person with several"
        f" rows is protected less. Their number, {run.n:,}, is declared public."
    )
