"""Time of the last-iterate bounds: a run of a million steps, 1,000 batches an epoch, worst place of the record.

    python benchmarks/last_iterate.py

No other library has these bounds. Beside ours: the same bound with every place of the record searched by itself, and
dp_accounting's time for plain composition of the same run, which answers another question (all iterates released). Then runs whose
start is forgotten, and calibrations with all bounds; what is kept from one call to the next is thrown away first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import dplateau as dp
from common import about, alternate, forget, median_ratio, peer, seconds, table
from dplateau.analyses import ANALYSES
from dplateau.analyses.last_uses import varying_steps

STEPS, PLACES, BATCH, DELTA = 1_000_000, 1_000, 100, 1e-5
DECAYING = tuple((0.5 / np.sqrt(1 + np.arange(STEPS) / 1e5)).tolist())


def run_of(sampling: dp.Sampling, step_size: float | tuple[float, ...]) -> dp.Run:
    return dp.Run(
        n=PLACES * BATCH,
        sampling=sampling,
        steps=STEPS,
        noise_multiplier=3.0,
        step_size=step_size,
        smoothness=0.25,
        strong_convexity=0.0,
        diameter=10.0,
        adjacency="replace",
        released="last",
    )


def bound(run: dp.Run, name: str) -> float:
    analysis = next(analysis for analysis in ANALYSES if analysis.name == name)
    return analysis.guarantee(run).epsilon(DELTA).upper


def place_by_place(run: dp.Run) -> float:
    steps, _ = varying_steps(run)
    uses = (np.arange(place, STEPS, PLACES) for place in range(PLACES))
    return max(steps.cost(each, steps.jump[each]) for each in uses)


def forgetting() -> dict[str, Callable[[], object]]:
    """Runs whose start is forgotten, and calibration to epsilon 1 with all bounds."""
    poisson = dp.Run(
        n=30_000,
        sampling=dp.Poisson(256),
        steps=STEPS,
        noise_multiplier=3.0,
        step_size=1.0,
        smoothness=1.0,
        strong_convexity=0.0,
        diameter=2.0,
        released="last",
    )
    full = poisson.replace(n=1_000, sampling=dp.FullBatch(), noise_multiplier=100.0, diameter=0.5)
    strongly = poisson.replace(sampling=dp.FixedSize(256), steps=20_000, strong_convexity=0.001, l2=0.001, diameter=None)

    allocated = dp.RandomAllocation(256)

    def fresh(call: Callable[[], object]) -> Callable[[], object]:
        def start() -> object:
            forget()
            return call()

        return start

    def calibrated(run: dp.Run) -> Callable[[], object]:
        return fresh(lambda: dp.calibrate(run, epsilon=1.0, delta=DELTA))

    return {
        "reflection coupling, Poisson": fresh(lambda: bound(poisson, "reflection-coupling")),
        "reflection coupling, full batches": fresh(lambda: bound(full, "reflection-coupling")),
        "calibrate, Poisson": calibrated(poisson),
        "calibrate, full batches": calibrated(full),
        "calibrate, fixed size, strongly convex": calibrated(strongly),
        "calibrate, the same, replace": calibrated(strongly.replace(adjacency="replace")),
        "calibrate, the same, random allocation": calibrated(strongly.replace(sampling=allocated)),
        "calibrate, the same, random allocation, replace": calibrated(strongly.replace(sampling=allocated, adjacency="replace")),
        "calibrate, projected, random allocation": calibrated(poisson.replace(sampling=allocated)),
        "calibrate, projected, random allocation, replace": calibrated(poisson.replace(sampling=allocated, adjacency="replace")),
    }


def composition() -> Callable[[], object] | None:
    accounting = peer("dp_accounting")
    if accounting is None:
        return None

    def account() -> float:
        event = accounting.SelfComposedDpEvent(accounting.PoissonSampledDpEvent(1 / PLACES, accounting.GaussianDpEvent(3.0)), STEPS)
        return accounting.pld.PLDAccountant().compose(event).get_epsilon(DELTA)

    return account


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="alternating repeats of each (default 5)")
    options = parser.parse_args()
    print(about("numpy", "scipy", "dp-accounting"))
    equal, decaying = run_of(dp.Cyclic(BATCH), 0.5), run_of(dp.Cyclic(BATCH), DECAYING)
    contestants: dict[str, Callable[[], object]] = {
        "cyclic, equal steps": lambda: bound(equal, "fixed-order"),
        "cyclic, decaying steps": lambda: bound(decaying, "fixed-order"),
        "cyclic, decaying steps, place by place": lambda: place_by_place(decaying),
        "shuffled, equal steps": lambda: bound(equal.replace(sampling=dp.Shuffled(BATCH)), "shuffled"),
        "shuffled, decaying steps": lambda: bound(decaying.replace(sampling=dp.Shuffled(BATCH)), "shuffled"),
        "fixed size, equal steps": lambda: bound(equal.replace(sampling=dp.FixedSize(BATCH)), "sampled-last-iterate"),
        "Poisson, equal steps": lambda: bound(equal.replace(sampling=dp.Poisson(BATCH)), "sampled-last-iterate"),
    }
    contestants |= forgetting()
    if composed := composition():
        contestants["dp_accounting, composition (Poisson)"] = composed
    times = alternate(contestants, options.repeats)
    print(table(["bound of 10^6 steps, 1,000 places", "median time"], [[name, seconds(spent)] for name, spent in times.items()]))
    ratio = median_ratio(times["cyclic, decaying steps, place by place"], times["cyclic, decaying steps"])
    print(f"\nsplitting groups of places is {ratio:.0f} times as fast as one place after the other")


if __name__ == "__main__":
    main()
