"""How long a network's first training waits for the compiler, beside the gradient of the mean loss alone.

    python benchmarks/compilation.py

Every number is of a fresh process. ``gradient`` is what JAX takes to trace and compile the gradient of the mean loss of a batch;
``first`` is what a first training of a few steps takes more than the same training once more: tracing, compilation, and the test
of what was compiled. ``cached`` is the same where JAX finds what an earlier process compiled in a folder
(``JAX_COMPILATION_CACHE_DIR``), as the how-to says. Networks are those of ``network_step.py``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from common import about, median_ratio, seconds, table
from network_step import BATCHES, SETTINGS, data, network, ours

STEPS = 3
WHAT = ("gradient", "first")


def gradient(name: str, batch: int) -> float:
    """Seconds to trace and compile the gradient."""
    import jax

    (params, loss), columns = network(name), data(name)
    jax.block_until_ready(jax.tree.map(lambda leaf: leaf + 0, params))  # What JAX does once in a process is done.
    begin = time.perf_counter()
    step = jax.jit(jax.grad(lambda p, rows: jax.vmap(lambda example: loss(p, example))(rows).mean()))
    step.lower(params, tuple(column[:batch] for column in columns)).compile()
    return time.perf_counter() - begin


def first(name: str, batch: int) -> float:
    """Seconds that a first training takes more than the same one later."""
    train, times = ours(name, batch, STEPS), list[float]()
    for _ in range(4):
        begin = time.perf_counter()
        train()
        times.append(time.perf_counter() - begin)
    return times[0] - min(times[1:])


def fresh(what: str, name: str, batch: int, cache: str | None = None) -> float:
    """The same in a new process, which keeps what it compiles in a folder, or takes it from there."""
    own = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"} if cache else {}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_COMPILATION_CACHE", "JAX_PERSISTENT"))}
    command = [sys.executable, __file__, "--measure", what, name, str(batch)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=inherited | own)
    return float(found.stdout.split()[-1])


def compared(name: str, repeats: int) -> list[str]:
    """The line of a network."""
    batch = BATCHES.get(name, (256,))[0]
    times: dict[str, list[float]] = {what: [] for what in (*WHAT, "cached")}
    with tempfile.TemporaryDirectory() as folder:
        fresh("first", name, batch, folder)
        for _ in range(repeats):
            for what in WHAT:
                times[what].append(fresh(what, name, batch))
            times["cached"].append(fresh("first", name, batch, folder))
    ratio = median_ratio(times["first"], times["gradient"])
    least = min(times["first"]) / min(times["gradient"])
    return [name, *(seconds(times[what]) for what in (*WHAT, "cached")), f"{ratio:.1f}", f"{least:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="alternating repeats of each (default 5)")
    parser.add_argument("--networks", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, name, batch = options.measure
        print({"gradient": gradient, "first": first}[what](name, int(batch)))
        return
    print(about("jax", "numpy"))
    header = ["network", *WHAT, "cached", "first, gradient = 1", "of the least of each"]
    print(table(header, (compared(name, options.repeats) for name in options.networks)), flush=True)


if __name__ == "__main__":
    main()
