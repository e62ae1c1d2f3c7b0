"""Writes the golden values: what the library says today about many runs, and what it trains from given seeds.

    python tests/golden/make_golden.py            # writes epsilons.json and weights.json
    python tests/golden/make_golden.py --compare  # says what differs from them, to the last digit

The tests allow for other processors, whose libraries round otherwise. Compare on one machine what is to change nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dplateau as dp
from dplateau.algorithms import SOLVERS, Budget, Problem
from dplateau.losses import Absolute, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError, Run
from dplateau.training import SecureGenerator, train

HERE = Path(__file__).parent
RUNS, SECONDS = 200, 0.3
SCHEMES = ("full", "poisson", "fixed-size", "cyclic", "shuffled", "one-pass")
DELTAS = (1e-4, 1e-6, 1e-9)


def random_run(rng: np.random.Generator, scheme: str) -> Run:
    """A run of the sampling ``scheme``, of any size."""
    n = int(10 ** rng.uniform(2, 6))
    batch = n if scheme == "full" else max(1, int(n * 10 ** rng.uniform(-3.5, -0.5)))
    sampling = {
        "full": lambda: dp.FullBatch(),
        "poisson": lambda: dp.Poisson(batch),
        "fixed-size": lambda: dp.FixedSize(batch),
        "cyclic": lambda: dp.Cyclic(batch),
        "shuffled": lambda: dp.Shuffled(batch),
        "one-pass": lambda: dp.OnePass(batch),
    }[scheme]()
    epoch = math.ceil(n / batch)
    steps = n // batch if scheme == "one-pass" else max(1, int(epoch * 10 ** rng.uniform(-1, 1.5)))
    if scheme in ("cyclic", "shuffled"):
        steps = epoch * max(1, steps // epoch)
    fields: dict[str, Any] = {"n": n, "sampling": sampling, "steps": steps, "clip_norm": round(10 ** rng.uniform(-1, 1), 3)}
    noise = round(10 ** rng.uniform(-0.2, 1) * (math.sqrt(steps) if scheme == "full" else 1), 3)
    fields["noise_multiplier"] = noise
    if steps <= 400 and rng.random() < 0.3:
        fields["noise_multiplier"] = tuple(round(noise * (1 + t / steps), 4) for t in range(steps))
    fields["adjacency"] = str(rng.choice(["add-remove", "replace"]))
    if rng.random() < 0.6:
        smoothness = round(10 ** rng.uniform(-1, 1), 3)
        convexity = round(smoothness * float(rng.choice([0.0, 0.0, 0.01, 0.2])), 6)
        fields |= {"released": "last", "smoothness": smoothness, "strong_convexity": convexity}
        step = round(float(rng.choice([0.2, 1.0, 1.9])) / smoothness, 5)
        fields["step_size"] = step
        if steps <= 400 and rng.random() < 0.3:
            fields["step_size"] = tuple(round(step * (1 - 0.9 * t / steps), 6) for t in range(steps))
        if rng.random() < 0.5:
            fields["diameter"] = round(step * fields["clip_norm"] * 10 ** rng.uniform(-1, 2), 4)
    return Run(**fields)


def epsilons(run: Run, delta: float) -> dict[str, Any]:
    """What every analysis says: both ends of epsilon, or why there is none; and what is certified."""
    report = dp.account(run, delta=delta)
    rows = {row.name: None if row.epsilon is None else [row.epsilon.lower, row.epsilon.upper] for row in report.bounds}
    return {
        "certified": report.epsilon,
        "mu": report.mu,
        "bounds": {name: value for name, value in rows.items() if value},
    }


def golden_runs() -> list[dict[str, Any]]:
    """Runs that take moments to account for, with what is said of them."""
    found: list[dict[str, Any]] = []
    rng = np.random.default_rng(17)
    while len(found) < RUNS:
        scheme = SCHEMES[len(found) % len(SCHEMES)]
        delta = DELTAS[len(found) % len(DELTAS)]
        run = random_run(rng, scheme)
        start = time.perf_counter()
        said = epsilons(run, delta)
        if time.perf_counter() - start < SECONDS and 1e-3 < said["certified"] < 100:
            found.append({"run": run.to_dict(), "delta": delta, **said})
    return found


def problem(n: int = 300, d: int = 5, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and the classes of a noisy linear rule."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, np.argmax(rows[:, :classes] + 0.3 * rng.normal(size=(n, classes)), axis=1).astype(float)


def trainings() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, and what trains from a seed."""
    yield from solvers()
    yield from engines()
    yield from networks()
    yield from estimators()


def solvers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every solver, with every loss that it takes."""
    for name, solver in SOLVERS.items():
        for loss in (Logistic(), Squared(), Huber(), SmoothedHinge(), Softmax(3), Absolute()):
            rows, target = problem(classes=max(2, loss.outputs))
            try:
                plan = solver.plan(Problem(*rows.shape, loss, l2=0.1 if solver.needs_l2 else 0.0), Budget(2.0, 1e-5))
            except InputError:
                continue
            yield (
                f"{name}, {loss!r}",
                lambda plan=plan, rows=rows, target=target: (
                    plan.fit(rows, target, generator=SecureGenerator(insecure_seed=1)).weights
                ),
            )


def engines() -> Iterator[tuple[str, Callable[[], Any]]]:
    """``train`` with every sampling, all iterates and the last one only, and with what is post-processing."""
    rows, target = problem()
    samplings = (dp.FullBatch(), dp.Poisson(20), dp.FixedSize(20), dp.Cyclic(20), dp.Shuffled(20), dp.OnePass(20))
    for sampling in samplings:
        run = Run(n=300, sampling=sampling, steps=15, noise_multiplier=2.0, clip_norm=0.5, step_size=0.5)
        last = run.replace(released="last", smoothness=0.3, strong_convexity=0.01, l2=0.01, diameter=4.0)
        after = run.replace(update="post-processed")
        for title, one, options in (
            ("all", run, {}),
            ("last", last, {"l2": 0.01}),
            ("momentum, average", after, {"momentum": 0.9, "average": 0.5}),
        ):
            yield (
                f"train, {sampling.kind}, {title}",
                lambda one=one, options=options: (
                    train(
                        one, Logistic(), rows, target, dtype="float64", generator=SecureGenerator(insecure_seed=2), **options
                    ).weights
                ),
            )


def networks() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Networks with the three optimizers."""
    import jax
    import jax.numpy as jnp

    from dplateau.networks import adagrad_norm, noisy_adam, noisy_sgd, train_network

    rows, target = problem()
    examples = rows.astype(np.float32), target.astype(np.int32)

    def loss(params: Any, example: Any) -> Any:
        x, y = example
        return -jax.nn.log_softmax(jnp.tanh(x @ params["first"]) @ params["second"])[y]

    rng = np.random.default_rng(5)
    params = {"first": rng.normal(size=(5, 8)).astype(np.float32), "second": rng.normal(size=(8, 2)).astype(np.float32)}
    run = Run(n=300, sampling=dp.Poisson(50), steps=10, noise_multiplier=1.0, clip_norm=1.0, update="post-processed")
    for name, optimizer in (("sgd", noisy_sgd(0.1)), ("adam", noisy_adam(0.01)), ("adagrad", adagrad_norm(0.1))):
        yield (
            f"network, {name}",
            lambda optimizer=optimizer: np.concatenate(
                [
                    np.ravel(leaf)
                    for leaf in jax.tree.leaves(
                        train_network(
                            run, loss, params, examples, optimizer=optimizer, generator=SecureGenerator(insecure_seed=4)
                        ).params
                    )
                ]
            ),
        )


def estimators() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The estimators as they come."""
    rows, target = problem()
    private = {"epsilon": 2.0, "delta": 1e-5, "insecure_seed": 6}
    yield (
        "logistic regression",
        lambda: dp.PrivateLogisticRegression(classes=(0, 1), **private).fit(rows, target.astype(int)).coef_,
    )
    yield "linear SVC", lambda: dp.PrivateLinearSVC(classes=(0, 1), **private).fit(rows, target.astype(int)).coef_
    yield "linear regression", lambda: dp.PrivateLinearRegression(target_range=(0, 1), **private).fit(rows, target).coef_


def golden_weights() -> dict[str, list[float]]:
    """The weights of every training."""
    return {name: np.asarray(make(), np.float64).ravel().tolist() for name, make in trainings()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true")
    weights = golden_weights()
    if not parser.parse_args().compare:
        (HERE / "epsilons.json").write_text(_lines(golden_runs()))
        (HERE / "weights.json").write_text(_lines(weights))
        return
    runs, old = json.loads((HERE / "epsilons.json").read_text()), json.loads((HERE / "weights.json").read_text())
    changed = [k for k, one in enumerate(runs) if {**one, **epsilons(Run.from_dict(one["run"]), one["delta"])} != one]
    print("epsilons that differ:", changed or "none")
    print("weights that differ:", [name for name in {**old, **weights} if old.get(name) != weights.get(name)] or "none")


def _lines(found: Any) -> str:
    """JSON with a line for each entry, so that a diff shows what changed."""
    if isinstance(found, dict):
        return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()) + "\n}\n"
    return "[\n" + ",\n".join(json.dumps(entry) for entry in found) + "\n]\n"


if __name__ == "__main__":
    main()
