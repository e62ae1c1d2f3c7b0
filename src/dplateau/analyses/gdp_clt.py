"""The Gaussian limit of the composition of sampled steps: an approximation, not a bound."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import ndtr

from dplateau.accounting import Asymptotic, GaussianDP, Guarantee, gdp_mu
from dplateau.accounting.gaussian import Array
from dplateau.analyses.base import Analysis
from dplateau.analyses.requirements import other_sampling
from dplateau.spec import FixedSize, InputError, Poisson, Run
from dplateau.spec.runs import single_run

_LOUDEST: Final = 1e4
"""The largest noise at which the formulas keep their digits; beyond it the limit is a multiple of 1 / noise^2."""


class GaussianCLT(Analysis):
    """In the limit of many steps of small rate the run is mu-GDP with ``mu^2 = sum of q_t^2 chi2(z_t)``. **Asymptotic.**

    ``chi2 = e^(1/z^2) - 1`` for Poisson sampling and add-remove; ``2 (e^(m^2) Phi(3m/2) + 3 Phi(-m/2) - 2)`` with ``m = 2/z`` for
    batches of fixed size and replace; under add-remove the same moment of the three centres of such a step. Not an upper bound:
    q = 0.001, z = 0.5, T = 1,000 gives 0.85 where the truth is 3.24 (Poisson, delta 1e-5).

    Setting: Poisson sampling with add-remove, or fixed-size sampling.

    Source: Bu, Dong, Long, Su 2020, section 3.1 and Theorems 5 and 6 (Theorem 5 has a stray T); fixed size: Dong, Roth, Su
    2022, section 5.
    """

    name = "gdp-clt"
    source = "Bu, Dong, Long, Su 2020, section 3.1"
    status = Asymptotic

    def why_not(self, run: Run) -> str | None:
        if run.sampling.drawn and run.sampling.random_size and run.adjacency != "add-remove":
            return 'the limit for Poisson sampling is for adjacency="add-remove".'
        return other_sampling(run, Poisson, FixedSize)

    def guarantee(self, run: Run) -> Guarantee:
        rate, noise, count = run.table.draws()
        if run.sampling.random_size:
            chi2 = np.expm1(np.minimum(noise**-2.0, 700.0))
        else:
            least = np.minimum(noise, _LOUDEST)
            chi2 = (_empty_place(1 / least) if run.adjacency == "add-remove" else _fixed_size(least)) * (least / noise) ** 2
        return GaussianDP(math.sqrt(float(count @ (rate**2 * chi2))))


def _fixed_size(noise: Array) -> Array:
    m = 2 / noise
    return 2 * (np.exp(np.minimum(m**2, 700.0)) * ndtr(1.5 * m) + 3 * ndtr(-0.5 * m) - 2)


def _empty_place(m: Array) -> Array:
    """``E L^2 / q^2`` of the pair of three centres as q falls to 0: its positive losses, and its negative ones."""
    m = np.minimum(m, math.sqrt(700.0) / 2)  # Each term for itself would no longer be the larger one.
    grown = [np.exp(k * m**2) for k in (1, 2, 4)]
    positive = grown[2] * ndtr(2.5 * m) - 2 * grown[1] * ndtr(1.5 * m) + grown[0] * ndtr(0.5 * m)
    return positive + grown[0] * ndtr(1.5 * m) - 2 * ndtr(0.5 * m) + ndtr(-0.5 * m)


def clt_noise_multiplier(run: Run, epsilon: float, delta: float) -> float:
    """The noise that the limit asks for: ``sigma~`` of Bu, Dong, Long, Su 2020 (equations 3.3, 3.4). **Asymptotic**.

    It may be too little: ``calibrate`` gives the noise that meets epsilon.

    Parameters
    ----------
    run : Run
        Poisson sampling, add-remove; its noise is not used.
    epsilon, delta : float
        The target.

    Returns
    -------
    float
        A constant noise multiplier.
    """
    if not isinstance(single_run(run).sampling, Poisson) or run.adjacency != "add-remove":
        raise InputError('the limit\'s noise is for Poisson sampling and adjacency="add-remove".')
    rate, _, count = run.replace(noise_multiplier=1.0).table.draws()
    return 1 / math.sqrt(math.log1p(gdp_mu(epsilon, delta) ** 2 / float(count @ rate**2)))
