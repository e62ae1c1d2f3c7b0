"""Bounds on the last iterate depend on ratios of lengths only; where squares of lengths leave double precision there is none."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import pytest

import dplateau as dp
from dplateau.analyses import ANALYSES
from dplateau.analyses.requirements import missing
from dplateau.filter import cost_of

DELTA = 1e-5
SAMPLINGS = [dp.Cyclic(100), dp.OnePass(100), dp.FullBatch(), dp.Shuffled(100), dp.Poisson(100), dp.FixedSize(100)]
everywhere = pytest.mark.parametrize("convexity", [0.0, 0.4])
in_any_order = pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.kind)


def run_of(sampling: object, convexity: float, length: float, **changes: object) -> dp.Run:
    """Clip norm and diameter in units of ``length``."""
    settings = {
        "n": 1000,
        "sampling": sampling,
        "steps": 10 if isinstance(sampling, dp.OnePass) else 500,
        "noise_multiplier": 5.0,
        "clip_norm": length,
        "step_size": 1.0,
        "smoothness": 1.0,
        "strong_convexity": convexity,
        "l2": convexity,
        "diameter": 0.05 * length,
        "released": "last",
    }
    return dp.Run(**{**settings, **changes})


def said(run: dp.Run) -> dict[str, float]:
    """The epsilons of all bounds that are proved."""
    proved = [analysis for analysis in ANALYSES if analysis.status.certifies and analysis.why_not(run) is None]
    return {analysis.name: analysis.guarantee(run).epsilon(DELTA).upper for analysis in proved}


@everywhere
@in_any_order
def test_no_bound_depends_on_the_unit_of_length(sampling, convexity):
    usual = said(run_of(sampling, convexity, 1.0))
    assert len(usual) > 4
    for length in (1e-90, 1e-30, 1e30, 1e90):
        found = said(run_of(sampling, convexity, length))
        # Those that round a number of steps up may take one more.
        assert found == pytest.approx(usual, rel=5e-3)


@pytest.mark.parametrize("length", [1e-300, 1e-160, 1e-110, 1e110, 1e160, 1e300])
@everywhere
@in_any_order
def test_where_squares_leave_double_precision_composition_alone_is_left(sampling, convexity, length):
    """At 1e-160 closed forms had mu = 0 by underflow."""
    run = run_of(sampling, convexity, length)
    assert "leave double precision" in missing(run)
    released = run_of(sampling, convexity, 1.0, released="all")
    assert said(run) == said(released)
    assert cost_of(run, None) == cost_of(released, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"diameter": 1e-120},
        {"diameter": 1e120},
        {"noise_multiplier": [5.0] * 499 + [1e-45], "clip_norm": 1e-60},
        {"noise_multiplier": [5.0] * 499 + [1e105]},
        {"step_size": [1.0] * 499 + [1e105], "smoothness": 1e-106, "strong_convexity": 0.0, "l2": 0.0},
        {"step_size": [1.0] * 499 + [1e-120]},
        {"clip_norm": 1e120},
        {"clip_norm": 1e-120},
    ],
    ids=[
        "short diameter",
        "long diameter",
        "one step with little noise",
        "one step with much noise",
        "one long step",
        "one short step",
        "large clip norm",
        "small clip norm",
    ],
)
def test_one_length_out_of_range_is_enough(changes):
    assert "leave double precision" in missing(run_of(dp.Cyclic(100), 0.4, 1.0, **changes))


@pytest.mark.parametrize("sampling", [dp.Cyclic(100), dp.FullBatch(), dp.Shuffled(100)], ids=lambda one: one.kind)
def test_so_many_steps_that_a_string_has_no_lower_end(sampling):
    """So many roundings leave nothing of the lower end."""
    bounds = {one.name: one for one in dp.account(run_of(sampling, 0.0, 1.0, steps=2**53), DELTA).bounds}
    enclosure = bounds["shuffled" if sampling.shuffled else "fixed-order"].epsilon
    assert enclosure.lower == 0 < enclosure.upper < float("inf")


@pytest.mark.parametrize("name", ["n", "steps"])
def test_numbers_of_more_than_64_bits_have_no_bound_on_the_last_iterate(name):
    for sampling in (dp.FullBatch(), dp.Poisson(100), dp.FixedSize(100)):
        for number in (2**63, 10**300):
            assert "last-iterate bounds count up to 4.61e+18" in missing(run_of(sampling, 0.0, 1.0, **{name: number}))
    assert [bound.name for bound in dp.account(run_of(dp.Poisson(100), 0.0, 1.0, steps=2**63), DELTA).leading] == [
        "exact-composition"
    ]
