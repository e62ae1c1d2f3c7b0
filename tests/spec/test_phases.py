"""A run of phases states what bounds the sensitivity of a phase, or it is not a run; it costs what its least noise costs."""

import pytest

from dplateau._account import account
from dplateau.accounting import GaussianDP
from dplateau.spec import Cyclic, InputError, OnePass, Run


def run_of(**changes):
    values = {"n": 100, "sampling": OnePass((50, 25)), "steps": 2, "noise_multiplier": (4.0, 5.0), "step_size": (0.2, 0.05)}
    return Run(**{**values, "smoothness": 10.0, "strong_convexity": 0.0, "update": "phased-sgd", **changes})


@pytest.mark.parametrize("update", ["phased-sgd", "phased-erm"])
@pytest.mark.parametrize(("adjacency", "moved"), [("add-remove", 1.0), ("replace", 2.0)])
def test_phases_have_disjoint_records_and_cost_what_the_one_with_the_least_noise_costs(update, adjacency, moved):
    report = account(run_of(update=update, adjacency=adjacency, released="last"), 1e-3)
    assert report.epsilon == pytest.approx(GaussianDP(moved / 4.0).epsilon(1e-3).upper, rel=1e-6)
    assert all(row.epsilon is None for row in report.bounds if row.name in ("fixed-order", "pnsgd"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": Cyclic(50)}, "needs one-pass sampling"),
        ({"step_size": None}, "needs step_size"),
        ({"strong_convexity": None}, "needs step_size, and strong_convexity"),
        ({"smoothness": None}, "smoothness is not given"),
        ({"step_size": (0.2, 0.21)}, "step_size 0.21 exceeds 2/smoothness"),
    ],
)
def test_what_bounds_the_sensitivity_must_be_stated_and_hold(changes, message):
    with pytest.raises(InputError, match=message):
        run_of(**changes)


def test_minimisers_need_no_smoothness():
    assert run_of(update="phased-erm", smoothness=None).is_phased


def test_phases_survive_json():
    assert Run.from_json(run_of().to_json()) == run_of()
