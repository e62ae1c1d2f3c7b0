"""``account``: what a run costs, and what several cost together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import fill
from typing import Any, Protocol

from dplateau.accounting import Bound, Enclosure, Guarantee, NotApplicable
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs import TradeOff, maximum, trade_off
from dplateau.analyses import ANALYSES, Analysis
from dplateau.analyses.composed import composed, each_by_its_best
from dplateau.analyses.private_selection import best_of_candidates
from dplateau.spec import InputError, PrivacyWarning, Run, Runs, Selection
from dplateau.spec.arguments import real, sequence
from dplateau.spec.floating import check_rounding, usual_errors
from dplateau.spec.promise import usual_delta
from dplateau.spec.runs import checked_run, runs_of


@dataclass(frozen=True)
class Row:
    """One analysis in a report: its epsilon at the report's delta, or why it has none.

    Attributes
    ----------
    name, status, source : str
        The analysis, the status of its bound, and where it is from.
    epsilon : Enclosure or None
        What the bound gives at the report's delta; certificates use the upper end.
    why_not : str or None
        The missing assumption and how to meet it, where the analysis does not apply.
    bound : Bound or None
        The statement itself, to read it at other deltas.
    """

    name: str
    status: str
    source: str
    epsilon: Enclosure | None
    why_not: str | None
    bound: Bound | None

    @property
    def upper(self) -> float:
        """The upper end of ``epsilon``; infinite where there is none."""
        return math.inf if self.epsilon is None else self.epsilon.upper

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        finite = self.epsilon if self.upper < math.inf else None
        return {
            "name": self.name,
            "status": self.status,
            "epsilon": finite.upper if finite else None,
            "enclosure": [finite.lower, finite.upper] if finite else None,
            "why_not": self.why_not or (None if finite else "no finite epsilon could be certified"),
            "source": self.source,
        }


@dataclass(frozen=True)
class Report:
    """What every analysis says of one run at one delta.

    Attributes
    ----------
    run : Run or Runs
        The run, or the runs that were composed.
    delta : float
        The delta that every epsilon here belongs to.
    bounds : tuple of Row
        Every analysis, applicable or not.
    """

    run: Run | Runs
    delta: float
    bounds: tuple[Row, ...]

    @property
    def best(self) -> Row | None:
        """The least ``Proved`` bound; None where there is no finite one."""
        proved = [row for row in self.bounds if row.bound is not None and row.bound.certifies and row.upper < math.inf]
        least = min((row.upper for row in proved), default=0.0)
        # Closed forms of the same bound differ by a rounding: the first in the table counts.
        return next((row for row in proved if row.upper <= least * (1 + 1e-12)), None)

    @property
    def ranked(self) -> list[tuple[float, Row]]:
        """Every row that has an epsilon, with its upper end: the certified one, then the others, the least first."""
        best = self.best
        values = [(row.upper, row) for row in self.bounds if row.epsilon is not None]
        return sorted(values, key=lambda pair: (pair[1] is not best, pair[0]))

    @cached_property
    def choice(self) -> str | None:
        """What the certified bound chose for this delta, in words: over how many steps it looks back. None without a choice."""
        return self._said.choice(self.delta) if self._said else None

    @property
    def epsilon(self) -> float:
        """The certified epsilon at ``delta``: the upper end of the least ``Proved`` bound; infinite where there is none."""
        return self.best.upper if self.best else math.inf

    @property
    def mu(self) -> float | None:
        """mu, where the least proved bound is a mu-GDP statement."""
        return self._said.mu if self._said else None

    @property
    def _said(self) -> Guarantee | None:
        """The statement of the certified bound."""
        return self.best.bound.guarantee if self.best and self.best.bound else None

    def profile(self, deltas: Sequence[float]) -> list[Enclosure]:
        """The least proved epsilon at each of ``deltas``, enclosed."""
        leading = self.leading
        return [least_epsilon(leading, real("delta", delta)) for delta in sequence("deltas", deltas)]

    def delta_at(self, epsilon: float) -> float:
        """The least proved delta at ``epsilon`` >= 0: the upper end."""
        epsilon = real("epsilon", epsilon, inclusive=True)
        return min((bound.guarantee.delta(epsilon).upper for bound in self.leading), default=1.0)

    @property
    def leading(self) -> list[Bound]:
        """The proved bounds, without those that another one dominates: they could only be asked in vain."""
        proved = {row.name: row.bound for row in self.bounds if row.bound is not None and row.bound.certifies}
        dominated = {analysis.name for analysis in ANALYSES if analysis.dominated_by in proved}
        return [bound for name, bound in proved.items() if name not in dominated]

    @cached_property
    def trade_off(self) -> TradeOff:
        """The certified trade-off function: the largest of those of the proved bounds, all of which hold.

        ``trade_off(alpha)`` is the least type II error of any attack with type I error alpha; ``dplateau.accounting.attack`` reads
        it in plain words.
        """
        functions = [trade_off(bound.guarantee) for bound in self.leading]
        return functions[0] if len(functions) == 1 else maximum(*functions)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        z, best = self.run.noise_multiplier, self.best
        return {
            "epsilon": self.epsilon if best else None,
            "delta": self.delta,
            "noise_multiplier": _plain(z),
            "bound": best.name if best else None,
            "status": best.status if best else None,
            "choice": self.choice,
            "adjacency": self.run.adjacency,
            "released": self.run.released,
            "bounds": [row.to_dict() for row in self.bounds],
            "run": self.run.to_dict(),
        }

    def __repr__(self) -> str:
        name = f"Proved by {self.best.name}" if self.best else "nothing is proved"
        return f"<Report: epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}, {name}>"

    def __str__(self) -> str:
        """A plain-text table of every analysis: proved values, the least first, then values without a guarantee, then the rest."""
        lines = [
            f"epsilon = {rounded_up(self.epsilon)} at delta = {rounded_up(self.delta)}"
            f" ({self.run.adjacency}, released: {self.run.released})"
        ]
        values = self.ranked
        width = max((len(row.name) for _, row in values), default=0) + 2
        for head, proved in (("proved", True), ("no guarantee", False)):
            rows = [(value, row) for value, row in values if (row.status == "Proved") is proved]
            lines += ["", f"{head:<{width + 2}}{'epsilon':<10}source"] if rows else []
            for value, row in rows:
                mark, source = "*" if row is self.best else " ", row.source if proved else f"{row.status}: {row.source}"
                lines.append(f"{mark} {row.name:<{width}}{rounded_up(value):<10}{source}")
        reasons: dict[str, list[str]] = {}
        for row in self.bounds:
            if row.epsilon is None:
                reasons.setdefault(row.why_not or "", []).append(row.name)
        lines += ["", "not applicable, because"] if reasons else []
        for reason, names in reasons.items():
            lines += [
                f"  {reason}",
                fill(", ".join(names), 80, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False),
            ]
        note = f" It {choice}." if (choice := self.choice) else ""
        return "\n".join([*lines, "", f"* certifies the release; only Proved bounds may.{note}"])


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def checked_delta(delta: float | None, n: int) -> float:
    """``delta``, or the usual one; with a ``PrivacyWarning`` at the caller's caller where it is too large for n records."""
    if delta is None:
        return usual_delta(n)
    delta = real("delta", delta)
    if delta >= 1:
        raise InputError(f"delta is {delta:g}: expected a number in (0, 1), well below 1/n = {1 / n:.3g}.")
    if delta >= 1 / n:
        message = f"delta {delta:g} is at least 1/n = {1 / n:.3g}: publishing a random record satisfies it. Choose delta below 1/n."
        warnings.warn(message, PrivacyWarning, stacklevel=3)
    return delta


def least_epsilon(bounds: Sequence[Bound], delta: float) -> Enclosure:
    """The least epsilon of several bounds that all hold; infinite where there is none."""
    return min((bound.guarantee.epsilon(delta) for bound in bounds), key=lambda e: e.upper, default=Enclosure(0.0, math.inf))


def _row(bound: Bound | NotApplicable, delta: float) -> Row:
    if isinstance(bound, NotApplicable):
        return Row(bound.name, bound.status, bound.source, None, bound.why_not, None)
    if (reason := bound.guarantee.why_not(delta)) is not None:
        return Row(bound.name, bound.status, bound.source, None, reason, None)
    return Row(bound.name, bound.status, bound.source, bound.guarantee.epsilon(delta), None, bound)


def leading_analyses() -> list[Analysis]:
    """The proved analyses that no other one dominates."""
    return [analysis for analysis in ANALYSES if analysis.status.certifies and analysis.dominated_by is None]


def _bounds(run: Run | Runs, delta: float) -> Iterator[Bound | NotApplicable]:
    """What every analysis says; of several runs first what their own best bounds say together, of a selection what it costs to tell
    the best one only.
    """
    if isinstance(run, Selection):
        yield best_of_candidates(run, leading_analyses(), delta)
    if isinstance(run, Runs):
        yield each_by_its_best(run, leading_analyses(), delta)
    for analysis in ANALYSES:
        yield composed(analysis, run) if isinstance(run, Runs) else analysis.bound(run)


class Certified(Protocol):
    """A certificate, as far as it is asked here."""

    @property
    def run(self) -> Run | Runs:
        """What was computed and released."""
        ...

    @property
    def certifies(self) -> bool:
        """Whether its assumptions hold."""
        ...


def compose(*runs: Run | Runs | Certified) -> Runs:
    """Several runs on the same records, as one: phases of a training, or one model after the other.

    ``account`` then says what all of them cost together; each run may use everything that earlier ones released. Their number and
    parameters are fixed in advance: for runs that are chosen on the way see ``Filter``.

    Parameters
    ----------
    *runs : Run, Runs or Certificate
        In the order in which they take place, with one ``n``, ``adjacency`` and ``unit``. A certificate stands for its run.

    Raises
    ------
    InputError
        There is no run, they differ in ``n``, ``adjacency`` or ``unit``, or a certificate certifies nothing: its run is not what
        was protected.

    Examples
    --------
    >>> import dplateau as dp
    >>> first = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=3516, noise_multiplier=1.3)
    >>> second = dp.Run(n=60_000, sampling=dp.FullBatch(), steps=10, noise_multiplier=20.0)
    >>> round(dp.account(dp.compose(first, second), delta=1e-5).epsilon, 4)
    1.0571
    """
    return Runs(one for given in runs for one in runs_of(_run_of(given)))


def _run_of(given: Run | Runs | Certified) -> Run | Runs:
    if isinstance(given, (Run, Runs)):
        return given
    if not getattr(given, "certifies", False):
        what = "a certificate that certifies nothing" if hasattr(given, "certifies") else type(given).__name__
        raise InputError(f"expected a run or a certificate that certifies it, got {what}.")
    return given.run


def account(run: Run | Runs, delta: float | None = None) -> Report:
    """Ask every analysis what ``run`` costs.

    Parameters
    ----------
    run : Run or Runs
        What was computed and released; several runs on the same records by ``compose``.
    delta : float, optional
        In (0, 1), by default ``min(1e-5, 1 / (10 n))``; at 1/n or above a ``PrivacyWarning`` says why that is too large.

    Returns
    -------
    Report
        ``report.epsilon`` is certified: the upper end of the least ``Proved`` bound. ``print(report)`` shows every analysis.

    Raises
    ------
    InputError
        ``run`` is no run, or ``delta`` is not in (0, 1).

    Examples
    --------
    >>> import dplateau as dp
    >>> run = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=3516, noise_multiplier=1.3)
    >>> round(dp.account(run, delta=1e-5).epsilon, 4)
    0.8645
    """
    delta = checked_delta(delta, checked_run(run).n)
    check_rounding()
    with usual_errors():
        return Report(run, delta, tuple(_row(bound, delta) for bound in _bounds(run, delta)))
