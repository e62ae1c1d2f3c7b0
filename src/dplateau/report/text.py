"""Reports and certificates as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplateau.account import Report
from dplateau.report.certificate import INSECURE, Certificate

ADJACENCY = {"add-remove": "one record is there or not", "replace": "one record has this or that value"}
RELEASED = {"all": "every noisy gradient, hence every iterate", "last": "the last iterate only"}
STYLE = {"Proved": "green", "Conjectured": "yellow", "Asymptotic": "yellow", "Refuted": "red"}


def _bounds(rows: Iterable[dict[str, Any]], best: str | None) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for header, justify in (
        ("", "left"),
        ("bound", "left"),
        ("status", "left"),
        ("epsilon", "right"),
        ("source, or why not", "left"),
    ):
        table.add_column(header, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        mark = Text("*", "bold green") if row["name"] == best else Text(" ")
        value = f"{row['epsilon']:.4f}" if row["epsilon"] is not None else "-"
        status = Text(row["status"], STYLE[row["status"]])
        table.add_row(mark, row["name"], status, value, Text(row["why_not"] or row["source"], "dim"))
    return table


def _facts(pairs: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, value)
    return table


def _headline(epsilon: float, delta: float, certified: bool) -> Text:
    if not math.isfinite(epsilon):
        return Text("no finite epsilon can be certified for this run", "bold red")
    return Text.assemble(
        ("epsilon ", "dim"), (f"{epsilon:.4f}", "bold green" if certified else "bold red"), (f"  at delta {delta:g}", "dim")
    )


def report_text(report: Report) -> RenderableType:
    """A report: the certified epsilon and the table of all bounds."""
    run = report.run
    z = run.noise_multiplier
    noise = f"{len(z)} values, {min(z):.4g} to {max(z):.4g}" if isinstance(z, tuple) else f"{z:.6g}"
    facts = [
        ("run", f"{run.steps} steps on {run.n} records, {run.sampling.kind} batches ({run.epochs:.4g} epochs)"),
        ("noise multiplier", noise),
        ("neighbours", f"{run.adjacency}: {ADJACENCY[run.adjacency]}"),
        ("covers", RELEASED[run.released]),
    ]
    best = report.best.name if report.best else None
    note = Text("* certifies. Only a proved bound may; its value is the upper end of an enclosure.", "dim")
    parts = [
        _headline(report.epsilon, report.delta, best is not None),
        _facts(facts),
        Text(""),
        _bounds([r.to_dict() for r in report.bounds], best),
        note,
    ]
    return Group(*parts)


def certificate_text(certificate: Certificate) -> RenderableType:
    """A certificate: what is promised, and what that rests on."""
    content = certificate.content
    promise = (
        "Whoever sees the model, and knows everything about the data but one record, "
        f"learns of it no more than (epsilon, delta) = ({certificate.epsilon:.4g}, {certificate.delta:g}) allows."
    )
    facts = [
        ("promise", INSECURE if certificate.insecure else promise),
        (
            "argument",
            f"{content['bound']} ({content['status']}), in [{content['enclosure'][0]:.6f}, {content['enclosure'][1]:.6f}]",
        ),
        ("neighbours", f"{content['adjacency']}: {ADJACENCY[content['adjacency']]}"),
        ("covers", RELEASED[content["released"]]),
        ("noise", content["generator"]),
        *((item["how"], item["statement"]) for item in content["assumptions"]),
    ]
    if content["mu"] is not None:
        facts.insert(2, ("Gaussian DP", f"mu = {content['mu']:.6g}"))
    return Group(_headline(certificate.epsilon, certificate.delta, not certificate.insecure), _facts(facts))


def console(*, stderr: bool = False) -> Console:
    """A console that respects NO_COLOR and pipes, and wraps at 80 columns where the width is unknown."""
    return Console(stderr=stderr, highlight=False, soft_wrap=False)
