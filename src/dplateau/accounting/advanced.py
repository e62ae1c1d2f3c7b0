"""Advanced composition of (epsilon, delta) steps, and of Gaussian steps that are amplified by sampling.

Sources: Kairouz, Oh, Viswanath 2017, Theorem 3.5, printed as Lemma 2.2 in Wu et al. 2021; Balle, Barthe, Gaboardi 2018
(amplification), in a looser form Lemma A.1 of Wu et al. 2021. Proof: ``docs/proofs/advanced-composition.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import Array, gdp_epsilon
from dplateau.accounting.roots import minimum, root
from dplateau.spec import InputError
from dplateau.spec.arguments import real, vector

_LARGEST: Final = 1e9
_ROOM: Final = 1e-12
_ROUNDING: Final = 1e-9


def advanced_composition(epsilons: Sequence[float] | Array, deltas: Sequence[float] | Array, slack: float) -> tuple[float, float]:
    """What steps that are ``(epsilon_i, delta_i)``-DP, each given the earlier ones, are together. **Proved.**

    ``epsilon = sqrt(2 log(1/slack) sum epsilon_i^2) + sum epsilon_i (e^epsilon_i - 1)/(e^epsilon_i + 1)``, ``delta = 1 - product of
    (1 - delta_i) + slack``. The condition ``epsilon_i < 1`` of the printed lemma is not needed.

    Parameters
    ----------
    epsilons, deltas : sequence of float
        Of the steps; epsilons >= 0, deltas in [0, 1].
    slack : float
        delta' of the lemma, in (0, 1).

    Returns
    -------
    tuple of float
        epsilon and delta of all steps together, rounded up.
    """
    epsilon, delta = (vector(name, one, inclusive=True) for name, one in (("epsilons", epsilons), ("deltas", deltas)))
    if epsilon.shape != delta.shape or (delta > 1).any() or real("slack", slack) >= 1:
        raise InputError("advanced composition needs as many deltas in [0, 1] as epsilons >= 0, and a slack in (0, 1).")
    with np.errstate(divide="ignore"):
        missed = -math.expm1(float(np.log1p(-delta).sum()))
    found = _epsilon(epsilon, np.ones(epsilon.shape), -math.log(slack))
    return found * (1 + _ROOM), min((missed + slack) * (1 + _ROOM), 1.0)


def _epsilon(epsilon: Array, count: Array, log_slack: float) -> float:
    """The lemma's, of steps that occur so often; ``log_slack`` is ``log(1/slack)``."""
    unit = min(max(float(epsilon.max(initial=0.0)), 1e-300), 1.0)  # Squares of small epsilons are 0.
    squares, means = float(count @ (epsilon / unit) ** 2), float(count @ (epsilon * np.tanh(epsilon / 2)))
    return math.sqrt(2 * log_slack * squares) * unit + means


@dataclass(frozen=True, eq=False)
class AdvancedComposition(Guarantee):
    """Gaussian steps, each amplified by sampling, by advanced composition.

    A step whose record is drawn with probability q is ``(log(1 + q (e^e - 1)), q d)``-DP for every (e, d) of its Gaussian
    mechanism. All steps get one d; its share of delta, and that of the lemma's slack, are searched.

    Attributes
    ----------
    rate, gap, count : array of shape (k,)
        q, sensitivity over noise, and the number of such steps.
    """

    rate: Array
    gap: Array
    count: Array

    def joined(self, others: Sequence[Guarantee]) -> Guarantee | None:
        all_of = [one for one in (self, *others) if isinstance(one, AdvancedComposition)]
        return AdvancedComposition(*(np.concatenate([getattr(one, name) for one in all_of]) for name in ("rate", "gap", "count")))

    def epsilon(self, delta: float) -> Enclosure:
        _, least = minimum(lambda share: self._at(float(delta), share), 0.01, 0.99, xtol=1e-3)
        return Enclosure(0.0, least * (1 + _ROOM) if least < _LARGEST else math.inf)

    def _at(self, delta: float, share: float) -> float:
        """Epsilon where the steps' deltas sum to ``share`` of delta, which is at least one minus the product."""
        each = share * delta / float(self.count @ self.rate)
        if not min(each, (1 - share) * delta) > 0:  # Shares of the smallest doubles are none.
            return _LARGEST
        found = {mu: gdp_epsilon(mu, each) if each < 1 else 0.0 for mu in np.unique(self.gap).tolist()}
        alone = np.array([found[mu] for mu in self.gap.tolist()])
        if not alone.max() < 700:
            return _LARGEST
        log_slack = math.log(1 / ((1 - share) * delta))
        return min(_epsilon(np.log1p(self.rate * np.expm1(alone)), self.count, log_slack), _LARGEST)

    def delta(self, epsilon: float) -> Enclosure:
        """The inverse of ``epsilon``, looked up once more."""
        epsilon = float(epsilon)

        def excess(log_delta: float) -> float:
            return self.epsilon(math.exp(log_delta)).upper - epsilon

        low, high = math.log(1e-300), math.log(0.999)
        if excess(high) > 0:
            return Enclosure(0.0, 1.0)
        if excess(low) <= 0:
            return Enclosure(0.0, math.exp(low))
        found = root(lambda x: min(excess(x), _LARGEST), low, high, xtol=_ROUNDING) + 1e-6
        return Enclosure(0.0, math.exp(found) if excess(found) <= 0 else 1.0)
