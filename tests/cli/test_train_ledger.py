"""``dplateau train --ledger``: nothing is trained that was not reserved, and what was reserved stays spent."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import dplateau as dp

pytest.importorskip("sqlalchemy")


@pytest.fixture
def ledger(tmp_path):
    found = dp.Ledger(f"sqlite:///{tmp_path / 'privacy.db'}")
    found.create("people", n=2000, epsilon=2.0, delta=1e-5)
    return found


def command(table, folder, ledger, *more, epsilon=1.0):
    return (
        *("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", epsilon, "--output", folder),
        *("--ledger", ledger.url, "--dataset", "people", *more),
    )


def test_a_training_is_charged_and_its_certificate_noted(dplateau, table, tmp_path, ledger):
    code, _, _ = dplateau(*command(table, tmp_path / "model", ledger, "--steps", 20, "--purpose", "a first look"))
    assert code == 0
    opened, reserved, committed = ledger.entries("people")
    assert (opened.kind, reserved.kind, committed.kind) == ("opened", "reserved", "committed")
    assert reserved.data["purpose"] == "a first look"
    written = (tmp_path / "model" / "certificate.json").read_bytes()
    assert committed.data["certificate_sha256"] == hashlib.sha256(written).hexdigest()
    assert dp.Run.from_dict(reserved.data["run"]) == dp.Run.from_dict(json.loads(written)["run"])


def test_what_the_budget_does_not_cover_is_refused_in_one_line_and_leaves_nothing(dplateau, table, tmp_path, ledger):
    code, out, err = dplateau(*command(table, tmp_path / "model", ledger, epsilon=8))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "nothing was reserved" in err
    assert "What would fit: noise_multiplier" in err
    assert not (tmp_path / "model").exists()
    assert ledger.account("people").state().reserved == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ledger", "sqlite:///{0}/privacy.db"), "--ledger and --dataset go together"),
        (("--dataset", "people"), "--ledger and --dataset go together"),
        (("--purpose", "none"), "--purpose is for a ledger"),
        (("--ledger", "sqlite:///{0}/other.db", "--dataset", "people"), "there is no ledger"),
        (("--ledger", "sqlite:///{0}/privacy.db", "--dataset", "others"), "no account 'others'"),
        (("--ledger", "mysql://x", "--dataset", "people"), "SQLite or PostgreSQL"),
    ],
    ids=["alone", "dataset", "purpose", "missing", "account", "kind"],
)
@pytest.mark.usefixtures("ledger")
def test_wrong_ledgers_are_found_before_the_rows_are_read(dplateau, tmp_path, options, says):
    arguments = [one.format(tmp_path) for one in options]
    (tmp_path / "others.csv").write_text("no row of Adult\n")
    code, out, err = dplateau("train", tmp_path / "others.csv", "--schema", "adult", "--epsilon", 1, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("after", [0.0, 0.05, 0.3])
def test_a_killed_training_stays_spent(table, tmp_path, ledger, after):
    arguments = [str(one) for one in command(table, tmp_path / "model", ledger, "--steps", 200_000)]
    account = ledger.account("people")
    process = subprocess.Popen(
        [sys.executable, "-m", "dplateau", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        deadline = time.monotonic() + 120
        while account.state().reserved == 0 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    finally:
        process.wait()
    state = account.state()
    assert (state.reserved, state.committed) == (1, 0)
    assert state.left < 1
    assert ledger.verify() == []
    assert not (tmp_path / "model").exists()
