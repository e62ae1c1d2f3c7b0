"""``Algorithm``, what every plan can do, and ``Solver``, an algorithm as the registry knows it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypedDict

from dplateau.spec import AccuracyWarning, InputError
from dplateau.spec.missing import explained

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dplateau.algorithms.problem import Budget, Problem
    from dplateau.losses import GeneralisedLinearLoss
    from dplateau.spec import Run
    from dplateau.training import Cluster, SecureGenerator, TrainResult
    from dplateau.training.records import Blocks

FEW: Final = 10.0
"""Where the noise that hides one record is as large as a tenth of all records or more, little can be learnt by any method."""


class FitOptions(TypedDict, total=False):
    """What a training is told besides its records: whose each row is, where noise comes from, and who follows its progress."""

    groups: ArrayLike | None
    generator: SecureGenerator | None
    progress: Callable[[int, int], None] | None


class StreamOptions(TypedDict, total=False):
    """The same for records that are read in pieces, by several processes if there is a cluster; this one has ``own`` of them."""

    generator: SecureGenerator | None
    progress: Callable[[int, int], None] | None
    cluster: Cluster | None
    own: int | None


class Algorithm(Protocol):
    """A plan: everything about a training run except the records."""

    progress_unit: ClassVar[str]
    """What ``progress`` counts."""

    @property
    def run(self) -> Run:
        """What it computes and releases."""
        ...

    @property
    def loss(self) -> GeneralisedLinearLoss:
        """Loss of one record."""
        ...

    def check_arithmetic(self, d: int) -> None:
        """Raise ``TooCoarse`` where it cannot be carried out on d features because of rounding, as far as public numbers tell."""
        ...

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        generator: SecureGenerator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry it out on records; where these are persons, ``groups`` say whose each row is."""
        ...


class StreamAlgorithm(Algorithm, Protocol):
    """A plan for records that need not fit in memory."""

    def fit_stream(
        self,
        read: Callable[[], Blocks],
        *,
        generator: SecureGenerator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry it out on blocks of records; ``read()`` begins anew with the first. ``progress`` counts records."""
        ...


@dataclass(frozen=True)
class Solver:
    """An algorithm by name: how it is planned, and what has to be known before.

    Attributes
    ----------
    name, title : str
        As users write it, and in words.
    planner : str
        The file of ``dplateau.algorithms`` and the function there that plans it: "noisy_sgd.plan_noisy_sgd".
    options : mapping of str to Any
        What that function is told besides the problem and the budget.
    needs_l2, refuses_l2 : bool
        Whether its objective must, or must not, have an l2 term.
    takes_steps : bool
        Whether one can choose the number of steps.
    one_pass : bool
        Whether it reads every record once, in blocks.
    allocates : bool
        Whether it can read records several times, in blocks, by random allocation: its planner takes ``stream``.
    shares : bool
        Whether it trains on the rows of several processes: its ``fit`` takes a ``cluster``, and its ``fit_stream``, if it has one,
        also how many rows are this process's ``own``.
    takes_dtype : bool
        Whether its ``fit`` takes the ``dtype`` of the weights, "float32" by default; the others return doubles.
    """

    name: str
    title: str
    planner: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    needs_l2: bool = False
    refuses_l2: bool = False
    takes_steps: bool = False
    one_pass: bool = False
    allocates: bool = False
    shares: bool = False
    takes_dtype: bool = False

    @property
    def make(self) -> Callable[..., Algorithm]:
        """``make(problem, budget)`` plans it. The algorithm's file is imported here."""
        file, _, function = self.planner.partition(".")
        with explained():
            found = getattr(import_module(f"dplateau.algorithms.{file}"), function)
        return partial(found, **self.options) if self.options else found

    def plan(self, problem: Problem, budget: Budget, *, steps: int = 400) -> Algorithm:
        """The plan, with ``steps`` steps where they can be chosen; an error where the l2 term does not fit."""
        return self._planned(problem, budget, steps)

    def plan_stream(self, problem: Problem, budget: Budget, *, steps: int = 400) -> StreamAlgorithm:
        """As ``plan``, for records that need not fit in memory; an error where all of them are needed at once."""
        if not (self.one_pass or self.allocates):
            raise InputError(
                f"solver {self.name!r} for {type(problem.loss).__name__} loss needs all records in memory: for a stream use auto, "
                "noisy-sgd, pnsgd or a snowball, and a smooth loss."
            )
        return self._planned(problem, budget, steps, **({"stream": True} if self.allocates else {}))

    def _planned(self, problem: Problem, budget: Budget, steps: int, **options: Any) -> Any:
        if self.needs_l2 and not problem.largest_l2:
            raise InputError(
                f"solver {self.name!r} is for strongly convex objectives: give l2 > 0, for example 0.01, or choose another solver."
            )
        if self.refuses_l2 and problem.largest_l2:
            raise InputError(
                f"solver {self.name!r} is for objectives without an l2 term: leave out l2, or choose {self.name}-strong."
            )
        _warn_of_noise(problem, budget)
        return self.make(problem, budget, **({"steps": steps} if self.takes_steps else {}), **options)


def _warn_of_noise(problem: Problem, budget: Budget) -> None:
    """Say, before anything is spent, where no method can learn much."""
    alike = 1 / budget.mu  # the noise on a sum to which each record adds as much as it may
    if problem.n < FEW * alike:
        unit = problem.unit
        message = (
            f"few {unit}s for epsilon {budget.epsilon:g}: there are {problem.n:,}, and the noise that hides one is as large as"
            f" {alike:,.0f} that agree. A model may be no better than the largest class, or the mean. More {unit}s, or a larger"
            " epsilon, would help."
        )
        warnings.warn(message, AccuracyWarning, stacklevel=4)
