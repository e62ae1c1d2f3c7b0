"""From a file to a model on one core: a whole ``fit_stream`` beside what pyarrow alone takes for the same file.

    python benchmarks/stream.py                           # 10^6 x 100 rows: about a minute and 0.4 GB of disk
    python benchmarks/stream.py --rows 10_000_000         # 4 GB of disk
    python benchmarks/stream.py --compression snappy --dictionary

A process measures one thing, bound to one processor, with all of pyarrow's threads off, and reports the fastest of its repeats in
processor time: other work on the machine then hardly matters. A first repeat that compiles does not count. GB are those of the rows
in float32, also for CSV, of which the file has a tenth of the rows. Peak memory is of a process that trains once, at two sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import about, table
from one_pass_data import write_parquet

CSV_SHARE = 10
PIECE = 20_000
"""Rows that pyarrow reads at once."""


def pinned() -> None:
    """Bind this process to one processor, where the system can, and turn pyarrow's threads off."""
    import pyarrow as pa

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def decoded(path: Path) -> None:
    """Parquet to columns, with pyarrow, and nothing more."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        for _ in file.iter_batches(batch_size=PIECE, use_threads=False):
            pass


def numpy_rows(path: Path) -> None:
    """Parquet to rows of numpy, with pyarrow: column by column into one array."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        d = len(file.schema_arrow) - 1
        rows = np.empty((PIECE, d), np.float32)
        for batch in file.iter_batches(batch_size=PIECE, use_threads=False):
            for place, column in enumerate(batch.columns[:d]):
                rows[: batch.num_rows, place] = column.to_numpy()


def csv_tables(path: Path) -> None:
    """CSV to tables, with pyarrow."""
    from pyarrow import csv

    with csv.open_csv(path, read_options=csv.ReadOptions(use_threads=False)) as file:
        for _ in file:
            pass


def trained(path: Path) -> None:
    """A model: reading, encoding, plan, training, certificate. The number of rows is declared, as it is for one pass over a CSV."""
    import dplateau as dp
    from dplateau.data import open_stream

    n = int(path.stem.split("-")[1])
    model = dp.PrivateLogisticRegression(epsilon=1.0, delta=1e-9, classes=[0, 1], fit_intercept=False)
    model.fit_stream(open_stream(path, path.with_suffix(".toml"), n=n))


def encoded(path: Path) -> None:
    """The blocks that ``open_stream`` gives anybody: rows of numpy, encoded."""
    from dplateau.data import open_stream

    for _ in open_stream(path, path.with_suffix(".toml"), n=int(path.stem.split("-")[1])).blocks():
        pass


CONTESTANTS: dict[str, Callable[[Path], None]] = {
    "pyarrow: Parquet to columns": decoded,
    "pyarrow: Parquet to rows of numpy": numpy_rows,
    "dplateau: Parquet to a model": trained,
    "dplateau: Parquet to encoded rows": encoded,
    "pyarrow: CSV to columns": csv_tables,
    "dplateau: CSV to a model": trained,
}


def one(name: str, path: Path, repeats: int) -> dict[str, float]:
    """Run one contestant in this process, and say what it took."""
    pinned()
    run, times, clocks = CONTESTANTS[name], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats + 1):
            clock, begin = time.perf_counter(), time.process_time()
            run(path)
            times.append(time.process_time() - begin)
            clocks.append(time.perf_counter() - clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"processor": min(times[1:] or times), "clock": min(clocks[1:] or clocks), "peak": peak}


def measured(name: str, path: Path, repeats: int) -> dict[str, Any]:
    """The same in a fresh process."""
    command = [sys.executable, __file__, "--one", name, "--path", str(path), "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def write_csv(path: Path, source: Path) -> None:
    """The rows of a Parquet file as CSV, with its schema."""
    from pyarrow import csv, parquet

    with parquet.ParquetFile(source) as file, csv.CSVWriter(path, file.schema_arrow) as writer:
        for batch in file.iter_batches():
            writer.write_batch(batch)
    path.with_suffix(".toml").write_text(source.with_suffix(".toml").read_text())


def compare(rows: int, d: int, repeats: int, folder: Path, options: dict[str, Any]) -> None:
    """Write the files and print the tables."""

    def file(n: int, suffix: str = ".parquet") -> Path:
        path = folder / f"rows-{n}{suffix}"
        if not path.with_suffix(".parquet").exists():
            write_parquet(path.with_suffix(".parquet"), n, d, **options)
        if suffix == ".csv" and not path.exists():
            write_csv(path, path.with_suffix(".parquet"))
        return path

    few = max(1, rows // CSV_SHARE)
    found, lines = {}, []
    for name in CONTESTANTS:
        of_csv = "CSV" in name
        took = measured(name, file(few, ".csv") if of_csv else file(rows), repeats)
        size = 4 * d * (few if of_csv else rows) / 1e9
        found[name] = size / took["processor"]
        beside = "pyarrow: CSV to columns" if of_csv else "pyarrow: Parquet to rows of numpy"
        ratio = f"{found[name] / found[beside]:.2f}" if beside in found else ""
        lines.append([name, f"{took['processor']:.2f} s", f"{took['clock']:.2f} s", f"{found[name]:.3f} GB/s", ratio])
    print(table(["", "processor time", "time", "speed a core", "of pyarrow's"], lines))
    peaks = [[f"{n:,}", f"{measured('dplateau: Parquet to a model', file(n), 0)['peak'] / 1e6:.0f} MB"] for n in (few, rows)]
    print("\n" + table(["rows", "peak memory of a process that trains"], peaks))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5, help="of each, in a process of its own (default 5)")
    parser.add_argument("--compression", default="none", help="of the Parquet file: none, snappy, zstd (default none)")
    parser.add_argument("--dictionary", action="store_true", help="write columns with a dictionary")
    parser.add_argument("--folder", type=Path, help="where to leave the files (default: they are deleted)")
    parser.add_argument("--one", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.path, options.repeats)))
        return
    print(about("numpy", "jax", "pyarrow"))
    print(
        f"setting: {options.rows:,} x {options.columns} rows, compression {options.compression}, dictionary {options.dictionary}\n"
    )
    how = {"compression": options.compression, "use_dictionary": options.dictionary}
    with tempfile.TemporaryDirectory(prefix="stream-") as temporary:
        compare(options.rows, options.columns, options.repeats, options.folder or Path(temporary), how)


if __name__ == "__main__":
    main()
