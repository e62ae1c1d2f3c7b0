"""What every plan follows from is checked once; the arguments of 0.1 give the same plans, with a warning."""

import math
import warnings

import numpy as np
import pytest

from dplateau.algorithms import Budget, Problem, plan_noisy_sgd, plan_phased_sgd, plan_snowball_sgd, solver_named, start_online_sgd
from dplateau.losses import Absolute, Hinge, Logistic, Softmax, Squared
from dplateau.planning import build
from dplateau.spec import AccuracyWarning, FullBatch, InputError, Run


def test_what_follows_from_a_problem():
    problem = Problem(100, 3, Softmax(4), feature_norm=2.0, l2=(0.1, 0.3, 0.0))
    assert (problem.weights, problem.largest_l2, problem.distance) == (12, 0.3, 50.0)
    assert problem.clip == pytest.approx(math.sqrt(2) / 2)
    assert problem.smoothness == pytest.approx(4 / 2 + 0.3)
    assert problem.contraction() == (pytest.approx(2 * math.sqrt(2) * 1.001), problem.smoothness)  # clipping could spoil convexity
    assert Problem(100, 3, Logistic()).contraction()[0] == 0.5
    assert Problem(100, 3, Softmax(4), residual_clip=0.2).contraction()[0] == 0.2
    assert Problem(100, 3, Squared()).clip == 0.5  # residuals have no bound
    assert Problem(100, 2, Logistic(), l2=[0.0, 1]) == Problem(100, 2, Logistic(), l2=(0.0, 1.0))
    assert Problem(100, 2, Logistic(), l2=np.array([0.0, 1])) == Problem(100, 2, Logistic(), l2=(0.0, 1.0))


def test_what_follows_from_a_budget():
    budget = Budget(1.0, 1e-5)
    run = budget.calibrated(Run(n=1, sampling=FullBatch(), steps=1, noise_multiplier=1.0))
    assert run.noise_multiplier == budget.least_multiplier
    assert budget.mu * budget.least_multiplier == pytest.approx(1, rel=1e-15)
    assert Budget(1.0, 1e-5, "replace").mu == pytest.approx(budget.mu)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"d": 2.5}, "d is 2.5"),
        ({"feature_norm": math.inf}, "feature_norm is inf"),
        ({"l2": -0.1}, "l2 is -0.1"),
        ({"l2": (0.1, -1.0)}, "l2 is -1"),
        ({"l2": (0.1,)}, "l2 has 1 entries for 2 features"),
        ({"residual_clip": 0.0}, "residual_clip is 0"),
    ],
)
def test_an_impossible_problem_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Problem(**{"n": 10, "d": 2, "loss": Logistic(), **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"delta": 1.0}, "delta is 1: expected a number in"),
        ({"delta": math.nan}, "delta is nan"),
        ({"adjacency": "swap"}, "adjacency is 'swap'"),
    ],
)
def test_an_impossible_budget_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Budget(**{"epsilon": 1.0, "delta": 1e-5, **fields})


def test_a_stream_has_no_l2_term_and_a_smooth_loss():
    with pytest.raises(InputError, match=r"l2 is 0\.1"):
        start_online_sgd(Problem(1, 2, Logistic(), l2=0.1), Budget(1.0, 1e-5))
    with pytest.raises(InputError, match="Hinge is not smooth"):
        start_online_sgd(Problem(1, 2, Hinge()), Budget(1.0, 1e-5))


BUDGET = Budget(1.0, 1e-5, "replace")
OLD = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace"}


def test_an_argument_that_0_1_asked_for_is_asked_for_still():
    with pytest.raises(TypeError, match="'d'"), pytest.warns(DeprecationWarning, match="Problem"):
        plan_snowball_sgd(9_000, Logistic(), **OLD)


def test_an_argument_of_0_1_without_a_name_is_not_lost():
    with pytest.raises(TypeError, match="takes 2 arguments"), pytest.warns(DeprecationWarning, match="Problem"):
        plan_noisy_sgd(500, Logistic(), 20, **OLD)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            lambda: plan_noisy_sgd(500, Logistic(), steps=20, l2=[0.1, 0.0], feature_norm=2.0, **OLD),
            lambda: plan_noisy_sgd(Problem(500, 2, Logistic(), 2.0, (0.1, 0.0)), BUDGET, steps=20),
        ),
        (
            lambda: plan_phased_sgd(9_000, Logistic(), d=3, diameter=2.0, residual_clip=0.3, **OLD),
            lambda: plan_phased_sgd(Problem(9_000, 3, Logistic(), residual_clip=0.3), BUDGET, diameter=2.0, batch_size=1),
        ),
        (
            lambda: plan_snowball_sgd(n=9_000, loss=Logistic(), d=3, **OLD),
            lambda: plan_snowball_sgd(Problem(9_000, 3, Logistic()), BUDGET, least_batch=1),
        ),
        (
            lambda: start_online_sgd(Logistic(), d=3, **OLD).step_run,
            lambda: start_online_sgd(Problem(1, 3, Logistic()), BUDGET).step_run,
        ),
        (
            lambda: build("phased-erm", 500, 3, Absolute(), **OLD),
            lambda: build("phased-erm", Problem(500, 3, Absolute()), BUDGET),
        ),
    ],
)
def test_the_arguments_of_0_1_give_the_same_plan_and_warn(old, new):
    with pytest.warns(DeprecationWarning, match="takes a Problem and a Budget"):
        before = old()
    assert repr(before) == repr(new())


@pytest.mark.parametrize("solver", ["noisy-sgd", "adp-sgd", "pnsgd", "phased-sgd"])
def test_a_plan_warns_where_noise_is_as_large_as_a_tenth_of_the_rows(solver):
    """1 / mu rows: 30.7 at epsilon 0.1 and delta 1e-5, so 308 are enough and 307 are not."""
    budget, made = Budget(0.1, 1e-5), solver_named(solver)
    with pytest.warns(AccuracyWarning, match="few rows for epsilon 0.1: there are 307, .* as large as 31 that agree"):
        made.plan(Problem(307, 2, Logistic()), budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.plan(Problem(309, 2, Logistic()), budget)
