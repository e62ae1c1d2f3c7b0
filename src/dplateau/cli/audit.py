"""``dplateau audit``: try to break the bounds, by exact laws in one dimension, or the solvers, by training them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json
from dplateau.spec.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dplateau.analyses import Analysis
    from dplateau.audit.journal import Summary

WHAT = "What is audited"
TRAINED = "What is trained"


def audit(
    settings: Annotated[
        int | None, o.option("How many random runs to try (default: 2000).", WHAT, "--settings", metavar="N")
    ] = None,
    seed: Annotated[int | None, o.option("Seed of the random runs (default: 0).", WHAT, "--seed", metavar="N")] = None,
    analysis: Annotated[
        list[str] | None, o.option("Test only this analysis; can be repeated.", WHAT, "--analysis", metavar="NAME")
    ] = None,
    output: Annotated[Path | None, o.output("File of findings; an unfinished one is continued.")] = None,
    black_box: Annotated[bool, o.flag("Train solvers, and audit what they release.", TRAINED, "--black-box")] = False,
    solver: Annotated[
        list[str] | None, o.option("Train only this solver; can be repeated.", TRAINED, "--solver", metavar="NAME")
    ] = None,
    trainings: Annotated[
        int | None, o.option("Trainings on each of two data sets (default: 1000).", TRAINED, "--trainings", metavar="N")
    ] = None,
    confidence: Annotated[
        float | None,
        o.option("Probability that no correct certificate is called wrong (default: 0.9999).", TRAINED, "--confidence"),
    ] = None,
    json: o.Json = False,
) -> int:
    """Try to refute every bound on random runs; exit status 1 if a proved one is refuted.

    In one dimension, with losses whose gradients are affine, the distribution
    of the last iterate is known exactly. A search finds data sets that are bad
    for privacy; no bound may be smaller than their exact epsilon. An analysis
    that ends with an error is a failure too.

    With --black-box, every solver is trained thousands of times on neighbouring
    data sets, the worst that are known for it. How well they can be told apart
    gives a lower bound on epsilon, which must not exceed the certified one.

    For example:

    dplateau audit

    dplateau audit --settings 100000 --output findings.jsonl

    dplateau audit --black-box --solver pnsgd
    """
    from dplateau import __version__
    from dplateau.audit import audit as search
    from dplateau.audit.journal import append, header, read, summaries
    from dplateau.progress import progress_bar
    from dplateau.spec.arguments import integer

    trained = {"solver": solver, "trainings": trainings, "confidence": confidence}
    drawn = {"settings": settings, "seed": seed, "analysis": analysis, "output": output}
    for name, value in (drawn if black_box else trained).items():
        if value is not None:
            there = "cannot be combined with --black-box: leave it out" if black_box else "needs --black-box: add it"
            raise InputError(f"--{name} {there}.")
    if black_box:
        from dplateau.cli.black_box import black_box_audit

        return black_box_audit(solver, 1000 if trainings is None else trainings, 0.9999 if confidence is None else confidence, json)
    count = integer("--settings", 2000 if settings is None else settings)
    seed = integer("--seed", 0 if seed is None else seed, low=0)
    chosen = _chosen(analysis)
    findings = [] if output is None else read(output, header(seed, chosen, __version__))[:count]
    try:
        with progress_bar("audit", "settings") as done:
            done(len(findings), count)
            for found in search(chosen, count - len(findings), seed=seed, first=len(findings)):
                findings.append(found.to_dict())
                if output is not None:
                    append(output, findings[-1])
                done(len(findings), count)
    except KeyboardInterrupt:
        if findings and not json:
            show(_page(summaries(chosen, findings), findings, seed))
        raise
    rows = summaries(chosen, findings)
    wrong = [f for f in findings if any(v["failed"] or (v["broken"] and v["status"] == "Proved") for v in f["verdicts"])]
    if json:
        show_json({"settings": count, "seed": seed, "analyses": [vars(row) for row in rows], "wrong": wrong})
    else:
        show(_page(rows, findings, seed))
        for finding in wrong:
            show_json(finding)
    return 1 if wrong else 0


def _chosen(names: Sequence[str] | None) -> list[Analysis]:
    from dplateau.analyses import ANALYSES
    from dplateau.spec.arguments import one_of

    known = [analysis.name for analysis in ANALYSES]
    for name in names or ():
        one_of("--analysis", name, known)
    return [analysis for analysis in ANALYSES if not names or analysis.name in names]


def _page(rows: Sequence[Summary], findings: Sequence[dict[str, Any]], seed: int) -> RenderableType:
    """A table of the analyses, and what could not be computed."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("analysis", "status", "settings", "largest", "median", "broken"):
        table.add_column(name, justify="left" if name in {"analysis", "status", "broken"} else "right", no_wrap=True)
    for row in rows:
        numbers = ("-" if value is None else f"{value:.4f}" for value in (row.largest, row.median))
        verdict = f"{len(row.broken):,}" if row.broken else "no" if row.settings else "-"
        style = "bold red" if row.broken and row.status == "Proved" else "" if row.status == "Proved" else "dim"
        table.add_row(row.analysis, row.status, f"{row.settings:,}", *numbers, verdict, style=style)
    failed = sum(finding["epsilon"] is None for finding in findings)
    notes = [f"{len(findings):,} settings of seed {seed}; largest and median: exact epsilon divided by the bound's, 1 is tight."]
    for row in rows:
        if row.broken:
            notes.append(f"{row.analysis} is refuted {len(row.broken):,} times, first in setting {row.broken[0]}.")
        if row.failed:
            notes.append(f"{row.analysis} ended with an error {len(row.failed):,} times, first in setting {row.failed[0]}.")
    if failed:
        notes.append(f"{failed:,} of them have no exact distribution: their noise is too small for double precision.")
    return Group(table, "", *(Text(note, "dim") for note in notes))
