"""Whatever goes wrong is one line, and nothing is reserved."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, event, text

import dplateau as dp
from dplateau.ledger import book, database


def one_line(call, said):
    with pytest.raises(dp.InputError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return caught.value


@pytest.fixture
def file(tmp_path):
    """A ledger in a file, and its path."""
    path = tmp_path / "privacy.db"
    dp.Ledger(f"sqlite:///{path}").create("patients", n=1000, epsilon=2.0, delta=1e-6)
    return path


def account_of(url):
    return dp.Ledger(url).account("patients", who="north")


def set_for_all(url, setting):
    """Set something for all who connect to a server's database from now on."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"ALTER DATABASE {engine.url.database} SET {setting}"))
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("privacy.db", "not a database address: expected sqlite"),
        ("", "not a database address"),
        ("sqlite://", "in memory forgets"),
        ("sqlite:///:memory:", "in memory forgets"),
        ("mysql://me@host/x", "not in mysql"),
    ],
)
def test_addresses(url, said):
    one_line(lambda: dp.Ledger(url), said)
    with pytest.raises(dp.InputError, match="is a text"):
        dp.Ledger(None)


def test_a_file_that_is_not_there_is_not_made(tmp_path, full):
    path = tmp_path / "privicy.db"
    one_line(lambda: account_of(f"sqlite:///{path}").reserve(full()), "there is no ledger at")
    assert not path.exists()
    one_line(lambda: dp.Ledger(f"sqlite:///{tmp_path}/no/a.db").create("a", n=9, epsilon=1.0, delta=1e-3), "that its folder exists")


def test_another_folder_finds_the_same_file(tmp_path, monkeypatch, full):
    monkeypatch.chdir(tmp_path)
    ledger = dp.Ledger()
    ledger.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.account("patients").reserve(full())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_database_of_somebody_else(url, full):
    engine = create_engine(dp.Ledger(url).url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE theirs (x INTEGER)"))
    engine.dispose()
    one_line(lambda: account_of(url).reserve(full()), "holds no ledger")
    dp.Ledger(url).create("patients", n=1000, epsilon=2.0, delta=1e-6)
    account_of(url).reserve(full())


def test_a_newer_schema(ledger, url, account, full):
    engine = create_engine(ledger.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE ledger_version SET version_num = '9999'"))
    engine.dispose()
    one_line(lambda: account.reserve(full()), "has schema 9999, and this version knows 0001: update dplateau")
    one_line(lambda: ledger.create("b", n=9, epsilon=1.0, delta=1e-3), "has schema 9999")
    one_line(ledger.entries, "has schema 9999")


def test_an_older_schema(ledger, account, full, monkeypatch):
    monkeypatch.setattr(database, "OLDER", ("0001",))
    monkeypatch.setattr(database, "VERSION", "0002")
    one_line(lambda: account.reserve(full()), "has the older schema 0001: call Ledger")


def test_a_file_that_is_no_database(tmp_path, full):
    path = tmp_path / "privacy.db"
    path.write_text("epsilon,delta\n" * 100)
    one_line(lambda: account_of(f"sqlite:///{path}").reserve(full()), "file is not a database.*name another file")
    assert path.read_text() == "epsilon,delta\n" * 100


def test_a_file_that_may_only_be_read(file, full):
    account = account_of(f"sqlite:///file:{file}?mode=ro&uri=true")
    one_line(lambda: account.reserve(full()), "readonly.*ask for permission to write. Nothing was written")
    assert account.state().reserved == 0


def test_a_full_disk(file, full):
    account = account_of(f"sqlite:///{file}")
    engine = database._engine(account.url)

    def limit(connection, _):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    event.listen(engine, "connect", limit)
    granted = []

    def until_full():
        while True:
            granted.append(account.reserve(full(200.0)))

    one_line(until_full, r"full.*free some space\. Nothing was written")
    event.remove(engine, "connect", limit)
    assert account.state().reserved == len(granted)
    assert dp.Ledger(account.url).verify() == []
    account.reserve(full(200.0))


def test_a_file_that_may_not_grow(file):
    """The operating system's limit, in a process of its own."""
    code = f"""
import resource, signal, dplateau as dp
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
account = dp.Ledger("sqlite:///{file}").account("patients")
run = dp.Run(n=1000, sampling=dp.FullBatch(), steps=1, noise_multiplier=200.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))
granted = 0
try:
    while True:
        account.reserve(run)
        granted += 1
except dp.LedgerError as error:
    print(granted, error, sep="|")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    granted, said = done.stdout.strip().split("|")
    assert "cannot be used" in said
    account = account_of(f"sqlite:///{file}")
    assert account.state().reserved == int(granted) > 0
    assert dp.Ledger(account.url).verify() == []


def test_a_file_that_somebody_holds(tmp_path, full, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    path = tmp_path / "privacy.db"
    dp.Ledger(f"sqlite:///{path}").create("patients", n=1000, epsilon=2.0, delta=1e-6)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    account = account_of(f"sqlite:///{path}")
    one_line(lambda: account.reserve(full()), "locked.*another process holds it: try again. Nothing was written")
    assert account.state().reserved == 0
    holder.execute("ROLLBACK")
    holder.close()
    account.reserve(full())


def test_a_server_that_is_not_there(tmp_path, full):
    account = account_of(f"postgresql://me:secret@/x?host={tmp_path}")
    error = one_line(
        lambda: account.reserve(full()), "cannot be used.*check the address, the server and the file. Nothing was written"
    )
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@host/x",
        "postgresql://me@host/x?password=secret",
        "postgresql://host/x?user=me&sslpassword=secret",
        "postgresql://me:p@secret@host/x",
        "postgresql://me:p@ss/secret@host/x",
        "postgresql://me:p@secret?word@host/x",
        "postgresql://me:p@secret?word=1@host/x",
        "postgres://me:secret@host/x",
    ],
)
def test_no_message_shows_a_password(address):
    try:
        said = repr(dp.Ledger(address)) + database.shown(dp.Ledger(address).url)
    except dp.InputError as error:
        said = str(error)
        assert "write those of its password as %40" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    "setting",
    [
        "extra_float_digits = -15",  # numbers are read with one digit
        "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'",
        "client_encoding = 'LATIN1'",
    ],
)
def test_what_a_server_has_set_changes_nothing(postgres, full, setting):
    ledger = dp.Ledger(postgres)
    ledger.create("患者", n=1000, epsilon=2.0, delta=1e-6)
    set_for_all(ledger.url, setting)
    account = ledger.account("患者")
    with ThreadPoolExecutor(4) as pool:
        granted = [one for one in pool.map(lambda _: reserved(account, full(8.0)), range(20)) if one]
    assert 0 < len(granted) < 20
    assert sum(one.cost for one in granted) <= account.state().budget < sum(one.cost for one in granted) + granted[0].cost
    assert ledger.verify() == []


@pytest.mark.parametrize("option", ["autocommit=1", "autocommit=false"])
def test_no_address_turns_transactions_off(postgres, full, monkeypatch, option):
    dp.Ledger(postgres).create("patients", n=1000, epsilon=2.0, delta=1e-6)
    account = account_of(f"{postgres}&{option}")
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    with database.connected(account.url, write=True):
        one_line(lambda: account.reserve(full()), "another process holds it")
    append = book.append

    def broken(connection, **fields):
        append(connection, **fields)
        raise KeyboardInterrupt

    monkeypatch.setattr(book, "append", broken)
    with pytest.raises(KeyboardInterrupt):
        account.reserve(full())
    assert account.state().reserved == 0


def test_a_power_failure_takes_back_nothing_that_sqlite_wrote(file):
    with database.connected(dp.Ledger(f"sqlite:///{file}").url, write=True) as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3  # EXTRA


def test_a_power_failure_takes_back_nothing_that_a_server_wrote(postgres):
    """It waits for the disk before it says that an entry is written, whatever was set."""
    ledger = dp.Ledger(postgres)
    ledger.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    set_for_all(ledger.url, "synchronous_commit = off")
    with database.connected(ledger.url, write=True) as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


@pytest.mark.parametrize("option", ["nolock=1", "immutable=1", "vfs=unix-none"])
def test_no_address_turns_locks_off(file, option):
    one_line(lambda: dp.Ledger(f"sqlite:///file:{file}?uri=true&{option}"), "in its address SQLite may keep no locks")


def reserved(account, run):
    try:
        return account.reserve(run)
    except dp.BudgetError:
        return None


def test_a_database_without_an_encoding(server, full):
    """psycopg would hand on its texts as bytes."""
    engine = create_engine(dp.Ledger(server).url, isolation_level="AUTOCOMMIT")
    name = f"ascii_{os.getpid()}"
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"))
    try:
        ledger = dp.Ledger(engine.url.set(database=name).render_as_string(hide_password=False))
        ledger.create("患者", n=1000, epsilon=2.0, delta=1e-6)
        ledger.account("患者").reserve(full())
        assert ledger.verify() == []
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_is_lost(postgres, full, monkeypatch, when):
    ledger = dp.Ledger(postgres)
    ledger.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    append = book.append

    def lost(connection, **fields):
        def cut():
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
            engine = create_engine(ledger.url)
            with engine.begin() as other:
                other.execute(text(f"SELECT pg_terminate_backend({pid})"))
            engine.dispose()

        if when == "before":
            cut()
        entry = append(connection, **fields)
        if when == "after":
            cut()
        return entry

    monkeypatch.setattr(book, "append", lost)
    known = "Nothing was written" if when == "before" else "It is not known whether the entry was written"
    one_line(lambda: account_of(postgres).reserve(full()), known)
    monkeypatch.undo()
    assert account_of(postgres).state().reserved == 0
    account_of(postgres).reserve(full())
    assert ledger.verify() == []


def test_what_fails_in_python_leaves_no_entry(account, ledger, full, monkeypatch):
    def broken(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(book, "append", broken)
    with pytest.raises(KeyboardInterrupt):
        account.reserve(full())
    monkeypatch.undo()
    assert account.state().reserved == 0
    account.reserve(full())
