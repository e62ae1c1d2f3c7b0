"""Random keys for losses that want them: one for each example and step, drawn like batches and noise.

A key comes from ``SecureGenerator``, 64 bits for each example of a batch, and not from one key of the step and the example's place:
then what an example contributes would depend on who else is in the batch. Drawn for itself, the key is a part of the record; see
``docs/proofs/arithmetic.md``, section 8.7. No noise is made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from dplateau.training import SecureGenerator

Tree: TypeAlias = Any

_KIND: Final = "threefry2x32"
"""Its numbers depend on the key alone; those of ``rbg`` do not under ``vmap``."""
NO_KEY: Final = np.zeros(2, np.uint32)
"""What a key looks like."""


@dataclass(frozen=True)
class Keyed:
    """``loss(params, example, key)`` as a loss of parameters and (example, bits of its key)."""

    loss: Callable[..., Any]

    def __call__(self, params: Tree, example: Tree) -> Any:
        rows, bits = example
        return self.loss(params, rows, jax.random.wrap_key_data(bits, impl=_KIND))


def draw_keys(generator: SecureGenerator, count: int) -> NDArray[np.uint32]:
    """The bits of ``count`` keys, independent and uniform, in rows of two words."""
    return generator.integers(1 << 32, (count, 2)).astype(np.uint32)
