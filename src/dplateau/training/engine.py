"""``train``: fulfil a ``Run`` on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Run
from dplateau.training.charged import Budgeted, charged
from dplateau.training.checks import check_is_run, checked_data, records_of
from dplateau.training.chunks import chunks, in_chunks
from dplateau.training.cluster import Cluster
from dplateau.training.errors import uninterrupted
from dplateau.training.integers import block_of, encode, room_of
from dplateau.training.loop import Chunk, How, State, run_chunk
from dplateau.training.noise import SecureGenerator
from dplateau.training.one_pass import in_passes
from dplateau.training.options import Begun, Options
from dplateau.training.person_records import kind_of
from dplateau.training.persons import block_of_persons, persons_of
from dplateau.training.records import Steps
from dplateau.training.result import TrainResult, result_of
from dplateau.training.shared import of_several, train_shared


def train(
    run: Run,
    loss: GeneralisedLinearLoss,
    features: ArrayLike,
    target: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    l2: float | Sequence[float] | NDArray[np.float64] = 0.0,
    generator: SecureGenerator | None = None,
    dtype: str = "float32",
    momentum: float = 0.0,
    average: float = 0.0,
    start: ArrayLike | None = None,
    keep_iterates: bool = False,
    progress: Callable[[int, int], None] | None = None,
    ledger: Budgeted | None = None,
    cluster: Cluster | None = None,
) -> TrainResult:
    """Train a generalised linear model by noisy gradient steps, exactly as ``run`` says.

    Step t draws its batch, sums the clipped gradients, adds the noise, divides by the *public* batch size, adds ``l2 * weights``
    (which no record influences, so it is not clipped), takes the step and projects on the ball of the run's diameter around
    zero. Sum and noise are whole numbers of a public unit, so what a record adds has the clip norm exactly, whatever stands around
    it (see ``dplateau.training.integers``). Rows enter with 20 bits of their largest entry.

    Parameters
    ----------
    run : Run
        What to compute and release; ``step_size`` is needed.
    loss : GeneralisedLinearLoss
        Loss of one example.
    features : array of shape (n, d)
        Rows; private. Append a column of ones for an intercept.
    target : array of shape (n,)
        Targets as the loss wants them; private.
    groups : array of shape (rows,), optional
        For a run with ``unit="person"``: whose each row is, a text or a whole number. A record is then a person, of whom there are
        ``run.n``, with any number of rows in any places: a person's loss is the mean of the losses of these rows, each clipped.
        Where the order of records counts, the rows of a person must follow one another, in an order of persons that is public.
    l2 : float or sequence of d floats, default 0.0
        Coefficient of ``|weights|^2 / 2``, one for all features or one each (0 for an intercept that is not to be shrunk).
    generator : SecureGenerator, optional
        Source of batches and noise; by default a new one with a key from the operating system.
    dtype : {"float32", "float64"}, default "float32"
        Type of the weights that are returned; the steps themselves are in double precision.
    momentum : float, default 0.0
        Heavy-ball momentum, below 1. Needs a run with ``update="post-processed"``.
    average : float, default 0.0
        Fraction of the iterates, counted from the end, whose mean is returned (1: all, after Polyak). Needs a run with
        ``update="post-processed"``: no last-iterate bound covers an average.
    start : array of shape (d,) or (d, K), optional
        First iterate; public. Zero by default.
    keep_iterates : bool, default False
        Whether to return all iterates. Needs a run with ``released="all"``.
    progress : callable, optional
        Called with the steps (under one-pass sampling: the records) done and their total; see ``dplateau.training.progress_bar``.
    ledger : Account, optional
        The account of the data set, see ``dplateau.Ledger``: what the run costs is taken out of its budget before the first random
        number is drawn.
    cluster : Cluster, optional
        Several devices or processes to train on, see ``Cluster``. Each process calls ``train`` with records of its own, and gets
        the same result. All rows of a person must be in one process: labels are compared.

    Raises
    ------
    InputError
        The arguments do not fit each other, or the run states a smoothness or convexity that the rows do not have.
    BudgetError
        The budget does not cover the run. Nothing is drawn.
    TrainingInterrupted
        By the keyboard. Nothing is released.
    TrainingDiverged
        The weights overflowed. Nothing is released.
    ProcessLost
        Another process of the cluster ended, or cannot be reached. Nothing is released.
    """
    check_is_run(run)
    options = Options(l2, generator, dtype, momentum, average, start, keep_iterates, progress, ledger)
    several = of_several(cluster)
    if run.sampling.once:
        shared = several is not None
        whole = (block_of_persons(run, loss, features, target, groups, part=shared) for _ in range(1))  # made where errors are told
        own = partial(_own_records, run, loss, features, target, groups)
        return in_passes(run, loss, partial(kind_of(run), whole, run, loss), Steps, options, cluster, own)
    if several is not None:
        return train_shared(run, loss, features, target, groups, several, options)
    options.check(run, loss)
    rows, labels = checked_data(run, loss, features, target)
    persons = persons_of(run, groups, len(rows))
    n, d = rows.shape
    begun = options.begun(run, loss, d)
    arithmetic, share = begun.arithmetic, float(begun.arithmetic.constants.share)
    room = room_of(n, block_of(d, loss.outputs)) if run.is_full_batch else n
    sizes = None if persons is None else persons.sizes()
    data, norms = encode(rows, labels, arithmetic.bits, share, room, together=not run.is_full_batch, sizes=sizes)
    begun.check_rows(run, loss, float(norms.max()), "some records")
    parts = chunks(run, begun, average, persons)
    with charged(ledger, run):
        mean, iterates = uninterrupted(partial(_run_chunks, run, loss, data, begun, parts, options))
    return result_of(run, loss, begun, options, mean, iterates)


def _own_records(run: Run, loss: GeneralisedLinearLoss, features: ArrayLike, target: ArrayLike, groups: ArrayLike | None) -> int:
    """How many records one process of several has."""
    rows = len(records_of(loss, features, target)[1])
    persons = persons_of(run, groups, rows, part=True)
    return rows if persons is None else persons.n


def _run_chunks(
    run: Run,
    loss: GeneralisedLinearLoss,
    data: tuple[NDArray[np.int32], ...],
    begun: Begun,
    parts: Iterator[tuple[int, Chunk]],
    options: Options,
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """The mean iterate, and all iterates where they are kept."""
    bits, constants = begun.arithmetic
    records, how = jax.device_put(data), How(loss, bits, options.keep)

    def run_part(state: State, part: tuple[int, Chunk]) -> tuple[State, Any, int]:
        capacity, chunk = part
        return *run_chunk(state, records, chunk, constants, how=how, capacity=capacity), int(chunk.steps)

    return in_chunks(run, begun, options, begun.state, parts, run_part)
