# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
from typing import Any

import pytest

from dplateau.spec import Cyclic, FullBatch, InputError, Poisson, Run, Runs

SAMPLED = Run(n=100, sampling=Poisson(10), steps=5, noise_multiplier=1.5)
FULL = Run(n=100, sampling=FullBatch(), steps=2, noise_multiplier=(3.0, 4.0), released="last")


def test_what_several_runs_say_of_themselves() -> None:
    runs = Runs([SAMPLED, FULL])
    assert runs.runs == (SAMPLED, FULL)
    assert (runs.n, runs.adjacency, runs.steps) == (100, "add-remove", 7)
    assert runs.noise_multiplier == (1.5, (3.0, 4.0))
    assert runs.released == "all"
    assert Runs([FULL, FULL]).released == "last"


def test_runs_are_taken_from_any_iterable_and_compare_by_value() -> None:
    assert Runs(run for run in (SAMPLED, FULL)) == Runs([SAMPLED, FULL])
    assert hash(Runs([SAMPLED])) == hash(Runs((SAMPLED,)))
    assert Runs([SAMPLED, FULL]) != Runs([FULL, SAMPLED])


def test_json_and_back() -> None:
    runs = Runs([SAMPLED, FULL, Run(n=100, sampling=Cyclic((40, 60)), steps=4, noise_multiplier=0.1 + 0.2)])
    data = json.loads(json.dumps(runs.to_dict(), allow_nan=False))
    assert set(data) == {"format", "runs"}
    assert Runs.from_dict(data) == runs
    assert Runs.from_dict(data).digest == runs.digest
    assert len({runs.digest, Runs([SAMPLED, FULL]).digest, Runs([FULL, SAMPLED]).digest, SAMPLED.digest}) == 4


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([], "there is no run to compose"),
        ([SAMPLED, "run"], "expected runs, got str"),
        ([SAMPLED, Runs([FULL])], "expected runs, got Runs"),
        ([SAMPLED, FULL.replace(n=101)], r"differ in n \(100 and 101\)"),
        ([SAMPLED, FULL.replace(adjacency="replace")], r"differ in adjacency \(add-remove and replace\)"),
    ],
)
def test_what_does_not_compose(runs: list[Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Runs(runs)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "format 2: this version reads format 1"),
        ({"runs": "none"}, 'a list "runs"'),
        ({"runs": []}, "no run"),
        ({"runs": [3]}, "JSON object"),
        ({"steps": 3}, 'with "format" and a list "runs"'),
    ],
)
def test_what_is_no_json_of_runs(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Runs.from_dict({**Runs([SAMPLED]).to_dict(), **change})
    with pytest.raises(InputError):
        Runs.from_dict([SAMPLED.to_dict()])
