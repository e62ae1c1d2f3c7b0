"""``RowStream``: rows that are read block by block, from a file, from arrays or from the caller's own blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.data.rows import as_entries, as_rows
from dplateau.spec import InputError
from dplateau.spec.arguments import integer, one_of, real
from dplateau.spec.run import UNITS

Block: TypeAlias = tuple[NDArray[Any], ...]
"""Features, shape (k, d), target, shape (k,), and, where records are persons, whose each row is, shape (k,)."""
Unplaced: TypeAlias = tuple[Any, ...]
"""A block whose features may be ``Columns``."""
GIVEN: Final = "as given: public, and chosen without looking at the records"
BLOCK_ROWS: Final = 1 << 14
DTYPES: Final = ("float32", "float64")


@dataclass(frozen=True, eq=False)
class RowStream:
    """Rows in a public order, block by block, and the public facts about them.

    ``open_stream``, ``array_stream`` and ``block_stream`` make one.

    Attributes
    ----------
    n : int
        The declared number of records. Public; ``blocks`` fails unless exactly so many rows come, and training unless so many
        persons do.
    d : int
        The number of features.
    dtype : {"float32", "float64"}
        Type of the features.
    order : str
        What is known about the order of the rows, for a certificate.
    source : callable
        Begins to read: returns an iterator of blocks. Use ``blocks``, which counts them.
    block_rows : int or None
        Every block but the last has so many rows; None where the caller's blocks are used as they are.
    feature_names : tuple of str or None
        d names, where a schema gives them.
    classes : tuple of str or None
        The declared classes, in the order of their indices.
    target_range : (float, float) or None
        The declared range of a regression target.
    feature_norm : float or None
        The norm that every row is scaled or clipped to; None where nothing was enforced.
    unit : {"row", "person"}
        What a record is. The rows of a person follow one another.
    bounded : bool
        Whether no row is longer than ``feature_norm`` because the stream itself made it so, and nobody else says so.
    columns : callable or None
        As ``source``, of the same rows, but not yet encoded where they are plain numbers.
    """

    n: int
    d: int
    dtype: str
    order: str
    source: Callable[[], Generator[Block]] = field(repr=False)
    block_rows: int | None = None
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    classes: tuple[str, ...] | None = None
    target_range: tuple[float, float] | None = None
    feature_norm: float | None = None
    unit: str = "row"
    bounded: bool = False
    columns: Callable[[], Generator[Unplaced]] | None = field(default=None, repr=False)

    def blocks(self) -> Generator[Block]:
        """Read the rows once, from the first to the last.

        The last block is handed out only after the source has come to its end with exactly ``n`` rows. So who has seen n rows
        has seen a stream without a fault, and need not ask for one block more.

        Yields
        ------
        features : array, shape (k, d)
            k >= 1 rows.
        target : array, shape (k,)
            Their targets.
        groups : array, shape (k,)
            Whose they are, where records are persons.

        Raises
        ------
        InputError
            The source has fewer or more than ``n`` rows, or some that cannot be read or encoded.
        """
        return self._counted(self.source())

    def unplaced(self) -> Generator[Unplaced]:
        """As ``blocks``, but rows of plain numbers are ``Columns``, which ``dplateau.training`` encodes: blocks of any lengths."""
        return self._counted(self.source() if self.columns is None else self.columns())

    def _counted(self, found: Generator[Any]) -> Generator[Any]:
        """The blocks, the last one only after exactly ``n`` rows."""
        seen, held = 0, None
        with closing(found) as blocks:
            for block in blocks:
                if not len(block[0]):
                    continue
                seen += len(block[0])
                if seen > self.n and self.unit == "row":
                    raise InputError(
                        f"the stream has more than the declared {self.n} rows: declare their true number, which is public."
                    )
                if held is not None:
                    yield held
                held = block
        if held is None or seen < self.n:
            raise InputError(
                f"the stream ends after {seen} of the declared {self.n} {self.unit}s: declare their true number, or repair it."
            )
        yield held


def _norm(value: float | None) -> float | None:
    return None if value is None else real("feature_norm", value)


def array_stream(
    features: ArrayLike, target: ArrayLike, *, block_rows: int = BLOCK_ROWS, feature_norm: float | None = None
) -> RowStream:
    """Rows of arrays in memory, as a stream. Nothing is copied, unless the features are no floats.

    Parameters
    ----------
    features : array, shape (n, d)
        Rows, as they are to be used: see ``clip_rows``.
    target : array, shape (n,)
        Numbers.
    block_rows : int
        Rows of a block.
    feature_norm : float, optional
        The public bound that the caller has enforced on the rows.

    Raises
    ------
    InputError
        The arrays do not fit each other. That entries are finite is checked block by block.
    """
    rows, labels, norm = as_rows(features), as_entries(target), _norm(feature_norm)
    step = integer("block_rows", block_rows)
    if labels.shape != rows.shape[:1] or labels.dtype.kind not in "biuf":
        raise InputError(
            f"target has shape {labels.shape} and type {labels.dtype}: expected a number for each of the {len(rows)} rows."
        )

    def source() -> Generator[Block]:
        for start in range(0, len(rows), step):
            block = rows[start : start + step], labels[start : start + step]
            _check_finite(*block, start)
            yield block

    return RowStream(
        *(integer("number of rows", len(rows)), integer("number of features", rows.shape[1]), rows.dtype.name, GIVEN, source),
        block_rows=step,
        feature_norm=norm,
    )


def block_stream(
    blocks: Iterable[tuple[ArrayLike, ...]] | Callable[[], Iterable[tuple[ArrayLike, ...]]],
    n: int,
    d: int,
    *,
    dtype: str = "float32",
    order: str = GIVEN,
    feature_norm: float | None = None,
    unit: str = "row",
) -> RowStream:
    """The caller's own blocks, checked, as a stream.

    Parameters
    ----------
    blocks : iterable or callable
        Pairs of features, shape (k, d), and target, shape (k,), with any k; or what returns them, once for each reading. Of persons
        also groups, shape (k,): whose each row is. The rows of a person follow one another, over the ends of blocks too.
    n : int
        The number of rows, or of persons; public.
    d : int
        The number of features.
    dtype : {"float32", "float64"}, default "float32"
        What features are converted to.
    order : str
        What is known about the order. It must be public: how the caller orders the rows, and cuts them into blocks, must not depend
        on what they say.
    feature_norm : float, optional
        The public bound that the caller has enforced on the rows.
    unit : {"row", "person"}, default "row"
        What a record is.

    Raises
    ------
    InputError
        n, d, unit or dtype is not as expected. Blocks are checked as they come: shapes, numbers, finite entries; and an iterator
        can be read only once.
    """
    d, used, norm = integer("d", d), False, _norm(feature_norm)
    one_of("dtype", dtype, DTYPES)
    one_of("unit", unit, UNITS)

    def source() -> Generator[Block]:
        nonlocal used
        if used:
            raise InputError("the blocks were read before: pass a list or a callable to read them more than once.")
        found = blocks() if callable(blocks) else blocks
        used = not callable(blocks) and iter(found) is found
        start = 0
        for pair in found:
            block = _checked(pair, d, dtype, start, unit)
            yield block
            start += len(block[0])

    return RowStream(integer("n", n), d, dtype, order, source, feature_norm=norm, unit=unit)


def _checked(pair: Any, d: int, dtype: str, start: int, unit: str) -> Block:
    """A block of the caller as arrays."""
    where = f"the block after row {start}"
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 + (unit == "person"):
        wanted = "features, target and groups" if unit == "person" else "a pair of features and target"
        raise InputError(f"{where} is of type {type(pair).__name__}: expected {wanted}.")
    rows, labels = as_rows(pair[0]), as_entries(pair[1])
    if rows.shape[1] != d:
        raise InputError(f"{where} has {rows.shape[1]} features: expected {d}.")
    if labels.shape != rows.shape[:1] or labels.dtype.kind not in "biuf":
        raise InputError(
            f"{where} has {len(rows)} rows and a target of shape {labels.shape} and type {labels.dtype}: expected one number a row."
        )
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype)  # a copy: the caller may fill the same array with the next rows while these are held
    _check_finite(rows, labels, start)
    # Labels are checked by the training. A list is kept as it is: NumPy would make texts of all that stands beside one.
    held = (np.array(groups, None if hasattr(groups, "dtype") else object, subok=True) for groups in pair[2:])
    return rows, labels.copy(), *held


def _check_finite(rows: NDArray[Any], labels: NDArray[Any], start: int) -> None:
    """Raise if an entry is NaN or infinite; ``start`` rows came before."""
    fine = np.isfinite(labels)
    if fine.all() and np.isfinite(rows).all():
        return
    bad = int((~(fine & np.isfinite(rows).all(axis=1))).sum())
    raise InputError(
        f"rows {start + 1} to {start + len(rows)}: {bad} rows are NaN or infinite (or beyond {rows.dtype}): expected finite"
        " numbers. Repair or drop them."
    )
