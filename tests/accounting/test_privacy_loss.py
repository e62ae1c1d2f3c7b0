# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import dplateau as dp
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.terms import Composition, Repeated, logarithm

from . import reference

KINDS = (PoissonRemove, PoissonAdd, PoissonReplace, Amplified, PresentOrEmpty, EmptyOrPresent)
PARAMETERS = ((0.01, 0.5), (0.9, 0.2), (0.5, 3.0))
LAWS = [kind(q, mu) for kind in KINDS for q, mu in PARAMETERS]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_transform_errs_by_no_more_than_claimed(law: StepLaw) -> None:
    points = [(0.3, 0.0), (2.5, 11.0)]
    with mp.workdps(24):
        for c, omega in points:
            nodes = law.nodes(c, 12.0, math.log(1e-16))
            value, rounding = nodes.excess(c, np.array([omega]))
            exact = reference.generating_function(law, mp.mpc(c, omega)) - 1
            largest = reference.generating_function(law, c)
            allowed = float(rounding[0]) + nodes.error * float(largest)
            assert nodes.error <= 4e-16 * (1 + 1e-12)
            assert float(abs(mp.mpmathify(complex(value[0])) - exact)) <= allowed, (c, omega)
            assert allowed < 1e-10 * float(largest)
            if omega == 0:
                moments = nodes.moments(c)
                assert moments[0] == pytest.approx(float(exact.real), rel=1e-9, abs=3e-16)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("c", [0.05, 1.0, 6.0])
def test_the_tail_is_a_bound_for_all_larger_frequencies(law: StepLaw, c: float) -> None:
    for omega in (0.5, 3.0, 12.0):
        bound = law.tail(c, omega)
        assert bound <= 0
        far = omega * np.concatenate([np.geomspace(1, 50, 60), [1.0, 1.0001]])
        nodes = law.nodes(c, 50 * omega, math.log(1e-14))
        value, error = nodes.excess(c, far)
        largest = 1 + nodes.moments(c)[0]
        measured = np.log(np.maximum((np.abs(1 + value) - error) / largest - nodes.error, 1e-300))
        assert (measured <= bound + 1e-12).all(), omega
    # Of presence the positive losses count in full: where they are nearly all, nothing is known.
    assert law.tail(c, 12.0) < 0 or (type(law) is PresentOrEmpty and c * law.mu > 10)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_one_step_is_the_hockey_stick_integral(law: StepLaw) -> None:
    with mp.workdps(30):
        for epsilon in (-0.7, 0.0, 0.003, 0.69, 5.0):
            exact = reference.step_delta(law, epsilon)
            found = float(law.log_delta(np.array(epsilon)))
            if exact < mp.mpf(10) ** -100:
                assert found < -100
            else:
                room = 1e-10 if exact > 1e-20 else 1e-3
                assert found == pytest.approx(float(mp.log(exact)), rel=0, abs=room), epsilon
                # What the reverse says follows from it: delta'(e) = 1 - e^e + e^e delta(-e).
                reverse = float(law.reverse.log_delta(np.array(-epsilon)))
                mirrored = 1 - mp.exp(-epsilon) + mp.exp(-mp.mpf(epsilon)) * exact
                assert math.exp(reverse) == pytest.approx(float(mirrored), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_above_is_minus_the_slope_of_delta(law: StepLaw) -> None:
    with mp.workdps(30):
        for epsilon in (-0.5, 0.004, 1.5):
            h = mp.mpf(10) ** -7
            y = mp.exp(mp.mpf(epsilon))
            slope = (reference.step_delta(law, mp.log(y + h)) - reference.step_delta(law, mp.log(y - h))) / (2 * h)
            assert math.exp(float(law.log_above(np.array(epsilon)))) == pytest.approx(float(-slope), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_reverses_and_greatest_losses(kind: type[StepLaw]) -> None:
    law = kind(0.2, 1.3)
    assert law.reverse.reverse == law
    if kind is PoissonAdd:
        assert law.greatest == pytest.approx(-math.log(0.8))
        assert float(law.log_delta(np.array(law.greatest + 1e-9))) == -math.inf
    else:
        assert law.greatest == math.inf
    with np.errstate(all="ignore"):
        assert not np.isnan(law.log_delta(np.linspace(-30, 30, 301))).any()


@pytest.mark.parametrize(("q", "mu"), PARAMETERS)
def test_amplified_is_the_double_conjugate_of_dong_roth_su(q: float, mu: float) -> None:
    """C_q(f) = min(f_q, f_q^-1)**, f_q = q f + (1 - q) Id; its delta is the largest gap to the line of slope -e^eps."""
    alpha = ndtr(np.linspace(-9, 9, 400_001))
    f = q * ndtr(-ndtri(alpha) - mu) + (1 - q) * (1 - alpha)
    law = Amplified(q, mu)
    for epsilon in (0.0, 0.01, 0.1, 0.7, 1.5):
        slope = math.exp(epsilon)
        conjugate = max(float((1 - f - slope * alpha).max()), float((1 - alpha - slope * f).max()))
        assert math.exp(float(law.log_delta(np.array(epsilon)))) == pytest.approx(conjugate, abs=1e-9)


@pytest.mark.parametrize(("q", "mu"), [(0.1, 1.0), (0.5, 2.0), (0.02, 0.3)])
def test_opposite_contributions_are_the_worst_for_replacement(q: float, mu: float) -> None:
    """Poisson, replace: no other pair of contributions of norm 1, at any angle in the plane, gives a larger delta."""
    x, y = np.meshgrid(np.linspace(-9, 9 + mu, 500), np.linspace(-9, 9, 500), indexing="ij")
    cell = (x[1, 0] - x[0, 0]) * (y[0, 1] - y[0, 0])

    def mixture(a: float, b: float) -> np.ndarray:
        normal = np.exp(-(x**2 + y**2) / 2)
        return cell / (2 * math.pi) * ((1 - q) * normal + q * np.exp(-((x - mu * a) ** 2 + (y - mu * b) ** 2) / 2))

    law = PoissonReplace(q, mu)
    first = mixture(1, 0)
    for epsilon in (0.0, 0.05, 0.4, 1.0, 2.0):
        worst = math.exp(float(law.log_delta(np.array(epsilon))))
        for radius, angle in ((1, 3.0), (1, 2.4), (1, 1.6), (1, 0.4), (0.5, math.pi), (0, 0)):
            second = mixture(radius * math.cos(angle), radius * math.sin(angle))
            for p, other in ((first, second), (second, first)):
                delta = float(np.maximum(p - math.exp(epsilon) * other, 0).sum())
                assert delta <= worst * (1 + 1e-3) + 1e-12, (epsilon, radius, angle)


def events(law: StepLaw, x: float) -> tuple[mp.mpf, ...]:
    """The densities of P and Q at h, and their masses of the event that h bounds; all digits."""
    q, mu = mp.mpf(law.q), mp.mpf(law.mu)
    centres = {PoissonRemove: (mu, 0), PoissonAdd: (0, mu), PoissonReplace: (mu, -mu), PresentOrEmpty: (2 * mu, mu)}[type(law)]
    h = mp.mpf(-x if isinstance(law, PoissonAdd) else x)
    sign = -1 if isinstance(law, PoissonAdd) else 1
    density = [(1 - q) * mp.npdf(h) + q * mp.npdf(h - centre) for centre in centres]
    return (*density, *((1 - q) * mp.ncdf(-sign * h) + q * mp.ncdf(sign * (centre - h)) for centre in centres))


@pytest.mark.parametrize("kind", [PoissonRemove, PoissonAdd, PoissonReplace, PresentOrEmpty])
@pytest.mark.parametrize("mu", [1e-2, 1e-5, 1e-9, 1e-13, 1e-17])
def test_the_closed_form_of_one_step_keeps_its_digits_however_small_it_is(kind: type[StepLaw], mu: float) -> None:
    """P(S) - e^epsilon Q(S) of the half-line at whose end the loss is epsilon."""
    for law in (kind(0.01, mu), kind(0.5, mu)):
        for h in (0.3, 2.0, 6.0):
            with mp.workdps(60):
                p, q, above_p, above_q = events(law, h)
                epsilon = float(mp.log(p / q))
                truth = above_p - mp.exp(mp.mpf(epsilon)) * above_q
                found, room = law.closed(epsilon)
                assert truth * (1 - mp.mpf(10) ** -13) <= found + room, (law, h)
                assert abs(found / truth - 1) < 1e-9, (law, h, found, truth)


@pytest.mark.parametrize("kind", [PoissonRemove, PoissonAdd, PoissonReplace])
def test_a_shifted_step_says_how_much_its_closed_form_may_have_lost(kind: type[StepLaw]) -> None:
    """P(S) - Q(S) of a half-line that is nearly the best one."""
    for mu in (1.0, 1e-6, 1e-12, 1e-16):
        law = kind(0.5, mu, mu)
        with mp.workdps(60):
            m, h = mp.mpf(mu), mp.mpf(mu) / 2 if kind is PoissonReplace else 3 * mp.mpf(mu) / 4
            moved = (mp.ncdf(m - h) + mp.ncdf(2 * m - h)) / 2
            away = (mp.ncdf(-h) + mp.ncdf(-m - h)) / 2 if kind is PoissonReplace else mp.ncdf(-h)
            least = moved - away
        found, room = law.closed(0.0)
        assert least <= found + room
        assert found <= least * 1.01 + 1e-14


@pytest.mark.parametrize("kind", KINDS)
def test_the_closed_form_of_a_step_with_hardly_any_noise_knows_losses_beyond_the_exponents_of_doubles(kind: type[StepLaw]) -> None:
    """exp(epsilon) overflows at 710; delta of a loss in the thousands is still nearly q."""
    law = kind(0.1, 100.0)
    found = np.exp(law.log_delta(np.array([700.0, 720.0, 4000.0, 30_000.0, 1e300])))
    bounded = kind in (PoissonAdd,)
    assert found[:3] == pytest.approx([0.0 if bounded else 0.1] * 3, abs=1e-12)
    assert not found[3:].any()
    assert np.exp(law.log_delta(np.array([-1.0, -800.0, -1e300])))[1:] == pytest.approx([1.0, 1.0])


def test_one_step_with_hardly_any_noise_is_not_cut_off() -> None:
    for sampling in (dp.Poisson(1000), dp.FixedSize(1000)):
        run = dp.Run(n=10_000, sampling=sampling, steps=1, noise_multiplier=0.01, adjacency="add-remove")
        assert dp.account(run, 1e-5).epsilon == pytest.approx(5369, abs=3)
        assert dp.account(run.replace(adjacency="replace"), 1e-5).epsilon > 5368


@pytest.mark.parametrize(
    ("law", "epsilon"),
    [
        (PoissonAdd(0.9999999996891281, 2.512604600239639), 18.97179739515606),
        (PoissonAdd(1 - 1e-12, 3.5), 26.5),
        (PoissonReplace(0.9951299400307478, 0.0002565918218490265), 0.017153021465916664),
        (PoissonReplace(0.12148621867237008, 0.0018199290577443387), 0.013238833570638875),
    ],
)
def test_the_closed_form_errs_by_no_more_than_it_says_near_rate_one_and_far_out(law: StepLaw, epsilon: float) -> None:
    value, room = law.closed(epsilon)
    with mp.workdps(700):
        q, mu, y = mp.mpf(law.q), mp.mpf(law.mu), mp.exp(mp.mpf(epsilon))
        if isinstance(law, PoissonAdd):
            h = (mp.log((1 / y - 1 + q) / q) + mu**2 / 2) / mu
            exact = mp.ncdf(h) - y * ((1 - q) * mp.ncdf(h) + q * mp.ncdf(h - mu))
        else:
            a, b = q * mp.exp(-(mu**2) / 2), (1 - q) * (1 - y)
            h = mp.log((mp.sqrt(b * b + 4 * a * a * y) - b) / (2 * a)) / mu
            drawn = mp.ncdf(mu - h) - y * mp.ncdf(-mu - h)
            exact = (1 - q) * (1 - y) * mp.ncdf(-h) + q * drawn
        assert abs(value - exact) <= room
    assert room < 1e-8 * value


@pytest.mark.parametrize(("q", "mu"), [(0.2784382030411704, 5.0), (0.4953286737293011, 2.5), (0.05, 1.0), (1 - 1e-9, 3.0)])
def test_the_closed_form_says_what_it_knows_next_to_the_greatest_loss(q: float, mu: float) -> None:
    law = PoissonAdd(q, mu)
    for share in (-3e-16, 0.0, 1e-16, 1e-15, 1e-10):
        epsilon = -math.log1p(-q) * (1 - share)
        value, room = law.closed(epsilon)
        with mp.workdps(350):
            y = mp.exp(mp.mpf(epsilon))
            odds = (1 / y - 1 + mp.mpf(q)) / q
            h = mp.log(odds) / mu + mp.mpf(mu) / 2 if odds > 0 else -mp.inf
            exact = mp.ncdf(h) - y * ((1 - mp.mpf(q)) * mp.ncdf(h) + q * mp.ncdf(h - mu))
            assert abs(value - exact) <= room, share


def test_one_step_whose_delta_hardly_falls_is_rounded_up() -> None:
    """Between the losses of an absent and of a drawn record delta is next to the rate."""
    q, mu = 0.5, 300.0
    delta = q * (1 - 1e-13)
    found = dp.accounting.ExactComposition((Composition((Repeated(PoissonRemove(q, mu), 1),)),)).epsilon(delta)
    with mp.workdps(60):

        def exact(epsilon: float) -> mp.mpf:
            return q * reference.gdp_delta(mu, mp.log((mp.exp(epsilon) - 1 + q) / q))

        assert exact(found.upper) <= delta <= exact(found.lower)


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_by_few_nodes_are_within_their_errors(kind: type[StepLaw]) -> None:
    """What the nodes may miss counts, beside what is rounded."""
    several, at = Repeated(kind(0.1, 0.8), 50), np.linspace(0.0, 6.0, 5)
    for c in (0.5, 4.0):
        truth, room = several.log_transform(c, at, math.log(1e-17))
        for tolerance in (1e-1, 1e-2, 1e-4, 1e-6):
            found, error = several.log_transform(c, at, math.log(tolerance))
            assert (np.abs(found.real - truth.real) <= error + room).all()
            assert (np.abs(np.expm1(1j * (found.imag - truth.imag))) <= error + room).all()


def test_logarithms_of_little_are_within_their_rounding() -> None:
    """However small an excess is, since many steps multiply what is lost; and near the zero of the transform."""
    rng = np.random.default_rng(0)
    size, phase = 10 ** rng.uniform(-18, 0.5, 500), rng.uniform(-math.pi, math.pi, 500)
    excess = np.append(size * np.exp(1j * phase), [0.0, -0.999, -1 + 1e-8j])
    found, error = logarithm(excess)
    with mp.workdps(50):
        exact = [mp.log(1 + mp.mpc(complex(x))) for x in excess]
        off = [max(abs(mp.mpf(a.real) - b.real), abs(mp.mpf(a.imag) - b.imag)) for a, b in zip(found.tolist(), exact, strict=True)]
    assert all(missed <= room for missed, room in zip(off, error.tolist(), strict=True))
    assert (error <= 1e-14 * np.minimum(np.abs(excess), 10.0) + 1e-16 * (np.abs(excess) > 0.1) * 50).all()
