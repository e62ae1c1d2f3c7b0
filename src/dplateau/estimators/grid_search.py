"""``PrivateGridSearch``: several settings are tried on private rows, and only the best model is told."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if

from dplateau._account import Report, account
from dplateau.accounting import gdp_mu
from dplateau.algorithms import Algorithm
from dplateau.certificate import Certificate, make_certificate
from dplateau.estimators.base import PrivateLinearModel, Ready
from dplateau.estimators.shared import agree_on_arguments, of_all_processes
from dplateau.spec import Assumption, InputError, Run, Selection
from dplateau.spec.arguments import real
from dplateau.spec.promise import usual_delta, warn_if_weak
from dplateau.spec.schedule import constant
from dplateau.training import Cluster, SecureGenerator, TrainResult, scored, select
from dplateau.training.charged import Budgeted, check_account
from dplateau.training.result import assumptions_of, trusted
from dplateau.training.shared import check_ledger

SHARED: Final = ("epsilon", "delta", "adjacency", "classes", "target_range", "insecure_seed", "ledger", "verbose")
"""What all candidates have in common."""
_CLOSE: Final = 0.99
"""How much of epsilon is to be used."""
_ROUNDS: Final = 12
_SCORE: Final = 0.3
"""The mu of a score, as a share of its candidate's: together they cost 4 % more than the candidate."""
_ENOUGH: Final = 1e-3
"""Noise on a score that is worth no more privacy."""
T = TypeVar("T")
_VALIDATION: Final = "the validation rows that were given"


class _Setting(NamedTuple):
    """One setting, its model, the data, and those that it is scored on."""

    settings: dict[str, Any]
    model: PrivateLinearModel
    ready: Ready
    shown: Ready

    def planned(self, epsilon: float, delta: float) -> _Candidate:
        """The candidate that costs so much."""
        model: Any = self.model
        return _Candidate(*self, *model.set_params(epsilon=epsilon, delta=delta)._planned(self.ready))


class _Candidate(NamedTuple):
    """One setting, planned."""

    settings: dict[str, Any]
    model: PrivateLinearModel
    ready: Ready
    shown: Ready
    plan: Algorithm
    fit: Callable[..., TrainResult]

    def train(self, run: Run, **more: Any) -> TrainResult:
        """Carry it out."""
        return self.fit(**more)

    def credits(self, result: Any) -> NDArray[Any]:
        """What each record adds to the score, from 0 to 1: of a person the mean. The model is then as it was."""
        before = dict(vars(self.model))
        try:
            self.finish(result, "this is a candidate of a search: its certificate is that of the search.")
            found, persons = self.model._credits(self.shown.rows, self.shown.target), self.shown.persons
            return found if persons is None else np.bincount(persons, found) / np.bincount(persons)
        finally:
            vars(self.model).clear()
            vars(self.model).update(before)

    def mean_credit(self, result: Any) -> float:
        """The score on public rows."""
        return float(self.credits(result).mean())

    def assumptions(self, generator: SecureGenerator, processes: int) -> tuple[Assumption, ...]:
        """What its guarantee rests on."""
        found = assumptions_of(self.plan.run, self.plan.loss, generator)
        return (*found, *trusted(processes), self.model._bounds(), *self.ready.assumptions)

    def finish(self, result: Any, certificate: Certificate | str) -> None:
        """Set the fitted attributes."""
        self.model._certificate = certificate
        self.model.run_, self.model.n_iter_ = result.run, result.run.steps
        self.ready.finished(self.model._parted(result.weights))


def _alone(work: Callable[[], T]) -> T:
    return work()


def _has(method: str) -> Callable[[Any], bool]:
    return lambda search: hasattr(search.estimator, method)


class PrivateGridSearch(MetaEstimatorMixin, BaseEstimator):
    """Try several settings of an estimator on private rows, and release the best model only, within one epsilon.

    ``GridSearchCV`` releases every fit and every score. Here coins decide which settings are trained, each model gets a noisy
    score, and nothing is told but the model with the best score: that costs far less than all of them
    (``docs/proofs/private-selection.md``), and more than one. Ten settings, each tried with probability 0.5, cost about as much as
    three releases.

    Parameters
    ----------
    estimator : PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression
        With what all candidates share. Its own epsilon, delta and ledger are not used.
    param_grid : dict or list of dict
        Settings that are tried, as in scikit-learn's ``ParameterGrid``; public, as their order is: of equal scores the first
        counts.
    epsilon : float, default 1.0
        What the model may cost, with the search for it, at ``delta``. Every candidate is trained for less.
    delta : float, optional
        By default ``min(1e-5, 1 / (10 n))``, with n the number of rows.
    probability : float, default 0.5
        With which each setting is tried. More of them cost more.
    validation : (array of shape (m, d), array of shape (m,)), optional
        Public rows and targets to score models on. By default the score is on the private rows, with noise.
    ledger : Account, optional
        The account of the data set, see ``dplateau.Ledger``: the whole search is taken out of its budget once.

    Attributes
    ----------
    best_estimator_ : estimator
        The model, with the certificate of the search.
    best_params_ : dict
        Its settings.
    best_index_ : int
        Their place in the grid.
    best_score_ : float
        The share of rows that it predicts right; for numbers 1 less the mean squared error in units of ``target_range``. Noisy, and
        best of several: it flatters the model.
    score_noise_ : float
        Standard deviation of the noise in it; 0 on public rows.
    run_ : Selection
        What was computed and released.
    certificate_ : Certificate
        What the model cost, and under which assumptions.
    epsilon_ : float
        The certified epsilon, at most ``epsilon``.

    Notes
    -----
    How long a search takes tells how many settings were tried. That is not in ``certificate_``: keep it to yourself.

    Examples
    --------
    >>> import numpy as np
    >>> from dplateau.estimators import PrivateGridSearch, PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 3)) / 4
    >>> y = X[:, 0] > 0
    >>> model = PrivateLogisticRegression(classes=[False, True])
    >>> search = PrivateGridSearch(model, {"l2": [0.0, 0.01, 1.0], "max_iter": [50]}, epsilon=1.0, delta=1e-6).fit(X, y)
    >>> search.best_params_ in [{"l2": l2, "max_iter": 50} for l2 in (0.0, 0.01, 1.0)], search.epsilon_ <= 1.0
    (True, True)
    """

    def __init__(
        self,
        estimator: PrivateLinearModel,
        param_grid: dict[str, list[Any]] | list[dict[str, list[Any]]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        probability: float = 0.5,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        ledger: Budgeted | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.probability = probability
        self.validation = validation
        self.ledger = ledger

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, cluster: Cluster | None = None) -> Any:
        """Search on private rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        y : array of shape (n,)
            Class or target of each row. Classes must be declared in ``estimator``.
        groups : array of shape (n,), optional
            Whose each row is, as in the estimator's ``fit``. A person's score is the mean of those of the rows.
        cluster : Cluster, optional
            Several processes to search on, as in the estimator's ``fit``: each calls ``fit`` with rows of its own, and all get the
            same model. Process 0 tosses the coins, draws the noise of scores, has the ledger, and its ``validation`` rows count.

        Returns
        -------
        self

        Raises
        ------
        InputError
            An argument is out of range, a setting cannot be searched, or the data are not as the estimator wants them. Nothing is
            spent.
        BudgetError
            The ledger's budget does not cover the search. Nothing is drawn.
        TrainingInterrupted
            By the keyboard; nothing is released.
        TrainingDiverged
            Every training did. Nothing is released.
        """
        together = _alone if cluster is None else cluster.together
        together(self._check)
        if cluster is not None:
            agree_on_arguments(self.estimator, cluster)
            check_ledger(cluster, self.ledger)
            settings = self.param_grid, self.epsilon, self.delta, self.probability, self.validation is None
            cluster.agree({"argument": repr(settings)})
        given = together(lambda: self._given(X, y, groups))
        if cluster is not None:
            given = [one._replace(ready=of_all_processes(one.ready, groups, cluster)) for one in given]
        delta = usual_delta(given[0].ready.n) if self.delta is None else self.delta
        candidates, selection, report = together(lambda: self._planned(given, real("epsilon", self.epsilon), delta))
        public, generator = self.validation is not None, self.estimator._generator()
        ledger = self.ledger if cluster is None or cluster.first else None
        reserved = together(lambda: None if ledger is None else ledger.reserve(selection))
        more: dict[str, Any] = {} if cluster is None else {"cluster": cluster}
        result = select(
            selection,
            [partial(one.train, generator=one.model._generator(k), **more) for k, one in enumerate(candidates, start=1)],
            [one.mean_credit if public else one.credits for one in candidates],
            public=_VALIDATION if public else None,
            assumptions=[one.assumptions(generator, 1 if cluster is None else cluster.processes) for one in candidates],
            generator=generator,
            cluster=cluster,
        )
        best = candidates[result.index]
        best.finish(result.best, make_certificate(report, result, estimator=best.model._kind()))
        if reserved is not None:
            reserved.commit(best.model.certificate_)
        self.best_estimator_, self.best_params_, self.best_index_ = best.model, best.settings, result.index
        self.best_score_ = result.score
        self.score_noise_ = 0.0 if public else constant(selection.runs[-1].noise_multiplier) / selection.n
        self.run_ = selection
        return self

    def _check(self) -> None:
        """Raise ``InputError`` on arguments that must be right before others are looked at."""
        check_account(self.ledger)
        if not isinstance(self.estimator, PrivateLinearModel):
            raise InputError(f"estimator is {type(self.estimator).__name__}: expected one of dplateau's own.")
        if self.validation is not None and (not isinstance(self.validation, tuple | list) or len(self.validation) != 2):
            raise InputError("validation is no pair: expected (X, y), public rows and their targets.")
        warn_if_weak(real("epsilon", self.epsilon))

    def _given(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> list[_Setting]:
        """All settings, and the data as their models see them, checked."""
        try:
            grid = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as error:
            raise InputError(f"param_grid is none: {error}") from None
        if not grid:
            raise InputError("param_grid has no settings: expected one at least.")
        found: list[_Setting] = []
        for settings in grid:
            if shared := [name for name in settings if name in SHARED]:
                raise InputError(f"param_grid has {shared[0]}, which all candidates share: set it in the estimator or the search.")
            model: Any = clone(self.estimator)
            try:
                model.set_params(**settings, ledger=None, verbose=False)
            except ValueError as error:
                raise InputError(f"param_grid: {error}") from None
            ready = model._ready(X, y, groups)
            if ready.uncertified is not None:
                raise InputError("the classes were not declared: declare them in the estimator, classes=[...].")
            again: Any = clone(model)
            shown: Ready = ready if self.validation is None else again._ready(*self.validation, None)
            if shown.rows.shape[1] != ready.rows.shape[1]:
                raise InputError(f"validation has {shown.rows.shape[1]} features, and X {ready.rows.shape[1]}: they must agree.")
            found.append(_Setting(settings, model, ready, shown))
        return found

    def _planned(self, given: list[_Setting], epsilon: float, delta: float) -> tuple[list[_Candidate], Selection, Report]:
        """Candidates that cost the same, each on its own, and together as much of epsilon as they can."""
        share, best = epsilon / 2, None
        for _ in range(_ROUNDS):
            candidates = [one.planned(share, delta) for one in given]
            selection = self._selection([one.plan.run for one in candidates], share, delta)
            report = account(selection, delta)
            if report.epsilon <= epsilon and (best is None or report.epsilon > best[2].epsilon):
                best = candidates, selection, report
                if report.epsilon >= _CLOSE * epsilon:
                    break
            share *= (1 + _CLOSE) / 2 * epsilon / report.epsilon
        if best is None:
            raise InputError(f"no search of {len(given)} settings stays within epsilon {epsilon:g}: raise it, or try fewer.")
        return best

    def _selection(self, runs: list[Run], share: float, delta: float) -> Selection:
        if any(run.is_phased for run in runs):
            raise InputError("a search is among solvers that take noisy gradient steps: leave out phased-sgd and phased-erm.")
        if self.validation is not None:
            return Selection(runs, self.probability)
        moved = 2.0 if runs[0].adjacency == "replace" else 1.0
        noise = max(moved / (_SCORE * gdp_mu(share, delta)), _ENOUGH * runs[0].n)
        return Selection((scored(run, noise) for run in runs), self.probability)

    @property
    def certificate_(self) -> Certificate:
        """What the model cost, with the search for it."""
        return self._fitted().certificate_

    @property
    def epsilon_(self) -> float:
        """The certified epsilon."""
        return self.certificate_.epsilon

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        return self._fitted().classes_

    def _fitted(self) -> Any:
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("PrivateGridSearch is not fitted yet: call fit first.")
        return self.best_estimator_

    @available_if(_has("predict"))
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """What the best model predicts."""
        return self._fitted().predict(X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The best model's probabilities."""
        return self._fitted().predict_proba(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The best model's scores."""
        return self._fitted().decision_function(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The best model's score, which is a statistic of these rows: they should be public."""
        return self._fitted().score(X, y)
