"""``dplateau check``: what a schema clips, drops or refuses in a file, for the owner of the records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dplateau.cli import options as o
from dplateau.cli.output import printable, show, show_json

if TYPE_CHECKING:
    from dplateau.data import ColumnFindings

SHOWN = 5


def check(
    file: Annotated[Path, o.path_argument(f"A file with rows: {o.FORMATS}.", "FILE")],
    schema: Annotated[
        str, o.option("The public schema: a TOML file, or a name (adult, a9a).", "The file", "--schema", metavar="FILE")
    ],
    json: o.Json = False,
) -> int:
    """Count what a schema clips, drops or refuses in a file: for the owner's eyes only.

    The output is computed from the records without noise, and no epsilon covers
    it. Do not pass it on. Nothing is written to disk. The exit status is 1 if no
    entry of some column fits the schema, or if train would refuse the file.

    For example:

    dplateau check visits.csv --schema visits.toml
    """
    from dplateau.data.check import FOR_THE_OWNER, check_file
    from dplateau.report.text import facts

    found = check_file(file, schema)
    if json:
        columns = [{**asdict(column), "lost": column.lost} for column in found.columns]
        show_json({"warning": FOR_THE_OWNER, "rows": found.rows, "passed": found.passed, "columns": columns})
    else:
        show(FOR_THE_OWNER)
        show("")
        said = [(printable(column.name), "\n".join(_lines(column))) for column in found.columns if not column.clean]
        if said:
            show(facts(*said))
            show("")
        fit = len(found.columns) - len(said)
        show(f"{found.rows:,} rows; {fit} of {len(found.columns)} columns fit the schema in every row.")
    return 0 if found.passed else 1


def _lines(column: ColumnFindings) -> Iterator[str]:
    """What there is to say about a column, the worst first."""
    what = "class" if column.kind == "target" else "value"
    if column.lost:
        yield "LOST: no entry fits what is declared, so nothing of the column is used."
    if column.refused:
        yield "REFUSED: train stops at this column."
    for count, said in (
        (column.unreadable, "not a date like 2020-12-31" if column.kind == "date" else "not a finite number"),
        (column.outside, "outside the range, and clipped to it"),
        (column.undeclared, f"not a declared {what}"),
        (column.empty, "empty"),
    ):
        if count:
            yield f"{_share(count, column.entries)} {said}"
    for spelling in column.spellings[:SHOWN]:
        share = _share(spelling.rows, column.entries)
        yield f'  {share} "{printable(spelling.found)}", declared as "{printable(spelling.declared)}"'
    if len(column.spellings) > SHOWN:
        yield f"  and {len(column.spellings) - SHOWN} more spellings: see --json"
    if column.spellings:
        yield "  Repair the file, or declare these as aliases of the column."
    if column.constant:
        yield "the same in every row after encoding"


def _share(count: int, entries: int) -> str:
    share = count / entries
    return f"{share:.1%}" if share == 1 or 0.0005 <= share < 0.9995 else "more than 99.9%" if share > 0.5 else "less than 0.1%"
