"""A score of private rows that were held out of the training: one noisy histogram of how they are predicted.

Setting: a public number of the n places of the records is drawn by lot, by coins that do not depend on what any record says. The
records there take no part in the training. Of their predictions one histogram is released: every record counts in one cell, so it
adds a vector of norm 1 to whole numbers, which get Gaussian noise on one grid with them.

Guarantee, **Proved** (docs/proofs/private-test.md): what is released, model and histogram together, costs a record no more than the
larger of what the two cost. A record is in one part only, and what the other part releases is computed from the same records.

Everything else here is computed from the noisy histogram, and costs nothing.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplateau._account import account
from dplateau.calibration import calibrate
from dplateau.certificate import Certificate, bound_to, make_certificate
from dplateau.certificate.beside import WEIGHTS, check_model, check_schema, read_weights
from dplateau.estimators.classifier import likeliest
from dplateau.estimators.folder import read_signed_certificate, write_certificate
from dplateau.estimators.linear_regression import PrivateLinearRegression
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.spec import ContradictionError, FullBatch, InputError, Run
from dplateau.spec.arguments import real
from dplateau.spec.assumption import Features, HeldOut, PublicSchema
from dplateau.spec.schedule import is_constant
from dplateau.training import Cluster, SecureGenerator, TrainResult
from dplateau.training.output_noise import output_noise
from dplateau.training.result import gradient_assumptions, trusted
from dplateau.training.shared import drawn_once, of_all

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FOLDER: Final = "private-test"
COUNTS: Final = "counts"
"""What is released, in ``weights.npz``: its certificate is bound to it."""
MODEL: Final = "model"
"""Beside the counts: the 32 bytes of ``model_sha256``."""
HALVES: Final = 5
"""Cells of the histogram for each predicted class of two, where there are probabilities, and rows enough."""
_ENOUGH: Final = 200.0
"""Rows for each unit of noise from which so many cells leave an accuracy that is right to about 2 %."""
ERRORS: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Ends of the cells of absolute errors, as shares of the target's range."""
LARGEST_SHARE: Final = 0.5
_SURE: Final = 1.96
_VAGUE: Final = 0.25
"""A share with a larger standard error is not an estimate."""
_FEWEST: Final = 3.0
"""A number of rows that is not so many standard deviations of its noise above 0 is none to divide by."""


class Estimate(NamedTuple):
    """A number read off the noisy histogram, and its standard error: of the noise, and of which rows were drawn."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{min(max(self.value, 0.0), 1.0):.2%} ± {_SURE * self.error:.2%}"


class Split(NamedTuple):
    """The places that are trained on, and those that are held out, both ascending."""

    kept: NDArray[np.int64]
    held: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PrivateTest:
    """How good a model is on private rows that were held out, inside epsilon.

    Attributes
    ----------
    counts : array of float64
        The noisy histogram: of classes of shape (K, K, cells), actual and predicted class, and for two classes with probabilities
        the cell of the probability within what is predicted; of numbers of shape (cells,), by absolute error.
    rows : int
        Public number of rows that were held out.
    classes : tuple of str
        Names of the classes; empty for numbers.
    certificate : Certificate
        What the histogram costs, each row that was held out. It is bound to the counts and to ``model_sha256``.
    model_sha256 : str
        SHA-256 of the weights that were tested, as the model's certificate names it.
    """

    counts: NDArray[np.float64]
    rows: int
    classes: tuple[str, ...]
    certificate: Certificate
    model_sha256: str

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in each cell, in rows."""
        return float(self.certificate.run.noise_multiplier)  # type: ignore[arg-type]

    @property
    def estimates(self) -> dict[str, Any]:
        """What follows from the histogram, by name; None where the noise leaves nothing to be said.

        Of classes "accuracy", "balanced_accuracy", "recall" (a dict by class), "majority_accuracy" and, for two classes, "auc"; of
        numbers "rmse" as a share of the range, and "within" (a dict: the share of errors up to this share of the range).
        """
        return self._of_classes() if self.classes else self._of_numbers()

    def _of_classes(self) -> dict[str, Any]:
        places = range(len(self.classes))
        eye = np.eye(len(self.classes))[:, :, None]
        recall = {
            name: self._estimate(lambda counts, k=k: counts[k, k].sum() / counts[k].sum(), self.counts[k])
            for k, name in enumerate(self.classes)
        }
        known = None not in recall.values()
        auc = self._estimate(_auc, *self.counts) if len(self.classes) == 2 else None
        best = max(places, key=lambda k: float(self.counts[k].sum()))
        return {
            "accuracy": self._estimate(lambda counts: (eye * counts).sum() / self.rows),
            "majority": self.classes[best],
            "majority_accuracy": self._estimate(lambda counts: counts[best].sum() / self.rows),
            "balanced_accuracy": self._estimate(
                lambda counts: sum(counts[k, k].sum() / counts[k].sum() for k in places) / len(places)
            )
            if known
            else None,
            "recall": recall,
            "auc": auc if known else None,
        }

    def _of_numbers(self) -> dict[str, Any]:
        low, high = np.array(ERRORS[:-1]), np.array(ERRORS[1:])
        squares = (low**2 + low * high + high**2) / 3  # as if errors were spread evenly in a cell
        mean = self._estimate(lambda counts: counts @ squares / self.rows)
        rmse = None
        if mean is not None and mean.value > _FEWEST * mean.error:
            rmse = Estimate(float(np.sqrt(mean.value)), mean.error / (2 * float(np.sqrt(mean.value))))
        within = {
            f"{end:g}": self._estimate(lambda counts, k=k: counts[:k].sum() / self.rows)
            for k, end in enumerate(ERRORS[1:-1], start=1)
        }
        return {"rmse": rmse, "within": within}

    def _estimate(self, of: Callable[[NDArray[np.float64]], Any], *divisors: NDArray[np.float64]) -> Estimate | None:
        """A function of the counts, and its standard error to first order; None where it, or a divisor, may be noise alone."""
        sigma = self.deviation
        if any(one.sum() < _FEWEST * sigma * np.sqrt(one.size) for one in divisors):
            return None
        slopes = np.zeros(self.counts.shape)
        step = max(1e-3, 1e-4 * float(abs(self.counts).max()))
        for place in np.ndindex(self.counts.shape):
            moved = np.zeros(self.counts.shape)
            moved[place] = step
            slopes[place] = (float(of(self.counts + moved)) - float(of(self.counts - moved))) / (2 * step)
        shares = np.maximum(self.counts, 0) / max(float(np.maximum(self.counts, 0).sum()), 1.0)
        sampling = self.rows * (float((slopes**2 * shares).sum()) - float((slopes * shares).sum()) ** 2)
        error = float(np.sqrt(sigma**2 * (slopes**2).sum() + max(sampling, 0.0)))
        return Estimate(float(of(self.counts)), error) if error <= _VAGUE else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: each estimate with its standard error."""
        return {
            "rows": self.rows,
            "deviation": self.deviation,
            "epsilon": self.certificate.epsilon,
            "delta": self.certificate.delta,
            "certifies": self.certificate.certifies,
            "model_sha256": self.model_sha256,
            "counts": self.counts.tolist(),
            **_plain(self.estimates),
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return {"value": value.value, "error": value.error}
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def _auc(counts: NDArray[np.float64]) -> float:
    """Area under the curve of two classes whose cells are in the order of their scores; within a cell it is a half."""
    negative, positive = counts.reshape(2, -1)
    below = np.cumsum(negative) - negative
    return float(positive @ (below + negative / 2) / (negative.sum() * positive.sum()))


def drawn_split(n: int, share: float, generator: SecureGenerator) -> Split:
    """Hold out a share of n places, drawn by lot: every set of so many places is as likely.

    Raises
    ------
    InputError
        The share is not in (0, 0.5], or so small or large that a part has no place.
    """
    chosen = generator.subsets(1, _held_of(n, share), n)[0]
    return Split(np.setdiff1d(np.arange(n), chosen), chosen)


def _shared_split(n: int, share: float, generator: SecureGenerator, cluster: Cluster, own: int) -> Split:
    """The own part of the split of all n places, which process 0 draws: first its own, then those of process 1, and so on."""
    held = drawn_once(cluster, lambda: drawn_split(n, share, generator).held).astype(np.int64) - cluster.before(own)
    held = held[(held >= 0) & (held < own)]
    return Split(np.setdiff1d(np.arange(own), held), held)


def _held_of(n: int, share: float) -> int:
    held = round(n * real("private_test", share, high=LARGEST_SHARE))
    if not 0 < held < n:
        raise InputError(f"private_test {share:g} of {n:,} rows are {held}: expected one row or more, and some to train on.")
    return held


def _noise(run: Run) -> Any:
    noise = output_noise(float(run.noise_multiplier), float(run.n))  # type: ignore[arg-type]
    if noise.spacing > 1:
        raise InputError("private_test: the noise of so small an epsilon is beyond double precision: raise epsilon.")
    return noise


def cells_of_classes(
    target: NDArray[Any],
    predicted: NDArray[Any],
    classes: int,
    proba: NDArray[np.float64] | None,
    boundary: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    """The histogram of classes: a row is in one cell. ``proba`` is of the second of two, which is predicted from ``boundary`` on.

    A probability that is not a number counts in the first cell of what is predicted.
    """
    width = 1 if proba is None else HALVES
    found = np.zeros((classes, classes, width))
    cell = np.zeros(len(target), dtype=np.int64)
    if proba is not None:
        inside = np.where(predicted == 1, (proba - boundary) / (1 - boundary), proba / boundary)
        cell = np.minimum(np.clip(np.nan_to_num(inside, nan=0.0), 0, 1) * HALVES, HALVES - 1).astype(np.int64)
    np.add.at(found, (target.astype(np.int64), predicted.astype(np.int64), cell), 1.0)
    return found


def cells_of_numbers(target: NDArray[Any], predicted: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    """The histogram of absolute errors in units of the range; predictions are clipped to it, and NaN is the largest error."""
    errors = abs(np.clip(np.nan_to_num(predicted, nan=np.inf), low, high) - np.clip(target, low, high)) / (high - low)
    cell = np.clip(np.searchsorted(ERRORS, errors, side="left") - 1, 0, len(ERRORS) - 2)
    return np.bincount(cell, minlength=len(ERRORS) - 1).astype(np.float64)


@dataclass(frozen=True)
class PlannedTest:
    """A test before the training: which places are held out, what their histogram costs, and where its noise comes from.

    With a ``cluster`` the split is that of the own places; process 0 adds the noise to the histogram of all.
    """

    split: Split
    run: Run
    delta: float
    generator: SecureGenerator
    cluster: Cluster | None = None

    @property
    def fact(self) -> HeldOut:
        """The line of both certificates."""
        found = HeldOut(rows=self.run.n, noise_multiplier=float(self.run.noise_multiplier))  # type: ignore[arg-type]
        return found if self.generator.insecure else found.enforced()

    def released(self, cells: NDArray[np.float64], classes: tuple[str, ...], schema: str, model: str) -> PrivateTest:
        """The histogram with its noise, and its certificate. ``cells`` are private, and are not kept; the others are SHA-256."""
        cells = of_all(self.cluster, partial(np.asarray, cells))
        if float(cells.sum()) != self.run.n:
            raise InputError(f"the histogram counts {cells.sum():,.0f} rows, not {self.run.n:,}. Nothing was released.")
        counts = drawn_once(self.cluster, lambda: _noise(self.run).add(cells, self.generator)).reshape(cells.shape)
        processes = 1 if self.cluster is None else self.cluster.processes
        held = (*gradient_assumptions(self.run, self.generator), *trusted(processes), self.fact)
        result = TrainResult(counts, self.run, held, self.generator.source, "float64")
        made = bound_to(make_certificate(account(self.run, self.delta), result), _bound(counts, model))
        rests = tuple(PublicSchema() if isinstance(one, Features) else one for one in made.assumptions)
        return PrivateTest(counts, self.run.n, classes, replace(made, assumptions=rests, schema_sha256=schema), model)


def _bound(counts: NDArray[np.float64], model_sha256: str) -> dict[str, NDArray[Any]]:
    """What a test's certificate is bound to, as in ``weights.npz``."""
    return {COUNTS: counts, MODEL: np.frombuffer(bytes.fromhex(model_sha256), np.uint8)}


def planned_test(estimator: Any, n: int, share: float, cluster: Cluster | None = None, own: int = 0) -> PlannedTest:
    """Hold out a share of n places by lot, and plan their histogram with the least noise for the estimator's epsilon and delta.

    Of several processes, this one has ``own`` of the places. Delta becomes a parameter of the estimator, since it is that of all n.

    Raises
    ------
    InputError
        The share is out of range, or the noise is so large that counts and noise have no common grid.
    """
    estimator.set_params(delta=estimator._delta(n))
    generator, delta = estimator._generator(1), estimator.delta
    run = Run(n=_held_of(n, share), sampling=FullBatch(), steps=1, noise_multiplier=1.0, adjacency=estimator.adjacency)
    made = calibrate(run, epsilon=estimator.epsilon, delta=delta)
    _noise(made)
    split = drawn_split(n, share, generator) if cluster is None else _shared_split(n, share, generator, cluster, own)
    return PlannedTest(split, made, delta, generator, cluster)


def cells_of(estimator: Any, run: Run, features: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
    """The histogram of how a fitted estimator predicts the rows of a run; its classes are 0 to K - 1."""
    shape = _shape(estimator, run, len(getattr(estimator, "classes_", ())))
    if not len(target):  # One of several processes may hold none of them.
        return np.zeros(shape)
    rows = estimator._checked(features)
    scores = estimator._scores_by_row(rows)
    if isinstance(estimator, PrivateLinearRegression):
        return cells_of_numbers(target, scores, *estimator.target_range)  # type: ignore[misc]
    proba, boundary = None, 0.5
    if shape[-1] == HALVES:
        proba, boundary = estimator._probabilities(rows, scores)[:, 1], estimator._boundaries(rows)
    return cells_of_classes(target, likeliest(scores), shape[0], proba, boundary)


def write_test(test: PrivateTest, part: Path, sign: Ed25519PrivateKey | None) -> None:
    """Write the folder ``private-test`` of a model."""
    folder = part / FOLDER
    folder.mkdir()
    write_certificate(folder, test.certificate, sign)
    (folder / "test.json").write_text(json.dumps(test.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    np.savez(folder / WEIGHTS, **_bound(test.counts, test.model_sha256))  # pyright: ignore[reportArgumentType]


def read_test(
    folder: Path, estimator: Any, classes: tuple[str, ...], schema_sha256: str, signed_by: str | Iterable[str] | None
) -> PrivateTest | None:
    """What ``write_test`` wrote in a model's folder; None where there is nothing.

    Raises
    ------
    InputError
        A file is damaged.
    ContradictionError
        The certificate is about another model, histogram or schema, or about other rows than the model's says.
    """
    inside = folder / FOLDER
    if not inside.is_dir():
        return None
    certificate, arrays = read_signed_certificate(inside, signed_by), read_weights(inside / WEIGHTS)
    run, model = certificate.run, estimator.certificate_.weights_sha256
    if not isinstance(run, Run) or not is_constant(run.noise_multiplier):
        raise InputError(f"{inside}: the certificate is of {type(run).__name__}, not of one run with one noise.")
    shape, counts = _shape(estimator, run, len(classes)), arrays.get(COUNTS)
    if counts is None or len(arrays) > 2 or counts.shape != shape or counts.dtype != np.float64 or not np.isfinite(counts).all():
        raise InputError(f"{inside / WEIGHTS} is damaged: expected counts of shape {shape}.")
    check_model(certificate, inside, arrays)
    check_schema(certificate, inside, schema_sha256)
    told = [{one for one in each.assumptions if isinstance(one, HeldOut)} for each in (certificate, estimator.certificate_)]
    if told[0] != told[1] or len(told[0]) != 1:
        raise ContradictionError(f"{inside}: its certificate and that of the model say different things about the rows held out.")
    if not np.array_equal(arrays.get(MODEL, ()), _bound(counts, model)[MODEL]):
        raise ContradictionError(f"{inside}: a model with other weights was tested.")
    return PrivateTest(counts, run.n, classes, certificate, model)


def _shape(estimator: Any, run: Any, classes: int) -> tuple[int, ...]:
    """The shape of the histogram of a fitted estimator, from public numbers."""
    if not classes:
        return (len(ERRORS) - 1,)
    fine = classes == 2 and isinstance(estimator, PrivateLogisticRegression) and run.n >= _ENOUGH * run.noise_multiplier
    return (classes, classes, HALVES if fine else 1)
