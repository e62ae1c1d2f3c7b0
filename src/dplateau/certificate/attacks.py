"""What a run's trade-off function says of attackers, as claims about an epsilon and a delta.

If a release is (epsilon, delta)-private, an attack that is wrongly alarmed with probability ``fpr`` is rightly alarmed with at most
``tpr = e^epsilon fpr + delta``. The same of the attack that is alarmed where the first one is not: ``1 - fpr <= e^epsilon (1 - tpr)
+ delta``. So one epsilon with its delta proves a true-positive rate; and epsilon 0 proves the advantage, which is its delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from dplateau._account import Report
from dplateau.accounting.attack import RATES, advantage, true_positive_rate
from dplateau.accounting.trade_offs import TradeOff, trade_off
from dplateau.accounting.trade_offs.of_guarantee import members_of


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

    most = advantage(report.trade_off)
    if most < 1:
        _, bound, delta = decided(advantage)
        yield AttackClaim(f"an advantage of at most {most:.8g}", Fraction(0), Fraction(most), 0.0, bound, delta)
    for rate in RATES:
        true = true_positive_rate(report.trade_off, rate)
        if true >= 1:
            continue
        f, bound, delta = decided(lambda f, rate=rate: -f(rate))
        epsilon, share, most = f.deciding(rate), Fraction(rate), Fraction(true)
        if epsilon < 0:
            share, most = 1 - most, 1 - share
        about = f"at most {true:.8g} detected with a share of {rate:g} false alarms"
        yield AttackClaim(about, share, most, abs(epsilon), bound, delta)
