"""Time of importing dplateau, beside other libraries.

    python benchmarks/import_time.py

Every import runs in a fresh process; what a process that imports nothing takes is taken off. Files are in the disk cache. On a
busy machine trust the processor time.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable

from common import about, alternate, seconds, table

BARE = "pass"
OURS = ("import dplateau", "from dplateau import PrivateLogisticRegression", "import numpy, scipy.special")
PEERS = ("dp_accounting", "diffprivlib", "opacus")


def fresh(statement: str, processor: list[float]) -> Callable[[], object]:
    """A function that runs the statement in a new process, and notes the processor time."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def run() -> None:
        before = spent()
        subprocess.run([sys.executable, "-c", statement], check=True, stderr=subprocess.DEVNULL)
        processor.append(spent() - before)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="alternating repeats of each (default 9)")
    options = parser.parse_args()
    print(about("numpy", "scipy", "jax", "dp-accounting", "diffprivlib", "opacus", "torch"))
    statements = [BARE, *OURS]
    for name in PEERS:
        statement = f"import {name}"
        if subprocess.run([sys.executable, "-c", statement], stderr=subprocess.DEVNULL).returncode:
            print(f'{name} is not installed, or cannot be imported, so it is left out: pip install ".[peers]"')
        else:
            statements.append(statement)
    processor: dict[str, list[float]] = defaultdict(list)
    times = alternate({text: fresh(text, processor[text]) for text in statements}, options.repeats, patience=60)
    clock, busy = statistics.median(times[BARE]), statistics.median(processor[BARE])
    rows = [
        [f"`{text}`", seconds([value - clock for value in times[text]]), seconds([value - busy for value in processor[text]])]
        for text in statements[1:]
    ]
    print(table(["statement", "median time", "median processor time"], rows))
    print(f"\nbeyond bare Python: {1e3 * clock:.0f} ms, {1e3 * busy:.0f} ms of processor time")


if __name__ == "__main__":
    main()
