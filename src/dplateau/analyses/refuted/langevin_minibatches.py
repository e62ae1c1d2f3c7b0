"""The Langevin bound as printed for random minibatches."""

from __future__ import annotations

from dplateau.accounting import Guarantee, Refuted
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses.base import Analysis
from dplateau.analyses.langevin import dynamics, uncovered
from dplateau.spec import FixedSize, Run


class LangevinMinibatches(Analysis):
    """The formula of ``langevin``, printed for any batch size. **Refuted.**

    The proof (Lemma 3.3) averages over the batch inside the divergence, which makes a sensitivity of 2 L/m with probability m/n
    into one of 2 L/n. With n = 1,000 and m = 10 an exact one-dimensional run has 2.77 where 1 is claimed (delta 1e-5):
    ``papers/tests/test_langevin_minibatches.py``. A sampled last-iterate bound covers the same run.

    Source: Ryffel, Bach, Pointcheval 2022, Theorem 3.2 (and Theorems 3.1, 4.1 to 4.4) for batches smaller than n.
    """

    name = "langevin-minibatch"
    source = "Ryffel, Bach, Pointcheval 2022, Theorem 3.2, minibatches"
    status = Refuted

    def why_not(self, run: Run) -> str | None:
        return uncovered(run, FixedSize)

    def guarantee(self, run: Run) -> Guarantee:
        return ZeroConcentratedDP(dynamics(run))
