"""The limits of Bu, Dong, Long, Su 2020: what they say, and that none of them may certify."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import norm

import dplateau as dp
from dplateau.analyses import AsymmetricCLT, ExactCompositionBound, GaussianCLT
from dplateau.analyses.gdp_clt import clt_noise_multiplier

DELTA = 1e-5


def mnist(epochs: float, z: float = 1.0) -> dp.Run:
    return dp.Run(n=60_000, sampling=dp.Poisson(256), steps=round(epochs * 60_000 / 256), noise_multiplier=z)


def first_two_moments(q: float, z: float) -> tuple[float, float]:
    """kl + kl~ and kappa_2 of a sampled step, from the definition: f is that of N(0,1) against the mixture."""
    x = np.linspace(-14, 14 + 1 / z, 400_001)
    still = norm.pdf(x)
    loss = np.log(1 - q + q * np.exp(x / z - 1 / (2 * z * z)))  # log of mixture over N(0, 1)
    h = x[1] - x[0]
    one, other = -float(still @ loss) * h, float((still * np.exp(loss)) @ loss) * h
    return one + other, float(still @ loss**2) * h


@pytest.mark.parametrize(("z", "epochs"), [(1.3, 15), (0.7, 45)])
def test_the_asymmetric_limit_from_its_definition(z: float, epochs: float) -> None:
    run = mnist(epochs, z)
    drift, spread = first_two_moments(256 / 60_000, z)
    wanted = run.steps * drift / math.sqrt(run.steps * spread)
    assert AsymmetricCLT().guarantee(run).mu == pytest.approx(wanted, rel=2e-3)


def test_the_documented_values_of_the_asymmetric_limit() -> None:
    run = mnist(45, 0.7)
    limit = AsymmetricCLT().guarantee(run).epsilon(DELTA).upper
    assert limit == pytest.approx(5.03, abs=0.01)
    assert ExactCompositionBound().guarantee(run).epsilon(DELTA).lower > limit + 0.5
    row = next(row for row in dp.account(run, DELTA).bounds if row.name == "asymmetric-clt")
    assert row.status == "Asymptotic"
    assert dp.account(run, DELTA).best.name != row.name


def test_both_limits_are_approached() -> None:
    """q sqrt(T) fixed, T to infinity."""
    gaps = []
    for steps in (10**3, 10**5):
        run = dp.Run(n=10**7, sampling=dp.Poisson(0.5 / math.sqrt(steps) * 10**7), steps=steps, noise_multiplier=1.0)
        exact = ExactCompositionBound().guarantee(run).epsilon(1e-3).upper
        gaps.append([abs(one.guarantee(run).epsilon(1e-3).upper / exact - 1) for one in (GaussianCLT(), AsymmetricCLT())])
    for before, after in zip(*gaps, strict=True):
        assert after < 0.02
        assert after < before / 4


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("sampling", [dp.Poisson(100), dp.FixedSize(100)], ids=lambda one: one.kind)
@pytest.mark.parametrize("limit", [GaussianCLT(), AsymmetricCLT()], ids=lambda one: one.name)
def test_next_to_no_noise_is_no_error(limit, sampling, adjacency) -> None:
    """Moments exceed double precision there. The limits are then large, or infinite, and fall with the noise."""
    noise = [1e-5, 1e-3, 0.01, 0.02, 0.03, 0.05, 0.1]
    runs = [dp.Run(n=10_000, sampling=sampling, steps=1000, noise_multiplier=z, adjacency=adjacency) for z in noise]
    if limit.why_not(runs[0]):
        pytest.skip("the limit is not for this")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [limit.guarantee(run) for run in runs]
        assert all(0 < one.delta(1.0).upper <= 1 for one in found)
    if isinstance(limit, GaussianCLT):
        assert sorted((one.mu for one in found), reverse=True) == [one.mu for one in found]
        assert found[0].mu > 1e100
        assert found[0].delta(5.0).upper == 1


def test_a_schedule_is_the_sum_of_its_levels() -> None:
    z = np.linspace(0.8, 2.0, 100)
    run = mnist(1, 1.0).replace(steps=100, noise_multiplier=z)
    assert GaussianCLT().guarantee(run).mu == pytest.approx(256 / 60_000 * math.sqrt(np.expm1(z**-2.0).sum()), rel=1e-12)
    levels = AsymmetricCLT().guarantee(run).mu
    assert levels == pytest.approx(GaussianCLT().guarantee(run).mu, rel=0.05)


def test_the_fixed_size_limit() -> None:
    """mu^2 = q^2 T chi2 of the symmetrised step, by quadrature: 2 (e^(m^2) Phi(3m/2) + 3 Phi(-m/2) - 2), m = 2/z."""
    z, q = 2.5, 0.004
    m = 2 / z
    # Where N(m, 1) is likelier: the square of the excess ratio, for either half of the symmetric pair.
    x = np.linspace(m / 2, 14 + m, 400_001)
    ratio = np.exp(m * x - m * m / 2) - 1
    half = float((norm.pdf(x) * ratio**2).sum() * (x[1] - x[0]))
    run = dp.Run(n=1000, sampling=dp.FixedSize(4), steps=2500, noise_multiplier=z, adjacency="replace")
    mu = GaussianCLT().guarantee(run).mu
    assert mu == pytest.approx(q * 50 * math.sqrt(2 * half), rel=1e-4)
    # It is what exact composition approaches.
    many = dp.Run(n=10**6, sampling=dp.FixedSize(100), steps=10**6, noise_multiplier=z)
    for one in (many, many.replace(adjacency="replace")):
        exact = ExactCompositionBound().guarantee(one).epsilon(1e-3).upper
        assert GaussianCLT().guarantee(one).epsilon(1e-3).upper == pytest.approx(exact, rel=0.02)
    # The three centres of add-remove, by quadrature of both halves.
    m = 1 / z
    far, near = np.linspace(1.5 * m, 14 + m, 400_001), np.linspace(m / 2, 14 + m, 400_001)
    more = np.exp(2 * m * far - 2 * m * m) - np.exp(m * far - m * m / 2)
    less = np.exp(m * near - m * m / 2) - 1
    chi2 = sum(float((norm.pdf(x) * part**2).sum() * (x[1] - x[0])) for x, part in ((far, more), (near, less)))
    assert GaussianCLT().guarantee(run.replace(adjacency="add-remove")).mu == pytest.approx(q * 50 * math.sqrt(chi2), rel=1e-4)


@pytest.mark.parametrize(
    ("z", "epochs", "printed", "digits"),
    [(1.3, 20, 1.06, 2), (0.7, 70, 0.638, 3)],
)
def test_figure_4(z: float, epochs: float, printed: float, digits: int) -> None:
    """The noise that the limit asks for where the moments accountant gives an epsilon; and it is too little."""
    run = mnist(epochs, z)
    epsilon = next(row for row in dp.account(run, DELTA).bounds if row.name == "moments-accountant").epsilon.upper
    found = clt_noise_multiplier(run, epsilon, DELTA)
    assert found == pytest.approx(printed, abs=0.6 * 10**-digits)
    again = run.replace(noise_multiplier=found)
    assert GaussianCLT().guarantee(again).epsilon(DELTA).upper == pytest.approx(epsilon, rel=1e-9)
    assert dp.account(again, DELTA).epsilon > epsilon
    assert found < dp.calibrate(run, epsilon=epsilon, delta=DELTA).noise_multiplier < z


def test_what_the_limits_are_not_for() -> None:
    full = dp.Run(n=100, sampling=dp.FullBatch(), steps=3, noise_multiplier=9.0)
    assert "needs no limit" in (AsymmetricCLT().why_not(full) or "")
    assert "it is for sampling Poisson, FixedSize" in (GaussianCLT().why_not(full) or "")
    replace = dp.Run(n=100, sampling=dp.Poisson(5), steps=3, noise_multiplier=9.0, adjacency="replace")
    assert "add-remove" in (GaussianCLT().why_not(replace) or "")
    for run in (full, replace):
        with pytest.raises(dp.InputError, match="for Poisson sampling"):
            clt_noise_multiplier(run, 1.0, DELTA)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_limit_of_tiny_steps_is_a_multiple_of_the_inverse_noise(adjacency):
    """Differences of numbers near 1 have no digits there: their root was taken of less than zero."""
    mus = [
        GaussianCLT().guarantee(dp.Run(n=100, sampling=dp.FixedSize(50), steps=10**6, noise_multiplier=z, adjacency=adjacency)).mu
        * z
        for z in (3e3, 1e6, 1e12)
    ]
    assert mus == pytest.approx([mus[0]] * 3, rel=1e-3)
