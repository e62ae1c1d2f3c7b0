"""The plateau of noisy SGD as a formula (Altschuler, Talwar): what the privacy loss grows like, and when it stops growing.

The theorems hold up to a constant that is not stated. Their proofs' last displays give it: with the noise split in halves, looking
back R steps costs ``a (R q + D^2/(eta^2 R))/sigma^2`` in the convex case. There q is ``4 d^2/n^2`` where batches hold less than a
fifth of the records (``S_a <= 2 a q^2/s^2``, Lemma 2.12), and ``d^2/b^2`` for larger ones (footnote 12); d = 2 L, or L under
add-remove. ``Asymptotic`` all the same: that lemma bounds the printed direction of one sampled step, which is not the pair that
sampling needs under replace.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.accounting import Asymptotic, Guarantee
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import equal_steps, not_contracting, unequal
from dplateau.analyses.requirements import missing
from dplateau.spec import FixedSize, Poisson, Run

_LEAST_ORDER: Final = 1.001


class NoisySGDPlateau(Analysis):
    """``D_a <= C a L^2/(n^2 sigma^2) min{T, ceil(D n/(L eta))}``, C = 17 (5 under add-remove). **Asymptotic.**

    Where steps change, eta is the smallest of them: if they fall as ``eta_1 t^-c``, the minimum is that of T and
    ``D n T^c/(L eta_1)`` (Example 5.9). Then more steps always cost more, but only as ``T^c``.

    Setting: convex smooth losses, random batches, projection on a set of diameter D, step sizes up to ``2/smoothness``. Batches of
    less than a fifth of the records need ``sigma > 8 sqrt(2) L/b``, and orders up to that of Lemma 2.12. For larger ones, C is
    ``4 n^2/b^2 + 1`` (``n^2/b^2 + 1`` under add-remove) and nothing else is needed.

    Source: Altschuler, Talwar 2022, Theorem 3.1, its footnote 12, and Example 5.9.
    """

    name = "noisy-sgd-plateau"
    source = "Altschuler, Talwar 2022, Theorem 3.1"
    status = Asymptotic

    def why_not(self, run: Run) -> str | None:
        return missing(run, diameter=True, samplings=(Poisson, FixedSize)) or _outside(_least_step(run))

    def guarantee(self, run: Run) -> Guarantee:
        run = _least_step(run)
        per_look = (_drawn(run) + (run.clip_norm / run.n) ** 2) / _sigma(run) ** 2
        return ZeroConcentratedDP(per_look * min(run.steps, self.burn_in(run)), greatest_order(run))

    def burn_in(self, run: Run) -> float:
        """T-bar of equal steps: after so many, more steps cost nothing."""
        return math.ceil((run.diameter or 0.0) * run.n / (run.clip_norm * run.table.only.step_size))


class NoisySGDStronglyConvexPlateau(Analysis):
    """``D_a <= a (R q + c^(2R) D^2/eta^2)/sigma^2``, ``R = min{T, T-bar}``, T-bar about log(...)/log(1/c). **Asymptotic.**

    Setting: as for ``NoisySGDPlateau``, strongly convex losses, step size below ``2/smoothness``; c is the contraction of a step.

    Source: Altschuler, Talwar 2022, Theorem 5.1 through (5.3).
    """

    name = "noisy-sgd-plateau-strong"
    source = "Altschuler, Talwar 2022, Theorem 5.1"
    status = Asymptotic

    def why_not(self, run: Run) -> str | None:
        reason = missing(run, diameter=True, strongly_convex=True, samplings=(Poisson, FixedSize))
        return reason or _outside(run) or not_contracting(run)

    def guarantee(self, run: Run) -> Guarantee:
        look = min(run.steps, self.burn_in(run))
        far = (run.diameter or 0.0) / run.table.only.step_size
        drawn = look * _drawn(run)
        # Back to the start both runs agree.
        left = 0.0 if look == run.steps else far**2 * math.exp(2 * look * equal_steps(run).log_factor)
        return ZeroConcentratedDP((drawn + left) / _sigma(run) ** 2, greatest_order(run))

    def burn_in(self, run: Run) -> float:
        """T-bar: ``log(a D^2 log(1/c)/(eta^2 sigma_1^2 Q)) / (2 log(1/c))``, Q the sampled step, at least 1.

        a and sigma cancel. The proof's choice is of this order; this one balances its two terms.
        """
        rate = -equal_steps(run).log_factor
        far = (run.diameter or 0.0) / run.table.only.step_size
        ratio = 2 * far**2 * rate / _drawn(run)
        return max(1, math.ceil(math.log(ratio) / (2 * rate))) if ratio > 1 else 1


def _sigma(run: Run) -> float:
    """The noise on the mean gradient."""
    return run.table.only.noise * run.clip_norm / run.table.only.size


def _drawn(run: Run) -> float:
    """q: what one sampled step costs, with half of the noise variance, for each unit of the order and of ``1/sigma^2``."""
    moved = (sensitivity(run) * run.clip_norm) ** 2
    return moved / run.table.only.size**2 if _large(run) else 4 * moved / run.n**2


def _large(run: Run) -> bool:
    """Whether batches are too large for Lemma 2.12, so that a record is taken to be in every one (footnote 12)."""
    return run.table.only.rate >= 0.2


def _least_step(run: Run) -> Run:
    """The run with its smallest step size in every step: the last R steps make up for at least R of these."""
    return run.replace(step_size=float(run.table.step_size.min())) if "step_size" in run.table.changing else run


def _outside(run: Run) -> str | None:
    reason = unequal(run)
    if reason is not None or _large(run):
        return reason
    z = run.table.only.noise
    if z <= 4 * math.sqrt(2) * sensitivity(run):
        least = "8 sqrt(2)" if run.adjacency == "replace" else "4 sqrt(2)"
        return f"noise_multiplier {z:g} is not above {least}: the theorem is for more noise (sigma > 8 sqrt(2) L/b)."
    if greatest_order(run) <= _LEAST_ORDER:
        return "no order meets the conditions of Lemma 2.12. Raise noise_multiplier."
    return None


def greatest_order(run: Run) -> float:
    """The largest order for which Lemma 2.12 bounds the sampled step with half of the noise variance; any, without that lemma."""
    if _large(run):
        return ZeroConcentratedDP.greatest_order
    rate, noise = run.table.only.rate, run.table.only.noise
    noise /= math.sqrt(2) * sensitivity(run)
    orders = 1 + np.geomspace(_LEAST_ORDER - 1, 1e8, 4000)
    log = np.log1p(1 / (rate * (orders - 1)))
    below = log + np.log(rate * orders) + 1 / (2 * noise**2)
    fits = (orders <= log * noise**2 / 2 - math.log(noise**2)) & (orders * below <= log**2 * noise**2 / 2 - math.log(5 * noise**2))
    first = int(np.argmin(fits)) if not fits.all() else orders.size
    return float(orders[first - 1]) if first else 1.0


def burn_in(run: Run) -> float | None:
    """T-bar of a run with equal steps and a diameter, whatever its batches: about where the last iterate's cost stops growing.

    It is meant up to a constant. None where no last-iterate bound covers the run, or where it has no plateau of this kind.
    """
    if missing(run, diameter=True) is not None or unequal(run) is not None:
        return None
    if not run.strong_convexity:
        return NoisySGDPlateau().burn_in(run)
    return NoisySGDStronglyConvexPlateau().burn_in(run) if equal_steps(run).factor < 1 else None
