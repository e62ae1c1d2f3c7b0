"""Rows as the model of a table sees them: from a file, from a table in memory, or encoded already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from dplateau.data import Dataset, RowStream, Schema, encode, feature_names, load_dataset, open_stream, read_table
from dplateau.data.encode import encode_features
from dplateau.data.pieces import encoded_pieces, piece_rows
from dplateau.spec import InputError
from dplateau.spec.arguments import sequence

FEATURE_NORM: Final = 1.0
ADDED: Final = ("prediction", "probability")
"""The words with which names of columns begin that a prediction has."""


def read_rows(path: Any, schema: Schema, *, n: int | None = None, person: str | None = None) -> Dataset:
    """The rows of a file, or of a table in memory, as a model of this schema is trained on them."""
    return load_dataset(path, schema, n=n, person=person, feature_norm=FEATURE_NORM, intercept=intercept_of(schema))


def stream_of(path: str | Path, schema: Schema, *, n: int | None = None, person: str | None = None) -> RowStream:
    """The same, to be read piece by piece."""
    return open_stream(path, schema, n=n, person=person, feature_norm=FEATURE_NORM, intercept=intercept_of(schema))


def true_rows(rows: Any, schema: Schema) -> Dataset:
    """The rows of a file or of a table in memory with their true targets, on which a model is measured."""
    return _true(read_table(rows, schema), schema)


def _true(table: Any, schema: Schema) -> Dataset:
    return encode(table, schema, feature_norm=FEATURE_NORM, intercept=intercept_of(schema), clip_target=False)


def feature_pieces(rows: Any, schema: Schema, keep: Sequence[str] = ()) -> Iterator[tuple[NDArray[Any], dict[str, Any]]]:
    """The features of rows, some rows at a time, and the columns ``keep`` as they stand; a target is not read."""
    keep = sequence("keep", keep)
    if wrong := next((name for name in keep if not isinstance(name, str) or name.split(" ")[0] in ADDED), None):
        raise InputError(f"keep names {wrong!r}: expected names of columns, and none of those that predictions get.")
    if isinstance(rows, Dataset):
        if keep:
            raise InputError("encoded rows have no columns to keep: give the file or the table itself.")
        return ((piece.features, {}) for piece in dataset_pieces(rows, schema))

    def encoded(table: Any) -> tuple[NDArray[Any], dict[str, Any]]:
        features = encode_features(table, schema=schema, feature_norm=FEATURE_NORM, intercept=intercept_of(schema))
        return features, {name: table.column(name).combine_chunks() for name in keep}

    return encoded_pieces(rows, schema, encoded, labelled=False, keep=keep)


def dataset_pieces(rows: Any, schema: Schema) -> Iterator[Dataset]:
    """Rows with their true targets, some at a time."""
    if not isinstance(rows, Dataset):
        return encoded_pieces(rows, schema, partial(_true, schema=schema), labelled=True)
    if rows.feature_names != names_of(schema):
        raise InputError("the rows were encoded by another schema, or with other options: let the model read them.")
    size = piece_rows(len(feature_names(schema, intercept=0.0)))
    parts = (slice(start, start + size) for start in range(0, len(rows.features), size))
    return (replace(rows, features=rows.features[part], target=rows.target[part]) for part in parts)


def names_of(schema: Schema) -> tuple[str, ...]:
    """The names of the encoded features."""
    return feature_names(schema, intercept=intercept_of(schema))


def intercept_of(schema: Schema) -> float:
    """The constant feature. Rows of unit norm carry it themselves; a regression learns its intercept around the range's centre."""
    return 1.0 if schema.target.classes else 0.0
