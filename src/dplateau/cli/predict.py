"""``dplateau predict``: what a saved model says of new rows."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeAlias

from dplateau.cli import options as o
from dplateau.cli.output import printable, show
from dplateau.spec.errors import InputError

SUFFIXES: Final = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
Columns: TypeAlias = dict[str, Any]
Model = Annotated[Path, o.path_argument("The folder that dplateau train wrote.", "MODEL")]


def predict(
    model: Model,
    file: Annotated[Path, o.path_argument(f"The rows: {o.FORMATS}.", "FILE")],
    output: Annotated[Path | None, o.output("New file, .csv or .parquet (default, or with -: CSV on standard output).")] = None,
    proba: Annotated[
        bool,
        o.flag("Add the probability of every class (logistic models).", o.RESULT, "--proba"),
    ] = False,
    cost: o.Cost = None,
    keep: Annotated[
        list[str] | None,
        o.option(
            "A column of the rows to write first, such as their number. Repeat it for several.",
            o.RESULT,
            "--keep",
            metavar="COLUMN",
        ),
    ] = None,
    signed_by: o.SignedBy = None,
) -> None:
    """Predict new rows with a saved model: one line for each row, in the same order.

    The rows need the feature columns of the model's schema. The target column
    is not needed, and columns that the schema does not name are ignored.
    Predictions cost no privacy, whatever the rows are: that cost was paid when
    the model was released.

    For example:

    dplateau predict people-model new.csv -o predictions.csv

    dplateau predict people-model new.parquet --proba --keep id | head
    """
    from dplateau.files import check_new_file, new_file

    costs = o.numbers_by_class("--cost", cost)
    to_file = None if output is None or str(output) == "-" else output
    kind = None if to_file is None else SUFFIXES.get(to_file.suffix.lower())
    if to_file is not None:
        if kind is None:
            raise InputError(f"{to_file} ends in neither .csv nor .parquet: the ending determines the format.")
        check_new_file(to_file)
    from dplateau.estimators.table_model import load_model

    pieces = load_model(model, signed_by=signed_by).predict_pieces(file, proba=proba, cost=costs, keep=keep or ())
    if to_file is None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as held:  # so that an error leaves no half of it
            _write_csv(held, pieces)
            held.seek(0)
            if sys.stdout.isatty():  # The model may be a stranger's, and terminals obey what is in the names of classes.
                sys.stdout.writelines(printable(line.rstrip("\n")) + "\n" for line in held)
            else:
                shutil.copyfileobj(held, sys.stdout)
        return
    with new_file(to_file) as part:
        if kind == "csv":
            with part.open("x", encoding="utf-8", newline="") as opened:
                rows = _write_csv(opened, pieces)
        else:
            rows = _write_parquet(part, pieces)
    show(f"{rows:,} prediction{'s' if rows > 1 else ''} written to {printable(to_file)}")


def _write_csv(file: TextIO, pieces: Iterable[Columns]) -> int:
    """Write the columns; the number of rows."""
    writer, rows = csv.writer(file, lineterminator="\n"), 0
    for columns in pieces:
        if not rows:
            writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))  # Arrow's columns have it, too
        rows += len(columns["prediction"])
    return rows


def _write_parquet(path: Path, pieces: Iterable[Columns]) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    rows = 0
    with ExitStack() as stack:
        file, writer = stack.enter_context(path.open("xb")), None  # Arrow opens no name that is not UTF-8
        for columns in pieces:
            table = pa.table(columns)
            writer = writer or stack.enter_context(parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            rows += table.num_rows
    return rows
