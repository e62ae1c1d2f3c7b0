"""Noisy gradient descent on cyclic batches of a bounded set (Altschuler, Talwar)."""

from __future__ import annotations

import math

from dplateau.accounting import Guarantee, Proved
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import EqualSteps, concentrated, equal_steps, uneven
from dplateau.analyses.requirements import missing
from dplateau.spec import Cyclic, Run


class NoisyCGDBound(Analysis):
    """``D_a <= a/(2 eta^2 sigma^2)`` times the sum of squares that the proof starts from, for the worst record. **Proved.**

    With l batches an epoch, s = 2 eta L/b (eta L/b under add-remove), D~ = D + s, and looking back R steps, R a multiple of l, the
    record in batch j has the sum ``(j - 1) (D~/R)^2 + (R - l) (D~/R + s/l)^2 + (l - j + 1) (D~/R + s/(l - j + 1))^2``. It grows
    with j, so the last batch counts: ``D~^2/R + 2 D~ s/l + R s^2/l^2 + (1 - 1/l) s^2``. Back to the start both runs agree, so
    D~ = 0. The shifts of the proof were checked: none takes more than is there, and nothing is left.

    Setting: convex smooth losses, cyclic batches of equal size, whole epochs, projection on a set of diameter D, constant step size
    up to ``2/smoothness`` and constant noise.

    Source: Altschuler, Talwar 2022, Theorem 5.8: (5.6) with the shifts of its proof, before the constants are dropped.
    """

    name = "noisy-cgd"
    source = "Altschuler, Talwar 2022, Theorem 5.8 through (5.6)"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return missing(run, diameter=True, samplings=(Cyclic,)) or uneven(run)

    def guarantee(self, run: Run) -> Guarantee:
        steps = equal_steps(run)
        far = (run.diameter or 0.0) + steps.gap
        best = min(far / steps.gap, float(steps.epochs))
        looks = {max(look, 1) for look in (math.floor(best), math.ceil(best))}
        cost = min(sum_of_squares(steps, 0.0, steps.epochs), *(sum_of_squares(steps, far, look) for look in looks))
        return concentrated(run, cost / (2 * steps.noise**2))


def sum_of_squares(steps: EqualSteps, far: float, epochs: int) -> float:
    """The sum of the squared shifts for a record in the last batch, looking back so many epochs to a distance ``far``."""
    look, s, length = epochs * steps.batches, steps.gap, steps.batches
    return far**2 / look + 2 * far * s / length + look * (s / length) ** 2 + (1 - 1 / length) * s**2
