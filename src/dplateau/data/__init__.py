"""Readers, public schemas, and an encoding that learns nothing from private rows."""

from dplateau.data.check import ColumnFindings as ColumnFindings
from dplateau.data.check import Findings as Findings
from dplateau.data.check import Spelling as Spelling
from dplateau.data.check import check_file as check_file
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
from dplateau.data.schema import Date as Date
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
from dplateau.spec.deprecated import moved

__getattr__ = moved(
    __name__,
    {
        "read_idx": "dplateau_papers.readers.idx.read_idx",
        "read_mnist": "dplateau_papers.readers.idx.read_mnist",
        "read_cifar": "dplateau_papers.readers.cifar.read_cifar",
        "read_imdb": "dplateau_papers.readers.imdb.read_imdb",
        "read_movielens": "dplateau_papers.readers.movielens.read_movielens",
        "Ratings": "dplateau_papers.readers.movielens.Ratings",
    },
)
