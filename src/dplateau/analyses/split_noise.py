"""The last iterate of sampled batches, with the noise split in two.

The noise of every step is ``sigma_1^2 + sigma_2^2 = sigma^2``. Looking back R steps, any two iterates are at most a diameter apart;
sigma_1 absorbs that distance over the R steps, at mu_1, and sigma_2 hides which records were drawn in each of them:

    ``D_a <= R S_a(sigma_2) + a mu_1(R, sigma_1)^2 / 2``,

S_a the Renyi divergence of one sampled step. For every order the best R and the best split are taken; back to the start both runs
agree, so all noise may hide the draws. Every choice is a bound, so the search may be rough.

Proof that the same gap 2 L/b as in plain composition does: ``docs/proofs/sampled-last-iterate.md``. Source of the idea: Altschuler,
Talwar 2022, section 3.2, whose sampled step is the smaller direction of the divergence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import StepLaw
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.renyi_curve import RenyiCurve
from dplateau.accounting.roots import minimum
from dplateau.accounting.terms import Composition, Repeated
from dplateau.analyses.closed_forms import log_contraction
from dplateau.spec import Run

_TRIED: Final = 64
"""Look-backs that are tried side by side."""
_FAINT: Final = 1e-4
"""A smaller shift counts as this one, which needs no more than some hundred nodes; less noise is safe."""
_ESCAPES: Final = 0.1
"""At most this share of delta is spent on steps that are not contractions."""


@dataclass(frozen=True)
class SplitNoise(RenyiCurve):
    """The bound above, read at any delta.

    Attributes
    ----------
    kinds : tuple of StepLaw types
        The sampled step in each direction; the larger divergence counts.
    rate, shift : float
        Sampling rate in (0, 1), and the shift of one step over its whole noise.
    steps : int
        T.
    far : callable
        mu_1 by look-back (an array of whole numbers from 1 to T), if sigma_1 were the whole noise.
    escape : float
        Probability that a step is not a contraction, for reasons that do not depend on the record.
    round_off : float
        Share of its noise by which a step may miss the exact gradient step, on either data set.
    """

    kinds: tuple[type[StepLaw], ...]
    rate: float
    shift: float
    steps: int
    far: Callable[[Array], Array]
    escape: float = 0.0
    round_off: float = 0.0
    least_order = 1.01
    greatest_order = 2000.0
    tried: ClassVar[int] = 9

    def point(self, order: float, delta: float) -> tuple[float, float]:
        best = (self.steps * self._step(order, 1.0), 0.0)
        most = self.steps if self.escape == 0 else int(min(self.steps, _ESCAPES * delta / self.escape))
        if not most or not best[0] > 0:
            return best

        def at(x: float) -> tuple[float, float]:
            """Bound and escapes where the share of sigma_2^2 is the logistic function of x."""
            share = 1 / (1 + math.exp(-x))
            step = self._step(order, share)
            if not step < math.inf:
                return math.inf, 0.0
            bound, look = self._look_back(step, order / (2 * (1 - share)), most)
            return bound, look * self.escape

        return min(best, at(minimum(lambda x: min(at(x)[0], 1e9), -4.0, 7.0, xtol=0.05, most=10)[0]))

    def _step(self, order: float, share: float) -> float:
        shift = max(self.shift / math.sqrt(share), _FAINT)
        return max(renyi_divergence(Composition((Repeated(kind(self.rate, shift), 1),)), order) for kind in self.kinds)

    def _look_back(self, step: float, absorbing: float, most: int) -> tuple[float, int]:
        """The least ``R step + absorbing far(R)^2`` over R up to ``most``, and R: a grid, then a finer one around the best."""
        looks = np.unique(np.geomspace(1, most, min(most, _TRIED)).round())
        result = math.inf, 0
        for _ in range(2):
            costs = looks * step + absorbing * (self.far(looks) + 2 * self.round_off * np.sqrt(looks)) ** 2
            best = int(np.argmin(costs))
            result = float(costs[best]), int(looks[best])
            low, high = looks[max(best - 1, 0)], looks[min(best + 1, looks.size - 1)]
            looks = np.unique(np.linspace(low, high, int(min(high - low + 1, _TRIED))).round())
        return result[0] * (1 + 1e-9), result[1]


def absorbed(run: Run, factor: float) -> Callable[[Array], Array]:
    """mu_1 of equal steps: ``c^R D sqrt((1 - c^2)/(1 - c^(2R)))`` over the noise, which is ``D/sqrt(R)`` over it at c = 1."""
    diameter, noise = run.diameter or 0.0, run.table.only.deviation
    if factor == 1:
        return lambda looks: diameter / (noise * np.sqrt(looks))
    log = log_contraction(factor)
    return lambda looks: diameter / noise * np.exp(looks * log) * np.sqrt(np.expm1(2 * log) / np.expm1(2 * looks * log))
