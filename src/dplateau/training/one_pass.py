"""``train_one_pass``: fulfil a one-pass ``Run`` on records that arrive in blocks, each looked at once, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.training.charged import Budgeted, charged
from dplateau.training.checks import check_curvature, check_is_run
from dplateau.training.cluster import Cluster
from dplateau.training.errors import uninterrupted
from dplateau.training.loop import How, run_block
from dplateau.training.noise import SecureGenerator
from dplateau.training.options import Begun, Options
from dplateau.training.person_records import kind_of
from dplateau.training.records import Blocks as Blocks
from dplateau.training.records import Records, Steps
from dplateau.training.result import TrainResult, result_of
from dplateau.training.shared import of_several
from dplateau.training.shared_pass import in_passes_shared


def train_one_pass(
    run: Run,
    loss: GeneralisedLinearLoss,
    blocks: Blocks,
    *,
    l2: float | Sequence[float] | NDArray[np.float64] = 0.0,
    generator: SecureGenerator | None = None,
    dtype: str = "float64",
    momentum: float = 0.0,
    average: float = 0.0,
    start: ArrayLike | None = None,
    keep_iterates: bool = False,
    progress: Callable[[int, int], None] | None = None,
    ledger: Budgeted | None = None,
    cluster: Cluster | None = None,
    own: int | None = None,
) -> TrainResult:
    """Train a generalised linear model in one pass over records that need not fit in memory, exactly as ``run`` says.

    The steps are those of ``dplateau.training.train``, which calls this function for one-pass runs. Memory does not grow with the
    number of records, as long as that of a block does not.

    Parameters
    ----------
    run : Run
        What to compute and release, with one-pass sampling.
    loss : GeneralisedLinearLoss
        Loss of one example.
    blocks : iterable of (features, target) or (features, target, groups)
        The records in their public order, in pieces of any lengths: arrays of shapes (k, d) and (k,), ``run.n`` rows in all. The
        order and the lengths must not depend on what the records say. For a run with ``unit="person"``, groups of shape (k,) say
        whose each row is; the rows of a person follow one another, over the ends of pieces too, and there are ``run.n`` persons.
    l2, generator, dtype, momentum, average, start, keep_iterates, ledger
        See ``train``.
    progress : callable, optional
        Called with the records done and their total; see ``dplateau.training.progress_bar``.
    cluster : Cluster, optional
        Several processes to train on, see ``train``. Each gives blocks of records of its own, and to every batch a part that is as
        large, compared with those of the others, as its number of records.
    own : int, optional
        With a cluster: the public number of records of this process; by default an equal part of ``run.n``.

    Raises
    ------
    InputError
        As ``train``; and there are fewer or more records than ``run.n``, or a block has another width than the first. Nothing is
        released: the weights are returned after the last record was counted.
    TrainingInterrupted, TrainingDiverged
        As ``train``.
    """
    check_is_run(run)
    if not run.sampling.once:
        raise InputError(f"the run's sampling is {run.sampling.kind}: expected one-pass. Use dplateau.training.train.")
    options = Options(l2, generator, dtype, momentum, average, start, keep_iterates, progress, ledger)
    opened = partial(kind_of(run), blocks, run, loss)
    return in_passes(run, loss, opened, Steps, options, cluster, own)


def in_passes(
    run: Run,
    loss: GeneralisedLinearLoss,
    opened: Callable[..., Records],
    kind: type[Steps],
    options: Options,
    cluster: Cluster | None,
    own: int | Callable[[], int] | None,
) -> TrainResult:
    """What a run on records that are read in order, once or more often, releases; ``opened`` begins to read them.

    With a cluster of several devices there are so many ``own`` records, and ``opened(own=...)`` begins to read them.
    """
    if (several := of_several(cluster)) is not None:
        return in_passes_shared(run, loss, opened, kind, several, own, options)
    options.check(run, loss)
    records = uninterrupted(opened)
    begun = options.begun(run, loss, records.d)
    check_curvature(run, loss, run.clip_norm, 0.0, begun.l2)
    steps = kind(run, records, begun, options.average)
    with charged(options.ledger, run):
        mean, iterates = uninterrupted(partial(_pass, loss, steps, begun, options))
    return result_of(run, loss, begun, options, mean, iterates)


def _pass(loss: GeneralisedLinearLoss, steps: Steps, begun: Begun, options: Options) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """The mean iterate, and all iterates where they are kept, after every record was seen as often as the run has epochs."""
    arithmetic, progress = begun.arithmetic, options.progress
    run, records, constants = steps.run, steps.records, arithmetic.constants
    how = How(loss, arithmetic.bits, options.keep)
    state, longest, kept, told = begun.state, np.zeros(()), [begun.first[None]], -1

    try:
        for capacity, counts, chunk in steps.chunks():
            capacity, chunk, taken = records.block(capacity, counts, chunk, steps)
            # Reading and copying go on while the block before is worked on: only then is that waited for.
            # Columns lie in memory of the records, who write there again when the loop has done with this block and with the next.
            layout = None if taken.ranges is None else records.layout
            block = jax.device_put(taken, may_alias=layout is not None)
            jax.block_until_ready(block)  # the copy is made: the caller may do with the arrays what it likes
            del taken
            begun.check_rows(run, loss, float(longest), f"among {records.among(steps.begun)} some")
            if progress is not None and steps.begun > told:
                progress(told := steps.begun, steps.total)
            state, longest, iterates = run_block(state, longest, block, chunk, constants, how=how, capacity=capacity, layout=layout)
            del block  # the loop frees it when it has done with it
            if iterates is not None:
                kept.append(np.asarray(iterates)[: chunk.steps])
        begun.check_rows(run, loss, float(longest), f"among {records.among(records.given)} some")
        records.finish()
    finally:
        jax.block_until_ready((state, longest))  # an interrupted process must not end while the loop is at work
        records.close()
    if progress is not None:
        progress(steps.total, steps.total)
    return np.asarray(state.mean), kept
