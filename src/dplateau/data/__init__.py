"""Readers, public schemas, and an encoding that learns nothing from private rows."""

import warnings
from importlib import import_module
from typing import Any, Final

from dplateau.data.encode import Dataset as Dataset
from dplateau.data.encode import encode as encode
from dplateau.data.encode import feature_names as feature_names
from dplateau.data.examples import LabelledExamples as LabelledExamples
from dplateau.data.load import load_dataset as load_dataset
from dplateau.data.load import sample_path as sample_path
from dplateau.data.readers import read_table as read_table
from dplateau.data.row_stream import RowStream as RowStream
from dplateau.data.row_stream import array_stream as array_stream
from dplateau.data.row_stream import block_stream as block_stream
from dplateau.data.rows import clip_rows as clip_rows
from dplateau.data.schema import Category as Category
from dplateau.data.schema import Column as Column
from dplateau.data.schema import Csv as Csv
from dplateau.data.schema import Ignored as Ignored
from dplateau.data.schema import Number as Number
from dplateau.data.schema import Schema as Schema
from dplateau.data.schema import Target as Target
from dplateau.data.schema import Vector as Vector
from dplateau.data.schema_file import load_schema as load_schema
from dplateau.data.schema_file import schema_from_toml as schema_from_toml
from dplateau.data.schema_file import schema_to_toml as schema_to_toml
from dplateau.data.stream import open_stream as open_stream
from dplateau.data.template import schema_template as schema_template

_MOVED: Final = {
    "read_idx": "idx",
    "read_mnist": "idx",
    "read_cifar": "cifar",
    "read_imdb": "imdb",
    "read_movielens": "movielens",
    "Ratings": "movielens",
}
"""Readers of standard data sets; they are part of dplateau-papers now."""


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"dplateau_papers.readers.{_MOVED[name]}"
    warnings.warn(f"dplateau.data.{name} has moved to {module}, in dplateau-papers.", DeprecationWarning, stacklevel=2)
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError:
        raise AttributeError(f"dplateau.data.{name} is in {module} now: install dplateau-papers.") from None
