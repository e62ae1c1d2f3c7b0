"""What the private linear classifiers share: public classes, decision values, predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dplateau.estimators.base import PrivateLinearModel
from dplateau.estimators.checks import checked_data
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Assumption, InputError, PrivacyWarning


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
        present, codes = np.unique(labels, return_inverse=True)
        classes, assumption = self._public_classes(present)
        index = {label: i for i, label in enumerate(classes.tolist())}
        target = np.array([index.get(label, -1) for label in present.tolist()])[codes]
        if undeclared := int((target < 0).sum()):
            raise InputError(
                f"{undeclared} of {len(labels)} rows have a class that is not among the declared classes: drop or recode them."
            )
        loss, residual_clip = self._loss(len(classes))
        coefficients, intercept = self._fit_weights(rows, target, loss, residual_clip=residual_clip, assumptions=(assumption,))
        self.classes_ = classes
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(intercept)
        return self

    def _public_classes(self, present: NDArray[Any]) -> tuple[NDArray[Any], Assumption]:
        """The sorted classes and what the certificate says of them."""
        if self.classes is None:
            classes, origin = present, "declared public: taken from y"
            warnings.warn(
                "the classes were taken from y, which tells that each has a member: declare them, classes=[...].",
                PrivacyWarning,
                stacklevel=3,
            )
        else:
            classes, origin = np.unique(np.asarray(list(self.classes))), "declared by the caller"
        if len(classes) < 2:
            raise InputError(f"there is only {len(classes)} class: expected at least two classes.")
        return classes, Assumption("classes", f"the {len(classes)} classes are public ({origin})", "declared")

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
