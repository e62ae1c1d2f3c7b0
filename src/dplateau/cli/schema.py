"""``dplateau schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WHY = (
    "The ranges and categories are for you to fill in, from what is publicly known: "
    "read from the file they would be statistics of its rows, and every one of them would leak."
)


def schema(
    file: Annotated[Path, typer.Argument(help="The data file: CSV, Parquet, LIBSVM or NumPy.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of to standard output.", show_default=False)
    ] = None,
    target: Annotated[str | None, typer.Option(help="Name of the column to predict.", show_default=False)] = None,
    header: Annotated[bool, typer.Option(help="Whether the first line of a CSV file names the columns.")] = True,
) -> None:
    """Write a schema to fill in: the columns and their types, no ranges and no values.

    Example: dplateau schema data.csv --target income -o schema.toml
    """
    from dplateau.data import schema_template
    from dplateau.report.files import write_text

    text = schema_template(file, target=target, header=header)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(f"wrote {output}")
    typer.echo(WHY, err=True)
