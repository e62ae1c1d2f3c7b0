"""Draws plateau-hero.svg, beside this file: the plateau on the home page.

Epsilon against steps for Poisson batches and strongly convex losses, where every step is released and where only the last iterate
is. Every value is certified. The picture is part of its page, so it takes its colours from there: light, dark, and by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from plateau import FOLDER, SAMPLED

from dplateau.accounting.enclosure import rounded_up
from dplateau.report.plateau import plateau

DELTA = 1e-5
RUN = SAMPLED.replace(strong_convexity=0.01)
STEPS = [*range(25, 1_000, 25), *range(1_000, 3_000, 100), *range(3_000, 20_001, 500)]
TOP = 1.8
LEFT, RIGHT, UPPER, LOWER = 40, 500, 20, 236
"""The corners of the axes in a picture of 520 by 290."""


def at(steps: float, epsilon: float) -> str:
    """The place of a number of steps and an epsilon in the picture."""
    x = LEFT + (RIGHT - LEFT) * steps / STEPS[-1]
    return f"{x:.1f} {LOWER - (LOWER - UPPER) * epsilon / TOP:.1f}"


def line(name: str, epsilons: Sequence[float]) -> str:
    """A curve that begins at no steps and no cost."""
    points = zip((0, *STEPS), (0.0, *epsilons), strict=True)
    return f'<path class="{name}" d="M{"L".join(at(steps, epsilon) for steps, epsilon in points)}"/>'


def text(words: str, place: str, anchor: str = "end", kind: str = "axis") -> str:
    """Words at a place, where they end, begin or have their middle."""
    x, y = place.split()
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def picture(every: Sequence[float], last: Sequence[float]) -> str:
    """The file's text."""
    highest, level, end = rounded_up(every[-1], 3), rounded_up(last[-1], 3), STEPS[-1]
    said = (
        f"If every step is released, epsilon grows to {highest} in {end:,} steps. If only the last iterate is, it stays at {level}."
    )
    levels, ticks = (0, 0.5, 1, 1.5), (5_000, 10_000, 15_000)
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 290" class="plateau" role="img">',
        STYLE,
        f"<title>Epsilon against training steps</title>\n<desc>{said}</desc>",
        *(f'<path class="scale" d="M{at(0, value)}L{at(end, value)}"/>' for value in levels),
        *(text(f"{value:g}", at(-300, value - 0.04)) for value in levels),
        *(text(f"{steps:,}", at(steps, -0.16), "middle") for steps in ticks),
        text(f"{end:,}", at(end, -0.16)),
        text("steps", at(end, -0.36)),
        text("epsilon", f"{LEFT} 12", "start"),
        line("every", every),
        line("last", last),
        text(f"every step released: {highest}", at(12_300, 1.56), kind="every"),
        text(f"only the last iterate: {level}", at(end, 0.36), kind="last"),
        "</svg>\n",
    ]
    return "\n".join(lines)


STYLE = """<style>
.plateau .scale { stroke: currentColor; opacity: 0.15; fill: none; }
.plateau .axis { fill: currentColor; opacity: 0.8; font: 14px sans-serif; }
.plateau path.every, .plateau path.last { fill: none; stroke-width: 3; stroke-linejoin: round; }
.plateau path.every { stroke: var(--every, #b8490a); stroke-dasharray: 9 5; }
.plateau path.last { stroke: var(--last, #3f51b5); stroke-width: 4.5; }
.plateau text.every, .plateau text.last { font: bold 16px sans-serif; }
.plateau text.every { fill: var(--every, #b8490a); }
.plateau text.last { fill: var(--last, #3f51b5); }
</style>"""


def main() -> None:
    """Compute both curves and write the file."""
    every, last = (plateau(RUN.replace(released=what), DELTA, STEPS).certified for what in ("all", "last"))
    (FOLDER / "plateau-hero.svg").write_text(picture(every, last), encoding="utf-8")


if __name__ == "__main__":
    main()
