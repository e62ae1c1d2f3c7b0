"""delta(epsilon) of a composition by an integral along a vertical line, enclosed in balls.

With ``M(s) = E_P exp(s loss)`` of all steps and any c > 0, h > 0 and P = 2 pi/h (``docs/proofs/contour.md``),

    ``h/(2 pi) sum over whole k of F(c + i k h) = sum over whole j of delta(epsilon + j P) exp(c j P)``,
    ``F(s) = M(s) exp(-s epsilon) / (s (s + 1))``.

All terms on the right are >= 0, so the sum is never below delta. It exceeds it by at most ``1/(exp(c P) - 1)`` for j < 0, and for
j > 0 by what Chernoff's bound at a larger c allows. The sum ends at omega = N h: what is missing is at most
``sup |M(c + i w)| exp(-c epsilon) / (pi omega)``, the supremum over w >= omega.

That is found by bending the line of h, beside which a branch's integrand ``P exp(s loss)`` is analytic: on z = h + i y(h) the
factor ``exp(i w loss)`` has the modulus ``exp(-w Im loss)``, which falls with w where ``Im loss >= 0``. With the odds r of a
mixture's second centre, its share pi and the angle t = gap y,

    ``|1 + r exp(i t)|^2 = (1 + r)^2 (1 - 4 pi (1 - pi) sin^2(t/2))``,

so what the modulus is, relative to that on the line, is known in closed form. Its integral is bounded cell by cell.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, NamedTuple

from flint import acb, arb

from dplateau.verifier.balls import exact, precision
from dplateau.verifier.epoch import Epoch
from dplateau.verifier.laws import Branch, Mixture, Sampled
from dplateau.verifier.quadrature import Nodes, TooHardError, end_of, nodes
from dplateau.verifier.statement import Composition

_CELLS: Final = 500
"""Into so many cells a branch is cut where its path is bent."""
_FEWER: Final = 100
"""The same where the composition has many laws."""
_GROUPS: Final = 8
"""With more laws searches look at so many of them, each with the steps of its neighbours."""
_STEPS: Final = 40
"""The same for the way up from an end."""
_LITTLE: Final = exact(1e-25)
"""Where the ends of a bent path lie: the modulus is so small there."""
_HIGHEST: Final = 2.2
"""Largest angle of a path, about."""
_TURNED: Final = 3
"""Where no mixture is turned by more, none is 0: that begins at pi. Between the line and the path the integrand is analytic."""
_MOST: Final = 20_000
"""Most nodes of the line."""
_DIGITS: Final = math.log(1e-13)
"""What may be missing of delta, and be too much, relatively: where the line's choices aim at."""
_FAR_OFF: Final = 6.0
"""Where so much is missing (a logarithm) the end is moved in large strides."""
_STRIDE, _TRIED = 0.01, 60
"""To so much the saddle is found, relatively, and with at most so many moments."""
_LOST: Final = 25.0
"""Lines on which the integrand is larger by more than exp of this are not tried: its sum would cancel to a tiny delta."""


class Path(NamedTuple):
    """``height`` and ``early``: y = height/gap times the share that the second centre would have with odds larger by ``early``."""

    height: float
    early: float

    def at(self, branch: Branch, h: arb) -> tuple[arb, arb]:
        """y and its derivative, of all mixtures together."""
        y = slope = exact(0)
        for mixture in (branch.p, branch.q):
            if mixture.gap is not None:
                share = 1 / (1 + 1 / (exact(self.early) * mixture.odds(h)))
                y += exact(self.height) / abs(mixture.gap) * share
                slope += exact(self.height) * mixture.gap.sgn() * share * (1 - share)
        flat = branch.p.gap is None and branch.q.gap is None
        return (exact(self.height) if flat else y), slope


def _turned(mixture: Mixture, h: arb, y: arb) -> tuple[arb, arb]:
    """The log of the modulus at h + i y, relative to that at h, and the argument."""
    if mixture.gap is None:
        return exact(0), mixture.centre * y
    odds, angle = mixture.odds(h), mixture.gap * y
    if not abs(angle) < _TURNED:
        return arb.nan(), arb.nan()
    share = 1 / (1 + 1 / odds)
    log = (1 - 4 * share * (1 - share) * (angle / 2).sin() ** 2).log() / 2
    return log, mixture.centre * y + arb.atan2(odds * angle.sin(), 1 + odds * angle.cos())


def _growth(branch: Branch, c: arb, omega: arb, h: arb, y: arb) -> arb:
    """The log of the integrand's modulus there, relative to that at h, for every w >= omega; NaN where there is no bound."""
    (log_p, turn_p), (log_q, turn_q) = _turned(branch.p, h, y), _turned(branch.q, h, y)
    turn = turn_p - turn_q
    if not turn >= 0:
        return arb.nan()
    return y * y / 2 + (1 + c) * log_p - c * log_q - omega * turn


def _upright(branch: Branch, c: arb, omega: arb, h: arb, y: arb, sign: int) -> arb:
    """The integral of the modulus from h, an end of the branch, up to h + i y."""
    size, turn, total = branch.tilted(h, c), exact(0), exact(0)
    for k in range(_STEPS):
        u = y * (arb(k).union(arb(k + 1)) / _STEPS)
        # Im loss is the integral of the real part of its derivative.
        slope = sign * branch.slope(acb(h, sign * u)).real
        if not slope >= 0:
            return arb.nan()
        log_p, log_q = _turned(branch.p, h, u)[0], _turned(branch.q, h, u)[0]
        total += size * (u * u / 2 + (1 + c) * log_p - c * log_q - omega * turn).exp() * y / _STEPS
        turn += slope.lower() * y / _STEPS
    return total


def _modulus(branch: Branch, c: arb, omega: arb, path: Path, cells: int = _CELLS) -> tuple[arb, arb]:
    """Bounds on the modulus of the branch's share of m(c + i w), for every w >= omega, and on what that is more than at w = 0."""
    low, below = end_of(branch, c, _LITTLE, -1) if branch.low is None else (branch.low, exact(0))
    high, beyond = end_of(branch, c, _LITTLE, 1) if branch.high is None else (branch.high, exact(0))
    sign = 1 if branch.slope((low + high) / 2) > 0 else -1
    # The path begins and ends on the line; beyond its ends the integrand stays what it is.
    gain = sum((_upright(branch, c, omega, end, path.at(branch, end)[0], sign) for end in (low, high)), exact(0))
    size = gain + below + beyond
    width = (high - low) / cells
    for k in range(cells):
        h = (low + k * width).union(low + (k + 1) * width)
        y, slope = path.at(branch, h)
        growth = _growth(branch, c, omega, h, sign * y) + (1 + slope * slope).log() / 2
        mass = width * branch.tilted(h, c)
        gain += mass * growth.expm1().upper()
        size += mass * growth.exp().upper()
    return size, gain


def _paths(branch: Branch, omega: float) -> list[Path]:
    """Paths that start out as a multiple of the loss' slope, up to some height. Any path is a bound."""
    gaps = [float(abs(mixture.gap)) for mixture in (branch.p, branch.q) if mixture.gap is not None]
    if not gaps:
        return [Path(height, 1.0) for height in (0.3, 1.0)]
    highest, slope = _HIGHEST / len(gaps), omega / (1 / max(gaps) ** 2 + 1)
    starts = [(min(cap * highest, part * slope), part * slope) for part in (0.45, 0.9, 1.6) for cap in (0.4, 1.0)]
    return [Path(height, start / height) for height, start in dict.fromkeys(starts)]


def _gathered(laws: list[tuple[Sampled, int]]) -> list[tuple[Sampled, int]]:
    """Few laws that stand for many, in searches."""
    ordered = sorted(laws, key=lambda one: (one[0].q, one[0].mu, one[0].shift))
    size = max(-(-len(ordered) // _GROUPS), 1)
    groups = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    return [(group[len(group) // 2][0], sum(count for _, count in group)) for group in groups]


def _order(x: arb) -> float:
    return float(x.upper()) if x.is_finite() else math.inf


class Line:
    """The integrand of one composition along the line through c, sampled: delta at any epsilon near the one it was made for.

    Parameters
    ----------
    composition : Composition
        What is composed; its laws must be ``Sampled``, or epochs of random allocation.
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
        self.laws = [(law, count) for law, count in composition.parts if isinstance(law, Sampled)]
        self.epochs = [(law, count) for law, count in composition.parts if isinstance(law, Epoch)]
        if not composition.parts or len(self.laws) + len(self.epochs) < len(composition.parts):
            raise TooHardError
        self.square = composition.square
        self.most = max(count for _, count in composition.parts)
        self.rough = _gathered(self.laws)
        with precision(64):
            value, allowed = float(epsilon), min(math.log(delta), 0.0) + _DIGITS
            peaks, saddle = self._peaks(value, allowed)
            # Where the moments soon grow steeply, a line further to the left has the shorter period.
            lines = [c for c, peak in peaks.items() if c <= saddle and peak <= peaks[saddle] + _LOST]
            period, c, further = min(self._period(c, peaks, allowed) for c in lines)
            self.c, self.further, peak = exact(c), exact(further), peaks[c]
            bend = sum(self._log_moment(c + d) for d in (-0.01 * c, 0.01 * c)) - 2 * (peak + c * value)
            bend = max(bend, 1e-12) / (0.01 * c) ** 2
            omega = math.sqrt(2 * max(peak - allowed, 1.0) / bend)
            if not math.isfinite(period * omega):
                raise TooHardError
        # Of all laws, and not of few of them, the moment there may be larger.
        period = max(period, float((self._beyond - self.further * epsilon - allowed) / (self.further - self.c)))
        # The step is exact: where a transform is known by cancellation, its frequency has to be.
        self.step = exact(2 * math.pi / period)
        self.period = 2 * arb.pi() / self.step
        self._choose_end(omega, allowed + c * value)
        self.moments = self._sampled()

    def _log_moment(self, c: float) -> float:
        """log M(c), for searches."""
        total = float(self.square) / 2 * c * (c + 1)
        for law, count in self.rough:
            weight, loss, _ = nodes(law, exact(c), exact(0), exact(1e-9) / min(count, 10**6))
            excess = sum((w * (c * one).expm1() for w, one in zip(weight, loss, strict=True)), exact(0))
            total += count * math.log1p(float(excess))
        return total + sum(count * float(law.moment(exact(c)).log()) for law, count in self.epochs)

    def _period(self, c: float, peaks: dict[float, float], allowed: float) -> tuple[float, float, float]:
        """The period that a line through c needs, c, and where Chernoff's bound says so."""
        far = {x: peak + x * math.log(x) - (1 + x) * math.log1p(x) for x, peak in peaks.items() if x > c}
        right, further = min(((log - allowed) / (x - c), x) for x, log in far.items())
        return max(right, -allowed / c), c, further

    def _peaks(self, epsilon: float, allowed: float) -> tuple[dict[float, float], float]:
        """log of ``M(c) exp(-c epsilon)`` on both sides of the c that makes the integrand least on the real axis, and near it; and
        this c, or one where it is as small as is ``allowed``.
        """
        peaks = dict[float, float]()

        def size(x: float) -> float:
            c = math.exp(x)
            if c not in peaks:
                try:
                    peaks[c] = self._log_moment(c) - c * epsilon
                except (ArithmeticError, ValueError, OverflowError):
                    peaks[c] = math.inf
            return max(peaks[c] - x - math.log1p(c), allowed)

        middle, stride = 0.0, 1.0
        while stride > _STRIDE:
            best = min((middle, middle - stride, middle + stride), key=size)
            middle, stride = best, (stride / 2 if best == middle else stride)
            if len(peaks) > _TRIED:
                raise TooHardError
        return peaks, math.exp(middle)

    def _choose_end(self, omega: float, log_allowed: float) -> None:
        """Enough nodes, and the bound on what is beyond them."""
        tolerance = exact(1e-20) / self.most
        known = [(law, count, nodes(law, self.c, exact(0), tolerance)) for law, count in self.laws]
        for attempt in range(40):
            self.count = int(omega / float(self.step)) + 1
            if self.count > _MOST:
                raise TooHardError
            self.log_tail = self._beyond_end(self.count, known)
            off = float(self.log_tail.upper()) - log_allowed
            if off < 0:
                return
            # What even the furthest end leaves out too much of need not be searched.
            if not attempt and off > _FAR_OFF and not float(self._beyond_end(_MOST, known).upper()) < log_allowed:
                raise TooHardError
            omega *= 1.6 if off > _FAR_OFF else 1.15
        raise TooHardError

    def _beyond_end(self, steps: int, known: list[tuple[Sampled, int, Nodes]]) -> arb:
        """log of the bound on what is missing where the line ends after so many steps, but for epsilon."""
        many, end = len(known) > _GROUPS, steps * self.step
        log_tail = self.square / 2 * (self.c * (self.c + 1) - end * end) - (arb.pi() * end).log()
        for epoch, count in self.epochs:
            log_tail += count * (epoch.moment(self.c).log() - epoch.fall * end * end)
        taken: list[int] = []
        for law, count, points in known:
            size, gain = points.at_zero + points.error, points.moment(self.c)
            for place, branch in enumerate(law.branches):
                paths = _paths(branch, float(end))
                if many and place < len(taken):  # The path that was best for the first law.
                    paths = [paths[min(taken[place], len(paths) - 1)]]
                found = [_modulus(branch, self.c, end, path, _FEWER if many else _CELLS) for path in paths]
                if place == len(taken):
                    taken.append(min(range(len(found)), key=lambda i: _order(found[i][1])))
                size += min((x.upper() for x, _ in found if x.is_finite()), default=arb.pos_inf())
                gain += min((x.upper() for _, x in found if x < 0), default=arb(0))
            log_tail += count * size.min(gain).upper().log()
        return log_tail

    def _sampled(self) -> list[acb]:
        """M(s)/(s (s + 1)) at the nodes."""
        moments = [acb(1)] * (self.count + 1)
        end, tolerance = self.count * self.step, exact(1e-28) / self.most
        for law, count in self.laws:
            found = nodes(law, self.c, end, tolerance)
            for k, moment in enumerate(found.transform(self.c, self.step, self.count + 1)):
                moments[k] *= moment**count
        for epoch, count in self.epochs:
            for k, moment in enumerate(epoch.moments(self.c, self.step, self.count + 1)):
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
        c = self.further
        total = self.square / 2 * c * (c + 1) + c * c.log() - (1 + c) * (1 + c).log()
        for law, count in self.laws:
            found = nodes(law, c, exact(0), exact(1e-20) / self.most)
            total += count * found.moment(c).log()
        return total + sum((count * law.moment(c).log() for law, count in self.epochs), exact(0))

    def delta(self, epsilon: arb) -> arb:
        """delta at epsilon > 0."""
        total = exact(0)
        for k, moment in enumerate(self.moments):
            total += (moment * (-self._node(k) * epsilon).exp()).real / (2 if k == 0 else 1)
        total *= 2 / self.period
        missing = (self.log_tail - self.c * epsilon).exp()
        gap = (self.further - self.c) * self.period
        double = 1 / (self.c * self.period).expm1() + (self._beyond - self.further * epsilon - gap).exp() / (1 - (-gap).exp())
        return (total - missing - double).union(total + missing)
