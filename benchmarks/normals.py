"""Normal numbers a second on one core: those of networks, random words included, beside inversion and NumPy's.

    python benchmarks/normals.py [--repeats 20]

The process keeps to one core. NumPy's generator is not a cryptographic one: its numbers can be guessed. A block of memory is freed
first, as a training has freed some before its first step: from then on glibc keeps blocks of up to 32 MB, and the kernel need not
clear new pages for every array. Without that a million numbers at once take twice as long, in each of the ways.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable

import jax
import numpy as np

from common import about, alternate, median_ratio, table
from dplateau.networks.noise import Noise
from dplateau.training import SecureGenerator

COUNTS = (10_000, 203_531, 1_000_000)


def contestants(count: int) -> dict[str, Callable[[], object]]:
    """What draws so many numbers, as multiples of 2^-28 standard deviations."""
    generator, other = SecureGenerator(), np.random.default_rng()
    noise = Noise(generator, count)
    return {
        "compiled (AES-256)": lambda: jax.block_until_ready(next(noise.steps([2.0**28]))),
        "inversion (AES-256)": lambda: np.rint(generator.normal(count) * 2.0**28),
        "NumPy (PCG-64, not cryptographic)": lambda: np.rint(other.standard_normal(count) * 2.0**28),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20, help="alternating repeats of each (default 20)")
    repeats = parser.parse_args().repeats
    np.empty(32 * 2**20 - 2**16, np.uint8)
    print(about("jax", "numpy", "cryptography"))
    lines = []
    for count in COUNTS:
        times = alternate(contestants(count), repeats)
        ours = times["compiled (AES-256)"]
        lines += [
            [f"{count:,}", name, f"{count / statistics.median(found) / 1e6:.0f} M/s", f"{median_ratio(found, ours):.1f}"]
            for name, found in times.items()
        ]
    print(table(["numbers at once", "", "on one core", "time, ours = 1"], lines))


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    main()
