"""What the benchmarks share: alternating repeats, tables, and a line that says where the numbers come from."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dplateau

CACHED = type(functools.cache(len))
"""What ``functools.cache`` makes of a function."""


def forget() -> None:
    """Throw away everything that the library keeps from one call to the next."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dplateau"):
            for kept in list(vars(module).values()):
                if isinstance(kept, CACHED):
                    kept.cache_clear()


def peer(module: str) -> Any:
    """The module of a peer, or None, with a line that says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        print(f'{module} is not installed, so it is left out: pip install ".[peers]"')
        return None


def alternate(
    contestants: Mapping[str, Callable[[], object]],
    repeats: int,
    *,
    patience: float = 3.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each repeat of each contestant.

    Contestants take turns, so that a busy machine slows all of them. A first turn of everybody warms up and does not count, unless
    it took more than ``patience`` seconds: such a contestant has no further turn.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    slow: dict[str, list[float]] = {}
    for repeat in range(repeats + 1):
        for name, run in contestants.items():
            if name in slow:
                continue
            begin = clock()
            run()
            seconds = clock() - begin
            if repeat:
                times[name].append(seconds)
            elif seconds > patience:
                slow[name] = [seconds]
    return times | slow


def median_ratio(slower: Sequence[float], faster: Sequence[float]) -> float:
    """How many times faster: the median of the pairs of one repeat where there are pairs, else the ratio of the medians."""
    if len(slower) == len(faster):
        return statistics.median(a / b for a, b in zip(slower, faster, strict=True))
    return statistics.median(slower) / statistics.median(faster)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(map(row, [header, ["---"] * len(header), *rows]))


def row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def seconds(times: Sequence[float]) -> str:
    """The median, with a unit that suits it; says so where there was no repeat."""
    median, once = statistics.median(times), " (once)" if len(times) == 1 else ""
    return (f"{median:.2f} s" if median >= 1 else f"{1e3 * median:.1f} ms" if median >= 1e-3 else f"{1e6 * median:.1f} us") + once


def about(*packages: str) -> str:
    """Date, machine and versions, as lines of Markdown."""
    found = [f"dplateau {dplateau.__version__}"]
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    now = datetime.datetime.now(datetime.UTC).date()
    machine = f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return f"date: {now}\nmachine: {machine}, load {os.getloadavg()[0]:.1f} at the start\nversions: {', '.join(found)}\n"


def _processor() -> str:
    """The processor's name where the system tells."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    return names[0] if names else platform.machine()
