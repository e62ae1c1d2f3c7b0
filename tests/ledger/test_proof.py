"""``unproved``: what a second accountant, in ball arithmetic, does not confirm of a ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dplateau as dp
from dplateau.ledger.entry import canonical

pytest.importorskip("flint")
from dplateau.ledger.proof import unproved


@pytest.fixture
def ledger(tmp_path):
    found = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    found.create("patients", n=60_000, epsilon=1.0, delta=1e-6)
    found.create("in order", n=60_000, epsilon=1.0, delta=1e-6, notion="gaussian", adjacency="replace")
    found.create("at order 3", n=60_000, epsilon=8.0, delta=1e-6, order=3.0)
    return found


POISSON = dp.Run(n=60_000, sampling=dp.Poisson(60), steps=300, noise_multiplier=4.0)
SCORE = dp.Run(n=60_000, sampling=dp.FullBatch(), steps=1, noise_multiplier=90.0)
CYCLIC = dp.Run(n=60_000, sampling=dp.Cyclic(600), steps=300, noise_multiplier=40.0, adjacency="replace")


def test_every_kind_of_reservation_is_proved(ledger):
    patients, in_order = ledger.account("patients"), ledger.account("in order")
    patients.reserve(POISSON).commit()
    patients.reserve(POISSON, done=200)
    patients.reserve(dp.compose(POISSON.replace(sampling=dp.FixedSize(60), noise_multiplier=6.0), SCORE))
    patients.reserve(dp.Selection([dp.compose(POISSON.replace(noise_multiplier=z), SCORE) for z in (8.0, 9.0, 8.0)], 0.5))
    patients.reserve(POISSON.replace(n=500, sampling=dp.Poisson(5)), part=("sites", "north"))
    in_order.reserve(CYCLIC).commit()
    in_order.reserve(
        CYCLIC.replace(
            noise_multiplier=90.0, step_size=0.5, smoothness=1.0, strong_convexity=0.1, l2=0.1, diameter=2.0, released="last"
        )
    )
    ledger.account("at order 3").reserve(POISSON.replace(noise_multiplier=1.0))
    assert ledger.verify() == []
    assert ledger.unproved() == []


def test_random_allocation_is_proved(ledger):
    ledger.account("patients").reserve(POISSON.replace(sampling=dp.RandomAllocation(600), noise_multiplier=8.0))
    assert ledger.unproved() == []


def test_a_cost_that_is_a_little_too_low_is_found(ledger):
    """By 3.5 parts in 10^9; where a divergence is next to 0 it is rounded up by more."""
    ledger.account("patients").reserve(SCORE)
    ledger.account("patients").reserve(POISSON)
    entries = ledger.entries()
    assert list(unproved(entries)) == []
    for number, share in ((4, 3.5e-9), (5, 1e-6)):
        changed = [replace(one, cost=one.cost * (1 - share)) if one.number == number else one for one in entries]
        assert list(unproved(changed)) == [f"entry {number}: the cost of its run was not proved: another bound may give less."]


def test_equal_runs_are_looked_at_again_at_another_cost_or_order(ledger):
    for name in ("patients", "at order 3", "patients"):
        ledger.account(name).reserve(SCORE)
    *entries, last = ledger.entries()
    assert list(unproved([*entries, last])) == []
    at_order_3 = entries[-1].cost
    assert at_order_3 < last.cost
    for cost in (at_order_3, last.cost * (1 - 1e-6), 0.0, None):
        (said,) = unproved([*entries, replace(last, cost=cost)])
        assert said.startswith("entry 6: the cost of its run was not proved")


def test_a_part_of_an_account_under_replacement_is_not_proved(ledger):
    ledger.account("in order").reserve(CYCLIC)
    *entries, last = ledger.entries()
    changed = [*entries, replace(last, partition="sites", part="north")]
    assert list(unproved(changed)) == ["entry 4 says nothing that could be proved."]


def test_a_budget_that_is_too_large_is_found(ledger):
    entries = ledger.entries()
    for place, what in ((0, "such costs allow a larger epsilon"), (1, "such costs allow a larger delta")):
        terms = entries[place].data
        terms["budget"] *= 1 + 1e-8
        changed = [*entries[:place], replace(entries[place], body=canonical(terms)), *entries[place + 1 :]]
        assert list(unproved(changed)) == [f"entry {place + 1}: its budget was not proved: {what}."]


@pytest.mark.parametrize("change", [{"order": 1.0}, {"order": None}, {"delta": "x"}, {"n": 0}])
def test_terms_that_are_none_are_not_proved(ledger, change):
    """At order 1 a budget says nothing of delta."""
    first, *rest = ledger.entries()
    changed = [replace(first, body=canonical(first.data | change)), *rest]
    assert list(unproved(changed)) == ["entry 1 says nothing that could be proved."]


def test_a_selection_without_a_divergence_is_not_proved(ledger):
    """Written by hand: no account takes it."""
    ledger.create("replaced", n=60_000, epsilon=8.0, delta=1e-6, adjacency="replace")
    ledger.account("replaced").reserve(CYCLIC)
    one = POISSON.replace(sampling=dp.RandomAllocation(600), adjacency="replace")
    entries = ledger.entries()
    entries[-1] = replace(entries[-1], body=canonical({"run": dp.Selection([one, one]).to_dict()}))
    assert list(unproved(entries)) == [f"entry {entries[-1].number} says nothing that could be proved."]


@pytest.mark.parametrize(
    "body",
    [
        {"run": POISSON.replace(n=60_001).to_dict()},
        {"run": POISSON.replace(unit="person").to_dict()},
        {"run": POISSON.replace(adjacency="replace").to_dict()},
        {"run": None},
        {"run": {"n": 3}},
        {},
        {"run": POISSON.to_dict(), "done": 300},
        {"run": POISSON.to_dict(), "done": "x"},
    ],
)
def test_what_says_nothing_is_not_proved(ledger, body):
    ledger.account("patients").reserve(SCORE)
    entries = ledger.entries()
    changed = [*entries[:-1], replace(entries[-1], body=canonical(body))]
    assert list(unproved(changed)) == ["entry 4 says nothing that could be proved."]
    assert list(unproved([replace(entries[0], body="{}")])) == ["entry 1 says nothing that could be proved."]
    assert list(unproved([entries[-1]])) == ["entry 4 says nothing that could be proved."]
