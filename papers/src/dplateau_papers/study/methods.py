"""The study's methods: how each is planned from public facts, and what it is tuned over.

Step sizes are in units of 1/M, M the smoothness of the loss (with the l2 term) at rows of norm 1, and clip norms in units of the
largest gradient, so that one grid serves both problems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final, TypeAlias

from dplateau.algorithms import SOLVERS, Algorithm, Budget, NoisySGD, Problem, plan_dp_sgld
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Cyclic, FixedSize, FullBatch, Poisson, RandomAllocation, Run, Sampling, Shuffled

Setting: TypeAlias = dict[str, Any]

DELTA: Final = 1e-5
ADJACENCY: Final = "add-remove"
EPOCHS: Final = 30
"""Passes over the records of every method that is tuned, but full-batch descent."""
FULL_STEPS: Final = 200

SAMPLINGS: Final[dict[str, Callable[[int], Sampling]]] = {
    "fixed": FixedSize,
    "poisson": Poisson,
    "allocated": RandomAllocation,
    "cyclic": Cyclic,
    "shuffled": Shuffled,
    "full": lambda _: FullBatch(),
}


@dataclass(frozen=True)
class Facts:
    """What a plan may know: the numbers of records and of features, the loss, and what may be spent."""

    n: int
    d: int
    loss: GeneralisedLinearLoss
    epsilon: float


@dataclass(frozen=True, eq=False)
class Method:
    """A way to train.

    Attributes
    ----------
    name, title : str
        In records, and in tables.
    accounting : str
        What makes its epsilon: "composition" of all iterates, or of the "last iterate" alone if that is less; "one pass".
    plan : callable
        ``plan(facts, **setting)``.
    grid : tuple of dict
        The settings that it is tuned over; one empty setting: the library's own plan, from public facts.
    """

    name: str
    title: str
    accounting: str
    plan: Callable[..., Algorithm]
    grid: tuple[Setting, ...] = ({},)

    @property
    def tuned(self) -> bool:
        """Whether its hyperparameters were chosen on records, which is not accounted for."""
        return len(self.grid) > 1


def composed(
    facts: Facts,
    sampling: str = "poisson",
    *,
    batch: int,
    epochs: int,
    step: float,
    clip: float,
    momentum: float = 0.0,
    average: float = 0.0,
) -> Algorithm:
    """Every iterate accounted for by exact composition."""
    run = Run(
        n=facts.n,
        sampling=SAMPLINGS[sampling](batch),
        steps=round(epochs * facts.n / batch),
        noise_multiplier=1.0,
        clip_norm=clip * facts.loss.lipschitz(1.0),
        step_size=step / facts.loss.smoothness(1.0),
        adjacency=ADJACENCY,
        released="all",
        update="post-processed" if momentum or average else "sgd",
    )
    return NoisySGD(calibrate(run, epsilon=facts.epsilon, delta=DELTA), facts.loss, momentum, average)


def averaged(facts: Facts, **setting: Any) -> Algorithm:
    """As ``composed``, with momentum and averaging, which cost nothing there."""
    return composed(facts, momentum=0.9, average=0.5, **setting)


def last_iterate(
    facts: Facts, sampling: str, *, l2: float, batch: int = 0, step: float | str = "constant", clip: float = 1.0
) -> Algorithm:
    """Plain steps with an l2 term, of which the last iterate is released; "constant" and "decaying" are the steps of DP-SGLD."""
    scale = facts.loss.smoothness(1.0) + l2
    residual_clip = None if clip == 1 and not facts.loss.convex_after_clipping else clip * facts.loss.lipschitz(1.0)
    return plan_dp_sgld(
        Problem(facts.n, facts.d, facts.loss, l2=l2, residual_clip=residual_clip),
        Budget(facts.epsilon, DELTA, ADJACENCY),
        steps=FULL_STEPS if sampling == "full" else round(EPOCHS * facts.n / batch),
        step_size=step if isinstance(step, str) else step / scale,
        sampling=SAMPLINGS[sampling](batch),
    )


def _by_sampling(sampling: str) -> Callable[..., Algorithm]:
    return lambda facts, **setting: last_iterate(facts, sampling, **setting)


def _solver(name: str) -> Callable[..., Algorithm]:
    def plan(facts: Facts) -> Algorithm:
        return SOLVERS[name].plan(Problem(facts.n, facts.d, facts.loss), Budget(facts.epsilon, DELTA, ADJACENCY))

    return plan


def _grid(**values: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


_L2: Final = (1e-3, 1e-4, 1e-5)
_PLAIN: Final = _grid(batch=(256,), epochs=(EPOCHS,), step=(0.25, 0.5, 1.0), clip=(1.0, 0.5))
_MOMENTUM: Final = _grid(batch=(1024,), epochs=(2 * EPOCHS,), step=(0.1, 0.5, 2.0), clip=(0.5, 0.25))
_LANGEVIN: Final = _grid(l2=_L2, batch=(256, 2048))
_LAST: Final = (*_grid(l2=_L2, batch=(256,), step=(0.5,)), *_grid(l2=_L2, batch=(2048,), step=(1.5,)))

METHODS: Final = (
    Method("noisy-sgd", "Noisy-SGD, planned", "composition", _solver("noisy-sgd")),
    Method("adp-sgd", "ADP-SGD, planned", "composition", _solver("adp-sgd")),
    Method("averaged", "Noisy-SGD, averaged", "composition", averaged, _MOMENTUM),
    Method("dp-sgd", "DP-SGD", "composition", composed, _PLAIN),
    Method("dp-sgd-allocated", "DP-SGD, random allocation", "composition", partial(composed, sampling="allocated"), _PLAIN),
    Method("poisson", "Noisy-SGD, Poisson batches", "last iterate", _by_sampling("poisson"), _LAST),
    Method("allocated", "Noisy-SGD, random allocation", "last iterate", _by_sampling("allocated"), _LAST),
    Method("shuffled", "Noisy-SGD, shuffled batches", "last iterate", _by_sampling("shuffled"), _LAST),
    Method("cyclic", "Noisy-CGD, cyclic batches", "last iterate", _by_sampling("cyclic"), _LAST),
    Method("dp-sgld", "DP-SGLD, constant steps", "last iterate", _by_sampling("fixed"), _LANGEVIN),
    Method(
        "dp-sgld-decaying",
        "DP-SGLD, decaying steps",
        "last iterate",
        _by_sampling("fixed"),
        tuple(setting | {"step": "decaying"} for setting in _LANGEVIN),
    ),
    Method("dp-gld", "Noisy-GD, full batches", "last iterate", _by_sampling("full"), _grid(l2=_L2, step=(1.9,))),
    Method("pnsgd", "PNSGD, planned", "one pass", _solver("pnsgd")),
    Method("snowball-sgd", "Snowball-SGD, planned", "one pass", _solver("snowball-sgd")),
    Method("phased-sgd", "Phased-SGD, planned", "one pass", _solver("phased-sgd")),
    Method("phased-erm", "Phased-ERM, planned", "one pass", _solver("phased-erm")),
)
"""All of them, by what releases most to what reads least."""
