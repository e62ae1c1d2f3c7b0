"""``p4-table1`` and ``p4-table2``: logistic regression on frozen features, after Ryffel, Bach and Pointcheval 2022.

The paper trains on CIFAR-10 and on X-ray images, with features of ResNet18 and AlexNet. Here the records are MNIST, seen by a
network that was trained on Fashion-MNIST, and Adult. Batches are of 256, drawn without replacement, as in the paper's Algorithm 1.
Steps, epochs and batch sizes are the same for all methods; the l2 coefficient is chosen for each on held-out records.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dplateau_papers.p4 import PAPER
from dplateau_papers.page import Entry, Inputs, Reproduction, Table
from dplateau_papers.records import spread
from dplateau_papers.study import DATA, PROBLEMS

if TYPE_CHECKING:
    from dplateau_papers.study.langevin import Langevin

STEPS: Final = {1: "constant", 2: "decaying"}
PRINTED: Final = {
    1: {"DP-SGLD": (70.3, 57.5, 58.8), "DP-SGD": (68.0, 56.4, 58.8), "No DP": (70.7, 57.7, 59.3)},
    2: {"DP-SGLD": (70.1, 57.3, 58.8), "DP-SGD": (68.1, 56.4, 58.8), "No DP": (70.2, 57.6, 59.3)},
}
"""Accuracies in per cent: CIFAR-10 with ResNet18, with AlexNet, and Pneumonia with ResNet18."""


def printed_table(number: int) -> Table:
    """What the paper prints."""
    lines = tuple((name, *(f"{value:.1f}" for value in values)) for name, values in PRINTED[number].items())
    heads = ("", "CIFAR-10, ResNet18", "CIFAR-10, AlexNet", "Pneumonia, ResNet18")
    ours = [f"{values['No DP'][i] - values['DP-SGLD'][i]:.1f}" for values in (PRINTED[number],) for i in range(3)]
    sentence = f"Epsilon 1 at delta 1e-5 is claimed. DP-SGLD is {ours[0]}, {ours[1]} and {ours[2]} points below no privacy."
    return Table("Accuracy in per cent, printed", heads, lines, (sentence,))


def scores_table(number: int, found: Langevin, title: str) -> Table:
    """What the trainings reached, and what they cost."""
    from dplateau_papers.study.langevin import KINDS, cost

    lines: list[tuple[str, ...]] = []
    scores: dict[str, list[float]] = {}
    for kind, name in KINDS.items():
        asked = found.chosen(kind, STEPS[number])
        results = found.results(asked)
        scores[kind] = [result["score"] for result in results]
        costs = [cost(results, adjacency) for adjacency in ("add-remove", "replace")]
        claim = {"printed": "1", "certified": "", "dp-sgd": "", "free": ""}[kind]
        lines.append((name, f"{asked['l2']:g}" if results else "", claim, *costs, spread(scores[kind]), str(len(results))))
    heads = ("", "l2", "claimed", "certified, add-remove", "certified, replace", "accuracy", "runs")
    return Table(f"{title}: accuracy in per cent", heads, tuple(lines), tuple(_gaps(scores)))


def _gaps(scores: dict[str, list[float]]) -> Iterable[str]:
    if not all(scores.values()):
        return
    mean = {kind: sum(values) / len(values) for kind, values in scores.items()}
    kept = ", ".join(f"{mean['free'] - mean[kind]:.2f} ({name})" for kind, name in _KEPT.items())
    yield f"Points below the same steps without noise: {kept}."


_KEPT: Final = {"printed": "printed noise", "certified": "certified noise", "dp-sgd": "DP-SGD"}


def numbers(number: int, found: dict[str, Langevin]) -> dict[str, Any]:
    """Plain data for JSON."""
    from dplateau_papers.study.langevin import KINDS

    chosen = {name: {kind: one.chosen(kind, STEPS[number]) for kind in KINDS} for name, one in found.items()}
    return {
        "paper": PAPER,
        "printed": PRINTED[number],
        "trainings": [
            {"problem": name, "setting": asked, "results": found[name].results(asked)}
            for name, settings in chosen.items()
            for asked in settings.values()
        ],
    }


def page(number: int, found: dict[str, Langevin]) -> Reproduction:
    """Everything that is in the records."""
    tables = (printed_table(number), *(scores_table(number, found[name], title) for name, title in PROBLEMS.items()))
    return Reproduction(f"p4-table{number}", f"Table {number} in {PAPER}", tables, numbers(number, found))


def reproduce(number: int, inputs: Inputs) -> Reproduction:
    """Train what is missing, and show everything."""
    # Training loads JAX, which a list of entries does not need.
    from dplateau_papers.study.langevin import trainings

    found = trainings(inputs)
    for one in found.values():
        one.tables((STEPS[number],))
    return page(number, found)


def _entry(number: int) -> Entry:
    shows = f"DP-SGLD with {STEPS[number]} steps, its noise as printed and as certified, DP-SGD, and no privacy, on two data sets"
    needs = f"--records, and --data-dir with {', '.join(DATA)}"
    return Entry(
        f"p4-table{number}", PAPER, shows, needs, "ten minutes on two cores, 5 seeds", partial(reproduce, number), DATA, True
    )


P4_TABLES12: Final = tuple(map(_entry, STEPS))
