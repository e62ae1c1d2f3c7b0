"""Deep learning with Gaussian differential privacy."""

from typing import Final

PAPER: Final = "Bu, Dong, Long, Su, Deep learning with Gaussian differential privacy (HDSR 2020)"
