"""Snowballs are those of the theorems, fill n records, and cost no more than the theorems say."""

import math

import numpy as np
import pytest

from dplateau._account import account
from dplateau.algorithms import Budget, Problem, plan_snowball_sgd
from dplateau.losses import Logistic, SmoothedHinge
from dplateau.spec import InputError
from dplateau.utility import snowball_batch_sizes

from .plans import planned

FACTORS = {"fixed": 2.0, "falling": 4 * math.sqrt(3), "strongly-convex": 2.0}


def plan(n=5_000, rule="falling", **changes):
    l2 = 0.1 if rule == "strongly-convex" else 0.0
    facts = {"n": n, "loss": Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 20, "rule": rule, "l2": l2, "least_batch": 1}
    return planned(plan_snowball_sgd, **{**facts, **changes})


@pytest.mark.parametrize("rule", FACTORS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_plan_is_certified_and_spends_what_it_may(rule, adjacency):
    run = plan(rule=rule, adjacency=adjacency).run
    assert 0.9999 < account(run, 1e-5).epsilon <= 1.0
    assert sum(run.sampling.batch_size) == run.n


@pytest.mark.parametrize("rule", FACTORS)
def test_the_batches_are_those_of_the_theorem_but_for_left_over_records(rule):
    run = plan(rule=rule, adjacency="replace").run
    sizes = np.array(run.sampling.batch_size)
    printed = snowball_batch_sizes(run.steps, 20, Budget(1.0, 1e-5, "replace").mu, FACTORS[rule])
    left = run.n - printed.sum()
    longer = snowball_batch_sizes(run.steps + 1, 20, Budget(1.0, 1e-5, "replace").mu, FACTORS[rule])
    assert longer.sum() > run.n
    assert (sizes - printed).min() >= left // run.steps
    assert (sizes - printed).max() <= left // run.steps + 1


@pytest.mark.parametrize("rule", FACTORS)
def test_the_printed_noise_costs_no_more_than_rho(rule):
    """Theorems 3.5, 3.6, 5.4: L / sqrt(d) on the mean gradient makes the last iterate rho-GDP; ours never needs more."""
    made = plan(rule=rule, adjacency="replace").run
    printed = np.array(made.sampling.batch_size) / math.sqrt(20)
    assert account(made.replace(noise_multiplier=tuple(printed)), 1e-5).mu <= Budget(1.0, 1e-5, "replace").mu * (1 + 1e-6)
    assert (np.array(made.noise_multiplier) <= printed * (1 + 1e-6)).all()


def test_the_steps_are_those_of_the_theorems():
    fixed, falling, strong = (plan(rule=rule).run for rule in FACTORS)
    clip = fixed.clip_norm
    assert np.array(fixed.step_size) == pytest.approx(min(100 / (clip * math.sqrt(2 * fixed.steps)), 8), rel=1e-8)
    assert falling.step_size[0] == pytest.approx(min(100 / (clip * math.sqrt(2 * falling.steps)), 8), rel=1e-8)
    assert falling.step_size[-1] < falling.step_size[0] / 100
    assert np.array(strong.step_size) == pytest.approx(2 * math.log(strong.steps) / (0.1 * strong.steps), rel=1e-8)


def test_a_least_batch_makes_fewer_steps():
    assert plan(least_batch=20).run.steps < plan().run.steps
    assert min(plan(least_batch=20).run.sampling.batch_size) >= 20


def test_the_default_rule_follows_the_objective():
    assert plan(rule=None, l2=0.1).run == plan(rule="strongly-convex").run
    assert plan(rule=None).run == plan(rule="falling").run


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "nope"}, "rule is 'nope'"),
        ({"rule": "strongly-convex", "l2": 0.0}, "give l2 > 0"),
        ({"n": 20, "d": 10_000}, "fewer than the last batch needs"),
        ({"least_batch": 0}, "least_batch"),
        ({"diameter": 0.0}, "diameter"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        plan(**changes)


def test_rows_of_other_norms_scale_everything():
    one = plan_snowball_sgd(Problem(5_000, 20, SmoothedHinge(1.0)), Budget(1.0, 1e-5), least_batch=1)
    two = plan_snowball_sgd(Problem(5_000, 20, SmoothedHinge(1.0), feature_norm=2.0), Budget(1.0, 1e-5), least_batch=1)
    assert two.run.step_size == pytest.approx(np.array(one.run.step_size) / 4)
    assert two.run.diameter == one.run.diameter / 2
