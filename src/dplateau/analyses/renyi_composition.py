"""Renyi composition of the steps, with either conversion."""

from __future__ import annotations

from dplateau.accounting import Guarantee, Proved, RenyiDP, compositions
from dplateau.analyses.base import Analysis
from dplateau.spec import Run


class RenyiCompositionBound(Analysis):
    """Renyi divergences add over the steps; the best order is converted by Canonne, Kamath, Steinke 2020. **Proved.**

    Setting and assumptions as for the exact composition, which it never beats, but no random allocation; it is what most other
    libraries report.

    Source: Mironov 2017; Mironov, Talwar, Zhang 2019 (sampled Gaussian, the larger of both directions); Canonne, Kamath,
    Steinke 2020, Proposition 12.
    """

    name = "renyi-composition"
    source = "Mironov, Talwar, Zhang 2019; conversion: Canonne, Kamath, Steinke 2020, Proposition 12"
    status = Proved
    dominated_by = "exact-composition"

    def why_not(self, run: Run) -> str | None:
        """Every run is covered but for random allocation, of whose laws the divergences are not computed."""
        if run.sampling.allocated:
            return "Renyi divergences of random allocation are not computed: exact-composition is the least of its bounds."
        return None

    def guarantee(self, run: Run) -> Guarantee:
        return RenyiDP(compositions(run)[0])


class MomentsAccountantBound(RenyiCompositionBound):
    """The same with the classical conversion ``rho + log(1/delta)/(order - 1)``: the "moments accountant" columns of papers.
    **Proved.**

    Source: Abadi et al. 2016, Theorem 2; Bu, Dong, Long, Su 2020, Appendix B.3.
    """

    name = "moments-accountant"
    source = "Abadi et al. 2016, Theorem 2; Bu, Dong, Long, Su 2020, Appendix B.3"

    def guarantee(self, run: Run) -> Guarantee:
        return RenyiDP(compositions(run)[0], classical=True)
