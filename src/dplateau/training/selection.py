"""``select``: train candidates by lot, and tell the best one only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.spec import Assumption, FullBatch, Generator, InputError, Run, Runs, Selection, Training
from dplateau.spec.arguments import of_type
from dplateau.spec.assumption import OnlyTheBest, PublicValidation
from dplateau.spec.runs import single_run
from dplateau.spec.schedule import constant
from dplateau.spec.trained import Trained
from dplateau.training.charged import Budgeted, charged
from dplateau.training.checks import check_helpers
from dplateau.training.cluster import Cluster
from dplateau.training.errors import TrainingDiverged, uninterrupted
from dplateau.training.noise import SecureGenerator
from dplateau.training.output_noise import output_noise
from dplateau.training.result import gradient_assumptions, trusted
from dplateau.training.shared import agree_on_call, charged_together, check_ledger, drawn_once, of_all

_FINEST: Final = 2.0**-20
"""What one record adds to a score is a whole number of this."""
_COARSEST: Final = 2.0**-4
_RAREST: Final = 1e-6
"""Candidates that are trained on average in one round of coins."""


@dataclass(frozen=True)
class SelectionResult:
    """The best of the candidates that were trained. ``make_certificate`` takes it.

    Attributes
    ----------
    best : TrainResult or NetworkResult
        Its result.
    index : int
        Its place among the candidates, from 0.
    score : float
        Its score: noisy, for one record, where it was computed from the records.
    run : Selection
        What was done.
    assumptions : tuple of Assumption
        What the guarantee rests on, whichever candidates were trained.
    """

    best: Trained
    index: int
    score: float
    run: Selection
    assumptions: tuple[Assumption, ...]

    @property
    def weights(self) -> Any:
        """What is released."""
        return self.best.weights

    @property
    def generator(self) -> Generator:
        """The source of randomness."""
        return self.best.generator

    @property
    def dtype(self) -> str:
        """Working precision."""
        return self.best.dtype

    @property
    def training(self) -> Training:
        """What kind of training the candidates are."""
        return self.best.training


def scored(run: Run, noise_multiplier: float) -> Runs:
    """A candidate whose score is computed from the records.

    Parameters
    ----------
    run : Run
        Its training.
    noise_multiplier : float
        Standard deviation of the noise on the score, which is a sum of one number from 0 to 1 for each record.
    """
    n = single_run(run).n
    score = Run(n=n, sampling=FullBatch(), steps=1, noise_multiplier=noise_multiplier, adjacency=run.adjacency, unit=run.unit)
    return Runs((run, score))


def select(
    selection: Selection,
    trainings: Sequence[Callable[[Run], Trained]],
    score: Callable[[Any], ArrayLike] | Sequence[Callable[[Any], ArrayLike]],
    *,
    public: str | None = None,
    assumptions: Sequence[Iterable[Assumption]] | None = None,
    generator: SecureGenerator | None = None,
    ledger: Budgeted | None = None,
    cluster: Cluster | None = None,
) -> SelectionResult:
    """Train candidates by lot, exactly as ``selection`` says, and return the one with the best score.

    Nothing of the others is kept. A training that diverges has the worst score. How long it all took tells how many candidates were
    trained: keep that to yourself.

    Parameters
    ----------
    selection : Selection
        What to do. Where scores are computed from the records, each candidate is ``scored(run, noise_multiplier)``.
    trainings : sequence of callables
        One for each candidate; called with its run, it trains, and returns a ``TrainResult`` or a ``NetworkResult``. It must touch
        the records in no other way, and reserve nothing in a ledger.
    score : callable, or a sequence with one for each candidate
        Called with such a result. It returns an array with a number from 0 to 1 for each record, more for better; each number may
        depend on that record and on the result alone. Or, with ``public``, one finite number.
    public : str, optional
        The public data that scores are computed on, in words, for the certificate.
    assumptions : sequence, optional
        What the guarantee of each training rests on. By default what that of any clipped gradients rests on, which is all for
        networks.
    generator : SecureGenerator, optional
        Source of the coins and of the noise of scores; by default a new one with a key from the operating system.
    ledger : Account, optional
        The account of the data set, see ``dplateau.Ledger``: what the selection costs is taken out of its budget before the first
        coin is tossed.
    cluster : Cluster, optional
        Several processes, all of which call this function. Each training is given the same cluster, and a score has the numbers of
        the own records. Process 0 tosses the coins, draws the noise of the scores, and has the public data.

    Raises
    ------
    InputError
        The arguments do not fit each other, or a training did not do what its run says.
    BudgetError
        The budget does not cover the selection. Nothing is drawn.
    TrainingInterrupted
        By the keyboard. Nothing is released.
    TrainingDiverged
        Every training did. Nothing is released.
    ProcessLost
        Another process of the cluster ended, or cannot be reached. Nothing is released.
    """
    of_type("selection", selection, Selection)
    check_helpers(generator, None)
    generator = SecureGenerator() if generator is None else generator
    runs, noises = zip(*(_parts(candidate, public) for candidate in selection.candidates), strict=True)
    processes = 1 if cluster is None else cluster.processes
    usual = [(*gradient_assumptions(run, generator), *trusted(processes)) for run in runs]
    given = usual if assumptions is None else assumptions
    scores = [score] * len(runs) if callable(score) else score
    if (hoped := len(runs) * selection.probability) < _RAREST:
        raise InputError(
            f"probability is {selection.probability:g}: the coins would be tossed some {1 / hoped:.1g} times until a candidate is "
            "trained. Raise it."
        )
    if not len(trainings) == len(scores) == len(given) == len(runs):
        raise InputError(f"there are {len(runs)} candidates: give as many trainings, and scores and assumptions if one for each.")
    rests = [tuple(one) for one in given]

    def work() -> tuple[float, int, Trained] | None:
        best: tuple[float, int, Trained] | None = None
        for index in drawn_once(cluster, lambda: _tried(selection, generator)).astype(int).tolist():
            try:
                result = trainings[index](runs[index])
            except TrainingDiverged:
                continue
            _check(result, runs[index], rests[index], generator)
            found = partial(scores[index], result)
            if public is None:
                value = _noisy(found, runs[index].n, noises[index], generator, cluster)
            else:
                value = float(drawn_once(cluster, partial(_number, found))[0])
            if best is None or value > best[0]:
                best = value, index, result
        return best

    if cluster is not None:
        agree_on_call(cluster, "select", selection)
        cluster.agree({"setting": repr((public, [[str(one) for one in rest] for rest in rests]))})
        check_ledger(cluster, ledger)
    with charged(ledger, selection) if cluster is None else charged_together(cluster, ledger, selection):
        best = uninterrupted(work, double=False)
    if best is None:
        raise TrainingDiverged("every training diverged: lower the step sizes. Nothing was released.")
    value, index, result = best
    held = _together(selection, rests, noises, public, generator)
    return SelectionResult(result, index, value, selection, held)


def _parts(candidate: Run | Runs, public: str | None) -> tuple[Run, float]:
    """A candidate's training, and the noise of its score; 0 where the score is public."""
    if public is not None:
        if isinstance(candidate, Run):
            return candidate, 0.0
        raise InputError("with public scores a candidate is one run: give that of its training.")
    run = candidate.runs[0] if isinstance(candidate, Runs) else candidate
    noise = candidate.runs[-1].noise_multiplier if isinstance(candidate, Runs) else 1.0
    if isinstance(noise, tuple) or candidate != scored(run, noise):
        raise InputError("a candidate is not a training and its score: make it by scored(run, noise_multiplier), or say public=.")
    return run, constant(noise)


def _tried(selection: Selection, generator: SecureGenerator) -> NDArray[np.int64]:
    """Which candidates are trained: at least one, in their order."""
    while True:
        found = generator.bernoulli_positions(len(selection.candidates), selection.probability)
        if found.size:
            return found


def _check(result: Trained, run: Run, rests: tuple[Assumption, ...], generator: SecureGenerator) -> None:
    """Raise unless a training did what its run says, and its guarantee rests on what was said before."""
    if result.run != run:
        raise InputError("a training carried out another run than its candidate's: nothing was released.")
    if result.generator != generator.source:
        raise InputError(f"a training drew from {result.generator}, the selection from {generator.source}: nothing was released.")
    if more := [one.name for one in result.assumptions if one not in rests]:
        raise InputError(f"a training also rests on {more[0]!r}: name it in assumptions. Nothing was released.")


def _noisy(
    found: Callable[[], ArrayLike], n: int, noise_multiplier: float, generator: SecureGenerator, cluster: Cluster | None = None
) -> float:
    """The mean of one number from 0 to 1 a record, with noise. What is not a number counts as 0."""
    noise = output_noise(noise_multiplier, float(n))
    unit = max(noise.spacing, _FINEST)
    if unit > _COARSEST:
        raise InputError(f"noise of {noise_multiplier:g} on a score is beyond double precision: use less.")

    def own() -> NDArray[np.int64]:
        """How many numbers there are, and their sum in units."""
        values = np.asarray(found(), dtype=np.float64)
        if values.ndim != 1 or len(values) > n:
            raise InputError(f"score returned an array of shape {values.shape}: expected one number for each of {n:,} records.")
        whole = np.floor(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) / unit).astype(np.int64)
        return np.array([len(values), whole.sum()])

    count, whole = of_all(cluster, own).tolist()
    if count > n:
        raise InputError(f"score returned {count:,} numbers in all processes: expected one for each of {n:,} records.")
    return float(drawn_once(cluster, lambda: noise.add(np.array(whole * unit), generator))[0]) / n


def _number(found: Callable[[], ArrayLike]) -> NDArray[np.float64]:
    value = np.asarray(found(), dtype=np.float64)
    if value.ndim or not math.isfinite(value):
        raise InputError("score returned no finite number: with public scores it must. Nothing was released.")
    return value


def _together(
    selection: Selection,
    rests: Sequence[Iterable[Assumption]],
    noises: Sequence[float],
    public: str | None,
    generator: SecureGenerator,
) -> tuple[Assumption, ...]:
    """What all candidates' guarantees rest on, their scores' and the selection's."""
    told = OnlyTheBest(candidates=len(selection.candidates), probability=selection.probability)
    mine = [told if generator.insecure else told.enforced()]
    if public is None:
        of_scores = gradient_assumptions(scored(selection.runs[0], noises[0]).runs[-1], generator)
    else:
        of_scores = [PublicValidation(data=public)]
    return tuple(dict.fromkeys(one for part in (*rests, of_scores, mine) for one in part))
