"""What the private linear estimators share: rows of bounded norm, the plan, the run, the certificate."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from dplateau.account import account
from dplateau.algorithms import plan_noisy_sgd
from dplateau.data import clip_rows
from dplateau.estimators.checks import checked_rows
from dplateau.losses import GeneralisedLinearLoss
from dplateau.report import make_certificate
from dplateau.spec import Assumption, InputError, PrivacyWarning
from dplateau.spec.schedule import real
from dplateau.training import SecureGenerator, progress_bar

ROWS: Final = ("clip", "unit")
SOLVERS: Final = ("auto", "noisy-sgd")


class PrivateLinearModel(BaseEstimator):
    """Base of the estimators: the arguments they share, and what happens between checked data and fitted weights."""

    def __init__(
        self,
        epsilon: float,
        delta: float | None,
        feature_norm: float,
        rows: str,
        fit_intercept: bool,
        adjacency: str,
        solver: str,
        steps: int,
        l2: float,
        dtype: str,
        insecure_seed: int | None,
        verbose: bool,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_norm = feature_norm
        self.rows = rows
        self.fit_intercept = fit_intercept
        self.adjacency = adjacency
        self.solver = solver
        self.steps = steps
        self.l2 = l2
        self.dtype = dtype
        self.insecure_seed = insecure_seed
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.insecure_seed is None
        return tags

    def _check_arguments(self) -> None:
        """Raise ``InputError`` on arguments that nothing later would check in time."""
        real("feature_norm", self.feature_norm)
        real("l2", self.l2, inclusive=True)
        for name, allowed in (("rows", ROWS), ("solver", SOLVERS)):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}: expected one of {', '.join(allowed)}.")

    def _bounded(self, X: NDArray[Any]) -> NDArray[Any]:
        """The rows as the model sees them, in fitting and in prediction: no longer than ``feature_norm``."""
        if self.rows == "unit":
            largest = np.abs(X).max(axis=1, keepdims=True)
            X = np.divide(X, largest, out=np.zeros_like(X), where=largest > 0)  # so that squares neither overflow nor vanish
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            X = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0) * X.dtype.type(self.feature_norm)
        return clip_rows(X, self.feature_norm)

    def _constant(self) -> float:
        """Value of the constant feature that carries the intercept: a quarter of the norm of a row.

        That is enough to learn it in hundreds of steps, and lengthens rows, and with them the noise, by 3 % only.
        """
        return 0.25 * float(self.feature_norm) if self.fit_intercept else 0.0

    def _fit_weights(
        self,
        X: NDArray[Any],
        target: NDArray[Any],
        loss: GeneralisedLinearLoss,
        *,
        residual_clip: float | None = None,
        assumptions: tuple[Assumption, ...] = (),
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train, set the attributes that all estimators have, and return coefficients (d,) or (d, K) and intercepts () or (K,)."""
        n, constant = len(X), self._constant()
        delta = min(1e-5, 1 / (10 * n)) if self.delta is None else self.delta
        features = self._bounded(X)
        plan = plan_noisy_sgd(
            n,
            loss,
            epsilon=self.epsilon,
            delta=delta,
            feature_norm=float(np.hypot(self.feature_norm, constant)),
            adjacency=self.adjacency,
            steps=self.steps,
            residual_clip=residual_clip,
            l2=[self.l2] * X.shape[1] + [0.0] * bool(constant),  # an intercept is not to be shrunk
        )
        if constant:
            features = np.column_stack([features, np.full(n, constant, dtype=features.dtype)])
        with progress_bar() if self.verbose else nullcontext() as progress:
            result = plan.fit(
                features,
                target,
                generator=SecureGenerator(insecure_seed=self.insecure_seed),
                dtype=self.dtype,
                progress=progress,
            )
        verb = "scaled" if self.rows == "unit" else "clipped"
        bounded = Assumption("rows", f"every row was {verb} to norm {self.feature_norm:g}, a public number", "enforced")
        result = replace(result, assumptions=(*result.assumptions, bounded, *assumptions))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # The plan was calibrated for the same delta, and has warned of it.
            self.certificate_ = make_certificate(account(result.run, delta), result)
        self.run_ = result.run
        self.epsilon_ = self.certificate_.epsilon
        self.n_iter_ = result.run.steps
        weights = result.weights.astype(np.float64)
        return (weights[:-1], weights[-1] * constant) if constant else (weights, np.zeros(weights.shape[1:]))

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        """Rows to predict, as the model sees them."""
        return self._bounded(checked_rows(self, X))
