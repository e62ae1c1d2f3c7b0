"""What a second process gains: throughput of full-batch steps on one and on two cores, and a model of what they cost.

    python benchmarks/distributed.py                        # 10^6 rows of 100 features, about three minutes
    python benchmarks/distributed.py --features 1000        # needs 12 GB
    python benchmarks/distributed.py --networks             # steps of networks, about ten minutes

Every process is pinned to a core of its own. The model has three numbers, each measured by itself: seconds an entry of a row where
rows are in the cache (``compute``), seconds that it takes to come from memory while all processes read (``read``), and seconds to
add and to gather the slices of the weights (``reduce``). A step is predicted to take ``entries * (compute + read) + reduce``. On a
machine with other work ``reduce`` is that work's slice of time, milliseconds in place of tenths of one.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

LIMIT = 900
ROUNDS = 3
NUMBERS = (10, 1_000, 1_000_000)
CACHED = 1 << 18
"""Entries that fit the cache of a core."""
NETWORKS = (
    ((123, 16, 2), 256, 1000),
    ((123, 16, 2), 1024, 500),
    ((123, 16, 2), 4096, 200),
    ((784, 256, 10), 256, 100),
    ((784, 256, 10), 4096, 20),
    ((784, 2560, 2560, 10), 1024, 4),
    ((784, 2560, 2560, 10), 4096, 2),
)
"""Widths of layers, examples in a batch, steps of a training."""


def settled(seconds: list[float]) -> float:
    """The least of them, which other work on the machine disturbs least."""
    return min(seconds)


def connected(arguments: argparse.Namespace) -> Any:
    """The process, pinned to a core of its own before anything counts the cores, and the cluster if there is one."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[arguments.index]})
    from dplateau.training import Cluster

    if arguments.processes == 1:
        return None
    return Cluster.connect(f"127.0.0.1:{arguments.port}", arguments.processes, arguments.index)


def steps(cluster: Any, arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds a full-batch step takes."""
    import numpy as np

    from dplateau.losses import Logistic
    from dplateau.spec import FullBatch, Run
    from dplateau.training import train
    from dplateau.training.chunks import chunk_length

    rng, d = np.random.default_rng(arguments.index), arguments.features
    own = arguments.rows // arguments.processes
    rows, target = rng.integers(-100, 100, (own, d), dtype=np.int8), rng.integers(0, 2, own)
    many = Run(n=own * arguments.processes, sampling=FullBatch(), steps=10**6, noise_multiplier=100.0, step_size=1e-3)
    length = chunk_length(many, d)
    run, seen = many.replace(steps=arguments.chunks * length), []
    train(run, Logistic(), rows, target, cluster=cluster, progress=lambda *_: seen.append(time.perf_counter()))
    # The first chunks are compiled and filled; the last time is that after all.
    return {"step": settled([(b - a) / length for a, b in pairwise(seen[1:])])}


def network(cluster: Any, arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds a step of a network takes, on a Poisson batch of twice as many examples."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from dplateau.networks import train_network
    from dplateau.spec import Poisson, Run

    widths, batch, timed = NETWORKS[arguments.which]
    first = np.random.default_rng(0)
    params = [jnp.asarray(first.normal(size=shape) / shape[0] ** 0.5, jnp.float32) for shape in pairwise(widths)]
    rng, own = np.random.default_rng(arguments.index + 1), 2 * batch // arguments.processes
    examples = rng.normal(size=(own, widths[0])).astype(np.float32), rng.integers(0, widths[-1], own)

    def loss(params: Any, example: Any) -> Any:
        x, label = example
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer)
        return -jax.nn.log_softmax(x @ params[-1])[label]

    run = Run(n=2 * batch, sampling=Poisson(batch), steps=timed, noise_multiplier=1.0, clip_norm=1.0, step_size=1e-3)

    def once() -> float:
        seen: list[float] = []
        train_network(run, loss, params, examples, cluster=cluster, progress=lambda *_: seen.append(time.perf_counter()))
        return (seen[-1] - seen[0]) / timed

    return {"step": settled([once() for _ in range(4)])}  # The first one compiles.


def read(cluster: Any, _: argparse.Namespace) -> dict[str, float]:
    """Seconds that an entry of 4 bytes takes to come from memory, block by block, while the other processes read too."""
    import numpy as np

    numbers, block, found = np.ones(1 << 26, np.int32), np.empty(1 << 15), []
    starts = range(0, len(numbers), len(block))
    if cluster is not None:
        cluster.most(0)
    for _repeat in range(7):
        begin = time.perf_counter()
        for start in starts:
            np.copyto(block, numbers[start : start + len(block)])
        middle = time.perf_counter()
        for _start in starts:
            np.copyto(block, numbers[: len(block)])
        found.append((2 * middle - begin - time.perf_counter()) / len(numbers))
    return {"entry": statistics.median(found)}


def reduce(cluster: Any, arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds that adding numbers of all processes by slices, and gathering the slices, takes."""
    import jax
    import numpy as np
    from jax.sharding import PartitionSpec

    found: dict[str, float] = {}
    for size in (*NUMBERS, arguments.features):

        def both(values: Any, times: Any, slices: Any = cluster.slices, shape: tuple[int, ...] = (size,)) -> Any:
            return jax.lax.fori_loop(0, times, lambda _, x: slices.gathered(slices.scattered(x)[0], shape)[None] >> 1, values)

        apart, same = PartitionSpec("devices"), PartitionSpec()
        shared = jax.shard_map(both, mesh=cluster.mesh, in_specs=(apart, same), out_specs=apart, check_vma=False)
        with jax.enable_x64(True):
            values, times, often = cluster.put(np.ones((1, size), np.int64), apart), 200 if size < 10**5 else 10, []
            work = jax.jit(shared)
            for _ in range(10):
                begin = time.perf_counter()
                jax.block_until_ready(work(values, times))
                often.append((time.perf_counter() - begin) / times)
        found[str(size)], found[f"{size} least"] = statistics.median(often[1:]), min(often[1:])
    return found


def measured(what: str, processes: int, arguments: argparse.Namespace, **changes: int) -> list[dict[str, float]]:
    """What each of so many processes measures."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    given = {"rows": arguments.rows, "features": arguments.features, "chunks": arguments.chunks, **changes}
    options = [f"--{name}={value}" for name, value in given.items()]
    command = [sys.executable, "-W", "ignore", __file__, f"--what={what}", f"--processes={processes}", f"--port={port}", *options]
    running = [subprocess.Popen([*command, f"--index={i}"], stdout=subprocess.PIPE, text=True) for i in range(processes)]
    said = [one.communicate(timeout=LIMIT)[0] for one in running]
    if any(one.returncode for one in running):
        raise SystemExit(f"{what}: a process failed.")
    return [json.loads(text.splitlines()[-1]) for text in said]


def report_networks(arguments: argparse.Namespace) -> None:
    print(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    for which, (widths, batch, _) in enumerate(NETWORKS):
        weights, alone, two = sum(a * b for a, b in pairwise(widths)), [], []
        for _ in range(ROUNDS):
            alone.append(measured("network", 1, arguments, which=which)[0]["step"])
            two.append(slowest(measured("network", 2, arguments, which=which), "step"))
        one, both = settled(alone), settled(two)
        print(f"\n{weights:,} weights, batches of {batch:,}, ms a step: {one * 1e3:.2f} ({spread(alone)}),", end=" ")
        print(f"2 processes {both * 1e3:.2f} ({spread(two)}): ratio {one / both:.2f}")


def slowest(found: list[dict[str, float]], name: str) -> float:
    return max(one[name] for one in found)


def report(arguments: argparse.Namespace) -> None:
    print(
        f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores; {arguments.rows:,} rows of {arguments.features:,} features"
    )
    small = max(64, CACHED // arguments.features // 64 * 64)
    alone, two = [], []
    for _ in range(ROUNDS):
        alone.append(measured("steps", 1, arguments)[0]["step"])
        two.append(slowest(measured("steps", 2, arguments), "step"))
    one, both = settled(alone), settled(two)
    print(f"\na step, ms: 1 process {one * 1e3:.1f} ({spread(alone)}), 2 processes {both * 1e3:.1f} ({spread(two)})")
    print(f"rows a second: {arguments.rows / one:,.0f} and {arguments.rows / both:,.0f}, ratio {one / both:.2f} (asked: 1.8)")

    delays = measured("reduce", 2, arguments)
    print("\nadd and gather over loopback, median and least:")
    for size in NUMBERS:
        print(f"  {size:>9,} numbers  {slowest(delays, str(size)) * 1e3:8.3f} ms {slowest(delays, f'{size} least') * 1e3:8.3f} ms")

    compute = measured("steps", 1, arguments, rows=small, chunks=4)[0]["step"] / (small * arguments.features)
    reading = {count: slowest(measured("read", count, arguments), "entry") for count in (1, 2)}
    entries, wait = arguments.rows * arguments.features, slowest(delays, f"{arguments.features} least")
    costs = f"compute {compute * 1e9:.3f}; read {reading[1] * 1e9:.3f}, and two at once {reading[2] * 1e9:.3f}"
    print(f"\nthe model, ns an entry: {costs}")
    for count, step in ((1, one), (2, both)):
        predicted = entries / count * (compute + reading[count]) + (wait if count > 1 else 0.0)
        both_of_them = f"predicted {predicted * 1e3:8.1f} ms, measured {step * 1e3:8.1f} ms"
        print(f"  {count} process(es): {both_of_them}: {predicted / step - 1:+.0%}")
    hosts, rows, d = 64, 10**9, 1_000
    # A ring passes every slice once around to add, and once around to gather.
    share, ring = rows * d / hosts, (hosts - 1) * slowest(delays, "1000 least")
    step = share * (compute + reading[1]) + ring
    print(
        f"  10^9 rows of 1,000 features on 64 hosts, a core each, connected as here: {step:.1f} s a step, {ring / step:.1%} of it"
        f" for sums; {share * 4 / 1e9:.0f} GB of rows a host"
    )


def spread(seconds: list[float]) -> str:
    return ", ".join(f"{1e3 * one:.2f}" for one in seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=6, help="of steps that are measured")
    for name in ("processes", "index", "port"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--which", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--what", choices=("steps", "network", "read", "reduce"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    if arguments.what is None:
        (report_networks if arguments.networks else report)(arguments)
        return
    cluster = connected(arguments)
    print(
        json.dumps({"steps": steps, "network": network, "read": read, "reduce": reduce}[arguments.what](cluster, arguments)),
        flush=True,
    )
    if cluster is not None:
        cluster.close()


if __name__ == "__main__":
    main()
