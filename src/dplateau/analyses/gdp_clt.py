"""The central limit theorem of Gaussian differential privacy."""

from __future__ import annotations

import math

import numpy as np

from dplateau.accounting import Asymptotic, GaussianDP, Guarantee
from dplateau.analyses.base import Analysis
from dplateau.spec import Poisson, Run, per_step


class GdpClt(Analysis):
    """In the limit of many steps of small rate the run is mu-GDP with ``mu^2 = sum of q_t^2 (exp(1/z_t^2) - 1)``. **Asymptotic.**

    Not an upper bound: q = 0.001, z = 0.5, T = 1,000 gives 0.85 where the truth is 3.24 (delta 1e-5).

    Setting: Poisson sampling, add-remove. Source: Bu, Dong, Long, Su 2020 (P2), section 3.1 and Theorem 5 (whose mu has a stray T).
    """

    name = "gdp-clt"
    source = "Bu, Dong, Long, Su 2020, section 3.1"
    status = Asymptotic

    def why_not(self, run: Run) -> str | None:
        """See ``Analysis``."""
        if not isinstance(run.sampling, Poisson):
            return f"the limit is for Poisson sampling, the run's is {run.sampling.kind}. Use sampling=Poisson(...)."
        if run.adjacency != "add-remove":
            return 'the limit is for adjacency="add-remove".'
        return None

    def guarantee(self, run: Run) -> Guarantee:
        """See ``Analysis``."""
        size, z = run.sampling.divisors(run.n), run.noise_multiplier
        if not isinstance(size, tuple) and not isinstance(z, tuple):
            exponent = min(1 / z**2, 700.0)
            return GaussianDP(size / run.n * math.sqrt(run.steps * math.expm1(exponent)))
        rate, noise = per_step(size, run.steps) / run.n, per_step(z, run.steps)
        return GaussianDP(math.sqrt(float((rate**2 * np.expm1(np.minimum(noise**-2.0, 700.0))).sum())))
