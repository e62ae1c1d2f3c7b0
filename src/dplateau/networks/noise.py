"""The noise of a network's steps, in whole units of its lattice.

On processors the random words come from ``SecureGenerator``. An accelerator makes them itself, by ChaCha20: the generator gives a
fresh key for every chunk of steps, and the number of the step in its chunk is the nonce, or 0 where all are drawn at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.spec import Generator
from dplateau.training import SecureGenerator
from dplateau.training.chacha20 import random_words
from dplateau.training.chunks import stretched
from dplateau.training.exact_products import accelerated
from dplateau.training.normals import WORDS, normals

Array: TypeAlias = Any
Halves: TypeAlias = tuple[Array, Array]


class Noise:
    """Noise for ``entries`` numbers a step.

    It is an array in memory before anything is added to it: were it computed where it is used, and used twice, a compiler might
    compute it twice, and differently.
    """

    def __init__(self, generator: SecureGenerator, entries: int) -> None:
        self._generator, self._entries = generator, entries
        self._on_device = accelerated()
        self._memory = generator.memory_for(entries)

    @property
    def source(self) -> Generator:
        """What to write in a certificate."""
        own = self._generator.source
        return Generator("ChaCha20", own.key) if self._on_device else own

    def steps(self, deviations: Any) -> Iterator[Halves]:
        """The noise of each step of a chunk, drawn when it is asked for: integers in two halves, the last one perhaps unused.

        ``deviations`` are those of the steps, in units.
        """
        key = self._generator.key() if self._on_device else None
        for number, deviation in enumerate(deviations):
            with jax.enable_x64(True):
                if key is None:
                    noise = jax.block_until_ready(_rounded(self._generator.normal_words(self._entries, self._memory), deviation))
                else:
                    noise = _rounded(_drawn(key, np.array([number, 0, 0], np.uint32), shape=(WORDS, self._pairs)), deviation)
            yield noise

    def rows(self, deviations: NDArray[np.float64], length: int) -> Halves:
        """The noise of all steps of a chunk, drawn at once: a row for each step in each half, and zeros up to ``length``."""
        deviations, steps = stretched(deviations, length), len(deviations)
        with jax.enable_x64(True):
            if self._on_device:
                words = _drawn(self._generator.key(), np.zeros(3, np.uint32), shape=(length, WORDS, self._pairs))
            else:
                words = self._generator.normal_words(2 * steps * self._pairs).reshape(steps, WORDS, self._pairs)
                words = stretched(words, length)
            return _rounded(words, deviations[:, None])

    @property
    def _pairs(self) -> int:
        return -(-self._entries // 2)


@jax.jit
def _rounded(words: Array, deviation: Array) -> Halves:
    """Normal numbers of words that have three of each pair along their last axis but one, in whole units."""
    first, second = normals(jnp.unstack(words, axis=-2))
    return jnp.rint(first * deviation), jnp.rint(second * deviation)


@partial(jax.jit, static_argnames="shape")
def _drawn(key: Array, nonce: Array, *, shape: tuple[int, ...]) -> Array:
    """Random words in this shape; a function of its own, so that no compiler makes them where they are used, several times."""
    return random_words(key, nonce, math.prod(shape)).reshape(shape)
