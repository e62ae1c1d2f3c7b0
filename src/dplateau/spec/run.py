"""``Run``: what was computed, and what was released."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

from dplateau.spec.arguments import integer, one_of, real
from dplateau.spec.errors import InputError
from dplateau.spec.names import ADJACENCIES, RELEASED, UNITS
from dplateau.spec.sampling import SAMPLINGS, Sampling, sampling_from_dict
from dplateau.spec.schedule import Schedule, check_length, largest, part, plain, schedule, smallest
from dplateau.spec.shown import shown
from dplateau.spec.steps import StepTable
from dplateau.spec.strict_json import strict_json

PHASED: Final = ("phased-sgd", "phased-erm")
UPDATES: Final = ("sgd", "post-processed", *PHASED)
FORMAT: Final = 1
LEFT_OUT: Final = {"l2": 0.0, "unit": "row"}
"""Fields that are not written where they have these values: they are younger than the format."""
LEAST_NOISE: Final = 1e-50
"""Less noise is none, and its squared inverse is beyond double precision."""
ROUND_OFF: Final = 1e-7
"""Share of its noise by which a step may miss the exact gradient step. Last-iterate bounds allow for so much arithmetic error, and
training keeps to it."""


def digest_of(data: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of noisy gradient steps: the record that training fulfils and that every analysis reads.

    Step t computes ``theta - step_size_t * (sum of clipped gradients + noise_multiplier_t * clip_norm * N(0, I)) / b_t``, with
    b_t the public batch size, and projects the result on a ball.

    Parameters
    ----------
    n : int
        Number of records. Public.
    sampling : Sampling
        How the records of a step are chosen, with the batch sizes.
    steps : int
        Number of gradient steps T.
    noise_multiplier : float or sequence of float
        z: standard deviation of the noise on the summed gradient, in units of ``clip_norm``; constant or one a step.
    clip_norm : float, default 1.0
        Norm that every per-example gradient is clipped to, or the Lipschitz constant of the losses.
    step_size : float or sequence of float, optional
        eta. Needed by last-iterate bounds only.
    smoothness : float, optional
        M: every per-example loss, with the l2 term, is M-smooth. Where ``strong_convexity`` is None it is at least the smoothness
        of the loss alone plus the l2 coefficient. Needed by last-iterate bounds only.
    strong_convexity : float, optional
        m: every per-example loss, with the l2 term, is m-strongly convex; 0 means convex, None means not known to be convex.
        This is about losses as they are clipped: if gradients are ever clipped, m is at most the l2 coefficient, and the l2 term is
        added after clipping. And the loss alone, without the l2 term, is convex.
    l2 : float, default 0.0
        The part of ``strong_convexity`` that is due to a term ``l2 |theta|^2 / 2`` which every step adds once, whatever its batch
        (``dplateau.training.train`` and weight decay do). The rest is taken to be sampled with the records.
    diameter : float, optional
        D: diameter of the set that iterates are projected on; None means no projection.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        Neighbouring data sets differ by the presence of one record, or by the value of one record. Where positions are public
        (cyclic, one pass) "add-remove" leaves the other records where they are and n public: the record's place stays empty.
    released : {"all", "last"}, default "all"
        Whether the guarantee covers every iterate (and all that is computed from them) or only the last one.
    update : {"sgd", "post-processed", "phased-sgd", "phased-erm"}, default "sgd"
        "sgd": iterates follow the step above. "post-processed": they are any other function of the noisy gradients (momentum, Adam,
        averaging), which keeps every bound on the noisy gradients and loses every last-iterate bound. In the two others, which need
        one-pass sampling, step t is a *phase*: a noiseless computation on its batch that starts at the previous noisy result, plus
        Gaussian noise of ``noise_multiplier_t`` times what the presence of one record can move the result. "phased-sgd": a weighted
        mean of the iterates of one pass of projected gradient steps of size ``step_size_t <= 2/smoothness``, moved by at most
        ``step_size_t * clip_norm / b`` for inner batches of b. "phased-erm": the minimiser of the mean loss plus
        ``|w - start|^2 / (step_size_t * batch_t)``, moved by at most ``step_size_t * clip_norm / 2`` and its stated inaccuracy.
    unit : {"row", "person"}, default "row"
        What a record is: one row, or all rows of one person, whose loss is one function of them (their mean, in
        ``dplateau.training.train``). No bound depends on it; what is protected does.

    Raises
    ------
    InputError
        An argument is outside its range, or a sequence does not have one entry a step.
    """

    n: int
    sampling: Sampling
    steps: int
    noise_multiplier: Schedule
    clip_norm: float = 1.0
    step_size: Schedule | None = None
    smoothness: float | None = None
    strong_convexity: float | None = None
    l2: float = 0.0
    diameter: float | None = None
    adjacency: str = "add-remove"
    released: str = "all"
    update: str = "sgd"
    unit: str = "row"

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("n", integer("n", self.n))
        put("steps", integer("steps", self.steps))
        if type(self.sampling) not in SAMPLINGS.values():
            raise InputError(
                f"sampling is {self.sampling!r}: expected one of dp.{', '.join(one.__name__ for one in SAMPLINGS.values())}."
            )
        self.sampling.check(self.n, self.steps)
        put("noise_multiplier", schedule("noise_multiplier", self.noise_multiplier))
        check_length("noise_multiplier", self.noise_multiplier, self.steps)
        if (least := smallest(self.noise_multiplier)) < LEAST_NOISE:
            raise InputError(f"noise_multiplier {least:g} is below {LEAST_NOISE:g}: that is not noise. Raise it.")
        put("clip_norm", real("clip_norm", self.clip_norm))
        if self.step_size is not None:
            put("step_size", schedule("step_size", self.step_size))
            check_length("step_size", self.step_size, self.steps)  # type: ignore[arg-type]
        if self.smoothness is not None:
            put("smoothness", real("smoothness", self.smoothness))
        if self.strong_convexity is not None:
            put("strong_convexity", real("strong_convexity", self.strong_convexity, inclusive=True))
        if self.smoothness is not None and (self.strong_convexity or 0.0) > self.smoothness:
            raise InputError(
                f"strong_convexity {self.strong_convexity:g} exceeds smoothness {self.smoothness:g}: no loss has both."
            )
        put("l2", real("l2", self.l2, inclusive=True))
        if self.l2 > (self.strong_convexity or 0.0):
            raise InputError(
                f"l2 {self.l2:g} exceeds strong_convexity {self.strong_convexity or 0:g}: the l2 term is part of it, "
                "state at least l2."
            )
        if self.diameter is not None:
            put("diameter", real("diameter", self.diameter))
        for name, allowed in (("adjacency", ADJACENCIES), ("released", RELEASED), ("update", UPDATES), ("unit", UNITS)):
            one_of(name, getattr(self, name), allowed)
        if self.update in PHASED:
            self._check_phases()

    def _check_phases(self) -> None:
        """What bounds the sensitivity of a phase must hold, or every bound on its noise would be too small."""
        if not self.sampling.once:
            raise InputError(f"update {self.update!r} needs one-pass sampling: every phase has its own records.")
        if self.step_size is None or self.strong_convexity is None:
            raise InputError(f"update {self.update!r} needs step_size, and strong_convexity (0 for convex losses).")
        if self.update == "phased-erm":
            return
        longest = largest(self.step_size)
        if self.smoothness is None or longest * self.smoothness > 2:
            raise InputError(
                f"step_size {longest:g} exceeds 2/smoothness, or smoothness is not given: the steps of a phase are not contractions"
                ", so its noise protects nothing. State smoothness, lower step_size."
            )

    def __repr__(self) -> str:
        return shown(self)

    @property
    def epochs(self) -> float:
        """Expected passes over the data."""
        return self.steps / self.sampling.epoch_steps(self.n)

    @cached_property
    def table(self) -> StepTable:
        """The steps as arrays, equal neighbours in one row."""
        parts = self.step_size or 0.0, self.noise_multiplier, self.sampling.divisors(self.n)
        return StepTable.of(self.n, self.steps, self.clip_norm, parts)

    def part(self, first: int, last: int) -> Run:
        """Steps ``first`` to ``last``, the last one not included, as a run whose first epoch begins with them: ``first`` has to be
        a multiple of the epoch's length. Constants hold for more steps than the run has.
        """
        return self.replace(
            steps=last - first,
            sampling=self.sampling.part(first, last),
            noise_multiplier=part(self.noise_multiplier, first, last),
            step_size=None if self.step_size is None else part(self.step_size, first, last),
        )

    def replace(self, **changes: Any) -> Run:
        """A copy with the given fields changed, validated again."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. ``Run.from_dict(run.to_dict()) == run``, exactly. An l2 of 0, and rows as records, are left out."""
        data: dict[str, Any] = {"format": FORMAT}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in LEFT_OUT and value == LEFT_OUT[field.name]:
                continue
            data[field.name] = value.to_dict() if isinstance(value, Sampling) else plain(value)
        return data

    @classmethod
    def from_dict(cls, data: object) -> Run:
        """The run that ``to_dict`` wrote; raises ``InputError`` on missing or unknown fields and on other formats."""
        if not isinstance(data, dict):
            raise InputError("a run must be a JSON object.")
        values: dict[str, Any] = dict(data)
        if values.pop("format", None) != FORMAT:
            raise InputError(f"the run has format {data.get('format')!r}: this version reads format {FORMAT}.")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise InputError(f"the run has unknown fields {unknown}: expected only {sorted(known)}.")
        if missing := sorted({"n", "sampling", "steps", "noise_multiplier"} - set(values)):
            raise InputError(f"the run lacks the fields {missing}.")
        values["sampling"] = sampling_from_dict(values["sampling"])
        return cls(**values)

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text, keys sorted, numbers exact."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Run:
        """The run that ``to_json`` wrote."""
        try:
            data = strict_json(text)
        except InputError as error:
            raise InputError(f"the run is not JSON as expected: {error}") from None
        return cls.from_dict(data)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal: equal runs have equal digests, on every machine."""
        return digest_of(self.to_dict())

    @property
    def is_full_batch(self) -> bool:
        """Whether every step uses every record."""
        return self.sampling.full

    @property
    def is_last_iterate(self) -> bool:
        """Whether plain gradient steps are taken and only the last iterate is released, as last-iterate bounds want it."""
        return self.released == "last" and self.update == "sgd"

    @property
    def is_phased(self) -> bool:
        """Whether a step is a noiseless phase with noise on its result."""
        return self.update in PHASED
