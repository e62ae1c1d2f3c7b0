"""A synthetic table that is larger than memory: a Parquet file of float32 features with labels from a known logistic model.

    python benchmarks/one_pass_data.py big.parquet --rows 10_000_000     # 4 GB, and big.toml, its public schema

It is written in pieces, in constant memory, so that benchmarks of one pass can have as many rows as the disk holds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dplateau.data import Number, Schema, Target, schema_to_toml

ROWS_A_GROUP = 1 << 16
RANGE = 4.0
MARGIN = 3.0
"""Standard deviation of the margins, features times weights: the best model is then right in some 85 per cent of rows."""


def weights(d: int, seed: int) -> np.ndarray:
    """The model that the labels of ``write_parquet(path, rows, d, seed)`` come from, of norm ``MARGIN``."""
    direction = np.random.default_rng([seed, 0]).normal(size=d)
    return MARGIN * direction / np.linalg.norm(direction)


def public_schema(d: int) -> Schema:
    """Features in [-4, 4], none missing, and a label 0 or 1."""
    features = (Number(f"x{i}", -RANGE, RANGE, unknown=False) for i in range(1, d + 1))
    return Schema(columns=(*features, Target("y", ("0", "1"))), name="one pass", about="synthetic: ranges by construction")


def piece(rows: int, d: int, seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``number``-th row group: features, shape (d, rows), normal and clipped to the range, and labels."""
    rng = np.random.default_rng([seed, 1, number])
    features = rng.standard_normal((d, rows), dtype=np.float32).clip(-RANGE, RANGE)
    margins = weights(d, seed).astype(np.float32) @ features
    return features, (rng.random(rows) < 1 / (1 + np.exp(-margins.astype(np.float64)))).astype(np.int8)


def write_parquet(path: str | Path, rows: int, d: int = 100, seed: int = 0, **options: Any) -> Path:
    """Write the table, and its schema beside it; the schema's path is returned.

    Parameters
    ----------
    path : str or Path
        The Parquet file. The schema is written to the same name with the suffix ``.toml``.
    rows, d : int
        Size of the table.
    seed : int
        The same rows for the same seed, whatever ``rows`` is: a larger file begins with a smaller one's full row groups.
    **options
        Of ``pyarrow.parquet.ParquetWriter``. By default nothing is compressed, and no column can be missing.
    """
    path = Path(path)
    fields = [pa.field(f"x{i}", pa.float32(), nullable=False) for i in range(1, d + 1)]
    schema = pa.schema([*fields, pa.field("y", pa.int8(), nullable=False)])
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with parquet.ParquetWriter(path, schema, **(plain | options)) as writer:
        for number, start in enumerate(range(0, rows, ROWS_A_GROUP)):
            features, labels = piece(ROWS_A_GROUP, d, seed, number)
            count = min(ROWS_A_GROUP, rows - start)
            columns = [pa.array(column[:count]) for column in (*features, labels)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=ROWS_A_GROUP)
    described = path.with_suffix(".toml")
    described.write_text(schema_to_toml(public_schema(d)), encoding="utf-8")
    return described


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    described = write_parquet(options.path, options.rows, options.features, options.seed)
    print(f"{options.path}: {options.rows:,} rows, {options.path.stat().st_size / 1e9:.2f} GB; schema: {described}")


if __name__ == "__main__":
    main()
