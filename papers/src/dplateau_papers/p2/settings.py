"""What Bu, Dong, Long and Su 2020 (P2) print: privacy, and scores. Data, not results: nothing here was computed by this library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from dplateau.spec import Poisson, Run

ORDERS: Final = (*(1 + x / 10 for x in range(1, 100)), *(float(x) for x in range(12, 64)))
"""The orders that the TensorFlow Privacy tutorials of that time try: the paper's discretised domain (Appendix B.3)."""


@dataclass(frozen=True)
class Setting:
    """One private model of the paper, and what is printed about it.

    Attributes
    ----------
    name, source : str
        Ours, and where it is printed.
    n, batch_size : int, float
        Rows and expected batch size: ``p = batch_size / n``.
    noise_multiplier, epochs, delta : float
        sigma, ``p T``, delta.
    mu, clt, ma : float
        The columns "CLT mu", "CLT epsilon", "MA epsilon".
    """

    name: str
    source: str
    n: int
    batch_size: float
    noise_multiplier: float
    epochs: int
    delta: float
    mu: float
    clt: float
    ma: float

    @property
    def run(self) -> Run:
        """The training, in our terms: all noisy gradients released, one row added or removed."""
        return trained(self.noise_multiplier, self.epochs, self.n, self.batch_size)


def trained(noise_multiplier: float, epochs: float, n: int = 60_000, batch_size: float = 256) -> Run:
    """A run of the paper; MNIST's rows and batches unless said otherwise. ``T`` is the nearest whole number to ``epochs / p``."""
    steps = round(epochs * n / batch_size)
    return Run(n=n, sampling=Poisson(batch_size), steps=steps, noise_multiplier=noise_multiplier)


def sampling_rate(run: Run) -> float:
    """p of a run of the paper."""
    assert isinstance(run.sampling, Poisson)
    assert isinstance(run.sampling.batch_size, float | int)
    return run.sampling.batch_size / run.n


def _mnist(row: int, noise_multiplier: float, epochs: int, mu: float, clt: float, ma: float) -> Setting:
    return Setting(f"MNIST {row}", f"Table 1, row {row}", 60_000, 256, noise_multiplier, epochs, 1e-5, mu, clt, ma)


_MOVIES: Final = 800_167
"""80 % of MovieLens' 1,000,209 ratings."""
SETTINGS: Final = (
    _mnist(1, 1.3, 15, 0.23, 0.83, 1.19),
    _mnist(2, 1.1, 60, 0.57, 2.32, 3.01),
    _mnist(3, 0.7, 45, 1.13, 5.07, 7.10),
    _mnist(4, 0.6, 62, 2.00, 9.98, 13.27),
    _mnist(5, 0.55, 68, 2.76, 14.98, 18.72),
    _mnist(6, 0.5, 100, 4.78, 31.12, 32.40),
    Setting("Adult", "Table 2", 29_305, 256, 0.55, 18, 1e-5, 2.03, 10.20, 14.70),
    Setting("IMDb", "Table 3", 25_000, 512, 0.56, 9, 1e-5, 2.07, 10.43, 15.24),
    Setting("MovieLens", "Table 4", _MOVIES, _MOVIES / 80, 0.6, 20, 1e-6, 1.94, 10.61, 15.39),
)
ERRORS: Final = {"gdp-clt": 0.776, "moments-accountant": 0.094}
"""Section 4.1: the minimum sum of both errors for row 2 of Table 1."""


@dataclass(frozen=True)
class Calibration:
    """Figure 4: less noise by the limit theorem, for the epsilon that the moments accountant gives.

    Attributes
    ----------
    source : str
        Where it is printed.
    noise_multiplier, epochs : float
        sigma, and the epoch at which both accountants give the same.
    epsilon, mu, less_noise : float
        As printed: the common epsilon at delta 1e-5, "mu CLT", sigma~.
    """

    source: str
    noise_multiplier: float
    epochs: int
    epsilon: float
    mu: float
    less_noise: float


CALIBRATIONS: Final = (
    Calibration("Figure 4, top", 1.3, 20, 1.34, 0.35, 1.06),
    Calibration("Figure 4, bottom", 0.7, 70, 8.68, 1.78, 0.638),
)
CALIBRATION_DELTA: Final = 1e-5
LIMIT_STEPS: Final = 234
"""Figure A.1: the setting of row 2 in so many steps, with p enlarged so that p sqrt(T) stays the same."""


@dataclass(frozen=True)
class Training:
    """A network of the paper, and the score that is printed.

    Attributes
    ----------
    setting : Setting
        What it costs.
    optimizer : str
        "sgd" or "adam".
    rate, clip_norm : float
        eta, R.
    printed : float, optional
        Accuracy in per cent, or RMSE.
    """

    setting: Setting
    optimizer: str
    rate: float
    clip_norm: float
    printed: float | None = None

    def run(self, n: int) -> Run:
        """The training on so many records: at the paper's p, so that it costs the same for any n."""
        setting = self.setting
        run = trained(setting.noise_multiplier, setting.epochs, n, setting.batch_size * n / setting.n)
        return run.replace(clip_norm=self.clip_norm, update="post-processed")


@dataclass(frozen=True)
class Shown:
    """A table or figure of the paper.

    Attributes
    ----------
    name, title : str
        Of the entry, and of its page.
    key : str
        What its records are called.
    data, what : str
        The data set, and the measure of the scores.
    trainings : tuple of Training
        Its rows.
    """

    name: str
    title: str
    key: str
    data: str
    what: str
    trainings: tuple[Training, ...]

    def key_of(self, row: int) -> dict[str, Any]:
        """What the trainings of a row are kept under."""
        return {"table": self.key, "row": row}


def _calibrated(calibration: Calibration) -> tuple[Setting, Setting]:
    """Two settings that two accountants say cost the same: one each."""

    def setting(noise_multiplier: float, clt: float, ma: float) -> Setting:
        one, mu = calibration, calibration.mu if math.isfinite(clt) else math.nan
        return Setting(one.source, one.source, 60_000, 256, noise_multiplier, one.epochs, CALIBRATION_DELTA, mu, clt, ma)

    return (
        setting(calibration.noise_multiplier, math.nan, calibration.epsilon),
        setting(calibration.less_noise, calibration.epsilon, math.nan),
    )


_FIRST: Final = (0.25, 1.5, 95.0), (0.15, 1.0, 96.6), (0.25, 1.5, 97.0), (0.25, 1.5, 97.6), (0.25, 1.5, 97.8), (0.25, 1.5, 98.0)
_ACCURACY: Final = "test accuracy, per cent"
TABLE_1: Final = Shown(
    "p2-table1",
    "NoisySGD on MNIST (Table 1)",
    "mnist",
    "mnist",
    _ACCURACY,
    tuple(Training(one, "sgd", *more) for one, more in zip(SETTINGS[:6], _FIRST, strict=True)),
)
TABLE_2: Final = Shown(
    "p2-table2", "NoisySGD on Adult (Table 2)", "adult", "a9a", _ACCURACY, (Training(SETTINGS[6], "sgd", 0.15, 1.0, 84.0),)
)
TABLE_3: Final = Shown(
    "p2-table3", "NoisyAdam on IMDb (Table 3)", "imdb", "aclImdb", _ACCURACY, (Training(SETTINGS[7], "adam", 0.02, 1.0, 83.8),)
)
TABLE_4: Final = Shown(
    "p2-table4",
    "NoisyAdam on MovieLens (Table 4)",
    "movielens",
    "ml-1m",
    "test RMSE, stars",
    (Training(SETTINGS[8], "adam", 0.01, 5.0, 0.915),),
)
FIGURE_4: Final = Shown(
    "p2-figure4",
    "Less noise by the limit theorem (Figure 4)",
    "figure4",
    "mnist",
    _ACCURACY,
    tuple(Training(one, "sgd", 0.15, 1.5) for pair in map(_calibrated, CALIBRATIONS) for one in pair),
)
