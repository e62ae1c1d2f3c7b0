"""delta(epsilon) of a composition by an integral along a vertical line, enclosed in balls.

With ``M(s) = E_P exp(s loss)`` of all steps and any c > 0, h > 0 and P = 2 pi/h (``docs/proofs/exact-composition.md``, section 7),

    ``h/(2 pi) sum over whole k of F(c + i k h) = sum over whole j of delta(epsilon + j P) exp(c j P)``,
    ``F(s) = M(s) exp(-s epsilon) / (s (s + 1))``.

All terms on the right are >= 0, so the sum is never below delta. It exceeds it by at most ``1/(exp(c P) - 1)`` for j < 0, and for
j > 0 by what Chernoff's bound at a larger c allows. The sum ends at omega = N h: what is missing is at most
``sup |M(c + i w)| exp(-c epsilon) / (pi omega)``, the supremum over w >= omega.

That is found so. The tilted law of a step's loss, m(c) in all, lies above layers: uniform laws on stretches of losses, of known
mass and width. The transform of one of width v is at most ``env(w v/2)`` of its mass, where env falls and is at least
``|sin x / x|``: ``1 - x^2/6 + x^4/120`` up to 2, then 1/x. So ``|m(c + i w)| <= m(c) - sum of mass (1 - env(omega v/2))``.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, NamedTuple

from flint import acb, arb

from dplateau.verifier.balls import exact, largest, precision
from dplateau.verifier.laws import Branch, Sampled
from dplateau.verifier.quadrature import TooHardError, nodes
from dplateau.verifier.statement import Composition

_CELLS: Final = 1_000
"""Into so many cells a branch is cut for its layers."""
_MOST: Final = 20_000
"""Most nodes of the line."""
_DIGITS: Final = math.log(1e-13)
"""What may be missing of delta, and be too much, relatively: where the line's choices aim at."""
_FURTHER: Final = (1.03, 1.1, 1.25, 1.6, 2.5)
"""Where Chernoff's bound is tried, in units of c."""


class _Layer(NamedTuple):
    mass: arb
    width: arb


def _layers(branch: Branch, c: arb) -> list[_Layer]:
    """Layers beneath the tilted law of one branch, in the order of losses unimodal: cells from the highest one outwards."""
    low, high = branch.low, branch.high
    if low is None:
        low = min(branch.tail(c, -1, second=second)[2] for second in (False, True)) - 9
    if high is None:
        high = largest(*(branch.tail(c, 1, second=second)[2] for second in (False, True)), low) + 9
    edges = [low + (high - low) * k / _CELLS for k in range(_CELLS + 1)]
    places = [branch.loss(edge) for edge in edges]
    heights = list[float]()
    for left, right in zip(edges[:-1], edges[1:], strict=True):
        h = left.union(right)
        found = (branch.p.log(h) - h * h / 2 + c * branch.loss(h)).exp() / (2 * arb.pi()).sqrt() / abs(branch.slope(h))
        heights.append(float(found.abs_lower()) * (1 - 1e-12) if found.is_finite() else 0.0)
    first = last = max(range(_CELLS), key=heights.__getitem__)
    layers, level = list[_Layer](), heights[first]
    # Each layer ends where one of the two neighbours is lower.
    while level > 0:
        before = heights[first - 1] if first else 0.0
        after = heights[last + 1] if last + 1 < _CELLS else 0.0
        following = min(level, max(before, after))
        width = exact(abs(places[last + 1] - places[first]).abs_lower())
        layers.append(_Layer(exact(level - following) * (1 - exact(1e-15)) * width, width))
        level = following
        if before >= after:
            first -= 1
        else:
            last += 1
    return [layer for layer in layers if layer.mass > 0]


def _lost(layers: list[_Layer], omega: arb) -> arb:
    """What the layers take off m(c), for every frequency from ``omega`` on."""
    lost = exact(0)
    for mass, width in layers:
        x = omega * width / 2
        square = x * x
        lost += mass * (square / 6 * (1 - square / 20) if x < 2 else (1 - 1 / x).max(exact(0)))
    return lost


class Line:
    """The integrand of one composition along the line through c, sampled: delta at any epsilon near the one it was made for.

    Parameters
    ----------
    composition : Composition
        What is composed; its laws must be ``Sampled``.
    epsilon : arb
        Where delta is asked for, about.
    delta : float
        About what it is.

    Raises
    ------
    TooHardError
        The transform falls too slowly, or the composition is of other laws: the lattice is the method.
    """

    def __init__(self, composition: Composition, epsilon: arb, delta: float) -> None:
        if not composition.parts or not all(isinstance(law, Sampled) for law, _ in composition.parts):
            raise TooHardError
        self.laws = [(law, count) for law, count in composition.parts if isinstance(law, Sampled)]
        self.square = composition.square
        self.most = max(count for _, count in self.laws)
        with precision(64):
            self.c = exact(self._saddle(float(epsilon)))
            c, value = float(self.c), float(epsilon)
            allowed = min(math.log(delta), 0.0) + _DIGITS
            peak = self._log_moment(c) - c * value
            self.further, right = min(
                ((f, (self._chernoff(f * c) - f * c * value - allowed) / ((f - 1) * c)) for f in _FURTHER), key=lambda one: one[1]
            )
            period = max(right, -allowed / c)
            bend = sum(self._log_moment(c + d) for d in (-0.01 * c, 0.01 * c)) - 2 * self._log_moment(c)
            bend = max(bend, 1e-12) / (0.01 * c) ** 2
            omega = math.sqrt(2 * max(peak - allowed, 1.0) / bend)
            if not math.isfinite(period * omega):
                raise TooHardError
        self.step = 2 * arb.pi() / exact(period)
        self.period = exact(period)
        self._choose_end(omega, allowed + c * value)
        self.moments = self._sampled()

    def _log_moment(self, c: float) -> float:
        """log M(c), for searches."""
        total = float(self.square) / 2 * c * (c + 1)
        for law, count in self.laws:
            weight, loss, _ = nodes(law, exact(c), exact(0), exact(1e-9) / min(count, 10**6))
            excess = sum((w * (c * one).expm1() for w, one in zip(weight, loss, strict=True)), exact(0))
            total += count * math.log1p(float(excess))
        return total

    def _chernoff(self, c: float) -> float:
        try:
            return self._log_moment(c) + c * math.log(c) - (1 + c) * math.log1p(c)
        except (ArithmeticError, ValueError, OverflowError):
            return math.inf

    def _saddle(self, epsilon: float) -> float:
        """The c that makes the integrand least on the real axis, to some per cent."""

        def size(x: float) -> float:
            try:
                c = math.exp(x)
                return self._log_moment(c) - c * epsilon - x - math.log1p(c)
            except (ArithmeticError, ValueError, OverflowError):
                return math.inf

        low, middle, high = -1.0, 0.0, 1.0
        values = {x: size(x) for x in (low, middle, high)}
        for _ in range(60):
            if values[middle] <= min(values[low], values[high]):
                break
            step = 1.0 if values[low] < values[high] else -1.0
            low, middle, high = low - step, middle - step, high - step
            values |= {x: size(x) for x in (low, middle, high) if x not in values}
        else:
            raise TooHardError
        for _ in range(7):
            for x in ((low + middle) / 2, (middle + high) / 2):
                values[x] = size(x)
            tried = sorted(x for x in values if low <= x <= high)
            place = min(range(1, len(tried) - 1), key=lambda i: values[tried[i]])
            low, middle, high = tried[place - 1 : place + 2]
        return math.exp(middle)

    def _choose_end(self, omega: float, log_allowed: float) -> None:
        """Enough nodes, and the bound on what is beyond them."""
        tolerance = exact(1e-12) / self.most
        known = list[tuple[arb, list[_Layer], int]]()
        for law, count in self.laws:
            found = nodes(law, self.c, exact(0), tolerance)
            known.append((found.moment(self.c), [x for branch in law.branches for x in _layers(branch, self.c)], count))
        for _ in range(60):
            self.count = int(omega / float(self.step)) + 1
            if self.count > _MOST:
                raise TooHardError
            end = self.count * self.step
            log_tail = self.square / 2 * (self.c * (self.c + 1) - end * end) - (arb.pi() * end).log()
            for moment, layers, count in known:
                left = moment - _lost(layers, end)
                log_tail += count * exact(left.upper()).log()
            self.log_tail = log_tail
            if float(log_tail.upper()) < log_allowed:
                return
            omega *= 1.12
        raise TooHardError

    def _sampled(self) -> list[acb]:
        """M(s)/(s (s + 1)) at the nodes."""
        moments = [acb(1)] * (self.count + 1)
        end, tolerance = self.count * self.step, exact(1e-34) / self.most
        for law, count in self.laws:
            found = nodes(law, self.c, end, tolerance)
            for k, moment in enumerate(found.transform(self.c, self.step, self.count + 1)):
                moments[k] *= moment**count
        for k in range(self.count + 1):
            s = self._node(k)
            moments[k] *= (self.square / 2 * s * (s + 1)).exp() / (s * (s + 1))
        return moments

    def _node(self, k: int) -> acb:
        return acb(self.c, k * self.step)

    @cached_property
    def _beyond(self) -> arb:
        """log of Chernoff's bound on delta, but for epsilon."""
        c = self.c * exact(self.further)
        total = self.square / 2 * c * (c + 1) + c * c.log() - (1 + c) * (1 + c).log()
        for law, count in self.laws:
            found = nodes(law, c, exact(0), exact(1e-20) / self.most)
            total += count * found.moment(c).log()
        return total

    def delta(self, epsilon: arb) -> arb:
        """delta at epsilon > 0."""
        total = exact(0)
        for k, moment in enumerate(self.moments):
            total += (moment * (-self._node(k) * epsilon).exp()).real / (2 if k == 0 else 1)
        total *= 2 / self.period
        missing = (self.log_tail - self.c * epsilon).exp()
        further = self.c * exact(self.further)
        gap = (further - self.c) * self.period
        double = 1 / (self.c * self.period).expm1() + (self._beyond - further * epsilon - gap).exp() / (1 - (-gap).exp())
        return (total - missing - double).union(total + missing)
