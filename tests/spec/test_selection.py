"""``Selection``, and what ``account``, ``calibrate``, ``compose`` and the ledger's costs make of it."""

# pyright: basic, reportArgumentType=false
from __future__ import annotations

from typing import Any

import pytest

import dplateau as dp
from dplateau.filter import cost_of

DELTA = 1e-6


def poisson(z: float = 3.0, **more: Any) -> dp.Run:
    return dp.Run(n=60_000, sampling=dp.Poisson(600), steps=500, noise_multiplier=z, **more)


SELECTION = dp.Selection([poisson(z) for z in (3.0, 4.0, 5.0, 6.0)])


def test_it_is_written_and_read_exactly() -> None:
    for one in (SELECTION, dp.Selection([poisson(), dp.Runs([poisson(), poisson(4.0)])], 0.25)):
        assert dp.Selection.from_dict(one.to_dict()) == one
        assert one.digest != dp.Runs(one.runs).digest
        assert one != dp.Runs(one.runs)
    assert SELECTION.n == 60_000
    assert SELECTION.steps == 2000
    assert SELECTION.released == "all"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([],), "no candidate"),
        (([3],), "got int"),
        (([SELECTION],), "got Selection"),
        (([poisson(), poisson().replace(n=59_999)],), "differ in n"),
        (([poisson()], 0.0), "probability"),
        (([poisson()], 1.5), "probability"),
        (([poisson()], True), "probability"),
        (([poisson()], float("nan")), "probability"),
    ],
)
def test_bad_selections(arguments: Any, says: str) -> None:
    with pytest.raises(dp.InputError, match=says):
        dp.Selection(*arguments)


@pytest.mark.parametrize("change", [{"format": 2}, {"more": 1}, {"candidates": 3}, {"candidates": [{}]}, {"probability": "x"}])
def test_bad_files(change: dict[str, Any]) -> None:
    with pytest.raises(dp.InputError):
        dp.Selection.from_dict({**SELECTION.to_dict(), **change})
    with pytest.raises(dp.InputError):
        dp.Selection.from_dict([])


def test_it_costs_less_than_all_and_more_than_one() -> None:
    one, best, all_told = (dp.account(run, DELTA).epsilon for run in (poisson(), SELECTION, dp.Runs(SELECTION.runs)))
    assert one < best < all_told


def test_no_row_says_less_than_what_certifies() -> None:
    report = dp.account(SELECTION, DELTA)
    assert report.best is not None
    assert report.best.name == "private-selection"
    assert report.best.status == "Proved"
    certain = dp.account(dp.Selection(SELECTION.candidates[:2], 1.0), DELTA)  # tried for certain: composition is no worse
    assert certain.best is not None
    assert certain.best.name != "private-selection"


def test_calibrated_candidates_keep_their_proportions() -> None:
    found = dp.calibrate(SELECTION, epsilon=1.0, delta=DELTA)
    assert isinstance(found, dp.Selection)
    assert found.probability == 0.5
    assert 0.9999 < dp.account(found, DELTA).epsilon <= 1.0
    noises = [run.noise_multiplier for run in found.runs]
    assert [z / noises[0] for z in noises] == pytest.approx([1, 4 / 3, 5 / 3, 2])


def test_a_ledger_is_charged_for_the_best_only() -> None:
    order, selection = 12.0, dp.Selection([poisson(z) for z in (1.2, 1.3, 1.4, 1.5)])
    assert max(cost_of(run, order) for run in selection.runs) < cost_of(selection, order) < cost_of(dp.Runs(selection.runs), order)
    # Where runs cost little, the choice is what costs, and all told may be cheaper at one order: then that counts.
    assert cost_of(SELECTION, order) == cost_of(dp.Runs(SELECTION.runs), order)


def test_composed_with_more_it_counts_as_all_told() -> None:
    """Which is more than it costs, and sound."""
    assert dp.compose(SELECTION, poisson()) == dp.Runs([*SELECTION.runs, poisson()])
