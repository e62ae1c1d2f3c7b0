"""Private stochastic convex optimisation in linear time."""

from typing import Final

PAPER: Final = "Feldman, Koren, Talwar, Private stochastic convex optimization: optimal rates in linear time (STOC 2020)"
