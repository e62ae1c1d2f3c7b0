"""A privacy loss as a weighted sum, from which its moment generating function is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dplateau.accounting.gaussian import ULP, Array


@dataclass(frozen=True)
class Nodes:
    """A law as a weighted sum: mass ``exp(log_p)`` of P at privacy loss ``loss``, both of shape (J,); ``g`` are the points.

    Mass at loss 0 is left out, since ``exp(s 0) - 1 = 0``. ``error`` bounds the error of m(s) relative to m(Re s).
    """

    g: Array
    log_p: Array
    loss: Array
    error: float

    def _tilted(self, c: float) -> tuple[Array, Array]:
        """The terms of ``m(c)``, and of ``m(c) - 1``."""
        x = c * self.loss
        p, tilted = np.exp(self.log_p), np.exp(self.log_p + x)
        return tilted, np.where(np.abs(x) < 1.0, p * np.expm1(np.clip(x, -1.0, 1.0)), tilted - p)

    def excess(self, c: float, omega: Array) -> tuple[Array, Array]:
        """``m(c + i omega) - 1`` and a bound on its rounding error, both of shape ``omega.shape``."""
        tilted, real = self._tilted(c)
        scale = 6 + np.abs(self.log_p) + np.abs(c * self.loss)
        value, rounding = np.full(omega.shape, real.sum() + 0j), np.full(omega.shape, ULP * (scale @ np.abs(real)))
        if omega.any():  # otherwise a moment, and no more
            half = np.multiply.outer(omega / 2, self.loss)
            sine = np.sin(half)
            value = real.sum() - 2 * (sine**2 @ tilted) + 2j * ((sine * np.cos(half)) @ tilted)
            rounding = ULP * (scale @ np.abs(real) + 3 * omega * ((scale * tilted) @ np.abs(self.loss)))
        return value, rounding

    def moments(self, c: float) -> tuple[float, float, float]:
        """``m(c) - 1``, ``m'(c)`` and ``m''(c)``."""
        tilted, excess = self._tilted(c)
        return float(excess.sum()), float(tilted @ self.loss), float(tilted @ self.loss**2)

    def log_moment(self, c: float) -> float:
        """``log m(c)`` rounded up, also where m(c) overflows: what it is to the last digit is ``excess``'s to say."""
        exponent = self.log_p + c * self.loss
        top = max(float(exponent.max()), 0.0)
        weight = np.exp(exponent - top)
        # The mass at loss 0, which the nodes leave out, is at most 1 - P of the nodes; a loss below 0 leaves at most its mass.
        rest = max(1.0 - float(np.exp(self.log_p).sum()), 0.0) * math.exp(-top)
        total = float(weight.sum()) + rest
        scale = 8 + np.abs(self.log_p) + np.abs(c * self.loss)
        error = self.error + ULP * (float(scale @ weight) / total + self.loss.size + 8)
        return (top + math.log(total) + 1.01 * error) * (1 + 2 * ULP)
