"""The findings of an audit in a file: a first line that says what was audited, then one JSON line a run; it can be continued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from dplateau.analyses import Analysis
from dplateau.audit.settings import VERSION
from dplateau.spec import InputError

FORMAT: Final = 1


def header(seed: int, analyses: Sequence[Analysis], version: str) -> dict[str, Any]:
    """The first line: what must be equal for a file to be continued; bounds of another version are other bounds."""
    names = [analysis.name for analysis in analyses]
    return {"format": FORMAT, "stream": VERSION, "seed": seed, "analyses": names, "version": version}


def read(file: Path, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that ``file`` already holds. A half-written last line is cut off; a new file gets its first line.

    Raises
    ------
    InputError
        The file is of another seed, version or set of analyses, or is no such file.
    """
    text = file.read_bytes() if file.is_file() else b""
    whole = text[: text.rfind(b"\n") + 1]
    first = json.dumps(wanted).encode() + b"\n"
    if not whole and first.startswith(text):
        file.write_bytes(first)
        return []
    try:
        found, *findings = [json.loads(line) for line in whole.splitlines()]
        indices = [finding["index"] for finding in findings]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{file} is not a file of audit findings: give --output another name.") from None
    if found != wanted:
        theirs = found if isinstance(found, dict) else {}
        differing = ", ".join(name for name in wanted if theirs.get(name) != wanted[name])
        raise InputError(f"{file} holds another audit ({differing} differs): give --output another name.")
    if indices != list(range(len(indices))):
        raise InputError(f"{file} lacks findings in between: delete it and start again.")
    if len(whole) < len(text):
        with file.open("r+b") as stream:
            stream.truncate(len(whole))
    return findings


def append(file: Path, finding: dict[str, Any]) -> None:
    """Write one finding, as one line."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(finding, allow_nan=False) + "\n")


@dataclass(frozen=True)
class Summary:
    """One analysis over all findings.

    Attributes
    ----------
    analysis, status : str
        Its name and status.
    settings : int
        Runs that it applies to.
    largest, median : float or None
        Of its tightness, exact epsilon over bound.
    broken : tuple of int
        Indices of the runs on which it was contradicted.
    failed : tuple of int
        Indices of the runs on which it ended with an error.
    """

    analysis: str
    status: str
    settings: int
    largest: float | None
    median: float | None
    broken: tuple[int, ...]
    failed: tuple[int, ...]


def summaries(analyses: Sequence[Analysis], findings: Sequence[dict[str, Any]]) -> list[Summary]:
    """What the findings say of each analysis, in its own order."""
    result: list[Summary] = []
    for analysis in analyses:
        mine = [(f["index"], v) for f in findings for v in f["verdicts"] if v["analysis"] == analysis.name]
        ratios = [v["tightness"] for _, v in mine if v["tightness"] is not None]
        largest, middle = (max(ratios), median(ratios)) if ratios else (None, None)
        broken, failed = (tuple(index for index, v in mine if v[name]) for name in ("broken", "failed"))
        result.append(Summary(analysis.name, analysis.status.__name__, len(mine), largest, middle, broken, failed))
    return result
