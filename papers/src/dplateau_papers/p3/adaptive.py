"""``p3-table1``, ``-table2``, ``-table3`` and ``-figure4``: ADP-SGD against DP-SGD, and falling against constant steps.

ADP-SGD has noise in proportion to ``eta_t^(-1/2)``, DP-SGD equal noise. Both have the same steps here, and the same *certified*
cost: the noise is calibrated exactly. Fashion-MNIST stands for CIFAR-10, and a small network for one that was trained before, so
what is comparable is the gap between the two, not an accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Final

from dplateau.accounting.enclosure import rounded_up
from dplateau_papers.p3 import PAPER, printed
from dplateau_papers.p3.pictures import adaptive_steps, comparison, falling_steps
from dplateau_papers.p3.settings import (
    ADAGRAD_CLIPS,
    ADAGRAD_GROWTHS,
    B0_SQUARED,
    BUDGETS,
    CLIPS,
    DELTA,
    EPOCHS,
    FALLING_EPOCHS,
    GROWTHS,
    LINEAR,
    METHODS,
    NOISES,
    POLYNOMIAL,
    Experiment,
    adagrad,
    compared,
    falling,
)
from dplateau_papers.page import Entry, Inputs, Reproduction, Table
from dplateau_papers.records import Records, Setting, certified, difference, gap, spread


def _both(schedule: str) -> tuple[Setting, ...]:
    return tuple(
        {"schedule": schedule, "method": method, "epochs": epochs, "clip_norm": clip, "epsilon": epsilon}
        for epochs, clip, epsilon, method in product(EPOCHS, CLIPS, BUDGETS, METHODS)
    )


def _comparison(schedule: str, kind: str, title: str, records: Records) -> Table:
    """Scores of ADP-SGD and DP-SGD, and their gap."""
    lines: list[tuple[str, ...]] = []
    gaps: list[tuple[float, float]] = []
    for epsilon, clip, epochs in product(BUDGETS, CLIPS, EPOCHS):
        setting = {"schedule": schedule, "epochs": epochs, "clip_norm": clip, "epsilon": epsilon}
        adapted, equal = (records.values({**setting, "method": method}, kind) for method in ("ADP", "DP"))
        lines.append((f"{epsilon:g}", f"{clip:g}", str(epochs), spread(adapted), spread(equal), difference(adapted, equal)))
        gaps += [found] if (found := gap(adapted, equal)) else []
    return Table(title, ("epsilon", "clip", "epochs", "ADP", "DP", "gap"), tuple(lines), _verdict(gaps))


def _verdict(gaps: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    """How often one is better than the other."""
    if not gaps:
        return ()
    better, worse = (sum(sign * value > 2 * error for value, error in gaps) for sign in (1, -1))
    least, most = min(value for value, _ in gaps), max(value for value, _ in gaps)
    return (
        f"Of {len(gaps)} gaps {better} are above 0 by more than two standard errors, and {worse} below; they are between "
        f"{least:+.2f} and {most:+.2f}.",
    )


def _printed(name: str, found: printed.Gaps) -> Table:
    """The paper's gaps."""
    lines = tuple(
        (f"{budget:g}", f"{clip:g}", *("N/A" if value is None else f"{value:+.2f}" for value in row))
        for (budget, clip), row in sorted(found.items())
    )
    values = [value for row in found.values() for value in row if value is not None]
    sentence = (
        f"{sum(value > 0 for value in values)} of {len(values)} are above 0; between {min(values):+.2f} and {max(values):+.2f}."
    )
    heads = ("epsilon-bar", "clip", *(f"{epochs} epochs" for epochs in printed.EPOCHS))
    return Table(f"The gaps of {name}, printed: CIFAR-10", heads, lines, (sentence,))


def _pair(schedule: str, best: tuple[str, printed.Gaps], last: tuple[str, printed.Gaps], records: Records) -> tuple[Table, ...]:
    return (
        _comparison(schedule, "best", f"{best[0]}: best of 40 looks at the test set, per cent", records),
        _printed(*best),
        _comparison(schedule, "last", f"{last[0]}: last iterate, per cent", records),
        _printed(*last),
    )


def _adagrad_tables(records: Records) -> tuple[Table, ...]:
    lines: list[tuple[str, ...]] = []
    gaps: list[tuple[float, float]] = []
    for epsilon, clip in product(BUDGETS, ADAGRAD_CLIPS):
        found = [records.values(_adagrad(growth, clip, epsilon), "best") for growth in (None, *ADAGRAD_GROWTHS)]
        pairs = [(spread(each), difference(each, found[0])) for each in found[1:]]
        lines.append((f"{epsilon:g}", f"{clip:g}", spread(found[0]), *(cell for pair in pairs for cell in pair)))
        gaps += [each for values in found[1:] if (each := gap(values, found[0]))]
    heads = ("epsilon", "clip", "DP", *(head for growth in ADAGRAD_GROWTHS for head in (f"ADP, C = {growth:g}", "gap")))
    rows = tuple(
        (f"{budget:g}", f"{clip:g}", f"{adp:.2f}", f"{dp:.2f}", f"{adp - dp:+.2f}")
        for (budget, clip), (adp, dp) in printed.TABLE_3.items()
    )
    sentences = (
        "Here the steps are computed from the noisy gradients. The paper takes the norms of gradients without noise, so its steps "
        "tell of the records, and its guarantee does not cover them.",
        *_verdict(gaps),
    )
    return (
        Table("Table 3: best of 40 looks at the test set, per cent", heads, tuple(lines), sentences),
        Table(
            "Table 3, printed: CIFAR-10",
            ("epsilon-bar", "clip", "ADP", "DP", "gap"),
            rows,
            ("ADP: the best of 36 pairs (beta, C).",),
        ),
    )


def _adagrad(growth: float | None, clip_norm: float, epsilon: float) -> Setting:
    return {"growth": growth, "clip_norm": clip_norm, "epsilon": epsilon}


def _falling_tables(records: Records) -> tuple[Table, ...]:
    lines: list[tuple[str, ...]] = []
    sentences: list[str] = []
    for noise in NOISES:
        found = [records.values({"growth": growth, "noise": noise}, "last") for growth in GROWTHS]
        cost = certified(falling(0.0, noise), DELTA)["epsilon"]
        lines.append((f"{noise:g}", rounded_up(cost), *map(spread, found)))
        if all(found):
            means = {sum(each) / len(each): growth for growth, each in zip(GROWTHS, found, strict=True)}
            sentences.append(f"z = {noise:g}: c = {means[max(means)]:g} is best, c = {means[min(means)]:g} worst.")
    heads = ("z", "certified epsilon", *(f"c = {growth:g}" for growth in GROWTHS))
    claim = "The paper finds that every c > 0 is better than c = 0, constant steps (its Figure 4; no numbers are printed)."
    return (Table(f"Last iterate after {FALLING_EPOCHS} epochs, per cent", heads, tuple(lines), (claim, *sentences)),)


COMPARISONS: Final = {
    LINEAR: Experiment(
        "p3-table1",
        "ADP-SGD and DP-SGD, steps 0.1 - r sqrt(t) that end at 1e-10 (Tables 1 and 4)",
        "fashion-mnist",
        _both(LINEAR),
        lambda setting: compared(**setting),
        partial(_pair, LINEAR, ("Table 1", printed.TABLE_1), ("Table 4", printed.TABLE_4)),
    ),
    POLYNOMIAL: Experiment(
        "p3-table2",
        "ADP-SGD and DP-SGD, steps 1 / sqrt(20 + t) (Tables 2 and 5, Figure 3)",
        "fashion-mnist",
        _both(POLYNOMIAL),
        lambda setting: compared(**setting),
        partial(_pair, POLYNOMIAL, ("Table 2", printed.TABLE_2), ("Table 5", printed.TABLE_5)),
    ),
}
ADAGRAD: Final = Experiment(
    "p3-table3",
    "ADP-SGD and DP-SGD with steps of AdaGrad-norm (Table 3)",
    "fashion-mnist",
    tuple(_adagrad(growth, clip, epsilon) for clip, epsilon, growth in product(ADAGRAD_CLIPS, BUDGETS, (None, *ADAGRAD_GROWTHS))),
    lambda setting: adagrad(**setting),
    _adagrad_tables,
    B0_SQUARED,
)
FALLING: Final = Experiment(
    "p3-figure4",
    "Falling and constant steps 1 / sqrt(2 + c t) on MNIST (section F.3, Figure 4)",
    "mnist",
    tuple({"growth": growth, "noise": noise} for noise, growth in product(NOISES, GROWTHS)),
    lambda setting: falling(**setting),
    _falling_tables,
)


def page(shown: Experiment, records: Records) -> Reproduction:
    """Tables and a picture of what is in the records."""
    what = "test accuracy by epochs"
    draw = adaptive_steps if shown is ADAGRAD else falling_steps if shown is FALLING else comparison
    rows = [
        {"setting": setting, "best": best, "last": last}
        for setting in shown.settings
        if (best := records.values(setting, "best")) and (last := records.values(setting, "last"))
    ]
    numbers = {"paper": PAPER, "delta": DELTA, "data": shown.data, "trainings": rows}
    pictures = {shown.name: (f"{shown.title}: {what}", partial(draw, shown, records))} if rows else {}
    return Reproduction(shown.name, f"{shown.title} in {PAPER}", shown.tables(records), numbers, pictures)


def reproduce(shown: Experiment, seeds: int, inputs: Inputs) -> Reproduction:
    """Train what is missing, and show everything."""
    records = inputs.records_of(shown.name)
    seeds = seeds if inputs.seeds is None else inputs.seeds
    if seeds:
        # Training loads JAX, which a list of entries does not need.
        from dplateau_papers.p3.networks import train

        folder = inputs.folder(shown.data)
        records.collect(
            shown.settings,
            range(seeds),
            lambda setting, seed: train(folder, shown.run(setting), seed, shown.b0_squared),
            inputs.say,
        )
    return page(shown, records)


def _entry(shown: Experiment, seeds: int, shows: str, takes: str) -> Entry:
    needs = f"--records, and --data-dir with {shown.data}; matplotlib for the pictures of --output"
    return Entry(shown.name, PAPER, shows, needs, takes, partial(reproduce, shown, seeds), (shown.data,), trains=True)


P3_ADAPTIVE: Final = (
    _entry(
        COMPARISONS[LINEAR],
        3,
        "Tables 1 and 4 on Fashion-MNIST: ADP-SGD against DP-SGD at equal certified cost",
        "a quarter of an hour on two cores, 3 seeds",
    ),
    _entry(
        COMPARISONS[POLYNOMIAL],
        3,
        "Tables 2 and 5 and Figure 3, in the same way, with steps 1 / sqrt(20 + t)",
        "a quarter of an hour on two cores, 3 seeds",
    ),
    _entry(
        ADAGRAD, 3, "Table 3 on Fashion-MNIST, with steps of AdaGrad-norm from noisy gradients", "5 minutes on two cores, 3 seeds"
    ),
    _entry(
        FALLING,
        1,
        "section F.3 and Figure 4: falling against constant steps on MNIST, and what they cost",
        "a quarter of an hour on two cores, 1 seed",
    ),
)
