"""``open_stream``: the rows of a file, encoded block by block in constant memory, whatever the size of the file.

What a Parquet file needs grows with the size of its pages times the number of its columns, and not with its rows or row groups.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike

from dplateau.data.encode import check_options, columns_of, encode, feature_names, to_unit
from dplateau.data.files import TEXTS, format_of
from dplateau.data.parquet_files import ParquetFiles, rows_at
from dplateau.data.person import count_persons, with_person
from dplateau.data.plain import placing_of
from dplateau.data.row_stream import GIVEN, Block, RowStream, Unplaced
from dplateau.data.schema import Schema
from dplateau.data.schema_file import load_schema
from dplateau.data.stream_numpy import count_npy
from dplateau.data.stream_parquet import parquet_groups, parquet_pieces
from dplateau.data.table_pieces import ROWS, table_pieces
from dplateau.files import reading
from dplateau.spec import InputError
from dplateau.spec.arguments import integer, one_of

if TYPE_CHECKING:
    import pyarrow as pa

ORDERS: Final = ("given", "random")
BLOCK_BYTES: Final = 1 << 23
PIECES: Final = 3
"""Blocks that are read at once where they are not encoded here: few calls for each column, of which there may be many."""
WORKERS: Final = min(4, os.cpu_count() or 1)
"""Blocks that are encoded at a time, while the next is read."""


def open_stream(
    path: str | Path,
    schema: str | Path | Schema,
    *,
    n: int | None = None,
    person: str | None = None,
    order: str = "given",
    order_seed: int = 0,
    feature_norm: float = 1.0,
    rows: str | None = None,
    intercept: float = 1.0,
    dtype: DTypeLike = np.float32,
    block_bytes: int = BLOCK_BYTES,
) -> RowStream:
    """Rows of a file that may be larger than the memory, to be read block by block, as often as is needed.

    Every row is encoded by itself, exactly as ``load_dataset`` does. Only the schema and the number of rows are read here; the rows
    are read by ``RowStream.blocks``, which needs memory for a few blocks.

    Parameters
    ----------
    path : str or Path
        A Parquet, CSV, JSON lines or ``.npy`` file, the texts also packed by gzip. LIBSVM and ``.npz`` files cannot be read piece
        by piece. Or a folder of Parquet files, and of folders of them, which are read in the order of their paths: the names of the
        files, and how many rows each has, must not depend on what rows say. Or the address of either in a store that pyarrow knows:
        ``s3://bucket/folder``, ``gs://bucket/rows.parquet``, ``file:///folder``.
    schema : str, Path or Schema
        The public schema, see ``load_schema``.
    n : int, optional
        The number of rows, which is public. By default the one of the Parquet metadata or of the array's header; a CSV file or JSON
        lines are read once more to count its rows. With ``person`` it is the number of persons, and every file is read once more.
    person : str, optional
        The column that says whose a row is, in texts or whole numbers; the schema leaves it out or ignores it. The file must be
        sorted by person: one whose rows do not follow one another is found at the end, and nothing is released.
    order : {"given", "random"}, default "given"
        "given": the file's order, which must be public and chosen without looking at what the rows say. "random" (Parquet): row
        groups, and rows within blocks, permuted by ``order_seed``. No privacy rests on its being random; what is known about the
        accuracy of one pass does.
    order_seed : int, default 0
        Seed of the permutation; public.
    feature_norm, rows, intercept, dtype
        See ``encode``.
    block_bytes : int
        Size of a block of encoded features.

    Returns
    -------
    RowStream
        The public facts, and ``blocks()``.

    Raises
    ------
    InputError
        The file is missing or damaged, does not fit the schema, or an argument is not as expected.
    """
    public, file = load_schema(schema), rows_at(path)
    bound, weight = check_options(feature_norm, rows, intercept, dtype)
    names, kind = feature_names(public, intercept=weight), np.dtype(dtype)
    one_of("order", order, ORDERS)
    seed = integer("order_seed", order_seed, low=0)
    size = max(1, integer("block_bytes", block_bytes) // (len(names) * kind.itemsize))
    mark = _mark(file)
    if person is not None:
        if order == "random":
            raise InputError('order = "random" would tear the rows of a person apart: use order = "given" on a file of persons.')
        public = with_person(public, person, file, _format(file, public))
    records, groups = _counted(file, public, None if n is None else integer("n", n), person)
    if records == 0:
        raise InputError(f"{file} has no rows: expected at least one.")
    if n is not None and records != n:
        raise InputError(f"{file} has {records} rows by its own account where n = {n} is declared: declare its true number.")
    if order == "random":
        _check_groups(file, groups)

    def code(table: pa.Table, first: int, shuffle: Any) -> Block:
        last = first + table.num_rows - 1
        try:
            found = encode(table, public, feature_norm=bound, rows=rows, intercept=weight, dtype=kind)
        except InputError as error:
            raise InputError(f"{file}, rows {first} to {last}{' of those read' if shuffle is not None else ''}: {error}") from None
        columns = (found.features, found.target) if found.groups is None else (found.features, found.target, found.groups)
        return columns if shuffle is None else tuple(column[shuffle] for column in columns)

    fast = to_unit(rows, public) and kind == np.float32 and person is None and order == "given"
    placing = placing_of(public, bound, weight) if fast else None

    def columns() -> Generator[Unplaced]:
        _check_unchanged(file, mark)
        first = 1
        for table in _pieces(file, public, PIECES * size):
            try:
                found = None if placing is None else columns_of(table, public, placing, bound)
            except InputError:
                found = None  # code says why, and in which rows
            yield code(table, first, None)[:2] if found is None else found
            first += table.num_rows
        _check_unchanged(file, mark)

    def source() -> Generator[Block]:
        _check_unchanged(file, mark)
        dice = np.random.default_rng(seed) if order == "random" else None
        if dice is None:
            pieces = _pieces(file, public, size)
        else:
            assert isinstance(file, Path)
            pieces = parquet_pieces(file, public, size, [int(i) for i in dice.permutation(len(groups))])
        waiting: deque[Future[Block]] = deque()
        first = 1
        with ThreadPoolExecutor(WORKERS) as pool:
            for table in even(pieces, size):
                shuffle = None if dice is None else dice.permutation(table.num_rows)
                waiting.append(pool.submit(code, table, first, shuffle))
                first += table.num_rows
                if len(waiting) > WORKERS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        _check_unchanged(file, mark)

    target = public.target
    return RowStream(
        n=records,
        d=len(names),
        dtype=kind.name,
        order=GIVEN if order == "given" else _random(groups[0], min(size, records), seed),
        source=source,
        block_rows=size,
        unit="row" if person is None else "person",
        feature_names=names,
        classes=target.classes or None,
        target_range=target.range,
        feature_norm=bound,
        bounded=True,
        columns=None if placing is None else columns,
    )


def _format(path: Path | ParquetFiles, schema: Schema) -> str:
    return "parquet" if isinstance(path, ParquetFiles) else format_of(path, schema)


def _counted(path: Path | ParquetFiles, schema: Schema, n: int | None, person: str | None) -> tuple[int, tuple[int, ...]]:
    """The number of the records, declared or as the file says, and of the rows of each row group of Parquet files."""
    kind, groups = _format(path, schema), ()
    if isinstance(path, ParquetFiles):
        groups = path.groups(schema)
    elif kind == "parquet":
        groups, _ = parquet_groups(path, schema)
    elif kind == "npy":
        n = count_npy(path, schema)
    elif kind not in TEXTS:
        raise InputError(
            f"{path}: a {kind} file cannot be read piece by piece: write it as Parquet, CSV, JSON lines or .npy, or, if it fits in"
            " the memory, pass what load_dataset returns to array_stream."
        )
    if person is None and kind == "parquet":
        n = sum(groups)
    elif n is None and person is not None:
        n = count_persons(_pieces(path, schema, ROWS, [person, schema.target.name]), schema)
    elif n is None:
        n = sum(piece.num_rows for piece in _pieces(path, schema, ROWS, [schema.target.name]))
    return n, groups


def _pieces(path: Path | ParquetFiles, schema: Schema, rows: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The rows some at a time; only ``columns``, if named."""
    if isinstance(path, ParquetFiles):
        return path.pieces(schema, rows, columns)
    return table_pieces(path, schema, rows, columns, parsed=columns is None)


def even(pieces: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of ``rows`` rows, and a last one."""
    held: list[pa.Table] = []
    count = 0
    for piece in pieces:
        held.append(piece)
        count += piece.num_rows
        if count < rows:
            continue
        table = _joined(held)
        whole = count - count % rows
        for start in range(0, whole, rows):
            yield table.slice(start, rows)
        held, count = [table.slice(whole)], count - whole
    if count:
        yield _joined(held)


def _joined(tables: list[pa.Table]) -> pa.Table:
    """The tables as one. Where a CSV file has columns of numbers first and of texts later, all are texts, of the same numbers."""
    import pyarrow as pa

    if any(table.schema != tables[0].schema for table in tables):
        texts = pa.schema([(name, pa.string()) for name in tables[0].column_names])
        tables = [table.cast(texts) for table in tables]
    return pa.concat_tables(tables)


def _check_groups(path: Path | ParquetFiles, groups: tuple[int, ...]) -> None:
    """Raise unless row groups can be permuted: with a public order."""
    if isinstance(path, ParquetFiles) or not groups:
        which = "one Parquet file, and {} is a folder" if isinstance(path, ParquetFiles) else "Parquet files, and {} is none"
        raise InputError(f'order = "random" is for {which.format(path)}: put its rows into a random order, and write it.')
    # A writer that cuts by bytes puts the cuts where the rows' content says, and then their order would say something about it.
    if any(group != groups[0] for group in groups[:-1]) or groups[-1] > groups[0]:
        raise InputError(
            f"{path}: its {len(groups)} row groups differ in their numbers of rows, which may depend on what the rows say, and"
            ' order = "random" would not be public: write it with a fixed number of rows a group, or use order = "given".'
        )


def _random(group: int, block: int, seed: int) -> str:
    return f"random: groups of {group} rows, and the rows within blocks of {block}, permuted by the public seed {seed}"


def _mark(path: Path | ParquetFiles) -> tuple[Any, ...]:
    """What changes when the file is written again."""
    if isinstance(path, ParquetFiles):
        return path.mark()
    with reading(path):
        about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _check_unchanged(path: Path | ParquetFiles, mark: tuple[Any, ...]) -> None:
    if _mark(path) != mark:
        raise InputError(f"{path} was changed or replaced while it was in use: read a file that nobody writes to.")
