"""The sum of the clipped gradients of a batch: microbatches, threads, no recompilation and no truncation."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.networks.recorded import RecordedLoss
from dplateau.spec import Run
from dplateau.training import Grid
from dplateau.training.batches import largest_likely_size

Array: TypeAlias = Any
Tree: TypeAlias = Any

_CACHED: Final = 1 << 20
"""Numbers of a microbatch that fit a processor's cache."""
_MOST: Final = 64
"""Examples of a microbatch, at most: more are no faster on a processor."""


class ClippedSums:
    """The sum of the clipped gradients of a batch, in one row."""

    def __init__(
        self,
        run: Run,
        recorded: RecordedLoss,
        params: Tree,
        examples: Tree,
        grid: Grid,
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
        self._micro = microbatch or min(share, min(fits, _MOST) if cpu else likely)
        self._room = -(-share // self._micro) * self._micro
        self._pool = ThreadPoolExecutor(self._workers) if self._workers > 1 else None
        self.dtype = jax.tree.leaves(params)[0].dtype
        self._recorded, self._clip_norm = recorded, np.asarray(grid.clip_norm, self.dtype)
        self._examples = jax.tree.map(jax.device_put, examples)

    def __call__(self, params: Tree, batch: NDArray[np.int32]) -> NDArray[np.float64]:
        """In double precision; every record of the batch is in it."""
        # A batch larger than its public room is cut in more parts, not cut off; the shapes, and so the compiled code, stay.
        count = max(1, -(-len(batch) // self._room), min(self._workers, -(-len(batch) // self._micro)))
        parts = np.array_split(batch, count)
        mapped = self._pool.map if self._pool else map
        sums = list(mapped(partial(self._part, params), parts))
        return np.asarray(np.stack(sums).sum(axis=0, dtype=np.float64))

    def _part(self, params: Tree, part: NDArray[np.int32]) -> NDArray[Any]:
        index = np.zeros(self._room, np.int32)
        index[: len(part)] = part
        arguments = (params, self._examples, index, np.int32(len(part)), self._clip_norm)
        total = np.asarray(clipped_sum(*arguments, recorded=self._recorded, micro=self._micro, finite=False))
        if np.isfinite(total).all():
            return total
        return np.asarray(clipped_sum(*arguments, recorded=self._recorded, micro=self._micro, finite=True))

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._pool.shutdown()


@partial(jax.jit, static_argnames=("recorded", "micro", "finite"))
def clipped_sum(
    params: Tree, examples: Tree, index: Array, count: Array, clip_norm: Array, *, recorded: RecordedLoss, micro: int, finite: bool
) -> Array:
    """Sum over the first ``count`` records of ``index``, ``micro`` at a time; arguments as in ``RecordedLoss.clipped_sum``."""

    def body(k: Array, total: Array) -> Array:
        part = jax.lax.dynamic_slice(index, (k * micro,), (micro,))
        rows = jax.tree.map(lambda column: column.at[part].get(mode="promise_in_bounds"), examples)
        return total + recorded.clipped_sum(params, rows, clip_norm, jnp.arange(micro) + k * micro < count, finite=finite)

    start = jnp.zeros(sum(leaf.size for leaf in jax.tree.leaves(params)), clip_norm.dtype)
    return jax.lax.fori_loop(0, -(-count // micro), body, start)
