"""Equations (3.3) and (3.4) of Bu, Dong, Long and Su 2020: how much less noise the limit theorem asks for, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dplateau._account import account
from dplateau.accounting import Enclosure, RenyiDP, compositions, gdp_mu
from dplateau.accounting.enclosure import rounded_up
from dplateau.analyses import ExactCompositionBound
from dplateau.analyses.gdp_clt import clt_noise_multiplier
from dplateau.calibration import calibrate
from dplateau_papers.p2.settings import CALIBRATION_DELTA, ORDERS, Calibration, trained
from dplateau_papers.page import Table


@dataclass(frozen=True)
class Calibrated:
    """One calibration of the paper, done again.

    Attributes
    ----------
    printed : Calibration
        What the paper prints.
    epsilon : float
        The moments accountant's, for the paper's sigma.
    mu, less_noise : float
        mu~ of (3.3) and sigma~ of (3.4), both for that epsilon.
    cost, printed_cost : Enclosure
        The certified epsilon of the run with that sigma~, and with the printed one.
    delta : Enclosure
        Its certified delta at ``epsilon``.
    exact : float
        The least noise multiplier for which ``epsilon`` is certified.
    """

    printed: Calibration
    epsilon: float
    mu: float
    less_noise: float
    cost: Enclosure
    printed_cost: Enclosure
    delta: Enclosure
    exact: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        p = self.printed
        return {
            "source": p.source,
            "noise_multiplier": p.noise_multiplier,
            "epochs": p.epochs,
            "delta": CALIBRATION_DELTA,
            "printed": {"epsilon": p.epsilon, "mu": p.mu, "less_noise": p.less_noise},
            "computed": {"epsilon": self.epsilon, "mu": self.mu, "less_noise": self.less_noise},
            "certified_epsilon": [self.cost.lower, self.cost.upper],
            "certified_epsilon_of_the_printed_noise": [self.printed_cost.lower, self.printed_cost.upper],
            "certified_delta": [self.delta.lower, self.delta.upper],
            "certified_noise_multiplier": self.exact,
        }


def calibrated(printed: Calibration) -> Calibrated:
    """Solve (3.3) and (3.4), and certify what comes out."""
    run = trained(printed.noise_multiplier, printed.epochs)
    epsilon = RenyiDP(compositions(run)[0], classical=True, orders=ORDERS).epsilon(CALIBRATION_DELTA).upper
    mu = gdp_mu(epsilon, CALIBRATION_DELTA)
    less = clt_noise_multiplier(run, epsilon, CALIBRATION_DELTA)
    cheaper, as_printed = run.replace(noise_multiplier=less), run.replace(noise_multiplier=printed.less_noise)
    exact = calibrate(run, epsilon=epsilon, delta=CALIBRATION_DELTA).noise_multiplier
    assert isinstance(exact, float)
    guarantee = ExactCompositionBound().guarantee(cheaper)
    cost, printed_cost = guarantee.epsilon(CALIBRATION_DELTA), account(as_printed, CALIBRATION_DELTA).best
    assert printed_cost is not None
    assert printed_cost.epsilon is not None
    return Calibrated(printed, epsilon, mu, less, cost, printed_cost.epsilon, guarantee.delta(epsilon), exact)


def calibration_table(found: Sequence[Calibrated]) -> Table:
    """What the paper's calibration saves, and what it costs."""
    rows = tuple(
        (
            f"{c.printed.noise_multiplier:g}",
            f"{c.printed.epochs:g}",
            f"{c.printed.epsilon:.2f}",
            f"{c.epsilon:.2f}",
            f"{c.printed.mu:.2f}",
            f"{c.mu:.2f}",
            f"{c.printed.less_noise:g}",
            f"{c.less_noise:.3f}",
            rounded_up(c.cost.upper),
            rounded_up(c.delta.upper, 3),
            rounded_up(c.exact, 5),
        )
        for c in found
    )
    heads = (
        "sigma",
        "epochs",
        "MA epsilon",
        "ours",
        "mu~",
        "ours",
        "sigma~",
        "ours",
        "certified epsilon",
        "delta there",
        "least sigma",
    )
    sentences = tuple(
        f"With sigma~ = {c.less_noise:.3f} the run does not cost {c.epsilon:.2f} but {rounded_up(c.cost.upper, 3)}: "
        f"the noise may fall from {c.printed.noise_multiplier:g} to {rounded_up(c.exact, 4)}, no further."
        if c.cost.lower > c.epsilon
        else f"With sigma~ = {c.less_noise:.3f} the run costs {rounded_up(c.cost.upper, 3)}, no more than {c.epsilon:.2f}."
        for c in found
    )
    return Table("Less noise for the moments accountant's epsilon: (3.3), (3.4) and Figure 4", heads, rows, sentences)
