"""Functionals of trade-off functions, and the central limit theorems that rest on them.

With L = log dQ/dP and f = T(P, Q), ``|f'(alpha)|`` is dQ/dP, so that an integral over alpha is a mean under P:

====================  =====================  ======================
functional            plain: mean under P    tilded: mean under Q
====================  =====================  ======================
``kl``                ``E_P[-L]``            ``E_Q[L]``
``kappa_2``           ``E_P[L^2]``           ``E_Q[L^2]``
``kappa_3``           ``E_P[|L|^3]``         ``E_Q[|L|^3]``
``chi2``              ``E_P[(dQ/dP - 1)^2]``
====================  =====================  ======================

They are integrated from the two errors of all likelihood ratio tests, by Gauss-Legendre quadrature: approximations, to about nine
digits, for limits that are approximations themselves.

Source: Bu, Dong, Long, Su 2020, Appendix B.2: Theorem 7, Lemmas B.1 to B.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array
from dplateau.accounting.trade_offs.base import FAR, TradeOff, pairs_of
from dplateau.spec import InputError
from dplateau.spec.arguments import of_type, real

_UNIT, _WEIGHT = np.polynomial.legendre.leggauss(16)
_PANELS: Final = 160
_LEAST: Final = 1e-9
_SMALL: Final = math.log(1e-22)


@dataclass(frozen=True)
class Functionals:
    """The functionals of one trade-off function, or their sums over several.

    Attributes
    ----------
    kl, kl_tilde, kappa2, kappa2_tilde, kappa3, kappa3_tilde, chi2 : float
        See the head of this file. Infinite where one of the laws has mass outside the other.
    """

    kl: float
    kl_tilde: float
    kappa2: float
    kappa2_tilde: float
    kappa3: float
    kappa3_tilde: float
    chi2: float

    def __add__(self, other: Functionals) -> Functionals:
        return Functionals(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def __mul__(self, times: float) -> Functionals:
        return Functionals(*(times * getattr(self, field.name) for field in fields(self)))

    @property
    def limits(self) -> tuple[float, float]:
        """``K/s`` of Theorem 7, with ``K = kl + kl~``, for ``s^2 = kappa_2`` and for ``s^2 = kappa_2~``: equal in the limit."""
        total = self.kl + self.kl_tilde
        if not total < math.inf:
            return math.inf, math.inf
        return (total / math.sqrt(self.kappa2), total / math.sqrt(self.kappa2_tilde)) if total else (0.0, 0.0)


@lru_cache(maxsize=64)
def functionals(f: TradeOff) -> Functionals:
    """The functionals of f."""
    if of_type("f", f, TradeOff).certain or f.inverse.certain:
        return Functionals(*(math.inf,) * 7)
    try:
        with np.errstate(over="ignore"):
            up, down = _tails(f), _tails(f.inverse)
    except OverflowError:
        return Functionals(*(math.inf,) * 7)
    # alpha = P(L > e), beta = Q(L > e); of the inverse: Q(L < -e) and P(L < -e). A mean of L^k is the integral of k e^(k-1) tail.
    kl = down.weight @ down.beta - up.weight @ up.alpha
    kl_tilde = up.weight @ up.beta - down.weight @ down.alpha
    kappa = [
        k * ((up.weight * up.epsilon ** (k - 1)) @ above + (down.weight * down.epsilon ** (k - 1)) @ below)
        for k in (2, 3)
        for above, below in ((up.alpha, down.beta), (up.beta, down.alpha))
    ]
    # chi^2 = E_Q[e^L] - 1.
    chi2 = up.weight @ np.exp(np.minimum(up.epsilon + up.log_beta, 700.0)) - down.weight @ (np.exp(-down.epsilon) * down.alpha)
    return Functionals(*map(float, (kl, kl_tilde, *kappa, chi2)))


@dataclass(frozen=True)
class _Tails:
    """Quadrature nodes and weights for epsilon > 0, with both laws' masses of the losses above them."""

    epsilon: Array
    weight: Array
    log_alpha: Array
    log_beta: Array

    @property
    def alpha(self) -> Array:
        return np.exp(self.log_alpha)

    @property
    def beta(self) -> Array:
        return np.exp(self.log_beta)


def _tails(f: TradeOff) -> _Tails:
    last = min(f.greatest, FAR)
    if math.isinf(f.greatest):
        # chi^2 weighs the upper tail with e^epsilon once more.
        last = 1e-6
        while float(f.log_beta_above(np.array(last))) + last > _SMALL and last < FAR:
            last *= 1.2
    edges = np.append(0.0, np.geomspace(_LEAST * last, last, _PANELS))
    half = np.diff(edges)[:, None] / 2
    epsilon = (edges[:-1, None] + half + half * _UNIT).ravel()
    weight = (half * _WEIGHT).ravel()
    return _Tails(epsilon, weight, f.log_alpha_above(epsilon), f.log_beta_above(epsilon))


def limit_mu(parts: list[tuple[TradeOff, float]]) -> float:
    """The mu of Theorem 7 for many steps that tell little each: the larger of the two forms of ``K/s``. **Asymptotic.**

    Parameters
    ----------
    parts : list of (TradeOff, float)
        Each step's trade-off function, and how often it occurs.
    """
    found = pairs_of("parts", parts)
    if not found:
        raise InputError("the limit of no trade-off function: give at least one.")
    total = Functionals(*(0.0,) * 7)
    for f, count in found:
        total = total + functionals(f) * real("count", count, inclusive=True)
    return max(total.limits)


def subsampled_limit_mu(f: TradeOff, p: float, steps: float) -> float:
    """``p sqrt(T chi^2(f))``: what T steps of ``f_p`` approach as p falls like ``1/sqrt(T)``. **Asymptotic.**

    For ``f = G_(1/z)`` it is ``p sqrt(T (e^(1/z^2) - 1))`` (Bu et al. 2020, Theorem 6 and equation 3.1).
    """
    p, steps = real("p", p, inclusive=True, high=1.0), real("steps", steps, inclusive=True)
    return p * math.sqrt(steps * functionals(f).chi2)
