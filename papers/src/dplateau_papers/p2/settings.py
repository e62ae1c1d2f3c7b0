"""What Bu, Dong, Long and Su 2020 (P2) print about privacy. Data, not results: nothing here was computed by this library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dplateau.spec import Poisson, Run

PAPER: Final = "Bu, Dong, Long, Su, Deep learning with Gaussian differential privacy (HDSR 2020)"
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
