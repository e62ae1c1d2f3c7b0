"""One noisy pass over the records (Feldman, Koren, Talwar)."""

from __future__ import annotations

import numpy as np

from dplateau.accounting import Guarantee, Proved
from dplateau.accounting.mechanism import sensitivity
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import concentrated
from dplateau.analyses.requirements import missing
from dplateau.spec import OnePass, Run


class PNSGDBound(Analysis):
    """The last iterate of one pass has ``D_a <= a rho^2/2``, rho from the worst step. **Proved.**

    ``rho = 2 L max over t of eta_t / (B_t sqrt(sum over s >= t of eta_s^2 sigma_s^2))``, with L in place of 2 L under add-remove.

    Setting: convex smooth losses; every record is used at most once, in a public order; any batch sizes, noise and step sizes up
    to ``2/smoothness``; projection allowed, not needed.

    Source: Feldman, Koren, Talwar 2020, Theorem 3.1 (noise as in its proof: Algorithm 1, line 2, misplaces it).
    """

    name = "pnsgd"
    source = "Feldman, Koren, Talwar 2020, Theorem 3.1"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return missing(run, samplings=(OnePass,))

    def guarantee(self, run: Run) -> Guarantee:
        if run.table.alike:
            rho = sensitivity(run) / run.table.only.noise  # The last step is the worst: it has only its own noise.
        else:
            steps = run.table.written()
            moved = sensitivity(run) * run.clip_norm * steps.step_size / steps.size
            rho = float((moved / np.sqrt(np.cumsum(steps.deviation[::-1] ** 2)[::-1])).max())
        return concentrated(run, rho**2 / 2)
