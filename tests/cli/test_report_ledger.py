"""``dplateau report --ledger``: whether a release was paid for."""

import json
import sqlite3
from dataclasses import replace

import pytest

import dplateau as dp
from dplateau.certificate import read_certificate
from dplateau.ledger.entry import Entry, canonical

from .test_report import RUN, certified

pytest.importorskip("sqlalchemy")


@pytest.fixture
def file(tmp_path):
    certified().write(tmp_path / "certificate.json")
    return tmp_path / "certificate.json"


@pytest.fixture
def ledger(tmp_path):
    found = dp.Ledger(f"sqlite:///{tmp_path / 'privacy.db'}")
    for name in ("patients", "visits"):
        found.create(name, n=10_000, epsilon=3.0, delta=1e-6)
    return found


@pytest.fixture
def paid(ledger, file):
    """The ledger, where somebody has paid for the file in entries 3 and 6."""
    reservation = ledger.account("patients", who="north", purpose="readmissions").reserve(RUN)
    ledger.account("patients", who="south").reserve(RUN.replace(steps=3)).commit()
    reservation.commit(read_certificate(file))
    return ledger


def refused(dplateau, file, ledger, code=1):
    for more in ((), ("--json",)):
        found, out, err = dplateau("report", file, "--ledger", ledger.url, *more)
        assert (found, out, err.count("\n")) == (code, "", 1)
    assert not file.with_suffix(".html").exists()
    return err


def test_it_was_paid_for(dplateau, file, paid):
    code, out, err = dplateau("report", file, "--ledger", paid.url)
    day = paid.entries()[2].time[:10]
    assert (code, err) == (0, "")
    said = f"entry 3 of account patients: reserved by north on {day}, for readmissions; committed in entry 6"
    assert said in " ".join(out.split())
    (found,) = json.loads(dplateau("report", file, "--ledger", paid.url, "--json")[1])["ledger"]
    assert found == {
        "account": "patients",
        "who": "north",
        "purpose": "readmissions",
        "reserved": 3,
        "committed": 6,
        "reserved_at": paid.entries()[2].time,
        "committed_at": paid.entries()[5].time,
    }


def test_a_file_that_is_laid_out_otherwise_is_the_same_certificate(dplateau, file, paid):
    file.write_text(json.dumps(json.loads(file.read_text()), indent=3))
    assert dplateau("report", file, "--ledger", paid.url)[0] == 0


def test_it_was_paid_for_twice(dplateau, file, paid):
    paid.account("visits", who="east").reserve(RUN).commit(read_certificate(file))
    out = dplateau("report", file, "--ledger", paid.url)[1]
    assert "account patients" in out
    assert "account visits" in out


def test_it_was_not_paid_for(dplateau, file, ledger):
    assert "is in no entry of the ledger" in refused(dplateau, file, ledger)
    reservation = ledger.account("patients").reserve(RUN)
    assert "is in no entry of the ledger" in refused(dplateau, file, ledger)
    reservation.commit()
    assert "is in no entry of the ledger" in refused(dplateau, file, ledger)


def test_another_certificate_of_the_same_run_was_paid_for(dplateau, file, paid):
    text = file.read_text()
    file.write_text(text.replace('"python": "', '"python": "1'))
    assert file.read_text() != text
    assert "is in no entry of the ledger" in refused(dplateau, file, paid)


def test_a_ledger_that_is_none(dplateau, file, tmp_path):
    assert "there is no ledger" in refused(dplateau, file, dp.Ledger(f"sqlite:///{tmp_path}/none.db"), code=2)
    with pytest.raises(dp.InputError, match="expected a certificate"):
        dp.Ledger(f"sqlite:///{tmp_path}/none.db").charges("certificate.json")


def written_again(ledger, number, **fields):
    """What somebody does who owns the database: an entry is changed, its digest with it."""
    entry = ledger.entries()[number - 1]
    entry = replace(entry, **fields)
    if "digest" not in fields:
        entry = replace(entry, digest=entry.computed())
    with sqlite3.connect(ledger.url.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP TRIGGER ledger_entries_no_update")
        names = ("account", "who", "kind", "reservation", "body", "digest")
        sets = ", ".join(f"{name} = ?" for name in names)
        connection.execute(
            f"UPDATE ledger_entries SET {sets} WHERE number = ?", (*(getattr(entry, name) for name in names), number)
        )


def another_run(entry: Entry) -> str:
    return canonical({**entry.data, "run": RUN.replace(steps=1).to_dict()})


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (3, lambda entry: {"body": another_run(entry), "digest": entry.digest}),
        (3, lambda entry: {"body": another_run(entry)}),
        (3, lambda entry: {"body": "[]"}),
        (3, lambda entry: {"body": "{"}),
        (3, lambda entry: {"who": b"north", "digest": entry.digest}),
        (3, lambda entry: {"account": "visits"}),
        (6, lambda entry: {"reservation": 7}),
        (6, lambda entry: {"reservation": 77}),
        (6, lambda entry: {"body": canonical([entry.data["certificate_sha256"]])}),
        (6, lambda entry: {"digest": "0" * 64}),
    ],
)
def test_entries_that_were_changed_pay_for_nothing(dplateau, file, paid, number, fields):
    paid.account("visits", who="east").reserve(RUN.replace(steps=2))
    written_again(paid, number, **fields(paid.entries()[number - 1]))
    assert "is not what was written: 'dplateau ledger verify'" in refused(dplateau, file, paid)
