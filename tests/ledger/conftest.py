"""Ledgers in SQLite, and in PostgreSQL where a server can be had: by DPLATEAU_POSTGRES, or one that is started here."""

from __future__ import annotations

import glob
import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

import dplateau as dp

NUMBERS = itertools.count()


def programs() -> str | None:
    """The folder of PostgreSQL's programs."""
    folders = [os.path.dirname(found) for found in [shutil.which("postgres")] if found]
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return next((one for one in folders if Path(one, "initdb").exists() and Path(one, "postgres").exists()), None)


@pytest.fixture(scope="session")
def server():
    """The address of a server."""
    if given := os.environ.get("DPLATEAU_POSTGRES"):
        yield given
        return
    pytest.importorskip("psycopg")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed, and DPLATEAU_POSTGRES names no server")
    prefix = []
    if os.geteuid() == 0:  # which the server refuses
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        prefix = ["runuser", "-u", "postgres", "--"]
    home = tempfile.mkdtemp(prefix="pg", dir="/tmp")  # a socket's path must be short
    try:
        if prefix:
            shutil.chown(home, "postgres")

        def run(*command: str) -> None:
            done = subprocess.run([*prefix, *command], cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                pytest.skip(f"PostgreSQL does not start: {done.stderr[-200:]}")

        run(f"{folder}/initdb", "-D", f"{home}/data", "-A", "trust", "-U", "dplateau")
        options = f"-c listen_addresses='' -c max_connections=50 -k {home}"
        run(f"{folder}/pg_ctl", "-D", f"{home}/data", "-o", options, "-l", f"{home}/log", "-w", "start")
        yield f"postgresql://dplateau@/postgres?host={home}"
        subprocess.run(
            [*prefix, f"{folder}/pg_ctl", "-D", f"{home}/data", "-m", "immediate", "stop"], cwd=home, capture_output=True
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def postgres(server):
    """An empty database."""
    name = f"ledger_{os.getpid()}_{next(NUMBERS)}"
    address = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield address.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The address of a database without a ledger."""
    return f"sqlite:///{tmp_path}/privacy.db" if request.param == "sqlite" else request.getfixturevalue("postgres")


@pytest.fixture
def ledger(url):
    """A ledger with one account."""
    found = dp.Ledger(url)
    found.create("patients", n=1000, epsilon=2.0, delta=1e-6)
    return found


@pytest.fixture
def account(ledger):
    return ledger.account("patients", who="north", purpose="a test")


@pytest.fixture
def full():
    """A run on all records with one step of a full batch."""

    def make(z: float = 5.0, n: int = 1000, steps: int = 1, **more):
        return dp.Run(n=n, sampling=dp.FullBatch(), steps=steps, noise_multiplier=z, **more)

    return make


@pytest.fixture
def raw():
    """Runs statements as somebody who owns the database: without the triggers that refuse them."""

    def run(url: str, *statements: str) -> None:
        engine = create_engine(dp.Ledger(url).url)
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                for name in ("no_update", "no_delete", "next"):
                    connection.execute(text(f"DROP TRIGGER IF EXISTS ledger_entries_{name}"))
            else:
                connection.execute(text("ALTER TABLE ledger_entries DISABLE TRIGGER USER"))
            for one in statements:
                connection.execute(text(one))
        engine.dispose()

    return run
