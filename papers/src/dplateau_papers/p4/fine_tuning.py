"""The ways to train of ``p4-table3``, and their runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Final

from dplateau.calibration import calibrate
from dplateau.spec import Poisson, Run

IMAGES: Final = 60_000
"""Training images of MNIST."""
BATCH: Final = 1024
EPOCHS: Final = 5
MOMENTUM: Final = 0.9
EPSILON: Final = 1.0
DELTA: Final = 1e-5
HEAD: Final = "output layer"
BLOCK: Final = "second convolution too"
GRID: Final[dict[tuple[str, bool], dict[float | None, tuple[float, ...]]]] = {
    (HEAD, False): {None: (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)},
    (BLOCK, False): {None: (0.1, 0.25, 0.5, 1.0, 2.0)},
    (HEAD, True): {0.5: (1.0, 2.0, 4.0, 8.0, 16.0, 32.0), 1.0: (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)},
    (BLOCK, True): {0.5: (0.5, 1.0), 1.0: (0.25, 0.5, 1.0, 2.0, 4.0)},
}
"""The step sizes that were tried with each clip norm, for what is trained, with privacy or without."""
PRINTED: Final = {(HEAD, False): 70.7, (BLOCK, False): 77.0, (HEAD, True): 68.0, (BLOCK, True): 67.8}
"""Tables 1 and 3 of the paper: ResNet18 on CIFAR-10, 30 epochs."""


@dataclass(frozen=True)
class Row:
    """One way to train.

    Attributes
    ----------
    layers : str
        What is trained: ``HEAD`` or ``BLOCK``.
    private : bool
        With clipping and noise, or without both.
    rate : float
        Step size of momentum SGD.
    clip_norm : float, optional
        Of the gradients, with privacy.
    """

    layers: str
    private: bool
    rate: float
    clip_norm: float | None = None

    @property
    def setting(self) -> dict[str, Any]:
        """What the trainings are kept under; other hyperparameters are other trainings."""
        return asdict(self) | {"epochs": EPOCHS, "batch_size": BATCH}

    @property
    def printed(self) -> float:
        """What the paper has for it, in per cent."""
        return PRINTED[self.layers, self.private]

    def tried(self) -> tuple[Row, ...]:
        """The grid from which this row was chosen."""
        grid = GRID[self.layers, self.private]
        return tuple(replace(self, rate=rate, clip_norm=clip) for clip, rates in grid.items() for rate in rates)


ROWS: Final = (
    Row(HEAD, False, 64.0),
    Row(BLOCK, False, 2.0),
    Row(HEAD, True, 16.0, 0.5),
    Row(BLOCK, True, 1.0, 1.0),
)
"""The best of each grid on 10,000 held-out training images."""


def steps() -> int:
    """The same for all rows."""
    return round(EPOCHS * IMAGES / BATCH)


def batch_size(n: int) -> float:
    """Expected records in a batch of n records: at the same rate for any n, so that it costs the same."""
    return BATCH * n / IMAGES


def run_of(row: Row, n: int) -> Run:
    """The run of a private row, its noise calibrated exactly."""
    run = _calibrated(IMAGES, BATCH, steps())
    return run.replace(n=n, sampling=Poisson(batch_size(n)), clip_norm=row.clip_norm)


@cache
def _calibrated(n: int, batch_size: int, steps: int) -> Run:
    run = Run(n=n, sampling=Poisson(batch_size), steps=steps, noise_multiplier=1.0, clip_norm=1.0, update="post-processed")
    return calibrate(run, epsilon=EPSILON, delta=DELTA)
