"""The planner against the best hand-tuned solver, on real and synthetic data, from 500 to a million records.

    python experiments/planner.py --data-dir DIR --json FILE [--sets adult mnist-0 ...]

DIR holds the folders adult, a9a and mnist. For every data set and epsilon: the plan of ``dp.plan``, made from public facts, and a
grid of settings of every solver, each trained ``--repeats`` times (ten times as often on small data); the best one is chosen
by its accuracy **on the test rows**, which no honest user can do. The claim is that the plan is within one point of it. Results are
kept in FILE after every setting; started again, the command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dplateau as dp
from dplateau.algorithms import Budget, NoisySGD, plan_noisy_sgd, plan_phased_sgd, plan_pnsgd, plan_snowball_sgd
from dplateau.algorithms import Problem as PublicFacts
from dplateau.data import load_dataset
from dplateau.losses import Logistic, Softmax

EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
SMALL = 10_000
"""Up to so many records results vary much, and ten times as many repeats are cheap."""
SLOW = 2e7
"""From so many numbers on, many passes take a minute: fewer settings of them, each trained once, as are all solvers but PNSGD."""


class Problem(NamedTuple):
    """Training and public test rows."""

    features: Any
    target: Any
    test_features: Any
    test_target: Any

    @property
    def loss(self) -> Any:
        classes = int(self.test_target.max()) + 1
        return Logistic() if classes == 2 else Softmax(classes)

    def accuracy(self, weights: Any) -> float:
        scores = self.test_features @ weights
        predicted = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return 100 * float((predicted == self.test_target).mean())


def table(folder: Path, train: str, test: str, schema: str) -> Problem:
    data, holdout = (load_dataset(folder / name, schema) for name in (train, test))
    return Problem(data.features, data.target, holdout.features, holdout.target)


def images(path: Path) -> Any:
    content = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(content[3])]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def mnist(folder: Path, zero: bool) -> Problem:
    parts: list[Any] = []
    for name in ("train", "t10k"):
        pixels = images(folder / f"{name}-images-idx3-ubyte.gz").reshape(-1, 784).astype(np.float32)
        rows = np.column_stack([pixels / np.linalg.norm(pixels, axis=1, keepdims=True), np.full(len(pixels), 0.25, np.float32)])
        labels = images(folder / f"{name}-labels-idx1-ubyte.gz").astype(np.int64)
        rows *= np.float32(1 - 1e-6) / np.linalg.norm(rows, axis=1, keepdims=True)
        parts += [rows, (labels == 0).astype(int) if zero else labels]
    return Problem(*parts)


def synthetic(n: int, d: int, norm: float) -> Problem:
    """Rows uniform on the sphere, labels from a logistic model with weights of this norm; 20,000 test rows."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=d)
    weights *= norm / np.linalg.norm(weights)
    rows = rng.normal(size=(n + 20_000, d)).astype(np.float32)
    rows *= np.float32(1 - 1e-6) / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = (rng.random(len(rows)) < 1 / (1 + np.exp(-rows @ weights))).astype(int)
    return Problem(rows[:n], labels[:n], rows[n:], labels[n:])


def problems(folder: Path) -> dict[str, Callable[[], Problem]]:
    return {
        "synthetic, n = 500, d = 10": lambda: synthetic(500, 10, 10.0),
        "synthetic, n = 5,000, d = 50": lambda: synthetic(5_000, 50, 10.0),
        "synthetic, n = 50,000, d = 100": lambda: synthetic(50_000, 100, 20.0),
        "synthetic, n = 1,000,000, d = 50": lambda: synthetic(1_000_000, 50, 20.0),
        "adult": lambda: table(folder / "adult", "adult.data", "adult.test", "adult"),
        "a9a": lambda: table(folder / "a9a", "a9a", "a9a.t", "a9a"),
        "mnist-0": lambda: mnist(folder / "mnist", True),
        "mnist-10": lambda: mnist(folder / "mnist", False),
    }


def settings(problem: Problem, epsilon: float, delta: float) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every setting by its name: the plan first, then the grid of the tuned solvers."""
    (n, d), loss = problem.features.shape, problem.loss
    public, budget = PublicFacts(n, d, loss), Budget(epsilon, delta)
    yield "plan", lambda: dp.plan(n, d, loss=loss, epsilon=epsilon, delta=delta).algorithm
    base = plan_noisy_sgd(public, budget).run.step_size
    assert isinstance(base, float)
    slow = n * d * loss.outputs > SLOW
    for factor in (0.3, 1.0) if slow else (0.3, 1.0, 3.0):
        for clip in (0.5, 1.0) if loss.outputs == 1 and not slow else (None,):
            yield (
                f"noisy-sgd, step x {factor:g}, clip {clip or 'default'}",
                lambda factor=factor, clip=clip: plan_noisy_sgd(
                    replace(public, residual_clip=clip), budget, step_size=min(factor * base, 2 / loss.smoothness(1.0))
                ),
            )
    for distance in (10.0, 25.0, 50.0, 100.0, 200.0):
        yield f"pnsgd, distance {distance:g}", lambda distance=distance: plan_pnsgd(public, budget, distance=distance)
        for name, make in (("phased-sgd", plan_phased_sgd), ("snowball-sgd", plan_snowball_sgd)):
            yield (
                f"{name}, diameter {2 * distance:g}",
                lambda distance=distance, make=make: make(public, budget, diameter=2 * distance),
            )


def run(folder: Path, journal: Path, wanted: list[str], epsilons: Sequence[float], repeats: int) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(journal.read_text()) if journal.exists() else {}
    for name in wanted:
        problem = None
        for epsilon in epsilons:
            key = f"{name} | {epsilon:g}"
            if problem is None:
                problem = problems(folder)[name]()
            n = len(problem.target)
            found = done.setdefault(key, {})
            for label, make in settings(problem, epsilon, min(1e-5, 1 / (10 * n))):
                if label in found:
                    continue
                begin = time.perf_counter()
                try:
                    plan = make()
                    once = isinstance(plan, NoisySGD) or "diameter" in label
                    slow = problem.features.size * problem.loss.outputs > SLOW
                    times = 1 if slow and once else repeats if n > SMALL else 10 * repeats
                    scores = [problem.accuracy(plan.fit(problem.features, problem.target).weights) for _ in range(times)]
                except dp.InputError as error:
                    found[label] = {"refused": str(error)}
                else:
                    found[label] = {"accuracy": scores, "seconds": (time.perf_counter() - begin) / times, "steps": plan.run.steps}
                journal.write_text(json.dumps(done, indent=1))
            print(row(key, found), flush=True)
    return done


def row(key: str, found: dict[str, Any]) -> str:
    means = {label: statistics.mean(one["accuracy"]) for label, one in found.items() if "accuracy" in one}
    planned = means.pop("plan")
    best = max(means, key=lambda label: means[label])
    spread = statistics.stdev(found["plan"]["accuracy"]) if len(found["plan"]["accuracy"]) > 1 else 0.0
    seconds = found["plan"]["seconds"]
    return f"| {key} | {planned:.2f} ± {spread:.2f} | {means[best]:.2f} | {best} | {planned - means[best]:+.2f} | {seconds:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with adult, a9a and mnist")
    parser.add_argument("--json", type=Path, required=True, help="where results are kept")
    parser.add_argument("--sets", nargs="*", help="data sets (default: all)")
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS, help="budgets (default: .1 .5 1 2 8)")
    parser.add_argument("--repeats", type=int, default=3, help="trainings of each setting (default 3)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", dp.PrivacyWarning)
    print("| data | epsilon | plan | best tuned | which | difference | seconds of the plan |")
    print("|---|---|---|---|---|---|---|")
    run(options.data_dir, options.json, options.sets or list(problems(options.data_dir)), options.epsilons, options.repeats)


if __name__ == "__main__":
    main()
