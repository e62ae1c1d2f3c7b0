"""P3's comparison of ADP-SGD and DP-SGD (its Tables 1, 2, 4, 5), and of falling and constant steps (its section F.3).

    python experiments/p3_adaptive.py {linear,polynomial,constant} --data-dir DIR --records FILE [--seeds 5]

DIR holds the four IDX files of Fashion-MNIST (linear, polynomial) or MNIST (constant), where the paper has CIFAR-10 and a network
that was trained before on CIFAR-100. The network has 32 ReLU units and 25,450 weights; it starts from random weights.

- "linear": steps 0.1 - r sqrt(t) that end at 1e-10 (Tables 1 and 4); "polynomial": steps 1/sqrt(20 + t) (Tables 2 and 5). At equal
  certified cost, noise that is equal in all steps (DP) is compared with noise in proportion to step^(-1/2) (ADP), at two clip
  norms, two budgets and two numbers of epochs. The noise is calibrated exactly, for what the paper calls (epsilon, delta).
- "constant": steps 1/sqrt(2 + c t) for several c and noise multipliers, 1 being the constant step.

Both the last and the best score on the (public) test set are kept, as in the paper. FILE is a JSON-lines file of finished
trainings, which are not done again.
"""

from __future__ import annotations

import argparse
import statistics
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dplateau as dp
import networks
from dplateau.algorithms import adapted_noise, polynomial_decay, square_root_decay
from dplateau.data import read_mnist
from dplateau.networks import Validation, train_network
from records import Records, certified, spread, table

BATCH, DELTA = 512, 1e-5
EPOCHS, CLIPS, BUDGETS = (10, 40), (1.0, 5.0), (0.01, 0.05)
GROWTHS, NOISES, CONSTANT_EPOCHS = (0.0, 1e-5, 1e-3, 1e-2, 1e-1, 5e-1), (1.6, 3.2, 6.4, 12.8), 50


@cache
def data(folder: Path) -> tuple[Any, Any, networks.Network]:
    train, test = read_mnist(folder, "train"), read_mnist(folder, "test")
    flat = [(part.x.reshape(len(part.x), -1).astype(np.float32) / 255, part.y.astype(np.int32)) for part in (train, test)]
    return *flat, networks.adult_mlp(784, 32, 10)


@cache
def compared(n: int, schedule: str, method: str, epochs: int, clip_norm: float, epsilon: float) -> dp.Run:
    """A run of ADP-SGD or DP-SGD, its noise calibrated as a whole."""
    steps = round(epochs * n / BATCH)
    sizes = square_root_decay(steps, 0.1, 1e-10) if schedule == "linear" else polynomial_decay(steps, 20, 1)
    run = dp.Run(
        n=n,
        sampling=dp.Poisson(BATCH),
        steps=steps,
        noise_multiplier=adapted_noise(sizes) if method == "ADP" else 1.0,
        clip_norm=clip_norm,
        step_size=sizes,
    )
    return dp.calibrate(run, epsilon=epsilon, delta=DELTA)


@cache
def falling(n: int, growth: float, noise: float) -> dp.Run:
    """A run of section F.3."""
    steps = round(CONSTANT_EPOCHS * n / BATCH)
    sizes = polynomial_decay(steps, 2, growth)
    return dp.Run(n=n, sampling=dp.Poisson(BATCH), steps=steps, noise_multiplier=noise, step_size=sizes)


def train(folder: Path, run: dp.Run, seed: int) -> dict[str, Any]:
    """The last and the best score."""
    examples, test, network = data(folder)
    look = Validation(
        lambda params: 100 * networks.accuracy(network.apply, params, *test),
        every=-(-run.steps // 40),
        declared_public="the test set of a public data set, used to draw curves",
        keep_best=False,
    )
    result = train_network(
        run, networks.cross_entropy(network), network.init(jax.random.key(seed)), examples, validation=look, workers=1
    )
    curve = [list(score) for score in result.scores]
    return {"last": curve[-1][1], "best": max(score for _, score in curve), "curve": curve}


def settings_of(what: str) -> list[dict[str, Any]]:
    if what == "constant":
        return [{"growth": growth, "noise": noise} for noise, growth in product(NOISES, GROWTHS)]
    return [
        {"schedule": what, "method": method, "epochs": epochs, "clip_norm": clip, "epsilon": epsilon}
        for epochs, clip, epsilon, method in product(EPOCHS, CLIPS, BUDGETS, ("DP", "ADP"))
    ]


def run_of(n: int, setting: dict[str, Any]) -> dp.Run:
    return falling(n, **setting) if "growth" in setting else compared(n, **setting)


def report(what: str, records: Records, n: int) -> str:
    if what == "constant":
        lines = []
        for noise in NOISES:
            found = [[r["last"] for r in records.results({"growth": growth, "noise": noise})] for growth in GROWTHS]
            lines.append([noise, f"{certified(falling(n, 0.0, noise), DELTA)['epsilon']:.4f}", *map(spread, found)])
        return table(["z", "certified epsilon", *(f"c = {growth:g}" for growth in GROWTHS)], lines)
    lines = []
    for epsilon, clip, epochs in product(BUDGETS, CLIPS, EPOCHS):
        pair = []
        for method in ("ADP", "DP"):
            setting = {"schedule": what, "method": method, "epochs": epochs, "clip_norm": clip, "epsilon": epsilon}
            pair.append(records.results(setting))
        lines.append([epsilon, clip, epochs])
        for kind in ("best", "last"):
            adapted, equal = ([one[kind] for one in results] for results in pair)
            lines[-1] += [spread(adapted), spread(equal), gap(adapted, equal)]
    head = ["epsilon", "clip norm", "epochs", "ADP best", "DP best", "gap", "ADP last", "DP last", "gap"]
    return table(head, lines)


def gap(adapted: list[float], equal: list[float]) -> str:
    """Difference of the means, with its standard error."""
    if len(adapted) < 2 or len(equal) < 2:
        return ""
    error = (statistics.variance(adapted) / len(adapted) + statistics.variance(equal) / len(equal)) ** 0.5
    return f"{statistics.mean(adapted) - statistics.mean(equal):+.2f} +- {error:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("linear", "polynomial", "constant"))
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    records, n = Records(options.records), len(data(options.data_dir)[0][1])
    records.collect(
        settings_of(options.what), range(options.seeds), lambda setting, seed: train(options.data_dir, run_of(n, setting), seed)
    )
    print(report(options.what, records, n))


if __name__ == "__main__":
    main()
