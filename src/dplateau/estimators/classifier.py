"""What the private linear classifiers share: public classes, decision values, predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from dplateau.data.rows import as_entries, scores_by_row
from dplateau.estimators.base import PrivateLinearModel, Ready, ReadyStream, Stream, Weights, refuse_groups, takes_batches
from dplateau.estimators.checks import checked_data, checked_labels, checked_weights
from dplateau.estimators.costs import numbers_of_classes
from dplateau.estimators.shared import fit_shared, fit_stream_shared
from dplateau.losses import class_weighted, scaled_weights
from dplateau.losses.named import ChosenLoss
from dplateau.spec import Assumption, InputError, PrivacyWarning
from dplateau.spec.assumption import Classes, ClassWeights
from dplateau.training import Cluster
from dplateau.training.charged import Budgeted
from dplateau.training.persons import codes_of

TAKEN: Final = (
    "the classes were taken from y, and one row of a class of its own would change the shape of the model: no epsilon covers that,"
    " so there is no certificate. Declare the classes, which must be public: classes=[...]."
)
_KINDS: Final = {"U": "texts", "T": "texts", "S": "bytes", "b": "truth values", **dict.fromkeys("iuf", "numbers")}


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Base of the classifiers. ``_loss`` gives the loss for a number of classes, and the norm its residuals are clipped to."""

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        feature_norm: float = 1.0,
        rows: str = "clip",
        classes: Iterable[Any] | None = None,
        class_weight: Mapping[Any, float] | None = None,
        fit_intercept: bool = True,
        adjacency: str = "add-remove",
        solver: str = "auto",
        max_iter: int = 400,
        l2: float = 0.0,
        dtype: str = "float32",
        insecure_seed: int | None = None,
        verbose: bool = False,
        steps: int | str = "deprecated",
        ledger: Budgeted | None = None,
    ) -> None:
        super().__init__(
            *(epsilon, delta, feature_norm, rows, fit_intercept, adjacency, solver, max_iter, l2, dtype, insecure_seed, verbose),
            *(steps, ledger),
        )
        self.classes = classes
        self.class_weight = class_weight

    def _loss(self, classes: int) -> ChosenLoss:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, cluster: Cluster | None = None) -> Any:
        """Train on private rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; those longer than ``feature_norm`` are scaled down to it.
        y : array of shape (n,)
            Class of each row. If ``classes`` are not declared they are taken from here, with a ``PrivacyWarning``, and the model
            has no certificate.
        groups : array of shape (n,), optional
            Whose each row is: texts or whole numbers, with any number of rows each. A record is then a person: the loss of a person
            is the mean of the losses of that person's rows, each clipped, and n is the number of persons, wherever it is public.
        cluster : Cluster, optional
            Several processes to train on, see ``dplateau.training.Cluster``. Each calls ``fit`` with rows of its own and equal
            arguments, and gets the same model; n is the number of the records of all. With solver noisy-sgd, adp-sgd or
            pnsgd. All rows of a person must be in one process.

        Returns
        -------
        self

        Raises
        ------
        InputError
            An argument is out of range, the data are not finite numbers, or rows have classes that were not declared.
        TrainingInterrupted
            By the keyboard; nothing is released.
        """
        with self._unchanged_if_refused():
            return self._fit(X, y, groups) if cluster is None else fit_shared(self, X, y, groups, cluster)

    def _ready(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Ready:
        self._check_arguments()
        rows, labels = checked_data(self, X, y, y_numeric=False)
        self._online = None
        if self.classes is None:
            warnings.warn(TAKEN, PrivacyWarning, stacklevel=4)
        classes, assumption = _sorted(_present(labels) if self.classes is None else self.classes)
        chosen, held = self._weighted_loss(classes)
        target, uncertified = _codes(labels, classes), TAKEN if self.classes is None else None
        persons = None if groups is None else codes_of(groups, len(rows))
        finished = partial(self._fitted, classes)
        return Ready(rows, target, chosen, (assumption, *held), uncertified, persons, finished)

    def fit_stream(self, stream: Stream, *, cluster: Cluster | None = None) -> Any:
        """Train on private rows that need not fit in memory.

        Solver "pnsgd" and the snowballs read the rows once, in their order, which must be public. "noisy-sgd" takes ``max_iter``
        steps by random allocation, about ten epochs. In every epoch it reads the rows once, or once for every 1 GiB of them;
        memory is needed for two to three times as much. "auto" reads them once where there are at most 10,000 weights.

        Parameters
        ----------
        stream : Stream
            Rows; see ``dplateau.data.open_stream``. ``classes`` must be declared.
        cluster : Cluster, optional
            Several processes to train on, as in ``fit``, each with a stream of its own rows. With solver auto, pnsgd or noisy-sgd.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As ``fit``; and the stream ends early, is damaged, has more rows than it says, or others when it is read again. Nothing
            is released.
        TrainingInterrupted
            By the keyboard; nothing is released.
        """
        with self._unchanged_if_refused():
            return self._fit_stream(stream) if cluster is None else fit_stream_shared(self, stream, cluster)

    def _stream_ready(self) -> ReadyStream:
        self._check_arguments()
        self._online = None
        classes, assumption = self._declared_classes("fit_stream", self.classes)
        chosen, held = self._weighted_loss(classes)
        finished = partial(self._fitted, classes)
        return ReadyStream(lambda y: _codes(as_entries(y), classes), chosen, (assumption, *held), finished)

    @available_if(takes_batches)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, groups: None = None) -> Any:
        """Take in one more batch of private rows: one noisy gradient step, after which the model can be used and published.

        However many batches there are, all of them together cost ``epsilon``, provided that every row is in one batch only: each
        row is hidden by the noise of its own step. The number of rows of a batch is public, and a batch needs many rows, because
        its noise does not depend on their number. ``delta`` must be given, and the classes declared. Call ``fit`` to start anew.

        The method is there only where it is sound: not with solvers that must know all rows in advance.

        Parameters
        ----------
        X : array of shape (b, d)
            Rows.
        y : array of shape (b,)
            Class of each row.
        classes : array of shape (K,), optional
            All classes, public; needed where they were declared neither to the constructor nor for an earlier fit.
        groups : None
            Refused: nobody could tell that a person's rows came in one batch only. Persons need ``fit`` or ``fit_stream``.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As ``fit``. The model stays as it was.
        """
        self._check_arguments()
        refuse_groups(groups)
        first = getattr(self, "_online", None) is None
        known = [one for one in (self.classes, classes, getattr(self, "classes_", None)) if one is not None]
        declared, assumption = self._declared_classes("partial_fit", known[0] if known else None)
        given = (
            known[:-1] if first and hasattr(self, "classes_") else known
        )  # A new stream may have other classes than a fit before.
        if any(not np.array_equal(_sorted(one)[0], declared) for one in given):
            raise InputError("the classes differ from those that were declared before: call fit to start anew with other classes.")
        taken = getattr(self, "_certificate", None) == TAKEN and (not first or len(known) == 1)
        if taken:  # Those that a fit took from its y are not public, nor is what a stream does with them.
            warnings.warn(TAKEN, PrivacyWarning, stacklevel=2)
        with self._unchanged_if_refused():
            rows, labels = checked_data(self, X, y, y_numeric=False, reset=first)
            chosen, held = self._weighted_loss(declared)
            target = _codes(labels, declared)
            uncertified = TAKEN if taken else None
            return self._fitted(declared, self._fit_batch(rows, target, chosen, (assumption, *held), uncertified))

    def _fitted(self, classes: NDArray[Any], weights: Weights) -> Any:
        coefficients, intercept = weights
        self.classes_ = classes
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(intercept)
        self._bind(self.coef_, self.intercept_)
        return self

    def _weighted_loss(self, classes: NDArray[Any]) -> tuple[ChosenLoss, tuple[Assumption, ...]]:
        """The loss with the weights of the classes, and what the certificate says of these."""
        chosen, weights = self._loss(len(classes)), self._scaled_weights(classes)
        if min(weights) == 1:
            return chosen, ()
        return ChosenLoss(class_weighted(chosen.loss, weights), chosen.residual_clip), (ClassWeights(weights=_in_words(weights)),)

    def _declared_classes(self, method: str, classes: ArrayLike | Iterable[Any] | None) -> tuple[NDArray[Any], Assumption]:
        if classes is None:
            raise InputError(f"{method} does not see all rows before it starts: declare the classes, classes=[...].")
        return _sorted(classes)

    def weights_in_words(self) -> str | None:
        """What the certificate of the fit says of the weights of classes; None where all are equal."""
        weights = self._scaled_weights(self.classes_)
        return None if min(weights) == 1 else _in_words(weights)

    def _scaled_weights(self, classes: NDArray[Any]) -> list[float]:
        """What the losses of the classes are multiplied by: at most 1."""
        given = {} if self.class_weight is None else self.class_weight
        return scaled_weights(numbers_of_classes("class_weight", given, classes.tolist()))

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores of rows: ``X @ coef_.T + intercept_``, after long rows are scaled down as in ``fit``.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n,) or (n, K)
            With two classes, positive for the second one; otherwise one score a class, in the order of ``classes_``.
        """
        return self._scores(self._checked(X))

    def _scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return self._shifted(rows @ self.coef_.T)

    def _scores_by_row(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Scores for what is released of private rows."""
        return self._shifted(scores_by_row(rows, self.coef_))

    def _shifted(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = products + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Classes of rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n,)
            For each row, the class of the largest score.
        """
        found = self._likeliest(X)
        return self.classes_[found]

    def _likeliest(self, X: ArrayLike) -> NDArray[np.int64]:
        """The place in ``classes_`` of each row's class."""
        return likeliest(self._scores(self._checked(X)))

    def _credits(self, rows: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
        return (likeliest(self._scores_by_row(self._bounded(rows))) == target).astype(np.float64)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows whose class is predicted, which is a statistic of these rows: they should be public.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        y : array of shape (n,)
            Class of each row.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        """
        found = self._likeliest(X)
        right = found == _places(checked_labels(y, len(found)), self.classes_)
        if sample_weight is None:
            return float(right.mean())
        return float(np.average(right, weights=checked_weights(sample_weight, len(found))))


def likeliest(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place in ``classes_`` of each row's class: of two, the second one where its score is positive; of more, the largest's."""
    return (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)


def _in_words(weights: Iterable[float]) -> str:
    """Weights of classes as the certificate has them."""
    return ", ".join(f"{one:.8g}" for one in weights)


def _sorted(classes: ArrayLike | Iterable[Any]) -> tuple[NDArray[Any], Assumption]:
    """The classes in order, at least two, and what the certificate says of them."""
    if not isinstance(classes, Iterable):
        raise InputError(f"classes is of type {type(classes).__name__}: expected a list of all classes, for example range(20).")
    given = np.asarray(list(classes))
    found = np.unique(checked_labels(given, given.size))
    if len(found) < 2:
        raise InputError(f"there is only {len(found)} class: expected at least two classes.")
    return found, Classes(count=len(found), declared=True)


def _present(labels: NDArray[Any]) -> NDArray[Any]:
    """The classes that occur."""
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise InputError(
            "Unknown label type: y holds numbers that are not whole. Use a regression, or declare them as classes=[...]."
        )
    return np.unique(labels)


def _codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """The place of every label among the classes; raises where there is none."""
    codes = _places(labels, classes)
    if undeclared := int((codes < 0).sum()):
        kinds = _KINDS.get(labels.dtype.kind, "objects"), _KINDS.get(classes.dtype.kind, "objects")
        hint = "" if kinds[0] == kinds[1] else f" The labels are {kinds[0]}, and the declared classes {kinds[1]}."
        raise InputError(
            f"{undeclared} of {len(labels)} rows have a class that is not among the declared classes: drop or recode them.{hint}"
        )
    return codes


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """The place of every label among the classes, or -1."""
    if labels.dtype.kind in "iu" and classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes))):
        return np.where((labels >= 0) & (labels < len(classes)), labels, -1).astype(np.int64)
    index = {label: i for i, label in enumerate(classes.tolist())}
    if labels.dtype.kind == "O":  # objects of several types can be equal without being the same class
        return np.array([index.get(label, -1) for label in labels.tolist()], dtype=np.int64)
    present, inverse = np.unique(labels, return_inverse=True)
    return np.array([index.get(label, -1) for label in present.tolist()], dtype=np.int64)[inverse]
