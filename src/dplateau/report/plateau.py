"""How epsilon grows with the number of steps, and where it stops growing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from dplateau._account import checked_delta
from dplateau.accounting import NotApplicable
from dplateau.analyses import ANALYSES, Analysis
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer
from dplateau.spec.runs import single_run
from dplateau.spec.schedule import is_constant

POINTS: Final = 40
FLAT: Final = 0.01
"""On the plateau more steps cost at most this share more."""
_BEYOND: Final = 1_000
_MOST: Final = 10**8
"""So do this many times as many, up to such a number: where an epoch has many batches, the first epochs hardly cost anything."""


@dataclass(frozen=True)
class Line:
    """One analysis, over numbers of steps.

    Attributes
    ----------
    name, status : str
        The analysis, and how far it may be trusted.
    epsilons : tuple of float
        One for each number of steps: what certificates would use; infinite where the analysis does not apply.
    """

    name: str
    status: str
    epsilons: tuple[float, ...]

    @property
    def certifies(self) -> bool:
        """Whether the analysis is ``Proved``."""
        return self.status == "Proved"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None where there is no finite epsilon."""
        return {"name": self.name, "status": self.status, "epsilons": _finite(self.epsilons)}

    @property
    def drawn(self) -> list[int]:
        """Where the epsilon has a place on a logarithmic axis."""
        return [k for k, value in enumerate(self.epsilons) if 0 < value < math.inf]


@dataclass(frozen=True)
class Plateau:
    """What a run costs after any number of steps.

    Attributes
    ----------
    run : Run
        The run.
    delta : float
        The delta that every epsilon here belongs to.
    steps : tuple of int
        Numbers of steps, increasing.
    lines : tuple of Line
        The analyses that apply somewhere.
    beyond : float, optional
        The least proved epsilon after many more steps than the last of ``steps``, where a plateau would be seen without it.
    """

    run: Run
    delta: float
    steps: tuple[int, ...]
    lines: tuple[Line, ...]
    beyond: float | None = None

    @cached_property
    def certified(self) -> tuple[float, ...]:
        """The least proved epsilon after each number of steps; infinite where there is none."""
        proved = [line.epsilons for line in self.lines if line.certifies]
        return tuple(min(values) for values in zip(*proved, strict=True)) if proved else (math.inf,) * len(self.steps)

    @property
    def begins(self) -> int | None:
        """The first of ``steps`` from which on the certified epsilon stays within 1 % of its last value.

        None unless that holds over the last half of the range, at least, and ``beyond`` it.
        """
        last = self.certified[-1]
        if not math.isfinite(last) or (self.beyond is not None and abs(self.beyond - last) > FLAT * last):
            return None
        outside = [k for k, value in enumerate(self.certified) if abs(value - last) > FLAT * last]
        first = self.steps[outside[-1] + 1 if outside else 0]
        return first if 2 * first <= self.steps[-1] else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None where there is no finite epsilon."""
        return {
            "delta": self.delta,
            "begins": self.begins,
            "steps": list(self.steps),
            "certified": _finite(self.certified),
            "analyses": [line.to_dict() for line in self.lines],
            "run": self.run.to_dict(),
        }


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def plateau(run: Run, delta: float | None = None, steps: Sequence[int] | None = None, *, dominated: bool = False) -> Plateau:
    """Ask every analysis what ``run`` costs after each of many numbers of steps.

    Parameters
    ----------
    run : Run
        What is computed and released; its own number of steps only sets the default range.
    delta : float, optional
        In (0, 1), as for ``account``.
    steps : sequence of int, optional
        Numbers of steps; ``step_numbers(run)`` by default. A run with one value a step is cut to its first steps, so it has no
        more than its own.
    dominated : bool, default False
        Also ask the proved analyses that another one is never worse than.

    Raises
    ------
    InputError
        ``delta`` is not in (0, 1), or there are no such numbers of steps.

    Examples
    --------
    >>> import dplateau as dp
    >>> run = dp.Run(n=1_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=9.0, step_size=0.1, smoothness=1.0,
    ...              strong_convexity=0.5, released="last")
    >>> plateau(run, steps=[10, 100, 1_000]).begins
    100
    """
    delta = checked_delta(delta, single_run(run).n)
    numbers = step_numbers(run) if steps is None else tuple(sorted({integer("steps", number) for number in steps}))
    if not numbers:
        raise InputError("steps is empty: expected at least one number of steps.")
    runs = [first_steps(run, number) for number in numbers]
    asked = [a for a in ANALYSES if dominated or a.dominated_by is None or not a.status.certifies]
    lines = (Line(a.name, a.status.__name__, tuple(_epsilon(a, each, delta) for each in runs)) for a in asked)
    found = Plateau(run, delta, numbers, tuple(line for line in lines if min(line.epsilons) < math.inf))
    most = numbers[-1] if _scheduled(run) else min(_BEYOND * numbers[-1], _MOST, run.sampling.most_steps(run.n))
    if found.begins is None or most < 2 * numbers[-1]:
        return found
    further = first_steps(run, int(most // numbers[-1]) * numbers[-1])
    return replace(found, beyond=min(_epsilon(a, further, delta) for a in asked if a.status.certifies))


def _epsilon(analysis: Analysis, run: Run, delta: float) -> float:
    bound = analysis.bound(run)
    return math.inf if isinstance(bound, NotApplicable) else bound.guarantee.epsilon(delta).upper


def step_numbers(run: Run, to: int | None = None) -> tuple[int, ...]:
    """About 40 numbers of steps up to ``to``, evenly spaced in the logarithm; whole epochs where the order has any.

    By default up to four times the run's own steps, or as many as it can have.
    """
    if to is not None:
        most = integer("to", to)
    elif _scheduled(run):
        most = run.steps
    else:
        most = int(min(4 * run.steps, run.sampling.most_steps(run.n)))
    unit = run.sampling.epoch_length(run.n)
    unit = unit if unit <= most else 1
    numbers = {unit * round(count) for count in np.geomspace(1, float(most // unit), POINTS)}
    return tuple(sorted(numbers | ({run.steps} if run.steps <= most and run.steps % unit == 0 else set())))


def _scheduled(run: Run) -> list[str]:
    """What is given step by step."""
    names = [name for name in ("noise_multiplier", "step_size") if not is_constant(getattr(run, name))]
    return names + ["batch_size"] * run.sampling.by_step


def first_steps(run: Run, steps: int) -> Run:
    """The run with so many steps; the first ones, where it has one value a step."""
    scheduled = _scheduled(run)
    if scheduled and steps > run.steps:
        raise InputError(
            f"{steps} steps are asked for, but {' and '.join(scheduled)} has one value for each of the run's {run.steps} steps: "
            f"ask for at most {run.steps}, or give one number in place of the sequence."
        )
    return run.part(0, steps)
