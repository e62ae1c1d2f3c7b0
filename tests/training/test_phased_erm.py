"""Phased-ERM: certificates against independent solvers, sensitivity by search, phases against a slow reference."""

import math
import traceback
from fractions import Fraction

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

from dplateau.losses import Absolute, CornerLoss, Hinge, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError, OnePass, Run
from dplateau.training import SecureGenerator, TrainingDiverged, TrainingInterrupted, corner_erm, regularised_erm
from dplateau.training.corner_erm import corner_minimiser
from dplateau.training.phased_erm import phase_setting, train_phased_erm
from dplateau.training.phases import phases_of
from dplateau.training.regularised_erm import Problem, smooth_minimiser

CORNERS = (Hinge(), Absolute())
SMOOTH = (Logistic(), Huber(0.3), SmoothedHinge(0.5), Softmax(3))
LOSSES = (*CORNERS, *SMOOTH)
names = [type(loss).__name__ for loss in LOSSES]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def problem(loss, n=40, d=3, strength=0.05, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True)) * (1 + 1e-12)
    target = rng.normal(size=n) if isinstance(loss, Absolute | Huber) else rng.integers(0, loss.outputs + 1, n) % 3 % 2 * 1.0
    if isinstance(loss, Softmax):
        target = rng.integers(0, 3, n).astype(float)
    centre = rng.normal(size=(d,) if loss.outputs == 1 else (d, loss.outputs))
    return Problem(rows, np.linalg.norm(rows, axis=1), target, centre, strength)


def solve(loss, one, distance):
    return (corner_minimiser if isinstance(loss, CornerLoss) else smooth_minimiser)(loss, one, distance)


def value(loss, one, weights):
    losses = np.asarray(loss.value(one.rows @ weights, one.target))
    return losses.mean() + one.strength * ((weights - one.centre) ** 2).sum() / 2


def corner_reference(loss, one):
    """Sequential quadratic programming on the primal, with a slack for each record."""
    n, d = one.rows.shape
    lower, upper, corner = loss.corners(one.target)

    def objective(x):
        shift = x[:d] - one.centre
        return x[d:].mean() + one.strength * shift @ shift / 2, np.concatenate([one.strength * shift, np.full(n, 1 / n)])

    sides = [np.hstack([-slope[:, None] * one.rows, np.eye(n)]) for slope in (lower, upper)]
    offsets = np.concatenate([lower * corner, upper * corner])
    matrix = np.vstack(sides)
    constraint = {"type": "ineq", "fun": lambda x: matrix @ x + offsets, "jac": lambda x: matrix}
    start = np.concatenate([one.centre, np.full(n, 10.0)])
    found = minimize(objective, start, jac=True, constraints=[constraint], method="SLSQP", options={"ftol": 1e-15, "maxiter": 500})
    return found.x[:d]


@pytest.mark.parametrize("strength", [0.02, 1.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", CORNERS, ids=names[:2])
def test_corner_losses_agree_with_quadratic_programming(loss, seed, strength):
    one = problem(loss, n=15, strength=strength, seed=seed)
    found = solve(loss, one, 1e-6)
    assert found.distance <= 1e-6
    reference = corner_reference(loss, one)
    assert np.linalg.norm(found.weights - reference) <= found.distance + 2e-6
    assert value(loss, one, found.weights) <= value(loss, one, reference) + 1e-10


@pytest.mark.parametrize("loss", SMOOTH, ids=names[2:])
def test_smooth_losses_agree_with_plain_gradient_descent(loss):
    one = problem(loss)
    found = solve(loss, one, 1e-8)
    assert found.distance <= 1e-8
    weights, step, residual_of = one.centre, 1 / (loss.smoothness(1.0) + one.strength), jax.jit(loss.residual)
    for _ in range(3000):
        residual = np.asarray(residual_of(one.rows @ weights, one.target))
        weights = weights - step * (one.rows.T @ residual / len(one.rows) + one.strength * (weights - one.centre))
    assert np.linalg.norm(found.weights - weights) <= found.distance + 1e-11


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_a_certificate_is_never_smaller_than_the_distance(loss):
    """Rough points, far from the minimiser, with what their certificates say."""
    one = problem(loss, n=60)
    best = solve(loss, one, 1e-6 if isinstance(loss, CornerLoss) else 1e-9).weights
    ratios = []
    for wanted in (1.0, 0.3, 0.03, 1e-3, 1e-4):
        rough = solve(loss, one, wanted)
        assert rough.distance <= wanted
        ratios.append(np.linalg.norm(rough.weights - best) / rough.distance)
    assert max(ratios) <= 1 + 1e-2


@pytest.mark.parametrize("loss", CORNERS, ids=names[:2])
def test_the_gap_of_any_slopes_bounds_the_distance(loss):
    one = problem(loss, n=60)
    best = solve(loss, one, 1e-6).weights - one.centre
    lower, upper, corner = loss.corners(one.target)
    dual = corner_erm.Dual(one.rows, one.norms, lower, upper, one.rows @ one.centre - corner, one.strength)
    rng, ratios = np.random.default_rng(0), []
    for _ in range(100):
        slopes = lower + rng.beta(0.2, 0.2, len(lower)) * (upper - lower)
        found = corner_erm.certified(dual, slopes)
        ratios.append(np.linalg.norm(found.weights - best) / found.distance)
    assert 0.1 < max(ratios) <= 1
    assert corner_erm.certified(dual, upper + 1e-9).distance == math.inf


def test_the_gap_of_a_record_at_its_corner_is_all_its_distance():
    """|1 + v| + v^2 / 2 is least at v = -1, and v(alpha) = -alpha has the gap (1 - alpha)^2: no smaller bound holds."""
    one = np.ones(1)
    for strength in (0.01, 1.0, 100.0):
        dual = corner_erm.Dual(one[:, None], one, -one, one, one / strength, strength)
        for slope in (-1.0, 0.0, 0.5, 0.999):
            found = corner_erm.certified(dual, slope * one)
            assert found.distance >= abs(found.weights[0] + 1 / strength)


@pytest.mark.parametrize("loss", CORNERS, ids=names[:2])
def test_coordinate_ascent_alone_gets_there_too(loss, monkeypatch):
    one = problem(loss)
    wanted = solve(loss, one, 1e-6)
    monkeypatch.setattr(corner_erm, "_INTERIOR", 0)
    found = solve(loss, one, 1e-6)
    assert found.distance <= 1e-6
    assert np.linalg.norm(found.weights - wanted.weights) <= 2e-6
    monkeypatch.setattr(corner_erm, "_SWEEPS", 0)
    with pytest.raises(TrainingDiverged, match="certified"):
        solve(loss, one, 1e-6)


@pytest.mark.parametrize("loss", SMOOTH[:2], ids=names[2:4])
def test_gradient_steps_alone_get_there_too(loss, monkeypatch):
    one = problem(loss)
    wanted = solve(loss, one, 1e-9)
    monkeypatch.setattr(regularised_erm, "minimize", lambda fun, x0, **options: type("Stopped", (), {"x": x0}))
    found = solve(loss, one, 1e-9)
    assert found.distance <= 1e-9
    assert np.linalg.norm(found.weights - wanted.weights) <= 2e-9


def test_what_rounding_cannot_certify_is_an_error():
    for loss in (Logistic(), Hinge()):
        with pytest.raises(TrainingDiverged, match="certified"):
            solve(loss, problem(loss, n=12), 1e-19)


def exact_gap(dual, slopes, shift):
    """The duality gap at stored floats, in rational numbers."""
    rows, _, lower, upper, offset, strength = dual
    v, x = [Fraction(one) for one in shift], [[Fraction(one) for one in row] for row in rows]
    gap = Fraction(0)
    for j, alpha in enumerate(map(Fraction, slopes)):
        u = Fraction(offset[j]) + sum(a * b for a, b in zip(x[j], v, strict=True))
        gap += (Fraction(upper[j]) - alpha) * max(u, 0) + (alpha - Fraction(lower[j])) * max(-u, 0)
    ideal = [
        -sum(Fraction(a) * row[k] for a, row in zip(slopes, x, strict=True)) / (len(x) * Fraction(strength)) for k in range(len(v))
    ]
    return gap / len(x) + Fraction(strength) * sum((a - b) ** 2 for a, b in zip(ideal, v, strict=True)) / 2


@pytest.mark.parametrize("loss", CORNERS, ids=names[:2])
def test_corner_certificates_hold_to_the_last_bit(loss, monkeypatch):
    """At the best slopes that can be found the gap is all rounding."""
    tried = []
    original = corner_erm.certified
    monkeypatch.setattr(corner_erm, "certified", lambda dual, slopes: tried.append((dual, slopes)) or original(dual, slopes))
    for seed in range(12):
        corner_minimiser(loss, problem(loss, n=12, seed=seed), 1e-6)
        dual, slopes = tried[-1]
        found = original(dual, slopes)
        assert Fraction(found.distance) ** 2 * Fraction(dual.strength) >= 2 * exact_gap(dual, slopes, found.weights)
    with_rounding = [one for one in tried if original(*one).distance < 1e-6]
    assert len(with_rounding) >= 12


@pytest.mark.parametrize("size", [1.0, 2.0**-30, 2.0**-300])
def test_smooth_certificates_hold_to_the_last_bit_whatever_the_unit_of_rows(size):
    for seed in range(12):
        one = problem(Logistic(), seed=seed)
        one = one._replace(rows=one.rows * size, norms=one.norms * size, centre=one.centre * size)
        found = solve(Logistic(), one, 1e-12 * size)
        rows, w, centre = (np.asarray(part, np.longdouble) for part in (one.rows, found.weights, one.centre))
        residual = 1 / (1 + np.exp(-rows @ w)) - one.target
        gradient = rows.T @ residual / len(rows) + np.longdouble(one.strength) * (w - centre)
        assert np.sqrt((gradient**2).sum()) <= found.distance * one.strength


def phased(sizes, steps, *, noise=1e-7, **changes):
    return Run(
        n=sum(sizes),
        sampling=OnePass(tuple(sizes)),
        steps=len(sizes),
        noise_multiplier=noise,
        step_size=tuple(steps),
        released="last",
        update="phased-erm",
        **{"strong_convexity": 0.0, **changes},
    )


def fit(run, loss, rows, target, **options):
    return train_phased_erm(run, loss, rows, target, generator=SecureGenerator(insecure_seed=0), **options).weights


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Logistic()], ids=lambda loss: type(loss).__name__)
def test_phases_follow_each_other(loss):
    one = problem(loss, n=30)
    run = phased([16, 9, 5], [2.0, 0.7, 0.3], l2=0.1, strong_convexity=0.1)
    weights, first = np.zeros(3), 0
    for size, eta in ((16, 2.0), (9, 0.7), (5, 0.3)):
        used, start = slice(first, first + size), weights

        def objective(w, used=used, start=start, eta=eta, size=size):
            losses = np.asarray(loss.value(one.rows[used] @ w, one.target[used]))
            return losses.mean() + ((w - start) ** 2).sum() / (eta * size) + 0.05 * w @ w

        options = {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 20_000, "maxfev": 20_000}
        for _ in range(3):
            weights = minimize(objective, weights, method="Nelder-Mead", options=options).x
        first += size
    found = fit(run, loss, one.rows, one.target, accuracy=1e-5)
    np.testing.assert_allclose(found, weights, atol=5e-6)
    assert np.linalg.norm(weights) > 0.05


@pytest.mark.parametrize("replace", [False, True])
def test_the_sensitivity_is_never_above_its_bound(replace):
    rng, most = np.random.default_rng(1), 0.0
    for trial in range(120):
        loss = (Hinge(), Absolute(), Logistic(), SmoothedHinge(0.1))[trial % 4]
        eta, accuracy, l2 = float(rng.choice([0.1, 1.0, 10.0])), float(rng.choice([1e-3, 0.3])), (0.0, 0.3)[trial % 2]
        run = phased([7], [eta], l2=l2, strong_convexity=l2)
        one = problem(loss, n=7, d=2, seed=trial)
        other, label = one.rows.copy(), one.target.copy()
        other[3] = -other[3] if replace else 0
        if replace and trial % 2:
            label[3] = 1 - label[3]
        distance = np.linalg.norm(
            fit(run, loss, one.rows, one.target, accuracy=accuracy) - fit(run, loss, other, label, accuracy=accuracy)
        )
        unit = 1 / (2 / eta + 7 * l2) * (1 + accuracy)
        most = max(most, distance / unit)
    assert 0.6 < most / (2 if replace else 1) <= 1 + 1e-6


@pytest.mark.parametrize("loss", CORNERS, ids=names[:2])
def test_the_sensitivity_is_reached(loss):
    rows, target = np.zeros((7, 2)), np.zeros(7)
    present, opposite = rows.copy(), rows.copy()
    present[0, 0], opposite[0, 0] = 1.0, -1.0
    target[0] = 100.0 if isinstance(loss, Absolute) else 1
    run = phased([7], [0.3])
    for other, factor in ((rows, 1), (opposite, 2)):
        distance = np.linalg.norm(fit(run, loss, present, target) - fit(run, loss, other, target))
        assert distance == pytest.approx(factor * 0.3 / 2, rel=1e-5)


def test_the_noise_has_the_scale_that_the_accuracy_asks_for():
    d = 20_000
    run = phased([20, 10], [0.5, 0.4], noise=3.0, clip_norm=0.7)
    weights = fit(run, Hinge(), np.zeros((30, d)), np.zeros(30), accuracy=0.5)
    wanted = math.hypot(*(3.0 * eta * 0.7 / 2 * 1.5 for eta in (0.5, 0.4)))
    for factor, accepted in ((1.0, True), (1.1, False), (0.9, False)):
        assert bool(abs(np.std(weights) / (factor * wanted) - 1) < 5 / math.sqrt(2 * d)) is accepted


def test_rounding_counts_as_inaccuracy():
    run = phased([20], [0.5], noise=1.0)
    setting = phase_setting(run, phases_of(run, "phased-erm")[0], np.zeros(3), 1e-3)
    inaccuracy = 1e-3 * 0.5 / 4
    assert 0.99 * inaccuracy < setting.distance < inaccuracy - setting.noise.margin(3) / 2
    assert setting.noise.deviation == pytest.approx(0.5 / 2 * 1.001)
    assert setting.strength == pytest.approx(2 / (0.5 * 20))


@pytest.mark.parametrize(("d", "place"), [(3, 1e6), (10**6, 0.0)])
def test_rounding_of_far_points_and_of_norms_counts_as_inaccuracy(d, place):
    """A point is rounded by so much when it is written down, and the norm of a row when it is computed."""
    run, start = phased([20], [0.5], noise=1.0), np.zeros(d)
    start[0], eps, moved = place, 2.0**-52, 0.5 / 2
    setting = phase_setting(run, phases_of(run, "phased-erm")[0], start, 1e-2)
    assert setting.distance + setting.noise.margin(d) / 2 + eps / 2 * (place + d * moved) <= 1e-2 * moved / 2


class Rough(Huber):
    """A loss with corners that nobody knows."""

    def smoothness(self, row_norm):
        return math.inf


def test_bad_input():
    one = problem(Hinge(), n=20)
    run = phased([16, 4], [0.5, 0.1])
    for loss, rows, target, changes, message in (
        ("hinge", one.rows, one.target, {}, "loss is str"),
        (Squared(), one.rows, one.target, {}, "too long"),
        (Logistic(), 2 * one.rows, one.target, {}, "too long"),
        (Logistic(), one.rows[:19], one.target[:19], {}, "rows"),
        (Hinge(), one.rows, one.target + 0.5, {}, "target"),
        (Absolute(), one.rows, np.full(20, 1e200), {}, "target"),
        (Rough(), one.rows, one.target, {}, "neither smooth nor a loss with one corner"),
        (Hinge(), np.full((20, 3), 1e200), one.target, {}, "longer than 1e154"),
        (Hinge(), one.rows, one.target, {"update": "phased-sgd", "smoothness": 1.0}, "update"),
        (Hinge(), one.rows, one.target, {"smoothness": 1.0}, "smoothness"),
        (Logistic(), one.rows, one.target, {"strong_convexity": 0.1}, "l2"),
        (Hinge(), one.rows, one.target, {"step_size": (0.5, 1e-13)}, "rounding"),
    ):
        with pytest.raises(InputError, match=message):
            fit(run.replace(noise_multiplier=1.0, **changes), loss, rows, target)
    for accuracy in (0.0, 1.5, math.nan):
        with pytest.raises(InputError, match="accuracy"):
            fit(run, Hinge(), one.rows, one.target, accuracy=accuracy)


def test_an_interrupt_releases_nothing_and_progress_counts_phases():
    one, seen = problem(Hinge(), n=20), []
    run = phased([16, 4], [0.5, 0.1], noise=1.0, diameter=1.0)
    weights = fit(run, Hinge(), one.rows, one.target, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert np.linalg.norm(weights) <= 0.5 * (1 + 1e-12)

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted) as caught:
        train_phased_erm(run, Hinge(), one.rows, one.target, progress=stop)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert caught.value.__context__ is None
    assert frames[-1].f_code.co_name == "uninterrupted"
    assert not {"weights", "mean", "found"} & {name for frame in frames[1:] for name in frame.f_locals}
