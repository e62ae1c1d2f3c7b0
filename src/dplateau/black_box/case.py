"""``Case``: one solver on one pair of data sets; and ``examine``, which trains it many times and holds it to its certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau._account import account
from dplateau.audit.separation import Separation, checked_error, curve_of, separate
from dplateau.black_box.neighbours import Neighbours
from dplateau.black_box.scores import Releases, Score, along, scored
from dplateau.spec import InputError, PrivacyWarning, Run
from dplateau.spec.arguments import integer, of_type
from dplateau.training import SecureGenerator, TrainingDiverged

Trainer = Callable[[Any, Any, SecureGenerator], NDArray[Any]]
"""From features, target and a source of randomness to what is released."""

DELTA: Final = 1e-5
LEARN, CHOOSE = 0.25, 0.5
"""Up to the one share of the releases scores are learnt, up to the other an event is chosen; on the rest it is counted."""
FEWEST: Final = 40


@dataclass(frozen=True, eq=False)
class Case:
    """One solver on one pair of neighbouring data sets.

    Attributes
    ----------
    solver : str
        What is trained.
    neighbours : Neighbours
        On what.
    run : Run
        What it says that it computes and releases: this is certified.
    train : callable
        What it does.
    scores : dict of str to Score
        Scores beside those that every case has: a likelihood ratio that is known, say.
    times : int, default 1
        How many times more trainings than others the case needs, because what it is to find is small.
    """

    solver: str
    neighbours: Neighbours
    run: Run
    train: Trainer
    scores: dict[str, Score] = field(default_factory=dict[str, Score])
    times: int = 1

    @property
    def name(self) -> str:
        """Solver and data."""
        return f"{self.solver}: {self.neighbours.name}"


@dataclass(frozen=True)
class Finding:
    """What training a case many times showed.

    Attributes
    ----------
    solver, data : str
        The case.
    delta, epsilon : float
        What is certified.
    trainings : int
        On each of the two data sets.
    found : Separation or None
        What is proved about the releases; None where the solver refused both data sets.
    refused : str or None
        The error with which it did.
    """

    solver: str
    data: str
    delta: float
    epsilon: float
    trainings: int
    found: Separation | None
    refused: str | None = None

    @property
    def wrong(self) -> bool:
        """Whether the certificate is refuted."""
        return self.found is not None and (self.found.epsilon > self.epsilon or self.found.below_curve)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = self.found
        return {
            "solver": self.solver,
            "data": self.data,
            "delta": self.delta,
            "certified_epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "trainings": self.trainings,
            "refused": self.refused,
            "epsilon_at_least": None if found is None else found.epsilon,
            "shown_by": None if found is None else found.by,
            "mu_at_least": None if found is None else found.mu,
            "mu_allowed": None if found is None else found.allowed_mu,
            "separated_by": None if found is None else found.separated_by,
            "wrong": self.wrong,
        }


def examine(
    case: Case,
    trainings: int,
    *,
    error: float,
    delta: float = DELTA,
    generator: SecureGenerator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Finding:
    """Train a case many times on each of its data sets, and compare what can be proved with the certificate.

    Parameters
    ----------
    case : Case
        The solver and the data.
    trainings : int
        On each data set, at least 40; ``case.times`` times as many where a case needs more.
    error : float
        Probability with which a right certificate may be called wrong.
    delta : float, default 1e-5
        Of the epsilons that are compared. The whole trade-off function is compared too.
    generator : SecureGenerator, optional
        Source of all noise; by default a new one with a key from the operating system.
    progress : callable, optional
        Called with the trainings done and their total.

    Notes
    -----
    Each training gets a copy of the data, and what it releases is copied. A training that diverges, or refuses its data, releases
    nothing; a case is refused if the first trainings on both data sets are.
    """
    error = checked_error(error)
    trainings = integer("trainings", trainings, low=FEWEST) * of_type("case", case, Case).times
    generator = SecureGenerator() if generator is None else generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # delta is above 1/n for some of the data sets; nobody is protected here
        report = account(case.run, delta)
    best = report.best.bound if report.best is not None else None
    if best is None:
        raise InputError(f"{case.name} has no finite certificate: there is nothing to compare with.")
    common = (case.solver, case.neighbours.name, delta, report.epsilon, trainings)
    learnt, chosen = int(LEARN * trainings), int(CHOOSE * trainings)
    releases = _releases(case, trainings, learnt, generator, progress)
    if isinstance(releases, InputError):
        return Finding(*common, None, str(releases))
    learn, choose, confirm = map(releases.part, (slice(0, learnt), slice(learnt, chosen), slice(chosen, trainings)))
    known = {"record's direction": along(case.neighbours.direction), **case.scores}
    first, second = scored(learn, [choose, confirm], known)
    curve = curve_of(best.guarantee)
    return Finding(*common, separate(first, second, delta=delta, curve=curve, error=error))


def _releases(
    case: Case, trainings: int, learnt: int, generator: SecureGenerator, progress: Callable[[int, int], None] | None
) -> Releases | InputError:
    """What was released, first with the record and then without it, in turn; or the error with which both are refused."""
    sides = case.neighbours.present, case.neighbours.absent
    found: tuple[list[NDArray[Any]], list[NDArray[Any]]] = ([], [])
    for k in range(trainings):
        if progress is not None:
            progress(2 * k, 2 * trainings)
        refused: list[InputError] = []
        for side, released in zip(sides, found, strict=True):
            result = _trained(case, side, generator)
            if isinstance(result, InputError):
                refused.append(result)
            released.append(np.zeros(0) if isinstance(result, Exception) else _numbers(case, result))
        if k == 0 and len(refused) == len(sides):
            return refused[0]
    if progress is not None:
        progress(2 * trainings, 2 * trainings)
    # How many numbers a release has is learnt too: whatever has another number of them counts as nothing.
    lengths = [len(release) for side in found for release in side[:learnt]]
    width = max(lengths) or case.neighbours.features.shape[1]
    dtype = next((release.dtype for side in found for release in side if len(release) == width), np.dtype(np.float64))
    present, absent = (
        np.stack([release if len(release) == width else np.full(width, np.nan, dtype) for release in side]) for side in found
    )
    return Releases(present, absent)


def _trained(case: Case, side: tuple[Any, Any], generator: SecureGenerator) -> Any:
    """What one training returns, or the error with which it releases nothing. It may write into its data."""
    try:
        return case.train(*deepcopy(side), generator)
    except (TrainingDiverged, InputError) as error:
        return error


def _numbers(case: Case, released: Any) -> NDArray[Any]:
    """One release, flat. It is copied: a solver may write the next one into the same memory."""
    numbers = np.array(released).ravel()
    if numbers.dtype.kind not in "fiub":
        raise InputError(f"{case.name} releases an array of {numbers.dtype}: expected real numbers.")
    return numbers if numbers.dtype.name in {"float32", "float64"} else numbers.astype(np.float64)
