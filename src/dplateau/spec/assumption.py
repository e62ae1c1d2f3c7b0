"""What a guarantee rests on: one class for each kind of condition, with what it says in numbers, how it came to hold, and by whom.

Sentences are made of fields, and never read. ``dplateau.spec.required`` says which a training must have, and who may see to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from dplateau.spec.assumption_fields import Assumption as Assumption
from dplateau.spec.errors import InputError
from dplateau.spec.facts import ROUNDINGS, How, Rounding
from dplateau.spec.sampling import SAMPLINGS


@dataclass(frozen=True, kw_only=True)
class PublicConstants(Assumption):
    """Nothing that steers the training was read off the records."""

    name = "public constants"
    sentence = "n is public; batch sizes, noise, clip norm, step sizes, l2 and the start were chosen without looking at the records"


@dataclass(frozen=True, kw_only=True)
class Batches(Assumption):
    """Batches were drawn, or taken in their order, as the run says."""

    scheme: str
    name = "sampling"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scheme not in SAMPLINGS:
            raise InputError(f"assumption 'sampling': scheme is none of {', '.join(SAMPLINGS)}.")

    @property
    def statement(self) -> str:
        if self.scheme == "full":
            return "every step used every record"
        if self.scheme in ("cyclic", "one-pass"):
            return f"{self.scheme} batches followed the given order of the records"
        return f"{self.scheme} batches were drawn from the generator, none truncated"


@dataclass(frozen=True, kw_only=True)
class Clipping(Assumption):
    """What one record adds to a sum is no longer than the clip norm."""

    clip_norm: float
    name = "clipping"

    @property
    def statement(self) -> str:
        if self.how is How.ENFORCED:
            return f"what a record adds to a sum has norm at most {self.clip_norm:g}, exactly, in the integers that are summed"
        return f"every record's own gradient was clipped to norm {self.clip_norm:g} before it was summed"


@dataclass(frozen=True, kw_only=True)
class InnerSteps(Assumption):
    """What one record can change in a phase of Phased-SGD."""

    clip_norm: float
    batch_size: int
    name = "inner steps"
    sentence = (
        "gradients were clipped to norm {clip_norm:g} less a margin for rounding, and every inner step on {batch_size:,}"
        " records is a contraction"
    )


@dataclass(frozen=True, kw_only=True)
class Minimisers(Assumption):
    """What one record can change in a phase of Phased-ERM."""

    clip_norm: float
    accuracy: float
    name = "minimisers"
    sentence = (
        "every row is short enough for losses to be {clip_norm:g}-Lipschitz, and every phase's result was certified to lie"
        " within {accuracy:g} of half of what a record's presence can move its minimiser"
    )


@dataclass(frozen=True, kw_only=True)
class Divisor(Assumption):
    """The divisor does not depend on who is in the data."""

    name = "divisor"
    sentence = "sums were divided by public batch sizes"


@dataclass(frozen=True, kw_only=True)
class Noise(Assumption):
    """The noise is what the run says."""

    grid: bool
    name = "noise"

    @property
    def statement(self) -> str:
        return "independent Gaussian noise from the generator, fresh every time" + ", on the same grid as what it hides" * self.grid


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Assumption):
    """Rounding opens no hole in the proof."""

    rounding: Rounding
    name = "arithmetic"

    @property
    def statement(self) -> str:
        return ROUNDINGS[self.rounding]


@dataclass(frozen=True, kw_only=True)
class Order(Assumption):
    """The order of the records is public."""

    detail: str | None = None
    name = "order"

    @property
    def statement(self) -> str:
        known = f" ({self.detail})" if self.detail else ""
        return f"the order of the records is public: it does not depend on what they say{known}"


@dataclass(frozen=True, kw_only=True)
class Projection(Assumption):
    """Iterates stay in a ball."""

    diameter: float
    name = "projection"
    sentence = "results were projected on the ball of diameter {diameter:g}"


@dataclass(frozen=True, kw_only=True)
class Smoothness(Assumption):
    """Losses are as smooth as the run says."""

    smoothness: float
    name = "smoothness"
    sentence = "every row is short enough for smoothness {smoothness:g}"


@dataclass(frozen=True, kw_only=True)
class StrongConvexity(Assumption):
    """Clipped losses are as strongly convex as the run says."""

    strong_convexity: float
    clipped: bool
    name = "strong convexity"

    @property
    def statement(self) -> str:
        why = "clipping keeps one score convex" if self.clipped else "clipping was never active"
        return f"l2 is at least {self.strong_convexity:g} and {why}"


@dataclass(frozen=True, kw_only=True)
class Steps(Assumption):
    """Everything that used the records was counted."""

    name = "steps"
    sentence = "every batch made one step, empty ones too, and every step was counted; nothing else used the records"


@dataclass(frozen=True, kw_only=True)
class SeparateExamples(Assumption):
    """A gradient belongs to one example."""

    name = "model"
    sentence = "no layer and no loss mixes the examples of a batch, except in their mean or sum"


@dataclass(frozen=True, kw_only=True)
class Features(Assumption):
    """A record's features follow from that record."""

    name = "features"
    sentence = "each record's features follow from that record alone, by rules that are public"


@dataclass(frozen=True, kw_only=True)
class PublicSchema(Assumption):
    """Rows were encoded by a public schema."""

    name = "schema"
    sentence = "the ranges, categories and classes of the columns were chosen without looking at the rows"


@dataclass(frozen=True, kw_only=True)
class Rows(Assumption):
    """Rows have bounded norm."""

    norm: float
    scaled: bool
    name = "rows"

    @property
    def statement(self) -> str:
        return f"every row was {'scaled' if self.scaled else 'clipped'} to norm {self.norm:g}, a public number"


@dataclass(frozen=True, kw_only=True)
class Persons(Assumption):
    """Labels tell whose a row is."""

    name = "persons"
    sentence = "all rows of a person have one label, and no two persons share one"


@dataclass(frozen=True, kw_only=True)
class Processes(Assumption):
    """Several processes trained together."""

    count: int
    name = "processes"
    sentence = (
        "the {count:,} processes that trained, and the network between them, are trusted: they exchange sums without noise, and no"
        " record is held by two of them"
    )


@dataclass(frozen=True, kw_only=True)
class Classes(Assumption):
    """The list of classes says nothing about the records."""

    count: int
    declared: bool
    name = "classes"

    @property
    def statement(self) -> str:
        if self.declared:
            return f"the {self.count:,} classes are public: they were declared, and not taken from the records"
        return f"the {self.count:,} classes were taken from the records, and so are not public"

    @property
    def void(self) -> str | None:
        return None if self.declared else "the classes were taken from the records, and tell without noise that each has a member"


@dataclass(frozen=True, kw_only=True)
class ClassWeights(Assumption):
    """The weights of the classes say nothing about the records."""

    weights: str
    name = "class weights"
    sentence = "the losses of the classes, in their order, counted {weights}: public weights, at most 1"


@dataclass(frozen=True, kw_only=True)
class Target(Assumption):
    """Targets lie in a public range."""

    low: float
    high: float
    name = "target"
    sentence = "every target was clipped to [{low:g}, {high:g}], a public range"


@dataclass(frozen=True, kw_only=True)
class OneBatch(Assumption):
    """No record came twice."""

    name = "one batch a record"
    sentence = "no record was in more than one batch"


@dataclass(frozen=True, kw_only=True)
class PublicValidation(Assumption):
    """Scores on the way used no private record."""

    data: str
    name = "validation"
    sentence = "scores were computed on public data only: {data}"


@dataclass(frozen=True, kw_only=True)
class LostSteps(Assumption):
    """Steps whose result was lost are paid for."""

    steps: int
    name = "lost steps"
    sentence = "{steps:,} steps that may have been taken before a restart are counted too"


@dataclass(frozen=True, kw_only=True)
class Restarts(Assumption):
    """Being killed told nothing."""

    name = "restarts"
    sentence = "when the run was killed did not depend on what it had computed"


@dataclass(frozen=True, kw_only=True)
class OneContinuation(Assumption):
    """A checkpoint was continued once."""

    name = "one continuation"
    sentence = "no copy of the checkpoint was continued elsewhere"


@dataclass(frozen=True, kw_only=True)
class OnlyTheBest(Assumption):
    """Of several candidates only the best one was told."""

    candidates: int
    probability: float
    name = "selection"

    @property
    def statement(self) -> str:
        tried = f"each with probability {self.probability:g}, by coins that nobody saw" if self.probability < 1 else "all of them"
        best = "the one with the best score is told, and nothing of the others"
        return f"of {self.candidates:,} candidates, {tried}, were trained; {best}"


@dataclass(frozen=True, kw_only=True)
class HeldOut(Assumption):
    """Some records took no part in the training, and one histogram of them was released."""

    rows: int
    noise_multiplier: float
    name = "hold-out"
    sentence = (
        "{rows:,} further rows were drawn by lot, without looking at any, and held out of the training; a histogram of their"
        " predictions was released with noise multiplier {noise_multiplier:g}, and every row is in one of the two parts"
    )


KINDS: Final[Mapping[str, type[Assumption]]] = {
    kind.name: kind
    for kind in (
        *(PublicConstants, Batches, Clipping, InnerSteps, Minimisers, Divisor, Noise, Arithmetic, Order),
        *(Projection, Smoothness, StrongConvexity, Steps, SeparateExamples, Features, PublicSchema, Persons, Processes, Rows),
        *(Classes, ClassWeights, Target, OneBatch, PublicValidation, LostSteps, Restarts, OneContinuation, OnlyTheBest, HeldOut),
    )
}


def assumption_from_dict(data: object) -> Assumption:
    """What ``Assumption.to_dict`` wrote; raises ``InputError`` on unknown kinds, and on missing, unknown or wrong fields."""
    if not isinstance(data, Mapping) or not isinstance(name := data.get("name"), str) or name not in KINDS:
        raise InputError(f"an assumption is of no known kind: expected an object whose name is one of {', '.join(KINDS)}.")
    wanted = {"name", *(field.name for field in fields(KINDS[name]))}
    if set(data) != wanted:
        raise InputError(f"assumption {name!r} has other fields than {', '.join(sorted(wanted))}.")
    return KINDS[name](**{key: value for key, value in data.items() if key != "name"})
