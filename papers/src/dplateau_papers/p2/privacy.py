"""``p2-privacy``: every privacy number of Bu, Dong, Long and Su 2020, computed again, beside the certified one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dplateau._account import Report, account
from dplateau.accounting import Enclosure, GaussianDP, Guarantee, RenyiDP, compositions
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs import least_mu
from dplateau.analyses import ANALYSES, ExactCompositionBound, GaussianCLT
from dplateau.spec import Run
from dplateau_papers.p2 import PAPER
from dplateau_papers.p2.calibration import Calibrated, calibrated, calibration_table
from dplateau_papers.p2.pictures import epsilons, spending, trade_off_panels
from dplateau_papers.p2.settings import CALIBRATIONS, ORDERS, SETTINGS, Setting
from dplateau_papers.p2.theorems import Errors, Inequality, Limit, theorem_tables, theorems
from dplateau_papers.page import Entry, Inputs, Reproduction, Table

FLOOR: Final = 1e-10
"""The probability by which mu-GDP may be missed in the column "least mu"."""


@dataclass(frozen=True)
class Row:
    """One model of the paper, accounted for in three ways.

    Attributes
    ----------
    setting : Setting
        What the paper prints.
    report : Report
        What every analysis says.
    mu, clt, ma : float
        The paper's three columns, computed here.
    certified : Enclosure
        Of the epsilon; for Poisson sampling the least that holds for all data.
    least_mu : Enclosure
        The least mu-GDP statement that holds but for a probability of ``FLOOR``.
    at_claim : Enclosure
        delta at the epsilon that the paper's limit theorem claims.
    """

    setting: Setting
    report: Report
    mu: float
    clt: float
    ma: float
    certified: Enclosure
    least_mu: Enclosure
    at_claim: Enclosure

    @property
    def too_small(self) -> bool:
        """Whether the epsilon claimed by the limit theorem is certainly too small."""
        return self.certified.lower > self.setting.clt + _HALF

    @property
    def too_large(self) -> bool:
        """Whether less than that epsilon is certified."""
        return self.certified.upper < self.setting.clt - _HALF

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        s = self.setting
        return {
            "name": s.name,
            "source": s.source,
            "delta": s.delta,
            "run": s.run.to_dict(),
            "printed": {"mu": s.mu, "gdp-clt": s.clt, "moments-accountant": s.ma},
            "computed": {"mu": self.mu, "gdp-clt": self.clt, "moments-accountant": self.ma},
            "status": _STATUS,
            "certified": _pair(self.certified),
            "least_mu": {"floor": FLOOR, "enclosure": _pair(self.least_mu)},
            "delta_at_the_claim": _pair(self.at_claim),
        }


_STATUS: Final = {one.name: one.status.__name__ for one in ANALYSES if one.name in ("gdp-clt", "moments-accountant")}
"""How far the paper's two columns may be trusted."""
_HALF: Final = 0.005
"""Printed epsilons have two decimals."""


def _pair(value: Enclosure) -> list[float]:
    return [value.lower, value.upper]


def row(setting: Setting) -> Row:
    """Account for one model of the paper."""
    run = setting.run
    exact, limit = ExactCompositionBound().guarantee(run), GaussianCLT().guarantee(run)
    assert isinstance(limit, GaussianDP)
    return Row(
        setting,
        account(run, setting.delta),
        limit.parameter,
        limit.epsilon(setting.delta).upper,
        moments_accountant(run).epsilon(setting.delta).upper,
        exact.epsilon(setting.delta),
        least_mu(exact, FLOOR),
        exact.delta(setting.clt),
    )


def moments_accountant(run: Run) -> Guarantee:
    """The moments accountant with the orders that the paper's numbers were computed with."""
    return RenyiDP(compositions(run)[0], classical=True, orders=ORDERS)


@dataclass(frozen=True)
class Privacy:
    """All numbers of ``p2-privacy``."""

    rows: tuple[Row, ...]
    calibrations: tuple[Calibrated, ...]
    limits: tuple[Limit, ...]
    inequalities: tuple[Inequality, ...]
    errors: Errors

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "paper": PAPER,
            "settings": [each.to_dict() for each in self.rows],
            "calibrations": [each.to_dict() for each in self.calibrations],
            "limit_theorem": [each.to_dict() for each in self.limits],
            "inequality_b2": [each.to_dict() for each in self.inequalities],
            "least_sum_of_errors": self.errors.to_dict(),
        }


def compute() -> Privacy:
    """Compute everything; a few seconds."""
    rows = tuple(row(setting) for setting in SETTINGS)
    found = tuple(calibrated(each) for each in CALIBRATIONS)
    return Privacy(rows, found, *theorems([(each.setting.name, each.setting.run, each.setting.delta) for each in rows]))


def columns_table(rows: Sequence[Row]) -> Table:
    """The paper's columns, as printed and as computed here."""
    lines = tuple(
        (
            r.setting.name,
            f"{r.setting.batch_size:.6g}/{r.setting.n}" if r.setting.batch_size == int(r.setting.batch_size) else "1/80",
            f"{r.setting.noise_multiplier:g}",
            f"{r.setting.epochs:g}",
            str(r.report.run.steps),
            *(f"{value:.2f}" for value in (r.setting.mu, r.mu, r.setting.clt, r.clt, r.setting.ma, r.ma)),
        )
        for r in rows
    )
    heads = ("", "q", "z", "epochs", "T", "mu", "ours", "CLT epsilon", "ours", "MA epsilon", "ours")
    off = [r.setting.name for r in rows if _differs(r.setting.mu, r.mu) or _differs(r.setting.clt, r.clt)]
    same = "The CLT columns agree in every digit." if not off else f"The CLT columns differ in {', '.join(off)}."
    off = [f"{r.setting.name} ({r.ma:.4f})" for r in rows if _differs(r.setting.ma, r.ma)]
    same += " The MA column agrees in every digit" + (f", but for {', '.join(off)}." if off else ".")
    return Table("What the paper prints, and what we compute", heads, lines, (same,))


def _differs(printed: float, computed: float) -> bool:
    return abs(printed - computed) > _HALF * (1 + 1e-9)


def costs_table(rows: Sequence[Row]) -> Table:
    """What the runs cost, and what the limit theorem claims."""
    lines = tuple(
        (
            r.setting.name,
            f"{r.setting.delta:.0e}",
            rounded_up(r.certified.upper),
            f"{r.setting.clt:.2f}",
            "too small" if r.too_small else "too large" if r.too_large else "",
            f"{r.at_claim.upper:.2e}",
            f"{r.at_claim.upper / r.setting.delta:.3g}",
            rounded_up(r.least_mu.upper, 4),
            f"{r.setting.mu:.2f}",
        )
        for r in rows
    )
    heads = ("", "delta", "certified epsilon", "CLT claims", "which is", "delta there", "times delta", "least mu", "CLT mu")
    small, large = [r for r in rows if r.too_small], [r for r in rows if r.too_large]
    weak = [r.setting.ma / r.certified.upper - 1 for r in rows]
    sentences = (
        f"The CLT's epsilon is too small in {len(small)} of {len(rows)} rows ({_names(small)}): some pair of data sets loses more "
        "than it at that delta.",
        f"It is too large in {len(large)} ({_names(large)}): less is certified.",
        f"The moments accountant's epsilon holds in every row, and is {100 * min(weak):.0f} % to {100 * max(weak):.0f} % larger "
        "than the certified one.",
        f"Least mu: the run is mu-GDP but for a probability of {FLOOR:g}.",
    )
    return Table("What these runs cost", heads, lines, sentences)


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(r.setting.name for r in rows) or "none"


def page(found: Privacy) -> Reproduction:
    """Tables, sentences and pictures."""
    tables = (
        columns_table(found.rows),
        costs_table(found.rows),
        calibration_table(found.calibrations),
        *theorem_tables(found.limits, found.inequalities, found.errors),
    )
    models = [(each.setting, each.report) for each in found.rows]
    pictures = {
        "trade-offs": ("The trade-off curves of the six MNIST models, as in Figure 3", partial(trade_off_panels, models)),
        "epsilon": ("Epsilon against delta, epochs and noise, as in Figure 2", epsilons),
        "spending": ("Epsilon while training, as in Figure 4", partial(spending, found.calibrations)),
    }
    return Reproduction("p2-privacy", f"Privacy in {PAPER}", tables, found.to_dict(), pictures)


def run(_: Inputs) -> Reproduction:
    """Everything; half a minute with the pictures."""
    return page(compute())


P2_PRIVACY: Final = Entry(
    "p2-privacy",
    PAPER,
    "the privacy columns of Tables 1 to 4, Figures 2, 3 and A.1, the calibration of Figure 4, and inequality (B.2), each beside "
    "what is certified",
    "nothing; matplotlib for the pictures of --output",
    "10 seconds, half a minute with pictures",
    run,
)
