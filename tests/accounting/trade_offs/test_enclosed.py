"""Trade-off functions of guarantees and of products, which are computed: the truth is inside the enclosure, and it is narrow."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import ExactComposition, GaussianDP, Guarantee, compositions, lattice
from dplateau.accounting.dotted import Law
from dplateau.accounting.lattice import convolved
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove
from dplateau.accounting.reading import Reading
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.terms import Composition, Repeated
from dplateau.accounting.trade_offs import Gaussian, OfPair, Piecewise, epsilon_delta, maximum, mixture, product, trade_off
from dplateau.accounting.trade_offs.product import _convolved
from dplateau.spec import InputError

from .. import reference

ALPHA = (0.0, 1e-9, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 0.9999, 1.0)


class AsTable(Guarantee):
    """mu-GDP that does not say so."""

    def __init__(self, mu: float) -> None:
        self.plain = GaussianDP(mu)

    def epsilon(self, delta: float) -> dp.Enclosure:
        return self.plain.epsilon(delta)

    def delta(self, epsilon: float) -> dp.Enclosure:
        return self.plain.delta(epsilon)


@pytest.mark.parametrize("mu", [0.001, 0.2, 1.0, 3.0, 10.0])
def test_a_profile_gives_its_function_back(mu: float) -> None:
    f = trade_off(AsTable(mu))
    for alpha in ALPHA:
        found, truth = f.enclosure(alpha), Gaussian(mu)(alpha)
        assert found.lower - 1e-13 <= truth <= found.upper + 1e-13
        assert found.width <= 3e-4
        assert found.lower <= f(alpha) <= found.lower + 5e-15  # What rounding may have added is taken away.
    assert trade_off(GaussianDP(mu)) == Gaussian(mu)


def test_more_points_are_narrower() -> None:
    widths = [max(trade_off(AsTable(1.0), points=points).enclosure(alpha).width for alpha in ALPHA) for points in (40, 160, 640)]
    assert widths[0] > 4 * widths[1] > 16 * widths[2]


def test_of_a_mixture_and_of_slack() -> None:
    components = MixtureOfGaussianDP((0.3, 2.0), (0.9, 0.1))
    f, exact = trade_off(components), mixture([Gaussian(0.3), Gaussian(2.0)], [0.9, 0.1])
    g = trade_off(WithSlack(GaussianDP(1.0), 0.01))
    for alpha in ALPHA:
        assert f.enclosure(alpha).lower - 1e-12 <= exact(alpha) <= f.enclosure(alpha).upper + 1e-12
        # (G - slack) is what (epsilon, delta + slack) says.
        assert g(alpha) == pytest.approx(max(Gaussian(1.0)(alpha) - 0.01, 0.0), abs=0.0101)
        assert g(alpha) <= Gaussian(1.0)(alpha)
    assert g(0.3) == pytest.approx(Gaussian(1.0)(0.3) - 0.01, abs=3e-4)


def test_nothing_lost_and_everything_lost() -> None:
    tiny = dp.Run(n=10**7, sampling=dp.Poisson(1), steps=1, noise_multiplier=1000.0)
    f = trade_off(ExactComposition(compositions(tiny)[0]))
    assert f(0.5) == pytest.approx(0.5, abs=1e-9)
    loud = dp.Run(n=100, sampling=dp.Poisson(50), steps=10_000, noise_multiplier=0.05)
    assert trade_off(ExactComposition(compositions(loud)[0]))(0.5) == 0


def type_two_error(q: float, mu: float, steps: int, alpha: float) -> float:
    """The exact trade-off of Poisson steps, P without the record: a convolution of loss laws on a fine grid by brute force."""
    h = 2e-4
    g = np.linspace(-9, 9 + mu, 400_001)
    loss = np.log1p(q * np.expm1(mu * g - mu**2 / 2))
    weight = np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi) * (g[1] - g[0])
    place = np.round(loss / h).astype(int)
    low = place.min()
    p = np.bincount(place - low, weights=weight)
    count = steps * (p.size - 1) + 1
    size = 1 << count.bit_length()
    p = np.maximum(np.fft.irfft(np.fft.rfft(p, size) ** steps, size)[:count], 0.0)
    at = h * (steps * low + np.arange(count))
    p[at > 25] = 0.0  # nothing but the noise of the transforms
    order = np.argsort(-at)
    first, second = np.cumsum(p[order]), np.cumsum((p * np.exp(at))[order])
    return float(np.interp(alpha, first, 1 - second))


@pytest.mark.parametrize(("q", "mu", "steps"), [(0.05, 0.8, 50), (0.02, 1.5, 8)])
def test_products_of_sampled_steps(q: float, mu: float, steps: int) -> None:
    f = OfPair(PoissonRemove(q, mu)) ** steps
    pair = [ExactComposition((Composition((Repeated(kind(q, mu), steps),)),)) for kind in (PoissonRemove, PoissonAdd)]
    for epsilon in (0.0, 0.05, 0.4, 1.0):
        for side, composed in zip((f, f.inverse), pair, strict=True):
            truth = composed.delta(epsilon)
            assert side.delta(epsilon) >= truth.lower - 1e-12
            assert side.delta(epsilon) <= truth.upper + 3e-6
    for alpha in (0.01, 0.1, 0.4, 0.8):
        found, truth = f.enclosure(alpha), type_two_error(q, mu, steps, alpha)
        assert found.width <= 1e-4
        assert found.lower - 1e-5 <= truth <= found.upper + 1e-5
    both = f.symmetrized
    certified = trade_off(ExactComposition(tuple(direction for one in pair for direction in one.directions)))
    for alpha in (0.01, 0.1, 0.4, 0.8):
        assert both(alpha) == pytest.approx(certified(alpha), abs=2e-5)


def test_products_with_a_gaussian() -> None:
    """N(0, 1) against N(mu, 1), and a coin that shows everything with probability c: f_(0, c) x G_mu."""
    c, mu = 0.03, 1.2
    f = epsilon_delta(0.0, c) @ Gaussian(mu)
    for alpha in (0.001, 0.1, 0.4):
        # What is shown is won; the rest of alpha is spent on the Gaussian: (1 - c) G(alpha / (1 - c)).
        truth = (1 - c) * Gaussian(mu)(alpha / (1 - c))
        found = f.enclosure(alpha)
        assert found.lower - 1e-10 <= truth <= found.upper + 1e-10
        assert found.width <= 2e-4
    assert f(1 - c) == pytest.approx(0.0, abs=1e-9)
    assert f.certain == pytest.approx(c, rel=1e-9)


def test_order_and_grouping_do_not_matter() -> None:
    a, b, c = epsilon_delta(0.4, 0.01), Gaussian(0.7), OfPair(PoissonAdd(0.1, 1.0))
    one, two = (a @ b) @ c, c @ (b @ a)
    whole = product([(a, 1), (b, 1), (c, 1)])
    for alpha in (0.02, 0.3, 0.7):
        ranges = [f.enclosure(alpha) for f in (one, two, whole)]
        # What is multiplied twice is rounded down twice; all of them meet.
        assert max(r.lower for r in ranges) <= whole.enclosure(alpha).upper + 1e-12
        assert max(r.lower for r in ranges) - min(r.lower for r in ranges) <= 3e-4
    assert (b @ b) == Gaussian(0.7 * math.sqrt(2)) or (b @ b).mu == pytest.approx(0.7 * math.sqrt(2))
    assert (b**9).mu == pytest.approx(2.1)
    assert a**1 is a


def test_a_product_is_never_above_its_factors() -> None:
    f = epsilon_delta(0.4, 0.01) @ OfPair(PoissonAdd(0.1, 1.0))
    alpha = np.linspace(0, 1, 51)
    assert (f(alpha) <= epsilon_delta(0.4, 0.01)(alpha) + 1e-12).all()
    assert (f(alpha) <= OfPair(PoissonAdd(0.1, 1.0))(alpha) + 1e-12).all()
    identity = Piecewise(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert np.allclose((identity @ epsilon_delta(1.0, 0.1))(alpha), epsilon_delta(1.0, 0.1)(alpha), atol=1e-14)


def test_one_step_to_many_digits() -> None:
    """T(N(0, 1), mixture) at alpha, by mpmath."""
    q, mu, alpha = 0.1, 1.3, 0.2
    with mp.workdps(30):
        t = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(alpha))
        truth = (1 - q) * mp.ncdf(t) + q * mp.ncdf(t - mu)
    assert OfPair(PoissonRemove(q, mu))(alpha) == pytest.approx(float(truth), rel=1e-13)


@pytest.mark.parametrize(("first", "size"), [(-60, 128), (-60, 64), (-20, 64), (0, 64), (-6, 16)])
def test_what_leaves_the_window_of_a_product_is_on_the_safe_side(first: int, size: int) -> None:
    """Sums on a lattice, convolved one by one; a window that some of them leave at either end."""
    rng, h, count = np.random.default_rng(6), 0.05, 12
    law = Law(rng.dirichlet(np.ones(9)) * (1 - 1e-4), -4, 1e-4)
    mass = np.ones(1)
    for _ in range(count):
        mass = np.convolve(mass, law.p)
    loss, epsilon = h * (count * law.first + np.arange(mass.size)), h * (first + np.arange(size))
    exact = np.maximum(-np.expm1(np.minimum(epsilon[:, None] - loss, 0.0)), 0.0) @ mass
    for tilts in ((1.0, 1.0), (5.0, 3.0), (20.0, 30.0), (200.0, 200.0)):
        above, below = (_convolved([(law, count)], epsilon, h, tilts, above=side) for side in (True, False))
        assert (above >= np.minimum(exact + 1 - (1 - law.infinite) ** count, 1.0)).all()
        assert (below <= exact).all()


def test_refused() -> None:
    with pytest.raises(InputError, match="no trade-off function"):
        product([])
    with pytest.raises(InputError, match="count"):
        product([(Gaussian(1), 0)])
    for points, least, match in ((7, 1e-12, "points"), (True, 1e-12, "points"), (20, 0.0, "least"), (20, math.nan, "least")):
        with pytest.raises(InputError, match=match):
            trade_off(AsTable(1.0), points=points, least=least)


def test_the_report_has_one() -> None:
    run = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=2000, noise_multiplier=1.1)
    report = dp.account(run, 1e-5)
    f = report.trade_off
    assert f is report.trade_off
    for epsilon in (0.2, 0.8):
        known = report.best.bound.guarantee.delta(epsilon)
        assert f.delta(epsilon) >= known.upper - 1e-12
        assert f.delta(epsilon) <= known.upper + 1e-4
    # Where several proved bounds hold, the function is at least each of theirs.
    last = run.replace(
        sampling=dp.Shuffled(600), step_size=0.1, smoothness=0.25, strong_convexity=0.01, diameter=4.0, released="last"
    )
    several = dp.account(last, 1e-5)
    for row in several.bounds:
        if row.status == "Proved" and row.name in ("exact-composition", "shuffled"):
            assert several.trade_off(0.1) >= trade_off(row.bound.guarantee)(0.1) - 1e-9


def fixed_size(steps: int, adjacency: str) -> dp.Run:
    return dp.Run(n=100_000, sampling=dp.FixedSize(121), steps=steps, noise_multiplier=0.6, adjacency=adjacency)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("steps", [2, 7, 106, 300])
def test_few_fixed_size_steps_are_read_from_a_few_lattices(monkeypatch: pytest.MonkeyPatch, steps: int, adjacency: str) -> None:
    guarantee = ExactComposition(compositions(fixed_size(steps, adjacency))[0])
    calls: list[int] = []

    def counted(parts: Sequence[tuple[np.ndarray, int]]) -> tuple[np.ndarray, float]:
        calls.append(len(parts))
        return convolved(parts)

    with monkeypatch.context() as patched:
        patched.setattr(lattice, "convolved", counted)
        f = trade_off(guarantee)
    assert len(calls) < 40  # and not some for each of 160 epsilons
    read = guarantee.profile(1e-12)
    for epsilon in (0.0, 0.3, 2.0, 5.0, 9.0):
        found, alone = read(epsilon), guarantee.delta(epsilon)
        assert found.width <= 1e-3 * found.upper + 1e-12
        assert max(found.lower, alone.lower) <= min(found.upper, alone.upper), (epsilon, found, alone)
        if steps == 2:
            laws = [term.law for one in guarantee.directions for term in one.terms[0].repeated]
            truth = max(reference.pair_delta(law, law, epsilon) for law in laws)
            assert found.lower * (1 - 1e-8) - 1e-15 <= truth <= found.upper * (1 + 1e-8) + 1e-15
        for alpha in ALPHA:
            assert f.enclosure(alpha).upper >= 1 - alone.upper - math.exp(epsilon) * alpha - 1e-12
            assert f.enclosure(alpha).width <= 3e-4


def test_what_has_nothing_to_keep_is_asked_each_time() -> None:
    assert AsTable(1.0).profile(1e-12)(1.0) == AsTable(1.0).delta(1.0)


PROFILES = {
    "many steps": dp.Run(n=60_000, sampling=dp.Poisson(256), steps=3_516, noise_multiplier=1.3),
    "replace": dp.Run(n=60_000, sampling=dp.FixedSize(256), steps=900, noise_multiplier=0.8, adjacency="replace"),
    "few steps": dp.Run(n=2_806, sampling=dp.FixedSize(34), steps=67, noise_multiplier=1.9),
    "rare draws": dp.Run(n=10**9, sampling=dp.FixedSize(38), steps=347, noise_multiplier=0.21),
    "two levels": dp.Run(n=2_380, sampling=dp.FixedSize(78), steps=20, noise_multiplier=[5.7] * 10 + [7.3] * 10),
    "epochs": dp.Run(n=1_000, sampling=dp.RandomAllocation(50), steps=200, noise_multiplier=1.5),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_made_of_a_few_lines_and_lattices(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It says what single readings say, wherever and in whatever order it is asked."""
    guarantee, made = ExactComposition(compositions(PROFILES[name])[0]), []

    def counted(reading: Reading, *rest: Any) -> dp.Enclosure:
        made.append(reading)
        return one_more(reading, *rest)

    one_more = Reading._made
    monkeypatch.setattr(Reading, "_made", counted)
    read, last = guarantee.profile(1e-12), guarantee.upper(1e-12)
    asked = [last * share for share in (0.9, 0.02, 0.5, 0.0, 1.0, 0.3, 0.001, 0.1, 0.7)]
    found = {epsilon: read(epsilon) for epsilon in (*asked, *np.linspace(0, last, 150).tolist())}
    assert len(made) <= 25
    for epsilon in asked:
        alone = guarantee.delta(epsilon)
        assert max(found[epsilon].lower, alone.lower) <= min(found[epsilon].upper, alone.upper), (epsilon, found[epsilon], alone)
        assert found[epsilon].upper <= alone.upper * (1 + 2e-3) + 1e-15
    upper = np.array([found[epsilon].upper for epsilon in sorted(found)])
    assert (np.diff(upper) <= 1e-3 * upper[:-1] + 1e-15).all()


@pytest.mark.parametrize(
    ("mu", "least"), [(0.2, 0.2), (0.2, 0.0796), (5.0, 0.99), (1e-13, 1e-12), (36.0, 1e-12), (60.0, 1e-12), (1e3, 1e-12)]
)
def test_what_is_not_followed_further_is_enclosed(mu: float, least: float) -> None:
    """Where delta is small at once, or still 1 at the last epsilon, less is known of f than of what is certified."""
    f, exact = trade_off(AsTable(mu), least=least), Gaussian(mu)
    for alpha in (*ALPHA, 5e-324, 1e-310, 1e-200):
        assert f.enclosure(alpha).lower - 1e-13 <= exact(alpha) <= f.enclosure(alpha).upper + 1e-13, alpha


def test_next_to_the_identity_the_enclosure_reaches_it() -> None:
    f = trade_off(AsTable(1e-6))
    for alpha in (7e-17, 8e-17, 1.6e-16, 2.5e-16):
        assert Fraction(f.enclosure(alpha).upper) >= 1 - Fraction(alpha) - Fraction(1, 10**20)


def test_slack_is_added_to_a_profile() -> None:
    inner = ExactComposition(compositions(PROFILES["many steps"])[0])
    read, plain = WithSlack(inner, 1e-4).profile(1e-12), inner.profile(1e-12)
    for epsilon in (0.0, 0.5, 1.0):
        assert read(epsilon).upper == math.nextafter(plain(epsilon).upper + 1e-4, 1.0)
        assert read(epsilon).lower == plain(epsilon).lower


def test_of_several_that_hold_the_enclosure_contains_the_largest() -> None:
    """Few points miss some of f: the upper end has to say so, for the function that several members make, too."""
    members = [AsTable(0.6), MixtureOfGaussianDP((0.3, 2.0), (0.9, 0.1))]
    exact = [Gaussian(0.6), mixture([Gaussian(0.3), Gaussian(2.0)], [0.9, 0.1])]
    f, fine = (maximum(*(trade_off(one, points=points) for one in members)) for points in (40, 2560))
    for alpha in ALPHA[1:-1]:
        truth = max(one(alpha) for one in exact)
        for one in (f, f.inverse, fine):
            assert one.enclosure(alpha).lower <= truth + 1e-12
            assert one.enclosure(alpha).upper >= truth - 1e-12
            assert one(alpha) - 5e-15 <= one.enclosure(alpha).lower <= one(alpha)
    assert f.enclosure(0.1).width > 1e-4 > 10 * fine.enclosure(0.1).width
    # Also one that is larger by so little that it is left out, or by as much as its few points miss.
    for little in (Gaussian(1.0 - 1e-9), trade_off(AsTable(0.99), points=8)):
        for some in ((Gaussian(1.0), little), (little, Gaussian(1.0))):
            f, truth = maximum(*some), Gaussian(getattr(little, "mu", 0.99))
            for one in (f, f.inverse):
                assert all(one.enclosure(alpha).upper >= truth(alpha) - 1e-13 for alpha in ALPHA)
    run = dp.Run(
        n=1_000, sampling=dp.Poisson(50), steps=400, noise_multiplier=2.0, step_size=0.1, smoothness=1.0, diameter=0.05,
        strong_convexity=0.0, released="last",
    )  # fmt: skip
    bound = next(row.bound for row in dp.account(run, 1e-5).bounds if row.name == "sampled-last-iterate")
    coarse, fine = (trade_off(bound.guarantee, points=points) for points in (40, 640))
    for alpha in (0.001, 0.01, 0.1, 0.3):
        assert coarse(alpha) < fine(alpha) - 1e-6
        assert fine(alpha) <= coarse.enclosure(alpha).upper
