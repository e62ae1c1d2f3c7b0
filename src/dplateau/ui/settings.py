"""What the sliders of the planner page say: public facts, a way to train, and what may be assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from dplateau.spec import (
    ADJACENCIES,
    SAMPLINGS,
    Cyclic,
    FixedSize,
    FullBatch,
    InputError,
    OnePass,
    Poisson,
    RandomAllocation,
    Run,
    Sampling,
    Shuffled,
)
from dplateau.spec.promise import WEAK

LIPSCHITZ: Final = 1.0
"""Of the logistic loss on rows of norm at most 1: ``dplateau.losses.Logistic().lipschitz(1)``, without loading JAX."""
SMOOTHNESS: Final = 0.25
"""The same of ``smoothness(1)``."""
RISK_AT_START: Final = math.log(2)
"""The logistic loss of every row at zero weights."""
SCHEMES: Final = tuple(one.kind for one in (FullBatch, Cyclic, Shuffled, OnePass, FixedSize, RandomAllocation, Poisson))
MOST_STEPS: Final = 10**7
MOST_SHUFFLED: Final = 20_000
"""Most shuffled batches of an epoch: their bound looks at the places in one."""
MOST_DRAWN: Final = 500_000
"""Most steps of random batches of which a last-iterate bound is asked."""
MOST_RARE: Final = 1_000
"""Most of their batches an epoch."""
MOST_COST: Final = WEAK
"""Most epsilon, which also promises little."""


@dataclass(frozen=True)
class Number:
    """A number of the page: its name, the range that is accepted, and the decades that the slider covers."""

    name: str
    low: float
    high: float
    whole: bool = False
    slider: tuple[float, float] | None = None

    @property
    def reach(self) -> tuple[float, float]:
        """The ends of the slider."""
        return self.slider or (self.low, self.high)

    def read(self, text: str) -> float:
        """The number in ``text``; raises ``InputError`` with a message that names no field."""
        try:
            value = float(text)
        except ValueError:
            raise InputError("this is not a number.") from None
        if not self.low <= value <= self.high:  # also where it is NaN
            raise InputError(f"expected a number from {self.low:,.6g} to {self.high:,.6g}.")
        if self.whole and value != math.floor(value):
            raise InputError("expected a whole number.")
        return int(value) if self.whole else value


NUMBERS: Final = {
    number.name: number
    for number in (
        Number("n", 10, 10**8, whole=True),
        Number("d", 1, 10**6, whole=True),
        Number("epsilon", 0.01, 100),
        Number("delta", 1e-15, 0.1, slider=(1e-12, 1e-2)),
        Number("batch", 1, 10**8, whole=True, slider=(1, 10**6)),
        Number("epochs", 0.001, 10**7, slider=(1, 10**5)),
        Number("l2", 1e-8, 1, slider=(1e-6, 1)),
        Number("radius", 0.01, 10**4, slider=(0.1, 1000)),
        Number("step", 1e-6, 0.99, slider=(1e-4, 0.99)),
    )
}
CHOICES: Final = {"adjacency": ADJACENCIES, "sampling": SCHEMES}


class SettingsError(InputError):
    """Some fields are not what was expected; ``fields`` has a message for each."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        self.fields = dict(messages)
        super().__init__("; ".join(f"{name}: {message}" for name, message in self.fields.items()))


@dataclass(frozen=True)
class Settings:
    """What the page asks.

    Attributes
    ----------
    n, d : int
        Rows, and weights: features, an intercept is one.
    epsilon, delta : float
        What the release may cost.
    adjacency : {"add-remove", "replace"}
        What neighbouring data sets are; see ``Run``.
    sampling : {"full", "cyclic", "shuffled", "one-pass", "fixed-size", "random-allocation", "poisson"}
        How the rows of a step are chosen.
    batch : int
        Batch size; not used for full batches.
    epochs : float
        Passes over the data; for full batches the number of steps. Not used for one pass.
    last : bool
        Only the last iterate is released.
    convex : bool
        The loss is convex and smooth: logistic, on rows of norm at most 1. Otherwise nothing is assumed of it.
    shrunk : bool
        There is an l2 term, with the coefficient ``l2``.
    l2 : float
        Coefficient of ``|w|^2 / 2``.
    ball : bool
        Iterates are projected on the ball of ``radius``.
    radius : float
        Of the ball, and of the weights that a model is compared with.
    inside : bool
        The best weights of all have at most this norm. Privacy never rests on it.
    automatic : bool
        The step size is chosen by the page.
    step : float
        The step size, in units of 2/smoothness, where it is not.
    """

    n: int = 60_000
    d: int = 100
    epsilon: float = 1.0
    delta: float = 1e-6
    adjacency: str = "add-remove"
    sampling: str = FullBatch.kind
    batch: int = 600
    epochs: float = 2000.0
    last: bool = True
    convex: bool = True
    shrunk: bool = True
    l2: float = 0.003
    ball: bool = False
    radius: float = 10.0
    inside: bool = False
    automatic: bool = True
    step: float = 0.5

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Settings:
        """The settings in a query; what is left out has its default.

        Raises
        ------
        SettingsError
            With a message for every field that is wrong.
        """
        known = {field.name: field.default for field in fields(cls)}
        values: dict[str, Any] = {}
        wrong = {name: "there is no such field." for name in query if name not in known}
        for name in query.keys() & known.keys():
            text = query[name]
            try:
                if name in NUMBERS:
                    values[name] = NUMBERS[name].read(text)
                elif text not in (allowed := CHOICES.get(name, ("0", "1"))):
                    raise InputError(f"expected one of {', '.join(allowed)}.")
                else:
                    values[name] = text if name in CHOICES else text == "1"
            except InputError as error:
                wrong[name] = str(error)
        if wrong:
            raise SettingsError(wrong)
        found = cls(**values)
        found._check()
        return found

    @property
    def scheme(self) -> Sampling:
        """How the rows of a step are chosen."""
        kind = SAMPLINGS[self.sampling]
        return FullBatch() if kind is FullBatch else kind(batch_size=self.batch)  # type: ignore[call-arg]

    def _check(self) -> None:
        """What no field can tell alone."""
        if not self.scheme.full and self.batch > self.n:
            raise SettingsError({"batch": f"a batch has at most n = {self.n:,} rows: lower it, or raise n."})
        if self.scheme.shuffled and self.batches_an_epoch > MOST_SHUFFLED:
            least = -(-self.n // MOST_SHUFFLED)
            message = (
                f"that is {self.batches_an_epoch:,.0f} shuffled batches an epoch, this page goes to {MOST_SHUFFLED:,}: take "
                f"batches of at least {least:,}, or dplateau calibrate, which takes any."
            )
            raise SettingsError({"batch": message})
        steps = self.passes * self.batches_an_epoch
        if steps < 0.5:
            least = 0.5 / self.batches_an_epoch
            raise SettingsError({"epochs": f"that is not one step: at least {least:.3g} epochs, or smaller batches."})
        if steps > MOST_STEPS + 0.5:
            message = f"that is {steps:,.3g} steps, this page goes to {MOST_STEPS:,}: fewer epochs or larger batches."
            raise SettingsError({"epochs": message})

    def to_query(self) -> dict[str, str]:
        """The query that ``parse`` reads."""
        return {
            name: str(int(value)) if isinstance(value, bool) else value if isinstance(value, str) else f"{value:.12g}"
            for name, value in asdict(self).items()
        }

    @property
    def batches_an_epoch(self) -> float:
        """Steps of one pass; with a fixed or a shuffled order only whole batches count."""
        partitions = self.scheme.ordered or self.scheme.shuffled
        return self.n // self.batch if partitions else self.scheme.epoch_steps(self.n)

    @property
    def rows(self) -> int:
        """The rows of the run: in epochs of a fixed or a shuffled order those that do not fill a batch are left out."""
        epochs = (self.scheme.ordered and not self.scheme.once) or self.scheme.shuffled
        return int(self.batches_an_epoch) * self.batch if epochs else self.n

    @property
    def passes(self) -> float:
        """Passes over the data."""
        return 1.0 if self.scheme.once else self.epochs

    @property
    def steps(self) -> int:
        """Number of gradient steps."""
        return max(1, round(self.passes * self.batches_an_epoch))

    @property
    def size(self) -> float:
        """What the sum of a step's gradients is divided by."""
        return float(self.scheme.divisors(self.rows))  # type: ignore[arg-type]

    @property
    def strong_convexity(self) -> float:
        """The l2 coefficient, 0 without one."""
        return self.l2 if self.shrunk else 0.0

    @property
    def smoothness(self) -> float:
        """Of the loss with its l2 term."""
        return SMOOTHNESS + self.strong_convexity

    @property
    def counts_on_last(self) -> bool:
        """Whether a last-iterate bound is asked."""
        return self.last and self.convex and not self.last_takes_long

    @property
    def by_lot(self) -> bool:
        """Whether lots decide which rows are in a step: such bounds have no closed form."""
        return self.scheme.drawn or self.scheme.allocated

    @property
    def takes_long(self) -> bool:
        """Whether the certified noise may take longer than a tenth of a second."""
        few = isinstance(self.scheme, FixedSize) or self.batches_an_epoch > MOST_RARE
        return self.by_lot and (self.counts_on_last or self.scheme.allocated or few)

    @property
    def last_takes_long(self) -> bool:
        """Whether a last-iterate bound would take seconds: that of many random batches, or of replacement in allocated ones."""
        many = self.steps > MOST_DRAWN or self.batches_an_epoch > MOST_RARE or self.epsilon > MOST_COST
        return self.by_lot and (many or (self.scheme.allocated and self.adjacency == "replace"))

    def without(self, **changes: Any) -> Settings:
        """The same with other assumptions."""
        return replace(self, **changes)

    def run(self, step_size: float, noise_multiplier: float = 1.0) -> Run:
        """What would be computed and released."""
        last = self.counts_on_last
        return Run(
            n=self.rows,
            sampling=self.scheme,
            steps=self.steps,
            noise_multiplier=noise_multiplier,
            clip_norm=LIPSCHITZ,
            step_size=step_size if self.convex else None,
            smoothness=self.smoothness if last else None,
            strong_convexity=self.strong_convexity if last else None,
            l2=self.strong_convexity if last else 0.0,
            diameter=2 * self.radius if last and self.ball else None,
            adjacency=self.adjacency,
            released="last" if last else "all",
        )


PRESETS: Final = {
    "table": ("A table", "logistic regression, many passes", Settings()),
    "network": (
        "A network",
        "Poisson batches, every step released",
        Settings(d=10_000, epsilon=3.0, sampling=Poisson.kind, batch=512, epochs=30.0, last=False, convex=False, shrunk=False),
    ),
    "one-pass": (
        "One pass over a large file",
        "every row once, in its order",
        Settings(n=5_000_000, d=50, delta=1e-8, sampling=OnePass.kind, batch=5_000, epochs=1.0, shrunk=False, radius=5.0),
    ),
}
"""Plans that the training loops carry out: their names, what they are, the settings."""
