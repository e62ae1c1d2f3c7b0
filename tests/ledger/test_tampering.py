"""``verify`` finds what somebody who owns the database did, and says nothing where nothing was done."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, delete, insert, select

import dplateau as dp
from dplateau.ledger import Entry
from dplateau.ledger.entry import NAMES, NOTHING, Head, canonical
from dplateau.ledger.schema import entries as table
from dplateau.ledger.verify import problems


@pytest.fixture
def busy(ledger, account, full):
    """Nine entries."""
    account.reserve(full(9.0)).commit()
    account.reserve(full(9.0, n=500), part=("shards", "north"))
    ledger.create("other", n=1000, epsilon=1.0, delta=1e-6)
    ledger.account("other", who="east").reserve(full(20.0)).commit()
    account.reserve(full(9.0)).commit()
    assert ledger.verify() == []
    assert len(ledger.entries()) == 9
    return ledger


@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("time", "'2020-01-01T00:00:00+00:00'"),
        ("kind", "'closed'"),
        ("account", "'elsewhere'"),
        ("who", "'somebody'"),
        ("reservation", "77"),
        ("partition", "'years'"),
        ("part", "'south'"),
        ("cost", "0.001"),
        ("spent", "0.001"),
        ("partition_spent", "0.001"),
        ("part_spent", "0.001"),
        ("body", "'{}'"),
        ("previous", f"'{NOTHING[1:]}1'"),
        ("digest", f"'{NOTHING}'"),
    ],
)
def test_a_changed_entry_is_found(tmp_path, full, raw, column, value, number):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    account = ledger.account("patients")
    ledger.create("other", n=1000, epsilon=2.0, delta=1e-6)
    for _ in range(3):
        account.reserve(full(20.0, n=500), part=("shards", "north"))
    for _ in range(2):
        ledger.account("other").reserve(full(20.0)).commit()
    assert ledger.verify() == []
    before = ledger.entries()[number - 1]
    raw(ledger.url, f"UPDATE ledger_entries SET {column} = {value} WHERE number = {number}")
    changed = getattr(ledger.entries()[number - 1], column) != getattr(before, column)
    found = ledger.verify()
    assert bool(found) == changed
    if changed:
        assert any(f"entry {number} has not the digest of what it says" in one for one in found)


TERMS = {"adjacency": "add-remove", "budget": 1.0, "delta": 1e-6, "epsilon": 2.0, "n": 1000, "n_is": "", "notion": "renyi"}


@pytest.mark.parametrize(
    ("column", "value", "number"),
    [
        *((["time", "digest", "previous", "who", "kind", "account", "body"][k % 7], "X'ff'", 1 + k % 5) for k in range(7)),
        *((column, value, 2) for column in ("cost", "spent", "reservation") for value in ("''", "9e999", "X'00'")),
        *(("part_spent", value, 4) for value in ("''", "-9e999", "-1.0")),
        *(("spent", value, 5) for value in ("'x'", "-5.0", "9e999")),
        *(("body", f"'{value}'", 4) for value in ("", "[]", "null", "3", '{"places":3}', '{"places":[1]}', '{"run":Infinity}')),
        *(("body", f"'{value}'", 2) for value in ("", "[]", "null", "3", '{"run":{"n":Infinity}}')),
        ("body", "-5.0", 2),
        *(("body", f"'{'[' * 100_000}'", number) for number in (1, 2, 4)),
        *(
            ("body", f"'{json.dumps({**TERMS, 'order': 8.0, 'unit': 'row', **change})}'", 1)
            for change in (
                {"budget": "x"},
                {"budget": math.nan},
                {"budget": math.inf},
                {"budget": -1.0},
                {"budget": 0.0},
                {"budget": 10**400},
                {"order": 10**400},
                {"n": "k"},
                {"order": "a"},
            )
        ),
        ("digest", "X'ff'", 5),
    ],
)
def test_what_is_of_another_type_is_one_sentence_and_found(tmp_path, full, column, value, number):
    """Whoever writes a file of SQLite by hand may write anything anywhere."""
    busy = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    busy.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    busy.account("patients").reserve(full(20.0)).commit()
    busy.account("patients").reserve(full(20.0, n=500), part=("shards", "north"))
    busy.account("patients").reserve(full(20.0))
    with sqlite3.connect(tmp_path / "privacy.db") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(f"UPDATE ledger_entries SET {column} = {value} WHERE number = {number}")
    assert busy.verify()
    assert busy.verify(costs=True)
    account, run, part = busy.account("patients"), full(20.0), {"run": full(20.0, n=500), "part": ("shards", "north")}
    calls = [lambda: account.reserve(run, done=1), lambda: account.reserve(**part), lambda: account.forecast(run), account.state]
    calls += [busy.accounts, busy.head, lambda: [one.to_dict() for one in busy.entries()], lambda: busy.close("patients")]
    for call in calls:
        with suppress(dp.InputError, dp.BudgetError):  # and nothing else
            call()


@pytest.mark.parametrize("number", [1, 2, 5, 8])
def test_a_removed_entry_is_found(busy, url, raw, number):
    raw(url, f"DELETE FROM ledger_entries WHERE number = {number}")
    assert any(f"entry {number + 1} follows entry {number - 1}" in one for one in busy.verify())


def test_a_removed_entry_is_found_where_the_others_were_numbered_again(busy, url, raw):
    raw(
        url,
        "DELETE FROM ledger_entries WHERE number = 5",
        *(f"UPDATE ledger_entries SET number={n - 1} WHERE number={n}" for n in range(6, 10)),
    )
    assert any("entry 5 does not follow entry 4" in one for one in busy.verify())


def test_entries_that_changed_places_are_found(busy, url, raw):
    moves = ((4, 99), (6, 4), (99, 6))
    raw(url, *(f"UPDATE ledger_entries SET number = {new} WHERE number = {old}" for old, new in moves))
    found = busy.verify()
    assert any("entry 4 does not follow entry 3" in one for one in found)
    assert any("entry 6 has not the digest of what it says" in one for one in found)


def test_an_inserted_entry_is_found(busy, url, raw):
    """One that follows the entry before it, as if it had always been there."""
    raw(url, *(f"UPDATE ledger_entries SET number = {n + 1} WHERE number = {n}" for n in range(9, 4, -1)))
    entries = busy.entries()
    inserted = replace(entries[1], number=5, previous=entries[3].digest)
    inserted = replace(inserted, digest=inserted.computed())
    write(url, insert(table).values(dict(zip(NAMES, (getattr(inserted, name) for name in NAMES), strict=True))))
    assert any("entry 6 does not follow entry 5" in one for one in busy.verify())


def test_a_truncated_end_is_found_with_a_head_only(busy, url, raw):
    head = busy.head()
    raw(url, "DELETE FROM ledger_entries WHERE number > 6")
    assert busy.verify() == []
    assert busy.verify(head) == ["the ledger ends with entry 6, and entry 9 is known: the last ones were cut off."]
    assert busy.verify(busy.head()) == []


def test_what_was_written_again_from_the_beginning_is_found_with_a_head_only(busy, url, raw):
    head = busy.head()
    rewritten, last = [], NOTHING
    for entry in busy.entries():
        who = "somebody" if entry.number == 1 else entry.who
        new = replace(entry, who=who, previous=last)
        rewritten.append(replace(new, digest=new.computed()))
        last = rewritten[-1].digest
    raw(url)
    rows = [{name: getattr(entry, name) for name in NAMES} for entry in rewritten]
    write(url, delete(table), insert(table).values(rows))
    assert busy.verify() == []
    assert busy.verify(tuple(head)) == ["entry 9 has not the digest that is known: it, or one before it, was written again."]


def write(url, *statements):
    engine = create_engine(dp.Ledger(url).url)
    with engine.begin() as connection:
        for one in statements:
            connection.execute(one)
        connection.execute(select(table)).all()
    engine.dispose()


# Entries that follow from each other, written by somebody who knows how, and that say what cannot be.


def chained(*changes: dict, entries: list[Entry]) -> list[Entry]:
    last = Head(entries[-1].number, entries[-1].digest)
    for one in changes:
        what = {"account": "patients", "who": "x", "time": "t", "body": "{}"} | one
        entry = Entry(number=last.number + 1, previous=last.digest, **what)
        entry = replace(entry, digest=entry.computed())
        entries = [*entries, entry]
        last = Head(entry.number, entry.digest)
    return entries


@pytest.fixture
def first(tmp_path):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/one.db")
    ledger.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    return ledger.entries()


STEP = dp.Run(n=1000, sampling=dp.FullBatch(), steps=1, noise_multiplier=50.0)
RUN = canonical({"run": STEP.to_dict(), "purpose": ""})
RESERVED = {"kind": "reserved", "cost": 0.25, "spent": 0.25, "body": RUN}
PART = RESERVED | {"partition": "s", "partition_spent": 0.25, "part_spent": 0.25}
HALF = PART | {"body": canonical({"run": STEP.replace(n=500).to_dict()})}


def test_what_is_right_is_right(first):
    assert problems(chained(RESERVED, {"kind": "committed", "reservation": 2}, {"kind": "closed"}, entries=first), None) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([RESERVED, RESERVED], "says that 0.25 is spent, and the costs add up to 0.5"),
        ([RESERVED | {"spent": 0.2500001}], "and the costs add up to 0.25"),
        ([RESERVED | {"spent": None}], "says that None is spent"),
        (2 * [RESERVED | {"cost": 1.5e308}], "says that 0.25 is spent, and the costs add up to inf"),
        ([RESERVED | {"cost": -1.0, "spent": -1.0}], "reserves a run without a cost"),
        ([RESERVED | {"cost": 5.0, "spent": 5.0}], "exceeds the budget of 'patients'"),
        ([RESERVED | {"body": "{}"}], "names no run"),
        ([RESERVED | {"body": canonical({"run": {}})}], "names no run"),
        ([RESERVED | {"body": canonical({"run": STEP.replace(n=1001).to_dict()})}], "the run has n 1,001, and the account 1,000"),
        (
            [RESERVED | {"body": canonical({"run": STEP.replace(unit="person").to_dict()})}],
            "of the run is a person, of the account a",
        ),
        ([RESERVED | {"body": canonical({"run": STEP.replace(adjacency="replace").to_dict()})}], "they must agree"),
        (
            [PART | {"part": "a"}, PART | {"part": "b", "spent": 0.25}],
            "whose parts have more records than the account: they overlap",
        ),
        ([{"kind": "closed", "who": "\x1b[2J"}], "holds characters that cannot be printed"),
        *(
            ([PART | {"part": "a", field: f"x{hidden}"}], "entry 2 holds characters that cannot be printed")
            for field, hidden in (
                ("partition", "\x1b[2J"),
                ("part", "\u202e"),
                ("who", "\n"),
                ("time", "\x7f"),
                ("account", "\x9b"),
            )
        ),
        ([{"kind": "closed", "body": '{"a":"\u202e"}'}], "holds characters that cannot be printed"),
        ([RESERVED | {"partition": "s"}], "a part without a partition"),
        ([RESERVED | {"part": "a"}], "a part without a partition"),
        ([RESERVED | {"cost": None}], "reserves a run without a cost"),
        ([PART | {"part": "a", "partition_spent": 0.2}], "says that 0.2 is spent, and the costs add up to 0.25"),
        ([PART | {"part": "a", "part_spent": 0.2}], "says that 0.2 is spent, and the costs add up to 0.25"),
        ([HALF | {"part": "a"}, HALF | {"part": "a", "part_spent": 0.3}], "says that 0.3 is spent, and the costs add up to 0.5"),
        (
            [HALF | {"part": "a"}, HALF | {"part": "b", "partition": "t", "spent": 0.3}],
            "says that 0.3 is spent, and the costs add up",
        ),
        ([RESERVED | {"partition": "s", "part": "a"}], "says that None is spent"),
        ([RESERVED | {"account": "other"}], "which was not opened"),
        ([{"kind": "closed"}, RESERVED], "which is closed"),
        ([{"kind": "committed", "reservation": 1}], "which reserved nothing"),
        ([RESERVED, *2 * [{"kind": "committed", "reservation": 2}]], "commits entry 2 again"),
        ([{"kind": "refunded"}], "is of no known kind"),
        ([{"kind": "opened"}], "opens the account 'patients' again"),
        ([{"kind": "opened", "account": "b"}], "terms that are none"),
        ([{"kind": "closed", "body": "{"}], "not JSON"),
    ],
)
def test_what_cannot_be_is_found(first, changes, said):
    found = problems(chained(*changes, entries=first), None)
    assert any(said in one for one in found), found


def test_parts_of_an_account_under_replacement_are_found(first):
    terms = first[0].data | {"adjacency": "replace"}
    opened = {"kind": "opened", "account": "b", "body": canonical(terms)}
    run = canonical({"run": STEP.replace(adjacency="replace", n=500).to_dict()})
    found = problems(chained(opened, PART | {"account": "b", "part": "a", "body": run}, entries=first), None)
    assert any("part is for add-remove" in one for one in found), found


def test_a_raised_budget_is_found(first):
    terms = first[0].data
    assert problems(chained({"kind": "opened", "account": "b", "body": canonical(terms)}, entries=first), None) == []
    terms["budget"] *= 1.01
    found = problems(chained({"kind": "opened", "account": "b", "body": canonical(terms)}, entries=first), None)
    assert found == ["entry 2 has a larger budget than epsilon and delta allow."]


@pytest.mark.parametrize("terms", [{"order": None}, {"notion": "gaussian", "order": 8.0}])
def test_a_budget_in_one_notion_and_costs_in_another_are_found(first, terms):
    """Squared mus are smaller than divergences: a budget of these would admit several times as much."""
    opened = {"kind": "opened", "account": "b", "body": canonical(first[0].data | terms)}
    assert problems(chained(opened, entries=first), None) == ["entry 2 opens an account with terms that are none."]


def test_a_run_that_is_called_cheap_is_found_when_costs_are_asked(busy, full):
    """Whoever writes to the database may append an entry that fits the chain, and whose sums fit its cost."""
    assert busy.verify(costs=True) == []
    last = busy.entries()[-1]
    spent = busy.account("patients").state()
    body = canonical({"run": full(0.5).to_dict(), "purpose": ""})
    before = next(one for one in reversed(busy.entries("patients")) if one.spent is not None)
    cheap = replace(
        before,
        number=last.number + 1,
        previous=last.digest,
        cost=1e-6,
        spent=before.spent + 1.001e-6,
        body=body,
        partition=None,
        part=None,
        partition_spent=None,
        part_spent=None,
    )
    entries = [*busy.entries(), replace(cheap, digest=cheap.computed())]
    assert spent.left > 0
    assert not any("costs" in one and "it costs" in one for one in problems(entries, None))
    assert any("says that its run costs 1e-06, and it costs" in one for one in problems(entries, None, costs=True))


def test_equal_runs_of_accounts_in_other_notions_cost_what_they_cost_there(tmp_path):
    """Squared mus are smaller than divergences."""
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    for name, notion in (("divergences", "renyi"), ("squares", "gaussian")):
        ledger.create(name, n=1000, epsilon=2.0, delta=1e-6, notion=notion)
    large, small, *_ = (ledger.account(name).reserve(STEP).cost for name in ("divergences", "squares", "divergences"))
    assert small < large / 2
    assert ledger.verify(costs=True) == []
    *entries, last = ledger.entries()
    found = problems([*entries, replace(last, cost=small)], None, costs=True)
    assert f"entry 5 says that its run costs {small:.6g}, and it costs {large:.6g}." in found


@pytest.mark.parametrize(("run", "says"), [({"n": 3}, "no run that can be read"), (None, "no run that can be read")])
def test_a_run_that_is_none_is_found_when_costs_are_asked(busy, run, says):
    entries = busy.entries()
    number = next(one.number for one in entries if one.kind == "reserved")
    one = entries[number - 1]
    entries[number - 1] = replace(one, body=canonical({"run": run, "purpose": ""}))
    assert any(says in problem for problem in problems(entries, None, costs=True))


@pytest.mark.parametrize("head", [(0, "x"), (0, "1" * 64), (-1, NOTHING), (True,), ("1", NOTHING)])
def test_a_head_that_no_entry_can_have_is_refused(tmp_path, head):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    assert ledger.verify((0, NOTHING)) == ledger.verify(ledger.head()) == []
    with pytest.raises(dp.InputError, match="head is not a pair"):
        ledger.verify(head)
