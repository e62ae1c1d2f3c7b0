"""``load_dataset``: encoded rows, of a file or a table in memory, by a public schema; ``sample_path``: data of the package."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from dplateau.data.encode import Dataset, encode
from dplateau.data.files import existing_file, format_of
from dplateau.data.person import with_person
from dplateau.data.readers import read_table
from dplateau.data.schema import Schema
from dplateau.data.schema_file import load_schema
from dplateau.data.tables import NAME
from dplateau.spec import InputError

SAMPLES: Final = ("adult-train", "adult-test")


def load_dataset(
    path: Any,
    schema: str | Path | Schema,
    *,
    n: int | None = None,
    person: str | None = None,
    feature_norm: float = 1.0,
    rows: str | None = None,
    intercept: float = 1.0,
    dtype: DTypeLike = np.float32,
) -> Dataset:
    """Encode the rows of a file, or of a table in memory, by a public schema.

    Parameters
    ----------
    path : str, Path, DataFrame, Arrow table or dict of columns
        A CSV, JSON lines, Parquet, LIBSVM or NumPy file, or a table, see ``read_table``.
    schema : str, Path or Schema
        See ``load_schema``.
    n : int, optional
        The public number of records, see ``read_table``: of persons where there are any.
    person : str, optional
        The column that says whose a row is, in texts or whole numbers; the schema leaves it out or ignores it.
    feature_norm, rows, intercept, dtype
        See ``encode``.

    Returns
    -------
    Dataset
        Features, target, and the public facts about them.

    Raises
    ------
    InputError
        The schema is not valid, or the rows do not fit it.
    """
    public, stored = load_schema(schema), isinstance(path, str | PathLike)
    name = path if stored else NAME
    if person is not None:
        public = with_person(public, person, name, format_of(existing_file(Path(path)), public) if stored else None)
    table = read_table(path, public, n=n if person is None else None)
    found = encode(table, public, feature_norm=feature_norm, rows=rows, intercept=intercept, dtype=dtype)
    if n is not None and found.n != n:
        raise InputError(f"{name} has {found.n} persons where n = {n} is declared: declare their true number, or repair it.")
    return found


def sample_path(name: str) -> Path:
    """The file of a data set that comes with the package: "adult-train" or "adult-test" (schema ``"adult"``)."""
    if not isinstance(name, str) or name not in SAMPLES:
        raise InputError(f"{name!r} does not come with the package: expected one of {', '.join(SAMPLES)}.")
    return Path(__file__).parent / "samples" / f"{name}.parquet"
