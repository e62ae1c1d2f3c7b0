"""Line charts as SVG: a few kilobytes each, in the colours of the page, readable without scripts.

``pages/charts.js`` adds readings for the pointer; what it says stands in ``data-say`` of the dots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from dplateau.report.labels import Box, Point, Wanted, labels

WIDTH, HEIGHT = 480, 330
_SPOTS, _APART = 24, 6.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 40, 14, 50


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
    """A line, and its name, which stands beside it where there is room.

    Attributes
    ----------
    points : sequence of (float, float)
        In order.
    name : str
        What it shows.
    quiet : bool
        Whether it is what the other lines are compared with: dotted.
    """

    points: Sequence[Point]
    name: str
    quiet: bool = False


@dataclass(frozen=True)
class Dot:
    """A reading: where it is, what stands beside it, and what the pointer reads there."""

    at: Point
    text: str
    say: str


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

    def pixel(point: Point) -> Point:
        across, up = x.share(point[0]), y.share(point[1])
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    def place(point: Point) -> tuple[str, str]:
        across, down = pixel(point)
        return f"{across:.1f}", f"{down:.1f}"

    def path(points: Sequence[Point]) -> str:
        return "L".join(" ".join(place(point)) for point in points)

    parts: list[str] = []
    for value, words in x.ticks:
        across, _ = place((value, y.low))
        parts.append(f'<path class="grid" d="M{across} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        anchor = "start" if x.share(value) < 0.05 else "middle"  # beside the lowest number of the other axis
        parts.append(f'<text class="tick" x="{across}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="{anchor}">{escape(words)}</text>')
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
    parts += [_dot("reading", place(point), say, 7) for point, say in readings]
    parts += [_dot("dot", place(dot.at), dot.say, 5) for dot in dots]
    drawn = [[pixel(point) for point in line.points] for line in lines]
    texts = [("value", Wanted([pixel(dot.at)], dot.text)) for dot in dots]
    for line, points in zip(lines, drawn, strict=True):
        if line.name:
            texts.append(("quiet-name" if line.quiet else "name", Wanted(_sparse(points), line.name, below=line.quiet)))
    marks = [*(point for points in drawn for point in _dense(points)), *(pixel(dot.at) for dot in dots)]
    frame = Box(_LEFT + 2.0, 2.0, WIDTH - 4.0, HEIGHT - _BOTTOM - 4.0)
    for (kind, one), at in zip(texts, labels((one for _, one in texts), marks, frame), strict=True):
        shown = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
        parts.append(shown.format(kind, at.x, at.y, at.anchor, one.words))
    return Markup('<svg class="chart" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>').format(
        WIDTH, HEIGHT, Markup("".join(parts))
    )


def _sparse(points: Sequence[Point]) -> list[Point]:
    """Some points of a line, from its middle on."""
    some = [points[k * (len(points) - 1) // _SPOTS] for k in range(_SPOTS + 1)]
    return sorted(some, key=lambda point: abs(point[0] - WIDTH / 2))


def _dense(points: Sequence[Point]) -> list[Point]:
    """Points of a line that lie at most some pixels apart."""
    found: list[Point] = []
    for (a, b), (c, d) in pairwise(points):
        many = max(1, math.ceil(math.hypot(c - a, d - b) / _APART))
        found += [(a + (c - a) * k / many, b + (d - b) * k / many) for k in range(many + 1)]
    return found


def _dot(kind: str, at: tuple[str, str], say: str, radius: int) -> str:
    return f'<circle class="{kind}" cx="{at[0]}" cy="{at[1]}" r="{radius}" data-say="{escape(say)}"/>'
