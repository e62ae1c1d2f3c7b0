"""``dplateau audit --black-box``: the table of what training solvers many times shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplateau.accounting.enclosure import rounded_up
from dplateau.cli.output import show, show_json
from dplateau.spec.arguments import integer

if TYPE_CHECKING:
    from dplateau.black_box import Finding


def black_box_audit(solvers: Sequence[str] | None, trainings: int, confidence: float, json: bool) -> int:
    """Train, print, and return the exit status: 1 if a certificate is refuted."""
    from dplateau.black_box import audit_solvers
    from dplateau.progress import progress_bar

    trainings = integer("--trainings", trainings, low=40)
    findings: list[Finding] = []
    try:
        with progress_bar("audit", "cases") as progress:
            for finding in audit_solvers(solvers, trainings=trainings, confidence=confidence, progress=progress):
                findings.append(finding)
    except KeyboardInterrupt:
        if findings and not json:
            show(_page(findings, confidence))
        raise
    wrong = [finding for finding in findings if finding.wrong]
    if json:
        cases = [finding.to_dict() for finding in findings]
        show_json({"trainings": trainings, "confidence": confidence, "cases": cases, "wrong": len(wrong)})
    else:
        show(_page(findings, confidence))
    return 1 if wrong else 0


def _page(findings: Sequence[Finding], confidence: float) -> RenderableType:
    """One line a case: certified and found, as epsilon and as standard deviations."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("solver", "data"):
        table.add_column(name, no_wrap=True)
    for name in ("epsilon", "found", "mu", "found"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in findings:
        found = one.found
        numbers = ("-",) * 3 if found is None else (_down(found.epsilon), f"{found.allowed_mu:.2f}", _down(found.mu))
        verdict = "refused" if found is None else "wrong" if one.wrong else ""
        style = "bold red" if one.wrong else "dim" if found is None else ""
        table.add_row(one.solver, one.data, rounded_up(one.epsilon, 3), *numbers, verdict, style=style)
    delta, trainings = findings[0].delta, min(one.trainings for one in findings)
    wrong = sum(one.wrong for one in findings)
    notes = [
        f"{trainings:,} trainings or more on each data set, confidence {confidence!r}, epsilon at delta {delta:g}.",
        "found: a lower bound. mu: standard deviations that the certified trade-off allows.",
        f"{wrong} of {len(findings)} certificates are refuted." if wrong else "No certificate is refuted.",
    ]
    if any(one.found is None for one in findings):
        notes.append("refused: the solver does not accept such data, and released nothing.")
    return Group(table, "", *(Text(note, "dim") for note in notes))


def _down(value: float) -> str:
    """A lower bound with two decimals, never larger than it is."""
    return f"{math.floor(100 * value) / 100:.2f}"
