"""Online noisy SGD: a step for every batch as it comes, for streams whose length nobody knows.

Every record is in one batch, and every noisy gradient may be seen. Whatever the number of batches, a record is hidden by the noise
of its own; so models can be published, stored and updated at any time, for the price of one step.

Source: parallel composition, docs/proofs/exact-composition.md; step sizes as in Feldman, Koren, Talwar 2020, Theorem 3.2, for any
number of steps.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.pnsgd import LARGEST
from dplateau.algorithms.problem import Budget, Problem
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, OnePass, Run, Training
from dplateau.spec.arguments import array_of
from dplateau.spec.assumption import OneBatch
from dplateau.training import SecureGenerator, TrainResult, train_one_pass
from dplateau.training.charged import Budgeted, OnPart

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OnlineSGD:
    """Where a stream of batches stands. All of it is released, hence accounted: it may be stored and continued at will.

    Step t takes ``eta_t = (50 sqrt(K) / R) / sqrt(sum over s <= t of G_s^2)``, at most ``2 / smoothness``, with the public bound
    ``G_s^2 = L^2 (1 + w z^2 / b_s^2)`` on the mean square of a noisy gradient of w weights. The model is the mean of the iterates,
    each weighted by the number of records so far.

    Attributes
    ----------
    step_run : Run
        One step on one record: the noise, the clip norm and the adjacency of all steps.
    loss : GeneralisedLinearLoss
        Loss of one record.
    distance, smoothness : float
        What the step sizes follow from.
    weights, mean : array of shape (d,) or (d, K)
        The last iterate, and the model.
    sizes : tuple of int
        The sizes of the batches so far.
    step_sizes : tuple of float
        Their step sizes.
    name : str
        A random name, where the batches are charged to a ledger: the partition whose parts they are.
    """

    step_run: Run
    loss: GeneralisedLinearLoss
    distance: float
    smoothness: float
    weights: Array
    mean: Array
    sizes: tuple[int, ...] = ()
    step_sizes: tuple[float, ...] = ()
    name: str = ""

    @property
    def run(self) -> Run:
        """All steps so far, as one run."""
        return self.step_run.replace(
            n=sum(self.sizes), sampling=OnePass(self.sizes), steps=len(self.sizes), step_size=self.step_sizes
        )

    def step(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        generator: SecureGenerator | None = None,
        ledger: Budgeted | None = None,
    ) -> tuple[OnlineSGD, TrainResult]:
        """Take in one batch of records that were in no batch before.

        Parameters
        ----------
        features : array of shape (b, d)
            Rows; private. Their number is public.
        target : array of shape (b,)
            Targets as the loss wants them; private.
        generator : SecureGenerator, optional
            Source of the noise; by default a new one with a key from the operating system.
        ledger : Account, optional
            The account of the data set, see ``dplateau.Ledger``: each batch is a part of its records, and reserved before its noise
            is drawn. So all batches together cost what one costs, and a batch that is taken in again costs again. Needs adjacency
            "add-remove".

        Returns
        -------
        (OnlineSGD, TrainResult)
            Where the stream stands now, and what was released of this step.

        Raises
        ------
        InputError, TrainingInterrupted, TrainingDiverged, BudgetError
            As ``dplateau.training.train``; or batches before this one were charged, and this one is not, or the other way round.
            The stream then stands where it stood.
        """
        if self.sizes and (ledger is None) == bool(self.name):
            raise InputError(
                "a stream is charged to a ledger from its first batch to its last: give it to all batches, or to none."
            )
        if ledger is not None and self.step_run.adjacency != "add-remove":
            raise InputError(
                "batches are charged as parts of the records, which a ledger keeps under add-remove only: use that, or no stream."
            )
        name = self.name if ledger is None else self.name or f"stream {secrets.token_hex(8)}"
        charged = None if ledger is None else OnPart(ledger, (name, f"batch {len(self.sizes) + 1}"))
        if not (size := array_of("target", target).size):
            raise InputError("the batch has no records: expected at least one.")
        sizes = (*self.sizes, size)
        z, clip = float(self.step_run.noise_multiplier), self.step_run.clip_norm  # type: ignore[arg-type]
        energy = float(np.sum(clip**2 * (1 + self.weights.size * (z / np.array(sizes, dtype=float)) ** 2)))
        step_size = min(self.distance / math.sqrt(energy), LARGEST / self.smoothness)
        run = self.step_run.replace(n=size, sampling=OnePass(size), step_size=step_size)
        result = train_one_pass(run, self.loss, [(features, target)], start=self.weights, generator=generator, ledger=charged)
        seen = np.cumsum(sizes)
        share = float(seen[-1] / seen.sum())
        moved: Any = result.weights
        after = replace(
            self,
            weights=moved,
            mean=(1 - share) * self.mean + share * moved,
            sizes=sizes,
            step_sizes=(*self.step_sizes, step_size),
            name=name,
        )
        held = (*result.assumptions, OneBatch())
        return after, replace(result, weights=after.mean, run=after.run, assumptions=held, training=Training.ONLINE)


@also_by_keywords("loss", n=1)
def start_online_sgd(problem: Problem, budget: Budget) -> OnlineSGD:
    """A stream before its first batch.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, without an l2 term, and what all batches together may cost. ``problem.n`` is not used: nobody has to know how
        many records will come.

    Raises
    ------
    InputError
        There is an l2 term, the loss is not smooth, or records are persons.
    """
    if problem.unit != "row":
        raise InputError(
            "batches of a stream are of rows: a person whose rows came in two batches would be two records. Use a fit."
        )
    if problem.largest_l2:
        raise InputError(f"l2 is {problem.largest_l2:g}: steps on a stream have no l2 term. Leave it out.")
    clip, smoothness = problem.contraction()
    run = Run(
        n=1,
        sampling=OnePass(1),
        steps=1,
        noise_multiplier=(1 + 1e-9) * budget.least_multiplier,
        clip_norm=clip,
        adjacency=budget.adjacency,
        released="all",
        update="post-processed",
    )
    zero = np.zeros(problem.loss.weights_shape(problem.d))
    return OnlineSGD(run, problem.loss, problem.distance, smoothness, zero, zero)
