"""MovieLens 1M's ``ratings.dat``: lines ``user::movie::rating::timestamp``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplateau.data.files import read_bytes
from dplateau.spec import InputError
from dplateau.spec.arguments import integer

USERS: Final = 6_040
MOVIES: Final = 3_952
STARS: Final = 5
LINE: Final = re.compile(rb"\d{1,18}::\d{1,18}::\d{1,18}::\d{1,18}\r?")


class Ratings(NamedTuple):
    """Ratings of movies, one entry a rating.

    Attributes
    ----------
    users, movies : array of int32, shape (n,)
        The file's numbers less 1, so that they index the rows of an embedding.
    stars : array of int32, shape (n,)
        1 to 5.
    times : array of int64, shape (n,)
        Seconds since 1970.
    """

    users: NDArray[np.int32]
    movies: NDArray[np.int32]
    stars: NDArray[np.int32]
    times: NDArray[np.int64]


def read_movielens(path: str | Path, *, users: int = USERS, movies: int = MOVIES) -> Ratings:
    """Read the ratings of MovieLens 1M.

    Parameters
    ----------
    path : str or Path
        ``ratings.dat``, or the folder that holds it.
    users, movies : int, default 6,040 and 3,952
        The declared numbers of users and movies, as the data set's README has them. The movies that somebody rated, 3,706, are a
        statistic of the ratings.

    Returns
    -------
    Ratings
        In the order of the file.

    Raises
    ------
    InputError
        The file is missing or empty, a line is not of that form, or a number is out of its range. Only line numbers are named.

    Notes
    -----
    Source: F. M. Harper, J. A. Konstan, "The MovieLens datasets: history and context", ACM TiiS 5(4), 2016; the README of ml-1m.
    """
    path = Path(path)
    if path.is_dir():
        path /= "ratings.dat"
    users, movies = integer("users", users), integer("movies", movies)
    columns = _columns(path, read_bytes(path))
    for column, (what, largest) in zip(columns, (("user", users), ("movie", movies), ("rating", STARS)), strict=False):
        if len(wrong := np.flatnonzero((column < 1) | (column > largest))):
            raise InputError(
                f"{path}: the {what} is not between 1 and {largest:,} in {len(wrong)} of {len(column)} lines, first in line"
                f" {wrong[0] + 1}: this is another data set, or is damaged."
            )
    user, movie, stars, times = columns
    return Ratings((user - 1).astype(np.int32), (movie - 1).astype(np.int32), stars.astype(np.int32), times)


def _columns(path: Path, content: bytes) -> list[NDArray[np.int64]]:
    """The four numbers of every line."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    # Arrow's delimiters have one character, so "::" is two of them with an empty column between, which must stay empty.
    kinds = {str(i): pa.null() if i % 2 else pa.int64() for i in range(7)}
    try:
        table = arrow.read_csv(
            pa.BufferReader(content),
            read_options=arrow.ReadOptions(column_names=list(kinds)),
            parse_options=arrow.ParseOptions(delimiter=":", quote_char=False, ignore_empty_lines=False),
            convert_options=arrow.ConvertOptions(column_types=kinds, null_values=[""]),
        )
    except pa.ArrowInvalid:
        table = None
    if table is None or any(table.column(i).null_count for i in range(0, 7, 2)):
        bad = [number for number, line in enumerate(content.splitlines(), 1) if not LINE.fullmatch(line)]
        where = f", line {bad[0]}" if bad else ""
        raise InputError(f"{path}{where}: expected user::movie::rating::timestamp, four whole numbers.") from None
    return [table.column(i).to_numpy() for i in range(0, 7, 2)]
