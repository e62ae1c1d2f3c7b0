"""The dominating pairs of one sampled step, in balls (``docs/proofs/exact-composition.md``, sections 2 to 6).

A record is drawn with probability q, and moves the batch by mu (over the noise) if it is; everything may be shifted by b >= 0
(``docs/proofs/sampled-last-iterate.md``, section 4). On a branch P and Q are normal laws or mixtures of two, with unit variance
and weights 1 - q and q, and the loss log P/Q rises or falls:

=============  ======================  ==================  ===================
law            where                   centres of P        centres of Q
=============  ======================  ==================  ===================
``Remove``     everywhere, rises       0, mu               -b
``Add``        everywhere, falls       -b                  0, mu
``Replace``    everywhere, rises       0, mu               -b, -b - mu
``Amplified``  above mu/2, rises       0, mu               -b
..             above mu/2, falls       -b                  0, mu
``Present``    above b + 3 mu/2,       0, 2 mu             -b, mu - b
               rises
..             above mu/2, falls       -b                  0, mu
``Empty``      above b + 3 mu/2,       -b, mu - b          0, 2 mu
               falls
..             above mu/2, rises       0, mu               -b
=============  ======================  ==================  ===================

The last three have, for the losses in between, two Gaussian pairs told apart: N(m, 1) against N(-m, 1) with m = b/2 and weight
1 - q, and with m = (b + mu)/2 and weight q. Without a shift that is mass of loss 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from flint import arb, ctx

from dplateau.verifier.balls import above, exact, gaussian_delta, precision
from dplateau.verifier.statement import Law


class Mixture:
    """``weight [(1-q) N(a, 1) + q N(a + gap, 1)]``; a ``gap`` of None is N(a, 1) alone. Logarithms are less that of N(0, 1)."""

    def __init__(self, q: arb, centre: arb, gap: arb | None = None, weight: arb | None = None) -> None:
        self.q, self.centre, self.gap, self.weight = q, centre, gap, exact(1) if weight is None else weight

    def odds(self, h: Any) -> Any:
        """Of the second centre at h, real or complex."""
        assert self.gap is not None
        return self.q / (1 - self.q) * (self.gap * (h - self.centre - self.gap / 2)).exp()

    def log(self, h: Any) -> Any:
        """Log density at h."""
        first = self.weight.log() + self.centre * (h - self.centre / 2)
        return first if self.gap is None else first + (1 - self.q).log() + (1 + self.odds(h)).log()

    def slope(self, h: Any) -> Any:
        """Its derivative."""
        return self.centre if self.gap is None else self.centre + self.gap / (1 + 1 / self.odds(h))

    def above(self, h: arb) -> arb:
        """The mass above h."""
        if self.gap is None:
            return self.weight * above(h - self.centre)
        return self.weight * ((1 - self.q) * above(h - self.centre) + self.q * above(h - self.centre - self.gap))

    def component(self, second: bool) -> tuple[arb, arb]:
        """The log of one centre's share of the density is ``constant + slope h``: a lower bound on the whole."""
        share, centre = self.weight, self.centre
        if self.gap is not None:
            share, centre = share * (self.q if second else 1 - self.q), centre + (self.gap if second else 0)
        return share.log() - centre * centre / 2, centre

    def larger(self, sign: int) -> tuple[arb | None, arb, arb]:
        """Beyond the first (None: everywhere) the log density is at most ``constant + slope h``; to the right for a sign of 1."""
        if self.gap is None:
            return None, *self.component(second=False)
        constant, slope = self.component(second=(sign > 0) == (self.gap > 0))
        even = self.centre + self.gap / 2 - (self.q / (1 - self.q)).log() / self.gap
        return even, arb(2).log() + constant, slope


@dataclass(frozen=True, eq=False)
class Branch:
    """A stretch of the line, from ``low`` to ``high`` (None: no end), with what is there of P and of Q.

    ``ratio`` is P's gap over Q's, where that is 2 or -1; else 0.
    """

    p: Mixture
    q: Mixture
    low: arb | None = None
    high: arb | None = None
    ratio: float = 0.0
    met: list[arb] = field(default_factory=list[arb])

    def loss(self, h: Any) -> Any:
        """log P/Q."""
        return self.p.log(h) - self.q.log(h)

    def slope(self, h: Any) -> Any:
        """Its derivative."""
        return self.p.slope(h) - self.q.slope(h)

    def tilted(self, h: Any, c: Any) -> Any:
        """``P exp(c loss)`` at h, as a density."""
        return (self.p.log(h) + c * self.loss(h) - h * h / 2).exp() / (2 * arb.pi()).sqrt()

    def tail(self, c: arb, sign: int, *, second: bool) -> tuple[arb | None, arb, arb]:
        """Beyond the first, ``P exp(c loss)`` is at most ``phi(h) exp(constant + slope h)``; by one of Q's centres."""
        start, constant, slope = self.p.larger(sign)
        least, centre = self.q.component(second)
        return start, (1 + c) * constant - c * least, (1 + c) * slope - c * centre

    def crossing(self, epsilon: arb) -> arb:
        """The h at which the loss is epsilon: in closed form, or by Newton steps, and a ball that is seen to hold it."""
        if (known := self._solved(epsilon)) is not None:
            return known
        start, low = (exact(1), -exact(1e9)) if self.low is None else (self.low.mid() + 1, self.low.mid() - 1)
        h, high, last = self.met[-1] if self.met else start, exact(1e9), exact(2e9)
        sign = 1 if self.slope(h) > 0 else -1
        with precision(64):
            for _ in range(200):
                off = (self.loss(h) - epsilon).mid() * sign
                low, high = (h, high) if off < 0 else (low, h)
                step = (off / abs(self.slope(h))).mid()
                # Where Newton's steps do not shrink they may go to and fro for ever.
                step = step if low <= h - step <= high and abs(step) <= last / 2 else h - (low + high) / 2
                h, last = (h - step).mid(), abs(step)
                if abs(step) <= exact(2.0**-30) * (1 + abs(h)):
                    break
        for _ in range(2):
            h = (h - ((self.loss(h) - epsilon) / self.slope(h)).mid()).mid()
        self.met[:] = [h]  # Where the next search begins.
        radius = exact(2.0 ** (30 - ctx.prec)) * (1 + abs(h)).mid()
        while not (sign * (self.loss(h - radius) - epsilon) < 0 and sign * (self.loss(h + radius) - epsilon) > 0):
            radius *= 16
            if not radius < 1:
                raise ArithmeticError("the loss does not cross this level")
        return h + radius * arb(0, 1)

    def _solved(self, epsilon: arb) -> arb | None:
        """The same in closed form, where both have one first centre: with x = exp(epsilon), an equation for the odds."""
        if not (self.p.centre == self.q.centre and self.p.weight == self.q.weight):
            return None
        if self.p.gap is not None and self.q.gap is not None:
            return self._solved_square(epsilon) if self.ratio else None
        mixed, x = (self.p, epsilon) if self.q.gap is None else (self.q, -epsilon)
        if mixed.gap is None:
            return None
        odds = (x.expm1() + mixed.q) / mixed.q
        if not odds > 0:
            raise ArithmeticError("the loss does not cross this level")
        return mixed.centre + mixed.gap / 2 + odds.log() / mixed.gap

    def _solved_square(self, epsilon: arb) -> arb | None:
        """The same where both have a gap: a quadratic equation for ``y = exp(gap (h - centre))`` of Q's gap, or of P's."""
        gap, share = (self.q.gap if self.ratio > 0 else self.p.gap), self.q.q
        if gap is None or not epsilon >= 0:
            return None
        if self.ratio > 0:  # q exp(-2 gap^2) y^2 - x q exp(-gap^2/2) y = (x - 1) (1 - q)
            square, linear = share * (-2 * gap**2).exp(), share * (epsilon - gap**2 / 2).exp()
            rest = epsilon.expm1() * (1 - share)
        else:  # q exp(-gap^2/2) (y^2 - x) = (x - 1) (1 - q) y
            square, linear = share * (-(gap**2) / 2).exp(), epsilon.expm1() * (1 - share)
            rest = square * epsilon.exp()
        y = (linear + (linear**2 + 4 * square * rest).sqrt()) / (2 * square)
        return self.p.centre + y.log() / gap

    def beyond(self, epsilon: arb) -> tuple[arb, arb]:
        """The masses of P and Q where the loss is larger: beyond the crossing where it rises, before it where it falls."""
        h = self.crossing(epsilon)
        p, q, slope = self.p.above(h), self.q.above(h), self.slope(h)
        if slope > 0:
            return p, q
        if not slope < 0:  # A ball that holds 0 says neither.
            raise ArithmeticError("it is not known whether the loss rises")
        whole = (exact(1), exact(1)) if self.low is None else (self.p.above(self.low), self.q.above(self.low))
        return whole[0] - p, whole[1] - q

    def delta(self, epsilon: arb) -> arb:
        """Their difference, ``P - exp(epsilon) Q``."""
        p, q = self.beyond(epsilon)
        return p - epsilon.exp() * q


@dataclass(frozen=True)
class Sampled(Law):
    """Rate q in (0, 1), mu > 0 and shift b >= 0, as exact numbers."""

    q: Fraction
    mu: Fraction
    shift: Fraction = Fraction(0)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """All of P but for what has loss 0."""
        with precision():  # They outlive a search at a lower one.
            return self._branches(exact(self.q), exact(self.mu), exact(self.shift))

    @abstractmethod
    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]: ...

    def profile(self, epsilon: arb) -> arb:
        return self.branches[0].delta(epsilon)

    @property
    def reverse(self) -> Law:
        return _REVERSE[type(self)](self.q, self.mu, self.shift)


class Remove(Sampled):
    """Poisson sampling, the data set with the record against that without."""

    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        return (Branch(Mixture(q, exact(0), mu), Mixture(q, -b)),)


class Add(Sampled):
    """Poisson sampling, the data set without the record against that with it."""

    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        return (Branch(Mixture(q, -b), Mixture(q, exact(0), mu)),)

    @property
    def greatest(self) -> arb:
        """The supremum of the loss."""
        return arb.pos_inf() if self.shift else -(1 - exact(self.q)).log()

    def profile(self, epsilon: arb) -> arb:
        if epsilon < self.greatest:
            return super().profile(epsilon)
        return exact(0) if epsilon > self.greatest else exact(0).union(exact(self.q))


class Replace(Sampled):
    """Poisson sampling, one record's value against another one: symmetric."""

    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        return (Branch(Mixture(q, exact(0), mu), Mixture(q, -b, -mu), ratio=-1.0),)


class _Told(Sampled):
    """Laws whose middle losses are those of two pairs told apart; ``edges`` are the least and the greatest of these losses."""

    @property
    def edges(self) -> tuple[arb, arb]:
        b = exact(self.shift)
        inner = b * (b + exact(self.mu)) / 2
        return -inner, inner

    def told(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        """The two pairs, on their stretches."""
        low, high = self.edges
        pairs = ((b / 2, 1 - q), ((b + mu) / 2, q)) if self.shift else ()
        return tuple(Branch(Mixture(q, m, None, w), Mixture(q, -m, None, w), low / (2 * m), high / (2 * m)) for m, w in pairs)

    def profile(self, epsilon: arb) -> arb:
        edge = self.edges[1]
        if not self.shift or epsilon > edge:
            return super().profile(epsilon)
        q, mu, b = exact(self.q), exact(self.mu), exact(self.shift)
        told = (1 - q) * gaussian_delta(b, epsilon) + q * gaussian_delta(b + mu, epsilon)
        return told if epsilon < edge else told.union(super().profile(epsilon))


class Amplified(_Told):
    """Batches of fixed size, one record's value against another one: C_q(G_mu) of Dong, Roth, Su, shifted; symmetric."""

    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        with_it, without = Mixture(q, exact(0), mu), Mixture(q, -b)
        return Branch(with_it, without, mu / 2), Branch(without, with_it, mu / 2), *self.told(q, mu, b)


class Present(_Told):
    """Batches of fixed size, a record against its empty place; mu is what presence moves the batch by."""

    @property
    def edges(self) -> tuple[arb, arb]:
        low, high = super().edges
        return low, 3 * high

    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        far = Branch(Mixture(q, exact(0), 2 * mu), Mixture(q, -b, mu), b + 3 * mu / 2, ratio=2.0)
        return far, Branch(Mixture(q, -b), Mixture(q, exact(0), mu), mu / 2), *self.told(q, mu, b)


class Empty(_Told):
    """Batches of fixed size, a record's empty place against the record."""

    @property
    def edges(self) -> tuple[arb, arb]:
        low, high = super().edges
        return 3 * low, high

    def _branches(self, q: arb, mu: arb, b: arb) -> tuple[Branch, ...]:
        far = Branch(Mixture(q, -b, mu), Mixture(q, exact(0), 2 * mu), b + 3 * mu / 2)
        return Branch(Mixture(q, exact(0), mu), Mixture(q, -b), mu / 2), far, *self.told(q, mu, b)


_REVERSE: Final[dict[type[Sampled], type[Sampled]]] = {
    Remove: Add,
    Add: Remove,
    Replace: Replace,
    Amplified: Amplified,
    Present: Empty,
    Empty: Present,
}
