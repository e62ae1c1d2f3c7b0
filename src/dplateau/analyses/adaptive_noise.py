"""The closed form of Wu et al. for noise that differs from step to step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting import Enclosure, Guarantee, Proved
from dplateau.accounting.gaussian import Array
from dplateau.accounting.roots import root
from dplateau.analyses.advanced_composition import SAMPLED
from dplateau.analyses.base import Analysis
from dplateau.analyses.requirements import other_sampling
from dplateau.spec import Run

_ROOM: Final = 1e-12


@dataclass(frozen=True, eq=False)
class AdaptiveNoiseGuarantee(Guarantee):
    """``epsilon = 16 sqrt(log(16 sum q_t / delta) log(1.25/delta) sum q_t^2/z_t^2)``, where its conditions hold.

    Attributes
    ----------
    rate, noise, count : array of shape (k,)
        q, z and the number of such steps.
    """

    rate: Array
    noise: Array
    count: Array

    def joined(self, others: Sequence[Guarantee]) -> Guarantee | None:
        all_of = [one for one in (self, *others) if isinstance(one, AdaptiveNoiseGuarantee)]
        return AdaptiveNoiseGuarantee(
            *(np.concatenate([getattr(one, name) for one in all_of]) for name in ("rate", "noise", "count"))
        )

    @property
    def _drawn(self) -> float:
        """How often a record is drawn, on average: T m/n."""
        return float(self.count @ self.rate)

    def why_not(self, delta: float) -> str | None:
        """The condition of the proof that fails at ``delta``, if one does."""
        each = 0.2 * delta / self._drawn
        if each >= 1:
            return f"too few steps: a record is drawn {self._drawn:.3g} times on average. Take more than delta/5 = {delta / 5:.3g}."
        least = 2 * math.sqrt(2 * (math.log(1.25) - math.log(each))) if each > 0 else math.inf
        if (z := float(self.noise.min())) < least:
            return (
                f"noise_multiplier {z:g} is below {least:.4g}: a step alone then has epsilon above 1, where the classical Gaussian "
                "mechanism does not hold. Raise the noise."
            )
        alone = 4 * self.rate / self.noise * math.sqrt(2 * math.log(1.25 / each))
        drift = float(self.count @ (alone * np.tanh(alone / 2)))
        spread = math.sqrt(2 * math.log(1.25 / delta) * float(self.count @ alone**2))
        if drift > spread:
            return (
                f"the bound on the mean privacy loss, {drift:.3g}, is above the one on its deviation, {spread:.3g}. "
                "Raise the noise or lower the rate."
            )
        return None

    def epsilon(self, delta: float) -> Enclosure:
        """Infinite where a condition fails."""
        return Enclosure(0.0, math.inf if self.why_not(delta) else self._closed_form(delta))

    def _closed_form(self, delta: float) -> float:
        logs = math.log(16 * self._drawn / delta) * math.log(1.25 / delta)
        return 16 * math.sqrt(logs * float(self.count @ (self.rate / self.noise) ** 2)) * (1 + _ROOM)

    def delta(self, epsilon: float) -> Enclosure:
        """The closed form falls with delta, and a step alone needs some delta; 1 where no delta is found."""
        # 0.2 delta/drawn is at least what the classical mechanism needs for epsilon 1, 1.25 exp(-z^2/8).
        needed = math.log(6.25 * self._drawn) - float(self.noise.min()) ** 2 / 8 + 1e-9
        low, high = max(math.log(1e-300), needed), math.log(min(0.999, self._drawn))
        if low >= high or self._closed_form(math.exp(high)) > epsilon:
            return Enclosure(0.0, 1.0)
        if self._closed_form(math.exp(low)) > epsilon:
            low = root(lambda x: self._closed_form(math.exp(x)) - epsilon, low, high, xtol=1e-9) + 1e-6
        delta = math.exp(low)
        return Enclosure(0.0, delta if self.epsilon(delta).upper <= epsilon else 1.0)


class AdaptiveNoiseBound(Analysis):
    """Advanced composition in closed form, for noise that differs from step to step. **Proved**, where its conditions hold.

    In the paper's notation ``sigma^2 = (16 G)^2 B sum alpha_t^-2 / (n epsilon)^2`` with ``B = log(16 T m/(n delta))
    log(1.25/delta)``. Conditions, of which Theorem 4.1 prints none and Theorem C.1 the first with two factors exchanged: every
    step alone has epsilon at most 1 before sampling, and the mean of the privacy loss is below its deviation. Beyond the first the
    printed claim is false (``docs/errata.md``).

    Setting: as for ``advanced-composition``, with the doubled sensitivity of replace.

    Source: Wu et al. 2021, Theorems 4.1, A.1 and C.1; ``docs/proofs/adaptive-noise.md``.
    """

    name = "adaptive-noise"
    source = "Wu et al. 2021, Theorem C.1, its conditions checked"
    status = Proved
    dominated_by = "advanced-composition"

    def why_not(self, run: Run) -> str | None:
        return other_sampling(run, *SAMPLED)

    def guarantee(self, run: Run) -> Guarantee:
        return AdaptiveNoiseGuarantee(*run.table.draws())
