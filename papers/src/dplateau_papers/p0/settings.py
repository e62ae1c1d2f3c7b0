"""The runs of the ``p0`` entries. The figures of Altschuler and Talwar 2022 (P0) are sketches without numbers: these are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dplateau.audit import Gradient, Instance, random_walks
from dplateau.spec import Cyclic, FixedSize, FullBatch, Run, Sampling, Shuffled

DELTA: Final = 1e-5
ORDER: Final = 8.0
"""The order of the Renyi divergences that are shown."""
N: Final = 1000


@dataclass(frozen=True)
class Setting:
    """A run of any length.

    Attributes
    ----------
    name : str
        Ours.
    run : Run
        With one step.
    """

    name: str
    run: Run

    @property
    def burn_in(self) -> float:
        """T_bar = D n / (L eta)."""
        assert isinstance(self.run.step_size, float)
        return (self.run.diameter or 0.0) * self.run.n / (self.run.clip_norm * self.run.step_size)


def bounded(
    sampling: Sampling, noise: float, diameter: float, *, n: int = N, step_size: float = 1.0, convexity: float = 0.0, steps: int = 1
) -> Run:
    """Losses of Lipschitz constant and smoothness 1 on a bounded set, the last iterate released, one record replaced."""
    return Run(
        n=n,
        sampling=sampling,
        steps=steps,
        noise_multiplier=noise,
        step_size=step_size,
        smoothness=1.0,
        strong_convexity=convexity,
        diameter=diameter,
        adjacency="replace",
        released="last",
    )


FIGURE_1: Final = (
    Setting("the plateau pays", bounded(FixedSize(100), 20.0, 2.0)),
    Setting("it comes too late", bounded(FixedSize(100), 20.0, 10.0)),
    Setting("little noise", bounded(FixedSize(10), 1.0, 5.0)),
)
"""Batches drawn at random, convex losses."""
FIGURE_1_STEPS: Final = (1, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)

SCHEMES: Final[tuple[tuple[str, Sampling, float], ...]] = (
    ("random", FixedSize(100), 20.0),
    ("cyclic", Cyclic(100), 20.0),
    ("shuffled", Shuffled(100), 20.0),
    ("full", FullBatch(), 200.0),
)
"""Name, batches and noise multiplier: the noise on the mean gradient is the same in all."""
CONVEXITY: Final = 0.01
FIGURE_2: Final = {
    convexity: tuple(Setting(name, bounded(batches, z, 2.0, convexity=convexity)) for name, batches, z in SCHEMES)
    for convexity in (0.0, CONVEXITY)
}
"""By strong convexity."""
FIGURE_2_STEPS: Final = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
"""Whole epochs of ten batches."""


def turned_walks(run: Run) -> Instance:
    """Theorem 4.1's walks with both slopes: L in one data set, -L in the other, all other losses without slope."""
    walks = random_walks(run)
    up, down = (Gradient(0.0, sign * run.clip_norm) for sign in (1, -1))
    return Instance(up, down, position=walks.position, l2=walks.l2)
