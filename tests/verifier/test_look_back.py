"""Shifted steps in balls: they make up the distance, and cost no more than the accountant says."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dplateau import account
from dplateau.accounting.mechanism import step_kinds
from dplateau.accounting.renyi import about_epsilon
from dplateau.accounting.terms import Composition as Composed
from dplateau.accounting.terms import Repeated
from dplateau.analyses.sampled_last_iterate import _LookBack
from dplateau.spec import ROUND_OFF, FixedSize, Poisson, RandomAllocation, Run

pytest.importorskip("flint")

from dplateau.certificate import prove
from dplateau.verifier import mechanism
from dplateau.verifier.balls import exact, precision
from dplateau.verifier.batches import likely, moves, parted, travelled, unusual
from dplateau.verifier.laws import Sampled
from dplateau.verifier.look_back import _start, look_back
from dplateau.verifier.statement import Composition, Statement
from dplateau.verifier.steps import steps as steps_of


@pytest.fixture(autouse=True)
def digits() -> Any:
    with precision():
        yield


DELTA = 1e-5
RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "poisson": (3000, {"sampling": Poisson(256), "steps": 100_000, "strong_convexity": 0.0}),
    "poisson, replace": (40, {"sampling": Poisson(3000), "strong_convexity": 0.05, "l2": 0.05, "adjacency": "replace"}),
    "fixed size": (500, {"sampling": FixedSize(500), "strong_convexity": 0.01, "diameter": None}),
    "fixed size, replace": (700, {"sampling": FixedSize(500), "strong_convexity": 0.0, "adjacency": "replace"}),
    "decaying": (
        350,
        {"sampling": Poisson(600), "strong_convexity": 0.01, "step_size": tuple(0.9 - t / 2000 for t in range(1000))},
    ),
    "batches grow": (
        600,
        {
            "sampling": FixedSize(tuple(float(200 + t // 4) for t in range(1000))),
            "strong_convexity": 1e-3,
            "noise_multiplier": tuple(2 + (t > 700) for t in range(1000)),
        },
    ),
    "many steps": (400_000, {"sampling": Poisson(256), "steps": 10**6, "strong_convexity": 1e-5, "l2": 1e-5}),
    "full in the end": (
        100,
        {"sampling": Poisson(tuple([300.0] * 950 + [30_000.0] * 50)), "strong_convexity": 0.01, "step_size": 0.2},
    ),
}


def run(name: str) -> Run:
    fields: dict[str, Any] = {
        "n": 30_000,
        "steps": 1000,
        "noise_multiplier": 2.0,
        "step_size": 0.5,
        "smoothness": 1.0,
        "diameter": 0.5,
        "released": "last",
    }
    return Run(**(fields | RUNS[name][1]))


def parts(found: Statement) -> list[Composition]:
    return [composition for ((_, composition),) in found.directions]


@pytest.mark.parametrize("name", RUNS)
def test_it_costs_no_more_than_the_accountant_says(name: str) -> None:
    one, steps = run(name), RUNS[name][0]
    theirs, slack, _ = _LookBack(one, False)._parts(steps, DELTA, 12, one)
    found = look_back(one, steps, DELTA)
    kinds, _ = step_kinds(one)
    ours = []
    for kind, part in zip(kinds, parts(found), strict=True):
        terms = [(law, count) for law, count in part.parts if isinstance(law, Sampled)]
        repeated = tuple(Repeated(kind(float(law.q), float(law.mu), float(law.shift)), count) for law, count in terms)
        ours.append(Composed(repeated, math.sqrt(float(part.square))))
        assert sum(count for _, count in terms) == steps - (50 if name == "full in the end" else 0)
    assert len(found.directions) == len(kinds)
    assert float(found.slack.upper()) <= slack * (1 + 1e-12)
    # The same numerics on both.
    for mine, other in zip(ours, theirs, strict=True):
        here, there = about_epsilon(mine, DELTA - float(found.slack.upper())), about_epsilon(other, DELTA - slack)
        assert here <= there * (1 + 1e-7)
        assert here >= there * (1 - 1e-3)


@pytest.mark.parametrize("name", ["poisson", "fixed size, replace"])
def test_equal_shifts_make_up_the_diameter(name: str) -> None:
    """Convex losses: all shifts are alike, and R of them are the diameter."""
    one, steps = run(name).replace(steps=10**6), RUNS[name][0]
    deviation = Fraction(1, 2) * 2 / Fraction(one.table.only.size)
    for part in parts(look_back(one, steps, DELTA)):
        ((law, count),) = part.parts
        assert isinstance(law, Sampled)
        absorbed = (law.shift - 2 * Fraction(ROUND_OFF)) * deviation * count
        assert Fraction(1, 2) <= absorbed <= Fraction(1, 2) * (1 + Fraction(1, 10**11))


def test_contracted_shifts_make_up_the_distance() -> None:
    one, steps = run("fixed size"), 500
    c = 1 - Fraction(1, 2) / 100
    gap, deviation = Fraction(1, 2) / 500, Fraction(1, 2) * 2 / 500
    (part, _) = parts(look_back(one, steps, DELTA))
    assert sum(count for _, count in part.parts) == steps
    # The later the step, the larger the shift: in this order they are worth what is left of the distance.
    later, absorbed = 1.0, 0.0
    for law, count in sorted(part.parts, key=lambda one: -one[0].shift):  # type: ignore[attr-defined]
        for _ in range(count):
            absorbed += later * float(deviation) * (float(law.shift) - 2 * ROUND_OFF)  # type: ignore[attr-defined]
            later *= float(c)
    surely = float(gap) / (1 - float(c))
    assert absorbed < surely * later
    far = absorbed / later
    assert 0.05 * surely < far < surely


@pytest.mark.parametrize("name", [name for name in RUNS if name != "many steps"])
@pytest.mark.parametrize("diameter", [None, 1e-3, 0.5, 1e6])
def test_what_a_look_back_leaves_to_chance_is_charged(name: str, diameter: float | None) -> None:
    """Unusual batches of its own steps if the start is a diameter, otherwise those of all steps, and that the start is further."""
    one, steps = run(name).replace(diameter=diameter), RUNS[name][0]
    if diameter is None and not one.strong_convexity:
        one = one.replace(strong_convexity=0.02)
    table, budget = steps_of(one), 1e-3 * DELTA
    recent = [table[0]._replace(count=steps)] if len(table) == 1 else table[-steps:]
    earlier, _ = parted(moves(one, table, budget), steps)
    far, window, slack = _start(one, table, recent, DELTA)
    if diameter is not None and far.overlaps(exact(diameter)):
        charged = unusual(moves(one, recent, budget))
    else:
        least, surely = likely(earlier, 0.05 * DELTA), travelled(earlier)
        assert far.overlaps(least.min(surely))
        charged = unusual(moves(one, table, budget)) + (exact(0.05 * DELTA) if least < surely else exact(0))
        assert diameter is None or far < exact(diameter)
    assert not slack < charged
    assert sum(row.times for row in window) == steps
    assert one.sampling.random_size == (unusual(window) > 0)


def test_random_allocation_splits_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    one = run("poisson").replace(sampling=RandomAllocation(300), steps=10**6, strong_convexity=0.0, step_size=0.25)
    quieter = list[Run]()

    def epochs(part: Run) -> Statement:
        quieter.append(part)
        return Statement.of(Composition((), exact(0)))

    monkeypatch.setattr(mechanism, "composed", epochs)
    (part,) = parts(look_back(one, 500, DELTA))
    assert quieter[0].steps == 500
    share = Fraction(quieter[0].noise_multiplier) ** 2 / 4  # type: ignore[arg-type]
    shift = Fraction(1, 2) / (Fraction(1, 4) * 2 / 300)
    exactly = (exact(shift) / exact(500).sqrt() + exact(2 * Fraction(ROUND_OFF)) * exact(500).sqrt()) ** 2 / exact(1 - share)
    assert part.square.overlaps(exactly)
    assert 0.01 < float(share) < 0.99


def test_a_look_back_begins_with_an_epoch() -> None:
    with pytest.raises(ValueError, match="begin with an epoch"):
        look_back(run("poisson").replace(sampling=RandomAllocation(300)), 510, DELTA)


def test_a_last_iterate_that_looks_back_a_few_steps():
    """Small shifts are no reason to decide nothing."""
    short = Run(
        n=10_000, sampling=Poisson(100), steps=200, noise_multiplier=1.0, step_size=1.0, smoothness=1.0, strong_convexity=0.5,
        l2=0.5, released="last",
    )  # fmt: skip
    report = account(short, 1e-6)
    assert report.best.name == "sampled-last-iterate"
    assert prove(short, report.epsilon, 1e-6).verified
