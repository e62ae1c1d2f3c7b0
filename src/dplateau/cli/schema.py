"""``dplateau schema``: a schema for a person to fill in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import write_new


def schema(
    file: Annotated[Path, o.path_argument(f"A file with rows: {o.FORMATS}.", "FILE")],
    target: Annotated[
        str | None, o.option("The column to predict (default: the last one).", "The file", "--target", metavar="COLUMN")
    ] = None,
    header: Annotated[
        bool,
        o.flag("Whether a CSV file starts with column names.", "The file", "--header/--no-header"),
    ] = True,
    output: Annotated[Path | None, o.output("Write to a new file instead of the terminal.")] = None,
) -> None:
    """Write a schema for a file, with names and types of columns; you fill in ranges and values.

    They are left open on purpose: a range or a list of values taken from private
    rows is a statistic of them, which one person can change and no guarantee
    covers. Take them from a form, a code book or common knowledge.

    For example:

    dplateau schema visits.csv --target readmitted --output visits.toml
    """
    from dplateau.data.template import schema_template
    from dplateau.files import check_new_file

    if output is not None:
        check_new_file(output)
    text = schema_template(file, target=target, header=header)
    if output is None:
        print(text, end="")
        return
    write_new(output, text)
    print(f'{output} is written. Replace every "FILL IN" with what is publicly known about the column: the file says how, and why.')
