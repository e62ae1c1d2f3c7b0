"""Privacy of the last iterate of noisy SGD."""

from typing import Final

PAPER: Final = "Altschuler, Talwar, Privacy of noisy stochastic gradient descent (NeurIPS 2022)"
