"""What a certificate's page says in words: to whom, about what, and how much of a run is written out."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate import Certificate
from dplateau.certificate.words import run_facts, seen, spread
from dplateau.spec import Run, Runs, Selection
from dplateau.spec.runs import runs_of

SHORT: Final = 8
"""Lists of more numbers than this are not written out."""
FEW: Final = 12
"""Of more composed runs than this, the first ones are written out."""
VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.]{0,30}")
"""What may stand in a command that a reader copies."""
PROTECTED: Final = {
    ("row", "add-remove"): "Whether any one of {n} rows was in the data, and through that what the row says.",
    ("row", "replace"): "Which value any one of {n} rows had. That there are so many rows is not hidden.",
    ("person", "add-remove"): "Whether any one of {n} persons was in the data, and through that what all rows of the person say.",
    (
        "person",
        "replace",
    ): "What the rows of any one of {n} persons say, and how many they are. That there are so many persons is not hidden.",
}
NEIGHBOURS: Final = {
    (
        "row",
        "add-remove",
    ): 'Compared are any two data sets of which one has a row where the other has an empty place ("add-remove").',
    ("row", "replace"): 'Compared are any two data sets that differ in the value of one row ("replace").',
    (
        "person",
        "add-remove",
    ): 'Compared are any two data sets of which one has all rows of a person and the other none ("add-remove").',
    ("person", "replace"): 'Compared are any two data sets that differ in the rows of one person, all of them ("replace").',
}
TASK: Final = {
    ("row", "add-remove"): "whether one person's row was in the data. A false alarm is to say that it was, where it was not",
    ("row", "replace"): "which of two values, A or B, one person's row had. A false alarm is to say B where it was A",
    (
        "person",
        "add-remove",
    ): "whether one person's rows were in the data. A false alarm is to say that they were, where they were not",
    ("person", "replace"): "which of two lists of rows, A or B, one person had. A false alarm is to say B where it was A",
}
DETECTS: Final = {
    ("row", "add-remove"): "detects a person's presence in at most {share} of the cases where the person's row is there",
    ("row", "replace"): "recognises value B in at most {share} of the cases where the person's row has it",
    ("person", "add-remove"): "detects a person's presence in at most {share} of the cases where the person's rows are there",
    ("person", "replace"): "recognises list B in at most {share} of the cases where the person has it",
}
METHOD: Final = {
    False: "A step sums the gradients of the {unit}s of a batch, none of them longer than the clip norm, adds Gaussian noise, and"
    " changes the model by the result. The standard deviation of the noise is the noise multiplier times the clip norm.",
    True: "A phase computes on {unit}s of its own without noise, and then adds Gaussian noise to its result. The standard deviation"
    " of the noise is the noise multiplier times what one {unit} can change there.",
}
MEAN: Final = "The gradient of a person is the mean of those of the person's rows."
UNIT: Final = {
    "row": ("row", "what is known about one person, if every person has one row; else a part of it"),
    "person": ("person", "all rows that carry one label"),
}
GLOSSARY: Final = (
    ("epsilon, delta", "how different the release may look with a {unit} and without it; smaller is more private"),
    ("step, epoch", "one change of the model by a batch of {unit}s; as many steps as use every {unit} once on average"),
    ("gradient", "how a {unit} would change the model; its length, or norm, is what the {unit} can do"),
    ("clipping", "shortening a gradient, or a row, to a public length"),
    ("noise multiplier", "the standard deviation of the noise, in units of that length"),
    ("rounding margin, grid", "what keeps the rounding of numbers in a computer from telling anything that the noise hides"),
    ("divisor", "the number by which a sum of gradients is divided: public, so that it does not tell how many {unit}s there were"),
    (
        "n, l2, start, schedules",
        "the number of {unit}s; a term that keeps the model small; where training begins; step sizes, batches and noise",
    ),
    ("iterate", "the model as it stands after a step"),
    ("digest", "a fingerprint of the settings: two runs with the same digest have the same settings"),
)
"""For readers who know neither privacy nor training."""


def released_to(run: Run | Runs) -> str:
    """What somebody sees whom the guarantee covers."""
    if isinstance(run, Selection):
        return f"{seen(run.released)}, which one of {len(run.candidates):,} candidates it is, and its score"
    if isinstance(run, Runs):
        what = "the model of each" if run.released == "last" else "the models and noisy steps"
        return f"all that {len(run.runs):,} runs released ({what})"
    return seen(run.released)


def only_the_last(run: Run | Runs) -> bool:
    """Whether earlier steps of a training would say more than the guarantee allows."""
    return any(one.released == "last" for one in runs_of(run))


def method(run: Run | Runs) -> list[str]:
    """How the noise came in: in steps, in phases, or in both."""
    kinds = {one.is_phased for one in runs_of(run)}
    return [*(METHOD[kind].format(unit=run.unit) for kind in sorted(kinds)), *([MEAN] if run.unit == "person" else [])]


def glossary(run: Run | Runs) -> list[tuple[str, str]]:
    """Words that readers may not know."""
    return [UNIT[run.unit], *((name, meaning.format(unit=run.unit)) for name, meaning in GLOSSARY)]


def training_facts(run: Run | Runs) -> list[tuple[str, str]]:
    """What ran; of many composed runs the first ones."""
    if isinstance(run, Run):
        return [*run_facts(run), *_numbers(run)]
    if isinstance(run, Selection):
        facts, left = run_facts(Selection(run.candidates[:FEW], run.probability)), len(run.candidates) - FEW
        return [*facts, ("more candidates", f"{left:,}: the certificate file has them all")] if left > 0 else facts
    facts = run_facts(Runs(run.runs[:FEW]))
    left = len(run.runs) - FEW
    return [*facts, ("further runs", f"{left:,}: the certificate file has them all")] if left > 0 else facts


def _numbers(run: Run) -> list[tuple[str, str]]:
    """The constants of the loss and of the steps; a schedule as its range."""
    names = {
        "clip_norm": "clip norm",
        "step_size": "step size",
        "smoothness": "smoothness",
        "strong_convexity": "strong convexity",
        "diameter": "diameter",
    }
    given = {name: getattr(run, field) for field, name in names.items() if getattr(run, field) is not None}
    return [(name, spread(value)) for name, value in given.items()]


def run_in_brief(run: Run | Runs) -> str:
    """The run as JSON, long schedules and many runs as a note on how many there are."""
    data = run.to_dict()
    listed = "candidates" if isinstance(run, Selection) else "runs"
    if isinstance(run, Runs) and len(data[listed]) > FEW:
        left = len(data[listed]) - FEW
        data[listed] = [*data[listed][:FEW], f"and {left:,} more {listed}: the certificate file has them all"]
    return json.dumps(_brief(data), indent=1, allow_nan=False)


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _brief(one) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > SHORT and not any(isinstance(one, dict | list | str) for one in value):
        return f"{len(value):,} numbers from {min(value):.6g} to {max(value):.6g}: the certificate file has them all"
    return [_brief(one) for one in value]


def one_in(delta: float) -> str:
    """A small probability, as a person would say it."""
    if delta < 1e-15:
        return f"{delta:g}"
    times = 1 / delta
    whole = abs(times - round(times)) <= 1e-9 * times
    return f"1 in {round(times):,}" if whole else f"about 1 in {times:,.0f}"


def times_as_likely(epsilon: float) -> str:
    """``e^epsilon``, upwards."""
    return rounded_up(math.exp(epsilon), 3) if epsilon < 14 else f"e^{rounded_up(epsilon, 3)}"


def made_with(certificate: Certificate) -> str:
    """The version of dplateau that a certificate names, if it looks like one: a reader copies it into a command."""
    named = dict(certificate.versions).get("dplateau", "")
    return named if VERSION.fullmatch(named) else ""
