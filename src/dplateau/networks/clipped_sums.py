"""The sum of the clipped gradients of a batch: microbatches, threads, no recompilation and no truncation.

A microbatch takes three compiled functions: the gradients of its examples in the precision of the parameters, what each is
multiplied by, and the sum of the products, rounded to integers (``rounded.py``). Three, because a compiler may compute a value
twice within a function, and differently: the norm must be that of the numbers which are added.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.networks.device import largest_microbatch, repeatable
from dplateau.networks.lattice import Lattice
from dplateau.networks.noise import Halves
from dplateau.networks.recorded import RecordedLoss
from dplateau.networks.rounded import Factors, Gradient, Multipliers, added_up, multipliers
from dplateau.spec import Run
from dplateau.spec.schedule import largest
from dplateau.training.exact_products import accelerated
from dplateau.training.settings import usual

Array: TypeAlias = Any
Tree: TypeAlias = Any

_CACHED: Final = 1 << 21
"""Numbers of a microbatch of a few examples that fit a processor's cache."""
_SHARED: Final = 3 << 18
"""Numbers of a batch from which on a second thread saves time."""
_SMALL: Final = 1 << 22
"""Numbers of a batch up to which XLA's own threads do as well as ours."""
_MOST, _ENOUGH = 128, 5 << 17
"""More examples in a microbatch are no faster on a processor, where their sum is small and they have so many numbers."""
_BESIDE: Final = 2
"""Numbers of a microbatch for each of its sum, at least: the sum is written, and added to that of the others."""
_BLOCK: Final = 8


class ClippedSums:
    """The sum of the clipped gradients of a batch, in one row of integers, and one more for the count of finite gradients."""

    def __init__(
        self,
        run: Run,
        recorded: RecordedLoss,
        params: Tree,
        examples: Tree,
        lattice: Lattice,
        microbatch: int | None,
        workers: int | None,
        frozen: Sequence[Array] = (),
        own: int | None = None,
    ) -> None:
        own = run.n if own is None else own
        expected = largest(run.sampling.divisors(run.n)) * own / run.n
        likely = min(own, run.sampling.largest_likely(expected))
        cpu = not accelerated()
        footprint = max(1, recorded.footprint)
        self.weights = sum(leaf.size for leaf in jax.tree.leaves(params))
        self.small = workers in (None, 1) and likely * footprint <= _SMALL
        threads = cpu and not self.small
        self._workers = workers or (min(os.cpu_count() or 1, 1 + likely * footprint // _SHARED) if threads else 1)
        self.usual = min(likely, math.ceil(expected + 2 * math.sqrt(expected)))  # most batches have no more
        share = -(-self.usual // self._workers)
        if cpu:
            fits = min(1 << max(3, (_CACHED // footprint).bit_length() - 1), _MOST)
            fits = max(fits, _ENOUGH // footprint, _BESIDE * self.weights // footprint)
        else:
            fits = largest_microbatch(footprint)
        # As equal as they can be. Kernels treat what is left over of a block in another way: by default nothing is.
        self.micro = microbatch or _BLOCK * -(-share // (-(-share // fits) * _BLOCK))
        self._pool = ThreadPoolExecutor(self._workers) if self._workers > 1 else None
        self.dtype = jax.tree.leaves(params)[0].dtype
        self.recorded, self.lattice, self.examples, self.frozen = recorded, lattice, examples, tuple(frozen)
        self.x64 = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
        self._precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
        self.way = 0

    @property
    def compiled(self) -> tuple[Any, ...]:
        """What distinguishes the compiled functions for one loss: JAX compiles anew where one of its settings is another."""
        of_threads = self._pool and self._pool.submit(_settings).result()  # They may have others than the one that asks.
        return self.micro, self.x64, self._precision, self.lattice, self.way, _settings(), of_threads

    def __call__(self, params: Tree, batch: NDArray[np.int32], keys: NDArray[np.uint32] | None = None) -> NDArray[np.float64]:
        """In units of the lattice; every record of the batch is in it, with its key where the loss takes one."""
        return np.concatenate(self.leaves(params, batch, keys))

    def leaves(self, params: Tree, batch: NDArray[np.int32], keys: NDArray[np.uint32] | None = None) -> list[Array]:
        """The same, each leaf in a row of its own, the last one of the count."""
        with jax.enable_x64(True):
            return _whole(self._parts(params, batch, keys), recorded=self.recorded)

    def noisy_mean(
        self, params: Tree, batch: NDArray[np.int32], keys: NDArray[np.uint32] | None, noise: Halves, scale: float
    ) -> tuple[list[Array], Array]:
        """The sum with noise in units, a number for each of its own, times ``scale``, in the precision of the weights, each leaf in
        one row; and the noisy count, which is not scaled.
        """
        with jax.enable_x64(True):
            return _noisy_mean(self._parts(params, batch, keys), noise, scale, recorded=self.recorded, dtype=self.dtype)

    def _parts(self, params: Tree, batch: NDArray[np.int32], keys: NDArray[np.uint32] | None) -> list[list[Array]]:
        """The sums that make up that over a batch, one of each thread."""
        micros = [batch[k : k + self.micro] for k in range(0, len(batch), self.micro)]
        drawn = [None if keys is None else keys[k : k + self.micro] for k in range(0, len(batch), self.micro)]
        shares = [slice(k, None, self._workers) for k in range(min(self._workers, max(1, len(micros))))]
        mapped = self._pool.map if self._pool else map
        return list(mapped(partial(self._part, params), ((micros[share], drawn[share]) for share in shares)))

    @usual()
    def _part(self, params: Tree, share: tuple[list[NDArray[np.int32]], list[NDArray[np.uint32] | None]]) -> list[Array]:
        """The sum over some microbatches, by one thread."""
        totals: list[Array] = [np.zeros(size) for size in (*(leaf.size for leaf in jax.tree.leaves(params)), 1)]
        memory = jax.tree.map(lambda column: np.empty((self.micro, *column.shape[1:]), column.dtype), self.examples)
        for micro, keys in zip(*share, strict=True):
            jax.block_until_ready(totals)  # What used the rows before these has ended.
            index = self._filled(micro)
            rows = jax.tree.map(lambda column, out, index=index: column.take(index, 0, out, "clip"), self.examples, memory)
            rows = rows if keys is None else (rows, self._filled(keys))
            gradients, valid, found = self._contributions(params, rows, np.arange(self.micro) < len(micro))
            with jax.enable_x64(True):
                totals = _added(totals, gradients, found, valid, lattice=self.lattice)
        return totals

    def _filled(self, some: NDArray[Any]) -> NDArray[Any]:
        """As many as a microbatch has, with zeros at the end."""
        return np.concatenate([some, np.zeros((self.micro - len(some), *some.shape[1:]), some.dtype)])

    def contributions(self, params: Tree, rows: Tree) -> tuple[list[Gradient], Array, list[Multipliers]]:
        """The gradients of a microbatch, which of them are finite, and what each is multiplied by: each example for itself.

        A thread may have other settings of JAX than the one that asks, so it is a thread that always computes, if there are some.
        """
        work = usual()(partial(self._contributions, params, rows, np.ones(self.micro, bool)))
        return self._pool.submit(work).result() if self._pool else work()

    def _contributions(self, params: Tree, rows: Tree, used: NDArray[np.bool]) -> tuple[list[Gradient], Array, list[Multipliers]]:
        with jax.enable_x64(self.x64), jax.default_matmul_precision(self._precision):  # Every thread has to be told.
            compiled = repeatable(_gradients, "recorded", way=self.way)
            gradients = compiled(params, rows, self.frozen, recorded=self.recorded)
        with jax.enable_x64(True):
            found, valid = _multipliers(gradients, used, lattice=self.lattice)
        return gradients, valid, found

    def products(self, params: Tree, keyed: bool) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Shapes of the matrices whose products are added up; nothing is computed."""
        shaped = lambda column: jax.ShapeDtypeStruct((self.micro, *column.shape[1:]), column.dtype)  # noqa: E731
        rows = jax.tree.map(shaped, self.examples)
        with jax.enable_x64(self.x64):
            given = (rows, jax.ShapeDtypeStruct((self.micro, 2), np.uint32)) if keyed else rows
            found = jax.eval_shape(partial(_gradients, recorded=self.recorded), params, given, self.frozen)
        return {(one.inputs.shape[::-1], one.values.shape) for one in found if isinstance(one, Factors)}

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._pool.shutdown()


def _settings() -> tuple[str, ...]:
    """JAX's settings, as this thread has them."""
    return tuple(repr(getattr(jax.config, name, None)) for name in sorted(jax.config.values))


def _gradients(params: Tree, rows: Tree, frozen: Sequence[Array], *, recorded: RecordedLoss) -> list[Gradient]:
    return recorded.gradients(params, rows, frozen)


_multipliers = jax.jit(multipliers, static_argnames="lattice")


_added = jax.jit(added_up, static_argnames="lattice", donate_argnums=0)


@partial(jax.jit, static_argnames="recorded")
def _whole(parts: list[list[Array]], *, recorded: RecordedLoss) -> list[Array]:
    """The sum of parts. All are integers, so no order of the additions matters."""
    first, *others = parts
    for other in others:
        first = [total + one for total, one in zip(first, other, strict=True)]
    return [*recorded.arranged(first[:-1]), first[-1]]


@partial(jax.jit, static_argnames=("recorded", "dtype"))
def _noisy_mean(
    parts: list[list[Array]], noise: Halves, scale: Array, *, recorded: RecordedLoss, dtype: Any
) -> tuple[list[Array], Array]:
    return with_noise(_whole(parts, recorded=recorded), noise, scale, dtype)


def with_noise(sums: Sequence[Array], noise: Halves, scale: Array, dtype: Any) -> tuple[list[Array], Array]:
    """The sums but for the last one with noise, times ``scale``, as numbers of type ``dtype``; and the last one, a count, with
    noise.
    """
    rows: list[Array] = []
    begin = 0
    for one in sums:
        rows.append(one + _between(noise, begin, begin + one.size))
        begin += one.size
    return [(row * scale).astype(dtype) for row in rows[:-1]], rows[-1][0]


def _between(halves: Halves, begin: int, end: int) -> Array:
    """A part of what two arrays are in one row, without putting them together."""
    half = len(halves[0])
    parts = [halves[0][begin:end], halves[1][max(0, begin - half) : max(0, end - half)]]
    return jnp.concatenate([part for part in parts if len(part)] or parts)
