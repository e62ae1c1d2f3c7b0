"""What a run's trade-off function says of attackers, as claims about an epsilon and a delta.

If a release is (epsilon, delta)-private, an attack that is wrongly alarmed with probability ``fpr`` is rightly alarmed with at most
``tpr = e^epsilon fpr + delta``. The same of the attack that is alarmed where the first one is not:
``1 - fpr <= e^epsilon (1 - tpr) + delta``. So one epsilon with its delta proves a true-positive rate. Their sum,
``(e^epsilon + 1)(tpr - fpr) <= 2 delta + e^epsilon - 1``, proves an advantage A if delta is at most what the rates ``(1 - A)/2``
and ``(1 + A)/2`` leave for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final, NamedTuple

from dplateau._account import Report
from dplateau.accounting.attack import RATES, advantage, true_positive_rate
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs import TradeOff, trade_off
from dplateau.accounting.trade_offs.of_guarantee import members_of

DIGITS: Final = 5
"""Numbers about attackers are proved as they are with so many digits, rounded up: pages show fewer."""


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
    """

    about: str
    share: Fraction
    most: Fraction
    epsilon: float
    bound: str
    chosen_for: float


def attack_claims(report: Report) -> Iterator[AttackClaim]:
    """The true-positive rates of a certificate's page, and the advantage; none that is 1, which says nothing.

    Parameters
    ----------
    report : Report
        Of the certificate's run.
    """
    members = [
        (trade_off(member), bound.name, delta) for bound in report.leading for member, delta in members_of(bound.guarantee).items()
    ]

    def decided(value: Callable[[TradeOff], float]) -> tuple[TradeOff, str, float]:
        return min(members, key=lambda member: value(member[0]))

    found = rounded_up(advantage(report.trade_off), DIGITS)
    if float(found) < 1:
        f, bound, delta = decided(advantage)
        share, most = (1 - Fraction(found)) / 2, (1 + Fraction(found)) / 2
        yield AttackClaim(f"an advantage of at most {found}", share, most, abs(f.deciding(float(share))), bound, delta)
    for rate in RATES:
        found = rounded_up(true_positive_rate(report.trade_off, rate), DIGITS)
        if not float(found) < 1:
            continue
        f, bound, delta = decided(lambda f, rate=rate: -f(rate))
        epsilon, share, most = f.deciding(rate), Fraction(str(rate)), Fraction(found)
        if epsilon < 0:
            share, most = 1 - most, 1 - share
        yield AttackClaim(f"at {rate:g} false alarms, at most {found} detected", share, most, abs(epsilon), bound, delta)
