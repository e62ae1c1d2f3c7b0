"""The audit: exact laws of bad instances against what the analyses say, on random runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np

from dplateau.accounting import Bound
from dplateau.analyses import ANALYSES, Analysis
from dplateau.audit.instance import Instance
from dplateau.audit.laws import Laws
from dplateau.audit.oracle import final_laws
from dplateau.audit.search import worst_instance
from dplateau.audit.settings import settings
from dplateau.spec import Run

DELTAS: Final = (1e-2, 1e-3, 1e-5, 1e-7)
"""Each run is searched at one of these, and then read at another one as well."""
_FAILURES: Final = (ArithmeticError, ValueError)
"""What a computation that goes wrong raises."""
_ORDERS: Final = (2.0, 8.0)
_RELATIVE: Final = 1e-5
"""A bound is broken only by more than this, ten times the accuracy that is asked of the exact laws ..."""
_ABSOLUTE: Final = 1e-9
"""... and this (epsilon and Renyi), or 1e-4 of this (delta)."""
_CLOSE: Final = 0.8
"""From this tightness on the search is continued."""
_LOOSE: Final = 0.2
"""Below this tightness a bound is read elsewhere in a quarter of the runs only: that takes most of the time."""


@dataclass(frozen=True)
class BoundVerdict:
    """One analysis on one run.

    Attributes
    ----------
    analysis, status : str
        Its name and the status of its bound.
    epsilon : float
        The upper end of its epsilon at the finding's delta.
    tightness : float or None
        The exact epsilon over it; None where both are 0.
    broken : str or None
        What the exact laws contradict, with the numbers; None where they agree.
    failed : str or None
        The error with which the analysis ended, if it did. That is a fault, though no false statement.
    """

    analysis: str
    status: str
    epsilon: float
    tightness: float | None
    broken: str | None
    failed: str | None = None


@dataclass(frozen=True)
class Finding:
    """One run, the worst instance that the search found, and what every applicable analysis says of it.

    Attributes
    ----------
    index : int
        Of the run in its stream.
    run, delta, instance : Run, float, Instance
        Enough to compute everything again.
    epsilon : float or None
        The exact epsilon of the instance at ``delta``; None where its laws could not be computed accurately.
    verdicts : tuple of BoundVerdict
        One for each analysis that applies; empty where there is no exact epsilon.
    """

    index: int
    run: Run
    delta: float
    instance: Instance
    epsilon: float | None
    verdicts: tuple[BoundVerdict, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; an infinite epsilon or tightness becomes null."""

        def finite(value: object) -> object:
            return None if isinstance(value, float) and not math.isfinite(value) else value

        verdicts = [{name: finite(value) for name, value in vars(verdict).items()} for verdict in self.verdicts]
        return {
            "index": self.index,
            "run": self.run.to_dict(),
            "delta": self.delta,
            "instance": self.instance.to_dict(),
            "epsilon": self.epsilon,
            "verdicts": verdicts,
        }


def audit(
    analyses: Sequence[Analysis] = ANALYSES, count: int | None = None, *, seed: int = 0, first: int = 0, tries: int = 12
) -> Iterator[Finding]:
    """Try to break ``analyses`` on random runs.

    Parameters
    ----------
    analyses : sequence of Analysis
        Which ones; each is asked wherever it applies.
    count : int, optional
        How many runs; endless by default.
    seed, first : int
        The stream of runs, and the index to begin at.
    tries : int, default 12
        Effort of the search on each run.

    Yields
    ------
    Finding
        In order of the index; equal arguments give equal findings.
    """
    for index, run in enumerate(islice(settings(seed, first), count), first):
        yield examine(run, analyses, index=index, seed=seed, tries=tries)


def examine(run: Run, analyses: Sequence[Analysis], *, index: int = 0, seed: int = 0, tries: int = 12) -> Finding:
    """Search the worst instance of one run, and hold every applicable analysis against it."""
    random = np.random.default_rng([seed, index, 2])
    delta, other = random.choice(DELTAS, 2, replace=False).tolist()
    instance = worst_instance(run, delta, tries=tries, seed=index)
    claims = [claim for analysis in analyses if (claim := _claim(analysis, run, delta)) is not None]
    try:
        laws = final_laws(run, instance)
        epsilon = laws.epsilon(delta)
        if epsilon > _CLOSE * min((verdict.epsilon for verdict, _ in claims), default=math.inf):
            instance = worst_instance(run, delta, tries=2 * tries, seed=index, best=instance)
            laws = final_laws(run, instance)
            epsilon = laws.epsilon(delta)
    except ArithmeticError:
        return Finding(index, run, delta, instance, None, ())
    verdicts: list[BoundVerdict] = []
    for verdict, bound in claims:
        if bound is not None:
            ratio = _ratio(epsilon, verdict.epsilon)
            broken = _contradicted(epsilon, verdict.epsilon, f"epsilon at delta {delta:g}")
            verdict = replace(verdict, tightness=ratio, broken=broken)
            if not broken and (index % 4 == 0 or (ratio or 0.0) > _LOOSE):
                verdict = _elsewhere(verdict, bound, laws, other, epsilon / 2)
        verdicts.append(verdict)
    return Finding(index, run, delta, instance, epsilon, tuple(verdicts))


def _claim(analysis: Analysis, run: Run, delta: float) -> tuple[BoundVerdict, Bound | None] | None:
    """What an analysis says at ``delta``, with its bound; no bound where it fails; None where it does not apply."""
    verdict = BoundVerdict(analysis.name, analysis.status.__name__, math.inf, None, None)
    try:
        bound = analysis.bound(run)
        return (replace(verdict, epsilon=bound.guarantee.epsilon(delta).upper), bound) if isinstance(bound, Bound) else None
    except _FAILURES as error:
        return replace(verdict, failed=f"{type(error).__name__}: {error}"), None


def _ratio(exact: float, said: float) -> float | None:
    if said == 0:
        return None if exact <= _ABSOLUTE else math.inf
    return exact / said


def _contradicted(exact: float, said: float, what: str, room: float = _ABSOLUTE) -> str | None:
    """How the exact value contradicts what was said, if it does (a NaN does)."""
    return None if exact * (1 - _RELATIVE) - room <= said else f"{what} is {exact!r}, the bound says {said!r}"


def _elsewhere(verdict: BoundVerdict, bound: Bound, laws: Laws, delta: float, epsilon: float) -> BoundVerdict:
    """The verdict after the bound was read at another delta too; mu-GDP is read in every privacy notion."""
    guarantee, mu = bound.guarantee, bound.guarantee.mu
    try:
        said = guarantee.epsilon(delta).upper, 1.0 if mu is None else guarantee.delta(epsilon).upper
    except _FAILURES as error:
        return replace(verdict, failed=f"{type(error).__name__}: {error}")
    broken = _contradicted(laws.epsilon(delta), said[0], f"epsilon at delta {delta:g}")
    broken = broken or _contradicted(laws.delta(epsilon), said[1], f"delta at epsilon {epsilon!r}", 1e-4 * _ABSOLUTE)
    for order in () if broken or mu is None else _ORDERS:
        try:
            exact = laws.renyi(order)
        except ArithmeticError:
            continue  # That order weighs tails that were not computed.
        broken = broken or _contradicted(exact, order * (mu or 0.0) ** 2 / 2, f"the Renyi divergence of order {order:g}")
    return replace(verdict, broken=broken)
