"""How far moduli fall: bounds for one law and for all laws between two, against transforms at larger frequencies."""

# pyright: basic
from __future__ import annotations

import math

import numpy as np
import pytest

from dplateau.accounting import decay, family
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.family import Family, Members
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw

KINDS = (PoissonRemove, PoissonAdd, PoissonReplace, Amplified, PresentOrEmpty, EmptyOrPresent)
ALONE = (PresentOrEmpty, EmptyOrPresent)
"""In no family."""
FAR = np.concatenate([np.geomspace(1, 30, 40), [1.001, 1.02]])


def measured(law: StepLaw, c: float, omega: float) -> float:
    """The largest log |m(c + i w)/m(c)| at frequencies from omega on, less what the nodes may err by."""
    nodes = law.nodes(c, FAR[-3] * omega * 1.001, math.log(1e-13))
    value, error = nodes.excess(c, omega * FAR)
    whole = 1 + nodes.moments(c)[0]
    return float(np.log(np.maximum((np.abs(1 + value) - error) / whole - nodes.error, 1e-300)).max())


@pytest.mark.parametrize("kind", KINDS)
def test_no_modulus_is_above_its_bound(kind: type[StepLaw]) -> None:
    rng, used = np.random.default_rng(1), 0
    for _ in range(80):
        q, mu = float(10 ** rng.uniform(-4, -0.1)), float(10 ** rng.uniform(-1, 0.5))
        shift = float(10 ** rng.uniform(-3, 0)) if rng.random() < 0.5 else 0.0
        turned = 2 * mu if kind in ALONE else mu
        law, c, omega = kind(q, mu, shift), float(rng.uniform(0.03, 5) * min(10, 10 / turned**2)), float(10 ** rng.uniform(-1, 1.7))
        bound = law.tail(c, omega)
        assert bound >= measured(law, c, omega) - 1e-11, (law, c, omega)
        used += bound < 0
    # Of presence the positive losses count in full: where they are nearly all, nothing is known.
    assert used >= (50 if kind is PresentOrEmpty else 60)


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("rates", [1.0, 1.15])
def test_no_law_between_two_is_above_their_bound(kind: type[StepLaw], rates: float) -> None:
    rng, used = np.random.default_rng(2), 0
    for _ in range(50):
        q, mu, wide = float(10 ** rng.uniform(-3, -0.4)), float(10 ** rng.uniform(-1, 0.4)), float(rng.uniform(1, 1.2))
        c, omega = float(10 ** rng.uniform(-1, 1.3)), float(10 ** rng.uniform(-0.5, 1.5))
        bound = family._log_tail(kind(q, mu), kind(q * rates, mu * wide), c, omega)
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1), (rng.random(), rng.random())):
            assert bound >= measured(kind(q * rates**a, mu * wide**b), c, omega) - 1e-11, (q, mu, wide, c, omega, a, b)
        used += bound < 0
    assert used >= 40


@pytest.mark.parametrize("kind", [PoissonRemove, PoissonAdd])
def test_no_part_of_a_law_falls_further_than_it_does(kind: type[StepLaw]) -> None:
    """What a spread means: the tilted law times a weight below 1, which is most of it or next to nothing."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        q, mu, spread = float(10 ** rng.uniform(-3, -0.4)), float(10 ** rng.uniform(-1, 0.4)), float(10 ** rng.uniform(-1.5, 1))
        law, c, omega = kind(q, mu), float(10 ** rng.uniform(-1, 1.3)), float(10 ** rng.uniform(-0.5, 1.5))
        nodes = law.nodes(c, FAR[-3] * omega * 1.001, math.log(1e-14))
        mass = np.exp(nodes.log_p + c * nodes.loss)
        part = (1 + spread * np.exp(-mu * nodes.g + mu**2 / 2)) ** -1.5 * mass
        modulus = np.abs(np.exp(1j * np.multiply.outer(omega * FAR, nodes.loss)) @ part)
        fallen = (part.sum() - modulus.max()) / mass.sum()
        assert 0 < law.decay(c, omega, spread) <= fallen + 1e-11, (law, c, omega, spread)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_member_contains_its_share_of_the_law_beneath(kind: type[StepLaw]) -> None:
    """Densities of the loss under P, by differences of the mass above: the share is a lower bound of their quotients."""
    for q, mu, rates, wide in ((0.01, 0.5, 1.2, 1.1), (0.2, 1.0, 1.05, 1.3), (0.05, 2.0, 1.0, 1.05), (0.3, 0.3, 1.3, 1.0)):
        low, high = kind(q, mu), kind(q * rates, mu * wide)
        beneath, share, spread = low.beneath(high)
        loss = np.linspace(-0.9 * abs(math.log1p(-q)), 4 * q * math.expm1(2 * mu), 4_001)
        loss = np.sort(-loss) if kind is PoissonAdd else loss

        def density(law: StepLaw, loss: np.ndarray = loss) -> np.ndarray:
            return -np.diff(np.exp(law.log_above(loss))) * np.exp((loss[1:] + loss[:-1]) / 2)

        middle = (loss[1:] + loss[:-1]) / 2
        sign = -1 if kind is PoissonAdd else 1
        odds = np.expm1(sign * middle) / q + 1
        part = (1 + spread / odds) ** -1.5 if kind in (PoissonRemove, PoissonAdd) else np.ones(middle.size)
        plain = (np.abs(middle) > loss[1] - loss[0]) & (density(beneath) > 1e-12)
        for member in (low, high, kind(q, mu * wide), kind(q * rates, mu), kind(q * rates**0.5, mu * wide**0.5)):
            quotient = density(member)[plain] / (share * part * density(beneath))[plain]
            assert quotient.min() >= 1 - 2e-3, (member, quotient.min())


def test_a_family_falls_no_further_than_its_members() -> None:
    for kind in KINDS:
        rng = np.random.default_rng(3)
        mus, odds = 0.6 * np.exp(rng.uniform(0, 1.2, 150)), 0.05 * np.exp(rng.uniform(0, 0.8, 150))
        some = Family(kind, Members.of(odds / (1 + odds), mus, rng.integers(1, 9, 150)))
        one_by_one = sum(one.log_tail(1.5, 8.0) for one in some.repeated)
        exact = sum(one.count * measured(one.law, 1.5, 8.0) for one in some.repeated)
        assert exact <= one_by_one <= 0
        assert exact <= some.log_tail(1.5, 8.0) <= 0.25 * one_by_one


def test_a_path_that_the_quadrature_cannot_follow_shows_nothing() -> None:
    turned = decay.Turned(np.array([0.5, 0.5]), np.zeros(2), np.full((2, 2), -1.0), np.zeros((2, 2)))
    shown = decay.lost([turned], 1.0, np.array([5.0, -40.0]))
    assert shown == pytest.approx(-math.expm1(-1))
    assert decay.lost([turned], 1.0, np.array([5.0, math.inf])) == 0.0
