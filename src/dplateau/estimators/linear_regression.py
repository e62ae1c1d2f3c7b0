"""``PrivateLinearRegression``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.metaestimators import available_if

from dplateau.data.rows import count_not_finite, scores_by_row
from dplateau.estimators.base import PrivateLinearModel, Ready, ReadyStream, Stream, Weights, refuse_groups, takes_batches
from dplateau.estimators.checks import checked_data, checked_target, checked_weights, numbers
from dplateau.estimators.shared import fit_shared, fit_stream_shared
from dplateau.losses.named import ChosenLoss, loss_named
from dplateau.spec import Assumption, InputError
from dplateau.spec.arguments import real
from dplateau.spec.assumption import Target
from dplateau.training import Cluster
from dplateau.training.charged import Budgeted
from dplateau.training.persons import codes_of


class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):
    """Linear regression with differential privacy, by squared or Huber loss, for a target of a declared range.

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
    target_range : (float, float)
        Public range of the target; targets beyond are clipped to it. It has to be given.
    loss : {"squared", "huber", "absolute"}, default "squared"
        "huber" is linear beyond an eighth of ``target_range``: less noise, and predictions nearer to conditional medians, which
        "absolute" is all about; it is not smooth and goes with Phased-ERM only.
    fit_intercept : bool, default True
        Whether to learn an intercept (as the coefficient of one more, constant feature).
    adjacency : {"add-remove", "replace"}, default "add-remove"
        Neighbouring data sets differ by the presence, or by the value, of one row.
    solver : str, default "auto"
        Algorithm, by its name in ``dplateau.algorithms.SOLVERS``; "auto" leaves the choice to ``dplateau.plan``.
    max_iter : int, default 400
        Number of gradient steps of Noisy-SGD, ADP-SGD and DP-SGLD; other solvers choose theirs. More cost time, not privacy.
    l2 : float, default 0.0
        Coefficient of ``|coef_|^2 / 2``, which is added to the mean loss (of targets scaled to [-1, 1]).
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
    coef_ : array of shape (d,)
        Coefficients, in units of the target.
    intercept_ : float
        Intercept; 0 without ``fit_intercept``.
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
    A fit is one release; what ``PrivateLogisticRegression`` says of searches, sparse rows and sample weights holds here too.

    Residuals of the squared loss are clipped at a quarter of the target's range (for rows of full length) or, where noise is large,
    by Noisy-SGD down to a quarter of that: see ``dplateau.algorithms.plan_noisy_sgd``. Errors beyond count as if they were that
    large, so the predictions are something between conditional means and medians. A wide ``target_range`` brings them nearer the
    means and adds noise in proportion.

    Examples
    --------
    >>> import numpy as np
    >>> from dplateau.estimators import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(10_000, 2))
    >>> y = 5 + 3 * X[:, 0] + rng.normal(size=10_000)
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-5, feature_norm=1.5, target_range=(0, 10)).fit(X, y)
    >>> bool(abs(model.coef_[0] - 3) < 0.3), bool(abs(model.intercept_ - 5) < 0.3)
    (True, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        feature_norm: float = 1.0,
        rows: str = "clip",
        target_range: tuple[float, float] | None = None,
        loss: str = "squared",
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
        self.target_range = target_range
        self.loss = loss

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, cluster: Cluster | None = None) -> Any:
        """Train on private rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; those longer than ``feature_norm`` are scaled down to it.
        y : array of shape (n,)
            Target of each row; clipped to ``target_range``.
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
            An argument is out of range, or the data are not finite numbers.
        TrainingInterrupted
            By the keyboard; nothing is released.
        """
        with self._unchanged_if_refused():
            return self._fit(X, y, groups) if cluster is None else fit_shared(self, X, y, groups, cluster)

    def _ready(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Ready:
        self._check_arguments()
        chosen = self._loss()
        rows, values = checked_data(self, X, y, y_numeric=True)
        self._online = None
        persons = None if groups is None else codes_of(groups, len(rows))
        return Ready(rows, self._scaled(values), chosen, (self._clipped_target(),), None, persons, self._fitted)

    def fit_stream(self, stream: Stream, *, cluster: Cluster | None = None) -> Any:
        """Train on private rows that need not fit in memory; see ``PrivateLogisticRegression.fit_stream``."""
        with self._unchanged_if_refused():
            return self._fit_stream(stream) if cluster is None else fit_stream_shared(self, stream, cluster)

    def _stream_ready(self) -> ReadyStream:
        self._check_arguments()
        self._online = None
        return ReadyStream(lambda y: self._scaled(_finite_targets(y)), self._loss(), (self._clipped_target(),), self._fitted)

    @available_if(takes_batches)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, groups: None = None) -> Any:
        """Take in one more batch of private rows; see ``PrivateLogisticRegression.partial_fit``."""
        self._check_arguments()
        refuse_groups(groups)
        chosen = self._loss()
        first = getattr(self, "_online", None) is None
        with self._unchanged_if_refused():
            rows, values = checked_data(self, X, y, y_numeric=True, reset=first)
            return self._fitted(self._fit_batch(rows, self._scaled(values), chosen, (self._clipped_target(),)))

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._range()

    def _loss(self) -> ChosenLoss:
        return loss_named("linear", self.loss)

    def _units(self) -> tuple[float, float]:
        """Centre and half width of the targets that are scaled to [-1, 1]."""
        low, high = self._range()
        centre = low / 2 + high / 2 if self.fit_intercept else 0.0
        return centre, max(high - centre, centre - low)

    def _scaled(self, values: NDArray[Any]) -> NDArray[np.float64]:
        centre, scale = self._units()
        return (np.clip(values.astype(np.float64), *self._range()) - centre) / scale

    def _clipped_target(self) -> Assumption:
        low, high = self._range()
        return Target(low=low, high=high).enforced()

    def _fitted(self, weights: Weights) -> Any:
        (coefficients, intercept), (centre, scale) = weights, self._units()
        self.coef_ = coefficients * scale
        self.intercept_ = float(intercept) * scale + centre
        self._bind(self.coef_, self.intercept_)
        return self

    def _credits(self, rows: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
        """One less the squared error in units of the range."""
        (low, high), (centre, scale) = self._range(), self._units()
        predicted = np.clip(self._scores_by_row(self._bounded(rows)), low, high)
        return 1 - ((predicted - (target * scale + centre)) / (high - low)) ** 2

    def _scores_by_row(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Predictions for what is released of private rows."""
        return scores_by_row(rows, self.coef_[None])[:, 0] + self.intercept_

    def _range(self) -> tuple[float, float]:
        """The declared range of the target."""
        try:
            low, high = self.target_range  # type: ignore[misc]
        except (TypeError, ValueError):
            wanted = "a pair (low, high), known without looking at the targets"
            raise InputError(f"target_range is {self.target_range!r}: declare {wanted}.") from None
        low = real("target_range[0]", low, low=-np.inf)
        return low, real("target_range[1]", high, low=low)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predictions for rows: ``X @ coef_ + intercept_``, after long rows are scaled down as in ``fit``.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n,)
            Predictions, in units of the target; they may lie outside ``target_range``.
        """
        return self._checked(X) @ self.coef_ + self.intercept_

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The coefficient of determination R^2, which is a statistic of these rows: they should be public.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        y : array of shape (n,)
            Target of each row.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        """
        found = self.predict(X)
        weights = None if sample_weight is None else checked_weights(sample_weight, len(found))
        return float(r2_score(checked_target(y, len(found)), found, sample_weight=weights))


def _finite_targets(y: ArrayLike) -> NDArray[np.float64]:
    values = numbers(y, "targets")
    if bad := count_not_finite(values):
        raise InputError(f"{bad} targets of a block are not finite numbers: clean them first. Nothing was released.")
    return values
