"""Noisy minibatch descent over a fixed partition of the records (Ye, Shokri)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dplateau.accounting import Guarantee, Proved
from dplateau.accounting.gaussian import Array
from dplateau.accounting.renyi_curve import RenyiCurve
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import equal_steps, log_contraction, uneven
from dplateau.analyses.last_uses import rounded_mu
from dplateau.analyses.requirements import missing
from dplateau.spec import Cyclic, Run, Shuffled
from dplateau.spec.schedule import largest


class ShuffleAndPartitionBound(Analysis):
    """``D_a <= e_h (1 - c^(2(K-1)(l-h)))/(1 - c^(2(l-h))) + log(mean over k of exp((a - 1) e_k))/(a - 1)``. **Proved.**

    K epochs of l batches, h = floor(l/2), and ``e_k = a/2 (s/noise)^2 c^(2(k-1)) (1 - c^2)/(1 - c^(2k))``: the cost of one use
    that is followed by k - 1 more steps. The mean is over the k of the last use, 1 to l.

    The paper shuffles once, in secret, and then keeps the partition. Here ``Cyclic`` has a public order, so the worst k = 1 counts
    in place of the mean; ``Shuffled`` draws the order afresh every epoch, which is the paper's scheme for one epoch only. The bound
    is at least that of the shifts of ``docs/proofs/fixed-order.md``: between two uses lie l steps, and
    ``(1 - c^(2h)) (1 - c^(2(l-h))) <= (1 - c^l)^2``.

    Setting: m-strongly convex, M-smooth losses, at least two equal batches, whole epochs, constant step size below
    ``2/(strong_convexity + smoothness)`` (so c = 1 - eta m) and constant noise; no diameter.

    Source: Ye, Shokri 2022, the bound for "shuffle and partition", in the form of the authors' program.
    """

    name = "shuffle-partition"
    source = 'Ye, Shokri 2022, "shuffle and partition"'
    status = Proved

    def why_not(self, run: Run) -> str | None:
        reason = missing(run, strongly_convex=True, samplings=(Cyclic, Shuffled)) or uneven(run)
        if reason is not None or run.step_size is None:
            return reason
        length = run.sampling.epoch_length(run.n)
        longest, most = largest(run.step_size), 2 / ((run.strong_convexity or 0.0) + (run.smoothness or 0.0))
        if longest >= most or equal_steps(run).factor >= 1:
            return f"step_size {longest:g} is not below 2/(strong_convexity + smoothness) = {most:g}. Lower step_size."
        if length < 2:
            return "an epoch has one batch only. Use sampling=FullBatch()."
        if run.sampling.shuffled and run.steps != length:
            return "it shuffles once and keeps the order, the run shuffles anew in every epoch: it covers one epoch only."
        return None

    def guarantee(self, run: Run) -> Guarantee:
        steps = equal_steps(run)
        cost = (steps.gap / steps.noise) ** 2 / 2
        return PartitionCurve(run, steps.factor, cost, steps.batches, steps.epochs, run.sampling.shuffled)


@dataclass(frozen=True)
class PartitionCurve(RenyiCurve):
    """The bound: contraction c, cost of one step per unit of the order, batches and epochs, and whether the order is secret.

    The run says how much room rounding needs.
    """

    run: Run
    factor: float
    cost: float
    batches: int
    epochs: int
    averaged: bool

    def _use(self, later: Array) -> Array:
        """e_k per unit of the order, for k = ``later`` steps, the one that uses the record included."""
        log = log_contraction(self.factor)
        return self.cost * np.exp(2 * (later - 1) * log) * np.expm1(2 * log) / np.expm1(2 * later * log)

    @cached_property
    def _costs(self) -> Array:
        """Cost per unit of the order by the place of the record, the last place first."""
        last = self._use(np.arange(1.0, self.batches + 1 if self.averaged else 2))
        return rounded_mu(2 * (last + self._earlier), self.run.steps) ** 2 / 2

    @property
    def _earlier(self) -> float:
        """What all uses but the last cost per unit of the order."""
        half = self.batches // 2
        power = 2 * (self.batches - half) * log_contraction(self.factor)
        sums = math.expm1((self.epochs - 1) * power) / math.expm1(power)
        return float(self._use(np.asarray(float(half)))) * sums

    def point(self, order: float, delta: float) -> tuple[float, float]:
        exponents = order * (order - 1) * self._costs
        top = float(exponents.max())
        return (top + math.log(float(np.exp(exponents - top).mean()))) / (order - 1), 0.0
