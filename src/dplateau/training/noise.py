"""``SecureGenerator``: Gaussian noise and random batches from a cryptographic key stream."""

from __future__ import annotations

import hashlib
import math
import os
from threading import Lock
from typing import Final, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from scipy.special import ndtri

from dplateau.spec import Generator, InputError, Key
from dplateau.spec.arguments import integer
from dplateau.training.coins import uncertain, whole_gap
from dplateau.training.normals import WORDS

_SIGN: Final = np.uint64(1 << 63)
_RARE: Final = np.uint64(1 << 43)
_NOT_EXACT: Final = np.uint64(1 << 53)
_FURTHER: Final = np.uint64(12)
_SKIPPED: Final = 1 << 20
_ZEROS: Final = memoryview(bytes(1 << 18))
"""What is encrypted, a part at a time: it stays in the cache."""
_ROOM: Final = 2
"""Words more than a cipher fills: it asks for them."""


class SecureGenerator:
    """A stream of random numbers that nobody without its key can tell from truly random ones.

    The stream is AES-256 in counter mode (with AES instructions it is faster than ChaCha20, and far faster than anything done
    with it), its key 32 fresh bytes of the operating system. A generator cannot be pickled or copied, and refuses to work in a
    forked process: any of these would give the same noise twice, and noise used twice can be subtracted. Threads that share one
    wait for each other.

    Parameters
    ----------
    insecure_seed : int, optional
        Makes the stream reproducible, and thereby **voids every privacy guarantee**: who knows the seed can subtract the noise.
        For tests and simulations on public data.
    """

    def __init__(self, *, insecure_seed: int | None = None) -> None:
        if insecure_seed is None:
            key, counter = os.urandom(32), os.urandom(16)
        else:
            key, counter = hashlib.sha256(str(integer("insecure_seed", insecure_seed, low=0)).encode()).digest(), bytes(16)
        self._stream = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._process, self._one_at_a_time = os.getpid(), Lock()
        self._insecure = insecure_seed is not None
        self._drawn = 0

    @property
    def drawn(self) -> int:
        """Words of 64 bits that were drawn so far."""
        return self._drawn

    def skip(self, words: int) -> None:
        """Draw and forget: a new generator with the same insecure seed then goes on where another one stopped."""
        while words > 0:
            words -= len(self._words(min(words, _SKIPPED)))

    @property
    def insecure(self) -> bool:
        """Whether the stream follows from a seed."""
        return self._insecure

    @property
    def source(self) -> Generator:
        """What to write in a certificate."""
        return Generator("AES-256-CTR", Key.FIXED_SEED if self._insecure else Key.OPERATING_SYSTEM)

    def __repr__(self) -> str:
        return f"<SecureGenerator: {self.source}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a SecureGenerator cannot be pickled or copied: its noise would be drawn twice. Make a new one.")

    def for_process(self, index: int) -> SecureGenerator:
        """The generator of one process of several: this one, or, where it follows from a seed, another one for each index.

        A key of the operating system is fresh in every process. One seed in all of them would give all the same noise.
        """
        if not self._insecure:
            return self
        seed = hashlib.sha256(self._words(4).tobytes() + index.to_bytes(8, "big")).digest()
        return SecureGenerator(insecure_seed=int.from_bytes(seed, "big"))

    @classmethod
    def of_key(cls, key: bytes, *, insecure: bool) -> SecureGenerator:
        """The generator of a key of 256 bits, which several processes have: for what all of them must draw alike."""
        made = cls()
        made._stream, made._insecure = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor(), insecure
        return made

    def mark(self) -> bytes:
        """The digest of the next 32 bytes, which nothing else uses: generators with equal marks give equal noise."""
        return hashlib.sha256(self._words(4).tobytes()).digest()

    def _words(self, count: int, memory: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
        if os.getpid() != self._process:
            raise RuntimeError("this SecureGenerator belongs to the parent process: a fork would repeat its noise. Make a new one.")
        words = np.empty(count + _ROOM, np.uint64) if memory is None else memory
        room = words.view(np.uint8).data
        with self._one_at_a_time:  # A cipher may let another thread in, and give both the same words.
            for begin in range(0, 8 * count, len(_ZEROS)):
                self._stream.update_into(_ZEROS[: 8 * count - begin], room[begin:])
            self._drawn += count
        return words[:count]

    def uniform(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Uniform numbers strictly between 0 and 1: the midpoints of 2^52 equal intervals."""
        words = self._words(int(np.prod(shape)))
        words >>= _FURTHER
        return _middles(words).reshape(shape)

    def normal(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Standard normal numbers, by inversion.

        One bit is the sign, 63 bits are the tail probability. Below 2^-21 the probability gets 52 further bits, so that a tail has
        no holes: with 53 bits alone whole intervals beyond 6.5 standard deviations are never hit, and a run draws millions.
        """
        words = self._words(int(np.prod(shape)))
        tail = self._small(words & ~_SIGN, _RARE)[0]
        values = ndtri(tail, out=tail)
        bits = values.view(np.uint64)
        bits ^= words & _SIGN
        return values.reshape(shape)

    def _small(
        self, words: NDArray[np.uint64], rare: np.uint64
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.uint64]]:
        """The numbers ``(word + 1/2) 2^-64``; words below ``rare`` have 52 further random bits in place of the half.

        The places of the latter are returned as well, and their further bits.
        """
        few = np.flatnonzero(words < rare)
        values = words.astype(np.float64)
        values += 0.5
        further = self._words(few.size) >> _FURTHER
        values[few] = words[few] + _middles(further)
        values *= 2.0**-64
        return values, few, further

    def normal_words(self, count: int, memory: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
        """The words of ``count`` normal numbers, one more if it is odd, as ``normals`` takes them: shape (3, pairs).

        ``memory``, from ``memory_for``, is where they are put: to write over old words is three times as fast as to ask for more
        memory. What used them must have ended.
        """
        return self._words(WORDS * -(-count // 2), memory).reshape(WORDS, -1)

    @staticmethod
    def memory_for(count: int) -> NDArray[np.uint64]:
        """Memory for the words of ``count`` normal numbers."""
        return np.empty(WORDS * -(-count // 2) + _ROOM, np.uint64)

    def key(self) -> NDArray[np.uint32]:
        """A fresh key of 256 bits, shape (8,), for another generator."""
        return self._words(4).view(np.uint32)

    def integers(self, high: int, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Integers, exactly uniform on 0, ..., high - 1 (by rejection of the incomplete last multiple of ``high``)."""
        high = integer("high", high)
        last = np.uint64((1 << 64) // high * high - 1)
        words = self._words(int(np.prod(shape)))
        while (bad := np.flatnonzero(words > last)).size:
            words[bad] = self._words(bad.size)
        words %= np.uint64(high)
        return words.astype(np.int64).reshape(shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniform permutation of 0, ..., n - 1: the order of n random keys, drawn again if two are equal."""
        while True:
            keys = self._words(n)
            order = np.argsort(keys)
            keys = keys[order]
            if not (keys[1:] == keys[:-1]).any():
                return order

    def subsets(self, count: int, size: int, n: int) -> NDArray[np.int64]:
        """``count`` independent uniform subsets of ``size`` of the n records, in rows of shape ``(count, size)``, sorted.

        Duplicates are replaced by fresh draws until there are none. No step prefers a record, so the subset of the fixed size
        that remains is uniform. Above n / 2 the left-out records are drawn instead.
        """
        if not 0 <= size <= n:
            raise InputError(f"size is {size}: expected a whole number from 0 to n = {n}.")
        if 2 * size > n:
            kept = np.ones((count, n), dtype=bool)
            np.put_along_axis(kept, self.subsets(count, n - size, n), False, axis=1)
            return np.nonzero(kept)[1].reshape(count, size)
        rows = np.sort(self.integers(n, (count, size)), axis=1)
        todo = np.arange(count)
        while todo.size:
            part = rows[todo]
            again = np.zeros(part.shape, dtype=bool)
            again[:, 1:] = part[:, 1:] == part[:, :-1]
            todo, part, again = (x[again.any(axis=1)] for x in (todo, part, again))
            part[again] = self.integers(n, int(again.sum()))
            rows[todo] = np.sort(part, axis=1)
        return rows

    def bernoulli_positions(self, count: int, probability: float) -> NDArray[np.int64]:
        """Positions of the heads among ``count`` independent coins, ascending; the cost grows with the heads, not the coins.

        The gaps between heads are geometric: exactly, since as many digits of a uniform number are drawn as decide one
        (``dplateau.training.coins``).
        """
        if not 0 < probability <= 1:
            raise InputError(f"probability is {probability}: expected a number > 0 and <= 1.")
        if probability == 1:
            return np.arange(count)
        mean, near = count * probability, uncertain(count, probability)
        found, parts = -1, []
        while found < count:
            words = self._words(int(mean + 4 * math.sqrt(mean)) + 16)
            values, few, further = self._small(words, _NOT_EXACT)
            gaps = np.log(values, out=values)
            gaps /= math.log1p(-probability)
            np.minimum(gaps, count + 0.5, out=gaps)  # certain, unless nothing is
            steps = gaps.astype(np.int64)
            for place in np.flatnonzero((abs(np.rint(gaps) - gaps) <= near) | (words == 0)):
                which = np.searchsorted(few, place)
                digits, places = int(words[place]), 64
                if which < few.size and few[which] == place:
                    digits, places = digits << 52 | int(further[which]), 116
                steps[place] = self._gap(digits, places, probability, count)
            np.minimum(steps, count, out=steps)
            steps += 1
            steps[0] += found
            parts.append(np.cumsum(steps, out=steps))
            found = int(steps[-1])
        positions = np.concatenate(parts)
        return positions[: np.searchsorted(positions, count)]

    def _gap(self, digits: int, places: int, probability: float, most: int) -> int:
        """The tails before a head, at most so many, from a uniform number's first binary places and as many more as decide."""
        while (gap := whole_gap(digits, places, probability, most)) is None:
            digits, places = digits << 64 | int(self._words(1)[0]), places + 64
        return gap


def _middles(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The midpoints of the intervals of length 2^-52 with these numbers; one bit more would let the last one round to 1."""
    values = words.astype(np.float64)
    values += 0.5
    values *= 2.0**-52
    return values
