"""How good a model is on public rows, beside what an answer without a model would be worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from dplateau.data import Dataset
from dplateau.estimators.logistic_regression import PrivateLogisticRegression


@dataclass(frozen=True)
class ClassEvaluation:
    """How good a classifier is on public rows.

    Attributes
    ----------
    rows : int
        Their number.
    accuracy : float
        The share of right predictions.
    majority, majority_accuracy : str, float
        The most frequent class of these rows, and the accuracy of always predicting it.
    balanced_accuracy : float
        The mean recall of the classes that occur.
    recall : dict of str to float or None
        For every class, the share of its rows that are predicted right; None where it has no rows.
    actual, predicted : dict of str to int
        How many rows have each class, and for how many it is predicted.
    auc : float or None
        Area under the receiver operating characteristic, for two classes that both occur.
    log_loss : float or None
        Mean negative logarithm of the probability of the actual class; for logistic models.
    """

    rows: int
    accuracy: float
    majority: str
    majority_accuracy: float
    balanced_accuracy: float
    recall: dict[str, float | None]
    actual: dict[str, int]
    predicted: dict[str, int]
    auc: float | None
    log_loss: float | None

    @property
    def warning(self) -> str | None:
        """What should be known before the numbers are used; None where nothing is."""
        said = [name for name, count in self.predicted.items() if count]
        if len(said) > 1 or sum(count > 0 for count in self.actual.values()) < 2:
            return None
        return (
            f"every row is predicted as {said[0]!r}: the model tells rows no more apart than that one answer does. Public"
            " weights of the classes in training, or costs in the prediction of a logistic model, count a rare class for more. More"
            " rows, a larger epsilon or fewer features may help, too."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class NumberEvaluation:
    """How good a regression is on public rows.

    Attributes
    ----------
    rows : int
        Their number.
    rmse, mae : float
        Root of the mean squared error, and mean absolute error, in units of the target.
    r2 : float or None
        Coefficient of determination: 1 is perfect, 0 no better than the mean. None where all targets are equal.
    mean, mean_rmse, mean_mae : float
        The mean of these rows' targets, and the errors of always predicting it; its ``r2`` is 0.
    """

    rows: int
    rmse: float
    mae: float
    r2: float | None
    mean: float
    mean_rmse: float
    mean_mae: float

    @property
    def warning(self) -> None:
        """As of a classifier: there is none."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def evaluate(
    estimator: Any, classes: tuple[str, ...], pieces: Iterable[Dataset], predict: Callable[[NDArray[Any]], NDArray[Any]]
) -> ClassEvaluation | NumberEvaluation:
    """Evaluate a fitted estimator, and what ``predict`` says, on encoded public rows; its classes are indices of ``classes``."""
    if not classes:
        found = [(piece.target, np.asarray(predict(piece.features))) for piece in pieces]
        return _numbers(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    logistic = isinstance(estimator, PrivateLogisticRegression)
    targets, places, scores = [], [], []
    for piece in pieces:
        targets.append(piece.target)
        places.append(predict(piece.features))
        if logistic:
            scores.append(estimator.predict_proba(piece.features))
        elif len(classes) == 2:
            scores.append(estimator.decision_function(piece.features))
    target, predicted = np.concatenate(targets), np.concatenate(places)
    return _classes(classes, target, predicted, np.concatenate(scores) if scores else None, logistic)


def _classes(
    names: tuple[str, ...], target: NDArray[Any], predicted: NDArray[Any], scores: NDArray[Any] | None, logistic: bool
) -> ClassEvaluation:
    places = range(len(names))
    actual, said, right = (np.bincount(one, minlength=len(names)) for one in (target, predicted, target[target == predicted]))
    recall = [float(right[i] / actual[i]) if actual[i] else None for i in places]
    best = int(actual.argmax())
    auc = None
    if len(names) == 2 and actual.all() and scores is not None:
        auc = float(roc_auc_score(target, scores[:, 1] if logistic else scores))
    return ClassEvaluation(
        rows=len(target),
        accuracy=float(right.sum() / len(target)),
        majority=names[best],
        majority_accuracy=float(actual[best] / len(target)),
        balanced_accuracy=float(np.mean([one for one in recall if one is not None])),
        recall=dict(zip(names, recall, strict=True)),
        actual=dict(zip(names, actual.tolist(), strict=True)),
        predicted=dict(zip(names, said.tolist(), strict=True)),
        auc=auc,
        log_loss=float(log_loss(target, scores, labels=list(places))) if logistic else None,
    )


def _numbers(target: NDArray[Any], predicted: NDArray[Any]) -> NumberEvaluation:
    mean = float(target.mean())
    error, spread = float(np.mean((predicted - target) ** 2)), float(np.mean((mean - target) ** 2))
    return NumberEvaluation(
        rows=len(target),
        rmse=float(np.sqrt(error)),
        mae=float(np.mean(np.abs(predicted - target))),
        r2=1 - error / spread if np.ptp(target) and spread else None,
        mean=mean,
        mean_rmse=float(np.sqrt(spread)),
        mean_mae=float(np.mean(np.abs(mean - target))),
    )
