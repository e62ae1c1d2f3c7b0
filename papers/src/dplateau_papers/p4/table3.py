"""``p4-table3``: does fine-tuning a block gain anything with privacy? The question of Table 3 of Ryffel, Bach, Pointcheval 2022.

The paper has a ResNet18 that was trained on CIFAR-100, and CIFAR-10. Here a network of two convolutions that was trained on
Fashion-MNIST stands for the one, and MNIST for the other. What is comparable is what fine-tuning gains, not an accuracy.
"""

from __future__ import annotations

from typing import Final

from dplateau.accounting.enclosure import rounded_up
from dplateau_papers.p4 import PAPER
from dplateau_papers.p4.fine_tuning import BATCH, BLOCK, DELTA, EPOCHS, EPSILON, GRID, HEAD, IMAGES, MOMENTUM, PRINTED, ROWS, run_of
from dplateau_papers.page import Entry, Inputs, Reproduction, Table
from dplateau_papers.records import Records, certified, difference, gap, spread


def scores_table(records: Records) -> Table:
    """What the trainings reached, beside what is printed for other data."""
    cost = rounded_up(certified(run_of(ROWS[-1], IMAGES), DELTA)["epsilon"])
    found = {(row.layers, row.private): records.values(row.setting, "score") for row in ROWS}
    rows = tuple(
        (
            row.layers,
            cost if row.private else "none",
            f"{row.rate:g}",
            "" if row.clip_norm is None else f"{row.clip_norm:g}",
            spread(found[row.layers, row.private]),
            str(len(found[row.layers, row.private])),
            f"{row.printed:.1f}",
        )
        for row in ROWS
    )
    heads = ("trained", "certified epsilon", "rate", "clip", "test accuracy", "runs", "printed: CIFAR-10")
    return Table(
        "Test accuracy of the last iterate, per cent",
        heads,
        rows,
        (*_method(), *(_gain(found, private=private) for private in (False, True)), _verdict(found)),
    )


def _method() -> tuple[str, ...]:
    run = run_of(ROWS[-1], IMAGES)
    tried = "; ".join(
        f"{row.layers}, {f'clip norm {clip:g}' if clip else 'no privacy'}: {', '.join(f'{rate:g}' for rate in rates)}"
        for row in ROWS
        for clip, rates in GRID[row.layers, row.private].items()
    )
    return (
        "Mean ± standard deviation; what is printed is from Tables 1 and 3. "
        "MNIST stands for CIFAR-10, and a network of two convolutions, trained on Fashion-MNIST, for "
        "the ResNet18 trained on CIFAR-100. Its first convolution stays as it is. The output layer (1,290 weights) starts from "
        "zero on 129 numbers, rows of norm 1; the second convolution (12,832 weights) starts from its public values.",
        f"All rows have {run.steps} steps ({EPOCHS} epochs) of {BATCH} images and momentum {MOMENTUM:g}; the paper has none, and "
        f"30 epochs. Private ones draw Poisson batches and have z = {run.noise_multiplier:.4f}, calibrated exactly for epsilon "
        f"{EPSILON:g} at delta {DELTA:.0e} under add-remove, with every iterate accounted for. The others have neither clipping "
        "nor noise.",
        f"Step sizes and clip norms are the best on 10,000 training images that were held out, one training each. Step sizes "
        f"tried: {tried}. What choosing them cost is not counted.",
    )


def _gain(found: dict[tuple[str, bool], list[float]], *, private: bool) -> str:
    """What fine-tuning gains, here and as printed."""
    scores = found[BLOCK, private], found[HEAD, private]
    printed = PRINTED[BLOCK, private] - PRINTED[HEAD, private]
    gained = difference(*scores) or "so much as is not known yet"
    return f"Fine-tuning gains {gained} {'with' if private else 'without'} privacy; printed: {printed:+.1f}."


def _verdict(found: dict[tuple[str, bool], list[float]]) -> str:
    """Whether the paper's finding holds here."""
    claim = "The paper finds that fine-tuning gains without privacy, and nothing with it"
    gaps = [gap(found[BLOCK, private], found[HEAD, private]) for private in (False, True)]
    better = [value > 2 * error for value, error in (each for each in gaps if each)]
    if len(better) < len(gaps):
        return f"{claim}: too few trainings to say whether that holds here."
    plain, private = ("gains" if each else "gains nothing" for each in better)
    return f"{claim} (more than two standard errors count). Here it {plain} without privacy and {private} with it."


def page(records: Records) -> Reproduction:
    """What is in the records."""
    rows = [
        {"row": row.setting, "printed": row.printed, "scores": records.values(row.setting, "score")}
        | ({"run": run_of(row, IMAGES).to_dict()} if row.private else {})
        for row in ROWS
    ]
    numbers = {"paper": PAPER, "delta": DELTA, "momentum": MOMENTUM, "rows": rows}
    title = f"Fine-tuning a block with privacy (Table 3) in {PAPER}"
    return Reproduction("p4-table3", title, (scores_table(records),), numbers)


def reproduce(inputs: Inputs) -> Reproduction:
    """Train what is missing, and show everything."""
    records = inputs.records_of("p4-table3")
    seeds = 5 if inputs.seeds is None else inputs.seeds
    if seeds:
        # Training loads JAX, which a list of entries does not need.
        from dplateau_papers.p4.networks import task, train

        rows = {str(row.setting): row for row in ROWS}
        records.collect(
            [row.setting for row in ROWS],
            range(seeds),
            lambda setting, seed: train(task(inputs, setting["layers"]), rows[str(setting)], seed),
            inputs.say,
        )
    return page(records)


P4_TABLE3: Final = Entry(
    "p4-table3",
    PAPER,
    "an output layer on public features, alone and with the convolution below it, with privacy and without, on MNIST",
    "--records, and --data-dir with mnist and fashion-mnist",
    "3 minutes a seed on two cores, 5 seeds",
    reproduce,
    ("mnist", "fashion-mnist"),
    trains=True,
)
