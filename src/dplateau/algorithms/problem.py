"""``Problem``, the public facts that every plan follows from, and ``Budget``, what the run may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import FullBatch, InputError, OnePass, Run, Schedule
from dplateau.spec.arguments import integer, is_sequence, one_of, real
from dplateau.spec.run import ADJACENCIES, UNITS

ROOM: Final = 1 + 1e-12
"""Room for the rounding of rows that were scaled to the public norm."""
_MOST_WEIGHTS: Final = 10**9
"""More are not planned: they take 8 GB, and several times that in training."""
DISTANCE: Final = 50.0
"""How far from zero the best weights of one score are taken to lie, in scores of a row of full norm."""


@dataclass(frozen=True)
class Problem:
    """What is public of the records, and what is minimised on them: all that a plan may know.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of features; an intercept is one of them.
    loss : GeneralisedLinearLoss
        Loss of one record.
    feature_norm : float, default 1.0
        R: public bound on the Euclidean norm of every row.
    l2 : float or tuple of float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss; one for all features or one each. Noisy-SGD and ADP-SGD
        take one each; the other algorithms take the largest for all.
    residual_clip : float, optional
        c: per-example gradients are clipped to ``c * feature_norm``. By default half of the largest norm of a residual, or 1/2
        where residuals have no bound. Last-iterate bounds need a convex loss: where clipping could spoil that, they clip nothing
        by default.
    unit : {"row", "person"}, default "row"
        What a record is; see ``Run``. Plans for persons are fitted with ``groups``.

    Raises
    ------
    InputError
        A value is out of range.

    Examples
    --------
    >>> from dplateau.losses import Softmax
    >>> problem = Problem(n=60_000, d=784, loss=Softmax(10))
    >>> problem.weights, round(problem.clip, 3), round(problem.smoothness, 3)
    (7840, 0.707, 0.5)
    """

    n: int
    d: int
    loss: GeneralisedLinearLoss
    feature_norm: float = 1.0
    l2: float | tuple[float, ...] = 0.0
    residual_clip: float | None = None
    unit: str = "row"

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("n", integer("n", self.n))
        put("d", integer("d", self.d))
        put("feature_norm", real("feature_norm", self.feature_norm, low=1e-150, inclusive=True, high=1e150))
        if is_sequence(self.l2):
            put("l2", tuple(real("l2", value, inclusive=True) for value in self.l2))
            if len(self.l2) != self.d:  # type: ignore[arg-type]
                raise InputError(f"l2 has {len(self.l2)} entries for {self.d} features: give one a feature, or one for all.")  # type: ignore[arg-type]
        else:
            put("l2", real("l2", self.l2, inclusive=True))
        if self.residual_clip is not None:
            put("residual_clip", real("residual_clip", self.residual_clip))
        one_of("unit", self.unit, UNITS)
        if not isinstance(self.loss, GeneralisedLinearLoss):
            raise InputError(f"loss is {type(self.loss).__name__}: expected one of dplateau.losses, such as Logistic().")
        integer("d times the number of scores", self.weights, high=_MOST_WEIGHTS)

    @property
    def weights(self) -> int:
        """The number of weights: one for every feature and score."""
        return self.d * self.loss.outputs

    @property
    def largest_l2(self) -> float:
        """The l2 coefficient of algorithms that shrink all features alike."""
        return max(self.l2) if isinstance(self.l2, tuple) else self.l2

    @property
    def clip(self) -> float:
        """c, the norm that residuals are clipped to."""
        if self.residual_clip is not None:
            return self.residual_clip
        largest = self.loss.lipschitz(1.0)
        return largest / 2 if math.isfinite(largest) else 0.5

    @property
    def smoothness(self) -> float:
        """M, with the l2 term; infinite where the loss is not smooth."""
        return self.loss.smoothness(self.feature_norm) * ROOM + self.largest_l2

    @property
    def distance(self) -> float:
        """A public guess of the norm of the best weights: each score has its own. No guarantee rests on it."""
        return DISTANCE * math.sqrt(self.loss.outputs) / self.feature_norm

    def contraction(self, room: float = 1 + 1e-3) -> tuple[float, float]:
        """The clip norm and the smoothness for last-iterate bounds; an error where the loss is not smooth.

        A loss that may not stay convex under clipping is clipped at ``room`` times its largest gradient: never. The room is for
        the rounding margin, which grows with the noise.
        """
        smoothness = self.smooth("gradient steps are not contractions")
        free = self.residual_clip is None and not self.loss.convex_after_clipping
        clip = real("residual_clip", room * self.loss.lipschitz(1.0)) if free else self.clip
        return clip * self.feature_norm, smoothness

    def smooth(self, otherwise: str) -> float:
        """M where the loss is smooth; an error that says what is so otherwise."""
        if not math.isfinite(self.smoothness):
            name = type(self.loss).__name__
            raise InputError(f"{name} is not smooth, so {otherwise}: choose solver phased-erm, or another loss.")
        return self.smoothness


@dataclass(frozen=True)
class Budget:
    """What a run may cost, at most. Plans calibrate their noise to it, and are certified.

    Parameters
    ----------
    epsilon, delta : float
        Epsilon is above 0, delta between 0 and 1 and well below ``1 / n``.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        What neighbouring data sets are; see ``Run``.

    Raises
    ------
    InputError
        A value is out of range.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(budget.least_multiplier, 3), round(budget.mu, 3)
    (3.731, 0.268)
    """

    epsilon: float
    delta: float
    adjacency: str = "add-remove"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon))
        object.__setattr__(self, "delta", real("delta", self.delta))
        if self.delta >= 1:
            raise InputError(f"delta is {self.delta:g}: expected a number in (0, 1), well below 1/n.")
        one_of("adjacency", self.adjacency, ADJACENCIES)

    def calibrated(self, run: Run) -> Run:
        """The run with its noise scaled to the least that is certified for this budget."""
        return calibrate(run, epsilon=self.epsilon, delta=self.delta)

    @property
    def least_multiplier(self) -> float:
        """The least noise multiplier of one release."""
        return _least_multiplier(self)

    @property
    def mu(self) -> float:
        """The largest mu such that mu-GDP is within the budget, whatever the adjacency."""
        return moved(self.adjacency) / self.least_multiplier


def one_pass_run(
    problem: Problem,
    budget: Budget,
    sizes: tuple[int, ...],
    step_sizes: tuple[float, ...],
    *,
    noise: Schedule = 1.0,
    clip_norm: float,
    smoothness: float | None,
    diameter: float | None,
    update: str = "sgd",
) -> Run:
    """One pass in batches, or phases, of these sizes, with this noise times the factor that the budget needs."""
    run = Run(
        n=problem.n,
        sampling=OnePass(sizes),
        steps=len(sizes),
        noise_multiplier=noise,
        clip_norm=clip_norm,
        step_size=step_sizes,
        smoothness=smoothness,
        strong_convexity=problem.largest_l2,
        l2=problem.largest_l2,
        diameter=diameter,
        adjacency=budget.adjacency,
        unit=problem.unit,
        released="last",
        update=update,
    )
    return budget.calibrated(run)


def moved(adjacency: str) -> float:
    """What a change of one record moves a sum by at most, in clip norms."""
    return 1.0 if adjacency == "add-remove" else 2.0


@lru_cache(maxsize=64)
def _least_multiplier(budget: Budget) -> float:
    run = Run(n=1, sampling=FullBatch(), steps=1, noise_multiplier=1.0, adjacency=budget.adjacency)
    return float(budget.calibrated(run).noise_multiplier)  # type: ignore[arg-type]
