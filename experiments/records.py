"""What the experiments share: results that survive an interruption, certified costs, tables."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import dplateau as dp


class Records:
    """Results as lines of JSON, one a training; what is in the file is not done again.

    Parameters
    ----------
    path : Path
        The file. Each line says what was asked for (``setting``, ``seed``) and what came out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text() if path.exists() else ""
        # A line that was cut off by an interruption has no end: its training is done again.
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        if text and not text.endswith("\n"):
            path.write_text("".join(line for line in text.splitlines(keepends=True) if line.endswith("\n")))

    def results(self, setting: dict[str, Any]) -> list[dict[str, Any]]:
        """What came out of the trainings with this setting."""
        setting = json.loads(json.dumps(setting))
        return [line["result"] for line in self.lines if line["setting"] == setting]

    def collect(
        self, settings: Iterable[dict[str, Any]], seeds: Sequence[int], train: Callable[[dict[str, Any], int], dict[str, Any]]
    ) -> None:
        """Train what is missing, all settings with the first seed, then with the second, and so on."""
        settings = [json.loads(json.dumps(setting)) for setting in settings]
        known = [(line["setting"], line["seed"]) for line in self.lines]
        todo = [(setting, seed) for seed in seeds for setting in settings if (setting, seed) not in known]
        for number, (setting, seed) in enumerate(todo, 1):
            print(f"{number} of {len(todo)}: {setting}, seed {seed}", flush=True)
            line = {"setting": setting, "seed": seed, "result": train(setting, seed)}
            self.lines.append(line)
            with open(self.path, "a") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())


def certified(run: dp.Run | dp.Runs, delta: float) -> dict[str, Any]:
    """The least proved epsilon, and the papers' own values for the same run."""
    report = dp.account(run, delta=delta)
    rows = {row.name: row.epsilon for row in report.bounds}
    names = {"clt": "gdp-clt", "moments": "moments-accountant"}
    found = {key: rows[name] for key, name in names.items() if rows.get(name) is not None}
    return {"epsilon": report.epsilon} | {key: value.upper for key, value in found.items() if value is not None}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation."""
    if not values:
        return "not run"
    deviation = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
