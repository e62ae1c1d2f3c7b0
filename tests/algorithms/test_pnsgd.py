"""Plans of one noisy pass: certified exactly, with noise that cannot be less, and faithful to any sequences that are given."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dplateau._account import account
from dplateau.algorithms import Budget, plan_pnsgd
from dplateau.algorithms.pnsgd import best_time, tail_noise
from dplateau.analyses import FixedOrderBound
from dplateau.audit import examine
from dplateau.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError, OnePass, Run
from dplateau.training import SecureGenerator
from dplateau.training.loop import arithmetic_of
from dplateau.utility import last_iterate_risk

from .plans import planned

LOSSES = (Logistic(), Softmax(3), Squared(), Huber(), SmoothedHinge(1.0))


def plan(n=2_000, loss=None, **changes):
    return planned(plan_pnsgd, **{"n": n, "loss": loss or Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 10, **changes})


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_a_plan_is_certified_and_spends_what_it_may(loss, adjacency, l2):
    run = plan(loss=loss, adjacency=adjacency, l2=l2).run
    report = account(run, 1e-5)
    assert 0.9999 < report.epsilon <= 1.0
    assert report.best.name == "fixed-order"
    assert sum(run.sampling.batch_size) == run.n


def test_equal_arguments_give_equal_plans():
    assert plan() == plan()
    assert hash(plan()) == hash(plan())


def costs(step_sizes, sizes, z, moved=1.0):
    """mu of every record of convex steps, straight from Theorem 3.1 of Feldman, Koren, Talwar."""
    variance = (step_sizes * z / sizes) ** 2
    return moved * step_sizes / sizes / np.sqrt(np.cumsum(variance[::-1])[::-1])


schedules = st.integers(1, 12).flatmap(
    lambda steps: st.tuples(
        st.lists(st.floats(0.01, 1.0), min_size=steps, max_size=steps), st.lists(st.integers(1, 9), min_size=steps, max_size=steps)
    )
)


@settings(max_examples=60, deadline=None)
@given(schedules)
def test_no_noise_is_less_in_any_tail(schedule):
    """A linear programme over the variances, for every tail, finds nothing below what the closed form gives."""
    eta, sizes = (np.array(part, dtype=float) for part in schedule)
    steps = len(eta)
    z = tail_noise(eta, sizes)
    assert costs(eta, sizes, z).max() <= 1 + 1e-9
    variance = (eta * z / sizes) ** 2
    needed = (eta / sizes) ** 2
    tails = np.triu(np.ones((steps, steps)))
    for start in range(steps):
        least = linprog((np.arange(steps) >= start).astype(float), A_ub=-tails, b_ub=-needed, bounds=(0, None), method="highs")
        assert least.fun * (1 - 1e-9) <= variance[start:].sum() <= least.fun + 4e-4 * needed.max() * steps


def test_the_noise_of_contracting_steps_costs_what_the_string_says():
    eta = np.linspace(1.0, 0.1, 40)
    z = tail_noise(eta, np.full(40, 5.0), 0.3)
    run = Run(
        n=200,
        sampling=OnePass(5),
        steps=40,
        noise_multiplier=tuple(4 * z),
        step_size=tuple(eta),
        smoothness=1.0,
        strong_convexity=0.3,
        released="last",
    )
    assert account(run, 1e-3).mu == pytest.approx(0.25, rel=1e-4)


def test_the_least_noise_does_not_depend_on_the_unit_of_the_steps():
    """The squares of such steps are no numbers."""
    eta, sizes = np.arange(30.0, 0, -1), np.full(30, 7.0)
    for unit in (2.0**-900, 2.0**900):
        np.testing.assert_array_equal(tail_noise(unit * eta, sizes), tail_noise(eta, sizes))


@pytest.mark.parametrize("l2", [1e-4, 1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("n", [1_000, 20_000])
def test_steps_whose_records_are_forgotten_need_no_noise(n, l2):
    """Contraction hides them; noise that had to outlive it grew with it, up to 1e80 clip norms, and no fit could take it."""
    planned = plan(n, l2=l2)
    z = np.array(planned.run.noise_multiplier)
    assert z.max() == z[-1] < 5
    arithmetic_of(planned.run, planned.loss, np.array([l2]), 0.0, np.zeros(10))


def test_one_pass_learns_with_an_l2_term():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(4_000, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = (rows @ [3.0, -2.0, 1.0] > 0).astype(float)
    weights = plan(4_000, d=3, l2=0.05, epsilon=10.0).fit(rows, target).weights
    assert np.mean((rows @ weights > 0) == target) > 0.95


def test_given_sequences_are_what_runs():
    sizes, eta, z = [5, 10, 20], [0.5, 0.2, 0.1], [1.0, 2.0, 4.0]
    run = plan(40, batch_size=sizes, step_size=eta, noise_multiplier=z, delta=1e-3).run
    assert run.sampling.batch_size == tuple(sizes)
    assert run.step_size == tuple(eta)
    scale = np.array(run.noise_multiplier) / z
    assert scale == pytest.approx([scale[0]] * 3)
    assert costs(np.array(eta), np.array(sizes), np.array(run.noise_multiplier)).max() == pytest.approx(
        Budget(1.0, 1e-3).mu, rel=1e-5
    )


@pytest.mark.parametrize("batch_size", [None, 3, 6])
def test_the_exact_law_of_a_planned_pass_does_not_refute_what_it_is_certified_for(batch_size):
    run = plan(24, d=1, delta=1e-3, batch_size=batch_size).run.replace(diameter=40.0)
    (verdict,) = examine(run, [FixedOrderBound()]).verdicts
    assert verdict.broken is None
    assert verdict.tightness > 0.4  # and the search did find something


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 3_000}, "batch_size 3000 exceeds n = 2000"),
        ({"batch_size": [1_000, 1_001]}, "one pass needs 2001 records"),
        ({"batch_size": [10, 10], "step_size": [0.1]}, "step_size has 1 entries but the run has 2 steps"),
        ({"batch_size": [10, 10], "noise_multiplier": [1.0]}, "noise_multiplier"),
        ({"batch_size": []}, "batch_size has no entry"),
        ({"batch_size": np.array(3)}, "batch_size is array"),
        ({"step_size": [0.1, -0.1]}, r"step_size\[1\] is -0.1"),
        ({"step_size": 9.0}, "step_size 9 exceeds 2/smoothness"),
        ({"n": 0}, "n is 0"),
        ({"d": 0}, "d is 0"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"feature_norm": -1.0}, "feature_norm"),
        ({"distance": 0.0}, "distance"),
        ({"l2": -0.1}, "l2"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        plan(**changes)


def test_arrays_are_taken_as_lists_are():
    given: dict[str, list[float]] = {"batch_size": [10, 20], "step_size": [0.2, 0.1], "noise_multiplier": [1.0, 2.0]}
    expected = plan(30, **given).run
    assert plan(30, **{name: np.array(value) for name, value in given.items()}).run == expected
    assert plan(30, **given | {"noise_multiplier": np.float32(1.0)}).run == plan(30, **given | {"noise_multiplier": 1.0}).run


def test_the_first_step_is_where_the_proved_bound_is_least():
    """Half and twice the time are worse, by the bound that holds for any steps."""
    n, d, mu, distance, lipschitz = 4_000, 40, 0.25, 8.0, 1.0
    best = best_time(n, mu, distance=distance, lipschitz=lipschitz, weights=d, adjacency="replace")

    def bound(time):
        eta = time / n * np.arange(n, 0, -1) / n
        z = tail_noise(eta, np.ones(n)) * 2 / mu
        return last_iterate_risk(eta, lipschitz**2 + d * (z * lipschitz) ** 2, distance, lipschitz=lipschitz)

    assert bound(best) < min(bound(best / 3), bound(3 * best))
    assert bound(best) < 1.05 * min(bound(best * factor) for factor in np.geomspace(0.2, 5, 15))


def test_it_learns_as_much_as_it_should():
    """At a generous epsilon one pass finds the direction of a simple rule; without any signal it finds nothing."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 10))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-9)
    target = (rows[:, 0] > 0).astype(int)
    made = plan(20_000, epsilon=4.0)
    weights = made.fit(rows, target, generator=SecureGenerator(insecure_seed=0)).weights
    assert weights[0] / np.linalg.norm(weights) > 0.97
    mixed = made.fit(rows, rng.integers(0, 2, 20_000), generator=SecureGenerator(insecure_seed=0)).weights
    assert np.linalg.norm(mixed) < 0.2 * np.linalg.norm(weights)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 10.0])
def test_a_loss_that_must_not_be_clipped_is_not_whatever_the_noise(epsilon):
    """Rows of the full norm, many weights, much noise: the rounding margin must leave the largest gradient alone."""
    rows = np.zeros((600, 500))
    rows[:, 0] = 1.0
    made = plan(600, loss=Softmax(10), d=500, epsilon=epsilon)
    assert np.isfinite(made.fit(rows, np.arange(600) % 10, generator=SecureGenerator(insecure_seed=0)).weights).all()


def test_the_noise_of_the_last_iterate_has_the_variance_that_the_schedule_adds_up_to():
    made = plan(4_000, d=400, loss=SmoothedHinge(1.0), distance=1.0)
    run = made.run
    weights = made.fit(np.zeros((4_000, 400)), np.zeros(4_000), generator=SecureGenerator(insecure_seed=3)).weights
    eta, z, b = (np.array(part, dtype=float) for part in (run.step_size, run.noise_multiplier, run.sampling.batch_size))
    expected = math.sqrt(np.sum((eta * z * run.clip_norm / b) ** 2))
    assert abs(np.std(weights) / expected - 1) < 5 / math.sqrt(800)
    # What the tails add up to is what one release of the first record's whole step would need.
    assert expected == pytest.approx(eta[0] / b[0] * run.clip_norm / Budget(1.0, 1e-5).mu, rel=1e-3)
