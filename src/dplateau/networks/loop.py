"""The steps of a run, and what happens between them: noise, checkpoints, scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from dplateau.networks.checkpoint import Checkpoint, Ledger, Saved, content_of, interval, read, write
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.finite import NoisyCount
from dplateau.networks.keys import draw_keys
from dplateau.networks.memory import kept_memory
from dplateau.networks.noise import Halves, Noise
from dplateau.networks.trainable import Parts
from dplateau.networks.validation import Score, Validation
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import window
from dplateau.training import SecureGenerator, TrainingDiverged, TrainingInterrupted
from dplateau.training.batches import Batches, batches
from dplateau.training.chunks import chunk_length
from dplateau.training.errors import OWN, alone, interrupts
from dplateau.training.exact_products import accelerated

Array: TypeAlias = Any
Tree: TypeAlias = Any
T = TypeVar("T")


class State(NamedTuple):
    """What a step hands to the next, of trained leaves only; ``mean`` is empty where iterates are not averaged."""

    params: Tree
    optimizer: Tree
    mean: Tree = ()

    @property
    def model(self) -> Tree:
        """What is released."""
        return self.mean if jax.tree.leaves(self.mean) else self.params


class Progress(NamedTuple):
    """Where a run stands at the end of a chunk of steps: all that a checkpoint needs."""

    state: State
    best: Tree
    scores: list[Score]
    ledger: Ledger
    drawn: int


class Schedule(NamedTuple):
    """What differs between the steps of a chunk, but for their batches.

    Deviations of the noise in units, expected batch sizes, what noisy sums are multiplied with, step sizes, and the weights of new
    iterates in the mean of iterates.
    """

    deviations: NDArray[np.float64]
    sizes: NDArray[np.float64]
    scales: NDArray[np.float64]
    step_sizes: NDArray[np.float64]
    weights: NDArray[np.float64]


@partial(jax.jit, static_argnames="optimizer")
def stepped(
    state: State, rows: list[Array], step_size: Array, weight: Array, *, optimizer: optax.GradientTransformation | None
) -> State:
    """The state after a step on a noisy mean gradient, each leaf in one row; the mean takes the new iterate with ``weight``."""
    leaves, structure = jax.tree.flatten(state.params)
    gradient = structure.unflatten([row.reshape(leaf.shape) for row, leaf in zip(rows, leaves, strict=True)])
    if optimizer is None:
        params, inner = jax.tree.map(lambda w, g: w - step_size * g, state.params, gradient), ()
    else:
        steps, inner = optimizer.update(gradient, state.optimizer, state.params)
        params = optax.apply_updates(state.params, steps)
    mean = state.mean
    if jax.tree.leaves(mean):
        mean = jax.tree.map(lambda old, new: (1 - weight) * old + weight * new, mean, params)
    return State(params, inner, mean)


@dataclass(frozen=True, eq=False)
class Loop:
    """The steps, and what happens between them; ``own`` records are here."""

    run: Run
    own: int
    parts: Parts
    summed: ClippedSums
    keyed: bool
    optimizer: optax.GradientTransformation | None
    average: float
    generator: SecureGenerator
    checkpoint: Checkpoint | None
    validation: Validation | None
    progress: Callable[[int, int], None] | None
    finite: NoisyCount = field(default_factory=NoisyCount)

    @cached_property
    def noise(self) -> Noise:
        """Where the noise of the steps comes from."""
        return Noise(self.generator, self.summed.weights + 1)

    @cached_property
    def room(self) -> int:
        """The most steps of a chunk."""
        return chunk_length(self.run, self.summed.weights)

    @property
    def processes(self) -> int:
        """How many processes train together."""
        return 1

    def once(self, work: Callable[[], T]) -> T | None:
        """Do what is done once for all processes that train; what it returns, where it was done."""
        return work()

    def begun(self, state: State) -> Progress:
        """Where the run stands: at its start, or where the checkpoint left it.

        Raises
        ------
        InputError
            The checkpoint cannot be used, or would go on within an epoch.
        """
        reached = self._resumed(Progress(state, state.model, [], Ledger(processes=self.processes), self.generator.drawn))
        done, epoch = reached.ledger.done, self.run.sampling.epoch_length(self.run.n)
        if self.goes_on(reached) and done % epoch:
            # Which batches of the epoch are left is not known: batches drawn anew could hold records that had their turn.
            raise InputError(
                f"the training was stopped early after {done:,} steps, within an epoch of {epoch:,}, and cannot go on from there: "
                "pass the validation that stopped it, or start anew with another path."
            )
        return reached._replace(state=self.divided(reached.state))

    def divided(self, state: State) -> State:
        """What this process keeps of the whole state."""
        return state

    def whole(self, state: State) -> State:
        """The state that others keep parts of."""
        return state

    def model(self, state: State) -> Tree:
        """What is released, of the trained leaves."""
        return state.model

    def goes_on(self, reached: Progress) -> bool:
        """Whether more steps are to be made."""
        return reached.ledger.done < self.run.steps and not (self.validation and self.validation.gives_up(reached.scores))

    def run_from(self, first: Progress) -> Progress:
        """All steps that are left."""
        reached, failed, finished = first, list[Exception](), False
        try:
            with kept_memory(), interrupts():
                for reached in self._chunks(first):  # noqa: B007 (where it stands matters after an interrupt)
                    pass
            finished = True
        except KeyboardInterrupt:
            pass
        except OWN as error:  # Raised outside the handler, so that it does not lead to the noise.
            failed.append(alone(error))
        finally:
            self.summed.close()
        if failed:
            raise failed.pop()
        if not finished:
            self._interrupted(reached)
            raise TrainingInterrupted(
                f"training was interrupted: nothing was released but the checkpoint and the scores, if any. {self._how_to_go_on}"
            )
        if self.progress is not None:
            self.progress(reached.ledger.done, self.run.steps)
        return reached

    @property
    def _how_to_go_on(self) -> str:
        if self.checkpoint is None:
            return "Train anew; with a checkpoint, training would go on."
        return f"Call train_network again with the same arguments to go on from {self.checkpoint.path}."

    def _interrupted(self, reached: Progress) -> None:
        """Keep where the run stands: what was computed since is forgotten and was never seen, so nothing is lost."""
        if self.checkpoint and reached.ledger.done % interval(self.run, 1) == 0:
            self._write(reached, reached.ledger.done)

    def _chunks(self, reached: Progress) -> Iterator[Progress]:
        """Where the run stands at its start, and after each chunk of steps."""
        every = self.checkpoint and interval(self.run, self.checkpoint.every)
        done, run = reached.ledger.done, self.run
        # It divides ``done`` too: a run may go on with other intervals than it had, and must still meet all their multiples.
        common = math.gcd(every or 0, self.validation.every if self.validation else 0, done)
        length = divisor(common, self.room)
        plans: Iterator[Any] | None = None
        reached = self._scored(reached)
        while self.goes_on(reached):
            if every and done >= reached.ledger.reserved:
                reached = self._write(reached, min(done + every, run.steps))
            yield reached
            if plans is None:  # No random number before the first reservation.
                plans = self._plans(length, done)
            reached = self._chunk(reached, min(done + length, run.steps), plans)
            done = reached.ledger.done
            yield reached  # Before anybody looks at it: what was seen must not be forgotten by an interrupt.
            reached = self._scored(reached)
        if self.checkpoint:
            reached = self._write(reached, done)
        yield reached

    def _plans(self, length: int, done: int) -> Iterator[Batches] | None:
        """The batches that are left, ``length`` at a time; None where all records are used."""
        return None if self.run.is_full_batch else batches(self.run, length, self.generator, done)

    def _stepped(
        self, state: State, records: NDArray[np.int32], keys: NDArray[np.uint32] | None, noise: Halves, how: Schedule, k: int
    ) -> tuple[State, Array]:
        """The state after step k of a chunk, and the noisy count of finite gradients."""
        mean, count = self.summed.noisy_mean(state.params, records, keys, noise, how.scales[k])
        return stepped(state, mean, how.step_sizes[k], how.weights[k], optimizer=self.optimizer), count

    def schedule(self, begin: int, end: int) -> Schedule:
        """That of steps ``begin`` to ``end``."""
        run, dtype = self.run, self.summed.dtype
        first = run.steps - math.ceil(self.average * run.steps)  # of the iterates that are averaged
        return Schedule(
            deviations=self.summed.lattice.deviations(window(run.noise_multiplier, begin, end)),
            sizes=run.sampling.batch_sizes(run.n, begin, end),
            scales=self.summed.lattice.unit / window(run.sampling.divisors(run.n), begin, end),
            step_sizes=window(run.step_size or 0.0, begin, end).astype(dtype),
            weights=(1 / np.maximum(1, np.arange(begin, end) - first + 1)).astype(dtype),
        )

    def _chunk(self, reached: Progress, end: int, plans: Iterator[Batches] | None) -> Progress:
        """Steps up to ``end``."""
        run, begin, state = self.run, reached.ledger.done, reached.state
        if plans is None:
            records = [np.arange(self.own, dtype=np.int32)] * (end - begin)
        else:
            plan = next(plans)
            records = np.split(plan.records, np.cumsum(plan.counts)[:-1])
        how, each = self.schedule(begin, end), self.summed.lattice.tally
        noise = self.noise.steps(how.deviations)
        for k in range(end - begin):
            drawn = next(noise)
            if self.progress is not None:
                self.progress(begin + k, run.steps)
            keys = draw_keys(self.generator, len(records[k])) if self.keyed else None
            state, count = self._stepped(state, records[k], keys, drawn, how, k)
            self.finite.add(float(count) / each, how.deviations[k] / each, how.sizes[k])
        self.check(state, end)
        return Progress(state, reached.best, reached.scores, replace(reached.ledger, done=end), self.generator.drawn)

    def check(self, state: State, end: int) -> None:
        """Raise ``TrainingDiverged`` where the parameters are not finite, or gradients were not."""
        sizes = tuple(leaf.size for leaf in jax.tree.leaves(self.parts.start))
        if not (_finite_there if accelerated() else _finite)(state.params, sizes):
            raise TrainingDiverged("the parameters are no longer finite: lower the step size.")
        self.finite.check(end)

    def _scored(self, reached: Progress) -> Progress:
        """With the score of the iterate, where one is due and there is none."""
        scores, done = reached.scores, reached.ledger.done
        if not self.validation or not done or (scores and scores[-1].steps == done):
            return reached
        if done % self.validation.every and done != self.run.steps:
            return reached
        model = self.model(reached.state)
        score = self._score(self.parts.whole(model), done)
        better = not scores or score.score > max(one.score for one in scores)
        return reached._replace(best=model if better else reached.best, scores=[*scores, score])

    def _score(self, model: Tree, done: int) -> Score:
        assert self.validation is not None
        return self.validation.scored(model, done)

    def _write(self, reached: Progress, reserved: int) -> Progress:
        """Save where the run stands, and that noise may be drawn up to step ``reserved``."""
        assert self.checkpoint is not None
        reached = reached._replace(ledger=replace(reached.ledger, reserved=reserved))
        notes = {"scores": [list(score) for score in reached.scores], **{name: one for name, one in self._kind.items() if one}}
        arrays = self._arrays(self.whole(reached.state), reached.best)
        saved = Saved(reached.ledger, arrays, notes, self.generator.insecure, reached.drawn)
        path: Any = self.checkpoint.path
        self.once(lambda: write(path, self.run, saved))
        return reached

    def _content(self, like: list[NDArray[Any]]) -> bytes | None:
        """That of the checkpoint, which holds arrays ``like`` these; None where there is none yet."""
        assert self.checkpoint is not None
        return content_of(self.checkpoint.path, like)  # type: ignore[arg-type]

    def _arrays(self, state: State, best: Tree) -> list[NDArray[Any]]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves((state, best if self.validation else ()))]

    @property
    def _kind(self) -> dict[str, Any]:
        """What a continuation must have too, beside the run and the shapes of arrays; None is not written down."""
        return {"frozen": self.parts.digest, "rng": self.keyed or None}

    def _resumed(self, reached: Progress) -> Progress:
        """Where the checkpoint left the run, if there is one."""
        if self.checkpoint is None:
            return reached
        interval(self.run, self.checkpoint.every)
        like = self._arrays(reached.state, reached.best)
        content = self._content(like)
        if content is None:
            return reached
        saved = read(self.checkpoint.path, content, self.run, like, self.generator)  # type: ignore[arg-type]
        if {name: saved.notes.get(name) for name in self._kind} != self._kind:
            raise InputError(
                f"the checkpoint {self.checkpoint.path} belongs to a training with another trainable or rng, or with other frozen "
                "parameters: pass those that it was made with."
            )
        if saved.insecure and saved.drawn < self.generator.drawn:
            raise InputError("the generator was used before: pass a new one with the seed that the checkpoint was made with.")
        self.generator.skip(saved.drawn - self.generator.drawn)
        structure = jax.tree.structure((reached.state, reached.best if self.validation else ()))
        state, best = structure.unflatten([jnp.asarray(array) for array in saved.arrays])
        scores = [Score(int(steps), float(score)) for steps, score in saved.notes["scores"]]
        ledger = saved.ledger
        if ledger.done < self.run.steps:
            ledger = replace(ledger.resumed(), processes=max(ledger.processes, self.processes))
        return Progress(state, best if self.validation else state.model, scores, ledger, saved.drawn)


@partial(jax.jit, static_argnums=1)
def _finite_there(params: Tree, sizes: tuple[int, ...]) -> Array:
    """Whether so many numbers of each leaf are; what fills up a row of slices may be anything."""
    leaves = zip(jax.tree.leaves(params), sizes, strict=True)
    return jnp.all(jnp.array([jnp.isfinite(leaf.reshape(-1)[:size]).all() for leaf, size in leaves]))


def _finite(params: Tree, sizes: tuple[int, ...]) -> bool:
    """The same on a processor, where parameters lie in NumPy's memory: there is nothing to compile."""
    leaves = zip(jax.tree.leaves(params), sizes, strict=True)
    return all(bool(np.isfinite(np.asarray(leaf).reshape(-1)[:size]).all()) for leaf, size in leaves)


def divisor(number: int, most: int) -> int:
    """The largest divisor of ``number`` that is at most ``most``; 0 is divisible by everything."""
    return next(k for k in range(min(number or most, most), 0, -1) if not number or number % k == 0)
