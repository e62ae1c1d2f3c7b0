"""Three centres of a fixed-size step: no placement of them tells more than the pair, and two placements tell as much."""

import math

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.mechanism import compositions
from dplateau.analyses import ExactCompositionBound

EPSILONS = (0.0, 0.01, 0.1, 0.4, 1.0, 2.0)


class Plane:
    """Mixtures of normal laws in the plane, as masses of cells."""

    def __init__(self, q, mu):
        self.q, self.mu = q, mu
        self.x, self.y = np.meshgrid(np.linspace(-8 - 2 * mu, 8 + 2 * mu, 420), np.linspace(-8 - mu, 8 + mu, 360), indexing="ij")
        self.cell = (self.x[1, 0] - self.x[0, 0]) * (self.y[0, 1] - self.y[0, 0])

    def law(self, drawn, moved=(0, 0), undrawn=(0, 0)):
        """With rate q a step has the centre ``drawn`` (in units of mu), moved; otherwise it is ``undrawn``, which is moved too."""

        def normal(a, b):
            return np.exp(-((self.x - a) ** 2 + (self.y - b) ** 2) / 2)

        centre = self.mu * drawn[0] + moved[0], self.mu * drawn[1] + moved[1]
        return self.cell / (2 * math.pi) * ((1 - self.q) * normal(*undrawn) + self.q * normal(*centre))


def delta(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(("q", "mu"), [(0.1, 1.0), (0.5, 2.0), (0.02, 0.3), (0.9, 0.7)])
def test_no_three_centres_tell_more(q, mu):
    plane, rng = Plane(q, mu), np.random.default_rng(3)
    present_law, empty_law = PresentOrEmpty(q, mu), EmptyOrPresent(q, mu)
    worst = [[math.exp(float(law.log_delta(np.array(e)))) for e in EPSILONS] for law in (present_law, empty_law)]
    ratios = np.zeros((2, len(EPSILONS)))
    # The empty place at most 1 from the origin, the record at most 1 from it (so at most 2 from the origin).
    placements = [((1, 0), (2, 0)), ((1, 0), (0, 0)), ((-1, 0), (0, 0)), ((0, 0), (1, 0)), ((1, 0), (1, 1)), ((1, 0), (0.5, 0.8))]
    for _ in range(8):
        radius, first, second = rng.uniform(), *rng.uniform(0, 2 * math.pi, 2)
        place = radius * math.cos(first), radius * math.sin(first)
        step = rng.uniform()
        placements.append((place, (place[0] + step * math.cos(second), place[1] + step * math.sin(second))))
    for place, record in placements:
        present, empty = plane.law(record), plane.law(place)
        for k, (p, other) in enumerate(((present, empty), (empty, present))):
            found = np.array([delta(p, other, e) for e in EPSILONS])
            assert (found <= np.array(worst[k]) * (1 + 2e-3) + 1e-12).all(), (place, record)
            ratios[k] = np.maximum(ratios[k], found / np.maximum(worst[k], 1e-300))
    # Both are reached, up to the cells of the plane.
    assert (ratios[np.array(worst) > 1e-5] > 0.99).all()


@pytest.mark.parametrize(("q", "mu", "shift"), [(0.1, 1.0, 0.3), (0.5, 0.5, 1.0), (0.02, 2.0, 0.1), (0.8, 0.7, 0.5)])
def test_no_three_centres_tell_more_where_one_side_is_shifted(q, mu, shift):
    """All centres of one data set are moved by up to the shift, each in a direction of its own."""
    plane, rng = Plane(q, mu), np.random.default_rng(5)
    laws = PresentOrEmpty(q, mu, shift), EmptyOrPresent(q, mu, shift)
    worst = np.array([[math.exp(float(law.log_delta(np.array(e)))) for e in EPSILONS] for law in laws])
    reached = np.zeros(2)
    right, left = (shift, 0), (-shift, 0)
    placements = [
        ((1, 0), (2, 0), right, right),
        ((1, 0), (2, 0), left, left),
        ((1, 0), (0, 0), right, right),
        ((0, 0), (1, 0), right, right),
    ]
    for _ in range(12):
        radius, first, second = rng.uniform(), *rng.uniform(0, 2 * math.pi, 2)
        place = radius * math.cos(first), radius * math.sin(first)
        step = rng.uniform()
        record = place[0] + step * math.cos(second), place[1] + step * math.sin(second)
        moves = [
            (shift * r * math.cos(a), shift * r * math.sin(a))
            for r, a in zip(rng.uniform(0.5, 1, 2), rng.uniform(0, 7, 2), strict=True)
        ]
        placements.append((place, record, *moves))
    for place, record, drawn, undrawn in placements:
        # Either the data set with the record is the one that is shifted, or the other.
        for present, empty in (
            (plane.law(record, drawn, undrawn), plane.law(place)),
            (plane.law(record), plane.law(place, drawn, undrawn)),
        ):
            for k, (p, other) in enumerate(((present, empty), (empty, present))):
                found = np.array([delta(p, other, e) for e in EPSILONS])
                assert (found <= worst[k] * (1 + 2e-3) + 1e-12).all(), (place, record, drawn, undrawn)
                reached[k] = max(reached[k], found[-1] / max(worst[k][-1], 1e-300))
    # At a large epsilon both are reached, up to the cells of the plane.
    assert (reached[worst[:, -1] > 1e-6] > 0.99).all()


def test_a_smaller_pair_would_be_refuted():
    q, mu = 0.1, 1.0
    plane = Plane(q, mu)
    true = delta(plane.law((2, 0)), plane.law((1, 0)), 0.4), delta(plane.law((1, 0)), plane.law((0, 0)), 0.4)
    for law, found in zip((PresentOrEmpty, EmptyOrPresent), true, strict=True):
        assert math.exp(float(law(q, 0.97 * mu).log_delta(np.array(0.4)))) < found * 0.97


@pytest.mark.parametrize(
    ("n", "size", "steps", "noise", "replaced", "now"),
    [(10_000, 100, 1000, 1.5, 4.3567, 2.9374), (10_000, 100, 10_000, 4.0, 2.5616, 1.2187), (40, 1, 8000, 17.46, 1.0002, 0.4699)],
)
def test_half_the_epsilon_of_replacement(n, size, steps, noise, replaced, now):
    run = dp.Run(n=n, sampling=dp.FixedSize(size), steps=steps, noise_multiplier=noise)
    there = ExactCompositionBound().guarantee(run.replace(adjacency="replace")).epsilon(1e-5)
    here = ExactCompositionBound().guarantee(run).epsilon(1e-5)
    poisson = ExactCompositionBound().guarantee(run.replace(sampling=dp.Poisson(size))).epsilon(1e-5)
    assert there.upper == pytest.approx(replaced, abs=2e-4)
    assert here.upper == pytest.approx(now, abs=2e-4)
    assert poisson.upper < here.lower
    assert here.width < 1e-5


def test_one_step_and_full_batches():
    run = dp.Run(n=50, sampling=dp.FixedSize(50), steps=10, noise_multiplier=5.0)
    assert ExactCompositionBound().guarantee(run).mu == pytest.approx(math.sqrt(10) / 5.0)
    once = dp.Run(n=50, sampling=dp.FixedSize(5), steps=1, noise_multiplier=1.0)
    exact = ExactCompositionBound().guarantee(once).epsilon(1e-3)
    assert math.exp(float(PresentOrEmpty(0.1, 1.0).log_delta(np.array(exact.upper)))) == pytest.approx(1e-3, rel=1e-6)


@pytest.mark.parametrize("changing", ["noise_multiplier", "batch_size", "both"])
def test_many_levels_are_rounded_to_the_safe_side(changing):
    steps = 600
    noise = np.linspace(3, 4, steps).tolist() if changing != "batch_size" else 3.5
    sizes = [50 + t % 30 for t in range(steps)] if changing != "noise_multiplier" else 64
    run = dp.Run(n=10_000, sampling=dp.FixedSize(sizes), steps=steps, noise_multiplier=noise)
    (present, absent), rounded = compositions(run)
    assert rounded
    assert len(present.terms) == len(absent.terms) <= 49
    assert present.steps == steps
    between = ExactCompositionBound().guarantee(run).epsilon(1e-6)
    assert between.upper < (1.25 if changing == "both" else 1.15) * between.lower
    extremes = [
        ExactCompositionBound().guarantee(run.replace(sampling=dp.FixedSize(size), noise_multiplier=z)).epsilon(1e-6)
        for size, z in ((50, 4.0), (79, 3.0))
    ]
    assert extremes[0].lower < between.lower < between.upper < extremes[1].upper
