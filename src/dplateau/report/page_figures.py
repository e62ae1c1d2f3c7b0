"""The two figures of a certificate's page, described for ``pages/figures.js``, and the numbers that stand beside them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dplateau._account import Report
from dplateau.accounting.attack import accuracy, true_positive_rate
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs import TradeOff
from dplateau.certificate.make import DELTAS
from dplateau.report.trade_off import ALARM, ALPHAS, Attack
from dplateau.report.words import percent

BETWEEN: Final = tuple(float(f"{digit}e-{k}") for k in range(4, 13) for digit in (2, 5))
"""Deltas between those of the certificate's curve, so that its line is smooth."""
RATES: Final = (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""False-positive rates in the table below the figure."""
ROWS_OF_ONE: Final = (1, 2, 5, 10)
"""How many rows one person might have."""
ROOM: Final = 1e-11
"""What a trade-off function may be above the truth, by rounding."""
NONE: Final = "none"
"""In place of an infinite epsilon."""


def epsilon_curve(report: Report) -> list[tuple[float, float]]:
    """Deltas, falling, and the least proved epsilon at each: those of every certificate, the chosen one, and some between them."""
    deltas = sorted({*DELTAS, *BETWEEN, report.delta}, reverse=True)
    return [(delta, found.upper) for delta, found in zip(deltas, report.profile(deltas), strict=True)]


def epsilon_table(report: Report, curve: list[tuple[float, float]]) -> list[dict[str, Any]]:
    """The points that a certificate holds, in words."""
    return [
        {"delta": f"{delta:g}", "epsilon": shown(epsilon), "chosen": delta == report.delta}
        for delta, epsilon in curve
        if delta in DELTAS or delta == report.delta
    ]


def epsilon_figure(report: Report, curve: list[tuple[float, float]]) -> dict[str, Any]:
    """Epsilon against delta, the chosen point marked."""
    finite = [(delta, epsilon) for delta, epsilon in curve if math.isfinite(epsilon)]
    deltas = [delta for delta, _ in curve]
    return {
        "x": {"title": "delta", "log": True, "exponents": True, "range": [min(deltas) / 1.5, 1.5 * max(deltas)]},
        "y": {"title": "epsilon, at most", "range": [0, 1.12 * max(epsilon for _, epsilon in finite) or 1.0]},
        "lines": [
            {
                "name": "certified",
                "x": [delta for delta, _ in finite],
                "y": [epsilon for _, epsilon in finite],
                "text": [_pair(report, delta, epsilon) for delta, epsilon in finite],
                "hover": "%{text}",
            },
            {
                "name": "the chosen point",
                "x": [report.delta],
                "y": [report.epsilon],
                "text": [_pair(report, report.delta, report.epsilon)],
                "hover": "%{text}",
                "only": "markers",
                "size": 12,
                "symbol": "diamond",
                "colour": "series-2",
            },
        ],
    }


def attack_figure(f: TradeOff, attack: Attack) -> dict[str, Any]:
    """The most that an attacker detects, against the false alarms that it accepts; both in per cent."""
    alarms = [100 * float(alpha) for alpha in ALPHAS]
    detected = [_up(100 * (1 - max(float(beta) - ROOM, 0.0))) for beta in np.asarray(f(ALPHAS))]
    percents = {"range": [0, 100.5], "ticks": list(range(0, 101, 20)), "labels": [f"{tick} %" for tick in range(0, 101, 20)]}
    return {
        "x": {"title": "false alarms", **percents},
        "y": {"title": "detected, at most", **percents},
        "lines": [
            {
                "name": "perfect privacy: no better than chance",
                "x": alarms,
                "y": alarms,
                "colour": "quiet",
                "dash": "dot",
                "width": 1.5,
                "hover": "perfect privacy: as many detected as false alarms",
            },
            {
                "name": "the most that any attack achieves",
                "x": alarms,
                "y": detected,
                "fill": "next",
                "text": [_detects(alarm / 100, share / 100) for alarm, share in zip(alarms, detected, strict=True)],
                "hover": "%{text}",
            },
            {
                "name": "read in the table",
                "x": [100 * false for false, _ in attack.detects],
                "y": [100 * true for _, true in attack.detects],
                "text": [_detects(false, true) for false, true in attack.detects],
                "hover": "%{text}",
                "only": "markers",
                "colour": "series-2",
                "size": 8,
            },
        ],
    }


def attack_table(f: TradeOff) -> list[tuple[str, str]]:
    """False alarms, and the most that is detected."""
    return [(_rate(rate), percent(true_positive_rate(f, rate))) for rate in RATES]


def group_table(f: TradeOff) -> list[dict[str, str]]:
    """What an attacker finds out at most about somebody with several rows, who is told from somebody without any."""
    table: list[dict[str, str]] = []
    for rows in ROWS_OF_ONE:
        together = f if rows == 1 else f.group(rows)
        detected, right = true_positive_rate(together, ALARM), min(accuracy(together), 1.0)
        table.append({"rows": str(rows), "detected": percent(min(detected, 1.0)), "accuracy": percent(right)})
    return table


def _pair(report: Report, delta: float, epsilon: float) -> str:
    """A point of the line; the chosen one says the same whether the pointer finds the line or the mark on it."""
    return f"{'chosen: ' if delta == report.delta else ''}epsilon {shown(epsilon)} at delta {delta:g}"


def _detects(false: float, true: float) -> str:
    return f"{_rate(false)} false alarms: detects at most {percent(true, 2)}"


def _rate(rate: float) -> str:
    """A false-positive rate in per cent, as it is."""
    return f"{100 * rate:.4g} %"


def shown(value: float) -> str:
    """An epsilon in words."""
    return rounded_up(value) if math.isfinite(value) else NONE


def _up(value: float) -> float:
    """Four digits after the point, upwards."""
    return min(math.ceil(1e4 * value) / 1e4, 100.0)
