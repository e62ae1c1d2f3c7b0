"""Draws plateau-cyclic.svg and plateau-sampled.svg, beside this file.

They show the settings of Figures 1 and 2 of Altschuler and Talwar 2022: composition against the last iterate, for convex and for
strongly convex losses, with batches in a fixed order and with random ones. Every value is certified.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import dplateau as dp
from dplateau.report.plateau import Line, plateau
from dplateau.report.plateau_picture import plot_plateau

FOLDER = Path(__file__).parent
CYCLIC = dp.Run(
    n=60_000,
    sampling=dp.Cyclic(batch_size=1_500),
    steps=40,
    noise_multiplier=5.0,
    step_size=0.5,
    smoothness=1.0,
    diameter=1.0,
    adjacency="replace",
    released="last",
)
SAMPLED = dp.Run(
    n=30_000,
    sampling=dp.Poisson(batch_size=256),
    steps=1,
    noise_multiplier=3.0,
    step_size=1.0,
    smoothness=1.0,
    diameter=2.0,
    released="last",
)
SETTINGS = {
    "composition": {"released": "all"},
    "last iterate, convex": {"strong_convexity": 0.0},
    "last iterate, strongly convex": {"strong_convexity": 0.01},
}


def draw(name: str, run: dp.Run, steps: list[int]) -> None:
    """One picture: the certified epsilon in each setting."""
    found = {setting: plateau(run.replace(**change), 1e-5, steps) for setting, change in SETTINGS.items()}
    lines = tuple(Line(setting, "Proved", each.certified) for setting, each in found.items())
    plot_plateau(replace(found["last iterate, convex"], lines=lines), FOLDER / name)


if __name__ == "__main__":
    draw("plateau-cyclic.svg", CYCLIC, [40 * round(epochs) for epochs in np.geomspace(1, 25_000, 40)])
    draw("plateau-sampled.svg", SAMPLED, [round(count) for count in np.geomspace(30, 1_000_000, 40)])
