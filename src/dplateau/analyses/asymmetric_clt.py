"""The central limit theorem for trade-off functions that are not symmetric."""

from __future__ import annotations

from typing import Final

from dplateau.accounting import Asymptotic, GaussianDP, Guarantee
from dplateau.accounting.mechanism import step_kinds
from dplateau.accounting.trade_offs import Gaussian, OfPair, TradeOff, limit_mu
from dplateau.analyses.advanced_composition import SAMPLED
from dplateau.analyses.base import Analysis
from dplateau.analyses.requirements import other_sampling
from dplateau.spec import Run
from dplateau.spec.steps import distinct, on_grid

_LEVELS: Final = 24
"""Where rates or noise change from step to step, they are rounded to so many levels: a limit needs no more."""


class AsymmetricCLT(Analysis):
    """In the limit of many steps that tell little each the run is ``K/s``-GDP, with K and s the first two moments of the privacy
    loss. **Asymptotic.**

    ``K = sum of kl(f_t) + kl~(f_t)`` and ``s^2 = sum of kappa_2(f_t)``, of the steps' own trade-off functions. It counts what the
    limit of small rates (``gdp-clt``) leaves out, and may be below the truth all the same: z = 0.7, q = 256/60,000, T = 10,547 has
    epsilon 5.03 by this limit, 5.64 in truth.

    Setting: Poisson or fixed-size sampling; add-remove or replace.

    Source: Bu, Dong, Long, Su 2020, Theorem 7.
    """

    name = "asymmetric-clt"
    source = "Bu, Dong, Long, Su 2020, Theorem 7"
    status = Asymptotic

    def why_not(self, run: Run) -> str | None:
        if run.is_full_batch:
            return "every batch holds every record: that is a Gaussian mechanism, whose composition needs no limit."
        return other_sampling(run, *SAMPLED)

    def guarantee(self, run: Run) -> Guarantee:
        kinds, shift = step_kinds(run)
        rate, noise, count = run.table.draws()
        if rate.size > _LEVELS:
            rate, noise, count = distinct(on_grid(rate, _LEVELS, up=True), on_grid(noise, _LEVELS, up=False), count)

        def step(q: float, mu: float) -> TradeOff:
            return OfPair(kinds[0](q, mu)) if q < 1 else Gaussian(mu)

        parts = [(step(q, shift / z), n) for q, z, n in zip(rate.tolist(), noise.tolist(), count.tolist(), strict=True)]
        return GaussianDP(limit_mu(parts))
