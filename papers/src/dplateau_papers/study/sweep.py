"""The study's trainings: every method at every epsilon, its hyperparameters chosen on held-out private records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from sklearn.linear_model import LogisticRegression

from dplateau._account import account
from dplateau.algorithms import Algorithm
from dplateau_papers.page import Inputs
from dplateau_papers.records import Records
from dplateau_papers.study.features import Problem
from dplateau_papers.study.methods import DELTA, METHODS, Facts, Method, Setting

EPSILONS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TUNED_AT: Final = (0.25, 1.0, 4.0)
"""The hyperparameters for an epsilon are those of the largest of these that does not exceed it."""
SEEDS: Final = 5
PENALTIES: Final = (1e-4, 1e-5, 1e-6, 1e-7)
"""l2 coefficients that the model without privacy is tuned over."""


def tuned_at(epsilon: float) -> float:
    """Where the hyperparameters for this epsilon are chosen."""
    return max(each for each in TUNED_AT if each <= epsilon)


@cache
def _planned(method: Method, facts: Facts, setting: str) -> tuple[Algorithm, float]:
    """The plan and its certified epsilon, which cost more than some trainings."""
    made = method.plan(facts, **json.loads(setting))
    return made, account(made.run, DELTA).epsilon


def trained(problem: Problem, asked: Setting) -> dict[str, Any]:
    """One training with fresh noise: its ``score`` in per cent, and its certified ``epsilon``."""
    method = next(method for method in METHODS if method.name == asked["method"])
    n, d = problem.features.shape
    made, certified = _planned(method, Facts(n, d, problem.loss, asked["epsilon"]), json.dumps(asked["setting"]))
    return {"score": problem.score(made.fit(problem.features, problem.target).weights), "epsilon": certified}


class Trainings:
    """What is trained on one problem, and what is kept of it.

    Parameters
    ----------
    inputs : Inputs
        Where data and finished trainings are.
    name : str
        Of the files of records.
    problem : callable
        Reads the data; not called where everything is in the records.
    """

    def __init__(self, inputs: Inputs, name: str, problem: Callable[[], Problem]) -> None:
        self.inputs, self.problem = inputs, problem
        self.held_out = cache(lambda: problem().held_out())
        self.tuning, self.final = (inputs.records_of(f"{name}-{part}") for part in ("tuning", "trainings"))
        self.seeds = SEEDS if inputs.seeds is None else inputs.seeds


class Sweep(Trainings):
    """Every method at every epsilon."""

    def __init__(self, inputs: Inputs, name: str, problem: Callable[[], Problem]) -> None:
        super().__init__(inputs, name, problem)
        self.free = inputs.records_of(f"{name}-no-privacy")

    def run(self) -> None:
        """Train what is missing."""
        if not self.seeds:
            return
        self._tune()
        self.final.collect(
            [self.asked(method, epsilon) for epsilon in EPSILONS for method in METHODS],
            range(self.seeds),
            lambda asked, _: trained(self.problem(), asked),
            self.inputs.say,
        )

    def _tune(self) -> None:
        self.tuning.collect(
            [
                _asked(method, epsilon, setting)
                for epsilon in TUNED_AT
                for method in METHODS
                if method.tuned
                for setting in method.grid
            ],
            (0,),
            lambda asked, _: trained(self.held_out(), asked),
            self.inputs.say,
        )
        self.free.collect(
            [{"l2": l2} for l2 in PENALTIES], (0,), lambda asked, _: self._without_privacy(asked["l2"]), self.inputs.say
        )

    def _without_privacy(self, l2: float) -> dict[str, Any]:
        """The minimiser of the regularised loss: its scores, on held-out records and on the public ones."""
        return {name: _minimiser(problem(), l2) for name, problem in (("held_out", self.held_out), ("score", self.problem))}

    def setting(self, method: Method, epsilon: float) -> Setting:
        """The best on held-out records."""
        if not method.tuned:
            return method.grid[0]
        return best(self.tuning, [_asked(method, tuned_at(epsilon), setting) for setting in method.grid])["setting"]

    def asked(self, method: Method, epsilon: float) -> Setting:
        """What is in the records for the trainings of a method."""
        return _asked(method, epsilon, self.setting(method, epsilon))

    def scores(self, method: Method, epsilon: float) -> list[float]:
        """Of all trainings."""
        return self.final.values(self.asked(method, epsilon), "score")

    def certified(self, method: Method, epsilon: float) -> float:
        """The largest certified epsilon of the trainings; 0 where there are none."""
        return max(self.final.values(self.asked(method, epsilon), "epsilon"), default=0.0)

    @property
    def without_privacy(self) -> float | None:
        """The score of the best model without privacy, if it was trained."""
        chosen = best(self.free, [{"l2": l2} for l2 in PENALTIES], "held_out")
        return next(iter(self.free.values(chosen, "score")), None)


def _asked(method: Method, epsilon: float, setting: Setting) -> Setting:
    return {"method": method.name, "epsilon": epsilon, "setting": setting}


def best(records: Records, settings: Iterable[Setting], name: str = "score") -> Setting:
    """The setting whose results are best on average; the first of equals."""

    def mean(setting: Setting) -> float:
        values = records.values(setting, name)
        return sum(values) / len(values) if values else -1.0

    return max(settings, key=mean)


def _minimiser(problem: Problem, l2: float) -> float:
    # scikit-learn multiplies the sum of the losses by C and the square by 1/2.
    model = LogisticRegression(C=1 / (l2 * len(problem.target)), fit_intercept=False, max_iter=300)
    model.fit(problem.features, problem.target)
    return 100 * float(model.score(problem.test_features, problem.test_target))
