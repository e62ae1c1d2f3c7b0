"""What a trade-off function says about an attacker, in words that need no mathematics.

The attacker knows all other records, sees what was released, and tells one of two neighbouring data sets from the other: an alarm
says "the record is there". The *false-positive rate* is how often the alarm is wrong where the record is absent, the *true-positive
rate* how often it is raised where the record is present. No attack has more than ``1 - f(false-positive rate)``.

Source: Dong, Roth, Su 2022, section 2; Kulynych, Gomez, Kaissis, Calmon, Troncoso, "Attack-aware noise calibration" (NeurIPS 2024).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs.base import TradeOff, rounded_down
from dplateau.spec import InputError
from dplateau.spec.arguments import integer, of_type, real

RATES: Final = (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""False-positive rates of tables."""
ALARM: Final = 0.01
"""The one of sentences."""
ROWS: Final = (1, 2, 5, 10)
"""How many rows one person might have."""
DIGITS: Final = 5
"""Rates that follow from each other are rounded up to so many digits, so that a proof takes them as they are."""


def _checked(f: Any) -> TradeOff:
    return of_type("f", f, TradeOff, ", such as account(run).trade_off")


def true_positive_rate(f: TradeOff, false_positive_rate: float) -> float:
    """The largest true-positive rate at a false-positive rate: ``1 - f(alpha)``, rounded up.

    Parameters
    ----------
    f : TradeOff
        Of the release.
    false_positive_rate : float
        In [0, 1].
    """
    rate = real("false_positive_rate", false_positive_rate, inclusive=True, high=1.0)
    return 1 - _checked(f).enclosure(rate).lower


def advantage(f: TradeOff) -> float:
    """The largest difference of the two rates, the total variation distance ``delta(0)``, rounded up. 1 is certainty."""
    found = max(_checked(f).delta(0.0), f.inverse.delta(0.0))
    return 1 - rounded_down(1 - found) if found else 0.0


def accuracy(f: TradeOff) -> float:
    """The largest share of right answers where the record is present in one half of all cases: ``(1 + advantage)/2``."""
    return (1 + advantage(f)) / 2


def detection_chain(f: TradeOff, false_positive_rate: Fraction, rows: int) -> tuple[Fraction, ...]:
    """The largest true-positive rates where two data sets differ in 1, 2, ... rows, after the false-positive rate itself.

    One row after the other comes in: what is detected of the first ones is a false alarm about the next one. A rate is rounded up
    to ``DIGITS`` digits before the next one follows from it.

    Parameters
    ----------
    f : TradeOff
        For one row, whichever of two neighbouring data sets is the null hypothesis.
    false_positive_rate : Fraction
        In [0, 1].
    rows : int
        How many.

    Returns
    -------
    tuple of Fraction
        ``rows + 1`` of them.
    """
    rate = false_positive_rate
    rates = [rate if isinstance(rate, Fraction) else Fraction(real("false_positive_rate", rate, inclusive=True, high=1.0))]
    for _ in range(integer("rows", rows, low=0)):
        rates.append(Fraction(rounded_up(true_positive_rate(f, float(rates[-1])), DIGITS)))
    return tuple(rates)


def accuracy_chain(f: TradeOff, rows: int) -> tuple[Fraction, ...]:
    """The largest shares of right answers where two data sets differ in ``rows`` rows, two less, and so on: rising.

    That for two rows more is the largest true-positive rate at a false-positive rate of that for two less
    (``docs/proofs/trade-offs.md``, section 4). It starts with 1/2, for no row, or with that for one row.

    Parameters
    ----------
    f : TradeOff
        For one row, whichever of two neighbouring data sets is the null hypothesis.
    rows : int
        How many.
    """
    first = (1 + Fraction(rounded_up(advantage(f), DIGITS))) / 2 if integer("rows", rows, low=0) % 2 else Fraction(1, 2)
    return detection_chain(f, first, rows // 2)


def posterior(f: TradeOff, false_positive_rate: float, prior: float = 0.5) -> float:
    """How sure an attacker can be, after an alarm, that the record is there: the largest posterior probability.

    Parameters
    ----------
    f : TradeOff
        Of the release.
    false_positive_rate : float
        In [0, 1]; of the attack that raised the alarm. At 0 the answer is 1 unless f(0) = 1.
    prior : float, default 0.5
        How sure the attacker was before, in (0, 1).

    Returns
    -------
    float
        By Bayes' rule ``prior tpr / (prior tpr + (1 - prior) fpr)``; the prior itself where there is never an alarm. The posterior
        odds are the prior odds times ``tpr / fpr``.
    """
    tpr, fpr = true_positive_rate(f, false_positive_rate), float(false_positive_rate)
    if real("prior", prior) >= 1:
        raise InputError(f"prior is {prior:g}: expected a number in (0, 1).")
    alarms = prior * tpr + (1 - prior) * fpr
    return prior * tpr / alarms if alarms > 0 else prior
