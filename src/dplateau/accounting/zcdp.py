"""Zero-concentrated differential privacy: a Renyi divergence of at most ``rho`` times the order.

Source: Bun, Steinke 2016; the conversion is that of ``RenyiCurve``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dplateau.accounting.renyi_curve import RenyiCurve


@dataclass(frozen=True)
class ZeroConcentratedDP(RenyiCurve):
    """``D_a <= rho a`` for every order ``1 < a <= greatest_order``.

    Weaker than GDP with ``mu^2/2 = rho``: rho = 1/2 and delta = 1e-5 give epsilon 4.73 here, 4.38 there.

    Attributes
    ----------
    rho : float
        Divergence per unit of the order.
    greatest_order : float
        The orders for which it is known.
    """

    rho: float
    greatest_order: float = 1e8

    def point(self, order: float, delta: float) -> tuple[float, float]:
        return (self.rho * order if order <= self.greatest_order * (1 + 1e-12) else math.inf), 0.0
