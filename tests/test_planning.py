"""The planner chooses from public facts alone, says why in three lines, and every solver that it names can be planned and run."""

import itertools
import math
import subprocess
import sys
from inspect import signature

import numpy as np
import pytest

import dplateau as dp
from dplateau._account import account
from dplateau.algorithms import SOLVERS, Budget, Problem, solver_named
from dplateau.losses import Absolute, Hinge, Huber, Logistic, SmoothedHinge, Softmax
from dplateau.planning import choose, passes_once, plan
from dplateau.spec import InputError, Run
from dplateau.training import SecureGenerator
from dplateau.training.loop import arithmetic_of

L2 = {name: 0.1 if solver.needs_l2 else 0.0 for name, solver in SOLVERS.items()}


def test_the_list_of_solvers_loads_nothing_that_trains():
    """The command line reads it, also for ``--help``."""
    code = (
        "import sys; from dplateau.algorithms.registry import SOLVERS; print(len(SOLVERS), {'jax', 'scipy'} & set(sys.modules));"
        "SOLVERS['pnsgd'].make; print('jax' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [f"{len(SOLVERS)} set()", "True"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(1.0), Huber(0.5), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_every_solver_is_certified_for_what_it_may_cost(solver, adjacency, loss):
    made = plan(3_000, 8, 1.0, 1e-5, loss=loss, solver=solver, adjacency=adjacency, l2=L2[solver])
    assert 0.999 < account(made.run, 1e-5).epsilon <= 1.0
    assert (made.run.n, made.run.adjacency) == (3_000, adjacency)
    assert len(made.reasons) == 3


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_solver_says_what_its_plans_can_do(solver):
    made = solver.plan(Problem(3_000, 4, Logistic(), l2=L2[solver.name]), Budget(1.0, 1e-5), steps=17)
    assert solver.takes_steps == (made.run.steps == 17)
    assert solver.takes_dtype == ("dtype" in signature(made.fit).parameters)


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_solver_says_how_it_reads_a_stream(solver):
    given = Problem(3_000, 4, Logistic(), l2=L2[solver.name]), Budget(1.0, 1e-5)
    if not (solver.one_pass or solver.allocates):
        with pytest.raises(InputError, match=f"solver '{solver.name}' for Logistic loss needs all records in memory: for a stream"):
            solver.plan_stream(*given)
        return
    made = solver.plan_stream(*given, steps=17)
    assert (made.run.sampling.once, made.run.sampling.allocated) == (solver.one_pass, solver.allocates)
    assert solver.takes_steps == (made.run.steps == 17)
    assert solver.takes_dtype == ("dtype" in signature(made.fit_stream).parameters)
    if solver.one_pass:
        assert made == solver.plan(*given)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_trains(solver):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3_000, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-9)
    target = (rows[:, 0] > 0).astype(int)
    made = plan(3_000, 4, 50.0, 1e-5, solver=solver, l2=0.01 if L2[solver] else 0.0)
    result = made.algorithm.fit(rows, target, generator=SecureGenerator(insecure_seed=0))
    assert result.run == made.run
    assert ((rows @ result.weights > 0) == target).mean() > 0.85


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"n": 500}, "noisy-sgd"),
        ({"n": 524_288}, "noisy-sgd"),
        ({"n": 524_289}, "pnsgd"),
        ({"n": 524_289, "d": 10_001}, "noisy-sgd"),
        ({"n": 524_289, "d": 5_001, "classes": 3}, "noisy-sgd"),
        ({"n": 500, "one_pass": True}, "pnsgd"),
        ({"n": 500, "loss": Hinge()}, "phased-erm"),
        ({"n": 500, "loss": Absolute()}, "phased-erm"),
        ({"n": 500, "classes": 10}, "noisy-sgd"),
    ],
)
def test_auto_goes_by_size_and_loss(facts, expected):
    made = dp.plan(**{"d": 5, "epsilon": 1.0, **facts})
    assert made.solver == expected
    assert made.reasons[0].startswith(expected)


def test_auto_goes_by_what_residuals_are_clipped_to():
    """Clipped to next to nothing, one pass needs noise that is finer than its rounding."""
    assert plan(600_000, 100, 8.0, 1e-7).solver == "pnsgd"
    assert plan(600_000, 100, 8.0, 1e-7, residual_clip=1e-9).solver == "noisy-sgd"


def test_equal_facts_give_equal_plans_and_classes_choose_the_loss():
    assert dp.plan(1_000, 5, 1.0) == dp.plan(1_000, 5, 1.0)
    assert dp.plan(1_000, 5, 1.0).algorithm.loss == Logistic()
    assert dp.plan(1_000, 5, 1.0, classes=4).algorithm.loss == Softmax(4)


def test_the_default_delta_is_that_of_the_estimators():
    assert dp.plan(1_000, 5, 1.0).delta == 1e-5
    assert dp.plan(10**6, 5, 1.0).delta == 1e-7


def test_the_noise_of_a_score_is_that_of_weights_without_records():
    made = dp.plan(4_000, 200, 1.0, solver="pnsgd", loss=SmoothedHinge(1.0))
    said = float(made.reasons[2].split("at most ")[1].rstrip("."))
    weights = made.algorithm.fit(np.zeros((4_000, 200)), np.zeros(4_000), generator=SecureGenerator(insecure_seed=1)).weights
    assert abs(np.std(weights) / said - 1) < 5 / math.sqrt(400)


@pytest.mark.parametrize(
    ("n", "solver", "loss", "message"),
    [
        (100, "noisy-sgd", Hinge(), "Hinge is not smooth, so no step size follows from it: choose solver phased-erm"),
        (100, "adp-sgd", Hinge(), "Hinge is not smooth, so no step size follows from it: choose solver phased-erm"),
        (1, "phased-erm", Logistic(), "n is 1: expected a whole number >= 2"),
        (1, "phased-sgd", Logistic(), "n is 1: expected a whole number >= 2"),
        (1, "phased-sgd-strong", Logistic(), "n is 1: expected a whole number >= 2"),
    ],
)
def test_what_has_no_plan_is_said_in_the_words_of_the_arguments(n, solver, loss, message):
    with pytest.raises(InputError, match=message):
        plan(n, 3, 1.0, 1e-6, loss=loss, solver=solver, l2=L2[solver])


def test_json_holds_the_run_that_would_be_certified():
    made = dp.plan(1_000, 5, 1.0, solver="pnsgd")
    data = made.to_dict()
    assert Run.from_dict(data["run"]) == made.run
    assert data["step_size"] == [made.run.step_size[0], made.run.step_size[-1]]
    assert data["radius"] is None
    assert data["reasons"] == str(made).split("\n")


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_lines_name_the_least_and_the_largest_of_every_schedule(solver):
    """The reduction begins anew with large phases and long steps: its first and last phase are neither."""
    made = plan(5_000, 3, 1.0, 1e-6, solver=solver, l2=L2[solver])
    run, text = made.run, str(made)
    sizes, steps, noise = (
        np.atleast_1d(np.asarray(one)) for one in (run.sampling.divisors(run.n), run.step_size, run.noise_multiplier)
    )
    said = [f"{steps.min():.3g}", f"{steps.max():.3g}", f"{noise.min():.3g}", f"{noise.max():.3g}"]
    said += ["all records"] if run.is_full_batch else [f"{sizes.min():,.0f}", f"{sizes.max():,.0f}"]
    assert all(f" {one}" in text for one in said), (said, text)
    assert ("falling" in text) == bool((np.diff(steps) <= 0).all() and steps[0] > steps[-1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solver": "sgd"}, "solver is 'sgd'"),
        ({"solver": "phased-sgd-strong"}, "give l2 > 0"),
        ({"solver": "snowball-sgd", "l2": 0.1}, "choose snowball-sgd-strong"),
        ({"solver": "noisy-sgd", "one_pass": True}, "for one pass use"),
        ({"solver": "phased-sgd", "one_pass": True}, "for one pass use"),
        ({"loss": Hinge(), "solver": "pnsgd"}, "smooth"),
        ({"n": 0}, "n is 0"),
        ({"d": -1}, "d is -1"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.5}, "delta"),
        ({"feature_norm": math.inf}, "feature_norm"),
        ({"adjacency": "swap"}, "adjacency is 'swap'"),
        ({"classes": 1}, "classes"),
        ({"unit": "people"}, "unit is 'people'"),
    ],
)
def test_wrong_facts_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        dp.plan(**{"n": 1_000, "d": 5, "epsilon": 1.0, **changes})


def test_noisy_sgd_keeps_one_l2_for_each_feature():
    made = SOLVERS["noisy-sgd"].plan(Problem(1_000, 3, Logistic(), l2=(0.1, 0.1, 0.0)), Budget(1.0, 1e-5))
    assert made.l2 == (0.1, 0.1, 0.0)


@pytest.mark.filterwarnings("ignore:few rows")
@pytest.mark.parametrize("stream", [False, True], ids=["table", "stream"])
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
@pytest.mark.parametrize("n", [100, 10**6, 10**8, 10**9])
def test_what_is_chosen_can_be_computed(n, epsilon, stream):
    """Defaults for few records and for very many, few features and many, one class and a hundred."""
    for loss, d in itertools.product((Logistic(), Softmax(100)), (1, 1_000, 10_000)):
        problem, budget = Problem(n, d, loss, 1.03, l2=1e-3), Budget(epsilon, min(1e-5, 0.1 / n))
        solver = solver_named(choose(problem, budget, one_pass=stream and passes_once(problem, budget))[0])
        made = (solver.plan_stream if stream else solver.plan)(problem, budget, steps=400)
        arithmetic_of(made.run, loss, np.full(d, 1e-3), 0.0, np.zeros(loss.weights_shape(d)))
