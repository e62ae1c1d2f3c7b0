# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, Run, Sampling, Shuffled, per_step

BASE: dict[str, Any] = {"n": 100, "sampling": Poisson(10), "steps": 5, "noise_multiplier": 1.5}
positive = st.floats(1e-6, 1e6, allow_nan=False)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    steps = draw(st.integers(1, 12))
    sizes = st.integers(1, 8)

    def schedule() -> Any:
        return draw(st.one_of(positive, st.lists(positive, min_size=steps, max_size=steps)))

    per_step_sizes = draw(st.lists(sizes, min_size=steps, max_size=steps))
    epoch = draw(st.lists(sizes, min_size=1, max_size=6))
    n = draw(st.integers(sum(per_step_sizes) + 8, 10_000))
    kind: Any = draw(st.sampled_from([Poisson, FixedSize, Cyclic, Shuffled, OnePass, FullBatch]))
    if kind is FullBatch:
        sampling: Sampling = FullBatch()
    elif kind in (Cyclic, Shuffled):
        n = max(sum(epoch), 8)
        size = draw(st.sampled_from([max(epoch), [*epoch[:-1], epoch[-1] + n - sum(epoch)]]))
        sampling = kind(size)
    else:
        sampling = kind(draw(st.sampled_from([min(per_step_sizes), per_step_sizes])))
    smoothness = draw(st.none() | positive)
    return Run(
        n=n,
        sampling=sampling,
        steps=steps,
        noise_multiplier=schedule(),
        clip_norm=draw(positive),
        step_size=draw(st.none() | st.just(schedule())),
        smoothness=smoothness,
        strong_convexity=draw(st.none() | st.floats(0, smoothness or 1.0)),
        diameter=draw(st.none() | positive),
        adjacency=draw(st.sampled_from(["add-remove", "replace"])),
        released=draw(st.sampled_from(["last", "all"])),
        update=draw(st.sampled_from(["sgd", "post-processed"])),
        unit=draw(st.sampled_from(["row", "person"])),
    )


@given(runs())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_json_round_trip_is_exact(run: Run) -> None:
    again = Run.from_json(run.to_json(indent=2))
    assert again == run
    assert Run.from_dict(run.to_dict()) == run
    assert hash(again) == hash(run)
    assert again.digest == run.digest
    assert run.epochs > 0
    assert per_step(run.noise_multiplier, run.steps).shape == (run.steps,)


def test_the_digest_is_the_same_on_every_machine() -> None:
    run = Run(n=60_000, sampling=Poisson(256), steps=3516, noise_multiplier=1.3, step_size=[0.1 / (t + 1) for t in range(3516)])
    code = (
        "from dplateau.spec import *; print(Run(n=60_000, sampling=Poisson(256), steps=3516, noise_multiplier=1.3, "
        "step_size=[0.1 / (t + 1) for t in range(3516)]).digest)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"})
    assert other.stdout.strip() == run.digest
    assert Run(**BASE).digest == "dc622819c8763133e8988fea8588118041b9658b348e7afeacbe964d96c58cc6"


def test_the_same_run_however_it_was_written_down() -> None:
    one = Run(n=100, sampling=Poisson(10), steps=2, noise_multiplier=[1, 2], strong_convexity=0)
    other = Run(
        n=np.int64(100), sampling=Poisson(np.float64(10)), steps=2.0, noise_multiplier=np.array([1.0, 2.0]), strong_convexity=-0.0
    )  # type: ignore[arg-type]
    assert one == other
    assert one.digest == other.digest
    assert isinstance(other.n, int)
    assert isinstance(other.steps, int)
    assert Run(**{**BASE, "noise_multiplier": np.array(1.5)}) == Run(**BASE)
    assert Run(**{**BASE, "noise_multiplier": (1.0 + t for t in range(5))}).noise_multiplier == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_a_change_of_any_field_changes_the_digest() -> None:
    changes: list[dict[str, Any]] = [
        {"n": 101},
        {"sampling": FixedSize(10)},
        {"steps": 6},
        {"noise_multiplier": math.nextafter(1.5, 2)},
        {"clip_norm": 2.0},
        {"step_size": 0.1},
        {"smoothness": 1.0},
        {"strong_convexity": 0.0},
        {"l2": 0.25, "strong_convexity": 0.5},
        {"diameter": 3.0},
        {"adjacency": "replace"},
        {"released": "last"},
        {"update": "post-processed"},
        {"unit": "person"},
    ]
    assert {next(iter(change)) for change in changes} == {field.name for field in dataclasses.fields(Run)}
    digests = {Run(**BASE).digest, *(Run(**BASE).replace(**change).digest for change in changes)}
    assert len(digests) == len(changes) + 1


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("n", 0, ["n is 0", ">= 1"]),
        ("n", 2.5, ["n is 2.5", "whole number"]),
        ("n", True, ["n is True", "whole number"]),
        ("n", "7", ["n is '7'", "whole number"]),
        ("n", math.nan, ["n is nan", "whole number"]),
        ("n", math.inf, ["n is inf", "whole number"]),
        ("steps", 0, ["steps is 0", ">= 1"]),
        ("steps", -3, ["steps is -3", ">= 1"]),
        ("steps", None, ["steps is None", "whole number"]),
        ("sampling", 0.1, ["sampling is 0.1", "Poisson"]),
        ("sampling", Poisson, ["sampling is", "Poisson"]),
        ("noise_multiplier", 0, ["noise_multiplier is 0", "> 0"]),
        ("noise_multiplier", -1.0, ["noise_multiplier is -1", "> 0"]),
        ("noise_multiplier", math.nan, ["noise_multiplier is nan", "finite"]),
        ("noise_multiplier", "1", ["noise_multiplier is '1'", "finite number"]),
        ("noise_multiplier", None, ["noise_multiplier is None", "finite number"]),
        ("noise_multiplier", 10**400, ["noise_multiplier", "finite number"]),
        ("noise_multiplier", [1.0] * 4, ["noise_multiplier has 4 entries", "5 steps", "one number"]),
        ("noise_multiplier", [1, 1, 0, 1, 1], ["noise_multiplier[2] is 0", "> 0"]),
        ("noise_multiplier", [1, 1, math.inf, 1, 1], ["noise_multiplier[2] is inf", "finite"]),
        ("noise_multiplier", [], ["noise_multiplier", "flat sequence"]),
        ("noise_multiplier", [[1.0] * 5], ["noise_multiplier", "flat sequence"]),
        ("noise_multiplier", [[1.0], [1.0, 2.0]], ["noise_multiplier", "flat sequence"]),
        ("noise_multiplier", ["a"] * 5, ["noise_multiplier", "flat sequence"]),
        ("noise_multiplier", [True] * 5, ["noise_multiplier", "flat sequence"]),
        ("noise_multiplier", [1.0, True, 1, 1, 1], ["noise_multiplier has truth values", "flat sequence"]),
        ("noise_multiplier", np.array([True] * 5), ["noise_multiplier", "flat sequence"]),
        ("clip_norm", 0.0, ["clip_norm is 0", "> 0"]),
        ("clip_norm", math.inf, ["clip_norm is inf", "finite"]),
        ("clip_norm", [1.0] * 5, ["clip_norm", "finite number"]),
        ("step_size", 0.0, ["step_size is 0", "> 0"]),
        ("step_size", [0.1] * 6, ["step_size has 6 entries", "5 steps"]),
        ("smoothness", 0.0, ["smoothness is 0", "> 0"]),
        ("strong_convexity", -0.1, ["strong_convexity is -0.1", ">= 0"]),
        ("diameter", 0, ["diameter is 0", "> 0"]),
        ("adjacency", "add", ["adjacency is 'add'", "add-remove, replace"]),
        ("adjacency", ["replace"], ["adjacency is ['replace']", "add-remove, replace"]),
        ("released", "both", ["released is 'both'", "last, all"]),
        ("update", "adam", ["update is 'adam'", "sgd, post-processed"]),
        ("unit", "household", ["unit is 'household'", "row, person"]),
    ],
)
def test_every_field_is_checked(field: str, value: object, says: list[str]) -> None:
    with pytest.raises(InputError) as error:
        Run(**{**BASE, field: value})
    for part in says:
        assert part in str(error.value)


def test_no_loss_is_more_convex_than_smooth() -> None:
    with pytest.raises(InputError, match="strong_convexity 2 exceeds smoothness 1"):
        Run(**BASE, smoothness=1.0, strong_convexity=2.0)
    Run(**BASE, smoothness=1.0, strong_convexity=1.0)


def test_an_l2_term_is_part_of_the_strong_convexity():
    with pytest.raises(InputError, match=r"l2 0\.5 exceeds strong_convexity 0"):
        Run(**BASE, l2=0.5)
    run = Run(**BASE, strong_convexity=0.5, l2=0.5)
    assert Run.from_json(run.to_json()) == run
    assert "l2" not in Run(**BASE, strong_convexity=0.5).to_dict()


def test_a_run_cannot_be_changed() -> None:
    run = Run(**{**BASE, "noise_multiplier": [1.0] * 5})
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.steps = 6  # type: ignore[misc]
    with pytest.raises(TypeError):
        run.noise_multiplier[0] = 9.0  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.sampling.batch_size = 3  # type: ignore[attr-defined]
    source = np.ones(5)
    run = Run(**{**BASE, "noise_multiplier": source})
    source[0] = 9.0
    assert run.noise_multiplier == (1.0,) * 5
    with pytest.raises(InputError, match="entries"):
        run.replace(steps=6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "format 2"),
        ({"format": None}, "format None"),
        ({"colour": "red"}, "unknown fields \\['colour'\\]"),
        ({"n": ...}, "lacks the fields \\['n'\\]"),
        ({"noise_multiplier": ...}, "lacks the fields \\['noise_multiplier'\\]"),
        ({"sampling": "poisson"}, "'kind' is one of poisson"),
        ({"sampling": {"kind": "bernoulli"}}, "'kind' is one of poisson"),
        ({"sampling": {"kind": ["poisson"]}}, "'kind' is one of poisson"),
        ({"sampling": {"kind": "poisson"}}, "expected \\['batch_size'\\]"),
        ({"sampling": {"kind": "poisson", "batch_size": 3, "rate": 1}}, "has the fields"),
        ({"sampling": {"kind": "full", "batch_size": 3}}, "expected \\[\\]"),
        ({"sampling": {"kind": "poisson", "batch_size": None}}, "batch_size is None"),
        ({"clip_norm": None}, "clip_norm is None"),
        ({"noise_multiplier": "loud"}, "noise_multiplier is 'loud'"),
    ],
)
def test_what_to_dict_did_not_write_is_refused(change: dict[str, Any], says: str) -> None:
    data = {**Run(**BASE).to_dict(), **change}
    with pytest.raises(InputError, match=says):
        Run.from_dict({key: value for key, value in data.items() if value is not ...})


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "null", '"run"', b'{"n": "\xff"}', b"\xff\xfe{"])
def test_what_is_no_run_is_refused(text: Any) -> None:
    with pytest.raises(InputError, match=r"the run is not JSON|must be a JSON object"):
        Run.from_json(text)


def test_a_run_with_a_field_twice_is_refused() -> None:
    text = Run(**BASE).to_json()
    with pytest.raises(InputError, match="the same key twice"):
        Run.from_json(text[:-1] + ', "noise_multiplier": 5.0}')


def test_json_without_optional_fields_has_the_defaults() -> None:
    data = {key: value for key, value in Run(**BASE).to_dict().items() if key in ("format", *BASE)}
    assert Run.from_dict(data) == Run(**BASE)
    assert "NaN" not in json.dumps(Run(**BASE).to_dict())


@pytest.mark.parametrize("name", ["n", "steps"])
def test_numbers_beyond_double_precision(name: str) -> None:
    values = {"n": 10, "steps": 1, name: 10**400}
    with pytest.raises(InputError, match=f"{name} is larger than any floating-point number"):
        Run(sampling=FullBatch(), noise_multiplier=1.0, **values)


@pytest.mark.parametrize("text", ['{"n": ' + "9" * 5000 + "}", "[" * 100_000])
def test_json_that_python_refuses(text: str) -> None:
    with pytest.raises(InputError, match="the run is not JSON"):
        Run.from_json(text)


def test_what_a_run_looks_like():
    run = Run(n=60_000, sampling=Poisson(256), steps=3516, noise_multiplier=1.3)
    assert repr(run) == "Run(n=60000, sampling=Poisson(batch_size=256.0), steps=3516, noise_multiplier=1.3)"
    assert eval(repr(run)) == run  # no schedule of this run is long
    last = run.replace(released="last", l2=0.1, strong_convexity=0.1, steps=4, step_size=(0.4, 0.3, 0.2, 0.1))
    assert "l2=0.1" in repr(last)
    assert eval(repr(last)) == last
    long = run.replace(steps=10**5, noise_multiplier=[1.0] * 99_999 + [2.0], sampling=Poisson([10.0, *[256.0] * 99_999]))
    assert repr(long) == (
        "Run(n=60000, sampling=Poisson(batch_size=<100,000 values, 10 to 256>), steps=100000, "
        "noise_multiplier=<100,000 values, 1 to 2>)"
    )
