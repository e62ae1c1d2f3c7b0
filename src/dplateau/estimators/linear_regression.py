"""``PrivateLinearRegression``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from dplateau.estimators.base import PrivateLinearModel
from dplateau.estimators.checks import checked_data
from dplateau.losses import GeneralisedLinearLoss, Huber, Squared
from dplateau.spec import Assumption, InputError
from dplateau.spec.schedule import real

# The loss of targets scaled to [-1, 1], and the residual norm that gradients are clipped to.
LOSSES: Final[dict[str, tuple[GeneralisedLinearLoss, float]]] = {"squared": (Squared(), 0.5), "huber": (Huber(0.25), 0.25)}


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
    loss : {"squared", "huber"}, default "squared"
        "huber" is linear beyond an eighth of ``target_range``: less noise, and predictions nearer to conditional medians.
    fit_intercept : bool, default True
        Whether to learn an intercept (as the coefficient of one more, constant feature).
    adjacency : {"add-remove", "replace"}, default "add-remove"
        Neighbouring data sets differ by the presence, or by the value, of one row.
    solver : {"auto", "noisy-sgd"}, default "auto"
        Algorithm; "auto" is Noisy-SGD as ``dplateau.algorithms.plan_noisy_sgd`` plans it.
    steps : int, default 400
        Number of gradient steps. More cost time, not privacy.
    l2 : float, default 0.0
        Coefficient of ``|coef_|^2 / 2``, which is added to the mean loss (of targets scaled to [-1, 1]).
    dtype : {"float32", "float64"}, default "float32"
        Working precision.
    insecure_seed : int, optional
        Makes the noise reproducible and **voids the guarantee**; recorded in the certificate. For tests on public data.
    verbose : bool, default False
        Whether to show a progress bar (steps and time only).

    Attributes
    ----------
    coef_ : array of shape (d,)
        Coefficients, in units of the target.
    intercept_ : float
        Intercept; 0 without ``fit_intercept``.
    run_ : Run
        What was computed and released.
    certificate_ : Certificate
        What it cost, and what that rests on.
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

    Residuals of the squared loss are clipped at a quarter of the target's range (for rows of full length): errors beyond count as
    if they were that large, so the predictions are something between conditional means and medians. A wide ``target_range`` brings
    them nearer the means and adds noise in proportion.

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
        steps: int = 400,
        l2: float = 0.0,
        dtype: str = "float32",
        insecure_seed: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            epsilon, delta, feature_norm, rows, fit_intercept, adjacency, solver, steps, l2, dtype, insecure_seed, verbose
        )
        self.target_range = target_range
        self.loss = loss

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Train on private rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows; those longer than ``feature_norm`` are scaled down to it.
        y : array of shape (n,)
            Target of each row; clipped to ``target_range``.

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
        self._check_arguments()
        low, high = self._range()
        if self.loss not in LOSSES:
            raise InputError(f"loss is {self.loss!r}: expected one of {', '.join(LOSSES)}.")
        rows, values = checked_data(self, X, y, y_numeric=True)
        centre = (low + high) / 2 if self.fit_intercept else 0.0
        scale = max(high - centre, centre - low)
        loss, residual_clip = LOSSES[self.loss]
        clipped = Assumption("target", f"every target was clipped to [{low:g}, {high:g}], a public range", "enforced")
        target = (np.clip(values.astype(np.float64), low, high) - centre) / scale
        coefficients, intercept = self._fit_weights(rows, target, loss, residual_clip=residual_clip, assumptions=(clipped,))
        self.coef_ = coefficients * scale
        self.intercept_ = float(intercept) * scale + centre
        return self

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
