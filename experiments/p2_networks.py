"""P2's networks, trained again: Table 1 (MNIST), Table 2 (Adult), Table 3 (IMDb), Table 4 (MovieLens) and Figure 4.

    python experiments/p2_networks.py {mnist,adult,imdb,movielens,figure4} --data-dir DIR --records FILE [--rows 1 2 ...]

DIR holds the data set's standard files: MNIST's four IDX files; a9a (LIBSVM); aclImdb; ratings.dat. FILE is a JSON-lines file of
finished trainings; what it holds is not trained again, so an interrupted experiment goes on. Every training draws fresh noise; a
seed only sets the first weights and the split. The cost is certified exactly, and printed beside what the paper claims for it.

The networks are those of the paper's text (``experiments/networks.py``). Where it differs on purpose: sums are divided by the
expected batch size, because the realised one depends on the records. Beside the last iterate, which is the paper's model, stands
the mean of the last fifth of the iterates: it costs nothing more, because every iterate is accounted for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

import dplateau as dp
import networks
from dplateau.data import read_imdb, read_mnist, read_movielens
from dplateau.data.read_libsvm import read_libsvm
from dplateau.networks import Validation, noisy_adam, noisy_sgd, train_network
from records import Records, certified, spread, table


class Task(NamedTuple):
    """Data, split for a seed, and the network on them."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    network: networks.Network
    loss: networks.Loss
    score: Callable[[Any], float]


class Row(NamedTuple):
    """A row of the paper's tables: hyperparameters, its result, its CLT and moments-accountant epsilon."""

    optimizer: str
    rate: float
    clip_norm: float
    noise_multiplier: float
    epochs: int
    batch_size: float
    delta: float
    printed: str
    clt: float
    moments: float


ROWS = {
    "mnist": (
        Row("sgd", 0.25, 1.5, 1.3, 15, 256, 1e-5, "95.0", 0.83, 1.19),
        Row("sgd", 0.15, 1.0, 1.1, 60, 256, 1e-5, "96.6", 2.32, 3.01),
        Row("sgd", 0.25, 1.5, 0.7, 45, 256, 1e-5, "97.0", 5.07, 7.10),
        Row("sgd", 0.25, 1.5, 0.6, 62, 256, 1e-5, "97.6", 9.98, 13.27),
        Row("sgd", 0.25, 1.5, 0.55, 68, 256, 1e-5, "97.8", 14.98, 18.72),
        Row("sgd", 0.25, 1.5, 0.5, 100, 256, 1e-5, "98.0", 31.12, 32.40),
    ),
    "adult": (Row("sgd", 0.15, 1.0, 0.55, 18, 256, 1e-5, "84.0", 10.20, 14.70),),
    "imdb": (Row("adam", 0.02, 1.0, 0.56, 9, 512, 1e-5, "83.8", 10.43, 15.24),),
    "movielens": (Row("adam", 0.01, 5.0, 0.6, 20, 0.0, 1e-6, "0.915", 10.61, 15.39),),
    "figure4": (
        Row("sgd", 0.15, 1.5, 1.3, 20, 256, 1e-5, "", 0.0, 1.34),
        Row("sgd", 0.15, 1.5, 1.06, 20, 256, 1e-5, "", 1.34, 0.0),
        Row("sgd", 0.15, 1.5, 0.7, 70, 256, 1e-5, "", 0.0, 8.68),
        Row("sgd", 0.15, 1.5, 0.638, 70, 256, 1e-5, "", 8.68, 0.0),
    ),
}


def classified(train: Any, test: Any, network: networks.Network, loss: networks.Loss) -> Task:
    """A task that is scored by accuracy."""
    return Task(train, test, network, loss, lambda params: 100 * networks.accuracy(network.apply, params, *test))


@cache
def mnist(folder: Path, _: int) -> Task:
    train, test = read_mnist(folder, "train"), read_mnist(folder, "test")
    network = networks.mnist_cnn()
    return classified((train.x, train.y.astype(np.int32)), (test.x, test.y), network, networks.cross_entropy(network))


def split(n: int, held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n)
    return order[held_out:], order[:held_out]


def adult(folder: Path, seed: int) -> Task:
    """a9a, one tenth of its rows for testing; features are 0 or 1."""
    features, target = read_libsvm(folder / "a9a", 123)
    kept, held = split(len(features), len(features) // 10, seed)
    y = (target > 0).astype(np.float32)
    network = networks.adult_mlp()
    return classified((features[kept], y[kept]), (features[held], y[held]), network, networks.logistic(network))


@cache
def imdb(folder: Path, _: int) -> Task:
    train, test = read_imdb(folder, "train"), read_imdb(folder, "test")
    network = networks.imdb_network()
    return classified((train.x, train.y.astype(np.float32)), (test.x, test.y), network, networks.logistic(network))


def movielens(folder: Path, seed: int) -> Task:
    """A fifth of the ratings for testing; one record is one rating, not one user."""
    ratings = read_movielens(folder / "ratings.dat")
    pairs, classes = np.stack([ratings.users, ratings.movies], axis=1).astype(np.int32), (ratings.stars - 1).astype(np.int32)
    kept, held = split(len(classes), len(classes) // 5, seed)
    network = networks.movielens_network()
    return Task(
        (pairs[kept], classes[kept]),
        (pairs[held], classes[held]),
        network,
        networks.cross_entropy(network),
        lambda params: networks.rmse(network.apply, params, pairs[held], classes[held]),
    )


AVERAGE = 0.2
TASKS = {"mnist": mnist, "adult": adult, "imdb": imdb, "movielens": movielens, "figure4": mnist}


def run_of(row: Row, n: int) -> dp.Run:
    batch = row.batch_size or n / 80
    return dp.Run(
        n=n,
        sampling=dp.Poisson(batch),
        steps=round(row.epochs * n / batch),
        noise_multiplier=row.noise_multiplier,
        clip_norm=row.clip_norm,
        update="post-processed",
    )


def optimizer_of(row: Row) -> optax.GradientTransformation:
    return noisy_adam(row.rate) if row.optimizer == "adam" else noisy_sgd(row.rate)


def train(task: Task, row: Row, seed: int) -> dict[str, Any]:
    """Scores of the last iterate and of the mean, and scores on the way, a look at public test rows each epoch."""
    run = run_of(row, len(task.train[1]))
    every = max(1, run.steps // row.epochs)
    look = Validation(task.score, every, "the test set of a public data set, used to draw curves", keep_best=False)
    params = task.network.init(jax.random.key(seed))
    result = train_network(run, task.loss, params, task.train, optimizer=optimizer_of(row), average=AVERAGE, validation=look)
    curve = [list(score) for score in result.scores]
    return {"score": task.score(result.last), "mean": task.score(result.params), "curve": curve}


def report(name: str, records: Records, folder: Path, numbers: list[int]) -> str:
    lines: list[list[object]] = []
    n = len(TASKS[name](folder, 0).train[1])
    for number in numbers:
        row = ROWS[name][number - 1]
        results = records.results({"table": name, "row": number})
        cost = certified(run_of(row, n), row.delta)
        scores = [spread([result[kind] for result in results]) for kind in ("score", "mean")]
        hyper = [number, row.rate, row.clip_norm, row.noise_multiplier, row.epochs]
        claims = [f"{value:g}" if value else "" for value in (row.clt, row.moments)]
        lines.append([*hyper, row.printed, *scores, len(results), *claims, f"{cost['epsilon']:.4f}"])
    head = ["row", "rate", "clip", "z", "epochs", "printed", "last iterate", "mean of the last fifth", "runs"]
    head += ["CLT (printed)", "moments (printed)", "certified"]
    return table(head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=list(ROWS))
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    records = Records(options.records)
    numbers = options.rows or list(range(1, len(ROWS[options.table]) + 1))

    def one(setting: dict[str, Any], seed: int) -> dict[str, Any]:
        return train(TASKS[options.table](options.data_dir, seed), ROWS[options.table][setting["row"] - 1], seed)

    records.collect([{"table": options.table, "row": number} for number in numbers], range(options.seeds), one)
    print(report(options.table, records, options.data_dir, numbers))


if __name__ == "__main__":
    main()
