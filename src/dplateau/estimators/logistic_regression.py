"""``PrivateLogisticRegression``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from dplateau.estimators.classifier import PrivateLinearClassifier
from dplateau.estimators.costs import numbers_of_classes
from dplateau.estimators.link import unclipped_probability
from dplateau.losses.named import ChosenLoss, loss_named
from dplateau.spec import InputError


class PrivateLogisticRegression(PrivateLinearClassifier):
    """Logistic regression with differential privacy: binary, or multinomial through softmax.

    Parameters
    ----------
    epsilon : float, default 1.0
        What the model may cost, at ``delta``. The noise is calibrated to it and the cost certified.
    delta : float, optional
        By default ``min(1e-5, 1 / (10 n))``, with n the number of rows.
    feature_norm : float, default 1.0
        Public bound on the Euclidean norm of a row. Choose it without looking at the rows.
    rows : {"clip", "unit"}, default "clip"
        "clip" scales rows longer than ``feature_norm`` down to it; "unit" scales all rows to it, which is often more accurate
        where the direction of a row matters and its length does not. Prediction treats rows the same way.
    classes : iterable, optional
        All classes, public, in any order. By default they are taken from y, with a ``PrivacyWarning``: the model then has no
        certificate, because one row of a class of its own would change its shape.
    class_weight : dict, optional
        Public weights of classes, > 0; 1 where a class is not named. The loss of a row is multiplied by the weight of its class
        divided by the largest weight: what a row can do stays what it was. They cannot be counted in private rows, so there is no
        "balanced": give 1 over the shares that are public.
    fit_intercept : bool, default True
        Whether to learn an intercept (as the coefficient of one more, constant feature).
    adjacency : {"add-remove", "replace"}, default "add-remove"
        Neighbouring data sets differ by the presence, or by the value, of one row.
    solver : str, default "auto"
        Algorithm, by its name in ``dplateau.algorithms.SOLVERS``; "auto" leaves the choice to ``dplateau.plan``.
    max_iter : int, default 400
        Number of gradient steps of Noisy-SGD, ADP-SGD and DP-SGLD; other solvers choose theirs. More cost time, not privacy.
    l2 : float, default 0.0
        Coefficient of ``|coef_|^2 / 2``, which is added to the mean loss; Noisy-SGD does not shrink the intercept, other
        solvers do.
    dtype : {"float32", "float64"}, default "float32"
        Working precision of Noisy-SGD; other solvers compute in float64.
    insecure_seed : int, optional
        Makes the noise reproducible and **voids the guarantee**; recorded in the certificate. For tests on public data.
    verbose : bool, default False
        Whether to show a progress bar (steps and time only).
    steps : int, optional
        The old name of ``max_iter``. Warns.
    ledger : Account, optional
        The account of the data set, see ``dplateau.Ledger``: what a fit costs is taken out of its budget before the fit draws its
        first random number, and ``BudgetError`` is raised where it is not covered. The batches of ``partial_fit`` are parts of its
        records, so that a stream costs what one batch costs.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes, sorted.
    coef_ : array of shape (1, d) or (K, d)
        Coefficients; one row if there are two classes.
    intercept_ : array of shape (1,) or (K,)
        Intercepts.
    run_ : Run
        What was computed and released.
    certificate_ : Certificate
        What it cost, and under which assumptions.
    epsilon_ : float
        The certified epsilon, at most ``epsilon``.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        d.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where X had them.

    Notes
    -----
    A fit is one release. Several fits, for instance those of a ``GridSearchCV``, are several: their costs add up, and neither their
    sum nor the cost of the choice between them is in ``certificate_``. Search on public data. What learns from the rows before the
    estimator sees them, such as a scaler in a ``Pipeline``, is not accounted for either.

    Rows must be dense: sparse ones are refused, not made dense, since that may not fit in memory. There are no sample weights: a
    weight is read off its row, would multiply what the row can cost, and is not limited anywhere on its way to the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from dplateau.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 3)) / 4
    >>> y = X[:, 0] > 0
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[False, True]).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.epsilon_ <= 1.0
    (True, True)
    """

    def _loss(self, classes: int) -> ChosenLoss:
        return loss_named("logistic", classes=classes)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities of rows.

        With two classes they take into account that gradients were clipped, which makes the plain sigmoid of the scores too sure:
        see ``dplateau.estimators.link``. With more they are the plain softmax: there, few steps and noise leave scores too small,
        which outweighs it (the softmax was the better calibrated one on MNIST and Fashion-MNIST, at epsilon 1 and 8).

        With ``class_weight`` they are the probabilities of the classes as they are in the rows: the weights are undone, and
        ``predict`` may name a class that is not the likeliest one. Where errors have costs, ``predict_at_least_cost`` follows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, K)
            Probabilities, in the order of ``classes_``.
        """
        rows = self._checked(X)
        return self._probabilities(rows, self._scores(rows))

    def _probabilities(self, rows: NDArray[Any], scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if scores.ndim == 2:
            return softmax(scores - np.log(self._scaled_weights(self.classes_)), axis=1)
        norms = np.hypot(np.linalg.norm(rows, axis=1), self._constant())
        with np.errstate(divide="ignore"):
            largest = self.run_.clip_norm / norms
        weights = self._scaled_weights(self.classes_)
        return np.column_stack([unclipped_probability(sign * scores, largest, weights[::sign]) for sign in (-1, 1)])

    @property
    def boundary(self) -> float:
        """Of two classes: from which probability on ``predict`` names the second one; 0.5 without ``class_weight``.

        With it, of rows as long as ``feature_norm``: shorter ones may have another, since their gradients are clipped less.
        """
        if len(self.classes_) != 2:
            raise InputError(f"there are {len(self.classes_)} classes: only two have a boundary. Compare columns of predict_proba.")
        return float(self._boundaries(float(self.feature_norm) * np.eye(1, self.n_features_in_))[0])

    def _boundaries(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Of two classes: the probability of the second one where a row's score is 0."""
        return self._probabilities(rows, np.zeros(len(rows)))[:, 1]

    def predict_at_least_cost(self, X: ArrayLike, cost: Mapping[Any, float]) -> NDArray[Any]:
        """The class of each row whose expected cost is the least, by ``predict_proba``.

        It looks at the model alone, so it is free: costs may be changed at any time. With two classes, costs a and b, the second
        one is predicted where its probability is above ``a / (a + b)``.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        cost : dict
            What it costs to miss a row of a class, > 0; 1 for classes that are not named.

        Returns
        -------
        array of shape (n,)
            Classes.
        """
        costs = numbers_of_classes("cost", cost, self.classes_.tolist())
        return self.classes_[(self.predict_proba(X) * costs).argmax(axis=1)]

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
