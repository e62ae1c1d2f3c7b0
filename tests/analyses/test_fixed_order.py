"""The bound for fixed orders against a plain, slow account of the same lemma, closed forms and published figures."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dplateau as dp
from dplateau.accounting import NotApplicable
from dplateau.accounting.taut_string import taut_string
from dplateau.algorithms.step_schedules import square_root_decay
from dplateau.analyses import FixedOrderBound, ShuffledBound
from dplateau.analyses.last_uses import ConstantSteps, VaryingSteps, is_constant, least, rounded_mu
from dplateau.analyses.requirements import contraction
from dplateau.training import checks

from .lemma import one_pass, random_passes


def run_of(**changes):
    settings = {
        "n": 60,
        "sampling": dp.Cyclic(15),
        "steps": 40,
        "noise_multiplier": 3.0,
        "step_size": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.1,
        "diameter": 4.0,
        "adjacency": "replace",
        "released": "last",
    }
    return dp.Run(**{**settings, **changes})


def mu(run):
    return FixedOrderBound().bound(run).guarantee.mu


@pytest.mark.parametrize("m", [0.0, 1e-9, 1e-4, 0.1])
def test_a_contraction_holds_for_rows_that_are_as_curved_as_training_takes(m):
    """It checks what a run states to a part in 10^12, and refuses what makes a step of 2/M expand."""
    curved = 1 + Fraction(checks._DOUBLE_ROUNDING)
    for share in (0.3, 0.9, 0.999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15, 1.0):
        run = dp.Run(n=9, sampling=dp.FullBatch(), steps=1, noise_multiplier=1.0, smoothness=0.7, strong_convexity=m, l2=m)
        step = 2 / 0.7 * share
        true = max(abs(1 - Fraction(step) * Fraction(m)), min(abs(1 - Fraction(step) * Fraction(0.7) * curved), 1))
        assert true - Fraction(1, 2**52) <= Fraction(float(contraction(run, step))) <= true + Fraction(1, 2**51)


@pytest.mark.parametrize("share", [1 + 1e-15, 1 + 1e-9, 1.2, 2.0])
def test_longer_steps_than_that_expand(share):
    run = dp.Run(n=9, sampling=dp.FullBatch(), steps=1, noise_multiplier=1.0, smoothness=0.5, strong_convexity=0.1)
    assert float(contraction(run, 4 * share)) >= 2 * share - 1 > 1


@pytest.mark.parametrize("step", [1e-3, 0.7, 30.0])
def test_losses_that_are_not_convex_expand_by_what_training_takes(step):
    run = dp.Run(n=9, sampling=dp.FullBatch(), steps=1, noise_multiplier=1.0, smoothness=0.7)
    true = 1 + Fraction(step) * Fraction(0.7) * (1 + Fraction(checks._DOUBLE_ROUNDING))
    assert true <= Fraction(float(contraction(run, step))) * (1 + Fraction(1, 2**51))


def slow_mu(run):
    """Every place of the record, every start, every step one by one."""
    scheme, steps = run.sampling, run.steps
    sizes = scheme.divisors(run.n)
    if isinstance(scheme, dp.FullBatch):
        length, held = 1, [run.n]
    elif isinstance(sizes, tuple):
        length, held = len(sizes), sizes
    else:
        length = steps if isinstance(scheme, dp.OnePass) else math.ceil(run.n / sizes)
        held = [min(sizes, run.n - k * sizes) if isinstance(scheme, dp.Cyclic) else sizes for k in range(length)]
    divisor = [sizes[t % length] if isinstance(sizes, tuple) else sizes for t in range(steps)]
    eta, z = (np.broadcast_to(np.asarray(part, dtype=float), (steps,)) for part in (run.step_size, run.noise_multiplier))
    c = [float(contraction(run, eta[t], least=held[t % length] / divisor[t])) for t in range(steps)]
    delta = 2.0 if run.adjacency == "replace" else 1.0
    gap = [eta[t] * delta * run.clip_norm / divisor[t] for t in range(steps)]
    noise = [(eta[t] * z[t] * run.clip_norm / divisor[t]) ** 2 for t in range(steps)]
    w = [math.prod(c[t + 1 :]) for t in range(steps)]
    far, moved = [0.0], [gap[t] + 2e-7 * math.sqrt(noise[t]) for t in range(steps)]
    for t in range(steps):
        far.append(min(c[t] * far[-1] + moved[t], run.diameter or math.inf))
    forgotten = sum(w[t] * far[t + 1] <= 1e-13 * min(gap[-1], math.sqrt(noise[-1])) for t in range(steps))
    worst = 0.0
    for place in range(min(length, steps)):
        best = math.inf
        for start in range(-1, steps):
            # Without a diameter a late start saves rounding only, which is little where steps do not contract.
            late = run.diameter is not None or run.strong_convexity > 0 or is_constant(run)
            if start not in (-1, forgotten - 1) and not (late and start % length == place):
                continue
            rise = [w[t] * gap[t] * (t % length == place) for t in range(start + 1, steps)]
            room = [w[t] ** 2 * noise[t] for t in range(start + 1, steps)]
            if start >= 0:
                rise, room = [w[start] * far[start + 1], *rise], [0.0, *room]
            best = min(best, math.sqrt(taut_string(np.array(rise), np.array(room))) + 2e-7 * math.sqrt(steps - 1 - start))
        worst = max(worst, best)
    return worst


def test_of_few_look_backs_all_are_tried():
    """The best is the fifth of six, and its neighbours are worse than the second."""
    sizes = [1.5, 1, 1, 1, 1, 1.5, 1.75, 1, 1, 1, 0.5, *[1.0] * 15]
    run = run_of(n=10, sampling=dp.Cyclic(2), steps=26, noise_multiplier=1.0, step_size=sizes, strong_convexity=0.0, diameter=1.0)
    run = run.replace(adjacency="add-remove")
    assert mu(run) == pytest.approx(slow_mu(run), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_agrees_with_the_slow_account(data):
    draw = data.draw
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    kind = draw(st.sampled_from(["cyclic", "ragged", "sizes", "full", "one-pass"]))
    n, steps = batch * length, draw(st.integers(1, 30))
    scheme = {
        "cyclic": lambda: dp.Cyclic(batch),
        "ragged": lambda: dp.Cyclic(batch),
        "sizes": lambda: dp.Cyclic([batch + k % 2 for k in range(length)]),
        "full": dp.FullBatch,
        "one-pass": lambda: dp.OnePass(batch),
    }[kind]()
    if kind == "ragged":
        n = max(n - batch // 2, batch)
    if kind == "sizes":
        n = sum(scheme.batch_size)
    if kind == "one-pass":
        steps = min(steps, length)
    positive = st.floats(0.05, 1.9)
    run = run_of(
        n=n,
        sampling=scheme,
        steps=steps,
        noise_multiplier=draw(st.one_of(st.floats(0.5, 5.0), st.lists(st.floats(0.5, 5.0), min_size=steps, max_size=steps))),
        step_size=draw(st.one_of(positive, st.lists(positive, min_size=steps, max_size=steps))),
        strong_convexity=draw(st.sampled_from([0.0, 0.01, 0.5, 1.0])),
        diameter=draw(st.sampled_from([None, 0.1, 1.0, 10.0])),
        adjacency=draw(st.sampled_from(["replace", "add-remove"])),
    )
    exact = slow_mu(run)
    assert exact * (1 - 1e-9) <= mu(run) <= exact * (1 + 3e-9)


def test_published_figures():
    cyclic = ConstantSteps(contraction=0.9999, gap=2 / 3, variance=1.0, diameter=math.inf, length=40, steps=2000)
    assert cyclic.cost(np.asarray(0.0), np.asarray(40.0), 50) == pytest.approx(float(rounded_mu(0.99249**2, 2000)), abs=5e-6)
    bounded = ConstantSteps(contraction=1.0, gap=0.2, variance=1.0, diameter=10.0, length=20, steps=8000)
    assert bounded.cost(np.asarray(0.0), np.asarray(20.0), 400) == pytest.approx(0.6576, abs=5e-5)


@pytest.mark.parametrize(
    ("epochs", "composed", "nearly", "more"), [(50, 30.5, 4.34, 4.32), (100, 49.9, 5.60, 5.51), (200, 83.8, 7.58, 7.09)]
)
def test_logistic_regression_of_bok_su_altschuler(epochs, composed, nearly, more):
    """40 batches an epoch, a jump of 2/3 of the noise, contraction .9999 and .9998, delta 1e-5."""
    run = run_of(n=60_000, sampling=dp.Cyclic(1500), steps=40 * epochs, diameter=None, step_size=0.05, smoothness=0.25)
    assert dp.account(run.replace(released="all"), 1e-5).epsilon == pytest.approx(composed, abs=0.05)
    for curvature, published in ((0.002, nearly), (0.004, more)):
        assert dp.account(run.replace(strong_convexity=curvature), 1e-5).epsilon == pytest.approx(published, abs=0.005)


def test_one_pass_is_the_formula_of_feldman_koren_talwar():
    sizes, eta, z = random_passes()
    run = run_of(**one_pass(sizes, eta, z))
    sigma = z / sizes
    later = np.cumsum((eta * sigma)[::-1] ** 2)[::-1]
    assert mu(run) == pytest.approx(float((2 * eta / (sizes * np.sqrt(later))).max()), abs=2e-6)


def test_the_bound_stops_growing():
    short, long, longer = (mu(run_of(steps=4 * epochs, strong_convexity=0.0)) for epochs in (5, 10_000, 1_000_000))
    assert short < long
    assert longer <= long * 1.001
    assert mu(run_of(steps=4_000_000, strong_convexity=0.0, diameter=None)) > 100 * short


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"released": "all"}, 'Set released="last"'),
        ({"update": "post-processed"}, "not a plain gradient step"),
        ({"strong_convexity": None}, "State strong_convexity"),
        ({"smoothness": None, "strong_convexity": 0.0}, "smoothness is not stated"),
        ({"step_size": 2.1}, "exceeds 2/smoothness = 2:"),
        ({"step_size": 4.1, "smoothness": 0.5, "strong_convexity": 0.0}, "exceeds 2/smoothness = 4:"),
        ({"sampling": dp.Poisson(15)}, "sampling Cyclic, OnePass, FullBatch"),
    ],
)
def test_what_is_missing_is_named(changes, message):
    bound = FixedOrderBound().bound(run_of(**changes))
    assert isinstance(bound, NotApplicable)
    assert message in bound.why_not


@pytest.mark.parametrize("length", [1, 25])
def test_steps_that_are_forgotten_cost_nothing(length):
    # Contraction by 0.1 a step: after some hundred steps weights vanish in double precision.
    run = run_of(
        n=15 * length, sampling=dp.Cyclic(15) if length > 1 else dp.FullBatch(), steps=2000, step_size=0.95, strong_convexity=0.95
    )
    few = mu(run.replace(steps=4 * length + 100))
    assert mu(run) == pytest.approx(few, rel=1e-3)
    assert mu(run.replace(noise_multiplier=[3.0] * 2000)) == pytest.approx(mu(run), rel=1e-9)
    assert math.isfinite(mu(run.replace(noise_multiplier=[3.0] * 2000, diameter=None)))


def test_the_search_finds_the_least_of_a_unimodal_cost():
    for target in (0, 1, 17, 500, 998, 999):
        best, place = least(lambda backs, target=target: np.abs(np.log1p(backs) - math.log1p(target)) + 1.0, 1000, 8)
        assert (float(best), place) == (1.0, target)
    assert least(lambda backs: backs * 1.0, 0)[0] == math.inf


def test_in_short_runs_every_look_back_is_tried() -> None:
    """With steps that vary, the cost has several minima: a search on a grid missed the least by up to 6 per cent in mu."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        steps = int(rng.integers(9, 60))
        eta = 10 ** rng.uniform(-1.5, 1.5, steps)
        some = VaryingSteps(
            eta * rng.uniform(0.01, 1), (eta * 10 ** rng.uniform(-0.5, 0.5, steps)) ** 2, np.full(steps, 10.0), 0.0, late=True
        )
        uses = np.arange(steps)
        square = taut_string(np.append(0.0, some.jump), np.append(0.0, some.room))
        start = float(rounded_mu(square, steps))
        assert some.cost(uses, some.jump) == min(start, float(some.from_afar(uses, some.jump)(uses).min()))


@pytest.mark.parametrize("loud", [1e6, 1e8, 1e12])
def test_quiet_steps_after_loud_ones(loud):
    """A last step that forgets where it began (all losses but the record's curve with ``step_size * smoothness`` 1) and has little
    noise: 1/z, whatever was before. Differences of sums over all steps lost its noise.
    """
    for z in np.linspace(0.5, 1.0, 7).tolist():
        run = run_of(
            sampling=dp.FullBatch(),
            steps=2,
            noise_multiplier=(loud, z),
            step_size=1.0,
            strong_convexity=0.0,
            adjacency="add-remove",
        )
        assert 1 / z <= mu(run) <= (1 + 1e-6) / z


def test_the_noise_after_a_loud_step():
    """The record of the first of three steps is told apart by a diameter at most, which the noise of the others hides."""
    for z in np.linspace(0.75, 1.0, 7).tolist():
        run = run_of(
            n=3, sampling=dp.OnePass(1), steps=3, noise_multiplier=(0.1, z, z), step_size=(1e9, 1.0, 1.0), smoothness=1e-9,
            strong_convexity=0.0, diameter=10.0, adjacency="add-remove",
        )  # fmt: skip
        assert mu(run) == pytest.approx(10 / (z * math.sqrt(2)), rel=1e-6)


def test_steps_that_fall_by_nine_orders_of_magnitude():
    """Every step is absorbed at once. The noise of the last ones was lost beside that of the first."""
    for steps in (3, 100, 400):
        run = run_of(
            sampling=dp.FullBatch(), steps=steps, noise_multiplier=10.0, step_size=square_root_decay(steps, 0.1, 1e-10),
            strong_convexity=0.0, diameter=None, adjacency="add-remove",
        )  # fmt: skip
        assert 0 <= mu(run) - math.sqrt(steps) / 10 <= 3e-7 * math.sqrt(steps)


@pytest.mark.parametrize("bound", [FixedOrderBound(), ShuffledBound()])
def test_a_diameter_that_is_tiny_beside_the_noise(bound):
    """Hardly anything is left of any step then: long runs with a smaller last batch ended in an AssertionError."""
    scheme = dp.Cyclic(15) if isinstance(bound, FixedOrderBound) else dp.Shuffled(15)
    for steps in (10, 10**6):
        epsilon = bound.bound(run_of(n=55, sampling=scheme, steps=steps, diameter=1e-20)).guarantee.epsilon(1e-5)
        alone = bound.bound(run_of(n=55, sampling=scheme, steps=4, diameter=1e-20)).guarantee.epsilon(1e-5)
        assert epsilon.upper == pytest.approx(alone.upper, rel=1e-6)


def test_a_smaller_last_batch_has_as_much_of_an_l2_term():
    """All steps are alike then, and need not be looked at one by one."""
    run = run_of(n=100, sampling=dp.Cyclic(15), steps=210, strong_convexity=0.1, l2=0.1)
    assert mu(run) == pytest.approx(slow_mu(run), rel=3e-9)
    assert mu(run.replace(steps=7 * 10**10)) == pytest.approx(mu(run.replace(steps=7 * 10**4)), rel=1e-9)
