"""A ledger counts as a filter does, on every database; only what is reserved is spent, and nothing comes back."""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

import dplateau as dp
from dplateau.filter import Filter, cost_of
from dplateau.ledger import Account, Head, book
from dplateau.ledger.database import connected

NAME = "patients"


def test_it_refuses_when_a_filter_does(account, full):
    kept = Filter(n=1000, epsilon=2.0, delta=1e-6)
    runs = [full(4.0), dp.Run(n=1000, sampling=dp.Poisson(50), steps=20, noise_multiplier=2.0), full(3.0)] * 8
    refused = 0
    for run in runs:
        assert account.state().left == pytest.approx(kept.left, abs=1e-12)
        if kept.allows(run):
            kept.spend(run)
            account.reserve(run)
        else:
            refused += 1
            with pytest.raises(dp.BudgetError):
                account.reserve(run)
    assert refused
    state = account.state()
    assert state.reserved == len(kept.runs)
    assert state.spent == pytest.approx(kept.spent)
    assert (state.budget, state.order) == (kept.budget, kept.order)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("notion", ["renyi", "gaussian"])
def test_the_whole_budget_can_be_spent(url, full, notion, adjacency):
    ledger = dp.Ledger(url)
    ledger.create("a", n=1000, epsilon=1.0, delta=1e-6, notion=notion, adjacency=adjacency)
    account = ledger.account("a")
    run = full(10.0, adjacency=adjacency)
    kept = Filter(n=1000, epsilon=1.0, delta=1e-6, notion=notion, adjacency=adjacency)
    most = math.floor(kept.budget / (1 + 2e-9) / kept.cost(run))
    for _ in range(most):
        account.reserve(run)
    with pytest.raises(dp.BudgetError):
        account.reserve(run)
    assert account.state().reserved == most
    assert ledger.verify() == []


def test_a_refusal_says_what_would_fit_and_it_does(account, full):
    run = dp.Run(n=1000, sampling=dp.Poisson(50), steps=400, noise_multiplier=1.8)
    account.reserve(full())
    with pytest.raises(dp.BudgetError) as refused:
        account.reserve(run)
    said = str(refused.value)
    assert "\n" not in said
    assert "of it is left: nothing was reserved." in said
    z = float(said.split("noise_multiplier ")[1].split(",")[0])
    steps = int(said.split("the first ")[1].split(" of its")[0])
    with pytest.raises(dp.BudgetError):
        account.reserve(run.replace(noise_multiplier=0.99 * z))
    with pytest.raises(dp.BudgetError):
        account.reserve(run.replace(steps=steps + 1))
    assert account.state().reserved == 1
    account.reserve(run.part(0, steps))
    assert account.state().reserved == 2


def test_a_refusal_of_a_schedule_scales_it(account, full):
    with pytest.raises(dp.BudgetError, match=r"What would fit: [0-9.]+ times its noise"):
        account.reserve(full((0.5, 0.7), steps=2))
    with pytest.raises(dp.BudgetError, match=r"nothing was reserved\.$"):
        account.reserve(dp.compose(full(0.5), full(0.5)))


def test_a_refusal_where_noise_fits_exactly(ledger, full):
    account = ledger.account(NAME)
    with pytest.raises(dp.BudgetError) as refused:
        account.reserve(full(0.3))
    z = float(str(refused.value).split("noise_multiplier ")[1].rstrip("."))
    account.reserve(full(z))
    assert account.state().left < 0.01


def test_a_run_without_a_bound_is_refused(url, full):
    ledger = dp.Ledger(url)
    ledger.create("a", n=1000, epsilon=1.0, delta=1e-6, notion="gaussian")
    with pytest.raises(dp.BudgetError, match="no proved bound gives the run a GDP bound"):
        ledger.account("a").reserve(dp.Run(n=1000, sampling=dp.Poisson(10), steps=3, noise_multiplier=9.0))
    assert ledger.account("a").state().spent == 0


def test_runs_are_one_reservation_at_what_they_cost_together(account, full):
    runs = dp.compose(full(9.0), dp.Run(n=1000, sampling=dp.Poisson(50), steps=20, noise_multiplier=3.0))
    order = account.state().order
    reserved = account.reserve(runs)
    assert reserved.cost <= sum(cost_of(one, order) for one in runs.runs) * (1 + 2e-9)
    assert reserved.run == runs
    assert account.state().reserved == 1
    reserved.commit()


def test_a_composition_costs_the_larger_of_its_directions():
    poisson = dp.Run(n=1000, sampling=dp.Poisson(300), steps=5, noise_multiplier=0.8)
    runs = dp.compose(poisson, poisson.replace(noise_multiplier=1.2))
    each = [cost_of(one, 8.0) for one in runs.runs]
    assert max(each) < cost_of(runs, 8.0) <= sum(each) * (1 + 2e-9)
    assert cost_of(dp.compose(poisson), 8.0) == pytest.approx(cost_of(poisson, 8.0))
    full = poisson.replace(sampling=dp.FullBatch())
    assert cost_of(dp.compose(full, full), None) == pytest.approx(2 * 5 / 0.8**2)
    assert cost_of(dp.compose(full, poisson), None) == math.inf


def test_a_part_costs_only_where_it_is_the_largest(ledger, account, full):
    def spent() -> float:
        return account.state().spent

    one = account.reserve(full(6.0)).cost
    assert spent() == pytest.approx(one)
    north = [account.reserve(full(6.0, n=400), part=("shards", "north")).cost for _ in range(2)]
    assert spent() == pytest.approx(one + sum(north))
    south = [account.reserve(full(6.0, n=600), part=("shards", "south")).cost for _ in range(3)]
    assert spent() == pytest.approx(one + sum(south))
    other = account.reserve(full(7.0, n=10), part=("years", "north")).cost
    assert spent() == pytest.approx(one + sum(south) + other)
    account.reserve(full(6.0, n=400), part=("shards", "north"))
    assert spent() == pytest.approx(one + sum(south) + other)
    shares = {(partition, part): share * account.state().budget for partition, part, share in account.state().parts}
    assert shares == {
        ("shards", "north"): pytest.approx(sum(south)),
        ("shards", "south"): pytest.approx(sum(south)),
        ("years", "north"): pytest.approx(other),
    }
    assert ledger.verify() == []


def test_a_part_that_is_behind_has_more_room(account, full):
    granted = []

    def until_refused():
        while True:
            granted.append(account.reserve(full(6.0, n=500), part=("s", "a")))

    with pytest.raises(dp.BudgetError, match="is left for part 'a' of 's'"):
        until_refused()
    with pytest.raises(dp.BudgetError):
        account.reserve(full(6.0))
    for _ in granted:
        account.reserve(full(6.0, n=500), part=("s", "b"))
    with pytest.raises(dp.BudgetError):
        account.reserve(full(6.0, n=500), part=("s", "b"))


def test_parts_that_overlap_are_refused(ledger, account, full):
    """As folds to train on do: a record is in all but one of them, and the account would pay for one."""
    for fold in "ab":
        account.reserve(full(50.0, n=400), part=("folds", fold))
    account.reserve(full(50.0, n=300), part=("folds", "a"))  # a run on some of them
    account.reserve(full(50.0, n=1000), part=("others", "all"))
    with pytest.raises(dp.InputError, match=r"the parts of 'folds' have 1,200 records together, and the account 1,000") as error:
        account.reserve(full(50.0, n=400), part=("folds", "c"))
    assert "\n" not in str(error.value)
    account.reserve(dp.compose(full(50.0, n=600), full(60.0, n=600)), part=("folds", "a"))
    with pytest.raises(dp.InputError, match="1,001 records together"):
        account.reserve(full(50.0, n=1), part=("folds", "c"))
    assert [entry.data["places"] for entry in ledger.entries()[1:]] == [
        [400, 400],
        [800, 400],
        [800, 400],
        [1000, 1000],
        [1000, 600],
    ]
    assert ledger.verify(costs=True) == []


def test_entries_of_earlier_versions_say_nothing_of_places(ledger, account, full, monkeypatch):
    from dplateau.ledger import account as accounts

    append = accounts.book.append
    with monkeypatch.context() as older:
        older.setattr(
            accounts.book,
            "append",
            lambda *given, body, **fields: append(*given, body={k: v for k, v in body.items() if k != "places"}, **fields),
        )
        for part in "abc":
            account.reserve(full(50.0, n=500), part=("s", part))
    account.reserve(full(50.0, n=500), part=("s", "d"))
    assert ledger.entries()[-1].data["places"] == [500, 500]
    assert ledger.verify(costs=True) == [  # They overlap, whoever wrote them.
        "entry 4 is on a part of 's', whose parts have more records than the account: they overlap.",
        "entry 5 says that partition and part have [500, 500] places, and they have [2000, 500].",
        "entry 5 is on a part of 's', whose parts have more records than the account: they overlap.",
    ]


def test_verify_adds_up_the_places(ledger, account, full, monkeypatch):
    from dplateau.ledger import account as accounts

    account.reserve(full(50.0, n=600), part=("s", "a"))
    monkeypatch.setattr(accounts, "_places", lambda *_: [600, 600])
    account.reserve(full(50.0, n=600), part=("s", "b"))
    assert ledger.verify() == [
        "entry 3 says that partition and part have [600, 600] places, and they have [1200, 600].",
        "entry 3 is on a part of 's', whose parts have more records than the account: they overlap.",
    ]


def test_parts_are_refused_under_replacement(url, full):
    ledger = dp.Ledger(url)
    ledger.create("a", n=1000, epsilon=1.0, delta=1e-6, adjacency="replace")
    with pytest.raises(dp.InputError, match=r"part is for add-remove.*may move from one part to another"):
        ledger.account("a").reserve(full(9.0, adjacency="replace"), part=("s", "a"))


def test_a_commit_names_certificate_and_weights_and_gives_nothing_back(ledger, account):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 3)) / 3, rng.integers(0, 2, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.PrivacyWarning)
        model = dp.PrivateLogisticRegression(epsilon=0.5, delta=1e-6, max_iter=5, classes=[0, 1], insecure_seed=1).fit(X, y)
    certificate = model.certificate_
    reservation = account.reserve(certificate.run)
    before = account.state().spent
    with pytest.raises(dp.InputError, match="another run"):
        account.reserve(dp.Run(n=1000, sampling=dp.FullBatch(), steps=1, noise_multiplier=50.0)).commit(certificate)
    reservation.commit(certificate)
    assert account.state().spent >= before
    assert account.state().committed == 1
    entry = ledger.entries()[-1]
    assert (entry.kind, entry.reservation) == ("committed", reservation.number)
    assert entry.data == {
        "certificate_sha256": hashlib.sha256(certificate.to_json().encode()).hexdigest(),
        "weights_sha256": certificate.weights_sha256,
        "certifies": False,
    }
    (charge,) = ledger.charges(certificate)
    assert charge == tuple(one for one in ledger.entries() if one.number in (reservation.number, entry.number))
    with pytest.raises(dp.InputError, match="committed already"):
        reservation.commit(certificate)
    with pytest.raises(dp.InputError, match="expected a certificate"):
        reservation.commit("certificate.json")


def test_a_reservation_is_of_its_ledger(account, ledger, tmp_path, full):
    other = dp.Ledger(f"sqlite:///{tmp_path}/other.db")
    other.create(NAME, n=1000, epsilon=2.0, delta=1e-6)
    reservation = account.reserve(full())
    moved = type(reservation)(other.account(NAME), reservation.number, reservation.run, reservation.cost)
    with pytest.raises(dp.InputError, match="has no reservation 2"):
        moved.commit()


def test_runs_on_other_records_are_refused(account, full):
    for run, part, said in (
        (full(n=1001), None, "the run has n 1,001, and the account 1,000 records in all"),
        (full(n=1001), ("s", "a"), "the run has n 1,001, and the account 1,000 records in all"),
        (full(adjacency="replace"), None, "adjacency replace, the account add-remove"),
        ("run", None, "expected a run, got str"),
        (full(), "north", "part is not a pair"),
        (full(), ("a", ""), "the part is ''"),
        (full(), ("a", "b\n"), "the part is"),
    ):
        with pytest.raises(dp.InputError, match=said):
            account.reserve(run, part=part)
    assert account.state().reserved == 0


def test_a_run_on_some_of_the_records_counts_as_one_on_all(account, full):
    assert account.reserve(full(n=999)).cost == account.reserve(full()).cost
    assert account.state().parts == ()


def test_names(ledger):
    with pytest.raises(dp.InputError, match="has an account 'patients' already"):
        ledger.create(NAME, n=10, epsilon=1.0, delta=1e-3)
    with pytest.raises(dp.InputError, match=r"no account 'patient' \(accounts: patients\)"):
        ledger.account("patient").state()
    for name in ("", " ", "a\nb", "x" * 101, 3):
        with pytest.raises(dp.InputError, match="name is"):
            ledger.create(name, n=10, epsilon=1.0, delta=1e-3)
    with pytest.raises(dp.InputError, match="purpose is"):
        ledger.account(NAME, purpose="a\nb")
    assert ledger.account(NAME).who
    with pytest.raises(dp.InputError, match="notion is"):
        ledger.create("b", n=10, epsilon=1.0, delta=1e-3, notion="pure")
    assert [state.name for state in ledger.accounts()] == [NAME]


def test_a_closed_account_reserves_nothing_but_commits(ledger, account, full):
    reservation = account.reserve(full())
    ledger.close(NAME)
    with pytest.raises(dp.BudgetError, match="is closed"):
        account.reserve(full())
    reservation.commit()
    assert account.state().closed
    with pytest.raises(dp.InputError, match="closed already"):
        ledger.close(NAME)
    assert [entry.kind for entry in ledger.entries(NAME)] == ["opened", "reserved", "closed", "committed"]
    assert ledger.verify() == []


def test_accounts_do_not_share_a_budget(ledger, account, full):
    ledger.create("other", n=1000, epsilon=2.0, delta=1e-6)
    account.reserve(full())
    assert ledger.account("other").state().spent == 0
    assert [entry.account for entry in ledger.entries("other")] == ["other"]
    assert len(ledger.entries()) == 3


def test_accounts_and_partitions_may_have_parts_of_the_same_name(ledger, account, full):
    """What was spent, and how many places are taken, is that of the account, the partition and the part."""
    ledger.create("other", n=1000, epsilon=2.0, delta=1e-6)
    other = ledger.account("other")
    account.reserve(full(9.0, n=600), part=("shards", "north"))
    south = other.reserve(full(30.0, n=600), part=("shards", "south")).cost
    account.reserve(full(9.0, n=600), part=("years", "south"))
    north = other.reserve(full(60.0, n=400), part=("shards", "north")).cost
    years = [other.reserve(full(z, n=900), part=("years", "north")).cost for z in (40.0, 50.0)]
    assert north < south
    assert other.state().spent == pytest.approx(south + sum(years))
    assert [one[:2] for one in other.state().parts] == [("shards", "north"), ("shards", "south"), ("years", "north")]
    assert ledger.verify() == []


def test_an_account_can_be_pickled_copied_and_compared(account, full):
    for other in (pickle.loads(pickle.dumps(account)), copy.deepcopy(account), copy.copy(account)):
        assert isinstance(other, Account)
        assert other == account
        other.reserve(full(50.0))
    assert account.state().reserved == 3
    assert len(pickle.dumps(account)) < 500
    reservation = pickle.loads(pickle.dumps(account.reserve(full(50.0))))
    reservation.commit()


def test_what_an_entry_says(ledger, account, full):
    run = full(9.0, n=300)
    account.reserve(run, part=("shards", "north"))
    opened, reserved = ledger.entries()
    assert (opened.kind, opened.data["unit"], opened.data["n_is"]) == ("opened", "row", "public by declaration")
    assert (reserved.who, reserved.partition, reserved.part) == ("north", "shards", "north")
    assert dp.Run.from_dict(reserved.data["run"]) == run
    assert reserved.data["purpose"] == "a test"
    assert reserved.previous == opened.digest
    assert reserved.digest == reserved.computed()
    assert ledger.head() == Head(2, reserved.digest)
    assert ledger.verify(ledger.head()) == []


def test_passwords_are_not_shown():
    ledger = dp.Ledger("postgresql://me:secret@nowhere.invalid/x")
    assert "secret" not in repr(ledger)
    assert "secret" not in repr(ledger.account("a"))
    with pytest.raises(dp.LedgerError) as error:
        ledger.entries()
    assert "secret" not in str(error.value)


def test_entries_are_neither_changed_nor_removed(ledger, account, full):
    account.reserve(full())
    engine = create_engine(ledger.url)
    copied = "INSERT INTO ledger_entries SELECT {}, time, kind, account, who, 77, partition, part, cost, spent, partition_spent, "
    copied += "part_spent, body, previous, digest FROM ledger_entries WHERE number = 2"
    statements = [
        "UPDATE ledger_entries SET cost = 0 WHERE number = 2",
        "DELETE FROM ledger_entries WHERE number = 2",
        copied.format(4),
        copied.format(2),
    ]
    if engine.dialect.name == "postgresql":
        statements.append("TRUNCATE ledger_entries")
    for statement in statements:
        with pytest.raises(DBAPIError), engine.begin() as connection:
            connection.execute(text(statement))
    engine.dispose()
    assert ledger.verify() == []


def test_who_trains_needs_to_select_and_insert_only(postgres, full):
    owner = dp.Ledger(postgres)
    owner.create(NAME, n=1000, epsilon=2.0, delta=1e-6)
    engine = create_engine(owner.url)
    role = f"trainer_{make_url(owner.url).database}"
    with engine.begin() as connection:
        connection.execute(text(f"CREATE ROLE {role} LOGIN"))
        connection.execute(text(f"GRANT SELECT, INSERT ON ledger_entries TO {role}"))
        connection.execute(text(f"GRANT SELECT ON ledger_version TO {role}"))
    try:
        mine = dp.Ledger(make_url(owner.url).set(username=role).render_as_string(hide_password=False))
        mine.account(NAME).reserve(full()).commit()
        assert mine.verify() == []
        with pytest.raises(DBAPIError), create_engine(mine.url).begin() as connection:
            connection.execute(text("ALTER TABLE ledger_entries DISABLE TRIGGER USER"))
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {role}"))
            connection.execute(text(f"DROP ROLE {role}"))
        engine.dispose()


def test_migrations_make_the_table_that_queries_see(ledger):
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from dplateau.ledger import migrations, schema

    config = Config()
    config.set_main_option("script_location", migrations.__path__[0])
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [schema.VERSION]
    assert {one.revision for one in script.walk_revisions()} == {schema.VERSION, *schema.OLDER}
    engine = create_engine(ledger.url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_importing_dplateau_loads_no_database():
    code = "import sys, dplateau; dplateau.Run; print({'sqlalchemy', 'alembic', 'psycopg', 'dplateau.ledger'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_a_forecast_comes_true_and_takes_nothing(ledger, account, full):
    before = ledger.head()
    foreseen = account.forecast(full())
    assert (foreseen.fits, foreseen.left, foreseen.says) == (True, 1.0, "")
    assert ledger.head() == before
    account.reserve(full())
    assert account.state().left == foreseen.leaves == pytest.approx(1 - foreseen.cost)
    part = ("shards", "north")
    account.reserve(full(n=10), part=part)
    spent = account.state().left
    again, other = (account.forecast(full(6.0, n=10), part=("shards", name)) for name in ("north", "south"))
    assert again.leaves < other.leaves == spent < other.room
    assert other.room == pytest.approx(foreseen.leaves)
    account.reserve(full(6.0, n=10), part=("shards", "south"))
    account.reserve(full(6.0, n=10), part=part)
    assert account.state().left == again.leaves


def test_a_forecast_says_what_a_refusal_says(ledger, account, full):
    foreseen = account.forecast(full(0.3))
    assert (foreseen.fits, foreseen.leaves) == (False, 1.0)
    with pytest.raises(dp.BudgetError) as refused:
        account.reserve(full(0.3))
    assert foreseen.says.startswith("What would fit: ")
    assert str(refused.value).endswith(foreseen.says)
    for run, part in ((full(n=1001), None), (full(adjacency="replace"), None), (full(), ("shards",)), ("run", None)):
        with pytest.raises(dp.InputError) as wrong:
            account.reserve(run, part=part)
        with pytest.raises(dp.InputError) as foreseen:
            account.forecast(run, part=part)
        assert str(foreseen.value) == str(wrong.value)
    ledger.close(NAME)
    assert account.forecast(full()).says == "The account is closed."


def test_a_history_is_of_one_moment(ledger, account, full):
    account.reserve(full()).commit()
    assert ledger.history(NAME) == (account.state(), ledger.entries(NAME))
    with pytest.raises(dp.InputError, match="no account 'nobody'"):
        ledger.history("nobody")


def test_who_only_reads_cannot_write(ledger):
    with pytest.raises(dp.LedgerError), connected(ledger.url) as connection:
        book.append(connection, kind="closed", account=NAME, who="x", body={})
    if ledger.url.startswith("postgresql"):  # in SQLite the writer waits until the reader has done
        with connected(ledger.url) as connection:
            first = book.head(connection)
            ledger.close(NAME)
            assert book.head(connection) == first
