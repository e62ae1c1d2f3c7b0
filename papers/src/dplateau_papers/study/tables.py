"""The page of ``study``: tables and sentences."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from dplateau_papers.page import Reproduction, Table
from dplateau_papers.records import spread
from dplateau_papers.study import PAPER
from dplateau_papers.study.langevin import CLAIMS, Study, claimed, cost
from dplateau_papers.study.methods import METHODS
from dplateau_papers.study.pictures import by_epsilon, by_noise
from dplateau_papers.study.sweep import EPSILONS, TUNED_AT


def scores_table(study: Study) -> Table:
    """Every method at every epsilon."""
    lines = [
        (method.title, method.accounting, *(_mean(study.means.get((method.name, epsilon))) for epsilon in EPSILONS))
        for method in METHODS
    ]
    lines.append(("No privacy", "", *(_mean(study.sweep.without_privacy) for _ in EPSILONS)))
    heads = ("", "accounting", *(f"{epsilon:g}" for epsilon in EPSILONS))
    return Table(f"{study.title}: accuracy in per cent, by epsilon", heads, tuple(lines), tuple(_findings(study)))


def _mean(value: float | None) -> str:
    return "not run" if value is None else f"{value:.2f}"


def _findings(study: Study) -> Iterable[str]:
    free, means = study.sweep.without_privacy, study.means
    if free is None:
        return
    titles = {one.name: one.title for one in METHODS}
    worst = max((study.sweep.certified(one, epsilon) / epsilon for one in METHODS for epsilon in EPSILONS), default=0.0)
    scores = [study.sweep.scores(one, epsilon) for one in METHODS for epsilon in EPSILONS]
    spreads = sorted(statistics.stdev(values) for values in scores if len(values) > 1)
    if spreads:
        counts = sorted({len(values) for values in scores})
        number = " to ".join(map(str, counts[:: len(counts) - 1 or 1]))
        yield (
            f"Means of {number} trainings; standard deviations are {spreads[0]:.2f} to {spreads[-1]:.2f}, half of them below "
            f"{statistics.median(spreads):.2f}. What is not planned is tuned."
        )
    yield f"Every certified epsilon is at most {max(worst, 1.0):.6g} times that of its column. No privacy: least regularised loss."
    for epsilon in EPSILONS:
        here = {name: value for (name, at), value in means.items() if at == epsilon}
        if len(here) == len(METHODS):
            best = max(here, key=here.__getitem__)
            side = "below" if here[best] < free else "above"
            yield f"Epsilon {epsilon:g}: the best is {titles[best]}, {abs(free - here[best]):.2f} points {side} no privacy."


def settings_table(study: Study) -> Table:
    """The hyperparameters that were chosen."""
    known = bool(study.sweep.tuning.lines)
    lines = tuple(
        (method.title, *(_words(study.sweep.setting(method, epsilon)) if known else "not run" for epsilon in TUNED_AT))
        for method in METHODS
        if method.tuned
    )
    sentences = (
        "Chosen on a sixth of the private records, held out, with one training each. The step is in units of 1/smoothness, the "
        "clip norm in units of the largest gradient. Another epsilon has the parameters of the next lower one.",
    )
    return Table(
        f"{study.title}: parameters that were tuned, by epsilon", ("", *(f"{one:g}" for one in TUNED_AT)), lines, sentences
    )


def _words(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value if isinstance(value, str) else format(value, 'g')}" for name, value in setting.items())


def claims_table(study: Study) -> Table:
    """What the refuted claim would have bought, and what honest noise costs."""
    lines: list[tuple[str, ...]] = []
    for l2, batch in CLAIMS:
        printed, certified = (study.langevin.results(claimed(l2, batch, kind)) for kind in ("printed", "certified"))
        scores = [spread([result["score"] for result in results]) for results in (printed, certified)]
        lines.append((f"{l2:g}", str(batch), "1", cost(printed, "replace"), *scores))
    heads = ("l2", "batch", "claimed epsilon", "certified at that noise", "accuracy with it", "accuracy with certified noise")
    return Table(f"{study.title}: DP-SGLD, constant steps, 30 epochs, replacement", heads, tuple(lines), tuple(_bought(study)))


def _bought(study: Study) -> Iterable[str]:
    cells = {one: tuple(study.langevin.results(claimed(*one, kind)) for kind in ("printed", "certified")) for one in CLAIMS}
    cells = {one: cell for one, cell in cells.items() if all(cell)}
    if not cells:
        return
    costs = {one: max(result["replace"] for result in printed) for one, (printed, _) in cells.items()}
    means = {one: [sum(result["score"] for result in results) / len(results) for results in cell] for one, cell in cells.items()}
    above = [one for one, spent in costs.items() if spent > 1]
    yield (
        f"More than the claimed epsilon 1 is certified in {len(above)} of {len(cells)} cells"
        + (f", up to {max(costs.values()):,.4g}" if above else "")
        + "; a certified epsilon is an upper bound, and dplateau reproduce p4-privacy has data sets that reach far above the claim."
    )
    if above:
        most = max(above, key=lambda one: means[one][0] - means[one][1])
        yield (
            f"In these cells the printed noise buys {means[most][0] - means[most][1]:+.2f} points at most (l2 {most[0]:g}, "
            f"batches of {most[1]}, certified {costs[most]:,.4g}): the price of honest noise there."
        )
    best = [max(mean[k] for mean in means.values()) for k in (0, 1)]
    yield f"At the best l2 and batch size of each, the printed noise reaches {best[0]:.2f} and the certified one {best[1]:.2f}."


def numbers(studies: Iterable[Study]) -> dict[str, Any]:
    """Plain data for JSON."""
    return {
        "paper": PAPER,
        "problems": [
            {
                "name": study.title,
                "without_privacy": study.sweep.without_privacy,
                "tuning": study.sweep.tuning.lines,
                "trainings": study.sweep.final.lines,
                "langevin": study.langevin.final.lines,
            }
            for study in studies
        ],
    }


def page(studies: Iterable[Study]) -> Reproduction:
    """Everything that is in the records."""
    studies = tuple(studies)
    tables = [make(study) for study in studies for make in (scores_table, settings_table, claims_table)]
    pictures = {
        "study-epsilon": ("Accuracy by certified epsilon", partial(by_epsilon, studies)),
        "study-claims": ("Accuracy by certified epsilon, with the printed and the certified noise", partial(by_noise, studies)),
    }
    return Reproduction("study", "All algorithms side by side", tuple(tables), numbers(studies), pictures)
