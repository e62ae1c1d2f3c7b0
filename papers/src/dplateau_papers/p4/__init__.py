"""Differential privacy guarantees of Langevin dynamics."""

from typing import Final

PAPER: Final = "Ryffel, Bach, Pointcheval, Differential privacy guarantees for stochastic gradient Langevin dynamics (2022)"
