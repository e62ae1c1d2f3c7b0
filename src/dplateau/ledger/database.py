"""Where the ledger lives: one connection an operation, one transaction a connection, and one plain line where that fails.

Connections are not kept: a ledger survives ``fork``, pickling and a server that was restarted, and no lock outlives an operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dplateau.ledger.schema import OLDER, VERSION, VERSION_TABLE
from dplateau.spec import InputError, LedgerError
from dplateau.spec.missing import explained

PATIENCE: Final = 30
"""Seconds to wait for other writers."""
_LOCK: Final = 0x6470_6C61_7465_6175
"""The number of the advisory lock that writers on PostgreSQL hold: "dplateau" in ASCII."""
_WRITES: Final = "ledger_writes"
_REMEDIES: Final = (
    ("file is not a database", "name another file"),
    ("full", "free some space"),
    ("readonly", "ask for permission to write"),
    ("read-only", "ask for permission to write"),
    ("permission denied", "ask for permission"),
    ("unable to open", "check that its folder exists and that you may write there"),
    ("locked", "another process holds it: try again"),
    ("lock timeout", "another process holds it: try again"),
    ("neither changed nor removed", "write a new entry"),
)
_UNLOCKED: Final = ("immutable", "nolock", "vfs")
"""Options of an address with which SQLite may not lock its file."""


def normal(url: str) -> str:
    """The address of a database as ``Ledger`` keeps it: the file of SQLite by its whole path, PostgreSQL with its driver.

    Raises
    ------
    InputError
        It is not an address of a database that can hold a ledger.
    """
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise InputError("this is not a database address: expected sqlite:///FILE or postgresql://USER@HOST/DATABASE.") from None
    backend = found.get_backend_name()
    if backend not in ("sqlite", "postgresql", "postgres"):
        raise InputError(f"a ledger is kept in SQLite or PostgreSQL, not in {backend}: name another database.")
    if backend != "sqlite":
        if found.password is not None and url.split(":", 2)[2].count("@") > 1:  # what follows the first one would be shown
            raise InputError("the address of the ledger has several @: write those of its password as %40, and its / as %2F.")
        return _text(found.set(drivername="postgresql+psycopg"))
    if not found.database or found.database == ":memory:":
        raise InputError("a ledger in memory forgets what was spent: name a file, such as sqlite:///privacy.db.")
    if unlocked := [option for option in _UNLOCKED if option in found.query]:
        raise InputError(
            f"with {unlocked[0]} in its address SQLite may keep no locks, and two trainings could spend one budget: leave it out."
        )
    if not found.database.startswith("file:"):
        found = found.set(database=str(Path(found.database).absolute()))
    return _text(found.set(drivername="sqlite"))


def _text(url: URL) -> str:
    try:
        text = url.render_as_string(hide_password=False)  # newer versions of SQLAlchemy encode it, older ones do not
        text.encode()
    except UnicodeEncodeError:
        raise InputError("the address of the ledger, with its folder, is not UTF-8 text: name another one.") from None
    return text


def shown(url: str) -> str:
    """The address without a password, and without options, which may hold one, too."""
    return make_url(url).set(query={}).render_as_string(hide_password=True)


@contextmanager
def connected(url: str, *, write: bool = False, fresh: bool = False) -> Iterator[Connection]:
    """A connection in a transaction, committed if the block ends well. Of several that write, one goes on at a time.

    One that does not write sees the ledger of one moment, and the database refuses to write for it.

    Parameters
    ----------
    url : str
        As ``normal`` gives it.
    write : bool
        Whether the block writes. Its transaction then holds the only right to do so from its beginning.
    fresh : bool
        Whether the database may lack our tables, or have older ones.

    Raises
    ------
    LedgerError
        It cannot be reached, read or written, or holds no ledger that this version can use.
    """
    ending = False
    try:
        if not fresh:
            _check_file(url)
        with _engine(url).connect().execution_options(**{_WRITES: write}) as connection:
            transaction = connection.begin()
            if not fresh:
                _check_version(url, connection)
            yield connection
            ending = write
            transaction.commit()
    except (SQLAlchemyError, UnicodeEncodeError) as error:  # the latter of a name
        raise _told(url, error, ending) from None


def upgrade(url: str) -> None:
    """Make our tables, or bring older ones up to date, in one transaction.

    Raises
    ------
    LedgerError
        The database cannot be written, or its schema is newer than this version.
    """
    with connected(url, write=True, fresh=True) as connection:
        version = _version(connection)
        if version == VERSION:
            return
        if version is not None and version not in OLDER:
            raise _newer(url, version)
        with explained():
            from alembic import command
            from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, VERSION)


@cache
def _engine(url: str) -> Engine:
    sqlite = make_url(url).get_backend_name() == "sqlite"
    # What an address says of these does not count: without transactions no writer would wait for another.
    if sqlite:
        limits: dict[str, Any] = {"timeout": PATIENCE}
    else:
        limits = {"connect_timeout": 10, "client_encoding": "utf8", "autocommit": False}
    with explained():  # The driver is imported here.
        engine = create_engine(url, poolclass=NullPool, connect_args=limits)
    if sqlite:

        @event.listens_for(engine, "connect")
        def _(connection: Any, _: Any) -> None:
            # We say when transactions begin. EXTRA: as FULL, and a power failure right after a commit does not undo it.
            connection.isolation_level = None
            connection.execute("PRAGMA synchronous=EXTRA")

        @event.listens_for(engine, "begin")
        def _(connection: Connection) -> None:
            writes = connection.get_execution_options().get(_WRITES)
            connection.exec_driver_sql(f"PRAGMA query_only = {'OFF' if writes else 'ON'}")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    else:

        @event.listens_for(engine, "begin")
        def _(connection: Connection) -> None:
            # Not what servers, databases and roles may have set: numbers are read exactly, and what is read after the lock is new.
            connection.exec_driver_sql("SET LOCAL extra_float_digits = 3")
            if connection.get_execution_options().get(_WRITES):
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{PATIENCE}s'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            else:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    return engine


def _check_file(url: str) -> None:
    """SQLite would make an empty file where there is none."""
    found = make_url(url)
    if found.get_backend_name() == "sqlite" and not Path((found.database or "").removeprefix("file:")).is_file():
        raise LedgerError(f"there is no ledger at {shown(url)}: check the address, or make one with dplateau ledger create.")


def _check_version(url: str, connection: Connection) -> None:
    version = _version(connection)
    if version is None:
        raise LedgerError(f"the database at {shown(url)} holds no ledger: make one with dplateau ledger create.")
    if version in OLDER:
        raise LedgerError(f"the ledger at {shown(url)} has the older schema {version}: call Ledger(url).upgrade() once.")
    if version != VERSION:
        raise _newer(url, version)


def _newer(url: str, version: str) -> LedgerError:
    return LedgerError(f"the ledger at {shown(url)} has schema {version}, and this version knows {VERSION}: update dplateau.")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _told(url: str, error: Exception, ending: bool) -> LedgerError:
    """What the database said, as one line, and what to do."""
    said = " ".join(str(getattr(error, "orig", None) or error).split())
    said = re.split(r" CONTEXT: | Is the server running| LINE \d", said)[0].rstrip(".")
    remedy = next((remedy for word, remedy in _REMEDIES if word in said.lower()), "check the address, the server and the file")
    known = "It is not known whether the entry was written; if it was, it stays" if ending else "Nothing was written"
    return LedgerError(f"the ledger at {shown(url)} cannot be used ({said}): {remedy}. {known}.")
