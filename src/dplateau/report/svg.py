"""Line charts as SVG: a few kilobytes each, in the colours of the page, readable without scripts.

``pages/charts.js`` adds readings for the pointer; what it says stands in ``data-say`` of the dots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup, escape

WIDTH, HEIGHT = 480, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 40, 14, 50
Point = tuple[float, float]
Corner = Literal["upper left", "upper right", "lower left", "lower right"]
_PLACED: Final[dict[Corner, tuple[int, int, str]]] = {
    "upper left": (-8, -8, "end"),
    "upper right": (8, -8, "start"),
    "lower left": (-9, 17, "end"),
    "lower right": (9, 17, "start"),
}
"""Where a text lies beside its point: pixels to the right and downwards, and which end of it is there."""


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes
    ----------
    title : str
        What it measures, with its unit.
    low, high : float
        Its ends. A logarithmic axis may run downwards.
    ticks : sequence of (float, str)
        Marked values, and what stands there.
    log : bool
        Whether it is logarithmic.
    """

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies, from 0 at ``low`` to 1 at ``high``; what is outside lies at the end."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = (math.log(value) if value > 0 else -math.inf) if self.log else value
        return min(max((at - low) / (high - low), 0.0), 1.0)


@dataclass(frozen=True)
class Line:
    """A line, and its name, which stands beside one of its points.

    Attributes
    ----------
    points : sequence of (float, float)
        In order.
    name : str
        What it shows.
    at : int
        The number of the point that the name stands at.
    side : {"upper left", "upper right", "lower left", "lower right"}
        On which side of it.
    quiet : bool
        Whether it is what the other lines are compared with: dotted.
    """

    points: Sequence[Point]
    name: str
    at: int
    side: Corner = "upper left"
    quiet: bool = False


@dataclass(frozen=True)
class Dot:
    """A reading: where it is, what stands beside it, and what the pointer reads there."""

    at: Point
    text: str
    say: str
    side: Corner = "upper left"


def chart(x: Axis, y: Axis, lines: Sequence[Line], dots: Sequence[Dot], readings: Sequence[tuple[Point, str]] = ()) -> Markup:
    """The chart as an ``svg`` element that assistive technology skips: its figure has a label, and a table of its numbers.

    Parameters
    ----------
    x, y : Axis
        The axes.
    lines : sequence of Line
        The ground between the first two is shaded.
    dots : sequence of Dot
        Marked readings.
    readings : sequence of ((float, float), str)
        More points that the pointer reads.
    """

    def place(point: Point) -> tuple[str, str]:
        across, up = x.share(point[0]), y.share(point[1])
        return f"{_LEFT + across * (WIDTH - _LEFT - _RIGHT):.1f}", f"{HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM):.1f}"

    def path(points: Sequence[Point]) -> str:
        return "L".join(" ".join(place(point)) for point in points)

    def text(point: Point, words: str, side: Corner, kind: str) -> Markup:
        (across, down), (right, lower, anchor) = place(point), _PLACED[side]
        return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
            kind, float(across) + right, float(down) + lower, anchor, words
        )

    parts: list[str] = []
    for value, words in x.ticks:
        across, _ = place((value, y.low))
        parts.append(f'<path class="grid" d="M{across} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{across}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{escape(words)}</text>')
    for value, words in y.ticks:
        _, down = place((x.low, value))
        parts.append(f'<path class="grid" d="M{_LEFT} {down}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 7}" y="{float(down) + 4.5:.1f}" text-anchor="end">{escape(words)}</text>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2, (_TOP + HEIGHT - _BOTTOM) / 2
    parts.append(f'<text class="axis" x="{middle[0]}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.title)}</text>')
    parts.append(
        f'<text class="axis" transform="translate(14 {middle[1]}) rotate(-90)" text-anchor="middle">{escape(y.title)}</text>'
    )
    if len(lines) > 1:
        parts.append(f'<path class="shade" d="M{path([*lines[0].points, *reversed(lines[1].points)])}Z"/>')
    parts += [f'<path class="{"quiet-line" if line.quiet else "main-line"}" d="M{path(line.points)}"/>' for line in lines]
    parts += [
        text(line.points[line.at], line.name, line.side, "quiet-name" if line.quiet else "name") for line in lines if line.name
    ]
    for point, say in readings:
        parts.append(_dot("reading", place(point), say, 7))
    for dot in dots:
        parts.append(_dot("dot", place(dot.at), dot.say, 5))
        parts.append(text(dot.at, dot.text, dot.side, "value"))
    return Markup('<svg class="chart" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>').format(
        WIDTH, HEIGHT, Markup("".join(parts))
    )


def _dot(kind: str, at: tuple[str, str], say: str, radius: int) -> str:
    return f'<circle class="{kind}" cx="{at[0]}" cy="{at[1]}" r="{radius}" data-say="{escape(say)}"/>'
