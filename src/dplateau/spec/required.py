"""Which conditions the guarantee of a training must name, and who may have seen to each.

``problems_of`` compares the assumptions of a training with the table for its kind. What has to be there follows from the run, the
generator and the estimator alone, so that a certificate from which a line was taken, or in which one was turned into another, is no
certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dplateau.spec import assumption as a
from dplateau.spec.facts import By, Estimator, Generator, How, Key, Training
from dplateau.spec.run import Run
from dplateau.spec.runs import Runs, runs_of
from dplateau.spec.selection import Selection

Who = tuple[How, By]
ENFORCED: Final[Who] = (How.ENFORCED, By.DPLATEAU)
DECLARED: Final[Who] = (How.DECLARED, By.CALLER)
BY_OPACUS: Final[Who] = (How.DECLARED, By.OPACUS)
SECURE_DRAWS: Final = Generator("AES-256-CTR", Key.OPERATING_SYSTEM)
"""What ``dplateau.interchange.opacus_training.draw_securely`` draws from."""
SELECTED: Final = (Training.GRADIENT_STEPS, Training.NETWORK)
"""Trainings among whose results dplateau selects."""
LINEAR: Final = (Training.GRADIENT_STEPS, Training.ONLINE, Training.PHASES)


@dataclass(frozen=True)
class Rule:
    """One line that a training has.

    Attributes
    ----------
    kind : type
        Its class.
    who : (How, By)
        How it came to hold, and by whom; nothing else is believed.
    values : tuple of dict
        The fields that follow from the run: there must be one line for each entry, and no other.
    needed : bool
        Whether it must be there.
    several : bool
        Whether there may be more lines: of several candidates.
    """

    kind: type[a.Assumption]
    who: Who
    values: tuple[dict[str, Any], ...] = ({},)
    needed: bool = True
    several: bool = False


def problems_of(
    assumptions: Iterable[a.Assumption],
    training: Training,
    run: Run | Runs,
    generator: Generator,
    estimator: Estimator | None = None,
) -> list[str]:
    """What is wrong with the assumptions of a training: missing lines, lines of another kind of training, and lines that credit
    somebody who cannot have seen to them.
    """
    found, runs = list(assumptions), runs_of(run)
    rules = {rule.kind: rule for rule in _rules(training, run, generator, estimator)}
    wrong = [f"{one.name!r} is not an assumption of such a training" for one in found if type(one) not in rules]
    if not all(_fits(one, training) for one in runs):
        wrong.append(f"the run is none of {training.value} training")
    if estimator is not None and training not in LINEAR:
        wrong.append(f"no {estimator.value} comes of {training.value} training")
    if sum(isinstance(one, a.Features | a.PublicSchema) for one in found) != 1:
        wrong.append("exactly one of 'features' and 'schema' is expected")
    for rule in rules.values():
        wrong += _broken(rule, [one for one in found if type(one) is rule.kind])
    return wrong


def _fits(run: Run, training: Training) -> bool:
    """Whether such a training makes such a run: what last-iterate bounds need of the losses, only some enforce or name."""
    if training is Training.DECLARED:
        return True
    return run.is_phased == (training is Training.PHASES) and (training in LINEAR or not run.is_last_iterate)


def _broken(rule: Rule, lines: list[a.Assumption]) -> Iterator[str]:
    """What is wrong with the lines of one kind."""
    name, (how, by) = repr(rule.kind.name), rule.who
    if not lines:
        if rule.needed:
            yield f"{name} is missing"
        return
    if any((one.how, one.by) != rule.who for one in lines):
        yield f"{name} can only be {how.value} by {by.value}"
    if len(lines) < len(rule.values) or (len(lines) > len(rule.values) and not rule.several):
        yield f"{name} stands there {len(lines)} times: expected {len(rule.values)}"
    for values in rule.values:
        if not any(all(getattr(one, key) == value for key, value in values.items()) for one in lines):
            yield f"{name} does not have the run's " + ", ".join(f"{key} {value}" for key, value in values.items())


def _rules(training: Training, run: Run | Runs, generator: Generator, estimator: Estimator | None) -> Iterator[Rule]:
    """The lines of a training."""
    declared, runs, several = training is Training.DECLARED, runs_of(run), isinstance(run, Selection)
    if isinstance(run, Selection):
        told = {"candidates": len(run.candidates), "probability": run.probability}
        yield Rule(a.OnlyTheBest, ENFORCED if generator.secure and training in SELECTED else DECLARED, (told,))
    yield Rule(a.PublicConstants, DECLARED)
    yield Rule(a.Features, DECLARED, needed=False)
    yield Rule(a.PublicSchema, DECLARED, needed=False)
    if any(one.sampling.ordered for one in runs):
        yield Rule(a.Order, DECLARED)
    if run.unit == "person":
        yield Rule(a.Persons, DECLARED)
    yield from _of_steps(training, runs, generator)
    if training in (Training.DECLARED, Training.OPACUS):
        yield Rule(a.Steps, DECLARED)
        yield Rule(a.SeparateExamples, DECLARED, needed=not declared)
    if declared or training is Training.NETWORK or several:
        yield Rule(a.PublicValidation, DECLARED, needed=False)
    if training is not Training.OPACUS:
        yield Rule(a.Processes, DECLARED, needed=False)
    if training is Training.NETWORK:
        lost = 0 if several else sum(one.steps for one in runs[1:])
        yield Rule(a.OneContinuation, DECLARED, needed=lost > 0)
        if lost:
            yield Rule(a.LostSteps, ENFORCED, ({"steps": lost},))
            yield Rule(a.Restarts, DECLARED)
    elif training in LINEAR or declared:
        yield Rule(a.HeldOut, ENFORCED if generator.secure and not declared else DECLARED, needed=False)
        yield from _of_losses(runs, declared=declared, several=several)
        yield from _of_records(training, estimator, declared=declared, several=several)


def _of_steps(training: Training, runs: Sequence[Run], generator: Generator) -> Iterator[Rule]:
    """Batches, what a record can add, its divisor, the noise, and the arithmetic."""
    ours = training not in (Training.DECLARED, Training.OPACUS)
    done = ENFORCED if ours else BY_OPACUS if training is Training.OPACUS else DECLARED
    # Anyone who knows the seed has chosen the batches and the noise.
    drawn = done if generator.secure or not ours else DECLARED
    if training is Training.OPACUS and generator == SECURE_DRAWS:
        drawn = ENFORCED
    followed = all(run.sampling.ordered or run.sampling.full for run in runs)
    yield Rule(a.Batches, done if ours and followed else drawn, _values("scheme", (run.sampling.kind for run in runs)))
    yield Rule(a.Noise, drawn, ({"grid": ours},) if ours or training is Training.OPACUS else ({},))
    yield Rule(a.Divisor, done)
    if plain := _values("clip_norm", (run.clip_norm for run in runs if not run.is_phased)):
        yield Rule(a.Clipping, done, plain)
    for update, kind in (("phased-sgd", a.InnerSteps), ("phased-erm", a.Minimisers)):
        if phased := _values("clip_norm", (run.clip_norm for run in runs if run.update == update)):
            yield Rule(kind, done, phased)
    rounding = {
        Training.DECLARED: {},
        Training.OPACUS: {"rounding": a.Rounding.IGNORED},
        Training.PHASES: {"rounding": a.Rounding.BOUNDED},
    }
    yield Rule(a.Arithmetic, done if ours else DECLARED, (rounding.get(training, {"rounding": a.Rounding.EXACT}),))


def _of_losses(runs: Sequence[Run], *, declared: bool, several: bool) -> Iterator[Rule]:
    """What last-iterate bounds and phases need of the losses, where the run states it."""
    who, needed = DECLARED if declared else ENFORCED, not declared or any(run.is_last_iterate for run in runs)
    if values := _values("diameter", (run.diameter for run in runs)):
        yield Rule(a.Projection, who, values, needed)
    if values := _values("smoothness", (run.smoothness for run in runs)):
        yield Rule(a.Smoothness, who, values, needed)
    if values := _values("strong_convexity", (run.strong_convexity for run in runs if not run.is_phased)):
        yield Rule(a.StrongConvexity, who, values, needed, several)


def _of_records(training: Training, estimator: Estimator | None, *, declared: bool, several: bool) -> Iterator[Rule]:
    """What an estimator did with rows and targets; elsewhere, what somebody says of them."""
    who = DECLARED if declared else ENFORCED
    if training is Training.ONLINE or declared:
        yield Rule(a.OneBatch, DECLARED, needed=not declared)
    if estimator is not None or declared:
        yield Rule(a.Rows, who, needed=not declared, several=several)
    if estimator is Estimator.CLASSIFIER or declared:
        yield Rule(a.Classes, DECLARED, needed=not declared)
        yield Rule(a.ClassWeights, DECLARED, needed=False, several=several)
    if estimator is Estimator.REGRESSOR or declared:
        yield Rule(a.Target, who, needed=not declared)


def _values(name: str, found: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """One entry for each value that occurs."""
    return tuple({name: value} for value in dict.fromkeys(value for value in found if value is not None))
