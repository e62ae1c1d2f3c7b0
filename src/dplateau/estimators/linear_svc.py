"""``PrivateLinearSVC``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dplateau.estimators.classifier import PrivateLinearClassifier
from dplateau.losses.named import ChosenLoss, loss_named
from dplateau.training.charged import Budgeted


class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector classification with differential privacy, by the smoothed hinge loss.

    With more than two classes it is one against the rest: the K scores are trained together as one vector-valued mechanism, whose
    gradient of a record, over all classes, is clipped to one norm. So the budget is not split among classes.

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
    loss : {"smoothed-hinge", "hinge"}, optional
        By default the smoothed hinge, and with solver "phased-erm" and two classes the hinge itself. The hinge has a corner: it is
        for two classes and goes with Phased-ERM only.
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
    run_, certificate_, epsilon_, n_iter_, n_features_in_, feature_names_in_
        See ``PrivateLogisticRegression``.

    Notes
    -----
    A fit is one release; what ``PrivateLogisticRegression`` says of searches, sparse rows and sample weights holds here too.

    The corner of the hinge is rounded over a margin of 1. Gradients are clipped at residual norm 1/2, where noise is large by
    Noisy-SGD down to 1/4, or at 1 with several classes; for one score this is again a smoothed hinge, of less width and height.
    Phased-ERM clips nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from dplateau.estimators import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 3)) / 4
    >>> y = X[:, 0] > 0
    >>> model = PrivateLinearSVC(epsilon=1.0, delta=1e-5, classes=[False, True]).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.epsilon_ <= 1.0
    (True, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        feature_norm: float = 1.0,
        rows: str = "clip",
        classes: Iterable[Any] | None = None,
        class_weight: Mapping[Any, float] | None = None,
        loss: str | None = None,
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
            epsilon,
            delta=delta,
            feature_norm=feature_norm,
            rows=rows,
            classes=classes,
            class_weight=class_weight,
            fit_intercept=fit_intercept,
            adjacency=adjacency,
            solver=solver,
            max_iter=max_iter,
            l2=l2,
            dtype=dtype,
            insecure_seed=insecure_seed,
            verbose=verbose,
            steps=steps,
            ledger=ledger,
        )
        self.loss = loss

    def _loss(self, classes: int) -> ChosenLoss:
        return loss_named("svc", self.loss, classes, solver=self.solver)
