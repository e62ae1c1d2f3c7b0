"""All cases, by the name of what is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from dplateau.algorithms import SOLVERS
from dplateau.black_box.case import Case, Finding, examine
from dplateau.black_box.engine import engine_cases
from dplateau.black_box.estimators import estimator_cases, stream_cases
from dplateau.black_box.last_iterate import last_iterate_cases
from dplateau.black_box.solvers import loss_cases, solver_cases
from dplateau.spec import InputError
from dplateau.spec.arguments import one_of, real
from dplateau.training import SecureGenerator


def _network_cases() -> Iterator[Callable[[], Case]]:
    from dplateau.black_box.networks import network_cases  # what networks need takes time to load

    return network_cases()


GROUPS: Final[dict[str, Callable[[], Iterator[Callable[[], Case]]]]] = {
    **{solver: partial(solver_cases, solver) for solver in SOLVERS},
    "losses": loss_cases,
    "train": engine_cases,
    "last-iterate": last_iterate_cases,
    "streams": stream_cases,
    "networks": _network_cases,
    "estimators": estimator_cases,
}
"""What can be audited: every solver that estimators know, and what else trains."""


def audit_solvers(
    names: Sequence[str] | None = None,
    *,
    trainings: int = 1000,
    confidence: float = 0.9999,
    generator: SecureGenerator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Finding]:
    """Train solvers many times on the worst data known for each, and compare what can be proved with what is certified.

    Parameters
    ----------
    names : sequence of str, optional
        Keys of ``GROUPS``; by default all.
    trainings : int, default 1000
        Trainings on each of the two data sets of a case; at least 40.
    confidence : float, default 0.9999
        Probability that no right certificate is called wrong, in all cases together.
    generator : SecureGenerator, optional
        Source of all noise (estimators draw from one of their own); by default a new one with a key from the operating system.
    progress : callable, optional
        Called with the cases done and their number.

    Yields
    ------
    Finding
        One a case.
    """
    for name in names or ():
        one_of("solver", name, GROUPS)
    if real("confidence", confidence) >= 1:
        raise InputError(f"confidence is {confidence:g}: expected a number below 1; samples prove nothing with certainty.")
    cases = [case for name, made in GROUPS.items() if not names or name in names for case in made()]
    for done, case in enumerate(cases):
        if progress is not None:
            progress(done, len(cases))
        yield examine(case(), trainings, error=(1 - confidence) / len(cases), generator=generator)
    if progress is not None:
        progress(len(cases), len(cases))
