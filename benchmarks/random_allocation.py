"""Accounting for random allocation: epsilon, its width and its time, beside Poisson batches of the same rate.

    python benchmarks/random_allocation.py

dp-accounting, Opacus and prv_accountant have no accounting for it, so nothing stands beside the times. What is kept from one call
to the next is thrown away first.
"""

from __future__ import annotations

import dplateau as dp
from common import about, alternate, forget, seconds, table
from dplateau.analyses import ExactCompositionBound

SETTINGS = (
    (1.3, 234, 15, 1e-5),
    (0.7, 234, 45, 1e-5),
    (1.0, 100, 1, 1e-6),
    (2.0, 20, 100, 1e-5),
    (0.5, 1_000, 10, 1e-6),
    (1.0, 10_000, 1_000, 1e-6),
    (1.0, 10_000, 1_000, 1e-10),
)
SIZE = 1_000


def run_of(noise: float, batches: int, epochs: int, adjacency: str = "add-remove") -> dp.Run:
    n, sampling = batches * SIZE, dp.RandomAllocation(SIZE)
    return dp.Run(n=n, sampling=sampling, steps=batches * epochs, noise_multiplier=noise, adjacency=adjacency)


def epsilon(run: dp.Run, delta: float) -> dp.Enclosure:
    forget()
    return ExactCompositionBound().guarantee(run).epsilon(delta)


def calibrated(run: dp.Run, delta: float) -> dp.Run:
    forget()
    return dp.calibrate(run, epsilon=1.0, delta=delta)


def main() -> None:
    print(about("numpy", "scipy"))
    rows = []
    for noise, batches, epochs, delta in SETTINGS:
        run = run_of(noise, batches, epochs)
        found, drawn = epsilon(run, delta), run.replace(sampling=dp.Poisson(SIZE))
        other = ExactCompositionBound().guarantee(drawn).epsilon(delta).upper
        replaced = run.replace(adjacency="replace")
        measured = alternate(
            {
                "epsilon": lambda run=run, delta=delta: epsilon(run, delta),
                "calibration": lambda run=run, delta=delta: calibrated(run, delta),
                "replace": lambda run=replaced, delta=delta: epsilon(run, delta),
            },
            3,
        )
        what = f"z={noise:g}, {batches:,} batches, {epochs:,} epochs, delta={delta:g}"
        both = epsilon(replaced, delta)
        shown = (f"{found.upper:.4f}", f"{found.width:.1e}", f"{other:.4f}", f"{both.lower:.4f} to {both.upper:.4f}")
        rows.append((what, *shown, *map(seconds, measured.values())))
    print(table(("run", "epsilon", "width", "Poisson", "replace", "time", "calibration", "time, replace"), rows))


if __name__ == "__main__":
    main()
