"""What the private linear estimators share: rows of bounded norm, the plan, the run, the certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier

from dplateau._account import account
from dplateau.algorithms import SOLVERS, Algorithm, Budget, Problem, Solver, solver_named
from dplateau.algorithms.online_sgd import OnlineSGD, start_online_sgd
from dplateau.certificate import Certificate, bound_to, make_certificate
from dplateau.data.rows import LARGEST, SMALLEST, bounded_rows
from dplateau.estimators.checks import checked_rows
from dplateau.estimators.ready import Ready as Ready
from dplateau.estimators.ready import ReadyStream as ReadyStream
from dplateau.estimators.ready import Stream as Stream
from dplateau.estimators.ready import Weights as Weights
from dplateau.estimators.saving import save_estimator
from dplateau.estimators.streamed import blocks_of, check_stream
from dplateau.losses import GeneralisedLinearLoss
from dplateau.losses.named import ChosenLoss
from dplateau.planning import choose, clipped, passes_once
from dplateau.spec import Assumption, Estimator, InputError, PrivacyWarning, Run
from dplateau.spec.arguments import integer, one_of, real
from dplateau.spec.assumption import Order, Rows
from dplateau.spec.errors import NoCertificateError
from dplateau.spec.floating import usual_errors
from dplateau.spec.promise import usual_delta, warn_if_weak
from dplateau.training import SecureGenerator, TrainResult, progress_bar
from dplateau.training.charged import Budgeted, check_account
from dplateau.training.errors import TooCoarse
from dplateau.training.persons import check_followed, codes_of
from dplateau.training.settings import check_machine

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ROWS: Final = ("clip", "unit")
ONLINE: Final = ("auto", "pnsgd")
"""Solvers that ``partial_fit`` goes with."""
SHARING: Final = tuple(name for name, solver in SOLVERS.items() if solver.shares)
SHARED: Final = "noisy-sgd"
"""What several processes train with, unless told otherwise."""


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
        max_iter: int,
        l2: float,
        dtype: str,
        insecure_seed: int | None,
        verbose: bool,
        steps: int | str,
        ledger: Budgeted | None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_norm = feature_norm
        self.rows = rows
        self.fit_intercept = fit_intercept
        self.adjacency = adjacency
        self.solver = solver
        self.max_iter = max_iter
        self.l2 = l2
        self.dtype = dtype
        self.insecure_seed = insecure_seed
        self.verbose = verbose
        self.steps = steps
        self.ledger = ledger

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.insecure_seed is None
        return tags

    def _check_arguments(self) -> None:
        """Raise ``InputError`` on arguments that nothing later would check in time."""
        real("feature_norm", self.feature_norm, low=SMALLEST, inclusive=True, high=LARGEST)
        real("l2", self.l2, inclusive=True)
        if self.insecure_seed is not None:
            integer("insecure_seed", self.insecure_seed, low=0)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept is {self.fit_intercept!r}: expected True or False.")
        for name, allowed in (("rows", ROWS), ("solver", ("auto", *SOLVERS))):
            one_of(name, getattr(self, name), allowed)

    def _constant(self) -> float:
        """Value of the constant feature that carries the intercept: a quarter of the norm of a row.

        That is enough to learn it in hundreds of steps, and lengthens rows, and with them the noise, by 3 % only.
        """
        return 0.25 * float(self.feature_norm) if self.fit_intercept else 0.0

    def _bounded(self, X: NDArray[Any], constant: float | None = None) -> NDArray[Any]:
        """The rows as the model sees them, in fitting and in prediction: no longer than ``feature_norm``."""
        return bounded_rows(X, self.feature_norm, unit=self.rows == "unit", constant=constant)

    def _features(self, X: NDArray[Any]) -> NDArray[Any]:
        """The bounded rows, with the constant feature of the intercept."""
        return self._bounded(X, self._constant() or None)

    def _solver(
        self, n: int, unit: str, d: int, chosen: ChosenLoss, stream: bool, shared: bool = False
    ) -> tuple[Solver, Problem, dict[str, Any]]:
        """The solver, what it is to plan for n records with d features, the intercept's not counted, and what its fit is told."""
        problem, name = self._problem(n, d, chosen.loss, unit), self.solver
        if name == "auto" and shared and not stream:
            name = SHARED
        elif name == "auto":
            budget = self._budget(self._delta(n))
            given = clipped(problem, "pnsgd", chosen.residual_clip)
            name = choose(given, budget, one_pass=stream and passes_once(given, budget))[0]
        problem, solver = clipped(problem, name, chosen.residual_clip), solver_named(name)
        if shared and not solver.shares:
            raise InputError(f"solver {name!r} trains on one process: on several use {', '.join(SHARING)}.")
        return solver, problem, {"dtype": self.dtype} if solver.takes_dtype else {}

    def _iterations(self) -> int:
        if self.steps != "deprecated":
            warnings.warn(f"{type(self).__name__}: steps is max_iter now.", DeprecationWarning, stacklevel=2)
        return integer("max_iter", self.max_iter if self.steps == "deprecated" else self.steps)

    def _problem(self, n: int, d: int, loss: GeneralisedLinearLoss, unit: str = "row") -> Problem:
        constant = bool(self._constant())
        l2 = (self.l2,) * d + (0.0,) * constant  # Noisy-SGD does not shrink an intercept
        return Problem(n, d + constant, loss, float(np.hypot(float(self.feature_norm), self._constant())), l2, unit=unit)

    def _budget(self, delta: float) -> Budget:
        return Budget(self.epsilon, delta, self.adjacency)

    def _delta(self, n: int) -> float:
        return usual_delta(n) if self.delta is None else self.delta

    def _generator(self, number: int = 0) -> SecureGenerator:
        return SecureGenerator(insecure_seed=None if self.insecure_seed is None else self.insecure_seed + number)

    def _bar(self, unit: str) -> AbstractContextManager[Any]:
        return progress_bar(unit=unit) if self.verbose else nullcontext()

    def _ready(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Ready:
        """Check the arguments and the data, and take nothing out of any budget."""
        raise NotImplementedError

    def _stream_ready(self) -> ReadyStream:
        """Check the arguments, and say how the targets of a stream are read."""
        raise NotImplementedError

    def _credits(self, rows: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
        """How right the predictions for checked rows are, each from 0 to 1."""
        raise NotImplementedError

    def _planned(self, ready: Ready) -> tuple[Algorithm, Callable[..., TrainResult]]:
        """The plan for checked data, or for those of several processes, and what carries it out."""
        rows, delta, shared = ready.rows, self._delta(ready.n), ready.total is not None
        solver, problem, options = self._solver(ready.n, ready.unit, rows.shape[1], ready.chosen, False, shared)
        made = solver.plan(problem, self._budget(delta), steps=self._iterations())
        self._check_arithmetic(made, problem.d)
        if ready.persons is not None and made.run.sampling.ordered:
            check_followed(made.run, codes_of(ready.persons, len(rows)))

        def fit(**more: Any) -> TrainResult:
            return made.fit(self._features(rows), ready.target, groups=ready.persons, **more, **options)

        return made, fit

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Any:
        """Train, and set the attributes that all estimators have."""
        ready = self._ready(X, y, groups)
        warn_if_weak(real("epsilon", self.epsilon))
        made, fit = self._planned(ready)
        self._reserve(made.run)
        unit = f"{ready.unit}s" if made.progress_unit == "rows" else made.progress_unit
        with self._fine_enough(made.run), self._bar(unit) as progress:
            result = fit(generator=self._generator(), progress=progress)
        return ready.finished(self._certified(result, self._delta(ready.n), ready.assumptions, ready.uncertified))

    def _planned_stream(
        self, ready: ReadyStream, stream: Stream, n: int, shared: bool = False
    ) -> tuple[Any, Callable[..., TrainResult]]:
        """The plan for n records, those of a stream or of the streams of several processes, and what carries it out."""
        unit = getattr(stream, "unit", "row")
        warn_if_weak(real("epsilon", self.epsilon))
        solver, problem, options = self._solver(n, unit, stream.d, ready.chosen, True, shared)
        made = solver.plan_stream(problem, self._budget(self._delta(n)), steps=self._iterations())
        self._check_arithmetic(made, problem.d)
        norm = self.feature_norm if self.rows == "clip" and not self._constant() else 0.0
        bounded, blocks = blocks_of(stream, norm, once=made.run.sampling.once and unit == "row")

        def read() -> Iterator[tuple[Any, ...]]:
            return ((X if bounded else self._features(X), ready.prepared(y), *groups) for X, y, *groups in blocks())

        def fit(**more: Any) -> TrainResult:
            with self._fine_enough(made.run), self._bar(f"{unit}s") as progress:
                result = made.fit_stream(read, generator=self._generator(), progress=progress, **options, **more)
            order = Order(detail=stream.order)
            return replace(result, assumptions=tuple(order if isinstance(one, Order) else one for one in result.assumptions))

        return made, fit

    def _fit_stream(self, stream: Stream) -> Any:
        """As ``_fit``, on the blocks of a stream."""
        ready = self._opened(stream)
        made, fit = self._planned_stream(ready, stream, stream.n)
        self._reserve(made.run)
        return self._finished_stream(ready, stream, fit())

    def _opened(self, stream: Stream) -> ReadyStream:
        check_stream(stream)
        return self._stream_ready()

    def _finished_stream(self, ready: ReadyStream, stream: Stream, result: TrainResult) -> Any:
        """Set the attributes that all estimators have."""
        self.n_features_in_ = stream.d
        vars(self).pop("feature_names_in_", None)  # those of an earlier fit
        return ready.finished(self._certified(result, self._delta(result.run.n), ready.assumptions))

    def _fit_batch(
        self,
        X: NDArray[Any],
        target: NDArray[Any],
        chosen: ChosenLoss,
        assumptions: tuple[Assumption, ...],
        uncertified: str | None = None,
    ) -> Weights:
        """Take in one batch of a stream of unknown length: one noisy step, at the price of one for all batches."""
        vars(self).pop("_reserved", None)  # that of a fit that was interrupted
        delta = float(self.delta or 0.0)
        names = ("epsilon", "delta", "feature_norm", "rows", "fit_intercept", "adjacency", "insecure_seed")
        settings = (*(getattr(self, name) for name in names), chosen.loss, assumptions)
        state: OnlineSGD | None = None
        if getattr(self, "_online", None) is not None:
            state, begun = self._online
            # Else the certificate would tell of the last batch what does not hold for those before it.
            if begun != settings:
                raise InputError("arguments were changed since the first batch: set them back, or call fit to start anew.")
        if state is None:
            problem = self._problem(len(X), X.shape[1], chosen.loss)
            if chosen.loss.convex_after_clipping:
                problem = replace(problem, residual_clip=chosen.residual_clip)
            warn_if_weak(real("epsilon", self.epsilon))
            state = start_online_sgd(problem, self._budget(delta))
        generator = self._generator(len(state.sizes))
        state, result = state.step(self._features(X), target, generator=generator, ledger=self.ledger)
        self._online = (state, settings)
        return self._certified(result, delta, assumptions, uncertified)

    def _check_arithmetic(self, made: Algorithm, d: int) -> None:
        """Before a ledger is charged: what public numbers refuse must cost nothing."""
        check_machine()
        with self._fine_enough(made.run):
            made.check_arithmetic(d)

    @contextmanager
    def _fine_enough(self, run: Run) -> Iterator[None]:
        """Say what can be done, in the estimator's words, where whole numbers do not suffice for a run."""
        try:
            yield
        except TooCoarse as error:
            other = "raise epsilon, or use fewer features"
            if run.released == "last" and run.update != "post-processed":
                other = "choose solver noisy-sgd" + (f", or an l2 below {self.l2:g}" if self.l2 else "")
            why = str(error).rpartition(": ")[0]
            raise InputError(f"{why}. The solver cannot train this: {other}. Nothing was released.") from None

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """On an error, leave the model as it was."""
        before = dict(vars(self))
        try:
            with usual_errors():
                yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def save(self, folder: str | Path, *, sign: Ed25519PrivateKey | None = None) -> None:
        """Write a new folder, whole or not at all: ``model.json``, ``weights.npz`` and ``certificate.json``.

        ``dplateau.load_estimator`` reads it without unpickling anything. It holds no seed. The certificate is bound to the weights;
        names of classes and features are in ``model.json``, which it says nothing about.

        Parameters
        ----------
        folder : str or Path
            The new folder.
        sign : Ed25519PrivateKey, optional
            What ``dplateau.certificate.signing_key`` returns: the certificate is signed with it, in ``certificate.sig.json``.

        Raises
        ------
        UncertifiedError
            There is no certificate: the classes were not declared.
        InputError
            The folder exists already or cannot be written, or classes are neither texts, nor numbers, nor truth values.
        """
        save_estimator(self, folder, sign)

    @property
    def certificate_(self) -> Certificate:
        """What the fit cost, and under which assumptions; raises ``UncertifiedError`` where something unaccounted was used."""
        if "_certificate" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no certificate_ yet: call fit first.")
        if isinstance(self._certificate, str):
            raise NoCertificateError(self._certificate)
        return self._certificate

    @certificate_.setter
    def certificate_(self, certificate: Certificate) -> None:
        self._certificate: Certificate | str = certificate

    @property
    def epsilon_(self) -> float:
        """The certified epsilon, as ``certificate_`` has it."""
        return self.certificate_.epsilon

    def _certified(
        self, result: TrainResult, delta: float, assumptions: tuple[Assumption, ...], uncertified: str | None = None
    ) -> Weights:
        """The weights, after making the certificate, or noting why there is none."""
        result = replace(result, assumptions=(*result.assumptions, self._bounds(), *assumptions))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # The plan was calibrated for the same delta, and has warned of it.
            self._certificate = uncertified or make_certificate(account(result.run, delta), result, estimator=self._kind())
        self.run_ = result.run
        self.n_iter_ = result.run.steps
        return self._parted(result.weights)

    def _parted(self, weights: NDArray[Any]) -> Weights:
        """Coefficients (d,) or (d, K), and intercepts () or (K,)."""
        weights, constant = weights.astype(np.float64), self._constant()
        return (weights[:-1], weights[-1] * constant) if constant else (weights, np.zeros(weights.shape[1:]))

    def _bounds(self) -> Assumption:
        """What was done to rows, for the certificate."""
        return Rows(norm=self.feature_norm, scaled=self.rows == "unit").enforced()

    def _kind(self) -> Estimator:
        return Estimator.CLASSIFIER if is_classifier(self) else Estimator.REGRESSOR

    def _bind(self, coefficients: NDArray[Any], intercept: Any) -> None:
        """Bind the certificate, if there is one, to the fitted weights, and tell the ledger."""
        if not isinstance(self._certificate, str):
            self._certificate = bound_to(self._certificate, {"coefficients": coefficients, "intercept": intercept})
        if reserved := vars(self).pop("_reserved", None):
            reserved.commit(None if isinstance(self._certificate, str) else self._certificate)

    def _reserve(self, run: Run) -> None:
        """Take what a fit costs out of the budget, if there is one."""
        vars(self).pop("_reserved", None)  # that of a fit that was interrupted
        check_account(self.ledger)
        if self.ledger is not None:
            self._reserved = self.ledger.reserve(run)

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        """Rows to predict, as the model sees them."""
        return self._bounded(checked_rows(self, X))


def takes_batches(model: PrivateLinearModel) -> bool:
    """Whether ``partial_fit`` is sound for a model; raises ``AttributeError`` with the reason where it is not."""
    if model.solver not in ONLINE or model.l2:
        raise AttributeError(
            f"partial_fit is one noisy step on each batch: it goes with solver auto or pnsgd and without l2, not with solver "
            f"{model.solver!r} and l2 {model.l2}. Other solvers must know all rows in advance: use fit."
        )
    if model.delta is None:
        raise AttributeError("partial_fit needs delta: the number of rows, which its default follows from, is not known yet.")
    return True


def refuse_groups(groups: object) -> None:
    """Raise ``InputError`` where batches are to be of persons."""
    if groups is not None:
        raise InputError(
            "partial_fit takes rows: a person whose rows came in two batches would be two records. Use fit, or fit_stream."
        )
