"""Integers in place of rounded numbers: what one record adds to a sum depends on that record alone, and sums are exact.

Floating-point sums depend on their order. A record that carries a partial sum across a power of two changes how all later records
are rounded, so it can move the sum by many times what its own gradient is clipped to. And the rounding of one record's gradient
may depend on where in a batch it stands. Here neither can happen, because nothing is rounded but one record at a time:

- a row x is stored as ``scale * m``: a power of two and integers up to ``2^row_bits``, cut off where its own largest entry says;
- weights are cut to integers before they meet rows, so scores are exact;
- a residual is cut to an integer k in units of ``clip_norm / 2^gradient_bits``, and limited so that ``|k| |m| <= 2^gradient_bits``:
  the clip norm, for the very integers that are summed;
- the sum of ``k m`` is an integer. Blocks of records are added up in double precision, where every partial sum in whatever order
  stays below 2^53 and is exact; blocks are added in 64-bit integers;
- the noise is an integer too, in units of at least 2^-28 of itself, to which the sum is rounded before they are added.

``docs/proofs/arithmetic.md`` has the proof. Where last-iterate bounds need steps that are contractions to a ten-millionth of their
noise, weights and residuals are cut to two integers each, one for the leading and one for the trailing bits.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import ROUND_OFF, InputError, Run
from dplateau.spec.schedule import largest, smallest
from dplateau.training.errors import TooCoarse
from dplateau.training.exact_products import accelerated, product
from dplateau.training.persons import MOST_ROWS
from dplateau.training.settings import usual

Array: TypeAlias = Any  # numpy on the way in, jax inside

BLOCK: Final = 2048
"""Records that may be added up in double precision."""
_SHORT: Final = 256
"""Records that an accelerator adds up in double precision for one score: more parts keep more of it at work."""
_CLOSE: Final = 1 << 15
"""Entries of a block: larger ones go to several threads, which costs more than it saves."""
_FAR: Final = 1 << 26
"""Entries of a block on an accelerator, which takes as long to begin with one as with a small one: half a gigabyte of doubles."""
_DOUBLE: Final = 53
_WIDEST: Final = 62
"""Bits of a whole number in a double, and in a 64-bit integer."""
_ROW_BITS: Final = 20
_GRADIENT_BITS: Final = _DOUBLE - BLOCK.bit_length() + 1
_WEIGHT_BITS: Final = 24
"""Bits that last iterates leave to a weight, or more where what it loses counts for many records."""
_LOST: Final = ROUND_OFF / 8
"""What all residuals of a batch may lose, in standard deviations of the noise on one weight times their root."""
LEAST_BITS: Final = 10
"""Of a residual, and of an entry of a row: below, rounding would be felt."""
_SMALLEST: Final = 1e-100
_NOISE_BITS: Final = 28
"""The noise is at most 2 to this power of its units: the law of finer digits would show how normal numbers are computed."""
_LARGEST_MARGIN: Final = 0.1
_LONGEST: Final = float(np.finfo(np.float64).max)
_FACTS: Final = 8
"""Columns of a stored row that are no features: four doubles."""
_PART, _FAR_PART = 1 << 19, 1 << 24
"""Entries that processors encode at a time, and accelerators."""
_LOWER: Final = 1 - 2.0**-50
"""A factor that pays for up to seven roots, quotients and products, each right to 2^-53."""


def block_of(d: int, outputs: int, *, columns: bool = False) -> int:
    """How many records of d features are added up at once, for the speed of it.

    One score a record: as many as a processor holds close by, fewer where they are encoded there as well (``columns``). Several: as
    many as are worth several threads. On an accelerator: as many as it has room for.
    """
    if accelerated():
        return BLOCK * max(1, _FAR // (BLOCK * (d + outputs)))
    return BLOCK if outputs > 1 else min(BLOCK, max(16, 1 << (_CLOSE // (2 * d if columns else d)).bit_length() - 1))


def room_of(count: int, block: int) -> int:
    """For how many records ``count`` are stored, zeros behind them, where every step takes all: whole blocks, and on an accelerator
    whole sums in double precision, so that no step need copy them to have those.
    """
    whole = block if count > block else BLOCK if accelerated() and count > BLOCK else 1
    return -(-count // whole) * whole


class Bits(NamedTuple):
    """How many bits every number of a run gets; made by ``bits_of``.

    Attributes
    ----------
    row : int
        Entries of a row are integers up to 2^row.
    gradient : int
        The clip norm is 2^gradient units of the summed gradient.
    weight : int
        Leading, and trailing, bits of a weight.
    trailing : int
        Trailing bits of a residual; 0 where the leading ones are all.
    """

    row: int
    gradient: int
    weight: int
    trailing: int

    def widest(self, run: Run) -> int:
        """Bits of an entry of a row times the number of its person's rows, up to ``MOST_ROWS`` of them."""
        # The more rows a person has the fewer bits each of them keeps, but not below LEAST_BITS.
        return max(self.row, LEAST_BITS + (MOST_ROWS - 1).bit_length()) if run.unit == "person" else self.row

    def unclipped(self, run: Run, d: int, share: float) -> float:
        """A gradient norm up to which nothing is clipped, where gradients may use that share of the clip norm.

        Limits are whole numbers: less than one is lost of each, which counts where last-iterate bounds do.
        """
        if not run.is_last_iterate:
            return run.clip_norm * share
        return run.clip_norm * share * (1 - 2.0 ** (self.widest(run) + (_bits(d) + 1) // 2 + 1 - self.gradient))


def most_records(run: Run) -> int:
    """Most records that a batch can have: all, where its size is random."""
    return run.n if run.sampling.random_size else int(run.table.size.max())


def records_that_count(run: Run) -> float:
    """Most records of a batch whose rounding counts for a last iterate.

    Bounds pay by themselves for batches of random size with which a strongly convex step is no contraction.
    """
    size = run.table.size
    if not run.sampling.random_size or run.strong_convexity is None or run.smoothness is None:
        return most_records(run)
    return min(run.n, max(float(size.max()), 2 * float((size / run.table.step_size).max()) / run.smoothness))


def bits_of(run: Run, d: int, *, trailing: bool = False) -> Bits:
    """The bits of a run on d features.

    Parameters
    ----------
    run : Run
        What is computed; only public numbers are read.
    d : int
        Number of features.
    trailing : bool, default False
        Whether weights and residuals are cut to two integers.

    Raises
    ------
    InputError
        Too few bits are left for a residual: there are too many records or features.
    """
    if not _SMALLEST <= run.clip_norm <= 1 / _SMALLEST:
        raise InputError(f"clip_norm {run.clip_norm:g} is beyond {_SMALLEST:g} and its inverse: multiply the loss by a constant.")
    wide, most = _bits(d), most_records(run)
    gradient = min(_GRADIENT_BITS, _WIDEST - _bits(most))
    least = -(-wide // 2) + LEAST_BITS  # of a gradient, beside a row's bits
    row = min(_ROW_BITS, (_DOUBLE - wide) // 2, gradient // 2, max(LEAST_BITS, gradient - least))
    if trailing:  # what weights and residuals lose counts for every record of a batch: leave them bits
        lost = math.log2(math.sqrt(d) * records_that_count(run) / smallest(run.noise_multiplier) / _LOST)
        to_weights = max(_WEIGHT_BITS, math.ceil(lost / 2) + 3)
        row = max(LEAST_BITS, min(row, _DOUBLE - wide - to_weights, math.floor((_GRADIENT_BITS + gradient - lost) / 2)))
    bits = Bits(row, gradient, _DOUBLE - row - wide, _GRADIENT_BITS - row if trailing else 0)
    if gradient - row < least or bits.weight < LEAST_BITS:
        raise TooCoarse(
            f"whole numbers of {_DOUBLE} bits do not suffice for {d} features and batches of up to {most} records: a residual "
            f"would keep {max(gradient - row - least + LEAST_BITS, 0)} bits. Use fewer features or smaller batches."
        )
    return bits


def _bits(count: int) -> int:
    return max(0, (count - 1).bit_length())


def noise_bits_of(run: Run, bits: Bits, size: int) -> tuple[int, float]:
    """Bits of the clip norm in units of the noise, and the share of it that gradients of ``size`` entries may use.

    The sum is rounded to the units of the noise. That moves two sums apart by at most ``sqrt(size)`` units, which are taken off.

    Raises
    ------
    InputError
        That would be more than a tenth: there is too much noise for so many weights.
    """
    noise = largest(run.noise_multiplier)
    places = min(bits.gradient, _NOISE_BITS - math.ceil(math.log2(noise)))
    share = 1 - math.sqrt(size) * 2.0**-places if places < bits.gradient else 1.0
    if share < 1 - _LARGEST_MARGIN:
        raise TooCoarse(
            f"rounding would take more than a tenth of clip_norm (noise_multiplier {noise:g}, {size} weights): lower the noise or "
            "the number of weights."
        )
    return places, share


class Rows(NamedTuple):
    """Encoded rows: ``features`` (n, d), or (d, n) where they are kept column by column, the integers m; ``target`` (n,);
    ``scale`` (n,), powers of two with ``row = scale * m``;
    ``limit`` (n,), the largest whole ``|k|`` of the row; ``weight`` (n,), its share of its record: at most one over the number of
    the person's rows. The last four in double precision.
    """

    features: Array
    target: Array
    scale: Array
    limit: Array
    weight: Array


def encoded(
    features: Array, target: Array, bits: Bits, share: Array, sizes: Array | None = None, *, columns: bool = False
) -> tuple[Rows, Array]:
    """The rows as integers, each by itself, and the norms of the rows as they now are, shape (n,).

    ``features`` are (n, d), or with ``columns`` (d, n). ``share`` is the part of the clip norm that gradients may use, ``sizes``
    (n,) the number of rows of each row's person; without it every row is a record. A row of many keeps fewer bits, so that their
    mean has as fine steps as one row. Entries that are not finite give norms that are not.
    """
    each = 0 if columns else 1
    many = jnp.ones(features.shape[1 - each]) if sizes is None else jnp.asarray(sizes).astype(jnp.float64)
    weight = jnp.where(many > 1, _LOWER / many, 1.0)
    length = (jax.lax.bitcast_convert_type(many - 1, jnp.int64) >> 52) - 1022
    kept = bits.row - jnp.clip(length, 0, max(0, bits.row - LEAST_BITS))
    wide = jnp.asarray(features).astype(jnp.float64)
    # Entries are below 2^exponent. Rows below 2^-960 keep only what reaches up to there.
    longest = jnp.max(abs(jnp.asarray(features)), axis=0).astype(jnp.float64) if columns else jnp.max(abs(wide), axis=1)
    largest = jax.lax.bitcast_convert_type(longest, jnp.int64)
    exponent = jnp.maximum((largest >> 52) - 1022, -960)
    whole = jnp.trunc(wide * jnp.expand_dims(power_of_two(kept - exponent), each))  # no row gets longer than it was declared
    ones, squares = jnp.ones(wide.shape[each]), whole * whole
    squares = product(*((ones, squares) if columns else (squares, ones)))  # exact; no slow sum
    norm = jnp.sqrt(squares)
    limit = jnp.where(squares > 0, jnp.floor(2.0**bits.gradient * share * weight / norm * _LOWER), 0)
    scale = power_of_two(exponent - kept)
    norm = jnp.where(jnp.isfinite(norm), jnp.minimum(norm * scale, _LONGEST), norm)  # that of finite numbers is one
    return Rows(whole, jnp.asarray(target).astype(jnp.float64), scale, limit, weight), norm


def unpacked(records: tuple[Array, ...]) -> Rows:
    """The records of ``encode``."""
    whole, facts = records if len(records) == 2 else (records[0][:, :-_FACTS], records[0][:, -_FACTS:])
    return Rows(whole, *jax.lax.bitcast_convert_type(facts.reshape(-1, _FACTS // 2, 2), jnp.float64).T)


def power_of_two(exponent: Array) -> Array:
    """2^exponent for exponents from -1022 to 1023, from the bits of a double."""
    return jax.lax.bitcast_convert_type((exponent + 1023) << 52, jnp.float64)


def cut(weights: Array, bits: Bits) -> tuple[Array, Array]:
    """The weights as ``unit * whole``, of shape (1 or 2, *weights), the trailing integers in units of ``2^-weight``."""
    exponent = jnp.maximum((jax.lax.bitcast_convert_type(jnp.max(abs(weights)), jnp.int64) >> 52) - 1022, -960)
    unit = power_of_two(exponent - bits.weight)
    scaled = weights * power_of_two(bits.weight - exponent)
    leading = jnp.rint(scaled)
    if not bits.trailing:
        return leading[None], unit
    return jnp.stack([leading, jnp.rint((scaled - leading) * 2.0**bits.weight)]), unit


def integer_sum(
    loss: GeneralisedLinearLoss,
    whole: Array,
    unit: Array,
    rows: Rows,
    per_unit: Array,
    bits: Bits,
    used: Array | None = None,
    *,
    columns: bool = False,
) -> Array:
    """The sum of ``k m`` over the records, in 64-bit integers of shape (1 or 2, d) or (1 or 2, K, d).

    Parameters
    ----------
    loss : GeneralisedLinearLoss
        Loss of one example.
    whole, unit
        The weights, from ``cut``.
    rows : Rows
        The records.
    per_unit : float
        Units of the summed gradient in 1: ``2^gradient / clip_norm``.
    bits : Bits
        The bits of the run.
    used : array of bool, shape (b,), optional
        Which records count; by default all.
    columns : bool
        Whether the rows' features are (d, n).
    """
    features = rows.features.astype(jnp.float64)
    scale = rows.scale * unit
    scores = _scores(features, whole, bits, columns) * (scale if whole.ndim == 2 else scale[:, None])
    residual = loss.residual(scores, rows.target)
    limit = rows.limit if used is None else jnp.where(used, rows.limit, 0)
    per_residual = rows.scale * rows.weight * per_unit
    if residual.ndim == 1:
        steps = jnp.clip(_numbers(residual * per_residual), -limit, limit)
        leading = jnp.rint(steps)
    else:
        steps = _shortened(_numbers(residual), per_residual, limit, bits.trailing)
        leading = jnp.trunc(steps)
    parts = [leading]
    if bits.trailing:
        fine = (steps - leading) * 2.0**bits.trailing
        parts.append(jnp.rint(fine) if residual.ndim == 1 else jnp.trunc(fine))
    sums = jnp.stack([_sums(part, features, columns) for part in parts])
    if bits.trailing:  # those of millions of records have more than 64 bits: of each block, what is above the last bit is carried
        sums = jnp.stack([sums[0] + (sums[1] >> bits.trailing), sums[1] & ((1 << bits.trailing) - 1)])
    return sums.sum(axis=1)


def _scores(features: Array, whole: Array, bits: Bits, columns: bool) -> Array:
    """The scores in units of a row's and the weights' scale: exact, or, from two exact parts, rounded once."""
    parts = [product(part.T, features).T if columns else product(features, part) for part in whole]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1] * 2.0**-bits.weight


def _numbers(values: Array) -> Array:
    """Scores beyond the range of a double may leave no number: such a record adds nothing."""
    return jnp.where(jnp.isnan(values), 0, values)


def _shortened(residual: Array, scale: Array, limit: Array, trailing: int) -> Array:
    """Residuals (b, K), of entries up to 1, times ``scale`` (b,), not longer than ``limit`` (b,), on a grid of ``2^-trailing``.

    Their norm is that of integers, so its square is exact in any order; no length has underflowed or been rounded down. On the grid
    the difference to a whole number is exact.
    """
    places = (_DOUBLE - _bits(residual.shape[1])) // 2
    whole = jnp.rint(jnp.clip(residual, -1, 1) * 2.0**places)
    squares = product(whole * whole, jnp.ones(residual.shape[1]))
    factor = jnp.minimum(scale * 2.0**-places, limit / jnp.sqrt(jnp.maximum(squares, 1))) * _LOWER
    return jnp.trunc(whole * factor[:, None] * 2.0**trailing) * 2.0**-trailing


def _sums(steps: Array, features: Array, columns: bool) -> Array:
    """``sum_i steps[i] features[i]`` of each so many records, of shape (parts, d) or (parts, K, d); every partial sum is a whole
    number.
    """
    if columns:
        return product(features, steps).T.astype(jnp.int64)[None]
    if len(steps) <= BLOCK:
        return product(steps.T, features).astype(jnp.int64)[None]
    size = _SHORT if steps.ndim == 1 else BLOCK
    parts = -(-len(steps) // size)
    steps, features = (_padded(one, parts * size).reshape(parts, size, *one.shape[1:]) for one in (steps, features))
    return jax.vmap(lambda k, m: product(k.T, m).astype(jnp.int64))(steps, features)


def _padded(values: Array, size: int) -> Array:
    return jnp.pad(values, ((0, size - len(values)), *((0, 0) for _ in values.shape[1:])))


def encode(
    features: NDArray[Any],
    target: NDArray[Any],
    bits: Bits,
    share: float,
    room: int,
    *,
    together: bool,
    sizes: NDArray[np.float64] | None = None,
) -> tuple[tuple[NDArray[np.int32], ...], NDArray[np.float64]]:
    """Rows in memory, encoded a part at a time, for ``unpacked``, and their norms, shape (n,); ``sizes`` as in ``encoded``.

    A row is its integers m and, bit by bit, its target, scale, limit and weight. ``together`` puts them in one array (room, d + 8),
    which is faster to gather from, instead of (room, d) and (room, 8). Zeros are appended up to ``room``.
    """
    n, d = features.shape
    found = tuple(np.zeros((room, width), np.int32) for width in ((d + _FACTS,) if together else (d, _FACTS)))
    norms = np.zeros(n)
    part = min(room, max(1, (_FAR_PART if accelerated() else _PART) // d))
    with usual(), jax.enable_x64(True):
        for begin in range(0, n, part):
            here = slice(begin, min(begin + part, n))
            rows, labels, many = features[here], target[here], None if sizes is None else sizes[here]
            count = len(rows)
            if count < part:  # one compiled shape for all
                rows, labels = np.pad(rows, ((0, part - count), (0, 0))), np.pad(labels, (0, part - count))
                many = None if many is None else np.pad(many, (0, part - count), constant_values=1)
            whole, facts, lengths = jax.device_get(_encoded(rows, labels, many, bits, share))
            found[0][here, :d], found[-1][here, -_FACTS:], norms[here] = whole[:count], facts[:count], lengths[:count]
    return found, norms


@partial(jax.jit, static_argnames="bits")
def _encoded(features: Array, target: Array, sizes: Array | None, bits: Bits, share: Array) -> tuple[Array, Array, Array]:
    rows, norms = encoded(features, target, bits, share, sizes)
    facts = jax.lax.bitcast_convert_type(jnp.stack(rows[1:], axis=1), jnp.int32).reshape(-1, _FACTS)
    return rows.features.astype(jnp.int32), facts, norms
