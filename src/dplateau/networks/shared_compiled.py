"""The steps of a network on several devices, of one process or of several: a chunk of them is one compiled call.

The devices are accelerators, or processes that train a small network on their processors.

Every device has records of its own and runs the loop of ``compiled.py`` on its own part of every batch. Where a step ends, the
devices add up their sums and share the step as processes do (``slices.py``). A step has as many microbatches on every device, of
which some may have no example.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from dplateau.networks.compiled import CompiledLoop, Kind, Plan, Taken, run_chunk
from dplateau.networks.device import RECORDS, memory, repeatable
from dplateau.networks.loop import Schedule, State
from dplateau.networks.noise import Halves
from dplateau.networks.shared import SharedLoop, local
from dplateau.training.cluster import APART, SAME
from dplateau.training.exact_products import accelerated

Array: TypeAlias = Any
Tree: TypeAlias = Any
_OWN = ("records", "keys", "used")
"""What of a plan each device has for itself."""


@dataclass(frozen=True, eq=False)
class SharedCompiledLoop(SharedLoop, CompiledLoop):
    """The loop of a process that has some of the devices, or all; all devices make the same steps."""

    @cached_property
    def shares(self) -> list[slice]:
        """Which of the own records each own device has."""
        bounds = np.linspace(0, self.own, self.cluster.own + 1).astype(int).tolist()
        return [slice(a, b) for a, b in pairwise(bounds)]

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.summed.micro, self.summed.usual

    @cached_property
    def most(self) -> int:
        return self.cluster.most(max(part.stop - part.start for part in self.shares))[0]

    @cached_property
    def room(self) -> int:
        return -self.cluster.most(-super().room)[0]

    @cached_property
    def held(self) -> Tree | None:
        if not accelerated():
            return None
        size = sum(column[:1].nbytes for column in jax.tree.leaves(self.summed.examples))
        (beyond,) = self.cluster.most(self.most * size > memory() * RECORDS)
        return None if beyond else jax.tree.map(self._by_device, self.summed.examples)

    def _by_device(self, column: NDArray[Any]) -> jax.Array:
        """A column, with room for the most records of a device in each."""
        room = np.zeros((self.cluster.own, self.most, *column.shape[1:]), column.dtype)
        for place, part in enumerate(self.shares):
            room[place, : part.stop - part.start] = column[part]
        return self.cluster.put(room, APART)

    @property
    def kind(self) -> Kind:
        return super().kind._replace(optimizer=None, way=self.way)

    def compiled(self, state: State) -> tuple[Any, ...]:
        return *super().compiled(state), self.cluster.mesh

    def _flat(self, sums: list[Array]) -> NDArray[np.float64]:
        """Those of all devices together, so that all processes judge alike."""
        count = jax.ShapeDtypeStruct((1,), np.float64)
        shapes = [*jax.tree.leaves(self.shapes.params), count]
        return np.concatenate([np.ravel(self._whole(one, like)) for one, like in zip(sums, shapes, strict=True)])

    def _silence(self) -> Halves:
        nothing = self.cluster.put(np.zeros((self.cluster.own, self.room, -(-self.way.slices.total // 2))), APART)
        return nothing, nothing

    def _noise(self, deviations: NDArray[np.float64]) -> Halves:
        found: list[Halves] = []
        for device in self.cluster.mesh.local_devices:
            with jax.default_device(device):
                found.append(super()._noise(deviations))
        with jax.enable_x64(True):
            first, second = (self.cluster.joined([one[None] for one in half]) for half in zip(*found, strict=True))
        return first, second

    def _repeated(self, examples: Tree) -> Tree:
        index = np.arange(self.most) % len(jax.tree.leaves(examples)[0])
        return jax.tree.map(lambda column: self.cluster.put(np.stack([column[index]] * self.cluster.own), APART), examples)

    def _plans(self, length: int, done: int) -> Iterator[Any] | None:
        return None if self.run.is_full_batch else zip(*self._plans_of(self.shares, length, done), strict=True)

    def _next(self, plans: Iterator[Any] | None, begin: int, end: int) -> list[Taken]:
        batches = [None] * self.cluster.own if plans is None else next(plans)
        parts = zip(batches, self.shares, strict=True)
        return [self._taken(batch, end - begin, part.stop - part.start) for batch, part in parts]

    def _joined(self, drawn: Any) -> Plan:
        return self._planned(drawn)

    def _planned(self, taken: list[Taken]) -> Plan:
        """A plan whose arrays of ``_OWN`` have an entry for each own device; made-up batches are the same for all."""
        taken = taken * self.cluster.own if len(taken) == 1 else taken
        parts = self.cluster.exchanged(np.max([self._parts(batch) for batch, _ in taken], axis=0)).max(axis=0)
        plans = [self._packed(batch, keys, parts) for batch, keys in taken]
        own = {name: [getattr(plan, name) for plan in plans] for name in _OWN}
        return plans[0]._replace(**{name: None if one[0] is None else np.stack(one) for name, one in own.items()})

    def _gathered(self, examples: Tree, plan: Plan) -> tuple[Tree, Plan]:
        made = examples is not self.summed.examples
        starts = [0 if made else part.start for part in self.shares]
        assert plan.records is not None
        places = [records + start for records, start in zip(plan.records, starts, strict=True)]
        rows = [jax.tree.map(lambda column, index=index: column.take(index, 0), examples) for index in places]
        # One device needs no copy.
        join = np.stack if self.cluster.own > 1 else lambda columns: columns[0][None]
        stacked = jax.tree.map(lambda *columns: self.cluster.put(join(columns), APART), *rows)
        return stacked, plan._replace(records=None)

    @cached_property
    def _frozen(self) -> tuple[jax.Array, ...]:
        return tuple(self.cluster.put(np.asarray(leaf)) for leaf in self.summed.frozen)

    def _compiled(self, state: State, examples: Tree, plan: Plan, schedule: Schedule, noise: Halves) -> Any:
        own = {name: self.cluster.put(one, APART) for name in _OWN if (one := getattr(plan, name)) is not None}
        run = repeatable(_run_shared, "kind", "mesh", way=self.summed.way)
        how: dict[str, Any] = {"kind": self.kind, "mesh": self.cluster.mesh}
        state, sums, finite = run(state, examples, self._frozen, plan._replace(**own), schedule, noise, **how)
        return state, sums, local(finite)


def _run_shared(
    state: State, examples: Tree, frozen: Any, plan: Plan, schedule: Schedule, noise: Halves, *, kind: Kind, mesh: Mesh
) -> tuple[State, list[Array], Array]:
    """``run_chunk`` on all devices."""

    def own(state: State, examples: Tree, frozen: Any, plan: Plan, schedule: Schedule, noise: Halves) -> Any:
        examples, noise, mine = jax.tree.map(lambda one: one[0], (examples, noise, [getattr(plan, name) for name in _OWN]))
        plan = plan._replace(**dict(zip(_OWN, mine, strict=True)))
        return run_chunk(state, examples, frozen, plan, schedule, noise, kind=kind)

    assert kind.way is not None
    specs, plans = kind.way.specs(state), Plan(*(APART if name in _OWN else SAME for name in Plan._fields))
    inside, outside = (specs, APART, SAME, plans, SAME, APART), (specs, APART, SAME)
    shared = jax.shard_map(own, mesh=mesh, in_specs=inside, out_specs=outside, check_vma=False)
    return shared(state, examples, frozen, plan, schedule, noise)
