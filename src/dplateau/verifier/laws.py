"""The dominating pairs of one sampled step, in balls (``docs/proofs/exact-composition.md``, sections 2 to 6).

With the likelihood ratio ``A_m(h) = 1 - q + q exp(m h - m^2/2)`` of (1-q) N(0, 1) + q N(m, 1) to N(0, 1), a record that moves the
batch by mu (over the noise) if it is drawn, and a shift b >= 0 of everything (``docs/proofs/sampled-last-iterate.md``, section 4):

=============  ========================  ================================================  ===============================
law            where                     density of P at h                                 privacy loss at h
=============  ========================  ================================================  ===============================
``Remove``     all h                     phi(h) A_mu(h)                                    b h + b^2/2 + log A_mu(h)
``Add``        all h                     phi(h + b)                                        minus that
``Replace``    all h                     phi(h) A_mu(h)                                    that - log A_mu(-h - b)
``Amplified``  h > mu/2                  phi(h) A_mu(h)                                    as ``Remove``
..             h > mu/2                  phi(h + b)                                        as ``Add``
``Present``    h > b + 3 mu/2            phi(h) A_2mu(h)                                   b h + b^2/2 + log A_2mu(h)
                                                                                           - log A_mu(h + b)
..             h > mu/2                  phi(h + b)                                        as ``Add``
``Empty``      h > b + 3 mu/2            phi(h + b) A_mu(h + b)                            minus that of ``Present``
..             h > mu/2                  phi(h) A_mu(h)                                    as ``Remove``
=============  ========================  ================================================  ===============================

The last three have, for the losses in between, two Gaussian pairs told apart: N(m, 1) against N(-m, 1), whose loss is 2 m h, with
m = b/2 and weight 1 - q, and with m = (b + mu)/2 and weight q. Without a shift these have loss 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from flint import arb

from dplateau.verifier.balls import above, exact, gaussian_delta
from dplateau.verifier.statement import Law

Analytic: TypeAlias = Callable[[Any], Any]
"""A function of real and of complex balls."""


class Tail(NamedTuple):
    """Beyond ``start`` the density of P times ``exp(c loss)`` is at most ``phi(h) exp(constant + slope h)``."""

    start: arb
    constant: arb
    slope: arb


class Branch(NamedTuple):
    """A stretch of the line with its share of P: from ``low`` to ``high``, None where it has no end.

    ``log_density`` is that of P less ``log phi``, ``slope`` the derivative of the loss. ``left`` and ``right`` bound the ends that
    are infinite, for each c >= 0.
    """

    low: arb | None
    high: arb | None
    log_density: Analytic
    loss: Analytic
    slope: Analytic
    left: Callable[[arb], Tail] | None = None
    right: Callable[[arb], Tail] | None = None


@dataclass(frozen=True)
class Sampled(Law):
    """Rate q in (0, 1), mu > 0 and shift b >= 0, as exact numbers."""

    q: Fraction
    mu: Fraction
    shift: Fraction = Fraction(0)

    @cached_property
    def _balls(self) -> tuple[arb, arb, arb]:
        return exact(self.q), exact(self.mu), exact(self.shift)

    @property
    @abstractmethod
    def branches(self) -> tuple[Branch, ...]:
        """Where P has a density and the loss is analytic; what is missing of P has loss 0."""

    def ratio(self, h: Any, times: int = 1) -> Any:
        """``A_m(h)``, m a multiple of mu."""
        q, mu, _ = self._balls
        return 1 - q + q * (times * mu * (h - times * mu / 2)).exp()

    def pull(self, h: Any, times: int = 1) -> Any:
        """The derivative of ``log A_m(h)``."""
        q, mu, _ = self._balls
        return times * mu * (1 - (1 - q) / self.ratio(h, times))

    def moved(self, h: Any) -> Any:
        """``b h + b^2/2``."""
        b = self._balls[2]
        return b * (h + b / 2)

    def more(self, h: Any) -> Any:
        """The loss of presence."""
        return self.moved(h) + self.ratio(h).log()

    def drawn_above(self, h: arb) -> arb:
        """The mass of (1-q) N(0, 1) + q N(mu, 1) above h."""
        q, mu, _ = self._balls
        return (1 - q) * above(h) + q * above(h - mu)

    def less(self, start: arb | None = None) -> Branch:
        """P is N(-b, 1), Q the mixture, beyond ``start``."""
        q, mu, b = self._balls

        def left(c: arb) -> Tail:
            return Tail(-b - mu, -(1 + c) * b * b / 2 - c * (1 - q).log(), -(1 + c) * b)

        def right(c: arb) -> Tail:
            return Tail(mu / 2, -(1 + c) * b * b / 2, -(1 + c) * b)

        return Branch(start, None, lambda h: -self.moved(h), lambda h: -self.more(h), lambda h: -b - self.pull(h), left, right)

    def present(self, start: arb | None = None) -> Branch:
        """P is the mixture, Q is N(-b, 1), beyond ``start``."""
        q, mu, b = self._balls

        def left(c: arb) -> Tail:
            return Tail(mu / 2, c * b * b / 2, c * b)

        def right(c: arb) -> Tail:
            # From where q exp(mu h - mu^2/2) is at least 1, A is at most twice that.
            return Tail(mu / 2 - q.log() / mu, (1 + c) * ((2 * q).log() - mu * mu / 2) + c * b * b / 2, (1 + c) * mu + c * b)

        return Branch(start, None, lambda h: self.ratio(h).log(), self.more, lambda h: b + self.pull(h), left, right)

    def inner(self, low: arb, high: arb) -> tuple[Branch, ...]:
        """The two Gaussian pairs told apart, where their loss lies between ``low`` and ``high``."""
        q, mu, b = self._balls
        if not self.shift:
            return ()

        def pair(m: arb, weight: arb) -> Branch:
            return Branch(
                low / (2 * m), high / (2 * m), lambda h: weight.log() + m * (h - m / 2), lambda h: 2 * m * h, lambda h: 2 * m
            )

        return pair(b / 2, 1 - q), pair((b + mu) / 2, q)

    def told(self, epsilon: arb) -> arb:
        """delta of the two pairs told apart."""
        q, mu, b = self._balls
        return (1 - q) * gaussian_delta(b, epsilon) + q * gaussian_delta(b + mu, epsilon)

    def crossing(self, loss: Analytic, slope: Analytic, epsilon: arb, guess: arb) -> arb:
        """The h at which a rising loss is epsilon, by Newton steps, as a ball that is known to hold it."""
        h = guess
        for _ in range(200):
            step = ((loss(h) - epsilon) / slope(h)).mid()
            h = (h - step).mid()
            if abs(step) < arb(2) ** -60 * (1 + abs(h)):
                break
        radius = arb(2) ** -100 * (1 + abs(h)).mid()
        h = (h - ((loss(h) - epsilon) / slope(h)).mid()).mid()
        while not (loss(h - radius) < epsilon and loss(h + radius) > epsilon):
            radius *= 16
            if radius > 1:
                raise ArithmeticError
        return h + radius * arb(0, 1)

    def bare(self, epsilon: arb) -> arb:
        """The h at which ``log A_mu`` is epsilon > log(1 - q)."""
        q, mu, _ = self._balls
        return ((epsilon.expm1() / q + 1).log() + mu * mu / 2) / mu

    def met(self, epsilon: arb) -> arb:
        """The h at which the loss of presence is epsilon."""
        if not self.shift:
            return self.bare(epsilon)
        b = self._balls[2]
        return self.crossing(self.more, lambda h: b + self.pull(h), epsilon, epsilon / (b + self._balls[1]))

    def removed(self, epsilon: arb) -> arb:
        """delta of the mixture against N(-b, 1)."""
        h = self.met(epsilon)
        return self.drawn_above(h) - epsilon.exp() * above(h + self._balls[2])


class Remove(Sampled):
    """Poisson sampling, the data set with the record against that without."""

    @property
    def branches(self) -> tuple[Branch, ...]:
        return (self.present(),)

    def profile(self, epsilon: arb) -> arb:
        return self.removed(epsilon)

    @property
    def reverse(self) -> Law:
        return Add(self.q, self.mu, self.shift)


class Add(Sampled):
    """Poisson sampling, the data set without the record against that with it."""

    @property
    def branches(self) -> tuple[Branch, ...]:
        return (self.less(),)

    def profile(self, epsilon: arb) -> arb:
        q, _, b = self._balls
        if not self.shift and not -epsilon > (1 - q).log():
            return exact(0) if -epsilon < (1 - q).log() else arb(0, 1) * q
        h = self.met(-epsilon)
        return above(-h - b) - epsilon.exp() * (1 - self.drawn_above(h))

    @property
    def reverse(self) -> Law:
        return Remove(self.q, self.mu, self.shift)


class Replace(Sampled):
    """Poisson sampling, one record's value against another one: symmetric."""

    @property
    def branches(self) -> tuple[Branch, ...]:
        q, mu, b = self._balls
        one = self.present()
        assert one.left is not None
        assert one.right is not None
        ends = one.left, one.right

        def grown(tail: Tail, c: arb, start: arb) -> Tail:
            # A(-h - b) is at least 1 - q.
            return Tail(start, tail.constant - c * (1 - q).log(), tail.slope)

        def left(c: arb) -> Tail:
            tail = ends[0](c)
            return grown(tail, c, tail.start)

        def right(c: arb) -> Tail:
            tail = ends[1](c)
            return grown(tail, c, tail.start)

        return (Branch(None, None, one.log_density, self._loss, self._slope, left, right),)

    def _loss(self, h: Any) -> Any:
        return self.more(h) - self.ratio(-h - self._balls[2]).log()

    def _slope(self, h: Any) -> Any:
        b = self._balls[2]
        return b + self.pull(h) + self.pull(-h - b)

    def profile(self, epsilon: arb) -> arb:
        q, mu, b = self._balls
        if self.shift:
            h = self.crossing(self._loss, self._slope, epsilon, epsilon / (b + mu))
        else:
            # A quadratic in exp(mu h).
            half = (1 - q) / q * (mu * mu / 2).exp() * epsilon.expm1() / 2
            h = ((half * (-epsilon / 2).exp()).asinh() + epsilon / 2) / mu
        # Q is the mixture with centres -b and -b - mu.
        return self.drawn_above(h) - epsilon.exp() * ((1 - q) * above(h + b) + q * above(h + b + mu))

    @property
    def reverse(self) -> Law:
        return self


class Amplified(Sampled):
    """Batches of fixed size, one record's value against another one: C_q(G_mu) of Dong, Roth, Su, shifted; symmetric."""

    @property
    def edge(self) -> arb:
        """The loss at mu/2, where the outer part begins."""
        _, mu, b = self._balls
        return b * (b + mu) / 2

    @property
    def branches(self) -> tuple[Branch, ...]:
        half = self._balls[1] / 2
        return self.present(half), self.less(half), *self.inner(-self.edge, self.edge)

    def profile(self, epsilon: arb) -> arb:
        if self.shift and epsilon < self.edge:
            return self.told(epsilon)
        if self.shift and not epsilon > self.edge:
            return self.told(epsilon).union(self.removed(epsilon))
        return self.removed(epsilon)

    @property
    def reverse(self) -> Law:
        return self


class _Place(Amplified):
    """Batches of fixed size, a record against its empty place; mu is what presence moves the batch by."""

    @property
    def start(self) -> arb:
        """The h from which on presence is what it is on the line."""
        _, mu, b = self._balls
        return b + 3 * mu / 2

    def gained(self, h: Any) -> Any:
        """The loss of presence beyond ``start``."""
        return self.moved(h) + self.ratio(h, 2).log() - self.ratio(h + self._balls[2]).log()

    def steepness(self, h: Any) -> Any:
        """Its derivative."""
        b = self._balls[2]
        return b + self.pull(h, 2) - self.pull(h + b)

    def there(self, epsilon: arb) -> arb:
        """delta of presence against absence."""
        q, mu, b = self._balls
        if self.shift and epsilon < 3 * self.edge:
            return self.told(epsilon)
        if self.shift:
            h = self.crossing(self.gained, self.steepness, epsilon, self.start + epsilon / (b + mu))
        else:
            # A quadratic in exp(mu (h - 3 mu/2)).
            odds = (1 - q) / q * (-mu * mu).exp()
            root = (1 - 4 * odds * (-epsilon).expm1() * (-epsilon).exp()).sqrt()
            h = 3 * mu / 2 + (epsilon + (1 + root).log() - arb(2).log()) / mu
        p = (1 - q) * above(h) + q * above(h - 2 * mu)
        found = p - epsilon.exp() * self.drawn_above(h + b)
        return found if not self.shift or epsilon > 3 * self.edge else found.union(self.told(epsilon))

    def gone(self, epsilon: arb) -> arb:
        """delta of absence against presence: that of ``Amplified``."""
        return Amplified.profile(self, epsilon)


class Present(_Place):
    """P is the data set with the record, Q the one with its place empty."""

    @property
    def branches(self) -> tuple[Branch, ...]:
        q, mu, b = self._balls

        def right(c: arb) -> Tail:
            # The ratio of A_2mu(h) to A_mu(h + b) is at most exp(mu (h - start)) there, and A_2mu at most exp(2 mu (h - mu)).
            constant = c * (b * b / 2 - mu * self.start) - 2 * mu * mu
            return Tail(self.start, constant, 2 * mu + c * (b + mu))

        far = Branch(self.start, None, lambda h: self.ratio(h, 2).log(), self.gained, self.steepness, None, right)
        return far, self.less(mu / 2), *self.inner(-self.edge, 3 * self.edge)

    def profile(self, epsilon: arb) -> arb:
        return self.there(epsilon)

    @property
    def reverse(self) -> Law:
        return Empty(self.q, self.mu, self.shift)


class Empty(_Place):
    """P is the data set in which the record's place is empty, Q the one with the record."""

    @property
    def branches(self) -> tuple[Branch, ...]:
        _, mu, b = self._balls

        def right(c: arb) -> Tail:
            # The loss is at most 0, and A_mu(h + b) at most exp(mu (h + b) - mu^2/2).
            return Tail(self.start, mu * b - mu * mu / 2 - b * b / 2, mu - b)

        def log_density(h: Any) -> Any:
            return self.ratio(h + b).log() - self.moved(h)

        far = Branch(self.start, None, log_density, lambda h: -self.gained(h), lambda h: -self.steepness(h), None, right)
        return far, self.present(mu / 2), *self.inner(-3 * self.edge, self.edge)

    def profile(self, epsilon: arb) -> arb:
        return self.gone(epsilon)

    @property
    def reverse(self) -> Law:
        return Present(self.q, self.mu, self.shift)
