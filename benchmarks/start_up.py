"""Time until a command line answers, beside that of black.

    python benchmarks/start_up.py [--beside /path/to/black]

Every command runs in a fresh process, in turn; files are in the disk cache. On a busy machine trust the processor time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from common import about, alternate, seconds, table

RUN = "--n 60000 --batch-size 256 --steps 3516 --noise-multiplier 1.3 --delta 1e-5"
COMMANDS = (
    "--help",
    "--version",
    "train --help",
    "trian",
    "train nowhere.csv --schema adult --epsilon 1",
    "train empty.csv --schema adult --epsilon 1",
    "train rows.csv --schema bad.toml --epsilon 1",
    "train rows.csv --schema adult --epsilon -1",
    "account --n 60000 --batch-size 256 --steps 3516",
    f"account {RUN}",
)
FILES = {"empty.csv": "", "rows.csv": "a,b\n1,2\n", "bad.toml": '[columns.a]\ntype = "nummber"\n'}


def fresh(command: list[str], folder: Path, processor: list[float]) -> Callable[[], object]:
    """A function that runs the command in a new process, and notes the processor time."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def run() -> None:
        before = spent()
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        processor.append(spent() - before)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="alternating repeats of each (default 9)")
    parser.add_argument("--beside", default="black", help="a program whose --help is timed as well (default black)")
    options = parser.parse_args()
    print(about("numpy", "scipy", "jax", "typer"))
    commands = {f"dplateau {command}": [sys.executable, "-m", "dplateau", *command.split()] for command in COMMANDS}
    commands = {"python -c pass": [sys.executable, "-c", "pass"], **commands}
    if (beside := shutil.which(options.beside)) is None:
        print(f"{options.beside} is not installed, so it is left out")
    else:
        said = subprocess.run([beside, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        print(f"beside: {said}\n")
        commands[f"{Path(beside).name} --help"] = [os.path.abspath(beside), "--help"]
    processor: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            (Path(folder) / name).write_text(text)
        times = alternate(
            {name: fresh(command, Path(folder), processor[name]) for name, command in commands.items()},
            options.repeats,
            patience=60,
        )
    rows = [[f"`{name}`", seconds(times[name]), f"{1e3 * statistics.median(processor[name]):.0f} ms"] for name in commands]
    print(table(["command", "median time", "median processor time"], rows))


if __name__ == "__main__":
    main()
