"""What a certificate's page says in words: to whom, about what, and how much of a run is written out."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate import Certificate
from dplateau.certificate.words import UNITS, run_facts, seen, spread
from dplateau.spec import Run, Runs, Selection
from dplateau.spec.facts import Training
from dplateau.spec.runs import runs_of

SHORT: Final = 8
"""Lists of more numbers than this are not written out."""
FEW: Final = 12
"""Of more composed runs than this, the first ones are written out."""
VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.]{0,30}")
"""What may stand in a command that a reader copies."""
PROTECTED: Final = {
    ("row", "add-remove"): "Whether any particular row was in the data. There are {n} rows.",
    ("row", "replace"): "What any particular row says. There are {n} rows.",
    ("person", "add-remove"): "Whether any particular person was in the data. There are {n} people.",
    ("person", "replace"): "What the rows of any particular person say, and how many they are. There are {n} people.",
}
NEIGHBOURS: Final = {
    (
        "row",
        "add-remove",
    ): "The number of rows is public. “Not in the data” means that the row's place is empty, and the others are where they were"
    " (“add-remove”). Somebody who knows all the other rows and this number may conclude that one is missing from their list: the"
    " guarantee is about what the model tells in addition.",
    ("row", "replace"): "The data with one value of the row are compared with the data with another value in its place, which may"
    " be somebody else's (“replace”). How many rows there are is the same in both, and public.",
    (
        "person",
        "add-remove",
    ): "The number of people is public. “Not in the data” means that the person's place is empty, and the others are where they"
    " were (“add-remove”). Somebody who knows all the others and this number may conclude that one is missing from their list: the"
    " guarantee is about what the model tells in addition.",
    ("person", "replace"): "The data with some rows of the person are compared with the data with other rows in their place, which"
    " may be somebody else's (“replace”). How many people there are is the same in both, and public.",
}
SAYS: Final = {
    "row": "What the row says is protected too, but less: an attacker who must choose between two versions of it, equally likely"
    " beforehand, is right at most {share} of the time.",
    "person": "What the person's rows say is protected too, but less: an attacker who must choose between two versions of them,"
    " equally likely beforehand, is right at most {share} of the time.",
}
"""Where adding and removing is protected: to replace is to do both."""
FALSE_ALARM: Final = {
    "add-remove": "A false alarm means saying that it was when it was not.",
    "replace": "A false alarm means saying B when it was A.",
}
DETECTS: Final = {
    ("row", "add-remove"): "detects a row that is there with a probability of at most {share}",
    ("row", "replace"): "detects value B with a probability of at most {share}",
    ("person", "add-remove"): "detects a person who is there with a probability of at most {share}",
    ("person", "replace"): "detects rows B with a probability of at most {share}",
}
TWO: Final = {
    ("row", "add-remove"): "Compare training with one particular row in the data and without it,",
    ("row", "replace"): "Compare training on two data sets that differ in what one row says,",
    ("person", "add-remove"): "Compare training with one particular person in the data and without them,",
    ("person", "replace"): "Compare training on two data sets that differ in the rows of one person,",
}
SEVERAL: Final = {
    "row": "If one person has several rows, all of them have to be hidden at once, and the protection is weaker.",
    "person": "Several people together, a family for example, are protected less.",
}
METHOD: Final = {
    False: "Each step adds up the gradients of a batch, after shortening those longer than the clip norm, adds Gaussian noise, and"
    " changes the model by the result, or by this and earlier ones (momentum, averages)."
    " The standard deviation of the noise is the noise multiplier times the clip norm.",
    True: "Each phase computes on {units} of its own without noise, and then adds Gaussian noise to its result. The standard"
    " deviation of the noise is the noise multiplier times what one {unit} can change there.",
}
TRAINING: Final = {
    Training.GRADIENT_STEPS: "noisy gradient steps",
    Training.ONLINE: "noisy gradient steps, one batch after the other",
    Training.PHASES: "phases, each with noise on its result",
    Training.NETWORK: "a network, by noisy gradient steps",
    Training.OPACUS: "a network, by Opacus",
    Training.DECLARED: "elsewhere: somebody vouches for all of it",
}
MEAN: Final = "A person's gradient is the mean of the gradients of that person's rows."
UNIT: Final = {
    "row": ("row, record", "one line of the data: everything about a person if each has one row, otherwise a part"),
    "person": ("person, record", "all rows with the same label"),
}
GLOSSARY: Final = (
    ("epsilon, delta", "how much the release may depend on one {unit}; smaller is more private"),
    ("step", "one change of the model, by a batch of {units}"),
    ("epoch", "as many steps as it takes to use every {unit} once, on average"),
    ("gradient", "how one {unit} would change the model; its length, or norm, says how much"),
    ("clipping", "shortening a gradient, or a row, to a length that is public; each has its own"),
    ("noise multiplier", "the standard deviation of the noise, in units of that length"),
    (
        "grid",
        "evenly spaced numbers: gradients and noise are rounded to them, so that rounding reveals nothing that is to be hidden",
    ),
    (
        "divisor",
        "the number that a sum of gradients is divided by: a public one, and not a count of the {units} that were there",
    ),
    (
        "n, l2, start",
        "the public number of {units}; a term that keeps the model small; where training begins",
    ),
    ("iterate", "the model as it stands after a step"),
    ("fingerprint", "a code of 64 characters, computed from a file; any change in the file changes it. Also called a digest"),
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


def compared(share: float) -> str:
    """A delta beside one divided by the number of rows, of which it is this share."""
    if share > 2 / 3:
        return f"{share:.3g} times as large" if share > 3 / 2 else "about as large"
    below = 1 / share
    if below > 1e9:
        return "more than a billion times smaller"
    return f"about {float(f'{below:.2g}' if below < 100 else f'{below:.1g}'):,g} times smaller"


def method(run: Run | Runs) -> list[str]:
    """How the noise came in: in steps, in phases, or in both."""
    kinds = {one.is_phased for one in runs_of(run)}
    sentences = [METHOD[kind].format(unit=run.unit, units=UNITS[run.unit]) for kind in sorted(kinds)]
    return [*sentences, *([MEAN] if run.unit == "person" else [])]


def glossary(run: Run | Runs) -> list[tuple[str, str]]:
    """Words that readers may not know."""
    return [UNIT[run.unit], *((name, meaning.format(unit=run.unit, units=UNITS[run.unit])) for name, meaning in GLOSSARY)]


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
    fields = ("clip_norm", "step_size", "smoothness", "strong_convexity", "diameter")
    given = [(field.replace("_", " "), getattr(run, field)) for field in fields]
    return [(name, spread(value)) for name, value in given if value is not None]


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
