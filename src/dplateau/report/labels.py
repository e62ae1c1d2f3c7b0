"""Where the labels of a chart stand: beside what they name, where they cover neither a line, nor another label, nor an edge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

_LETTER, _HEIGHT = 7.5, 15.0
"""Size of a letter, in pixels: rather too large than too small, since fonts differ."""
_ABOVE: Final = ((-8.0, -8.0, "end"), (0.0, -11.0, "middle"), (8.0, -8.0, "start"), (-8.0, -24.0, "end"), (0.0, -26.0, "middle"))
_BELOW: Final = ((9.0, 17.0, "start"), (-9.0, 17.0, "end"), (9.0, 34.0, "start"), (-9.0, 34.0, "end"))
"""Pixels to the right and downwards from a point, and which end of the text is there; the first ones are preferred."""
_COVERED, _CROSSED, _OUTSIDE = 1.0, 25.0, 3.0
"""What a pixel of another label, a point of a line, and a pixel beyond the edge count."""
_FURTHER, _TURNED, _OPPOSITE = 2.0, 5.0, 150.0
"""What each later point, each later corner, and the other side of a line count."""

Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def shared(self, other: Box) -> float:
        """The area that both have."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(across, 0.0) * max(down, 0.0)

    def has(self, point: Point) -> bool:
        """Whether a point lies inside."""
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


class Placed(NamedTuple):
    """A label: the point of its text, and which end of the text is there."""

    x: float
    y: float
    anchor: str


class Wanted(NamedTuple):
    """A label that has no place yet: the points that it may stand beside, the preferred first, and on which side of them."""

    points: Sequence[Point]
    words: str
    below: bool = False


def labels(wanted: Iterable[Wanted], marks: Sequence[Point], frame: Box) -> list[Placed]:
    """Places for labels, each the best that those before it have left.

    Parameters
    ----------
    wanted : iterable of Wanted
        The labels, in pixels.
    marks : sequence of (float, float)
        What no label should cover: points of lines, dots.
    frame : Box
        Where all of them should be.
    """
    found: list[Placed] = []
    taken: list[Box] = []
    for points, words, below in wanted:
        both = (_BELOW, _ABOVE) if below else (_ABOVE, _BELOW)
        sides = [(_OPPOSITE * k + _TURNED * j, one) for k, side in enumerate(both) for j, one in enumerate(side)]
        choices: list[tuple[float, Placed, Box]] = []
        for (k, (x, y)), (cost, (right, down, anchor)) in product(enumerate(points), sides):
            place = Placed(x + right, y + down, anchor)
            box = _box(place, words)
            choices.append((_cost(box, taken, marks, frame) + _FURTHER * k + cost, place, box))
        _, place, box = min(choices)
        found.append(place)
        taken.append(box)
    return found


def _box(at: Placed, words: str) -> Box:
    width = _LETTER * len(words)
    left = at.x - {"start": 0.0, "middle": width / 2, "end": width}[at.anchor]
    return Box(left, at.y - 0.8 * _HEIGHT, left + width, at.y + 0.2 * _HEIGHT)


def _cost(box: Box, taken: Sequence[Box], marks: Sequence[Point], frame: Box) -> float:
    area = (box.right - box.left) * (box.bottom - box.top)
    covered, crossed = sum(box.shared(one) for one in taken), sum(map(box.has, marks))
    return _COVERED * covered + _CROSSED * crossed + _OUTSIDE * (area - box.shared(frame))
