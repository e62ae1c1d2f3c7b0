"""One private pass over many rows: in memory, beside scikit-learn's SGD, which is not private; and from a file, in constant memory.

    python benchmarks/one_pass.py               # 10^6 x 100 rows in memory; 1.5 GB of memory
    python benchmarks/one_pass.py --parquet     # files of 10^6 and 10^7 rows, of which one at a time is on the disk: 4 GB

In memory, contestants take turns on the same float32 rows of norm 1, with labels drawn from a logistic model. What ``fit`` does is
one pass; what comes before (the plan) and after it (the certificate) is measured by itself, and also as a whole. scikit-learn makes
one pass as well (``max_iter=1, tol=None``), with its defaults and without shuffling, on float32 and on float64 rows.

From a file, each size is a whole ``fit_stream`` in a fresh process: reading, encoding, compilation, plan, training, certificate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dplateau as dp
from common import about, alternate, median_ratio, seconds, table
from one_pass_data import MARGIN, piece, public_schema

EPSILON = 1.0
FRESH = 100_000
"""Rows that accuracy is measured on, and nothing is trained on."""
OURS, WHOLE = "dplateau, the pass", "dplateau, with plan and certificate"


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of norm 1, labels of a logistic model, and the model."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, d), dtype=np.float32)
    rows = unit_length(rows)
    best = rng.standard_normal(d)
    best *= MARGIN * np.sqrt(d) / np.linalg.norm(best)
    margins = rows @ best.astype(np.float32)
    return rows, (rng.random(n, dtype=np.float32) < 1 / (1 + np.exp(-margins))).astype(np.int64), best


def unit_length(rows: np.ndarray) -> np.ndarray:
    """The rows, in place, at norm 1 and not above it after rounding."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    rows *= ((1 - 2.0**-22) / norms).astype(np.float32)[:, None]
    return rows


def with_processor_time(
    contestants: Mapping[str, Callable[[], object]],
) -> tuple[dict[str, Callable[[], object]], dict[str, list[float]]]:
    """The same functions, which also note their processor time (of all threads)."""
    spent: dict[str, list[float]] = defaultdict(list)

    def noting(name: str, run: Callable[[], object]) -> Callable[[], object]:
        def noted() -> None:
            before = time.process_time()
            run()
            spent[name].append(time.process_time() - before)

        return noted

    return {name: noting(name, run) for name, run in contestants.items()}, spent


def in_memory(n: int, d: int, repeats: int) -> None:
    """Print the comparison on rows in memory."""
    from sklearn.linear_model import SGDClassifier

    from dplateau.training import SecureGenerator

    rows, labels, best = data(n + FRESH, d)
    fresh, truth = rows[n:], labels[n:]
    rows, labels = rows[:n], labels[:n]
    wide = rows.astype(np.float64)
    made = dp.plan(n, d, epsilon=EPSILON, one_pass=True)
    shape = (made.run.steps, d)
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        found[OURS] = made.algorithm.fit(rows, labels).weights

    def whole() -> None:
        plan = dp.plan(n, d, epsilon=EPSILON, one_pass=True)
        found[WHOLE] = plan.algorithm.fit(rows, labels).weights
        dp.account(plan.run, plan.delta)

    def theirs(name: str, features: np.ndarray, shuffle: bool) -> Callable[[], object]:
        def run() -> None:
            model = SGDClassifier(loss="log_loss", max_iter=1, tol=None, shuffle=shuffle)  # type: ignore[arg-type]
            found[name] = model.fit(features, labels)  # type: ignore[assignment]

        return run

    peers = {
        "scikit-learn, float32": theirs("scikit-learn, float32", rows, True),
        "scikit-learn, float64": theirs("scikit-learn, float64", wide, True),
        "scikit-learn, float32, not shuffled": theirs("scikit-learn, float32, not shuffled", rows, False),
        "scikit-learn, float64, not shuffled": theirs("scikit-learn, float64, not shuffled", wide, False),
    }
    contestants, spent = with_processor_time({OURS: ours, WHOLE: whole, **peers})
    times = alternate(contestants, repeats, patience=120)
    pieces = alternate(
        {
            "plan": lambda: dp.plan(n, d, epsilon=EPSILON, one_pass=True),
            "noise": lambda: SecureGenerator().normal(shape),
            "certificate": lambda: dp.account(made.run, made.delta),
        },
        repeats,
    )
    print(f"setting: {n:,} x {d} rows, epsilon {EPSILON:g}, delta {made.delta:g}, {repeats} repeats\n\n{made}\n")

    def accuracy(name: str) -> str:
        model: Any = found[name]
        guessed = fresh @ model > 0 if isinstance(model, np.ndarray) else model.predict(fresh)
        return f"{100 * float((guessed == truth).mean()):.2f} %"

    print(
        table(
            ["", "median time", "from, to", "processor time", "time against the pass", "against the whole", "accuracy"],
            [
                [
                    name,
                    seconds(found_times),
                    f"{min(found_times):.2f} to {max(found_times):.2f} s",
                    f"{statistics.median(spent[name][1:] or spent[name]):.2f} s",
                    f"{median_ratio(found_times, times[OURS]):.2f}x",
                    f"{median_ratio(found_times, times[WHOLE]):.2f}x",
                    accuracy(name),
                ]
                for name, found_times in times.items()
            ],
        )
    )
    print(f"\nthe model that drew the labels: accuracy {100 * float(((fresh @ best > 0) == truth).mean()):.2f} %")
    print("by itself: " + ", ".join(f"{name} {seconds(found_times)}" for name, found_times in pieces.items()))
    print("(the noise is drawn within the pass; plan and certificate are not)")


def one_file(path: Path, d: int) -> dict[str, float]:
    """Train on a file, in this process, and say what it took."""
    from dplateau.data import encode, open_stream

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    model = dp.PrivateLogisticRegression(epsilon=EPSILON, delta=1e-8, classes=[0, 1], fit_intercept=False)
    before, clock, processor = peak(), time.perf_counter(), time.process_time()
    stream = open_stream(path, path.with_suffix(".toml"))
    model.fit_stream(stream)
    clock, processor, after = time.perf_counter() - clock, time.process_time() - processor, peak()
    # A row group that no file has: rows of the same model.
    import pyarrow as pa

    features, labels = piece(FRESH, d, 0, 1 << 40)
    names = [*(f"x{i}" for i in range(1, d + 1)), "y"]
    fresh = encode(pa.table([*features, labels], names=names), public_schema(d))
    return {
        "rows": stream.n,
        "bytes": path.stat().st_size,
        "seconds": clock,
        "processor": processor,
        "before": before,
        "peak": after,
        "accuracy": float(model.score(fresh.features, fresh.target)),
        "epsilon": model.epsilon_,
    }


def from_parquet(sizes: list[int], d: int, folder: Path | None) -> None:
    """Print what a whole pass over files of these numbers of rows takes."""
    rows, points = [], []
    with tempfile.TemporaryDirectory(prefix="one-pass-") as temporary:
        for n in sizes:
            path = (folder or Path(temporary)) / f"rows-{n}.parquet"
            here = Path(__file__).parent
            # In processes of their own: a child's peak memory includes what its parent holds when it starts.
            write = [sys.executable, str(here / "one_pass_data.py"), str(path), "--rows", str(n), "--features", str(d)]
            subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
            read = [sys.executable, __file__, "--features", str(d), "--one-file", str(path)]
            found = json.loads(subprocess.run(read, check=True, capture_output=True, text=True).stdout)
            if folder is None:
                path.unlink()
            points.append((n, found["seconds"], found["processor"]))
            rows.append(
                [
                    f"{n:,}",
                    f"{found['bytes'] / 1e9:.2f} GB",
                    f"{found['seconds']:.1f} s",
                    f"{found['processor']:.1f} s",
                    f"{n / found['seconds']:,.0f}",
                    f"{found['bytes'] / found['seconds'] / 1e9:.2f} GB/s",
                    f"{found['before'] / 1e6:.0f} MB",
                    f"{found['peak'] / 1e6:.0f} MB",
                    f"{100 * found['accuracy']:.2f} %",
                ]
            )
    header = ["rows", "file", "time", "processor time", "rows/s", "speed", "memory before", "peak memory", "accuracy"]
    print(table(header, rows))
    for (less, *early), (more, *late) in itertools.pairwise(points):
        clock, processor = ((more - less) / (b - a) for a, b in zip(early, late, strict=True))
        print(f"\neach row beyond the first {less:,}: {clock:,.0f} rows/s, {processor:,.0f} rows a second of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", help="rows: default 10^6 in memory, 10^6 and 10^7 with --parquet")
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5, help="alternating repeats of each, in memory (default 5)")
    parser.add_argument("--parquet", action="store_true", help="from Parquet files instead of from memory")
    parser.add_argument("--folder", type=Path, help="where to leave the Parquet files (default: they are deleted)")
    parser.add_argument("--one-file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_file:
        print(json.dumps(one_file(options.one_file, options.features)))
        return
    print(about("numpy", "jax", "pyarrow", "scikit-learn"))
    if options.parquet:
        from_parquet(options.rows or [10**6, 10**7], options.features, options.folder)
    else:
        for n in options.rows or [10**6]:
            in_memory(n, options.features, options.repeats)


if __name__ == "__main__":
    main()
