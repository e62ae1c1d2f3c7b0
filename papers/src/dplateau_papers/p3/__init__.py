"""Noise adapted to the step size."""

from typing import Final

PAPER: Final = "Wu, Wang, Cristali, Gu, Willett, Adaptive differentially private empirical risk minimization (2021)"
