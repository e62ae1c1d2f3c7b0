"""Prove again, in ball arithmetic, what the accountant certifies: random runs, the reference rows, the examples of the pages.

``python experiments/verify_all.py --runs 2000`` takes days on one core, since some runs take minutes, and a few far more.
``--limit`` stops those after some seconds. ``--seed``, ``--first`` and ``--kind`` choose others, or some; ``--reference`` and
``--docs`` prove the rows and the pages instead; ``--costs`` proves what the runs cost in a ledger, at random orders, and
``--attackers`` what certificates' pages say of attackers.
Prints what is not verified, lower ends that are too high, and a table: how many of each bound, and the time that they took.
"""

from __future__ import annotations

import argparse
import math
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import dplateau as dp
from dplateau.certificate import Proof, prove
from dplateau.certificate.proof import prove_attacks
from dplateau.filter import cost_of
from dplateau.ledger.proof import checked_cost
from dplateau.spec.runs import runs_of

T = TypeVar("T")
KINDS = ("poisson", "fixed-size", "random-allocation", "cyclic", "shuffled", "one-pass", "full", "several", "extreme", "selection")


def reference() -> Iterator[tuple[str, dp.Run, float]]:
    """The rows of published experiments (Bu, Dong, Long, Su 2020), Bok, Su, Altschuler 2024, and random allocation."""
    rows = (
        ("MNIST 1", 60_000, 256, 1.3, 3516, 1e-5),
        ("MNIST 2", 60_000, 256, 1.1, 14062, 1e-5),
        ("MNIST 3", 60_000, 256, 0.7, 10547, 1e-5),
        ("MNIST 4", 60_000, 256, 0.6, 14531, 1e-5),
        ("MNIST 5", 60_000, 256, 0.55, 15938, 1e-5),
        ("MNIST 6", 60_000, 256, 0.5, 23438, 1e-5),
        ("Adult", 29_305, 256, 0.55, 2061, 1e-5),
        ("IMDb", 25_000, 512, 0.56, 439, 1e-5),
        ("MovieLens", 800_000, 10_000, 0.6, 1600, 1e-6),
    )
    for name, n, size, noise, steps, delta in rows:
        for adjacency in ("add-remove", "replace"):
            for sampling in (dp.Poisson(size), dp.FixedSize(size)):
                run = dp.Run(n=n, sampling=sampling, steps=steps, noise_multiplier=noise, adjacency=adjacency)
                yield f"{name}, {sampling.kind}, {adjacency}", run, delta
    for epochs in (50, 100, 200):
        for convexity in (1e-4, 2e-4):
            run = dp.Run(
                n=4000, sampling=dp.Cyclic(100), steps=40 * epochs, noise_multiplier=3.0, step_size=1.0, smoothness=1.0,
                strong_convexity=convexity, l2=convexity, adjacency="replace", released="last",
            )  # fmt: skip
            yield f"Bok, Su, Altschuler, {epochs} epochs, c = {1 - convexity}", run, 1e-5
    for batches, noise, epochs, delta in ((234, 1.3, 15, 1e-5), (234, 0.7, 45, 1e-5), (100, 1.0, 1, 1e-6), (20, 2.0, 100, 1e-5)):
        run = dp.Run(n=batches * 100, sampling=dp.RandomAllocation(100), steps=batches * epochs, noise_multiplier=noise)
        yield f"random allocation, {batches} batches, z = {noise}", run, delta


def random_run(rng: np.random.Generator, kind: str) -> tuple[dp.Run | dp.Runs, float]:
    """A run of one kind with settings from small to large."""
    if kind == "several":
        return random_composition(rng), 10.0 ** rng.uniform(-8, -4)
    if kind == "selection":
        return random_selection(rng), 10.0 ** rng.uniform(-8, -4)
    return random_training(rng, kind)


def random_training(rng: np.random.Generator, kind: str) -> tuple[dp.Run, float]:
    """One run and a delta."""
    n = int(10 ** rng.uniform(2, 5))
    size = max(1, round(n * 10 ** rng.uniform(-3, -0.5)))
    steps = int(10 ** rng.uniform(0, 4.5))
    noise = 10.0 ** rng.uniform(-0.3, 1.2)
    delta = 10.0 ** rng.uniform(-9, -4)
    adjacency = str(rng.choice(["add-remove", "replace"]))
    if kind == "extreme":
        n, size = int(10 ** rng.uniform(5, 9)), int(10 ** rng.uniform(0, 3))
        noise, steps, delta = 10.0 ** rng.uniform(-0.7, 0.7), int(10 ** rng.uniform(0, 6)), 10.0 ** rng.uniform(-15, -6)
        scheme = dp.Poisson(size) if rng.random() < 0.7 else dp.FixedSize(size)
        return dp.Run(n=n, sampling=scheme, steps=steps, noise_multiplier=noise, adjacency=adjacency), delta
    scheme = dp.FullBatch() if kind == "full" else dp.spec.SAMPLINGS[kind](size)
    if kind == "one-pass":
        steps = max(1, n // size)
    if kind == "random-allocation":
        steps = min(steps, 60 * math.ceil(n / size))
    fields: dict[str, Any] = {"noise_multiplier": noise}
    if rng.random() < 0.2:
        steps = min(steps, 2000)
        start, stop = noise, noise * rng.uniform(0.6, 1.6)
        levels = min(int(rng.integers(2, 6)), steps) if rng.random() < 0.9 else min(steps, 20)
        fields["noise_multiplier"] = [float(x) for x in np.linspace(start, stop, levels)[np.arange(steps) * levels // steps]]
    if rng.random() < 0.6:
        smoothness = 10.0 ** rng.uniform(-1, 1)
        convexity = 0.0 if rng.random() < 0.5 else smoothness * 10.0 ** rng.uniform(-4, -0.5)
        step = rng.uniform(0.1, 1.2) / smoothness
        divisor = n if kind == "full" else size
        fields |= {
            "step_size": step, "smoothness": smoothness, "strong_convexity": convexity, "l2": convexity, "released": "last",
            "diameter": float(10 ** rng.uniform(-1, 2.5)) * step * noise / divisor if rng.random() < 0.7 or not convexity else None,
        }  # fmt: skip
    return dp.Run(n=n, sampling=scheme, steps=steps, adjacency=adjacency, **fields), delta


def random_composition(rng: np.random.Generator) -> dp.Runs:
    """Two or three runs, with batches by lot, on the records of the first."""
    first, *others = (random_training(rng, str(rng.choice(KINDS[:2])))[0] for _ in range(int(rng.integers(2, 4))))
    fitting = [
        one for one in others if isinstance(one.sampling, dp.Poisson | dp.FixedSize) and np.max(one.sampling.batch_size) <= first.n
    ]
    return dp.compose(first, *(one.replace(n=first.n, adjacency=first.adjacency) for one in fitting))


def random_selection(rng: np.random.Generator) -> dp.Selection:
    """Candidates with and without a score, alike or with several noise levels, each tried with some probability."""
    n = int(10 ** rng.uniform(3, 5))
    size = max(1, round(n * 10 ** rng.uniform(-3, -1)))
    scheme = (dp.Poisson(size), dp.FixedSize(size), dp.FullBatch())[int(rng.integers(3))]
    noise, steps = 10.0 ** rng.uniform(0.2, 1), int(10 ** rng.uniform(0.5, 3))
    if isinstance(scheme, dp.FullBatch):
        noise *= 2 * math.sqrt(steps)
    adjacency, count, levels = str(rng.choice(["add-remove", "replace"])), int(rng.integers(2, 13)), int(rng.integers(1, 4))
    score = dp.Run(n=n, sampling=dp.FullBatch(), steps=1, noise_multiplier=10.0 ** rng.uniform(0.7, 1.7), adjacency=adjacency)
    runs = [
        dp.Run(n=n, sampling=scheme, steps=steps, noise_multiplier=noise * (1 + k % levels / 4), adjacency=adjacency)
        for k in range(count)
    ]
    scored = rng.random() < 0.7
    return dp.Selection([dp.compose(run, score) if scored else run for run in runs], float(rng.choice([0.1, 0.3, 0.5, 0.9, 1.0])))


def documented() -> Iterator[tuple[str, dp.Run | dp.Runs, float]]:
    """Every run and delta that the README and the pages of ``docs/`` account for, noted while their examples run."""
    import pytest

    from dplateau._account import Report, Row

    made, asked = Report.__init__, dict[tuple[dp.Run | dp.Runs, float], None]()

    def noted(self: Report, run: dp.Run | dp.Runs, delta: float, bounds: tuple[Row, ...]) -> None:
        made(self, run, delta, bounds)
        asked[run, delta] = None

    Report.__init__ = noted
    code = pytest.main(
        ["-q", "-n", "0", str(Path(__file__).parents[1] / "tests" / "docs" / "test_code_blocks.py"), "-k", "page_runs"]
    )
    Report.__init__ = made
    print(f"the pages' examples ended with {code!r} and asked for {len(asked)} reports", flush=True)
    for number, (run, delta) in enumerate(asked):
        yield f"pages, {number}", run, delta


def proved_cost(run: dp.Run | dp.Runs, order: float | None) -> tuple[str, str | None, float]:
    """An outcome, why it is none, and how long it took: whether a run costs what a filter says."""
    cost = cost_of(run, order)
    if not math.isfinite(cost):
        return "no cost", None, 0.0
    found = checked_cost(run, order, cost)
    return found.outcome.value, found.why, found.seconds


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--levels", type=int, default=100, help="leave out runs with more noise levels: they take hours")
    parser.add_argument("--limit", type=int, default=0, help="stop a proof after so many seconds (default: never)")
    parser.add_argument("--costs", action="store_true", help="prove costs in a ledger instead, at random orders")
    parser.add_argument("--attackers", action="store_true", help="prove true-positive rates and advantages instead")
    parser.add_argument("--all", action="store_true", help="print what is verified, too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table: dict[tuple[str, str], list[float]] = defaultdict(list)

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)

    def limited(compute: Callable[[], T]) -> T | None:
        """What is computed; None where that takes too long."""
        signal.alarm(options.limit)
        try:
            return compute()
        except TimeoutError:
            return None
        finally:
            signal.alarm(0)

    def tried(name: str, run: dp.Run | dp.Runs, delta: float) -> None:
        most = max(len(set(np.atleast_1d(one.noise_multiplier))) for one in runs_of(run))
        if most > options.levels:
            table["none", f"{most} noise levels"].append(0.0)
            print(f"{name}: left out, {most} noise levels", flush=True)
            return
        start = time.perf_counter()
        if options.costs:
            rng = np.random.default_rng([options.seed, 1, *name.encode()])
            order = None if rng.random() < 0.1 else 1 + 10.0 ** rng.uniform(-6, 3)
            outcome, why, seconds = limited(lambda: proved_cost(run, order)) or ("stopped", None, float(options.limit))
            table["costs", outcome].append(seconds)
            if options.all or why is not None:
                print(f"{name}: {outcome} ({why}), order {order}, {seconds:.1f} s", flush=True)
            return
        report = dp.account(run, delta)
        accounted = time.perf_counter() - start
        if options.attackers:
            proofs = list[Proof]()
            if limited(lambda: [proofs.append(one) for one in prove_attacks(report)]) is None:
                table["attackers", "stopped"].append(float(options.limit))
                print(f"{name}: stopped after {options.limit} s, {len(proofs)} done", flush=True)
            for proof in proofs:
                table[proof.bound, proof.outcome].append(proof.seconds)
                if options.all or not proof.verified:
                    print(f"{name}: {proof.outcome} ({proof.why}), {proof.bound}, {proof.about}, {proof.seconds:.1f} s", flush=True)
            return
        if report.best is None:
            table["none", "no proved epsilon"].append(0.0)
            return
        proof = limited(lambda: prove(run, report.epsilon, delta))
        if proof is None:
            table[report.best.name, "stopped"].append(float(options.limit))
            print(f"{name}: stopped after {options.limit} s, {report.best.name} {report.best.epsilon}", flush=True)
            return
        table[proof.bound, proof.outcome].append(proof.seconds)
        # Of a family either side takes the member that it finds best.
        family = report.best.bound is None or report.best.bound.guarantee.family
        if not family and report.best.epsilon is not None and proof.upper is not None and report.best.epsilon.lower > proof.upper:
            print(f"{name}: the lower end {report.best.epsilon.lower} is above {proof.upper}", flush=True)
        if options.reference or options.all or not proof.verified or proof.seconds > 60:
            ends = f"[{proof.lower!r}, {proof.upper!r}]"
            print(
                f"{name}: {proof.outcome} ({proof.why}), {proof.bound} {report.best.epsilon}, in balls {ends},"
                f" {proof.seconds:.1f} s, accounted in {accounted:.1f} s, delta {delta!r}",
                flush=True,
            )

    if options.reference or options.docs:
        for name, run, delta in (*(reference() if options.reference else ()), *(documented() if options.docs else ())):
            tried(name, run, delta)
    else:
        for number in range(options.first, options.first + options.runs):
            rng = np.random.default_rng([options.seed, number])
            kind = options.kind or KINDS[number % len(KINDS)]
            tried(f"{kind} {options.seed} {number}", *random_run(rng, kind))
    for (bound, outcome), seconds in sorted(table.items()):
        print(f"{bound:24} {outcome:18} {len(seconds):5} median {np.median(seconds):6.1f} s, longest {max(seconds):6.1f} s")


if __name__ == "__main__":
    main()
