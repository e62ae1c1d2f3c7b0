"""The default plan beside the best of all solvers, each tuned on the test rows, and beside methods of the literature.

    python benchmarks/defaults.py                           # all data sets that are found, about an hour
    python benchmarks/defaults.py --only "iris;diabetes"     # some of them
    python benchmarks/defaults.py --data-dir DIR            # folder with a9a/, mnist/ and fashion-mnist/ (default: ../shared/data)

Scores are per cent of right answers on test rows, or 100 times R^2. Every run has its own random split where a data set has none.

- default: what an estimator does, with nothing chosen.
- best tuned: every solver with every setting of its grid (l2, clip norm, step size), of which the best *on the test rows* is taken,
  anew for every epsilon, and then run afresh: a favour that costs no privacy here and would in practice.
- literature: for numbers AdaSSP (Wang, "Revisiting differentially private linear regression", UAI 2018: noisy second moments), for
  two classes objective perturbation with its Gaussian noise (Kifer, Smith, Thakurta, "Private convex empirical risk minimization",
  COLT 2012; one solver a class where there are more, with budget shared by composition), both with their ridge tuned likewise.
- diffprivlib: its logistic or linear regression, of pure epsilon, C tuned likewise.
- not private: scikit-learn's.

The rule of the default plan was found on the data sets in LOOKED_AT; the others were run once it was fixed.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split

from common import about, peer, table
from dplateau.algorithms import SOLVERS, Budget, NoisySGD, Problem, solver_named
from dplateau.data import clip_rows
from dplateau.losses import Logistic, Softmax, Squared
from dplateau.spec import InputError

EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
LOOKED_AT = ("iris", "wine", "breast cancer", "digits", "a9a", "a9a, 1,000 rows", "MNIST, 5,000 rows", "diabetes", "Friedman 1")
INTERCEPT = 0.25
"""Constant feature of a regression: rows of norm 1 are as long as ``hypot(1, 0.25)`` with it."""
L2 = (0.0, 1e-3, 1e-2)


@dataclass(frozen=True)
class Rows:
    """Encoded rows of a training and a test set; ``classes`` is 0 for numbers, which are scaled to [-1, 1]."""

    train: np.ndarray
    target: np.ndarray
    test: np.ndarray
    truth: np.ndarray
    classes: int

    @property
    def norm(self) -> float:
        return 1.0 if self.classes else math.hypot(1, INTERCEPT)

    def score(self, weights: np.ndarray) -> float:
        scores = self.test @ weights
        if not self.classes:
            return 100 * (1 - float(np.mean((scores - self.truth) ** 2) / np.var(self.truth)))
        found = scores.argmax(1) if scores.ndim == 2 else scores > 0
        return 100 * float(np.mean(found == self.truth))


def places(features: Any) -> np.ndarray:
    """Columns in [-1, 1]. The ranges stand for public ones."""
    low, high = features.min(axis=0), features.max(axis=0)
    return 2 * (features - low) / np.maximum(high - low, 1e-9) - 1


def encoded(features: np.ndarray, classes: int) -> np.ndarray:
    """As tables are encoded: rows of norm 1 with a constant feature for classes, rows of norm at most 1 and one for numbers."""
    if not classes:
        return np.column_stack([features / math.sqrt(features.shape[1]), np.full(len(features), INTERCEPT)])
    rows = np.column_stack([features, np.ones(len(features))])
    return clip_rows(rows / np.linalg.norm(rows, axis=1, keepdims=True), 1 - 1e-9)


def split(features: Any, target: Any, classes: int, seed: int) -> Rows:
    rows = encoded(places(np.asarray(features, dtype=float)), classes)
    target = np.asarray(target, dtype=float)
    target = target.astype(int) if classes else places(target)
    train, test, known, truth = map(np.asarray, train_test_split(rows, target, test_size=0.25, random_state=seed))
    return Rows(train, known, test, truth, classes)


def bundled(load: Callable[..., Any], classes: int) -> Callable[[int], Rows]:
    def read(seed: int) -> Rows:
        features, target = load(return_X_y=True)
        return split(features, target, classes, seed)

    return read


def images(folder: Path, rows: int) -> Callable[[int], Rows]:
    """The first rows of a file of images, as gray levels, and the first 5,000 test rows."""

    def read(part: str, most: int) -> tuple[np.ndarray, np.ndarray]:
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(16 + 784 * most)[16:], np.uint8).reshape(-1, 784) / 255
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
            return encoded(pixels, 10), np.frombuffer(file.read(8 + most)[8:], np.uint8).astype(int)

    return lambda _: Rows(*read("train", rows), *read("t10k", 5_000), 10)


def svm(folder: Path, rows: int | None) -> Callable[[int], Rows]:
    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        features, target = datasets.load_svmlight_file(str(folder / name), n_features=123)[:2]
        return encoded(features.toarray(), 2), (target > 0).astype(int)

    def load(seed: int) -> Rows:
        (train, target), test = read("a9a"), read("a9a.t")
        part = slice(None) if rows is None else slice(seed * rows, (seed + 1) * rows)
        return Rows(train[part], target[part], *test, 2)

    return load


def surveys() -> Iterator[tuple[str, Callable[[int], Rows]]]:
    """Tables that come with statsmodels."""
    library = peer("statsmodels.datasets")
    if library is None:
        return
    fair, anes, rand = (getattr(library, name).load_pandas().data for name in ("fair", "anes96", "randhie"))
    yield "affairs", lambda seed: split(fair.drop(columns="affairs"), fair["affairs"] > 0, 2, seed)
    yield "votes 1996", lambda seed: split(anes.drop(columns=["vote", "PID"]), anes["vote"], 2, seed)
    yield "parties 1996", lambda seed: split(anes.drop(columns=["vote", "PID"]), anes["PID"], 7, seed)
    visits = np.log1p(rand["mdvis"])
    yield "visits to the doctor", lambda seed: split(rand.drop(columns="mdvis"), visits, 0, seed)


def synthetic(classes: int, rows: int, columns: int, seed: int) -> Rows:
    features, target = datasets.make_classification(
        rows, columns, n_informative=columns // 2, n_classes=classes, n_clusters_per_class=1, class_sep=2.0, random_state=7
    )[:2]
    return split(features, target, classes, seed)


def everything(folder: Path) -> dict[str, Callable[[int], Rows]]:
    found: dict[str, Callable[[int], Rows]] = {
        "iris": bundled(datasets.load_iris, 3),
        "wine": bundled(datasets.load_wine, 3),
        "breast cancer": bundled(datasets.load_breast_cancer, 2),
        "digits": bundled(datasets.load_digits, 10),
        "diabetes": bundled(datasets.load_diabetes, 0),
        "Friedman 1": lambda seed: split(*datasets.make_friedman1(2_000, noise=1.0, random_state=0), 0, seed),
        "Friedman 3": lambda seed: split(*datasets.make_friedman3(4_000, noise=0.1, random_state=0), 0, seed),
        "100 classes, synthetic": partial(synthetic, 100, 8_000, 40),
        "2 classes, 300 columns, synthetic": partial(synthetic, 2, 2_000, 300),
    }
    if (folder / "a9a").exists():
        found |= {"a9a": svm(folder / "a9a", None), "a9a, 1,000 rows": svm(folder / "a9a", 1_000)}
    for name, title in (("mnist", "MNIST"), ("fashion-mnist", "Fashion-MNIST")):
        if (folder / name).exists():
            found[f"{title}, 5,000 rows"] = images(folder / name, 5_000)
    return found | dict(surveys())


def problem(rows: Rows, **changes: Any) -> Problem:
    loss = Squared() if not rows.classes else Logistic() if rows.classes == 2 else Softmax(rows.classes)
    n, d = rows.train.shape
    return Problem(n, d, loss, feature_norm=rows.norm, **changes)


def budget(rows: Rows, epsilon: float) -> Budget:
    return Budget(epsilon, min(1e-5, 1 / (10 * len(rows.train))))


def fitted(plan: Any, rows: Rows) -> float:
    return rows.score(plan.fit(rows.train, rows.target).weights)


def default(rows: Rows, epsilon: float, _: Any = None) -> float:
    return fitted(solver_named("noisy-sgd").plan(problem(rows), budget(rows, epsilon)), rows)


def tuned(rows: Rows, epsilon: float, setting: Any) -> float:
    """A solver, its l2, and for Noisy-SGD what its clip norm and step size are multiplied by."""
    name, l2, clip, longer = setting
    made = solver_named(name).plan(problem(rows, l2=l2), budget(rows, epsilon))
    if isinstance(made, NoisySGD) and (clip, longer) != (1, 1):
        # A longer step or a lower clip norm changes nothing about privacy.
        run = made.run
        size = np.minimum(np.multiply(run.step_size or 0.0, longer), 2 / problem(rows, l2=l2).smoothness)
        made = replace(made, run=run.replace(clip_norm=run.clip_norm * clip, step_size=size.tolist()))
    return fitted(made, rows)


TUNED = [
    *product(("noisy-sgd", "adp-sgd"), L2[:2], (0.5, 1.0, 2.0), (0.5, 1.0, 2.0)),
    *product((name for name in SOLVERS if name not in ("noisy-sgd", "adp-sgd")), L2, (1,), (1,)),
]


def ada_ssp(rows: Rows, epsilon: float, ridge: Any) -> float:
    """Ridge regression on second moments with Gaussian noise, one release; its ridge in units of the noise's largest eigenvalue."""
    d, generator, squared = rows.train.shape[1], np.random.default_rng(), rows.norm**2
    # x x^T has norm R^2, and x y times R has norm at most R^2: together sqrt(2) R^2.
    noise = math.sqrt(2) * squared / budget(rows, epsilon).mu
    moments = np.triu(generator.normal(size=(d, d)))
    moments = noise * (moments + moments.T) / math.sqrt(2)
    values, vectors = np.linalg.eigh(rows.train.T @ rows.train + moments)
    right = rows.train.T @ rows.target + noise / rows.norm * generator.normal(size=d)
    return rows.score(vectors @ ((vectors.T @ right) / (np.maximum(values, 0) + ridge * noise * math.sqrt(d))))


def objective_perturbation(rows: Rows, epsilon: float, ridge: Any) -> float:
    """Minimise the logistic loss with a random linear term: the least l2 term of the theorem times ``ridge``."""
    n, d = rows.train.shape
    shares = 1 if rows.classes == 2 else rows.classes
    delta = budget(rows, epsilon).delta / shares
    each = epsilon / shares
    noise = math.sqrt(8 * math.log(2 / delta) + 4 * each) / each
    found = []
    for label in [1] if rows.classes == 2 else range(rows.classes):
        sign = np.where(rows.target == label, 1.0, -1.0)
        push = np.random.default_rng().normal(scale=noise, size=d)
        shrink = max(2 * 0.25 / each, 1e-9) * ridge

        def value(w: np.ndarray, sign: np.ndarray = sign, push: np.ndarray = push, l2: float = shrink) -> tuple[float, np.ndarray]:
            margin = sign * (rows.train @ w)
            slope = -sign * np.exp(-np.logaddexp(0, margin))
            total = np.logaddexp(0, -margin).sum() + push @ w + l2 / 2 * w @ w
            return total / n, (rows.train.T @ slope + push + l2 * w) / n

        found.append(minimize(value, np.zeros(d), jac=True, method="L-BFGS-B").x)
    return rows.score(found[0] if rows.classes == 2 else np.column_stack(found))


def diffprivlib(library: Any, rows: Rows, epsilon: float, c: Any) -> float:
    if rows.classes:
        model = library.LogisticRegression(epsilon=epsilon, data_norm=1.0, C=c, fit_intercept=False, max_iter=1000)
        model.fit(rows.train, rows.target)
        return 100 * float(np.mean(model.predict(rows.test) == rows.truth))
    bounds = (-np.ones(rows.train.shape[1]), np.ones(rows.train.shape[1]))
    model = library.LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=(-1, 1), fit_intercept=False)
    return rows.score(model.fit(rows.train, rows.target).coef_.ravel())


def not_private(rows: Rows, _: float, c: Any) -> float:
    if not rows.classes:
        return rows.score(Ridge(alpha=1 / c, fit_intercept=False).fit(rows.train, rows.target).coef_)
    model = LogisticRegression(C=c, fit_intercept=False, max_iter=300).fit(rows.train, rows.target)
    return 100 * float(np.mean(model.predict(rows.test) == rows.truth))


def attempt(fit: Callable[[Rows, float, Any], float], rows: Rows, epsilon: float, setting: Any) -> float:
    """A score, or minus infinity for a setting that a solver refuses."""
    try:
        return fit(rows, epsilon, setting)
    except (InputError, ValueError, FloatingPointError):
        return -math.inf


def best(fit: Callable[[Rows, float, Any], float], grid: list[Any], splits: list[Rows], epsilon: float) -> tuple[list[float], Any]:
    """Scores of the best setting: the three that did best at first are run afresh, and the best mean counts."""

    def scores(setting: Any, rows: list[Rows]) -> list[float]:
        return [attempt(fit, one, epsilon, setting) for one in rows]

    short = sorted(grid, key=lambda setting: -statistics.mean(scores(setting, splits[: max(1, len(splits) // 4)])))[:3]
    return max(((scores(setting, splits), setting) for setting in short), key=lambda pair: statistics.mean(pair[0]))


def compare(name: str, load: Callable[[int], Rows], runs: int, library: Any) -> None:
    begin = time.perf_counter()
    one = load(0)
    splits = [load(seed) for seed in range(runs)] * (4 if one.train.size < 50_000 else 1)
    kind = f"{one.classes} classes" if one.classes else "a number"
    guess = f", largest class {100 * np.bincount(one.truth).max() / len(one.truth):.1f} %" if one.classes else ""
    plain, _ = best(not_private, [0.1, 1.0, 10.0, 100.0], splits[:runs], 0.0)
    seen, plainly = "looked at" if name in LOOKED_AT else "held out", f"not private {statistics.mean(plain):.1f}"
    print(f"\n{name} ({seen}): {len(one.train):,} rows, {one.train.shape[1]} features, {kind}{guess}; {plainly}\n")
    lines = []
    for epsilon in EPSILONS:
        ours = [default(rows, epsilon) for rows in splits]
        top, how = best(tuned, TUNED, splits, epsilon)
        method = ada_ssp if not one.classes else objective_perturbation
        book, _ = best(method, [0.1, 0.3, 1.0, 3.0, 10.0], splits, epsilon)
        other = [-math.inf]
        if library is not None:
            other, _ = best(partial(diffprivlib, library), [1e-3, 1e-2, 0.1, 1.0] if one.classes else [1.0], splits, epsilon)
        means = [statistics.mean(found) for found in (ours, top, book, other)]
        error = math.hypot(*(statistics.stdev(found) / math.sqrt(len(found)) for found in (ours, top)))
        shown = [f"{value:.1f}" if value > -100 else "below 0" for value in means]
        solver, l2, clip, longer = how
        setting = f"{solver}, l2 {l2:g}" + ("" if (clip, longer) == (1, 1) else f", clip x {clip:g}, step x {longer:g}")
        lines.append([f"{epsilon:g}", *shown[:2], f"{means[1] - means[0]:+.1f} ± {error:.1f}", *shown[2:], setting])
    book_name = "AdaSSP" if not one.classes else "objective perturbation"
    print(table(["epsilon", "default", "best tuned", "behind", book_name, "diffprivlib", "the best"], lines))
    print(f"\ntook {time.perf_counter() - begin:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", type=Path, help="folder with a9a/, mnist/ and fashion-mnist/ (default: ../shared/data)")
    parser.add_argument("--only", default="", help="names of data sets, separated by semicolons (default: all)")
    parser.add_argument("--runs", type=int, default=8, help="splits (default 8; 2 where n > 20,000), small tables four times each")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(about("jax", "numpy", "scikit-learn", "statsmodels", "diffprivlib"))
    found = everything(options.data_dir or Path(__file__).parents[1] / "../shared/data")
    library = peer("diffprivlib.models")
    for name, load in found.items():
        if not options.only or name in options.only.split(";"):
            runs = 2 if len(load(0).train) > 20_000 else options.runs
            compare(name, load, runs, library)


if __name__ == "__main__":
    main()
