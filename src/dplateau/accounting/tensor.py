"""The composition of several guarantees on the same records.

Each may be made after a look at what the earlier ones released, as long as which guarantees there are is fixed in advance.
Privacy notions are kept where they can be: compositions and Gaussians join to one composition, Renyi curves add, mixtures of
Gaussians multiply out; what is left becomes a trade-off function. Proof: ``docs/proofs/exact-composition.md``, section 1, for any
dominating pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting.best_of import least_delta
from dplateau.accounting.composition import ExactComposition, GaussianDP, Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.renyi import RenyiDP
from dplateau.accounting.renyi_curve import RenyiCurve
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.terms import Composition, Repeated, Term
from dplateau.accounting.trade_offs import TradeOff, product, trade_off

_COMPONENTS: Final = 4096
"""Most components of a mixture; more are gathered, each with the largest mu of its group."""


def merged(parts: Sequence[tuple[Composition, ...]]) -> tuple[Composition, ...]:
    """The composition of all, direction by direction; what is symmetric counts in both. Equal laws are counted together."""
    count = max(len(part) for part in parts)
    return tuple(_joined([part[i % len(part)] for part in parts]) for i in range(count))


def _joined(compositions: Sequence[Composition]) -> Composition:
    counts, families = Counter[Repeated](), list[Term]()
    for term in (term for composition in compositions for term in composition.terms):
        if isinstance(term, Repeated):
            counts[replace(term, count=1)] += term.count
        else:
            families.append(term)
    repeated = (replace(one, count=count) for one, count in counts.items())
    return Composition((*repeated, *families), math.hypot(*(composition.gaussian for composition in compositions)))


def tensor(guarantees: Sequence[Guarantee]) -> Guarantee:
    """What guarantees on the same records give together.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        At least one, of any privacy notion.
    """
    if len(guarantees) == 1:
        return guarantees[0]
    if len({type(one) for one in guarantees}) == 1 and (alike := guarantees[0].joined(guarantees[1:])) is not None:
        return alike
    slack = math.fsum(one.slack for one in guarantees if isinstance(one, WithSlack))
    bare = [part for one in guarantees for part in _parts(one.inner if isinstance(one, WithSlack) else one)]
    # Plain Gaussian steps are one Gaussian, which joins any notion.
    found = _together([_plain(one) if isinstance(one, ExactComposition) else one for one in bare])
    return WithSlack(found, slack) if slack else found


def _plain(one: ExactComposition) -> Guarantee:
    """A Gaussian, where all of its steps are."""
    if one.mu is None:
        return one
    return _gaussian(one.mu, one.below[0].gaussian if one.below else one.mu)


def _parts(one: Guarantee) -> tuple[Guarantee, ...]:
    """What was composed and could not be joined: with more to compose it may be."""
    if isinstance(one, EachBest):
        return one.members
    if isinstance(one, OfTradeOff):
        return one.parts
    return (*one.curves, one.gaussian) if isinstance(one, SumOfCurves) else (one,)


def _together(guarantees: list[Guarantee]) -> Guarantee:
    if any(one.family for one in guarantees):
        return EachBest(tuple(guarantees))
    renyi = [one for one in guarantees if isinstance(one, RenyiDP)]
    if len(renyi) == len(guarantees) and len({(one.classical, one.orders) for one in renyi}) == 1:
        return RenyiDP(merged([one.directions for one in renyi]), renyi[0].classical, renyi[0].orders)
    exact = [one for one in guarantees if isinstance(one, ExactComposition)]
    gaussians = [one for one in guarantees if isinstance(one, GaussianDP)]
    mu = math.hypot(*(one.parameter for one in gaussians))
    rest = _gaussian(mu, math.hypot(*(one.lower_mu for one in gaussians)))
    mixed = [one for one in guarantees if isinstance(one, MixtureOfGaussianDP)]
    others = [one for one in guarantees if not isinstance(one, (ExactComposition, GaussianDP, MixtureOfGaussianDP))]
    if not others and not mixed:
        return _composed(exact, rest)
    if not others and not exact:
        return _mixture(mixed, rest)
    if not exact and not mixed and all(isinstance(one, (RenyiCurve, RenyiDP)) for one in others):
        return SumOfCurves(tuple(others), rest)
    parts = [*others, *([_composed(exact, rest)] if exact or mu else []), *([_mixture(mixed, GaussianDP(0.0))] if mixed else [])]
    return OfTradeOff(tuple(parts))


def _gaussian(mu: float, least: float) -> GaussianDP:
    return GaussianDP(mu, least if least < mu else None)


def _composed(exact: list[ExactComposition], rest: GaussianDP) -> Guarantee:
    if not exact:
        return rest
    above = merged([*(one.directions for one in exact), (Composition((), rest.parameter),)])
    below = merged([*(one.below or one.directions for one in exact), (Composition((), rest.lower_mu),)])
    rounded = rest.below is not None or any(one.below for one in exact)
    found = ExactComposition(above, below if rounded else (), min(one.width for one in exact))
    return _plain(found)


def _mixture(mixed: list[MixtureOfGaussianDP], rest: GaussianDP) -> Guarantee:
    """Every combination of components is a product of Gaussians."""
    squares, below, weights = np.array([rest.parameter**2]), np.array([rest.lower_mu**2]), np.ones(1)
    for one in mixed:
        squares = np.add.outer(squares, np.square(one.mus)).ravel()
        below = np.add.outer(below, np.square(one.lower_mus)).ravel()
        weights = np.multiply.outer(weights, np.array(one.weights)).ravel()
        if squares.size > _COMPONENTS:
            order = np.argsort(squares)
            ends = np.unique(np.ceil(np.linspace(0, squares.size, _COMPONENTS + 1)).astype(int))
            squares, below = squares[order][ends[1:] - 1], np.minimum.reduceat(below[order], ends[:-1])
            weights = np.add.reduceat(weights[order], ends[:-1])
    mus, lower = (tuple(np.sqrt(one).tolist()) for one in (squares, below))
    return MixtureOfGaussianDP(mus, tuple(weights.tolist()), lower if lower != mus else ())


@dataclass(frozen=True)
class SumOfCurves(RenyiCurve):
    """Renyi divergences of independent releases add, order by order; mu-GDP has ``mu^2/2`` times the order.

    Attributes
    ----------
    curves : tuple of RenyiCurve or RenyiDP
        The curves.
    gaussian : GaussianDP
        All Gaussian guarantees together.
    """

    curves: tuple[Guarantee, ...]
    gaussian: GaussianDP

    def point(self, order: float, delta: float) -> tuple[float, float]:
        """Each curve may leave out its share of delta."""
        total, outside = self.gaussian.parameter**2 / 2 * order, 0.0
        for curve in self.curves:
            if isinstance(curve, RenyiCurve):
                bound, missed = curve.point(order, delta / len(self.curves))
                total, outside = total + bound, outside + missed
            else:
                total += curve.divergence(order)
        return total, outside


@dataclass(frozen=True)
class EachBest(Guarantee):
    """Of families of guarantees each takes the member that is best for its share of delta; any choice holds."""

    family: ClassVar[bool] = True

    members: tuple[Guarantee, ...]

    def epsilon(self, delta: float) -> Enclosure:
        return self.chosen(delta).epsilon(delta)

    def upper(self, delta: float) -> float:
        return self.chosen(delta).upper(delta)

    def delta(self, epsilon: float) -> Enclosure:
        return least_delta(lambda delta: self.chosen(delta).delta(epsilon), self.upper, epsilon)

    def chosen(self, delta: float) -> Guarantee:
        return tensor([one.chosen(delta / len(self.members)) for one in self.members])


@dataclass(frozen=True, eq=False)
class OfTradeOff(Guarantee):
    """The tensor product of the trade-off functions of guarantees in several privacy notions."""

    parts: tuple[Guarantee, ...]

    @cached_property
    def _function(self) -> TradeOff:
        return product([(trade_off(part).polygon(), 1) for part in self.parts])

    def epsilon(self, delta: float) -> Enclosure:
        # Every part alone is a lower bound.
        upper = max(f.epsilon(delta) for f in (self._function, self._function.inverse))
        return Enclosure(min(max(part.epsilon(delta).lower for part in self.parts), upper), upper)

    def delta(self, epsilon: float) -> Enclosure:
        upper = max(f.delta(epsilon) for f in (self._function, self._function.inverse))
        return Enclosure(min(max(part.delta(epsilon).lower for part in self.parts), upper), upper)
