"""The steps of a network whose records lie in several processes.

Each process sums the clipped gradients of its own part of a batch. The sums are added and scattered over slices of the weights,
each process adds the noise of its own slice, and the noisy slices are gathered (``docs/proofs/several-processes.md``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import ArrayLike, NDArray

from dplateau.networks.by_entry import by_entry
from dplateau.networks.checkpoint import Checkpoint
from dplateau.networks.loop import Loop, Progress, Schedule, State, T
from dplateau.networks.noise import Halves, Noise
from dplateau.networks.slices import LeafSlices, Way, shared_step
from dplateau.networks.trainable import digest_of
from dplateau.networks.validation import Score
from dplateau.spec import InputError, Run
from dplateau.training import SecureGenerator
from dplateau.training.batches import Batches, own_batches
from dplateau.training.charged import Budgeted
from dplateau.training.chunks import chunk_length
from dplateau.training.cluster import APART, SAME, Cluster
from dplateau.training.exact_products import accelerated
from dplateau.training.persons import Names, checked_groups, names_of, twice
from dplateau.training.shared import LOOKED_AT, agree_on_call, check_apart, check_ledger, common_key, compare_labels, unlike

Array: TypeAlias = Any
Tree: TypeAlias = Any


def check_cluster(cluster: Cluster, checkpoint: Checkpoint | None, generator: SecureGenerator) -> None:
    """Raise ``InputError`` unless a network's run can be shared by the processes."""
    if cluster.own != 1 and not accelerated():
        raise InputError(
            f"this process has {cluster.own} devices that are processors: a network takes one of each process, with all its cores."
        )
    if checkpoint is not None and generator.insecure:
        raise InputError(
            "the generator has an insecure seed, and a checkpoint does not say what each process drew: leave out one of the two."
        )


def prepared_together(
    cluster: Cluster, run: Run, ledger: Budgeted | None, groups: ArrayLike | None, prepared: Callable[[], tuple[Loop, State]]
) -> tuple[Loop, State]:
    """What ``prepared`` gives, if it went well in all processes, which are about to do the same on records of their own.

    Raises
    ------
    InputError
        In every process: they disagree, or two have the same records, person or generator.
    """
    agree_on_call(cluster, "train_network", run)
    check_ledger(cluster, ledger)
    loop, state = cluster.together(prepared)
    checks, sizes = loop.validation, loop.sizes if isinstance(loop, SharedLoop) else ()
    settings = (
        *(loop.keyed, loop.average, str(loop.summed.dtype), chunk_length(run, loop.summed.weights), str(loop.generator.source)),
        *(sizes, loop.checkpoint and loop.checkpoint.every, checks and (checks.every, checks.patience, checks.keep_best)),
    )
    update = loop.optimizer and loop.optimizer.update
    cluster.agree(
        {
            "loss": _program(loop.summed.recorded.jaxpr),
            "optimizer": "" if update is None else _program(jax.make_jaxpr(update)(state.params, state.optimizer, state.params)),
            "first iterate": f"{_digest(state)} {loop.parts.digest}",
            "setting": repr(settings),
        }
    )
    unlike(cluster, "generator", loop.generator.mark())
    check_apart(cluster, run, loop.own, [column[:LOOKED_AT] for column in jax.tree.leaves(loop.summed.examples)])
    if run.unit == "person":
        compare_labels(cluster, lambda key: _names(groups, loop.own, key))
    return loop, state


def check_groups(run: Run, groups: object, *, shared: bool) -> None:
    """Raise ``InputError`` unless there are labels of the examples where several processes compare them, and nowhere else."""
    wanted = shared and run.unit == "person"
    if wanted and groups is None:
        raise InputError("a record of the run is a person: give groups, one label an example, which the processes compare.")
    if groups is not None and not wanted:
        raise InputError("groups are for persons as examples on several processes: leave them out.")


def _names(groups: Any, own: int, key: bytes) -> Names:
    """Whose the examples are."""
    names = names_of(checked_groups(groups, own), key)
    if twice(names.numbers):
        raise InputError("two examples have the same label in groups: an example is all that belongs to one person.")
    return names


def _program(traced: Any) -> str:
    """What a traced function computes, with the arrays that it holds, but not where in memory its parts are."""
    return re.sub(" at 0x[0-9a-f]+", "", f"{traced} {digest_of('', traced.consts)}")


def _digest(state: State) -> str:
    return digest_of(str(jax.tree.structure(state)), jax.tree.leaves(state))


@dataclass(frozen=True, eq=False)
class SharedLoop(Loop):
    """The loop of one of several processes, all of which make the same steps."""

    cluster: Cluster = None  # type: ignore[assignment]

    @property
    def processes(self) -> int:
        return self.cluster.processes

    @property
    def apart(self) -> bool:
        """Whether devices keep slices of the parameters, too, where the optimizer allows it.

        Memory is scarce on accelerators. Processors would wait for one another at every microbatch.
        """
        return accelerated()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the compiled program, if all processes run the same one."""
        return ()

    @cached_property
    def shapes(self) -> State:
        """Those of the whole state."""
        start = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, self.parts.start))
        inner = () if self.optimizer is None else jax.eval_shape(self.optimizer.init, start)
        return State(start, inner, start if self.average else ())

    @cached_property
    def way(self) -> Way:
        """How the processes make a step."""
        slices = LeafSlices(self.cluster.mesh.size, tuple(leaf.shape for leaf in jax.tree.leaves(self.shapes.params)))
        optimizer = self.optimizer
        if optimizer is not None:
            optimizer = by_entry(optimizer, self.shapes.params, self.shapes.optimizer, slices.width) or optimizer
        return Way(slices, self.apart, optimizer, self.summed.dtype, self.summed.x64)

    @cached_property
    def noise(self) -> Noise:
        """That of the own slices."""
        return Noise(self.generator, self.way.slices.total)

    def once(self, work: Callable[[], T]) -> T | None:
        """Done by process 0; an error there is one in every process."""
        return self.cluster.together(lambda: work() if self.cluster.first else None)

    def run_from(self, first: Progress) -> Progress:
        """All steps that are left; raises ``ProcessLost`` where another process is gone."""
        with self.cluster.watched():
            return super().run_from(first)

    def _interrupted(self, reached: Progress) -> None:
        """Nothing is kept: another process may have gone on, and its steps be seen. They count as lost."""

    def _plans(self, length: int, done: int) -> Iterator[Batches] | None:
        if self.run.is_full_batch:
            return None
        (plans,) = self._plans_of([slice(0, self.own)], length, done)
        return plans

    def _plans_of(self, parts: list[slice], length: int, done: int) -> list[Iterator[Batches]]:
        """The batches of parts of the own records."""
        key, first = common_key(self.cluster, self.run, self.generator), self.cluster.before(self.own)
        return [
            own_batches(self.run, length, self.generator, key, first + part.start, part.stop - part.start, done) for part in parts
        ]

    def divided(self, state: State) -> State:
        def placed(leaf: Array, spec: PartitionSpec) -> jax.Array:
            values, devices = np.asarray(leaf), self.cluster.mesh.size
            if spec == SAME:
                return self.cluster.put(values)
            return self.cluster.divided(np.pad(values.reshape(-1), (0, -values.size % devices)))

        return jax.tree.map(placed, state, self.way.specs(state))

    def whole(self, state: State) -> State:
        return jax.tree.map(self._whole, state, self.shapes)

    def model(self, state: State) -> Tree:
        kept, shapes = (State(one.params, (), one.mean).model for one in (state, self.shapes))
        return jax.tree.map(self._whole, kept, shapes)

    def _whole(self, leaf: jax.Array, like: Any) -> Array:
        """A leaf of the state, in its own shape."""
        return self.cluster.whole(leaf).reshape(-1)[: like.size].reshape(like.shape)

    def _stepped(
        self, state: State, records: NDArray[np.int32], keys: NDArray[np.uint32] | None, noise: Halves, how: Schedule, k: int
    ) -> tuple[State, Array]:
        sums, way = self.summed.leaves(local(state.params), records, keys), self.way
        with jax.enable_x64(True):
            parts = jax.tree.map(lambda one: self.cluster.joined([one]), (sums, noise))
            numbers = how.scales[k], how.step_sizes[k], how.weights[k]
            state, count = _shared_step(state, *parts, *numbers, way=way, mesh=self.cluster.mesh)
        return state, count.addressable_data(0)

    def _chunk(self, reached: Progress, end: int, plans: Iterator[Batches] | None) -> Progress:
        reached = super()._chunk(reached, end, plans)
        if not self.way.by_slices:  # Slices are computed once, and the same everywhere.
            found = self.cluster.exchanged(np.frombuffer(bytes.fromhex(_digest(local(reached.state))), np.uint8))
            if (found != found[0]).any():
                raise InputError(
                    f"the models of the processes differ after {end:,} steps, since their processors round otherwise, and would"
                    " drift apart: use machines of one kind, or an optimizer that treats every weight by itself. Nothing was"
                    " released, but for the checkpoint and the scores, if any."
                )
        return reached

    def _score(self, model: Tree, done: int) -> Score:
        found = self.once(lambda: super(SharedLoop, self)._score(model, done))
        return Score(done, float(self.cluster.exchanged(np.array(found.score if found else 0.0))[0]))

    def _content(self, like: list[NDArray[Any]]) -> bytes | None:
        content = self.once(partial(super()._content, like))
        found = self.cluster.told(b"" if content is None else b"+" + content)
        return found[1:] if found else None


@partial(jax.jit, static_argnames=("way", "mesh"))
def _shared_step(state: State, sums: list[Array], noise: Halves, *numbers: Array, way: Way, mesh: Mesh) -> tuple[State, Array]:
    """``shared_step`` with the own sums of each process, and the noise of its slices."""

    def own(state: State, sums: list[Array], noise: Halves, *numbers: Array) -> tuple[State, Array]:
        return shared_step(state, way.slices.scattered(sums), noise, *numbers, way=way)

    specs = way.specs(state)
    inside, outside = (specs, APART, APART, *(SAME for _ in numbers)), (specs, SAME)
    return jax.shard_map(own, mesh=mesh, in_specs=inside, out_specs=outside, check_vma=False)(state, sums, noise, *numbers)


def local(tree: Tree) -> Tree:
    """The own copy of arrays that all have."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
