"""``p2-table1`` to ``p2-table4`` and ``p2-figure4``: the networks of Bu, Dong, Long and Su 2020, trained again.

Where the paper divides by the realised batch size, sums are divided by the expected one, because the realised one depends on the
records. Beside the last iterate, which is the paper's model, stands the mean of the last fifth of the iterates: it costs nothing
more, because every iterate is accounted for.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, Final

from dplateau.accounting.enclosure import rounded_up
from dplateau_papers.p2 import PAPER
from dplateau_papers.p2.pictures import by_epochs, by_epsilon
from dplateau_papers.p2.settings import FIGURE_4, TABLE_1, TABLE_2, TABLE_3, TABLE_4, Setting, Shown
from dplateau_papers.page import Entry, Inputs, Reproduction, Table
from dplateau_papers.records import Records, certified, spread


def scores_table(shown: Shown, records: Records) -> Table:
    """What the trainings reached, beside what is printed."""
    digits = 3 if shown.data == "ml-1m" else 2
    lines: list[tuple[str, ...]] = []
    for row, one in enumerate(shown.trainings, 1):
        found = [records.values(shown.key_of(row), name) for name in ("score", "mean")]
        hyper = (one.rate, one.clip_norm, one.setting.noise_multiplier, one.setting.epochs)
        printed = "" if one.printed is None else f"{one.printed:.{digits if digits == 3 else 1}f}"
        lines.append(
            (str(row), *(f"{value:g}" for value in hyper), printed, *(spread(each, digits) for each in found), str(len(found[0])))
        )
    heads = ("row", "rate", "clip", "z", "epochs", "printed", "last iterate", "mean of the last fifth", "runs")
    return Table(f"{shown.what[0].upper()}{shown.what[1:]}", heads, tuple(lines), ("Mean ± standard deviation.",))


@cache
def _cost(setting: Setting) -> float:
    return certified(setting.run, setting.delta)["epsilon"]


def costs_table(shown: Shown) -> Table:
    """What the trainings cost, beside what is claimed."""
    lines: list[tuple[str, ...]] = []
    below: list[str] = []
    for row, one in enumerate(shown.trainings, 1):
        setting = one.setting
        cost = _cost(setting)
        claims = ("" if math.isnan(value) else f"{value:.2f}" for value in (setting.clt, setting.ma))
        lines.append((str(row), f"{setting.delta:.0e}", *claims, rounded_up(cost)))
        below += [str(row)] if setting.clt + 0.005 < cost else []
    heads = ("row", "delta", "limit theorem, printed", "moments accountant, printed", "certified")
    sentence = "The limit theorem is not a bound: it claims less than what is certified in "
    sentence += f"row {', '.join(below)}." if below else "no row."
    return Table("Epsilon", heads, tuple(lines), (sentence, "dplateau reproduce p2-privacy shows all privacy numbers."))


def numbers(shown: Shown, records: Records) -> dict[str, Any]:
    """Plain data for JSON."""
    rows: list[dict[str, Any]] = []
    for row, one in enumerate(shown.trainings, 1):
        setting = one.setting
        claims = {name: None if math.isnan(value) else value for name, value in (("gdp-clt", setting.clt), ("moments", setting.ma))}
        rows.append(
            {
                "row": row,
                "source": setting.source,
                "optimizer": one.optimizer,
                "rate": one.rate,
                "delta": setting.delta,
                "run": one.run(setting.n).to_dict(),
                "printed": {"score": one.printed, "epsilon": claims},
                "scores": records.values(shown.key_of(row), "score"),
                "scores_of_the_mean": records.values(shown.key_of(row), "mean"),
                "certified_epsilon": _cost(setting),
            }
        )
    return {"paper": PAPER, "what": shown.what, "rows": rows}


def page(shown: Shown, records: Records) -> Reproduction:
    """Tables and a picture of what is in the records."""
    draw = by_epsilon if shown is FIGURE_4 else by_epochs
    pictures = {shown.name: (f"{shown.what}, by epochs".capitalize(), partial(draw, shown, records))} if records.lines else {}
    tables = (scores_table(shown, records), costs_table(shown))
    return Reproduction(shown.name, f"{shown.title} in {PAPER}", tables, numbers(shown, records), pictures)


def reproduce(shown: Shown, seeds: int, inputs: Inputs) -> Reproduction:
    """Train what is missing, and show everything."""
    records = inputs.records_of(shown.name)
    seeds = seeds if inputs.seeds is None else inputs.seeds
    if seeds:
        # Training loads JAX, which a list of entries does not need.
        from dplateau_papers.p2.networks import TASKS, train

        folder, task = inputs.folder(shown.data), TASKS[shown.key]
        settings = [shown.key_of(row) for row in range(1, len(shown.trainings) + 1)]
        records.collect(
            settings,
            range(seeds),
            lambda setting, seed: train(task(folder, seed), shown.trainings[setting["row"] - 1], seed),
            inputs.say,
        )
    return page(shown, records)


def _entry(shown: Shown, seeds: int, shows: str, takes: str) -> Entry:
    needs = f"--records, and --data-dir with {shown.data}; matplotlib for the pictures of --output"
    run = partial(reproduce, shown, seeds)
    return Entry(shown.name, PAPER, shows, needs, takes, run, (shown.data,), trains=True)


P2_TABLES: Final = (
    _entry(
        TABLE_1,
        10,
        "six models on MNIST: accuracy printed and trained again, epsilon claimed and certified",
        "an hour a seed on two cores, 10 seeds",
    ),
    _entry(TABLE_2, 10, "a model on Adult, in the same way", "half a minute, 10 seeds"),
    _entry(TABLE_3, 10, "a model on IMDb, in the same way", "not measured: 439 steps, 10 seeds"),
    _entry(TABLE_4, 10, "a model on MovieLens 1M, in the same way", "not measured: 1,600 steps, 10 seeds"),
    _entry(
        FIGURE_4,
        1,
        "accuracy with the noise that two accountants ask for, by epochs and by what was really spent",
        "half an hour on two cores, 1 seed",
    ),
)
