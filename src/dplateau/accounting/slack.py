"""A guarantee that holds unless an event of small probability happens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure


@dataclass(frozen=True)
class WithSlack(Guarantee):
    """``inner`` with ``slack`` added to delta.

    The event has probability at most ``slack`` under both runs, it depends on neither the record nor the noise, and ``inner`` holds
    given that it does not happen: delta grows by at most ``slack``.

    Attributes
    ----------
    inner : Guarantee
        What holds given that the event does not happen.
    slack : float
        Its probability, rounded up.
    note : str, optional
        How ``inner`` was chosen.
    steps : int, optional
        The number of steps that ``inner`` looks back over, where it does.
    """

    inner: Guarantee
    slack: float
    note: str | None = None
    steps: int | None = None

    def epsilon(self, delta: float) -> Enclosure:
        """Infinite where the slack alone exceeds ``delta``."""
        left = self._left(delta)
        return self.inner.epsilon(left) if left > 0 else Enclosure(0.0, math.inf)

    def upper(self, delta: float) -> float:
        left = self._left(delta)
        return self.inner.upper(left) if left > 0 else math.inf

    def _left(self, delta: float) -> float:
        """What the slack leaves of delta, which loses digits to the subtraction and is rounded down."""
        delta = float(delta)
        return delta - self.slack - 1e-15 * delta

    @property
    def least(self) -> float:
        return self.slack

    def choice(self, delta: float) -> str | None:
        return self.note

    def delta(self, epsilon: float) -> Enclosure:
        return self._more(self.inner.delta(epsilon))

    def profile(self, least: float) -> Callable[[float], Enclosure]:
        read = self.inner.profile(least)
        return lambda epsilon: self._more(read(epsilon))

    def _more(self, inner: Enclosure) -> Enclosure:
        """The slack added, rounded up: beside it the rest may be too small to be seen."""
        return Enclosure(inner.lower, min(math.nextafter(inner.upper + self.slack, math.inf), 1.0))
