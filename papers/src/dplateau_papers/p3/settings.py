"""The runs of ``p3-table1``, ``-table2``, ``-table3`` and ``-figure4``, and what an entry shows of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from dplateau.calibration import calibrate
from dplateau.spec import Poisson, Run
from dplateau_papers.page import Table
from dplateau_papers.records import Records, Setting

IMAGES: Final = 60_000
"""Training images of MNIST and of Fashion-MNIST."""
BATCH: Final = 512
DELTA: Final = 1e-5
EPOCHS: Final = (10, 40)
CLIPS: Final = (1.0, 5.0)
BUDGETS: Final = (0.01, 0.05)
METHODS: Final = ("DP", "ADP")
LINEAR: Final = "linear"
POLYNOMIAL: Final = "polynomial"
GROWTHS: Final = (0.0, 1e-5, 1e-3, 1e-2, 1e-1, 5e-1)
NOISES: Final = (1.6, 3.2, 6.4, 12.8)
FALLING_EPOCHS: Final = 50
B0_SQUARED: Final = 20.0
ADAGRAD_EPOCHS: Final = 10
ADAGRAD_CLIPS: Final = (1.0, 2.5)
ADAGRAD_GROWTHS: Final = (1e-4, 1.0)
"""Two of the paper's six values of C."""


@dataclass(frozen=True)
class Experiment:
    """Trainings that one entry shows.

    Attributes
    ----------
    name, title : str
        Of the entry, and of its page.
    data : str
        The data set.
    settings : tuple of dict
        What is trained, as it is written into the records.
    run : callable
        The run for a setting.
    tables : callable
        Tables of what is in the records.
    b0_squared : float, optional
        Steps of AdaGrad-norm.
    """

    name: str
    title: str
    data: str
    settings: tuple[Setting, ...]
    run: Callable[[Setting], Run]
    tables: Callable[[Records], tuple[Table, ...]]
    b0_squared: float | None = None


def compared(schedule: str, method: str, epochs: int, clip_norm: float, epsilon: float) -> Run:
    """A run of ADP-SGD or DP-SGD, its noise calibrated as a whole."""
    from dplateau.algorithms import adapted_noise, polynomial_decay, square_root_decay

    steps = round(epochs * IMAGES / BATCH)
    sizes = square_root_decay(steps, 0.1, 1e-10) if schedule == LINEAR else polynomial_decay(steps, 20, 1)
    noise = adapted_noise(sizes) if method == "ADP" else 1.0
    run = Run(n=IMAGES, sampling=Poisson(BATCH), steps=steps, noise_multiplier=noise, clip_norm=clip_norm, step_size=sizes)
    return _calibrated(run, epsilon)


def falling(growth: float, noise: float) -> Run:
    """A run of section F.3: steps 1 / sqrt(2 + c t)."""
    from dplateau.algorithms import polynomial_decay

    steps = round(FALLING_EPOCHS * IMAGES / BATCH)
    sizes = polynomial_decay(steps, 2, growth)
    return Run(n=IMAGES, sampling=Poisson(BATCH), steps=steps, noise_multiplier=noise, step_size=sizes)


def adagrad(growth: float | None, clip_norm: float, epsilon: float) -> Run:
    """A run of section 6.2, whose steps are computed from noisy gradients; no growth: equal noise."""
    from dplateau.algorithms import adagrad_noise

    steps = round(ADAGRAD_EPOCHS * IMAGES / BATCH)
    noise = 1.0 if growth is None else adagrad_noise(steps, B0_SQUARED**0.5, growth)
    sampling = Poisson(BATCH)
    run = Run(n=IMAGES, sampling=sampling, steps=steps, noise_multiplier=noise, clip_norm=clip_norm, update="post-processed")
    return _calibrated(run, epsilon)


@cache
def _calibrated(run: Run, epsilon: float) -> Run:
    return calibrate(run, epsilon=epsilon, delta=DELTA)
