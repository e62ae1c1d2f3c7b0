"""The excess risk of the planner page: which theorem applies, and that risks are below it."""

import math

import numpy as np
import pytest

from dplateau.ui.noise import distance_of, found
from dplateau.ui.risk import _equal_steps, drift, excess_risk
from dplateau.ui.settings import Settings
from dplateau.utility import last_iterate_risk


def risk_of(settings):
    return excess_risk(settings, found(settings).run)


def test_which_risk_it_is():
    assert risk_of(Settings()).of == "rows"
    assert risk_of(Settings(sampling="poisson", epochs=10)).of == "rows"
    assert risk_of(Settings(sampling="cyclic", epochs=1)).of == "population"
    assert risk_of(Settings(sampling="shuffled", epochs=1)).of == "population"


def test_no_theorem_no_number():
    for settings, why in (
        (Settings(sampling="cyclic", epochs=2), "second epoch"),
        (Settings(sampling="shuffled", epochs=2), "second epoch"),
        (Settings(sampling="random-allocation", epochs=1), "under random allocation"),
        (Settings(convex=False), "not known to be convex"),
        (Settings(inside=True, shrunk=False, automatic=False, step=0.9, epochs=10_000), "longer than 1/smoothness"),
    ):
        risk = risk_of(settings)
        assert risk.bound is None
        assert not risk.says_something
        assert why in risk.why_not


def test_what_it_is_compared_with():
    assert risk_of(Settings(shrunk=False)).against == "radius"
    assert risk_of(Settings(shrunk=False, inside=True)).against == "all"
    assert risk_of(Settings(l2=0.01)).against == "all"
    assert risk_of(Settings(l2=0.01, ball=True, radius=20)).against == "all"  # sqrt(log 2/0.01) = 8.3
    assert risk_of(Settings(l2=0.01, ball=True, radius=5)).against == "radius"


def test_distances():
    assert distance_of(Settings(shrunk=False, radius=7)) == 7
    assert distance_of(Settings(l2=0.01)) == pytest.approx(math.sqrt(math.log(2) / 0.01))
    assert distance_of(Settings(l2=0.01, ball=True, radius=3)) == 3


def test_the_closed_form_is_above_the_sum():
    second, distance, slope = 1.5, 3.0, 1.2
    for count in (1, 10, 1000):
        for eta in (0.01, 1.0):
            least = math.inf
            for s in np.sqrt(eta * np.geomspace(1e-3, 1e7, 400)):
                total, spent = s, 0.0
                for _ in range(count):
                    spent += eta**2 * second / total**2
                    total += eta / total
                least = min(least, (distance**2 / total**2 + spent + s**2 * slope**2) / 2)
            assert least <= _equal_steps(count, eta, second, distance, slope) <= 1.3 * least
    exact = last_iterate_risk(np.full(1000, 0.1), second, distance, lipschitz=slope)
    assert exact <= _equal_steps(1000, 0.1, second, distance, slope) <= 1.2 * exact


def test_long_runs_have_bounds_as_well():
    for changes in ({}, {"shrunk": False}, {"shrunk": False, "inside": True}):
        shorter, longer = (risk_of(Settings(sampling="poisson", epochs=epochs, **changes)) for epochs in (250, 350))
        assert Settings(sampling="poisson", epochs=250).steps == 25_000
        assert shorter.bound is not None
        assert longer.bound is not None
        assert longer.bound < 3 * shorter.bound


def logistic(features, target, l2, weights):
    scores = features @ weights
    loss = np.logaddexp(0, scores) - target * scores
    return loss.mean() + l2 * weights @ weights / 2


@pytest.mark.parametrize("scheme", ["full", "poisson"])
@pytest.mark.parametrize("changes", [{"l2": 0.05}, {"shrunk": False, "ball": True, "radius": 3.0}])
def test_measured_risks_are_below_the_bound(scheme, changes):
    n, d = 400, 4
    settings = Settings(n=n, d=d, sampling=scheme, batch=40, epochs=30, epsilon=3.0, delta=1e-4, **changes)
    run = found(settings).run
    bound = excess_risk(settings, run).bound
    random = np.random.default_rng(3)
    features = random.normal(size=(n, d))
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    target = (features @ np.array([3.0, -1.0, 0.5, 0.0]) + random.normal(size=n) > 0).astype(float)
    l2, radius = settings.strong_convexity, settings.radius if settings.ball else math.inf
    size, eta, noise = settings.size, float(run.step_size), found(settings).noise

    def gradient(weights, used):
        residual = (1 / (1 + np.exp(-features @ weights)) - target) * used
        return residual @ features / size + l2 * weights

    def inside(weights):
        return weights * min(1.0, radius / max(np.linalg.norm(weights), 1e-300))

    best = np.zeros(d)
    for _ in range(4000):
        best = inside(best - 3.0 * (gradient(best, np.full(n, size / n))))
    risks = []
    for _ in range(40):
        weights = np.zeros(d)
        for _ in range(run.steps):
            used = np.ones(n) if scheme == "full" else random.random(n) < size / n
            weights = inside(weights - eta * (gradient(weights, used) + noise / size * random.normal(size=d)))
        risks.append(logistic(features, target, l2, weights) - logistic(features, target, l2, best))
    assert 0 < np.mean(risks) <= bound
    assert bound < 1000 * np.mean(risks)


def test_drift_is_the_deviation_of_pure_noise():
    random = np.random.default_rng(0)
    weights = np.zeros(20_000)
    for _ in range(30):
        weights = (1 - 0.5 * 0.2) * weights + 0.5 * 0.1 * random.normal(size=weights.size)
    assert drift(30, 0.5, 0.1, 0.2) == pytest.approx(weights.std(), rel=0.03)
    assert drift(9, 0.5, 0.1, 0.0) == pytest.approx(0.15)
