"""The steps of a run, as fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from dplateau.spec import Run
from dplateau.spec.schedule import Schedule, is_constant

MOST: Final = 1_000_000
"""So many batches of an epoch, or steps where they differ, are looked at one by one: that takes half a minute, and 1 GB."""

_NEVER: Final = 10**15
"""No run has more steps, or records."""


class Step(NamedTuple):
    """One step, or several equal ones in a row: step size (0 where none is stated), noise multiplier, public batch size."""

    size: Fraction
    noise: Fraction
    batch: Fraction
    count: int  # type: ignore[assignment]


def steps(run: Run) -> list[Step]:
    """The steps of a run, in order; one entry where all are alike. What is given for one epoch is repeated."""
    parts: tuple[Schedule, ...] = run.step_size or 0.0, run.noise_multiplier, run.sampling.divisors(run.n)
    if run.sampling.allocated:
        parts = (*parts[:2], 1.0)
    if is_constant(*parts):
        size, noise, batch = (Fraction(part) for part in parts)  # type: ignore[arg-type]
        found = [Step(size, noise, batch, run.steps)]
    else:
        known = {value: Fraction(value) for part in parts for value in (part if isinstance(part, tuple) else (part,))}
        rows = ([known[p[t % len(p)]] if isinstance(p, tuple) else known[p] for t in range(run.steps)] for p in parts)
        found = [Step(size, noise, batch, 1) for size, noise, batch in zip(*rows, strict=True)]
    if run.sampling.allocated:
        # The divisor is n over the number of batches, which need not be a double.
        found = [step._replace(batch=Fraction(run.n, run.sampling.epoch_length(run.n))) for step in found]
    return found


def too_long(run: Run, *, counted: bool = False) -> str | None:
    """Why there is too much to look at, if there is; with ``counted`` equal steps are only counted."""
    parts = run.step_size or 0.0, run.noise_multiplier, run.sampling.divisors(run.n)
    equal, rest = is_constant(*parts), run.sampling.remainder(run.n) and run.strong_convexity
    if max(run.n, run.steps) > _NEVER:
        return f"the run has {run.steps:.3g} steps on {run.n:.3g} records: at most {_NEVER:.0e} of either can be checked"
    if counted and equal:
        return None
    for count, what in (
        (run.sampling.epoch_length(run.n), "batches in an epoch"),
        (0 if equal and not rest else run.steps, "steps"),
    ):
        if count > MOST:
            return f"the run has {count:,} {what} to look at one by one: at most {MOST:,} can be checked"
    return None


def sensitivity(run: Run) -> int:
    """Of the sum of clipped gradients to one record, in units of the clip norm."""
    return 2 if run.adjacency == "replace" else 1
