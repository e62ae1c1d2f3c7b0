"""The two figures of a certificate's page, and the numbers that stand beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

from markupsafe import Markup

from dplateau._account import Report
from dplateau.accounting.attack import ALARM, ROWS, accuracy_chain, detection_chain
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs import TradeOff
from dplateau.certificate.make import DELTAS
from dplateau.report.page_words import one_in
from dplateau.report.svg import Axis, Dot, Line, chart
from dplateau.report.trade_off import ALPHAS, Attack, detected
from dplateau.report.words import percent
from dplateau.spec.promise import WEAK

BETWEEN: Final = tuple(float(f"{digit}e-{k}") for k in range(4, 13) for digit in (2, 5))
"""Deltas between those of the certificate's curve, so that its line is smooth."""
_LEAST: Final = 0.0005
"""Where both axes of the attacker's figure begin."""
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ENDS: Final = 0.05, 50.0
STRONG: Final = 1.0
"""Up to here an epsilon counts as strong: Ponomareva and others, "How to DP-fy ML" (2023), who say "weak" above 10, as we do."""


def epsilon_curve(report: Report) -> list[tuple[float, float]]:
    """Deltas, falling, and the least proved epsilon at each: those of every certificate, the chosen one, and some between them.

    What holds at a delta holds at larger ones. So the curve goes through the chosen point also where another bound gives that one.
    """
    deltas = sorted({*DELTAS, *BETWEEN, report.delta})
    epsilons = [found.upper for found in report.profile(deltas)]
    at = deltas.index(report.delta)
    epsilons[at] = min(epsilons[at], report.epsilon)
    return list(zip(deltas, accumulate(epsilons, min), strict=True))[::-1]


def epsilon_table(report: Report, curve: list[tuple[float, float]]) -> list[dict[str, Any]]:
    """The points that a certificate holds, in words."""
    return [
        {"delta": one_in(delta), "epsilon": shown(epsilon), "chosen": delta == report.delta}
        for delta, epsilon in curve
        if delta in DELTAS or delta == report.delta
    ]


def epsilon_figure(report: Report, curve: list[tuple[float, float]]) -> Markup:
    """Epsilon against delta, the chosen point marked."""
    finite = [(delta, epsilon) for delta, epsilon in curve if math.isfinite(epsilon)]
    deltas = [delta for delta, _ in curve]
    most = 1.12 * max(epsilon for _, epsilon in finite) or 1.0
    decades = math.floor(-math.log10(min(deltas)) + 1e-9)
    every = 3 if decades <= 12 else math.ceil(decades / 3.5)
    ticks = [(float(f"1e-{k}"), f"1 in {10**k:,}" if k < 4 else f"1 in {_power(k)}") for k in range(every, decades + 1, every)]
    readings = [((delta, epsilon), _pair(delta, epsilon)) for delta, epsilon in finite]
    chosen = Dot(
        (report.delta, report.epsilon),
        f"chosen: {rounded_up(report.epsilon, 3)}",
        _pair(report.delta, report.epsilon),
    )
    return chart(
        Axis("delta", min(deltas) / 1.5, 1.5 * max(deltas), ticks, log=True),
        Axis(*_units("epsilon, at most", most)),
        [Line(finite, "")],
        [chosen],
        readings,
    )


def _units(title: str, most: float) -> tuple[str, float, float, list[tuple[float, str]]]:
    """An axis from 0 to ``most``: some four to eight round numbers, in units of a power of ten where they would be long."""
    step = 10.0 ** math.floor(math.log10(most / 4))
    step *= next(part for part in (1, 2, 5, 10) if most / (part * step) <= 8)
    power = 0 if 1e-3 <= most < 1e4 else math.floor(math.log10(most))
    unit = 10.0**power
    ticks = [(k * step, f"{k * step / unit:.4g}") for k in range(int(most / step) + 1)]
    return (f"{title} (\N{MULTIPLICATION SIGN} {_power(power)})" if power else title), 0.0, most, ticks


def _power(exponent: int) -> str:
    """A power of ten."""
    return f"10{str(exponent).translate(_RAISED)}"


def attack_figure(f: TradeOff, attack: Attack, rates: Sequence[tuple[float, float]]) -> Markup:
    """The most that an attacker detects, against the false alarms that it accepts; both axes logarithmic."""
    alphas = [_LEAST, *(float(alpha) for alpha in ALPHAS if alpha > _LEAST)]
    most = detected(f, alphas)
    ticks = [(share, _rate(share)) for share in (0.001, 0.01, 0.1, 1.0)]
    readings = [(at, _detects(*at)) for at in rates]
    return chart(
        Axis("false alarms", _LEAST, 1.0, ticks, log=True),
        Axis("detected", _LEAST, 1.0, ticks, log=True),
        [
            Line(most, "the most that any attack detects"),
            Line([(alpha, alpha) for alpha in alphas], "blind guessing", quiet=True),
        ],
        [Dot(at, percent(at[1], 2 if at[1] < ALARM else 1), _detects(*at)) for at in attack.detects],
        readings,
    )


def attack_table(rates: Sequence[tuple[float, float]]) -> list[tuple[str, str]]:
    """False alarms, and the most that is detected, in words."""
    return [(_rate(rate), percent(true, 2 if rate < ALARM else 1)) for rate, true in rates]


def group_table(f: TradeOff) -> list[dict[str, str]]:
    """What an attacker finds out at most about somebody with several rows, who is told from somebody without any."""
    chain = detection_chain(f, Fraction(str(ALARM)), max(ROWS))
    return [
        {"rows": str(rows), "detected": percent(float(chain[rows])), "accuracy": percent(float(accuracy_chain(f, rows)[-1]))}
        for rows in ROWS
    ]


def strength(epsilon: float) -> dict[str, Any]:
    """Where an epsilon lies on a strip from 0.05 to 50, in per cent of its length, and what it counts as."""

    def place(value: float) -> float:
        low, high = _ENDS
        return round(100 * math.log(min(max(value, low), high) / low) / math.log(high / low), 1)

    at = min(max(place(epsilon), 0.5), 99.5)
    return {
        "word": "strong" if epsilon <= STRONG else "moderate" if epsilon <= WEAK else "weak",
        "place": at,
        "side": "left" if at < 20 else "right" if at > 80 else "middle",
        "marks": [(place(value), f"{value:g}") for value in (0.1, STRONG, WEAK)],
    }


def _pair(delta: float, epsilon: float) -> str:
    return f"epsilon {shown(epsilon)} at delta {one_in(delta)}"


def _detects(false: float, true: float) -> str:
    return f"{_rate(false)} false alarms: detects at most {percent(true, 2)}"


def _rate(rate: float) -> str:
    """A false-positive rate in per cent, as it is."""
    return f"{100 * rate:.4g} %"


def shown(value: float) -> str:
    """An epsilon in words."""
    return rounded_up(value) if math.isfinite(value) else "none"
