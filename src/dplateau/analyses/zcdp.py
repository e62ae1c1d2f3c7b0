"""Zero-concentrated differential privacy of noisy gradients that are not sampled."""

from __future__ import annotations

from dplateau.accounting import Guarantee, Proved, compositions
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses.base import Analysis
from dplateau.analyses.requirements import other_sampling
from dplateau.spec import Cyclic, FullBatch, OnePass, Run, Shuffled


class ZCDPBound(Analysis):
    """The noisy gradients are ``rho``-zCDP with rho half the sum of the squared sensitivities over the noise. **Proved.**

    Weaker than what it is made of, mu-GDP with ``mu^2 = 2 rho``: mu = 1 and delta = 1e-5 give 4.73 here, 4.38 there.

    Setting: batches decided by positions, or full ones; add-remove or replace.

    Source: Bun, Steinke 2016, Proposition 1.6 and Lemma 1.7; conversion: Canonne, Kamath, Steinke 2020, Proposition 12.
    """

    name = "zcdp"
    source = "Bun, Steinke 2016; conversion: Canonne, Kamath, Steinke 2020, Proposition 12"
    status = Proved
    dominated_by = "exact-composition"

    def why_not(self, run: Run) -> str | None:
        return other_sampling(run, Cyclic, Shuffled, OnePass, FullBatch)

    def guarantee(self, run: Run) -> Guarantee:
        return ZeroConcentratedDP(compositions(run)[0][0].gaussian ** 2 / 2)
