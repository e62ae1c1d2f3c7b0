"""Independent computations of what the package computes: definitions, integrated by other means and in more digits."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
from mpmath import mpf
from scipy.special import log_ndtr, ndtr

from dplateau.accounting.amplified import Amplified
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.terms import Composition

Density = Callable[[Any], Any]


def gdp_delta(mu: Any, epsilon: Any) -> Any:
    """delta of mu-GDP, in mpmath's working precision."""
    mu, epsilon = mpf(mu), mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def densities(law: StepLaw) -> tuple[Density, Density]:
    """The densities of the pair (P, Q) that a Poisson law stands for, oriented so that P/Q increases."""
    q, mu = mpf(law.q), mpf(law.mu)

    def mixture(sign: int) -> Density:
        return lambda g: (1 - q) * mp.npdf(g) + q * mp.npdf(g - sign * mu)

    if isinstance(law, PoissonRemove):
        return mixture(1), mp.npdf
    if isinstance(law, PoissonAdd):
        return lambda g: mp.npdf(g), lambda g: (1 - q) * mp.npdf(g) + q * mp.npdf(g + mu)
    assert isinstance(law, PoissonReplace)
    return mixture(1), mixture(-1)


def amplified_delta(q: Any, mu: Any, epsilon: Any) -> Any:
    """delta of C_q(G_mu) at any epsilon, by amplification by sampling: q delta_G(log(1 + (e^eps - 1)/q)) for eps >= 0."""
    epsilon = mpf(epsilon)
    if epsilon < 0:
        return 1 - mp.exp(epsilon) + mp.exp(epsilon) * amplified_delta(q, mu, -epsilon)
    return q * gdp_delta(mu, mp.log(1 + mp.expm1(epsilon) / q))


def empty_place_delta(law: StepLaw, epsilon: Any) -> Any:
    """delta of three centres on a line: the record at 2 mu, its empty place at mu, no draw at 0 (the record also at 0 reversed)."""
    q, mu, epsilon = mpf(law.q), mpf(law.mu), mpf(epsilon)
    if epsilon < 0:
        return 1 - mp.exp(epsilon) + mp.exp(epsilon) * empty_place_delta(law.reverse, -epsilon)
    if isinstance(law, EmptyOrPresent):
        return amplified_delta(q, mu, epsilon)
    y = mp.exp(epsilon)
    # (1 - q) (1 - y) + q (e^(2 mu x - 2 mu^2) - y e^(mu x - mu^2/2)) = 0, a quadratic in e^(mu x).
    a, b, c = q * mp.exp(-2 * mu**2), -q * y * mp.exp(-(mu**2) / 2), (1 - q) * (1 - y)
    x = mp.log((-b + mp.sqrt(b * b - 4 * a * c)) / (2 * a)) / mu
    return q * mp.ncdf(2 * mu - x) - y * q * mp.ncdf(mu - x) + c * mp.ncdf(-x)


def step_delta(law: StepLaw, epsilon: Any) -> Any:
    """The hockey-stick integral of ``max(p - e^eps q, 0)``."""
    if isinstance(law, PresentOrEmpty | EmptyOrPresent):
        return empty_place_delta(law, epsilon)
    if isinstance(law, Amplified):
        return amplified_delta(mpf(law.q), law.mu, epsilon)
    p, q = densities(law)
    y = mp.exp(mpf(epsilon))
    low, high = mpf(-60 - 4 * law.mu), mpf(60 + 4 * law.mu)
    if p(high) <= y * q(high):
        return mpf(0)
    if p(low) < y * q(low):
        left, right = low, high
        for _ in range(4 * int(mp.mp.dps) + 80):
            middle = (left + right) / 2
            left, right = (middle, right) if p(middle) < y * q(middle) else (left, middle)
        low = right
    end = max(high, low + 40)
    return mp.quad(lambda g: p(g) - y * q(g), [low, *[low + k for k in (1, 3, 6, 10, 16, 25)], end])


def generating_function(law: StepLaw, s: Any) -> Any:
    """``m(s) = E_P exp(s L)`` by quadrature of the definition."""
    s = mp.mpmathify(s)
    reach = 14 + (2 + 2 * abs(mp.re(s))) * law.mu
    if isinstance(law, Amplified):
        # Any profile: m(s) = s (s + 1) integral of delta(e) exp(s e) de.
        edge = mp.log1p(law.q * mp.expm1(law.mu * (reach - law.mu / 2)))
        edge = max(edge, law.mu * reach) if isinstance(law, PresentOrEmpty) else edge
        left = [-120 / (1 + mp.re(s)) * k for k in (1, 0.5, 0.25, 0.1, 0.03)]
        right = [edge * k for k in (0.01, 0.05, 0.15, 0.3, 0.5, 0.75, 1)]
        f = lambda e: step_delta(law, e) * mp.exp(s * e)  # noqa: E731
        return s * (s + 1) * mp.quad(f, [-120 / mp.re(s), *left, 0, *right], method="gauss-legendre")
    p, q = densities(law)
    return mp.quad(lambda g: p(g) ** (1 + s) * q(g) ** (-s), mp.linspace(-reach, reach, 25), method="gauss-legendre")


def quadrature(law: StepLaw, c: float, panels: int = 240, cuts: tuple[float, ...] = ()) -> tuple[Any, Any, float]:
    """Gauss-Legendre nodes of a law under P in extended precision: log mass, privacy loss, and the mass at loss 0.

    Panels end at the losses ``cuts`` (where the function to be integrated is not smooth), with smaller panels beside them.
    """
    q, mu = np.longdouble(law.q), np.longdouble(law.mu)
    x, w = np.polynomial.legendre.leggauss(24)

    def log_ratio(g: Any) -> Any:
        return np.log1p(q * np.expm1(mu * g - mu**2 / 2))

    def log_normal(g: Any) -> Any:
        return -(g**2) / 2 - np.log(2 * np.longdouble(np.pi)) / 2

    def loss_of(g: Any) -> Any:
        if isinstance(law, PoissonAdd):
            return -log_ratio(g)
        return log_ratio(g) - (log_ratio(-g) if isinstance(law, PoissonReplace) else 0)

    def further(h: Any) -> Any:
        """log A_2mu - log A_mu."""
        return np.log1p(q * np.expm1(2 * mu * h - 2 * mu**2)) - log_ratio(h)

    def line(low: float, high: float, levels: tuple[float, ...], loss_of: Any = loss_of) -> tuple[Any, Any]:
        edges = [np.linspace(low, high, panels + 1)]
        rising = bool(loss_of(np.longdouble(low)) < loss_of(np.longdouble(high)))
        for level in levels:
            left, right = np.longdouble(low), np.longdouble(high)
            for _ in range(80):
                middle = (left + right) / 2
                left, right = (middle, right) if (loss_of(middle) < level) == rising else (left, middle)
            near = (high - low) / panels * 0.6 ** np.arange(30)
            edges.append(np.concatenate([left - near, [left], left + near]))
        every = np.unique(np.clip(np.concatenate(edges), low, high)).astype(np.longdouble)
        half = (every[1:] - every[:-1])[:, None] / 2
        return ((every[:-1, None] + half) + half * x.astype(np.longdouble)).ravel(), (half * w.astype(np.longdouble)).ravel()

    room = 13.0
    right = room + (1 + 2 * c) * law.mu
    if isinstance(law, PresentOrEmpty | EmptyOrPresent):
        levels = tuple(abs(cut) for cut in cuts)
        (g, weight), (h, more) = line(law.mu / 2, right, levels), line(1.5 * law.mu, right + (1 + c) * law.mu, levels, further)
        near, far = np.log(weight) + log_normal(g), np.log(more) + log_normal(h) + log_ratio(h)
        if isinstance(law, PresentOrEmpty):
            masses, losses = [far + further(h), near], [further(h), -log_ratio(g)]
        else:
            masses, losses = [near + log_ratio(g), far], [log_ratio(g), -further(h)]
        atom = float(1 - sum(np.exp(part).sum() for part in masses))
        return np.concatenate(masses), np.concatenate(losses), atom
    if isinstance(law, Amplified):
        g, weight = line(law.mu / 2, right, tuple(abs(cut) for cut in cuts))
        ratio = log_ratio(g)
        up, down = np.log(weight) + log_normal(g) + ratio, np.log(weight) + log_normal(g)
        atom = float(1 - np.exp(up).sum() - np.exp(down).sum())
        return np.concatenate([up, down]), np.concatenate([ratio, -ratio]), atom
    g, weight = line(-room - (1 + c) * law.mu, right, cuts)
    density = log_normal(g) if isinstance(law, PoissonAdd) else log_normal(g) + log_ratio(g)
    return np.log(weight) + density, loss_of(g), 0.0


def composed_delta(composition: Composition, epsilon: float) -> float:
    """delta of many steps by a plain, oversampled contour integral in extended precision; relative error below 1e-8."""

    def nodes(c: float, panels: int) -> list[tuple[tuple[Any, Any, float], int]]:
        return [(quadrature(one.law, c, panels), one.count) for term in composition.terms for one in term.repeated]

    def log_m(laws: list[tuple[tuple[Any, Any, float], int]], s: Any) -> Any:
        total = np.longdouble(composition.gaussian) ** 2 / 2 * s * (s + 1)
        for (log_p, loss, _), count in laws:
            # sum of p (e^(sL) - 1) + 1: the nodes' own mass need not be 1 to the last digit.
            m = np.array([(np.exp(log_p) * np.expm1(z * loss)).sum() for z in s])
            total = total + count * np.log(1 + m)
        return total

    def height(x: float) -> float:
        c = np.array([np.longdouble(math.exp(x))])
        return float(log_m(rough, c)[0] - c[0] * epsilon - np.log(c[0] * (c[0] + 1)))

    rough = nodes(24.0, 60)
    xs = np.linspace(math.log(1e-3), math.log(24.0), 40)
    heights = [height(float(x)) for x in xs]
    best = int(np.nanargmin(heights))
    c, top = math.exp(float(xs[best])), heights[best]
    previous, period, fine = math.inf, 50.0 / c, nodes(c, 130)
    while True:
        h, total, at = 2 * math.pi / period, np.longdouble(0), 0
        while True:
            s = np.longdouble(c) + 1j * np.longdouble(h) * np.arange(at, at + 64)
            term = np.exp(log_m(fine, s) - s * epsilon - np.log(s * (s + 1)) - np.longdouble(top))
            if at == 0:
                term[0] /= 2
            total = total + term.real.sum()
            at += 64
            if np.abs(term[-16:]).max() * at < 1e-10 * abs(total):
                break
            if at > 3_000:
                raise ArithmeticError("the contour reference needs too many nodes")
        value = float(np.exp(np.longdouble(top)) * 2 / np.longdouble(period) * total)
        if abs(value - previous) <= 1e-9 * value:
            return value
        previous, period = value, 1.5 * period


def _presence(q: float, mu: float, epsilon: Any) -> Any:
    """The record at 2 mu against its empty place at mu, at epsilon >= 0: a quadratic in exp(mu x)."""
    y = np.exp(epsilon)
    a, b, c = q * math.exp(-2 * mu**2), -q * y * math.exp(-(mu**2) / 2), (1 - q) * (1 - y)
    x = np.log((-b + np.sqrt(b * b - 4 * a * c)) / (2 * a)) / mu
    return q * ndtr(2 * mu - x) - y * q * ndtr(mu - x) + c * ndtr(-x)


def profile(law: StepLaw, epsilon: Any) -> Any:
    """delta of one step at an array of epsilon (any sign), from the definition, in double precision."""
    q, mu = law.q, law.mu
    epsilon = np.asarray(epsilon, dtype=float)
    if isinstance(law, PresentOrEmpty | EmptyOrPresent):
        size = np.abs(epsilon)
        forward = _presence(q, mu, size), profile(Amplified(q, mu), size)
        first, second = forward if isinstance(law, PresentOrEmpty) else forward[::-1]
        return np.where(epsilon >= 0, first, -np.expm1(-size) + np.exp(-size) * second)
    if isinstance(law, Amplified):
        size = np.abs(epsilon)
        inner = np.log1p(np.expm1(size) / q)
        positive = q * (ndtr(mu / 2 - inner / mu) - np.exp(inner + log_ndtr(-mu / 2 - inner / mu)))
        return np.where(epsilon >= 0, positive, -np.expm1(-size) + np.exp(-size) * positive)
    if isinstance(law, PoissonRemove):
        ratio = np.expm1(epsilon) / q + 1
        g = np.where(ratio > 0, (np.log(np.maximum(ratio, 1e-300)) + mu**2 / 2) / mu, -np.inf)
        return (1 - q) * ndtr(-g) + q * ndtr(mu - g) - np.exp(epsilon) * ndtr(-g)
    if isinstance(law, PoissonAdd):
        ratio = np.expm1(-epsilon) / q + 1
        g = np.where(ratio > 0, (np.log(np.maximum(ratio, 1e-300)) + mu**2 / 2) / mu, -np.inf)
        return ndtr(g) - np.exp(epsilon) * ((1 - q) * ndtr(g) + q * ndtr(g - mu))
    low, high = np.full(epsilon.shape, -60.0), np.full(epsilon.shape, 60.0)
    for _ in range(70):
        middle = (low + high) / 2
        loss = np.log1p(q * np.expm1(mu * middle - mu**2 / 2)) - np.log1p(q * np.expm1(-mu * middle - mu**2 / 2))
        low, high = np.where(loss < epsilon, middle, low), np.where(loss < epsilon, high, middle)
    g = (low + high) / 2
    return (1 - q) * ndtr(-g) + q * ndtr(mu - g) - np.exp(epsilon) * ((1 - q) * ndtr(-g) + q * ndtr(-mu - g))


def pair_delta(first: StepLaw, second: StepLaw, epsilon: float) -> float:
    """delta of two steps: the second's profile at epsilon minus the first's loss, averaged under the first's P."""
    edge = {PoissonRemove: math.log1p(-second.q), PoissonAdd: -math.log1p(-second.q)}.get(type(second))
    edge = 0.0 if isinstance(second, Amplified) else edge
    cuts = (epsilon,) if not edge else (epsilon, epsilon - edge)
    log_p, loss, atom = quadrature(first, 0.0, panels=400, cuts=cuts)
    p = np.exp(log_p).astype(float)
    return float(p @ profile(second, (epsilon - loss).astype(float)) + atom * profile(second, epsilon))
