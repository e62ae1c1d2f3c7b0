"""What an attacker can do at most: the trade-off curves of a run, and what the certified one means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dplateau._account import Report, account
from dplateau.accounting.attack import ALARM, accuracy, advantage, posterior, true_positive_rate
from dplateau.accounting.gaussian import Array
from dplateau.accounting.trade_offs import TradeOff, epsilon_delta, trade_off
from dplateau.analyses import GaussianCLT, MomentsAccountantBound
from dplateau.certificate.words import uncertified
from dplateau.spec import Run, Runs

FALSE_ALARMS: Final = (0.001, 0.01, 0.05, 0.1)
"""False-positive rates at which a curve is read."""
PRIOR: Final = 0.5
"""How sure the attacker was before."""
CERTIFIED: Final = "certified"
POINT: Final = "one point"


@dataclass(frozen=True)
class Attack:
    """What a trade-off function says, in numbers that need no mathematics. Each is a probability that no attack exceeds.

    Attributes
    ----------
    detects : tuple of (float, float)
        True-positive rates at the false-positive rates of ``FALSE_ALARMS``.
    advantage : float
        The largest true-positive rate minus false-positive rate.
    accuracy : float
        The largest share of right answers where each answer is right in half of all cases.
    posterior : float
        How sure an attacker is after an alarm at the false-positive rate ``ALARM``, having been ``PRIOR`` sure before.
    """

    detects: tuple[tuple[float, float], ...]
    advantage: float
    accuracy: float
    posterior: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rates = [{"false_positive_rate": false, "true_positive_rate": true} for false, true in self.detects]
        after = {"false_positive_rate": ALARM, "prior": PRIOR, "posterior": self.posterior}
        return {"detects": rates, "advantage": self.advantage, "accuracy": self.accuracy, "after_an_alarm": after}


def detected(f: TradeOff, rates: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """False alarms, and the most that is detected with so many."""
    return tuple((rate, true_positive_rate(f, rate)) for rate in rates)


def read_attack(f: TradeOff) -> Attack:
    """Read a trade-off function at usual false-positive rates."""
    return Attack(detected(f, FALSE_ALARMS), advantage(f), accuracy(f), posterior(f, ALARM, PRIOR))


@dataclass(frozen=True)
class Curve:
    """One trade-off function of a picture.

    Attributes
    ----------
    name, status : str
        What it follows from, and how far that may be trusted.
    f : TradeOff
        The function.
    """

    name: str
    status: str
    f: TradeOff


@dataclass(frozen=True)
class TradeOffs:
    """The trade-off curves of a run.

    Attributes
    ----------
    report : Report
        What every analysis says of the run.
    curves : tuple of Curve
        The certified one first, then what it is compared with.
    """

    report: Report
    curves: tuple[Curve, ...]

    @property
    def certified(self) -> TradeOff:
        """The curve that certifies."""
        return self.curves[0].f

    @property
    def attack(self) -> Attack:
        """What it means for an attacker."""
        return read_attack(self.certified)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: type II errors at the same type I errors for every curve."""
        report = self.report
        return {
            "epsilon": report.epsilon,
            "delta": report.delta,
            "attack": self.attack.to_dict(),
            "type_i": ALPHAS.tolist(),
            "curves": [{"name": c.name, "status": c.status, "type_ii": np.asarray(c.f(ALPHAS)).tolist()} for c in self.curves],
            "run": report.run.to_dict(),
        }


def _alphas() -> Array:
    small = np.geomspace(1e-6, 0.05, 60, endpoint=False)
    return np.concatenate([[0.0], small, np.linspace(0.05, 0.95, 181), 1 - small[::-1], [1.0]])


ALPHAS: Final = _alphas()
"""Type I errors at which curves are written down: close to each other near 0 and near 1."""


def trade_offs(run: Run | Runs, delta: float | None = None) -> TradeOffs:
    """The certified trade-off curve of a run, and what papers draw beside it.

    Parameters
    ----------
    run : Run or Runs
        What is computed and released.
    delta : float, optional
        In (0, 1), as for ``account``: that of the single (epsilon, delta).

    Returns
    -------
    TradeOffs
        The certified curve; the limit theorem's, where it applies (**Asymptotic**, no guarantee); all (epsilon, delta) of the
        moments accountant together; and the certified epsilon at ``delta`` alone.

    Raises
    ------
    InputError
        ``delta`` is not in (0, 1).
    UncertifiedError
        No proved bound gives a finite epsilon at ``delta``.

    Examples
    --------
    >>> import dplateau as dp
    >>> run = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=3516, noise_multiplier=1.3)
    >>> found = trade_offs(run)
    >>> round(found.certified(0.01), 3)
    0.982
    >>> round(found.attack.advantage, 3)
    0.09
    """
    return compared(account(run, delta))


def compared(report: Report) -> TradeOffs:
    """As ``trade_offs``, of a run that was accounted for."""
    best = report.best
    if best is None:
        raise uncertified(report.delta)
    curves = [Curve(CERTIFIED, best.status, report.trade_off)]
    rows = {row.name: row for row in report.bounds}
    for name in (GaussianCLT.name, MomentsAccountantBound.name):
        if (bound := rows[name].bound) is not None:
            curves.append(Curve(name, bound.status, trade_off(bound.guarantee)))
    curves.append(Curve(POINT, best.status, epsilon_delta(report.epsilon, report.delta)))
    return TradeOffs(report, tuple(curves))
