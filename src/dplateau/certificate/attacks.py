"""What a run's trade-off function says of attackers, as claims about an epsilon and a delta.

If a release is (epsilon, delta)-private, an attack that is wrongly alarmed with probability ``fpr`` is rightly alarmed with at most
``tpr = e^epsilon fpr + delta``. The same of the attack that is alarmed where the first one is not:
``1 - fpr <= e^epsilon (1 - tpr) + delta``. So one epsilon with its delta proves a true-positive rate. Their sum,
``(e^epsilon + 1)(tpr - fpr) <= 2 delta + e^epsilon - 1``, proves an advantage A if delta is at most what the rates ``(1 - A)/2``
and ``(1 + A)/2`` leave for it. What is said of a person with several rows follows from a chain of rates
(``docs/proofs/trade-offs.md``, section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from dplateau._account import Report
from dplateau.accounting.attack import ALARM, RATES, ROWS, accuracy_chain, detection_chain
from dplateau.accounting.trade_offs import trade_off
from dplateau.accounting.trade_offs.of_guarantee import members_of
from dplateau.certificate.words import UNITS


class AttackClaim(NamedTuple):
    """A number about attackers, and what it follows from: at ``epsilon``, delta is at most ``most - e^epsilon share``.

    Attributes
    ----------
    about : str
        The number, in words.
    share, most : Fraction
        In [0, 1]: a false-positive rate and the largest true-positive rate, or what 1 exceeds the second and the first by.
    epsilon : float
        At least 0.
    bound : str
        Whose delta it is.
    chosen_for : float
        The delta for which that bound's look-back was chosen.
    before : str or None
        The number, in words, that has to hold, too.
    """

    about: str
    share: Fraction
    most: Fraction
    epsilon: float
    bound: str
    chosen_for: float
    before: str | None


def attack_claims(report: Report) -> Iterator[AttackClaim]:
    """The numbers about attackers of a certificate's page; none that is 1, which says nothing.

    That is the advantage, the true-positive rates, and of a person with several rows both a rate and the share of right answers.

    Parameters
    ----------
    report : Report
        Of the certificate's run.
    """
    members = [
        (trade_off(member), bound.name, delta) for bound in report.leading for member, delta in members_of(bound.guarantee).items()
    ]

    def claim(about: str, fpr: Fraction, tpr: Fraction, before: str | None = None) -> AttackClaim:
        f, bound, delta = max(members, key=lambda member: member[0](float(fpr)))
        epsilon = f.deciding(float(fpr))
        share, most = (1 - tpr, 1 - fpr) if epsilon < 0 else (fpr, tpr)
        return AttackClaim(about, share, most, abs(epsilon), bound, delta, before)

    def linked(rates: tuple[Fraction, ...], words: str, rows: Iterable[int], before: str | None = None) -> Iterator[AttackClaim]:
        """Each rate from the one before; the first one from ``before``."""
        for number, fpr, tpr in zip(rows, rates, rates[1:], strict=False):
            if tpr < 1:
                about = f"with {number} {units}, " * (number > 1) + words.format(f"{float(tpr):g}")
                yield claim(about, fpr, tpr, before)
                before = about

    f, units = report.trade_off, UNITS[report.run.unit]
    one = accuracy_chain(f, 1)[0]
    advantage = f"an advantage of at most {float(2 * one - 1):g}"
    if one < 1:
        yield claim(advantage, 1 - one, one)
    for rate in RATES:
        rows = max(ROWS) if rate == ALARM else 1
        rates = detection_chain(f, Fraction(str(rate)), rows)
        yield from linked(rates, f"at {rate:g} false alarms, at most {{}} detected", range(1, rows + 1))
    for parity, before in ((0, None), (1, advantage)):
        rows = max(rows for rows in ROWS if rows % 2 == parity)
        yield from linked(accuracy_chain(f, rows), "right in at most {} of all cases", range(2 + parity, rows + 1, 2), before)
