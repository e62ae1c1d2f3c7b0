"""``dplateau demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from dplateau.cli import options as o


def demo(
    epsilon: Annotated[float, typer.Option(help="What the model may cost.")] = 1.0,
    delta: o.Delta = 1e-5,
) -> None:
    """Train on the bundled rows of UCI Adult (is a person's income above $50,000?) and print the certificate."""
    from time import perf_counter

    from dplateau.cli.train import fit, measure
    from dplateau.data import load_schema, sample_path
    from dplateau.report.text import certificate_text, console

    public = load_schema("adult")
    start = perf_counter()
    fitted = fit(sample_path("adult-train"), public, None, epsilon, delta=delta)
    seconds = perf_counter() - start
    accuracy = measure(fitted, sample_path("adult-test"), public)
    typer.echo(
        f"Private logistic regression on {fitted.run_.n} rows of UCI Adult, {fitted.n_features_in_} features, {seconds:.1f} s\n"
    )
    typer.echo(f"accuracy on the test rows   {accuracy:.2%}\n")
    console().print(certificate_text(fitted.certificate_))
