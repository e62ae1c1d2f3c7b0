"""The steps of a network in one compiled call for a chunk of them.

To be called takes an accelerator, or a processor, as long as a step of a small network. So a compiled loop goes through the
microbatches of a chunk; an accelerator has the records in its memory where they fit. An iteration adds up the gradients that the
one before has computed, makes the step where they complete a batch, and computes the next ones. Thus gradients are arrays in memory
before anything reads them, as between the functions of ``clipped_sums.py``: norm and sum are those of the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from dplateau.networks.checkpoint import interval
from dplateau.networks.clipped_sums import with_noise
from dplateau.networks.device import RECORDS, memory, repeatable, room_of_a_chunk
from dplateau.networks.keys import draw_keys
from dplateau.networks.lattice import Lattice
from dplateau.networks.loop import Loop, Progress, Schedule, State, T, divisor, stepped
from dplateau.networks.noise import Halves
from dplateau.networks.recorded import RecordedLoss
from dplateau.networks.rounded import Gradient, Multipliers, added_up, multipliers
from dplateau.networks.slices import Way, shared_step
from dplateau.training.batches import Batches
from dplateau.training.chunks import chunk_length, rounded_up, stretched
from dplateau.training.exact_products import accelerated
from dplateau.training.groups import LARGEST, in_groups

Array: TypeAlias = Any
Tree: TypeAlias = Any
Taken: TypeAlias = tuple[Batches, NDArray[np.uint32] | None]

_MORE: Final = 16
"""One more microbatch in so many steps, for batches that are larger than most."""
_FEW: Final = 16
"""Microbatches below which sizes of chunks are powers of two."""


class Kind(NamedTuple):
    """What distinguishes compiled loops."""

    recorded: RecordedLoss
    optimizer: optax.GradientTransformation | None
    lattice: Lattice
    dtype: Any
    x64: bool
    way: Way | None


class Plan(NamedTuple):
    """The microbatches of a chunk, one after the other, with unused entries at the end.

    There are ``count``. Microbatch k has the examples with the numbers ``records[rows[k]]``, or, without ``records``, those of row
    ``rows[k]``, and, where the loss takes them, the keys ``keys[rows[k]]``. What is known of it when it is added up stands at
    k + 1, after one that has no example: ``used``, how many of the examples count; ``steps``, the step of the chunk that it belongs
    to; whether it ``begins`` and ``ends`` it.
    """

    count: Any
    records: Array | None
    keys: Array | None
    rows: Array
    used: Array
    steps: Array
    begins: Array
    ends: Array


class Carry(NamedTuple):
    """What an iteration hands to the next: sums in units, and the noisy number of finite gradients of the steps so far."""

    state: State
    gradients: list[Gradient]
    sums: list[Array]
    finite: Array


def run_chunk(
    state: State, examples: Tree, frozen: Sequence[Array], plan: Plan, schedule: Schedule, noise: Halves, *, kind: Kind
) -> tuple[State, list[Array], Array]:
    """The state after the steps of a chunk, the sums of the last one without noise, and the noisy count of finite gradients.

    Of several devices each gives its slices of the sums, and of what is not whole in the state. ``noise`` has a row for each step,
    of each half. To be traced with 64 bits.
    """
    recorded, optimizer, lattice, dtype, x64, way = kind

    def arranged(sums: list[Array]) -> list[Array]:
        return [*recorded.arranged(sums[:-1]), sums[-1]]

    def own(sums: list[Array]) -> list[Array]:
        """The own slices, where sums were not scattered at every microbatch already."""
        return sums if way is None or way.apart else way.slices.scattered(arranged(sums))

    def gradients(params: Tree, k: Array) -> list[Gradient]:
        index = plan.rows[k] if plan.records is None else plan.records[plan.rows[k]]
        rows = jax.tree.map(lambda column: column.at[index].get(mode="promise_in_bounds"), examples)
        with jax.enable_x64(x64):
            params = params if way is None else way.whole(params)
            return recorded.gradients(params, rows if plan.keys is None else (rows, plan.keys[plan.rows[k]]), frozen)

    def factors(k: Array, carry: Carry) -> tuple[list[Multipliers], Array]:
        return multipliers(carry.gradients, jnp.arange(len(carry.gradients[0].values)) < plan.used[k], lattice)

    def added(k: Array, carry: Carry, found: list[Multipliers], valid: Array) -> list[Array]:
        before = [jnp.where(plan.begins[k], 0.0, one) for one in carry.sums]
        if way is None or not way.apart:
            return added_up(before, carry.gradients, found, valid, lattice)
        nothing = [jnp.zeros(math.prod(shape)) for shape in (*way.slices.shapes, ())]
        new = added_up(nothing, carry.gradients, found, valid, lattice)
        return [old + one for old, one in zip(before, way.slices.scattered(arranged(new)), strict=True)]

    def made(k: Array, carry: Carry, sums: list[Array]) -> tuple[State, Array]:
        step = plan.steps[k]
        drawn = (noise[0][step], noise[1][step])
        scale, *numbers = schedule.scales[step], schedule.step_sizes[step], schedule.weights[step]
        if way is not None:
            state, count = shared_step(carry.state, own(sums), drawn, scale, *numbers, way=way)
            return state, carry.finite + count
        mean, count = with_noise(arranged(sums), drawn, scale, dtype)
        with jax.enable_x64(x64):
            return stepped(carry.state, mean, *numbers, optimizer=optimizer), carry.finite + count

    def body(k: Array, carry: Carry) -> Carry:
        found, valid = _only_if(k > 0, lambda: factors(k, carry), lambda: _zeros(lambda: factors(k, carry)))
        sums = _only_if(k > 0, lambda: added(k, carry, found, valid), lambda: carry.sums)
        now = carry.state, carry.finite
        state, finite = _where(plan.ends[k], lambda: made(k, carry, sums), now, exchanged=way is not None)
        # Stored before it is used: all microbatches of the next step must see the same weights, whatever a compiler fuses.
        state = jax.lax.optimization_barrier(state)
        following = _only_if(k < plan.count, lambda: gradients(state.params, k), lambda: carry.gradients)
        return Carry(state, following, sums, finite)

    sizes = [leaf.size for leaf in jax.tree.leaves(state.params)]
    first = Carry(
        state,
        _zeros(lambda: gradients(state.params, jnp.int32(0))),
        [*map(jnp.zeros, way.slices.widths if way is not None and way.apart else (*sizes, 1))],
        jnp.zeros(()),
    )
    last = in_groups(plan.count + 1, body, first, len(plan.rows))
    return last.state, own(last.sums), last.finite


def _zeros(made: Callable[[], T]) -> T:
    """Zeros of the shapes of what would be made."""
    return jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), jax.eval_shape(made))


def _only_if(needed: Array, new: Callable[[], T], instead: Callable[[], T]) -> T:
    """``new()``, or ``instead()`` where a processor can do without; what a branch returns is in memory."""
    return new() if accelerated() else jax.lax.cond(needed, new, instead)


def _where(condition: Array, new: Callable[[], T], old: T, exchanged: bool) -> T:
    """``new()`` where the condition holds, and ``old`` elsewhere.

    An accelerator computes both, since its host would have to know which; unless devices have ``exchanged`` something.
    """
    if exchanged or not accelerated():
        return jax.lax.cond(condition, new, lambda: old)
    return jax.tree.map(lambda after, before: jnp.where(condition, after, before), new(), old)


@dataclass(frozen=True, eq=False)
class CompiledLoop(Loop):
    """The loop of one process and one device; ``ahead`` has the next batches, if they are drawn already."""

    ahead: list[Any] = field(default_factory=list[Any])

    @cached_property
    def most(self) -> int:
        """The most records of a device."""
        return self.own

    @cached_property
    def held(self) -> Tree | None:
        """The records in the accelerator's memory; None where they are taken from the host's, a chunk at a time."""
        columns = jax.tree.leaves(self.summed.examples)
        fits = accelerated() and sum(column.nbytes for column in columns) <= memory() * RECORDS
        return jax.device_put(self.summed.examples) if fits else None

    @cached_property
    def room(self) -> int:
        every, (numbers, size) = self.checkpoint and interval(self.run, self.checkpoint.every), room_of_a_chunk()
        most = chunk_length(self.run, self.summed.weights, numbers=int(numbers))
        if self.held is None:
            row = sum(column[:1].nbytes for column in jax.tree.leaves(self.summed.examples))
            most = max(1, min(most, int(size / max(1, row * max(self.summed.micro, self.summed.usual)))))
        return divisor(math.gcd(every or 0, self.validation.every if self.validation else 0), most)

    @property
    def kind(self) -> Kind:
        """That of the compiled loop."""
        summed = self.summed
        return Kind(summed.recorded, self.optimizer, summed.lattice, summed.dtype, summed.x64, None)

    def compiled(self, state: State) -> tuple[Any, ...]:
        """What distinguishes the compiled loop from others, beside ``summed.compiled``: all that its shapes follow from."""
        sizes = self.room, self.most, self.summed.usual, self.run.is_full_batch, self.held is None
        return self.optimizer, jax.tree.structure(state), *sizes

    def sums_of(self, state: State, examples: Tree, index: NDArray[np.int32], used: int) -> NDArray[np.float64]:
        """What the compiled loop adds up for the first ``used`` of a microbatch of made-up examples, as many as there are records.

        With keys, ``examples`` are pairs of examples and keys.
        """
        plan = self._made_plan(examples, index, steps=1)
        return self._sums(state, examples, plan._replace(used=np.minimum(plan.used, np.int32(used))))

    def sums_in_turns(self, state: State, examples: Tree, index: NDArray[np.int32]) -> tuple[NDArray[np.float64], ...]:
        """The sums over two microbatches of a second step, and what they are when the two change places."""
        plan = self._made_plan(examples, index, steps=2)
        turned = plan.rows.copy()
        turned[2:4] = plan.rows[3:1:-1]
        return self._sums(state, examples, plan), self._sums(state, examples, plan._replace(rows=turned))

    def _made_plan(self, examples: Tree, index: NDArray[np.int32], steps: int) -> Plan:
        """``steps`` with the same batch of made-up examples."""
        records = index if self.run.is_full_batch and not self.keyed else np.tile(index, steps)
        keys = examples[1][records] if self.keyed else None
        return self._planned([(Batches(records, np.full(steps, len(index), np.int32)), keys)])

    def _sums(self, state: State, examples: Tree, plan: Plan) -> NDArray[np.float64]:
        """The sums of the last step of a plan with made-up examples, and without noise."""
        examples = examples[0] if self.keyed else examples
        examples, plan = self._gathered(examples, plan) if self.held is None else (self._repeated(examples), plan)
        each, ones = np.full(self.room, self.summed.lattice.unit / self.summed.micro), np.ones(self.room, self.summed.dtype)
        schedule = Schedule(each, each, each, ones / 10, ones)
        with jax.enable_x64(True):
            return self._flat(self._compiled(self.divided(state), examples, plan, schedule, self._silence())[1])

    def _flat(self, sums: list[Array]) -> NDArray[np.float64]:
        return np.concatenate(jax.device_get(sums))

    def _silence(self) -> Halves:
        """Noise of zero."""
        nothing = jnp.zeros((self.room, -(-(self.summed.weights + 1) // 2)))
        return nothing, nothing

    def _noise(self, deviations: NDArray[np.float64]) -> Halves:
        """The noise of the steps of a chunk."""
        return self.noise.rows(deviations, self.room)

    def _repeated(self, examples: Tree) -> Tree:
        """As many examples as there are records, the same ones again and again."""
        return _repeated(examples, count=self.own)

    def _compiled(self, state: State, examples: Tree, plan: Plan, schedule: Schedule, noise: Halves) -> Any:
        run = repeatable(run_chunk, "kind", way=self.summed.way)
        return run(state, examples, self.summed.frozen, plan, schedule, noise, kind=self.kind)

    def _chunk(self, reached: Progress, end: int, plans: Iterator[Batches] | None) -> Progress:
        run, begin = self.run, reached.ledger.done
        plan = self._joined(self.ahead.pop() if self.ahead else self._next(plans, begin, end))
        how = self.schedule(begin, end)
        schedule, examples = Schedule(*(stretched(one, self.room) for one in how)), self.held
        noise = self._noise(how.deviations)
        if examples is None:
            examples, plan = self._gathered(self.summed.examples, plan)
        if self.progress is not None:
            self.progress(begin, run.steps)
        drawn, after = self.generator.drawn, min(2 * end - begin, run.steps)
        with ThreadPoolExecutor(1) as thread:  # Batches are no numbers that anybody sees, as those of the noise are.
            ahead = [thread.submit(self._next, plans, end, after)] if after > end else []
            with jax.enable_x64(True):
                state, _, found = self._compiled(reached.state, examples, plan, schedule, noise)
        self.ahead.extend(one.result() for one in ahead)
        each = self.summed.lattice.tally
        self.finite.add(float(found) / each, math.sqrt((how.deviations**2).sum()) / each, float(how.sizes.sum()))
        self.check(state, end)
        return Progress(state, reached.best, reached.scores, replace(reached.ledger, done=end), drawn)

    def _next(self, plans: Iterator[Any] | None, begin: int, end: int) -> Any:
        """What the next chunk needs of the host, drawn while another one is computed."""
        return self._planned([self._taken(None if plans is None else next(plans), end - begin, self.own)])

    def _joined(self, drawn: Any) -> Plan:
        """The microbatches of the next chunk, of what was drawn."""
        return drawn

    def _taken(self, batch: Batches | None, steps: int, own: int) -> Taken:
        """Batches among ``own`` records, or all of them, and keys for them."""
        if batch is None:  # One list for all steps, unless their keys differ.
            everybody = np.arange(own, dtype=np.int32)
            records = np.tile(everybody, steps) if self.keyed else everybody
            batch = Batches(records, np.full(steps, own, np.int32))
        return batch, draw_keys(self.generator, int(batch.counts.sum())) if self.keyed else None

    def _planned(self, taken: list[Taken]) -> Plan:
        """The microbatches that are made of batches."""
        ((batch, keys),) = taken
        return self._packed(batch, keys, self._parts(batch))

    def _parts(self, batch: Batches) -> NDArray[Any]:
        """How many microbatches each step takes."""
        return np.maximum(1, -(-batch.counts // self.summed.micro))

    def _packed(self, batch: Batches, keys: NDArray[np.uint32] | None, parts: NDArray[Any]) -> Plan:
        """Batches as rows of microbatches, of which each step has so many."""
        micro, counts = self.summed.micro, batch.counts
        firsts, count, usual = np.cumsum(parts) - parts, int(parts.sum()), -(-self.summed.usual // micro)
        steps = np.repeat(np.arange(len(counts), dtype=np.int32), parts)
        number = np.arange(count) - firsts[steps]  # of a microbatch in its batch
        length = _rounded_up(max(count, self.room * usual + self.room // _MORE))
        longer = length + LARGEST  # one more entry, and as many as the loop may go on
        if self.run.is_full_batch and keys is None:
            rows, height, places = number, int(parts.max()), np.arange(len(batch.records))
        else:
            rows, height = np.arange(count), length
            places = np.arange(len(batch.records)) + np.repeat(firsts * micro - (np.cumsum(counts) - counts), counts)

        def filled(values: NDArray[Any]) -> NDArray[Any]:
            room = np.zeros((height * micro, *values.shape[1:]), values.dtype)
            room[places] = values
            return room.reshape(height, micro, *values.shape[1:])

        def late(values: NDArray[Any]) -> NDArray[Any]:
            return stretched(np.append(np.zeros(1, values.dtype), values), longer)

        return Plan(
            count=np.int32(count),
            records=filled(batch.records),
            keys=None if keys is None else filled(keys),
            rows=stretched(rows.astype(np.int32), longer),
            used=late(np.clip(counts[steps] - number * micro, 0, micro).astype(np.int32)),
            steps=late(steps),
            begins=late(number == 0),
            ends=late(number == parts[steps] - 1),
        )

    def _gathered(self, examples: Tree, plan: Plan) -> tuple[Tree, Plan]:
        """The examples of a chunk, in the order in which it takes them."""
        return jax.tree.map(lambda column: column.take(plan.records, 0), examples), plan._replace(records=None)


@partial(jax.jit, static_argnames="count")
def _repeated(examples: Tree, *, count: int) -> Tree:
    """``count`` examples, the same ones again and again."""
    return jax.tree.map(lambda column: column[jnp.arange(count) % len(column)], examples)


def _rounded_up(size: int) -> int:
    """One of few sizes, so that few loops are compiled."""
    return 1 << (size - 1).bit_length() if size < _FEW else rounded_up(size)
