"""What runs of growing length cost: composed, as printed, certified, and exactly on two data sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dplateau.accounting import Bound, compositions
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.renyi_curve import RenyiCurve
from dplateau.analyses import (
    Analysis,
    ExactCompositionBound,
    FixedOrderBound,
    NoisyCGDBound,
    NoisyGDBound,
    NoisySGDBound,
    PrintedNoisySGD,
    PrintedNoisySGDStronglyConvex,
    ReflectionCouplingBound,
    SampledLastIterateBound,
    ShuffledBound,
)
from dplateau.audit import Instance, final_laws, random_walks
from dplateau.spec import Run
from dplateau_papers.p0.settings import DELTA, ORDER, Setting, turned_walks

COMPOSED: Final = "all iterates"
PRINTED: Final = "as printed"
OURS: Final = "ours"
WALKS: Final = "exact, 4.1"
TURNED: Final = "exact, turned"
LAST: Final[tuple[Analysis, ...]] = (
    SampledLastIterateBound(),
    FixedOrderBound(),
    ShuffledBound(),
    ReflectionCouplingBound(),
)
"""Two of these cover each way to form batches; the smaller one counts."""
PRINTS: Final[tuple[Analysis, ...]] = (PrintedNoisySGDStronglyConvex(), PrintedNoisySGD(), NoisyCGDBound(), NoisyGDBound())
"""The paper's bounds with their constants, the first that applies."""


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes
    ----------
    name, status : str
        What it is; Proved, Refuted, or exact.
    by : str
        The analysis, or the data sets.
    values : tuple of float
        One for each number of steps.
    """

    name: str
    status: str
    by: str
    values: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"name": self.name, "status": self.status, "by": self.by, "values": list(self.values)}


@dataclass(frozen=True)
class Panel:
    """One setting.

    Attributes
    ----------
    setting : Setting
        Which.
    steps : tuple of int
        Numbers of steps.
    epsilon, divergence : dict of str to Curve
        Epsilon at ``DELTA``; Renyi divergences of order ``ORDER``.
    """

    setting: Setting
    steps: tuple[int, ...]
    epsilon: dict[str, Curve]
    divergence: dict[str, Curve]

    @property
    def crossing(self) -> int | None:
        """The first number of steps at which less is certified of the last iterate than of all, by at least 1 %."""
        pairs = zip(self.steps, self.epsilon[OURS].values, self.epsilon[COMPOSED].values, strict=True)
        return next((steps for steps, ours, composed in pairs if ours < 0.99 * composed), None)

    @property
    def plateau(self) -> float:
        """The certified epsilon after the most steps."""
        return self.epsilon[OURS].values[-1]

    @property
    def begins(self) -> int:
        """The first number of steps from which on the certified epsilon is within 1 % of its end."""
        values = self.epsilon[OURS].values
        outside = [i for i, value in enumerate(values) if abs(value - values[-1]) > 0.01 * values[-1]]
        return self.steps[outside[-1] + 1 if outside else 0]

    @property
    def refuted_at(self) -> list[int]:
        """Numbers of steps at which an exact epsilon exceeds the printed bound."""
        exact = zip(*(curve.values for curve in self.epsilon.values() if curve.status == "exact"), strict=True)
        found = zip(self.steps, self.epsilon[PRINTED].values, exact, strict=True)
        return [steps for steps, printed, values in found if max(values) > printed]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.setting.name,
            "run": self.setting.run.to_dict(),
            "burn_in": self.setting.burn_in,
            "steps": list(self.steps),
            "epsilon": [curve.to_dict() for curve in self.epsilon.values()],
            "divergence": [curve.to_dict() for curve in self.divergence.values()],
        }


def applicable(analyses: Sequence[Analysis], run: Run) -> list[Analysis]:
    """The analyses that cover ``run``."""
    return [analysis for analysis in analyses if isinstance(analysis.bound(run), Bound)]


def least_epsilon(analyses: Sequence[Analysis], run: Run) -> float:
    """The least epsilon at ``DELTA`` that they say."""
    return min(analysis.guarantee(run).epsilon(DELTA).upper for analysis in analyses)


def panel(setting: Setting, steps: Sequence[int], *, divergences: bool = True, walks: bool = True) -> Panel:
    """Compute one; ``walks`` asks for the exact laws too."""
    runs = [setting.run.replace(steps=number) for number in steps]
    epsilon: dict[str, Curve] = {}
    asked = ((COMPOSED, [ExactCompositionBound()]), (PRINTED, applicable(PRINTS, runs[0])[:1]), (OURS, applicable(LAST, runs[0])))
    for name, analyses in asked:
        if analyses:
            values = tuple(least_epsilon(analyses, run) for run in runs)
            epsilon[name] = Curve(name, analyses[0].status.__name__, ", ".join(analysis.name for analysis in analyses), values)
    cases: list[tuple[str, str, Callable[[Run], Instance]]] = [
        (WALKS, "the random walks of Theorem 4.1", random_walks),
        (TURNED, "walks with slopes L and -L", turned_walks),
    ]
    exact: dict[str, list[tuple[float, float]]] = {}
    for name, _, instance in cases if walks else ():
        laws = [final_laws(run, instance(run)) for run in runs]
        exact[name] = [(law.epsilon(DELTA), law.renyi(ORDER) if divergences else 0.0) for law in laws]
    epsilon |= {name: Curve(name, "exact", by, tuple(e for e, _ in exact[name])) for name, by, _ in cases if name in exact}
    found: dict[str, Curve] = {}
    if divergences:
        found = {name: Curve(name, status, by, tuple(of(run) for run in runs)) for name, status, by, of in _RENYI}
        found |= {name: Curve(name, "exact", by, tuple(d for _, d in exact[name])) for name, by, _ in cases if name in exact}
    return Panel(setting, tuple(steps), epsilon, found)


def _composed(run: Run) -> float:
    return max(renyi_divergence(each, ORDER) for each in compositions(run)[0])


def _divergence(analysis: Analysis) -> Callable[[Run], float]:
    def of(run: Run) -> float:
        guarantee = analysis.guarantee(run)
        assert isinstance(guarantee, RenyiCurve)
        return guarantee.divergence(ORDER)

    return of


_RENYI: Final[tuple[tuple[str, str, str, Callable[[Run], float]], ...]] = (
    (COMPOSED, "Proved", "renyi-composition", _composed),
    (PRINTED, PrintedNoisySGD.status.__name__, PrintedNoisySGD.name, _divergence(PrintedNoisySGD())),
    (OURS, NoisySGDBound.status.__name__, NoisySGDBound.name, _divergence(NoisySGDBound())),
)
"""Of random batches: the last is the printed bound with the larger direction of the sampled step."""
