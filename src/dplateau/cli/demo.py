"""``dplateau demo``: the whole road on real rows that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json


def demo(
    epsilon: Annotated[float, o.option("What the model may cost, at most.", o.GUARANTEE, "--epsilon")] = 1.0,
    delta: o.Delta = None,
    report: Annotated[
        Path | None, o.option("Write the certificate as a page, .html; an existing one is replaced.", o.RESULT, metavar="FILE")
    ] = None,
    json: o.Json = False,
) -> None:
    """Train on the 32,561 rows of UCI Adult that come with the package, and print accuracy and certificate.

    Writes only a page, and only with --report.

    The rows: Becker and Kohavi (1996), UCI Machine Learning Repository, CC BY 4.0.
    """
    from dplateau.cli.train import check_numbers, fit, show_model, summary

    check_numbers(epsilon, delta)
    from dplateau.data import load_schema, sample_path
    from dplateau.report.page import check_page, write_page

    page = None if report is None else check_page(report)
    trained, holdout = fit(
        sample_path("adult-train"), load_schema("adult"), sample_path("adult-test"), epsilon=epsilon, delta=delta
    )
    if page is not None:
        write_page(trained.certificate, page)
    if json:
        show_json(summary(trained, holdout, None))
    else:
        show("Who earns more than 50,000 dollars a year? UCI Adult (1994 census), bundled.\n")
        show_model(trained, holdout, "Adult's test set", None)
        if page is not None:
            show(f"\nThe same as a page: {page}")
