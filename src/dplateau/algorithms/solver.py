"""``Algorithm``, what every plan can do, and ``Solver``, an algorithm as the registry knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from numpy.typing import ArrayLike

from dplateau.algorithms.problem import Budget, Problem
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.training import SecureGenerator, TrainResult


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

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        generator: SecureGenerator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry it out on records."""
        ...


@dataclass(frozen=True)
class Solver:
    """An algorithm by name: how it is planned, and what has to be known before.

    Attributes
    ----------
    name, title : str
        As users write it, and in words.
    make : callable
        ``make(problem, budget)`` plans it.
    needs_l2, refuses_l2 : bool
        Whether its objective must, or must not, have an l2 term.
    takes_steps : bool
        Whether one can choose the number of steps.
    one_pass : bool
        Whether it reads every record once, in blocks.
    takes_dtype : bool
        Whether its ``fit`` takes the ``dtype`` of the weights, "float32" by default; the others return doubles.
    """

    name: str
    title: str
    make: Callable[..., Algorithm]
    needs_l2: bool = False
    refuses_l2: bool = False
    takes_steps: bool = False
    one_pass: bool = False
    takes_dtype: bool = False

    def plan(self, problem: Problem, budget: Budget, *, steps: int = 400) -> Algorithm:
        """The plan, with ``steps`` steps where they can be chosen; an error where the l2 term does not fit."""
        if self.needs_l2 and not problem.largest_l2:
            raise InputError(f"solver {self.name!r} is for strongly convex objectives: give l2 > 0, or choose another solver.")
        if self.refuses_l2 and problem.largest_l2:
            raise InputError(
                f"solver {self.name!r} is for objectives without an l2 term: leave out l2, or choose {self.name}-strong."
            )
        return self.make(problem, budget, steps=steps) if self.takes_steps else self.make(problem, budget)
