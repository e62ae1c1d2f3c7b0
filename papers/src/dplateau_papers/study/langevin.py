"""DP-SGLD with the noise that is printed, and with the noise that is certified, beside DP-SGD and no privacy, in equal steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Any, Final

from dplateau._account import account
from dplateau.accounting.enclosure import rounded_up
from dplateau.algorithms import DPSGLD, Algorithm, Budget, NoisySGD, plan_dp_sgld, printed_dp_sgld
from dplateau.algorithms import Problem as PublicFacts
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import FixedSize, Poisson
from dplateau_papers.page import Inputs
from dplateau_papers.study import PROBLEMS, features
from dplateau_papers.study.features import Problem
from dplateau_papers.study.methods import DELTA, EPOCHS, METHODS, Setting
from dplateau_papers.study.sweep import EPSILONS, Sweep, Trainings, best

EPSILON: Final = 1.0
BATCH: Final = 256
KINDS: Final = {
    "printed": "DP-SGLD, printed noise",
    "certified": "DP-SGLD, certified noise",
    "dp-sgd": "DP-SGD",
    "free": "No DP",
}
PENALTIES: Final = (1e-2, 1e-3, 1e-4, 1e-5)
"""l2 coefficients that every method is tuned over."""
CLAIMS: Final = tuple(product((1e-2, 1e-3, 1e-4), (32, 256, 2048)))
"""l2 coefficients and batch sizes at which the printed noise is compared with the certified one."""
_FREE: Final = 1e-6
"""Noise multiplier of "No DP"."""


@cache
def planned(n: int, d: int, loss: GeneralisedLinearLoss, kind: str, l2: float, batch: int, step: str) -> Algorithm:
    """Steps of DP-SGLD ("constant" or "decaying") on batches that are drawn without replacement, with a kind of noise.

    DP-SGD has Poisson batches and is accounted for as usual: all iterates, the presence of a record. The others are for the
    replacement of a record, as the paper is.
    """
    if kind == "certified":
        clip = loss.lipschitz(1.0) if loss.convex_after_clipping else None
        return plan_dp_sgld(
            PublicFacts(n, d, loss, l2=l2, residual_clip=clip),
            Budget(EPSILON, DELTA, "replace"),
            steps=round(EPOCHS * n / batch),
            step_size=step,
            sampling=FixedSize(batch),
        )
    made = planned(n, d, loss, "certified", l2, batch, step)
    assert isinstance(made, DPSGLD)
    if kind == "printed":
        return replace(made, run=printed_dp_sgld(made.run, EPSILON, DELTA))
    if kind == "free":
        return replace(made, run=made.run.replace(released="all", noise_multiplier=_FREE))
    run = made.run.replace(sampling=Poisson(batch), adjacency="add-remove", released="all", noise_multiplier=1.0)
    return NoisySGD(calibrate(run, epsilon=EPSILON, delta=DELTA), loss, l2=l2)


@cache
def costs(made: Algorithm) -> dict[str, float]:
    """Certified epsilon for the presence and for the replacement of a record; none without privacy."""
    if made.run.noise_multiplier == _FREE:
        return {}
    return {name: account(made.run.replace(adjacency=name), DELTA).epsilon for name in ("add-remove", "replace")}


def trained(problem: Problem, asked: Setting) -> dict[str, Any]:
    """One training with fresh noise: its ``score``, and what it costs."""
    made = planned(*problem.features.shape, problem.loss, **asked)
    weights = made.fit(problem.features, problem.target).weights
    return {"score": problem.score(weights), **costs(made)}


class Langevin(Trainings):
    """DP-SGLD, DP-SGD and no privacy at epsilon 1."""

    def tables(self, steps: Iterable[str]) -> None:
        """Train what Tables 1 ("constant") and 2 ("decaying") need."""
        if not self.seeds:
            return
        steps = tuple(steps)
        candidates = [_asked(kind, l2, BATCH, step) for step in steps for kind in KINDS for l2 in PENALTIES]
        self.tuning.collect(candidates, (0,), lambda asked, _: trained(self.held_out(), asked), self.inputs.say)
        self._collect([self.chosen(kind, step) for step in steps for kind in KINDS])

    def claims(self) -> None:
        """Train with the printed and with the certified noise at ``CLAIMS``."""
        if self.seeds:
            self._collect([_asked(kind, l2, batch, "constant") for l2, batch in CLAIMS for kind in ("printed", "certified")])

    def _collect(self, asked: list[Setting]) -> None:
        self.final.collect(asked, range(self.seeds), lambda asked, _: trained(self.problem(), asked), self.inputs.say)

    def chosen(self, kind: str, step: str) -> Setting:
        """The best l2 coefficient on held-out records."""
        return best(self.tuning, [_asked(kind, l2, BATCH, step) for l2 in PENALTIES])

    def results(self, asked: Setting) -> list[dict[str, Any]]:
        """Of all trainings."""
        return self.final.results(asked)


def _asked(kind: str, l2: float, batch: int, step: str) -> Setting:
    return {"kind": kind, "l2": l2, "batch": batch, "step": step}


def claimed(l2: float, batch: int, kind: str) -> Setting:
    """What is in the records for a cell of ``CLAIMS``."""
    return _asked(kind, l2, batch, "constant")


def trainings(inputs: Inputs) -> dict[str, Langevin]:
    """The trainings on each of ``PROBLEMS``."""
    return {name: Langevin(inputs, f"study-{name}-langevin", cache(partial(getattr(features, name), inputs))) for name in PROBLEMS}


def cost(results: Iterable[dict[str, Any]], adjacency: str) -> str:
    """The certified epsilon of trainings that are alike."""
    found = [result[adjacency] for result in results if adjacency in result]
    return rounded_up(max(found), 3) if found else "none"


@dataclass(frozen=True)
class Study:
    """Finished trainings on one problem."""

    title: str
    sweep: Sweep
    langevin: Langevin

    @cached_property
    def means(self) -> Mapping[tuple[str, float], float]:
        """Mean score of every method at every epsilon that was trained."""
        found = {(one.name, epsilon): self.sweep.scores(one, epsilon) for one in METHODS for epsilon in EPSILONS}
        return {key: sum(values) / len(values) for key, values in found.items() if values}
