"""Does a private search pay? One setting at full epsilon, all settings told, and a search that tells the best one only.

    python experiments/private_search.py [--data-dir DIR] [--epsilon 1] [--repeats 10] [--json]

Twelve settings: lengths that rows are clipped to, and numbers of steps. Columns: mean accuracy on test rows, in per cent, of

- a setting at random, and the setting that is best in hindsight (on the test rows), each at full epsilon;
- all told: every setting is trained and scored with noise, for epsilon together (exact composition); the best score wins;
- search: ``PrivateGridSearch``, every setting tried with probability 0.5 and with 0.8.

Data: digits and breast cancer of scikit-learn; with --data-dir, a9a (LIBSVM) and MNIST (10,000 rows, 60 random features), too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.model_selection import ParameterGrid, train_test_split

import dplateau as dp
from dplateau import PrivateLogisticRegression as Classifier
from dplateau.accounting import gdp_mu

GRID = {"feature_norm": [0.1, 0.5, 2.0, 10.0], "max_iter": [20, 60, 200]}
ROWS = 10_000
"""Of MNIST."""


def tables(folder: Path | None) -> Iterator[tuple[str, tuple[Any, Any, Any, Any]]]:
    """Name, then train rows, test rows, train labels, test labels."""
    for name, load in (("breast cancer", load_breast_cancer), ("digits", load_digits)):
        X, y = map(np.asarray, load(return_X_y=True))
        X = X / np.array([16.0] * 64 if name == "digits" else np.maximum(10.0 ** np.ceil(np.log10(X.max(0))), 1e-3))
        yield name, tuple(train_test_split(X, y, test_size=0.3, random_state=0))  # type: ignore[misc]
    if folder is None:
        return
    a, b = (load_svmlight_file(str(folder / "a9a" / file), n_features=123) for file in ("a9a", "a9a.t"))
    yield "a9a", (a[0].toarray(), b[0].toarray(), (a[1] > 0).astype(int), (b[1] > 0).astype(int))
    parts = []
    for file, skip in (
        ("train-images-idx3-ubyte", 16),
        ("t10k-images-idx3-ubyte", 16),
        ("train-labels-idx1-ubyte", 8),
        ("t10k-labels-idx1-ubyte", 8),
    ):
        found = next((folder / "mnist").glob(file.replace("-idx", "?idx") + "*"))
        read = gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
        parts.append(np.frombuffer(read, np.uint8, offset=skip))
    project = np.random.default_rng(0).normal(size=(784, 60)) / 28
    images, labels = (part.reshape(-1, 784) / 255 @ project for part in parts[:2]), (part.astype(int) for part in parts[2:])
    train, test = images
    first, last = labels
    yield "MNIST", (train[:ROWS], test, first[:ROWS], last)


def priced(
    model: Classifier, settings: list[dict[str, Any]], share: float, delta: float, X: Any, y: Any
) -> tuple[list[Classifier], float, float]:
    """Models of all settings, each for a share of epsilon; the noise of a score; what they cost together."""
    given: list[dict[str, Any]] = [{**model.get_params(), **one, "epsilon": share, "delta": delta} for one in settings]
    fitted = [Classifier(**one) for one in given]
    noise = max(1 / (0.3 * gdp_mu(share, delta)), len(y) / 1000)
    runs: list[dp.Run | dp.Runs] = []
    for one in fitted:
        made, _ = one._planned(one._ready(X, y, None))  # pyright: ignore[reportPrivateUsage]
        runs += [made.run, dp.Run(n=len(y), sampling=dp.FullBatch(), steps=1, noise_multiplier=noise)]
    return fitted, noise, dp.account(dp.compose(*runs), delta).epsilon


def told(model: Classifier, settings: list[dict[str, Any]], epsilon: float, delta: float, X: Any, y: Any) -> Classifier:
    """All settings, trained and scored for epsilon together; the model with the best noisy score."""
    share = epsilon / len(settings) ** 0.5
    fitted, noise, spent = priced(model, settings, share, delta, X, y)
    for _ in range(7):
        if 0.98 * epsilon <= spent <= epsilon:
            break
        share *= 0.99 * epsilon / spent
        fitted, noise, spent = priced(model, settings, share, delta, X, y)
    scores = [one.fit(X, y).score(X, y) + np.random.normal() * noise / len(y) for one in fitted]
    return fitted[int(np.argmax(scores))]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with a9a and mnist")
    parser.add_argument("--epsilon", type=float, default=1.0, help="what each model may cost (default 1)")
    parser.add_argument("--repeats", type=int, default=10, help="trainings of each kind (default 10)")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    found = {}
    settings = list(ParameterGrid(GRID))
    for name, (X, X_test, y, y_test) in tables(options.data_dir):
        delta = min(1e-5, 1 / (10 * len(y)))
        model = Classifier(classes=np.unique(y).tolist(), epsilon=options.epsilon, delta=delta)
        alone = []
        for one in settings:
            fits = [model.set_params(**one).fit(X, y).score(X_test, y_test) for _ in range(options.repeats)]
            alone.append(float(np.mean(fits)))
        searches = {
            p: [
                dp.PrivateGridSearch(model, GRID, epsilon=options.epsilon, delta=delta, probability=p)
                .fit(X, y)
                .score(X_test, y_test)
                for _ in range(options.repeats)
            ]
            for p in (0.5, 0.8)
        }
        composed = [told(model, settings, options.epsilon, delta, X, y).score(X_test, y_test) for _ in range(options.repeats)]
        found[name] = {
            "rows": len(y),
            "settings": len(settings),
            "at random": float(np.mean(alone)),
            "in hindsight": max(alone),
            "all told": float(np.mean(composed)),
            **{f"search, {p}": float(np.mean(scores)) for p, scores in searches.items()},
        }
        if not options.json:
            numbers = [
                f"{label} {value:.2%}" if isinstance(value, float) else f"{value:,} {label}" for label, value in found[name].items()
            ]
            print(f"{name}: " + ", ".join(numbers), flush=True)
    if options.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
