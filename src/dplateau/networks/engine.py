"""``train_network``: fulfil a ``Run`` with any differentiable model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import optax
from numpy.typing import ArrayLike

from dplateau.networks.checkpoint import Checkpoint, locked
from dplateau.networks.checks import (
    check_loss,
    check_params,
    check_parts,
    check_run,
    check_shares,
    check_used,
    checked_examples,
    checked_start,
)
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.compiled import CompiledLoop
from dplateau.networks.keys import NO_KEY, Keyed
from dplateau.networks.lattice import lattice_of
from dplateau.networks.loop import Loop, Progress, State
from dplateau.networks.probes import check_gradients, check_loop
from dplateau.networks.recorded import Loss, record
from dplateau.networks.shared import SharedLoop, check_cluster, check_groups, prepared_together
from dplateau.networks.shared_compiled import SharedCompiledLoop
from dplateau.networks.trainable import parts_of
from dplateau.networks.validation import Score, Validation
from dplateau.spec import Assumption, Generator, InputError, Run, Runs, Training
from dplateau.spec.arguments import real
from dplateau.spec.assumption import LostSteps, OneContinuation, Processes, Restarts
from dplateau.training import SecureGenerator
from dplateau.training.charged import Budgeted, charged
from dplateau.training.cluster import Cluster
from dplateau.training.exact_products import accelerated, check_products
from dplateau.training.result import gradient_assumptions
from dplateau.training.settings import usual
from dplateau.training.shared import of_several

Tree: TypeAlias = Any


@dataclass(frozen=True)
class NetworkResult:
    """What a run released, and what its guarantee rests on.

    Attributes
    ----------
    params : tree of arrays
        The last iterate, or the mean of the last ones; where a validation asked for that, what had the best score. What was frozen
        is in it, unchanged.
    last : tree of arrays
        The last iterate.
    run : Run or Runs
        What was computed: the run, and with it all that was lost where it was killed and went on.
    assumptions : tuple of Assumption
        What was enforced, and what is taken on trust.
    generator : Generator
        The source of randomness.
    dtype : str
        Working precision.
    steps : int
        Steps that were taken; fewer than ``run.steps`` after early stopping, which costs as much.
    scores : tuple of Score
        The scores of the validation.
    """

    params: Tree
    last: Tree
    run: Run | Runs
    assumptions: tuple[Assumption, ...]
    generator: Generator
    dtype: str
    steps: int
    scores: tuple[Score, ...] = ()
    training: ClassVar[Training] = Training.NETWORK

    @property
    def weights(self) -> Tree:
        """What a certificate is bound to: ``params``."""
        return self.params


def train_network(
    run: Run,
    loss: Loss,
    params: Tree,
    examples: Tree,
    *,
    groups: ArrayLike | None = None,
    optimizer: optax.GradientTransformation | None = None,
    trainable: Tree = None,
    rng: bool = False,
    average: float = 0.0,
    generator: SecureGenerator | None = None,
    microbatch: int | None = None,
    workers: int | None = None,
    checkpoint: Checkpoint | None = None,
    validation: Validation | None = None,
    progress: Callable[[int, int], None] | None = None,
    ledger: Budgeted | None = None,
    cluster: Cluster | None = None,
) -> NetworkResult:
    """Train any differentiable model by noisy gradients, exactly as ``run`` says.

    Step t draws its batch, sums the clipped gradients of its examples, adds the noise, divides by the *public* batch size and hands
    the result to the optimizer. Batches are never truncated. What an example contributes, the sum and the noise are whole numbers
    of a public unit (see ``dplateau.networks.lattice``), so sums are exact.

    Parameters
    ----------
    run : Run
        What to compute, with ``released="all"``, because no last-iterate bound holds for networks. With an optimizer it needs
        ``update="post-processed"``; without, it takes plain steps of ``run.step_size``.
    loss : callable
        ``loss(params, example)``, or with ``rng=True`` ``loss(params, example, key)``: a number; it sees one example at a time.
        What may mix examples (callbacks, ``custom_vmap``, collectives) or keeps a state (running statistics) is refused.
    params : tree of arrays
        The first iterate: public. What is trained is float32 (float64 under ``jax_enable_x64``); to compute in bfloat16, convert
        it in the loss.
    examples : tree of arrays
        The records, each array with n in front; private. For a run with ``unit="person"`` an example is all that belongs to one
        person: what ``by_person`` returns, or a tree of your own.
    groups : array of shape (n,), optional
        With a cluster, for a run with ``unit="person"``: whose each example is, a text or a whole number; no two processes may have
        the same one. Examples of ``by_person`` are in the order of the labels' first rows: ``list(dict.fromkeys(labels))``.
    optimizer : optax.GradientTransformation, optional
        What makes steps of noisy gradients: of optax, or of ``dplateau.networks``.
    trainable : tree of bool, optional
        Which parameters are trained: a tree like ``params``, or its upper part, with True and False in it. What is frozen is a
        public constant of any type, which takes no part of the clip norm, gets no noise, and is None in what the optimizer sees.
        By default all are trained.
    rng : bool, default False
        Whether the loss takes a random key (of ``jax.random``, threefry), for dropout or random augmentation: a fresh one for each
        example and step, from ``generator``.
    average : float, default 0.0
        Fraction of the iterates, counted from the end, whose mean is the model. Every iterate is accounted for, so it is free, and
        averages most of their noise away. Needs ``update="post-processed"``.
    generator : SecureGenerator, optional
        Source of batches and noise; by default a new one with a key from the operating system.
    microbatch : int, optional
        Examples at a time; memory grows with it, the result does not depend on it but for the rounding of gradients. By default as
        many as fit a processor's cache.
    workers : int, optional
        Threads that share a batch; by default as many as there are processors and work for them, and none for small networks, nor
        on accelerators: many steps are one compiled call there.
    checkpoint : Checkpoint, optional
        Where to keep what the run needs to go on when it is killed. If the file is there, the run goes on; if it has ended, its
        model is returned, with a warning.
    validation : Validation, optional
        Scores on public data.
    progress : callable, optional
        Called with the steps done and their total: before each step, or before each call of many steps, and at the end.
    ledger : Account, optional
        The account of the data set, see ``dplateau.Ledger``: what the run costs is taken out of its budget before the first random
        number is drawn. Of a run that goes on from a checkpoint the steps that are left are taken out once more; the account must
        have the reservation with which it began, and is needed. Of a run that began without one, all that it did is taken out.
    cluster : Cluster, optional
        Devices that train one model, of several processes or of one: on accelerators any number of each, on processors one. All
        processes call this with the same arguments but for ``examples``, which are records of their own, and all get the same
        result. Process 0 keeps the checkpoint, computes scores and charges the ledger.

    Raises
    ------
    InputError
        The arguments do not fit each other; or the loss fails, may mix examples, has no finite gradient at made-up examples, or
        none by some parameter; or the optimizer needs more than gradients; or the compiled gradients depend on the place in a
        microbatch.
    BudgetError
        The budget does not cover the run. Nothing is drawn.
    TrainingInterrupted
        By the keyboard. Nothing is released, but for the checkpoint.
    TrainingDiverged
        The parameters overflowed, or hardly any gradient was finite, by a noisy count. Nothing is released, but for the checkpoint.
    ProcessLost
        Another process of the cluster ended, or cannot be reached. Nothing is released, but for the checkpoint.
    """
    with ExitStack() as stack:
        stack.enter_context(usual())
        shared = of_several(cluster)
        prepared = partial(
            _prepared, run, loss, params, examples, groups, optimizer, trainable, rng, average, generator, microbatch, workers,
            checkpoint, validation, progress, shared,
        )  # fmt: skip
        loop, state = prepared() if shared is None else prepared_together(shared, run, ledger, groups, prepared)
        if shared is not None and isinstance(loop, SharedCompiledLoop):
            with shared.watched():  # All processes are there: their devices are tried together.
                loop = _tried(loop, state)
            if not isinstance(loop, CompiledLoop):
                shared.together(partial(check_gradients, loop, state))
        if checkpoint is not None:
            loop.once(lambda: stack.enter_context(locked(checkpoint.path)))  # type: ignore[arg-type]
        first = loop.begun(state)  # read once: what is charged is what is done
        goes_on, unpaid, done = loop.goes_on(first), first.ledger.lost, 0
        if first.ledger.charged:
            unpaid, done = (), first.ledger.done
        if goes_on:
            loop.once(lambda: _check_start(loop, state, first, ledger))
            first = first._replace(ledger=replace(first.ledger, charged=ledger is not None))
        elif checkpoint is not None:
            message = f"{checkpoint.path} is the checkpoint of a run that has ended: its model is returned, and nothing is trained,"
            again = " whatever loss, examples and optimizer are given. Name another path to train anew."
            warnings.warn(message + again, stacklevel=2)
        pays = ledger if goes_on else None
        for part in unpaid:  # of a run that began without the ledger, whose first steps nobody paid for either
            loop.once(lambda part=part: stack.enter_context(charged(pays, run.part(*part))))
        loop.once(lambda: stack.enter_context(charged(pays, run, done)))
        reached = loop.run_from(first)
        return _result(loop, reached)


def _prepared(
    run: Run,
    loss: Loss,
    params: Tree,
    examples: Tree,
    groups: ArrayLike | None,
    optimizer: optax.GradientTransformation | None,
    trainable: Tree,
    rng: bool,
    average: float,
    generator: SecureGenerator | None,
    microbatch: int | None,
    workers: int | None,
    checkpoint: Checkpoint | None,
    validation: Validation | None,
    progress: Callable[[int, int], None] | None,
    cluster: Cluster | None,
) -> tuple[Loop, State]:
    """The loop of a training and its first state, when everything was checked that one process can check."""
    check_parts(optimizer, checkpoint, validation, generator, progress)
    check_run(run, optimizer is not None, real("average", average, inclusive=True, high=1.0) > 0)
    check_shares(microbatch, workers)
    check_groups(run, groups, shared=cluster is not None)
    check_loss(loss, rng)
    parts = parts_of(params, trainable)
    check_params(parts.start)
    records = checked_examples(run, examples, part=cluster is not None)
    own = len(jax.tree.leaves(records)[0])
    generator = SecureGenerator() if generator is None else generator
    lattice = lattice_of(run, sum(leaf.size for leaf in jax.tree.leaves(parts.start)))
    example = jax.tree.map(lambda column: column[0], records)
    recorded = record(Keyed(loss), parts.start, (example, NO_KEY), parts) if rng else record(loss, parts.start, example, parts)
    check_used(parts.start, recorded)
    start = jax.tree.map(jnp.asarray, parts.start)
    first_state = () if optimizer is None else checked_start(optimizer, start, checkpoint)
    share = own if cluster is None else -(-run.n // cluster.mesh.size)
    summed = ClippedSums(run, recorded, start, records, lattice, microbatch, workers, parts.frozen, share)
    state = State(start, first_state, start if average else ())
    kind: Callable[..., Loop] = CompiledLoop if accelerated() or summed.small else Loop
    if cluster is not None:
        check_cluster(cluster, checkpoint, generator)
        shared = SharedCompiledLoop if kind is CompiledLoop else SharedLoop
        kind, generator = partial(shared, cluster=cluster), generator.for_process(cluster.index)
    loop = kind(run, own, parts, summed, rng, optimizer, average, generator, checkpoint, validation, progress)
    if isinstance(loop, SharedCompiledLoop):
        check_products(summed.products(start, rng))
        return loop, state
    if isinstance(loop, CompiledLoop):
        loop = _tried(loop, state)
    if not isinstance(loop, CompiledLoop):
        check_gradients(loop, state)
    return loop, state


def _tried(loop: CompiledLoop, state: State) -> Loop:
    """The loop, if it treats all examples alike; on processors separate functions may pass where it does not."""
    try:
        check_loop(loop, state)
    except InputError:
        if accelerated():
            raise
        kind = SharedLoop if isinstance(loop, SharedLoop) else Loop
        return kind(**{one.name: getattr(loop, one.name) for one in fields(kind)})
    return loop


def _check_start(loop: Loop, state: State, first: Progress, ledger: Budgeted | None) -> None:
    """Refuse to go on without the ledger; have the first iterate, which is public, scored before an error of the score costs."""
    if loop.checkpoint is not None and first.ledger.charged and ledger is None:
        raise InputError(
            f"the run of the checkpoint {loop.checkpoint.path} is charged to a ledger, and what it takes again must be, too: pass"
            " the account with which it began as ledger=."
        )
    begins = not (first.ledger.done or first.ledger.lost)
    if loop.validation is not None and begins and not (loop.checkpoint is None and ledger is None):
        loop.validation.number(loop.parts.whole(state.params))


def _result(loop: Loop, reached: Progress) -> NetworkResult:
    """What a training released, and what its guarantee rests on."""
    run, spent, validation = loop.run, reached.ledger, loop.validation
    found = gradient_assumptions(run, loop.generator)
    if spent.processes > 1:
        found.append(Processes(count=spent.processes))
    if validation is not None:
        found.append(validation.assumption)
    if spent.lost:
        lost = sum(last - first for first, last in spent.lost)
        found += [LostSteps(steps=lost).enforced(), Restarts()]
    if loop.checkpoint is not None:
        found.append(OneContinuation())
    keep_best = validation is not None and validation.keep_best and reached.scores
    state, scores = loop.whole(reached.state), tuple(reached.scores)
    model, last = loop.parts.whole(reached.best if keep_best else state.model), loop.parts.whole(state.params)
    dtype = str(loop.summed.dtype)
    return NetworkResult(model, last, spent.runs(run), tuple(found), loop.noise.source, dtype, spent.done, scores)
