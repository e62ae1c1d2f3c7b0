"""Write ``extremes.json``: epsilon of extreme runs, from definitions in 34 digits (mpmath), by ways of their own.

``python tests/accounting/make_extremes.py [STEPS ...]`` takes an hour (gmpy2 speeds it up); rows of other numbers of steps are
kept. One step is a closed form, two are one integral of it, ten million a trapezoid sum of the power of one step's transform on a
vertical line; with the rate 1 all are a Gaussian closed form. Left out are ten million steps at rate 1e-7 with little noise: their
transform does not decay.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
from mpmath import mpf

FILE = Path(__file__).with_name("extremes.json")
STEPS, RATES, NOISES, DELTAS = (1, 2, 10**7), ("1e-7", "1e-4", "0.5", "1"), ("0.2", "1", "1000"), ("1e-15", "1e-5", "0.5")
KINDS = ("remove", "add", "replace", "amplified")
DIGITS = 34
Real = Any


def upper(x: Real) -> Real:
    """The mass of N(0, 1) above x, with all digits in the tail."""
    return mp.erfc(x / mp.sqrt(2)) / 2


def gaussian(mu: Real, e: Real) -> Real:
    """delta of mu-GDP."""
    return upper(e / mu - mu / 2) - mp.exp(e) * upper(e / mu + mu / 2)


def step(kind: str, q: Real, mu: Real, e: Real) -> Real:
    """delta of one step at any e, from the threshold of its likelihood ratio."""
    if kind == "amplified":
        if e < 0:
            return -mp.expm1(e) + mp.exp(e) * step(kind, q, mu, -e)
        return q * gaussian(mu, mp.log1p(mp.expm1(e) / q))

    def mixture(t: Real, centre: Real) -> Real:
        return (1 - q) * upper(t) + q * upper(t - centre)

    if kind == "remove":
        ratio = mp.expm1(e) / q + 1
        if ratio <= 0:
            return -mp.expm1(e)
        t = (mp.log(ratio) + mu**2 / 2) / mu
        return mixture(t, mu) - mp.exp(e) * upper(t)
    if kind == "add":
        ratio = mp.expm1(-e) / q + 1
        if ratio <= 0:
            return mpf(0)
        t = (mp.log(ratio) + mu**2 / 2) / mu
        return upper(-t) - mp.exp(e) * ((1 - q) * upper(-t) + q * upper(mu - t))
    # (1 - q + q w exp(mu g)) = exp(e) (1 - q + q w exp(-mu g)): quadratic in exp(mu g).
    w, y = mp.exp(-(mu**2) / 2), mp.exp(e)
    b = (1 - q) * mp.expm1(e)
    root = mp.sqrt(b**2 + 4 * q**2 * w**2 * y)
    x = (b + root) / (2 * q * w) if b > 0 else 2 * q * w * y / (root - b)
    t = mp.log(x) / mu
    return mixture(t, mu) - y * mixture(t, -mu)


def log_ratio(q: Real, mu: Real, g: Real) -> Real:
    return mp.log1p(q * mp.expm1(mu * g - mu**2 / 2))


def law(kind: str, q: Real, mu: Real) -> tuple[Callable[[Real], Real], Callable[[Real], Real]]:
    """Density under P and loss, as functions of g (not for "amplified", whose P is not a function of one normal)."""
    if kind == "add":
        return mp.npdf, lambda g: -log_ratio(q, mu, g)
    density = lambda g: mp.npdf(g) * mp.exp(log_ratio(q, mu, g))  # noqa: E731
    if kind == "remove":
        return density, lambda g: log_ratio(q, mu, g)
    return density, lambda g: log_ratio(q, mu, g) - log_ratio(q, mu, -g)


def parts(kind: str, q: Real, mu: Real) -> list[tuple[Callable[[Real], Real], Callable[[Real], Real], Real]]:
    """Density, loss, and where it begins, of the parts of a law; an amplified one has two and an atom at loss 0."""
    if kind == "amplified":
        up = lambda g: mp.npdf(g) * mp.exp(log_ratio(q, mu, g))  # noqa: E731
        return [(up, lambda g: log_ratio(q, mu, g), mu / 2), (mp.npdf, lambda g: -log_ratio(q, mu, g), mu / 2)]
    density, loss = law(kind, q, mu)
    return [(density, loss, -mp.inf)]


def two_steps(kind: str, q: Real, mu: Real, e: Real) -> Real:
    """``E_P delta(e - L)``, with panels that shrink where the second step's profile bends."""
    total, atom = mpf(0), mpf(1 if kind == "amplified" else 0)
    for density, loss, begin in parts(kind, q, mu):
        low, high = max(begin, mpf(-13)), 13 + 2 * mu
        cuts = {low, high, *(low + (high - low) * k / 8 for k in range(8))}
        rising = loss(high) > loss(low)
        for bend in (e, e - mp.log1p(-q), e + mp.log1p(-q)):
            left, right = low, high
            for _ in range(120):
                middle = (left + right) / 2
                left, right = (middle, right) if (loss(middle) < bend) == rising else (left, middle)
            for k in range(0, 12, 2):
                cuts |= {c for c in (left - mpf(10) ** (-k), left + mpf(10) ** (-k)) if low < c < high}
            cuts.add(left)
        edges = sorted(cuts)
        total += mp.quad(lambda g, p=density, L=loss: p(g) * step(kind, q, mu, e - L(g)), edges, maxdegree=4)
        if kind == "amplified":
            atom -= upper(low) if density is mp.npdf else (1 - q) * upper(low) + q * upper(low - mu)
    return total + atom * step(kind, q, mu, e)


class Power:
    """log M(s) of T steps on one vertical line."""

    def __init__(self, kind: str, q: Real, mu: Real, steps: int) -> None:
        self.kind, self.q, self.mu, self.steps = kind, q, mu, steps
        self.nodes: list[tuple[Real, Real]] = []

    def sample(self, c: Real) -> None:
        """Weights p and losses L for |s| about c."""
        reach = 14 + (2 + 2 * c) * self.mu
        self.nodes = []
        for density, loss, begin in parts(self.kind, self.q, self.mu):
            if begin == -mp.inf:
                h = min(mpf(1) / 16, mpf(1) / 10 / self.mu)
                points = [(h, h * k) for k in range(int(-reach / h), int(reach / h) + 1)]
            else:
                # The half line by a double exponential map: g = begin + exp(x - exp(-x)).
                h = mpf(1) / 40
                grid = [h * k for k in range(int(-4.6 / h), int(mp.log(reach) / h) + 2)]
                points = [(h * mp.exp(x - mp.exp(-x)) * (1 + mp.exp(-x)), begin + mp.exp(x - mp.exp(-x))) for x in grid]
            self.nodes += [(weight * density(g), loss(g)) for weight, g in points]

    def log(self, s: Real) -> Real:
        """K(s)."""
        return self.steps * mp.log1p(mp.fsum(p * mp.expm1(s * x) for p, x in self.nodes))

    def line(self, target: Real | None) -> tuple[Real, list[tuple[Real, Real]], Real]:  # noqa: RET503
        """Step, (s, K) on a line near the saddle point (of delta = target, or of epsilon = 0), and a first epsilon."""

        def about(c: Real) -> tuple[Real, Real]:
            d = c / 1000
            k0, k1, k2 = self.log(c - d), self.log(c), self.log(c + d)
            slope, bend = (k2 - k0) / (2 * d), (k2 - 2 * k1 + k0) / d**2
            e = slope - 1 / c - 1 / (1 + c)
            width = bend + 1 / c**2 + 1 / (1 + c) ** 2
            return e, k1 - c * e - mp.log(c * (1 + c)) - mp.log(2 * mp.pi * width) / 2

        low, high = mpf("1e-3"), mpf(1)
        goal = lambda c: (about(c)[1] - mp.log(target)) if target else -about(c)[0]  # noqa: E731
        self.sample(mpf(2))
        while goal(high) > 0:
            high *= 4
            self.sample(2 * high) if high < 40 else self.sample(mpf(40))
            if high > 1e12:
                raise ArithmeticError("no saddle point")
        while goal(low) < 0:
            low /= 4
        for _ in range(12):
            middle = mp.sqrt(low * high)
            low, high = (middle, high) if goal(middle) > 0 else (low, middle)
        c = low
        e, _ = about(c)
        e = max(e, mpf(0))
        d = c / 1000
        bend = (self.log(c + d) - 2 * self.log(c) + self.log(c - d)) / d**2 + 1 / c**2
        # Aliasing falls as exp(-c P), and to the right as the tilted law does beyond P.
        period = 75 / c + 16 * mp.sqrt(bend)
        h, found, top = 2 * mp.pi / period, [], self.log(c).real - c * e
        for k in itertools.count():
            s = mp.mpc(c, h * k)
            value = self.log(s)
            found.append((s, value))
            if k > 3 and (value.real - c * e - top) - mp.log(abs(s) ** 2 / c) < -62:
                return h, found, e
            if k > 600:
                raise ArithmeticError("the transform does not decay")

    def delta(self, h: Real, line: list[tuple[Real, Real]], e: Real) -> Real:
        terms = [mp.exp(k - s * e) / (s * (s + 1)) for s, k in line]
        return h / mp.pi * (terms[0].real / 2 + mp.fsum(t.real for t in terms[1:]))


def solve(f: Callable[[Real], Real], low: Real, high: Real, delta: Real) -> Real:
    """Where the falling f is delta, to 1e-9 of itself and 1e-3: false position on its log (Illinois), bracketed."""

    def g(x: Real) -> Real:
        return mp.log(max(f(x), mpf(10) ** -200) / delta)

    a = g(low)
    if a <= 0:
        return low
    b = g(high)
    while b > 0:
        low, a, high = high, b, 2 * high
        b = g(high)
    side = 0
    for _ in range(100):
        x = (low * b - high * a) / (b - a)
        y = g(x)
        if abs(y) < mpf("1e-10") or high - low < mpf("1e-11") * (high + mpf("1e-3")):
            break
        if y > 0:
            low, a, b, side = x, y, b / 2 if side > 0 else b, 1
        else:
            high, b, a, side = x, y, a / 2 if side < 0 else a, -1
    return x


def epsilon(kind: str, q: Real, z: Real, steps: int, delta: Real) -> Real:
    """epsilon of one direction."""
    mu = (2 if kind == "amplified" else 1) / z
    if steps == 1:
        return solve(lambda e: step(kind, q, mu, e), mpf(0), mpf(1), delta)
    if 2 * step(kind, q, mu, mpf(0)) <= delta and steps == 2:
        return mpf(0)
    if kind == "add" and steps == 2 and -2 * mp.log1p(-q) < 1e-3:
        return mpf(0)  # Bounded by -2 log(1 - q): removal is larger by far.
    if steps == 2:
        first = solve(lambda e: step(kind, q, mu, e), mpf(0), mpf(1), delta)
        return solve(lambda e: two_steps(kind, q, mu, e), first / 2, 2 * first + mpf("1e-6"), delta)
    power = Power(kind, q, mu, steps)
    if steps * step(kind, q, mu, mpf(0)) <= delta:
        return mpf(0)
    try:
        h, line, start = power.line(delta)
    except ArithmeticError:
        h, line, start = power.line(None)
    if start <= 0:
        h, line, start = power.line(None)
        if power.delta(h, line, mpf(0)) <= delta:
            return mpf(0)
    width = start / 100 + mpf("1e-9")
    return solve(lambda e: power.delta(h, line, e), max(start - width, mpf(0)), start + width, delta)


def row(scheme: str, steps: int, q: str, z: str, delta: str) -> dict[str, Any] | None:
    """One row; None where the value is out of reach."""
    kinds = {"add-remove": ("remove", "add"), "replace": ("replace",), "fixed-size": ("amplified",)}[scheme]
    found = {"scheme": scheme, "steps": steps, "rate": float(q), "noise": float(z), "delta": float(delta)}
    try:
        if q == "1":
            mu = (1 if scheme == "add-remove" else 2) * mp.sqrt(steps) / mpf(z)
            value = solve(lambda e: gaussian(mu, e), mpf(0), mpf(1), mpf(delta))
        elif steps > 2 and q == "1e-7" and z != "1000":
            return None
        else:
            value = max(epsilon(kind, mpf(q), mpf(z), steps, mpf(delta)) for kind in kinds)
    except ArithmeticError as error:
        print(found, repr(error), file=sys.stderr, flush=True)
        return None
    return found | {"epsilon": mp.nstr(value, 17)}


def write(steps: int, new: list[dict[str, Any]]) -> None:
    """Put the rows of one number of steps in the file."""
    old = [one for one in json.loads(FILE.read_text())["rows"] if one["steps"] != steps] if FILE.exists() else []
    rows = sorted([*old, *new], key=lambda one: (one["steps"], one["scheme"]))
    lines = ",\n".join(json.dumps(one) for one in rows)
    whole = FILE.with_suffix(".part")
    whole.write_text(f'{{"mpmath": "{mp.__version__}", "digits": {DIGITS},\n"rows": [\n{lines}\n]}}\n')
    whole.replace(FILE)


def main() -> None:
    """Compute the rows and write the file, after every row."""
    for steps in [int(value) for value in sys.argv[1:]] or STEPS:
        new: list[dict[str, Any]] = []
        with mp.workdps(DIGITS):
            for given in itertools.product(("fixed-size", "replace", "add-remove"), [steps], RATES[::-1], NOISES, DELTAS):
                if (found := row(*given)) is not None:
                    new.append(found)
                    write(steps, new)
                print(given, found, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
