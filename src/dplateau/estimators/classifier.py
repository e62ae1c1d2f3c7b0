"""What the private linear classifiers share: public classes, decision values, predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from dplateau.estimators.base import PrivateLinearModel, Stream, Weights, takes_batches
from dplateau.estimators.checks import checked_data
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Assumption, InputError, PrivacyWarning
from dplateau.spec.assumption import Classes


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Base of the classifiers. ``_loss`` gives the loss for a number of classes, and the norm its residuals are clipped to."""

    classes: Iterable[Any] | None

    def _loss(self, classes: int) -> tuple[GeneralisedLinearLoss, float | None]:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Train on private rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; those longer than ``feature_norm`` are scaled down to it.
        y : array of shape (n,)
            Class of each row.

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
        self._check_arguments()
        rows, labels = checked_data(self, X, y, y_numeric=False)
        check_classification_targets(labels)
        self._online = None
        classes, assumption = self._public_classes(np.unique(labels))
        loss, residual_clip = self._loss(len(classes))
        target = _codes(labels, classes)
        return self._fitted(classes, self._fit_weights(rows, target, loss, residual_clip=residual_clip, assumptions=(assumption,)))

    def fit_stream(self, stream: Stream) -> Any:
        """Train in one pass on private rows that need not fit in memory.

        Parameters
        ----------
        stream : Stream
            Rows in a public order; see ``dplateau.data.open_stream``. ``classes`` must be declared.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As ``fit``; and the stream ends early, is damaged or has more rows than it says. Nothing is released.
        TrainingInterrupted
            By the keyboard; nothing is released.
        """
        self._check_arguments()
        self._online = None
        classes, assumption = self._declared_classes("fit_stream", self.classes)
        loss, residual_clip = self._loss(len(classes))
        blocks = ((X, _codes(np.asarray(y), classes)) for X, y in stream.blocks())
        return self._fitted(classes, self._fit_stream(stream, blocks, loss, residual_clip=residual_clip, assumptions=(assumption,)))

    @available_if(takes_batches)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Any:
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
            All classes, public; needed where neither the constructor got them nor an earlier fit.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As ``fit``. The model stays as it was.
        """
        self._check_arguments()
        first = getattr(self, "_online", None) is None
        known = [one for one in (self.classes, classes, getattr(self, "classes_", None)) if one is not None]
        declared, assumption = self._declared_classes("partial_fit", known[0] if known else None)
        given = (
            known[:-1] if first and hasattr(self, "classes_") else known
        )  # A new stream may have other classes than a fit before.
        if any(not np.array_equal(np.unique(np.asarray(list(one))), declared) for one in given):  # type: ignore[arg-type]
            raise InputError("the classes differ from those that were declared before: call fit to start anew with other classes.")
        with self._unchanged_if_refused():
            rows, labels = checked_data(self, X, y, y_numeric=False, reset=first)
            loss, residual_clip = self._loss(len(declared))
            target = _codes(labels, declared)
            return self._fitted(
                declared, self._fit_batch(rows, target, loss, residual_clip=residual_clip, assumptions=(assumption,))
            )

    def _fitted(self, classes: NDArray[Any], weights: Weights) -> Any:
        coefficients, intercept = weights
        self.classes_ = classes
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(intercept)
        self._bind(self.coef_, self.intercept_)
        return self

    def _public_classes(self, present: NDArray[Any]) -> tuple[NDArray[Any], Assumption]:
        """The sorted classes and what the certificate says of them."""
        if self.classes is not None:
            return _sorted(self.classes)
        warnings.warn(
            "the classes were taken from y, which tells that each has a member: declare them, classes=[...].",
            PrivacyWarning,
            stacklevel=3,
        )
        return _sorted(present, declared=False)

    def _declared_classes(self, method: str, classes: ArrayLike | Iterable[Any] | None) -> tuple[NDArray[Any], Assumption]:
        if classes is None:
            raise InputError(f"{method} does not see all rows before it starts: declare the classes, classes=[...].")
        return _sorted(classes)

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
        scores = rows @ self.coef_.T + self.intercept_
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
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def _sorted(classes: ArrayLike | Iterable[Any], *, declared: bool = True) -> tuple[NDArray[Any], Assumption]:
    """The classes in order, at least two, and what the certificate says of them."""
    found = np.unique(np.asarray(list(classes)))  # type: ignore[arg-type]
    if len(found) < 2:
        raise InputError(f"there is only {len(found)} class: expected at least two classes.")
    return found, Classes(count=len(found), declared=declared)


def _codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """The place of every label among the classes."""
    present, inverse = np.unique(labels, return_inverse=True)
    index = {label: i for i, label in enumerate(classes.tolist())}
    codes = np.array([index.get(label, -1) for label in present.tolist()], dtype=np.int64)[inverse]
    if undeclared := int((codes < 0).sum()):
        raise InputError(
            f"{undeclared} of {len(labels)} rows have a class that is not among the declared classes: drop or recode them."
        )
    return codes
