"""Exact composition: the best method for what is composed, behind one ``Guarantee``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting.contour import WIDTH, at_most, contour_epsilon
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import LEAST, SLACK, delta_slack, gdp_delta, gdp_delta_above, gdp_epsilon
from dplateau.accounting.lattice import lattice_at_most, lattice_epsilon
from dplateau.accounting.privacy_loss import CLOSED, StepLaw, TooSlowError
from dplateau.accounting.reading import Reading
from dplateau.accounting.roots import root
from dplateau.accounting.sparse import NARROW, RARE, sparse_epsilon, sparse_upper
from dplateau.accounting.terms import Composition, Repeated, renyi_divergence

_LAWS: Final = 64
"""Most laws whose steps are looked at one by one."""
_PROFILE: Final = 1e-4
"""Aim for the width of lattices that serve a whole profile."""
_SPARSE: Final = 1e-6
"""With small rates an epsilon that is known within this share is not looked at again; with others ``NARROW`` will do."""


class Guarantee(ABC):
    """A privacy statement that can be read at any delta or epsilon.

    Attributes
    ----------
    family : bool
        Whether it is a family of statements that all hold, of which ``chosen`` takes one.
    """

    family: ClassVar[bool] = False

    @abstractmethod
    def epsilon(self, delta: float) -> Enclosure:
        """The least ``epsilon >= 0`` at ``delta`` that the statement allows, enclosed."""

    @abstractmethod
    def delta(self, epsilon: float) -> Enclosure:
        """The privacy profile: the least ``delta`` at ``epsilon`` >= 0 that the statement allows, enclosed."""

    def upper(self, delta: float) -> float:
        """The upper end of ``epsilon(delta)``, which may be found faster."""
        return self.epsilon(delta).upper

    def profile(self, least: float) -> Callable[[float], Enclosure]:
        """``self.delta``, or what is faster where many epsilons are asked; of deltas below ``least`` only that they are small."""
        return self.delta

    @property
    def mu(self) -> float | None:
        """mu, where the statement is mu-GDP."""
        return None

    @property
    def least(self) -> float:
        """No delta below this can be read; 0 where all can."""
        return 0.0

    def divergence(self, order: float) -> float:
        """A bound on the Renyi divergence of the given order > 1 in either direction, rounded up; infinite where there is none."""
        return math.inf

    def chosen(self, delta: float) -> Guarantee:
        """Of a family of statements the one that is read at ``delta``; any other statement is its own."""
        return self

    def choice(self, delta: float) -> str | None:
        """What was chosen at ``delta``, in words: a look-back. None where there is nothing to choose."""
        return None

    def joined(self, others: Sequence[Guarantee]) -> Guarantee | None:
        """What this guarantee and others of its kind give together, on the same records; None where that is of another kind."""
        return None

    def why_not(self, delta: float) -> str | None:
        """The condition that the statement has at this delta and that is not met; None where it can be read there."""
        return None


@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """mu-GDP.

    Attributes
    ----------
    parameter : float
        mu.
    below : float, optional
        mu rounded down, for the lower ends, where ``parameter`` had to be rounded upwards.
    """

    parameter: float
    below: float | None = None

    @property
    def lower_mu(self) -> float:
        """mu, rounded down."""
        return self.parameter if self.below is None else self.below

    def epsilon(self, delta: float) -> Enclosure:
        delta = float(delta)  # as in ``ExactComposition``
        # Where delta hardly falls, or epsilon is next to 0, a rounding of delta is more than a share of epsilon.
        least, value = gdp_epsilon(self.lower_mu, delta * (1 + SLACK)), gdp_epsilon(self.parameter, delta * (1 - SLACK))
        return Enclosure(least * (1 - SLACK), value * (1 + SLACK))

    def delta(self, epsilon: float) -> Enclosure:
        least = gdp_delta(self.lower_mu, epsilon) * (1 - delta_slack(self.lower_mu))
        return Enclosure(max(least - 2 * LEAST, 0.0), gdp_delta_above(self.parameter, epsilon))

    def divergence(self, order: float) -> float:
        return order * self.parameter**2 / 2 * (1 + SLACK)

    @property
    def mu(self) -> float | None:
        """mu."""
        return self.parameter


def _single(law: StepLaw, delta: float) -> Enclosure:
    """One step: its profile is known in closed form."""

    def end(sign: float) -> float:
        """The epsilon at which delta, rounded up or down, is the one wanted: where it hardly falls, the two are far apart."""

        def excess(epsilon: float) -> float:
            value, room = law.closed(epsilon)
            return math.log(max(value + sign * room, LEAST) / delta)

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if not high < math.inf:  # A law that was rounded upwards may fall no further.
                raise TooSlowError
        value = root(excess, 0.0, high, xtol=1e-15)
        return max(value + sign * CLOSED * (1 + value), 0.0)

    upper = min(end(1.0), law.greatest)
    return Enclosure(min(end(-1.0), upper), upper)


def _step_by_step(composition: Composition, delta: float) -> Enclosure:
    """What single steps say: no less than the worst of them, and no more than all, each with its share of delta."""
    laws, rest = composition.laws, GaussianDP(composition.gaussian)
    if len(laws) > _LAWS:
        return Enclosure(0.0, math.inf)
    share = delta / (composition.steps + (composition.gaussian > 0)) * (1 - SLACK)
    lower = max(rest.epsilon(delta).lower, *(_single(law, delta).lower for law, _ in laws))
    upper = rest.epsilon(share).upper + math.fsum(count * _single(law, share).upper for law, count in laws)
    return Enclosure(lower, max(upper * (1 + SLACK), lower))


@dataclass(frozen=True)
class ExactComposition(Guarantee):
    """The larger of the two directions of a composition of dominating pairs.

    Attributes
    ----------
    directions : tuple of Composition
        The laws under (P, Q) and under (Q, P); one entry if they are equal.
    below : tuple of Composition, optional
        Compositions that the run dominates, for the lower ends, where ``directions`` had to be rounded upwards.
    width : float
        Aim for the width of the enclosures of epsilon, where a lattice is needed; of a contour it is ``WIDTH``.
    """

    directions: tuple[Composition, ...]
    below: tuple[Composition, ...] = ()
    width: float = WIDTH

    def epsilon(self, delta: float) -> Enclosure:
        """The enclosure is never narrower than what was computed; where that is wide, it stays wide."""
        delta = float(delta)  # Numbers of NumPy in single or half precision would round what follows.
        result = self.larger(self.directions, delta)
        return Enclosure(self.larger(self.below, delta).lower, result.upper) if self.below else result

    def upper(self, delta: float) -> float:
        return _upper(self, float(delta))

    def delta(self, epsilon: float) -> Enclosure:
        return self._profile(self.width, 0.0)(epsilon)

    def profile(self, least: float) -> Callable[[float], Enclosure]:
        """What was computed for one epsilon serves others, too."""
        return self._profile(max(self.width, _PROFILE), least)

    def _profile(self, width: float, least: float) -> Callable[[float], Enclosure]:
        plain = [GaussianDP(one.gaussian) for one in self.directions if not one.terms]
        readings = [Reading(one, width, least, rounded=bool(self.below)) for one in self.directions if one.terms]

        def read(epsilon: float) -> Enclosure:
            epsilon, result = float(epsilon), Enclosure(0.0, 0.0)
            if not epsilon >= 0:
                return Enclosure(0.0, 1.0)
            for one in plain:
                result = result | one.delta(epsilon)
            for reading in sorted(readings, key=lambda one: -one.latest):
                result = result | reading(epsilon, result.lower)
            return Enclosure(0.0, result.upper) if self.below else result

        return read

    def divergence(self, order: float) -> float:
        return max(renyi_divergence(direction, order) for direction in self.directions)

    @property
    def mu(self) -> float | None:
        """mu, where every step is a plain Gaussian."""
        return None if any(composition.terms for composition in self.directions) else self.directions[0].gaussian

    def larger(self, directions: tuple[Composition, ...], delta: float, *, upper: bool = False) -> Enclosure:
        """The epsilon of the direction that costs more; ``upper`` asks for that end alone."""
        result = Enclosure(0.0, 0.0)
        for composition in directions:
            known = result.upper if upper else result.lower
            below = lattice_at_most if composition.on_points else at_most
            if known > 0 and composition.terms and below(composition, known, delta):
                continue
            result = result | self._direction(composition, delta, upper)
        return result

    def _direction(self, composition: Composition, delta: float, upper: bool) -> Enclosure:
        if not composition.terms:
            return GaussianDP(composition.gaussian).epsilon(delta)
        with np.errstate(all="ignore"):  # What overflows is caught as not finite.
            return self._shortcut(composition, delta) or self._composed(composition, delta, upper)

    def _alone(self, term: Repeated, composition: Composition, delta: float) -> Enclosure:
        """The epsilon of one law; where that is rounded, the contour may know more, and sooner."""
        found = Enclosure(0.0, math.inf)
        if term.rounded:
            # Far out a law that was rounded upwards says next to nothing: there it is never worse than without sampling.
            found = Enclosure(0.0, GaussianDP(composition.unsampled).epsilon(delta).upper)
            with suppress(ArithmeticError, ValueError):
                found = self._both(found, contour_epsilon(composition, delta))
        return found if found.width <= self.width else self._both(_single(term.law, delta), found)

    def _shortcut(self, composition: Composition, delta: float) -> Enclosure | None:
        """The answer for one step, and for steps that nobody can tell apart."""
        with suppress(ArithmeticError, ValueError):
            if composition.alone is not None:
                return self._alone(composition.alone, composition, delta)
            if not composition.gaussian and composition.variation() <= delta:
                return Enclosure(0.0, 0.0)
        return None

    def _composed(self, composition: Composition, delta: float, upper: bool) -> Enclosure:
        result = Enclosure(0.0, min(composition.greatest, GaussianDP(composition.unsampled).epsilon(delta).upper))
        for method in (contour_epsilon, partial(lattice_epsilon, width=self.width, upper=upper)):
            try:
                found = method(composition, delta)
            except (ArithmeticError, ValueError):  # too slow, an overflow, or not a number: nothing is known
                continue
            result = self._both(result, found)
            if result.width <= self.width:
                return result
        with suppress(ArithmeticError, ValueError):
            result = self._both(result, _step_by_step(composition, delta))
        # Where few draws are expected, both methods are wide.
        share = _SPARSE if composition.rate <= RARE else NARROW
        with suppress(ArithmeticError, ValueError):
            if upper:
                found = self._both(result, sparse_upper(composition, delta, result, self.width))
                # An enclosure that is no wider than this is not looked at again.
                return found if result.upper - found.upper > max(self.width, share * result.upper) else result
            if result.width > share * result.upper:
                return self._both(result, sparse_epsilon(composition, delta, result, self.width))
        return result

    def _both(self, one: Enclosure, other: Enclosure) -> Enclosure:
        """Where two enclosures meet. A law that was rounded upwards may lie above an upper end for the steps themselves."""
        return one.meet(other, rounded=bool(self.below))


@lru_cache(maxsize=32)
def _upper(guarantee: ExactComposition, delta: float) -> float:
    """Kept, since several searches ask for the same one."""
    return guarantee.larger(guarantee.directions, delta, upper=True).upper
