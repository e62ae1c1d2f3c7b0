"""The sum of the clipped gradients of a batch: microbatches, threads, no recompilation and no truncation.

A microbatch takes two compiled functions. The first computes the gradients of its examples in the precision of the parameters, the
second clips, rounds and adds them up in integers (``rounded.py``). Two, because a compiler may compute a value twice, and
differently: the norm must be that of the numbers which are added.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.networks.lattice import Lattice
from dplateau.networks.recorded import RecordedLoss
from dplateau.networks.rounded import Gradient, rounded_sum
from dplateau.spec import Run
from dplateau.training.batches import largest_likely_size

Array: TypeAlias = Any
Tree: TypeAlias = Any

_CACHED: Final = 1 << 20
"""Numbers of a microbatch that fit a processor's cache."""
_MOST: Final = 64
"""Examples of a microbatch, at most: more are no faster on a processor."""


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
    ) -> None:
        sizes = run.sampling.divisors(run.n)
        likely = min(run.n, largest_likely_size(run.sampling, max(sizes) if isinstance(sizes, tuple) else sizes))
        cpu = jax.default_backend() == "cpu"
        footprint = max(1, recorded.footprint(params, examples))
        self._workers = workers or (min(os.cpu_count() or 1, 1 + likely * footprint // _CACHED) if cpu else 1)
        share = -(-likely // self._workers)
        fits = 1 << max(3, (_CACHED // footprint).bit_length() - 1)
        self.micro = microbatch or min(share, min(fits, _MOST) if cpu else likely)
        self._pool = ThreadPoolExecutor(self._workers) if self._workers > 1 else None
        self.dtype = jax.tree.leaves(params)[0].dtype
        self._weights = sum(leaf.size for leaf in jax.tree.leaves(params))
        self._recorded, self._lattice, self._examples = recorded, lattice, examples
        self._x64 = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]

    def __call__(self, params: Tree, batch: NDArray[np.int32]) -> NDArray[np.float64]:
        """In units of the lattice; every record of the batch is in it."""
        micros = np.split(batch, range(self.micro, len(batch), self.micro))
        parts = [part for part in (micros[k :: self._workers] for k in range(self._workers)) if part]
        mapped = self._pool.map if self._pool else map
        sums = [np.asarray(total) for total in mapped(partial(self._part, params), parts)]
        return np.sum(sums, axis=0) if sums else np.zeros(self._weights + 1)

    def _part(self, params: Tree, micros: list[NDArray[np.int32]]) -> Array:
        """The sum over some microbatches, by one thread; whether double precision is allowed is a matter of threads."""
        with jax.enable_x64(True):
            total = jnp.zeros(self._weights + 1, jnp.float64)
        for micro in micros:
            index = np.zeros(self.micro, np.int32)
            index[: len(micro)] = micro
            rows = jax.tree.map(lambda column, index=index: column[index], self._examples)
            total, _ = self.added(total, self.gradients(params, rows), np.arange(self.micro) < len(micro))
        return total

    def gradients(self, params: Tree, rows: Tree) -> list[Gradient]:
        """The gradients of a microbatch."""
        with jax.enable_x64(self._x64):
            return _gradients(params, rows, recorded=self._recorded)

    def added(self, total: Array, gradients: list[Gradient], used: NDArray[np.bool]) -> tuple[Array, Array]:
        """The total with the clipped and rounded gradients of the used examples, and what each was multiplied by."""
        with jax.enable_x64(True):
            return _added(total, gradients, used, recorded=self._recorded, lattice=self._lattice)

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._pool.shutdown()


@partial(jax.jit, static_argnames="recorded")
def _gradients(params: Tree, rows: Tree, *, recorded: RecordedLoss) -> list[Gradient]:
    return recorded.gradients(params, rows)


@partial(jax.jit, static_argnames=("recorded", "lattice"), donate_argnums=0)
def _added(total: Array, gradients: list[Gradient], used: Array, *, recorded: RecordedLoss, lattice: Lattice) -> tuple[Array, Array]:
    sums, count, factors = rounded_sum(gradients, used, lattice)
    return total + recorded.arranged([*sums, count[None] * float(lattice.count)]), factors
