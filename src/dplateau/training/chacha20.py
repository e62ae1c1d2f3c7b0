"""ChaCha20 as array operations: random words that an accelerator makes for itself.

The block function is that of RFC 8439 (Y. Nir, A. Langley, "ChaCha20 and Poly1305 for IETF protocols", 2018), section 2.3. On
processors nothing here is used but by tests: the AES instructions behind ``SecureGenerator`` are faster.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = Any

_CONSTANTS: Final = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_COLUMNS: Final = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS: Final = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_DOUBLE_ROUNDS: Final = 10
_PER_BLOCK: Final = 8


def blocks(key: Array, nonce: Array, counter: Array) -> list[Array]:
    """The sixteen words of 32 bits of each block, in arrays of the counter's shape.

    Parameters
    ----------
    key : array of uint32, shape (8,)
        The key, 256 bits.
    nonce : array of uint32, shape (3,)
        What must never come twice with one key.
    counter : array of uint32
        The numbers of the blocks.
    """
    first = [*map(jnp.uint32, _CONSTANTS), *key, counter, *nonce]
    first = [jnp.broadcast_to(word, counter.shape) for word in first]
    # Two double rounds at a time: between iterations an accelerator keeps the words in its memory.
    state = jax.lax.fori_loop(0, _DOUBLE_ROUNDS, _double_round, first, unroll=2)
    return [word + begun for word, begun in zip(state, first, strict=True)]


def random_words(key: Array, nonce: Array, count: int) -> Array:
    """``count`` words of 64 bits, at most 2^35, of the blocks from number 0 on: first one of each block, then the next; to be
    traced with 64 bits.
    """
    found = blocks(key, nonce, jnp.arange(-(-count // _PER_BLOCK), dtype=jnp.uint32))
    low, high = (jnp.stack(found[k::2]).astype(jnp.uint64) for k in range(2))
    return (low | high << jnp.uint64(32)).reshape(-1)[:count]


def _double_round(_: Array, state: list[Array]) -> list[Array]:
    for places in (*_COLUMNS, *_DIAGONALS):
        quarter = _quarter_round(*(state[place] for place in places))
        for place, word in zip(places, quarter, strict=True):
            state[place] = word
    return state


def _quarter_round(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array, Array]:
    for left, right in ((16, 12), (8, 7)):
        a = a + b
        d = _rotated(d ^ a, left)
        c = c + d
        b = _rotated(b ^ c, right)
    return a, b, c, d


def _rotated(word: Array, places: int) -> Array:
    return (word << jnp.uint32(places)) | (word >> jnp.uint32(32 - places))
