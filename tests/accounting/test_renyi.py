"""Renyi divergences against quadratures of their definition, and against dp-accounting's."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as peer
from scipy.integrate import quad
from scipy.special import log_ndtr

import dplateau as dp
from dplateau.accounting import ExactComposition, compositions
from dplateau.accounting.family import Family, Members
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove
from dplateau.accounting.renyi import RenyiDP
from dplateau.accounting.terms import Composition, Repeated, renyi_divergence

from . import reference

N = 100_000
SETTINGS = [(q, z) for q in (1e-3, 0.01, 0.1, 0.5) for z in (0.6, 1.0, 2.0, 8.0)]
ORDERS = (1.5, 2.0, 3.0, 8.0, 25.0)
ROOM = 2e-9
"""What a divergence is rounded up by, beside a share of 1e-6."""


def one_step(q: float, z: float, adjacency: str, fixed: bool) -> dp.Run:
    return dp.Run(
        n=N, sampling=(dp.FixedSize if fixed else dp.Poisson)(round(q * N)), steps=1, noise_multiplier=z, adjacency=adjacency
    )


def log_normal(g: np.ndarray, mu: float) -> np.ndarray:
    return -((g - mu) ** 2) / 2 - math.log(2 * math.pi) / 2


def poisson_divergence(q: float, mu: float, order: float, above: tuple[float, ...], below: tuple[float, ...]) -> float:
    """``D_a(P || Q)`` of mixtures with the record's part at the centres ``above`` and ``below`` (none: no record), in g."""

    def log_density(g: np.ndarray, centres: tuple[float, ...]) -> np.ndarray:
        if not centres:
            return log_normal(g, 0.0)
        return np.logaddexp(math.log1p(-q) + log_normal(g, 0.0), math.log(q) + log_normal(g, centres[0] * mu))

    g = np.linspace(-30 - (2 * order + 2) * mu, 30 + (2 * order + 2) * mu, 200_001)
    exponent = order * log_density(g, above) + (1 - order) * log_density(g, below)
    top = exponent.max()
    return (top + math.log(np.exp(exponent - top).sum() * (g[1] - g[0]))) / (order - 1)


def amplified_divergence(q: float, mu: float, order: float) -> float:
    """``D_a`` of C_q(G_mu) from its profile: ``E exp((a-1) L) = 1 + a (a-1) integral of e^((a-1) e) (delta(e) - (1-e^e)+) de``.

    delta(-e) is 1 - e^-e + e^-e delta(e), so both halves are integrals over e > 0.
    """

    def log_integrand(e: float) -> float:
        inner = math.log1p(math.expm1(e) / q) if e < 700 else e - math.log(q)
        first, second = log_ndtr(mu / 2 - inner / mu), inner + log_ndtr(-mu / 2 - inner / mu)
        log_delta = math.log(q) + first + math.log(-math.expm1(min(second - first, -1e-300)))
        return log_delta + np.logaddexp((order - 1) * e, -order * e)

    e = np.concatenate([np.geomspace(1e-12, 1e-3, 200), np.linspace(1e-3, order * mu**2 + 14 * mu + 1, 4000)[1:]])
    values = np.array([log_integrand(float(x)) for x in e])
    top, place = float(values.max()), float(e[values.argmax()])
    breaks = [0.0, *sorted({1e-6 * q, q, 10 * q, place, place / 2, 2 * place, 1.0}), float(e[-1])]
    breaks = sorted({x for x in breaks if x <= e[-1]})
    total = sum(
        quad(lambda x: math.exp(log_integrand(x) - top) if x > 0 else 0.0, a, b, epsabs=1e-13, epsrel=1e-11, limit=400)[0]
        for a, b in itertools.pairwise(breaks)
    )
    return float(np.logaddexp(0.0, math.log(order * (order - 1)) + top + math.log(total))) / (order - 1)


def within(value: float, order: float, truth: float) -> bool:
    """Whether a divergence is an upper bound and tight."""
    return truth * (1 - 1e-9) - 1e-14 <= value <= truth * (1 + 1e-6) + ROOM


def ours(run: dp.Run, order: float) -> list[float]:
    return [renyi_divergence(composition, order) for composition in compositions(run)[0]]


@pytest.mark.parametrize(("q", "z"), SETTINGS)
def test_poisson_in_both_directions_is_the_quadrature(q: float, z: float) -> None:
    for order in ORDERS:
        mu = 1 / z
        exact = [poisson_divergence(q, mu, order, (1.0,), ()), poisson_divergence(q, mu, order, (), (1.0,))]
        assert exact[0] >= exact[1] * (1 - 1e-9)  # Removal costs more (Mironov, Talwar, Zhang 2019, Theorem 5).
        found = ours(one_step(q, z, "add-remove", False), order)
        replaced = ours(one_step(q, z, "replace", False), order)
        for value, truth in zip([*found, *replaced], [*exact, poisson_divergence(q, mu, order, (1.0,), (-1.0,))], strict=True):
            assert within(value, order, truth), (order, value, truth)


@pytest.mark.parametrize(("q", "z"), SETTINGS)
def test_without_replacement_is_between_the_quadrature_and_the_peer(q: float, z: float) -> None:
    """The peer's formula is for a given sensitivity: replacing a record moves the sum by twice the clip norm, so z/2 is passed."""
    below = 0
    for order in ORDERS:
        (value,) = ours(one_step(q, z, "replace", True), order)
        truth = amplified_divergence(q, 2 / z, order)
        assert within(value, order, truth), (order, value, truth)
        (bound,) = peer._compute_rdp_sample_wor_gaussian(q, z / 2, [order])
        assert value <= bound * (1 + 1e-9) + ROOM, (order, value, bound)
        # The single sensitivity, a known trap (dp-accounting issue 378), is refuted by the quadrature.
        (trap,) = peer._compute_rdp_sample_wor_gaussian(q, z, [order])
        below += trap < truth
    assert below or q == 0.5


def test_the_quadratures_agree_with_fifty_digits() -> None:
    """The references above against the definition in many digits."""
    import mpmath as mp

    from dplateau.accounting.amplified import Amplified
    from dplateau.accounting.privacy_loss import PoissonRemove

    with mp.workdps(30):
        for q, mu, order in ((0.1, 1.0, 3.0), (0.01, 0.5, 8.0)):
            many = mp.log(reference.generating_function(PoissonRemove(q, mu), order - 1)) / (order - 1)
            assert poisson_divergence(q, mu, order, (1.0,), ()) == pytest.approx(float(many), rel=1e-9, abs=1e-11)
        many = mp.log(reference.generating_function(Amplified(0.1, 1.0), 2)) / 2
        assert amplified_divergence(0.1, 1.0, 3.0) == pytest.approx(float(many), rel=1e-9)


@pytest.mark.parametrize("z", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9])
def test_what_overflows_is_the_peer(q: float, z: float) -> None:
    """At these orders the moments are up to exp(10^7). The peer interpolates below order 2; elsewhere it has all digits."""
    for order in (2.0, 4.3, 16.0, 64.5, 256.0, 1000.0):
        found = max(ours(one_step(q, z, "add-remove", False), order))
        (truth,) = np.ravel(peer._compute_rdp_poisson_subsampled_gaussian(q, z, [order]))
        assert truth * (1 - 1e-12) <= found <= truth * (1 + 3e-9), (order, found, truth)


@pytest.mark.parametrize(("q", "z", "order"), [(0.01, 0.1, 64.5), (0.5, 0.1, 300.5), (0.9, 0.3, 40.0)])
def test_what_overflows_against_thirty_digits(q: float, z: float, order: float) -> None:
    import mpmath as mp

    with mp.workdps(30):
        mu, rate = 1 / mp.mpf(z), mp.mpf(q)
        top = order * mu
        cuts = sorted({mp.mpf(x) for x in (-12, 0, 4)} | {top + k for k in (-16, -8, -3, 0, 3, 8, 16)})
        moment = mp.quad(lambda g: mp.npdf(g) * (1 - rate + rate * mp.exp(mu * g - mu**2 / 2)) ** order, cuts)
        truth = float(mp.log(moment) / (order - 1))
    found = max(ours(one_step(q, z, "add-remove", False), order))
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 3e-9)


@pytest.mark.parametrize("shift", [0.0, 0.03, 2.0, 50.0])
@pytest.mark.parametrize("q", [1e-7, 1e-3, 0.3, 0.97])
def test_moments_that_overflow_against_the_binomial_sum(q: float, shift: float) -> None:
    """A whole power of the mixture's ratio is a sum of log-normal moments: exact in many digits, for every mu and shift."""
    import mpmath as mp

    from dplateau.accounting.privacy_loss import PoissonRemove

    def truth(mu: float, order: int) -> mp.mpf:
        absent, present = mp.mpf(shift), mp.mpf(mu) + mp.mpf(shift)
        terms = [
            mp.binomial(order, j)
            * mp.mpf(1 - mp.mpf(q)) ** (order - j)
            * mp.mpf(q) ** j
            * mp.exp((((order - j) * absent + j * present) ** 2 - (order - j) * absent**2 - j * present**2) / 2)
            for j in range(order + 1)
        ]
        return mp.log(mp.fsum(terms))

    with mp.workdps(60):
        for mu, order in itertools.product((3.0, 8.0, 40.0, 1000.0), (2, 3, 7, 30, 200)):
            law, log_tolerance = PoissonRemove(q, mu, shift), math.log(1e-10)
            found, exact = mp.mpf(law.log_overflowing(order - 1.0, log_tolerance)), truth(mu, order)
            assert exact <= found, (mu, order)
            drawn = (order - 1) * order * (mu + shift) ** 2 / 2
            # Where nodes are too many, and the absent part is not small beside the other, it counts as drawn.
            assert found <= exact * (1 + 1e-12) + 1e-9 or found <= drawn * (1 + 1e-12), (mu, order)
            if mu >= 40:
                assert found <= exact * (1 + 1e-12) + 1e-9, (mu, order)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_large_orders_are_finite_and_rise(fixed: bool, adjacency: str) -> None:
    """Divergences rise with the order, no faster than in proportion, and stay below those of a record that is always drawn."""
    mu = (2.0 if adjacency == "replace" else 1.0) / 0.1
    for run in (one_step(0.01, 0.1, adjacency, fixed), one_step(0.01, 0.1, adjacency, fixed).replace(steps=50)):
        found = [max(ours(run, order)) for order in (2.0, 5.0, 9.0, 16.0, 40.0, 256.0, 2000.0)]
        assert np.isfinite(found).all()
        assert (np.diff(found) > 0).all()
        assert found[-1] <= run.steps * 2000.0 * mu**2 / 2 * (1 + 2e-9)


def test_many_noise_levels_have_large_orders_too() -> None:
    schedule = tuple(np.linspace(0.1, 0.12, 40))
    run = dp.Run(n=N, sampling=dp.Poisson(1000), steps=40, noise_multiplier=schedule)
    found = max(ours(run, 64.0))
    apart = sum(max(ours(one_step(0.01, z, "add-remove", False), 64.0)) for z in schedule)
    assert found == pytest.approx(apart, rel=1e-8)
    assert found >= apart * (1 - 1e-9)


@pytest.mark.parametrize("steps", [10**7, 10**9, 10**12, 10**16])
def test_many_steps_that_lose_almost_nothing_are_never_below_the_truth(steps: int) -> None:
    """Of a whole order the moment of a sampled step is a sum; NumPy's log1p of complex numbers loses 1e-16 in each step."""
    rng, found = np.random.default_rng(steps % 1000), 0
    mpmath.mp.dps = 40
    while found < 20:
        order, q, total = int(rng.integers(2, 9)), 10 ** rng.uniform(-3, -0.5), 10 ** rng.uniform(-2, 0.5)
        mu = total / (q * math.sqrt(steps))
        if mu > 0.5:
            continue

        def exact(mu: float, q: float = q, order: int = order) -> mpmath.mpf:
            b, m = mpmath.mpf(q), mpmath.mpf(mu) ** 2 / 2
            a = 1 - b
            parts = (mpmath.binomial(order, k) * a ** (order - k) * b**k * mpmath.exp(m * k * (k - 1)) for k in range(order + 1))
            return mpmath.log(sum(parts)) / (order - 1)

        one = Composition((Repeated(PoissonRemove(q, mu), steps),))
        assert steps * exact(mu) <= renyi_divergence(one, order) <= steps * exact(mu) * (1 + 1e-5)
        if found < 4:
            mus, each = mu * np.linspace(0.7, 1.3, 60), steps // 60
            several = Family(PoissonRemove, Members.of(np.full(60, q), mus, np.full(60, float(each))))
            truth = each * sum(map(exact, mus))
            assert truth <= renyi_divergence(Composition((several,)), order) <= truth * (1 + 1e-3)
        found += 1


def test_conversions_are_rounded_up() -> None:
    """To the nearest number they were below the theorem in every second case."""
    rng = np.random.default_rng(5)
    mpmath.mp.dps = 40
    for _ in range(100):
        order, delta = 1 + 10 ** rng.uniform(-1.5, 2.5), 10 ** rng.uniform(-12, -2)
        law = Composition((Repeated(PoissonRemove(0.1, 10 ** rng.uniform(-2, 0)), int(rng.integers(1, 50))),))
        divergence, a = mpmath.mpf(renyi_divergence(law, order)), mpmath.mpf(order)
        classical = divergence - mpmath.log(delta) / (a - 1)
        sharper = classical + mpmath.log(1 - 1 / a) - mpmath.log(a) / (a - 1)
        for exact, which in ((classical, True), (sharper, False)):
            found = RenyiDP((law,), classical=which, orders=(order,))
            assert exact <= found.epsilon(delta).upper <= max(exact, 0) * (1 + 1e-12) + 1e-12
            least = mpmath.exp((a - 1) * (exact - found.epsilon(delta).upper)) * delta
            assert least <= found.delta(found.epsilon(delta).upper).upper


def test_the_order_of_directions_does_not_matter() -> None:
    """Whichever costs more counts."""
    some = tuple(Composition((Repeated(law(0.05, 1.0), 20),)) for law in (PoissonRemove, PoissonAdd))
    for kind in (RenyiDP, ExactComposition):
        assert kind(some).divergence(6.0) == kind(some[::-1]).divergence(6.0) == max(kind((one,)).divergence(6.0) for one in some)
    for directions in (some, some[::-1]):
        found = RenyiDP(directions, orders=(6.0,))
        worst = max((RenyiDP((one,), orders=(6.0,)) for one in some), key=lambda one: one.divergence(6.0))
        assert found.epsilon(1e-6) == worst.epsilon(1e-6)
        assert found.delta(2.0) == worst.delta(2.0)
