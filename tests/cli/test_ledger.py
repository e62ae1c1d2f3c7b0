import csv
import json
import sqlite3
import sys

import pytest

import dplateau as dp

CREATE = ("ledger", "create", "patients", "--n", 1000, "--epsilon", 2, "--delta", 1e-6)
RUN = dp.Run(n=1000, sampling=dp.FullBatch(), steps=3, noise_multiplier=20.0)


OPENED = ("budget", 0), ("budget", 5e-324), ("epsilon", 0), ("delta", 0), ("n", 0), ("adjacency", "'x'")


@pytest.fixture
def ledger(tmp_path, monkeypatch, dplateau):
    monkeypatch.chdir(tmp_path)
    code, out, err = dplateau(*CREATE)
    assert (code, err) == (0, "")
    assert out.startswith("patients\n100 % of the budget is left\n")
    return dp.Ledger()


@pytest.mark.parametrize(
    "wanted",
    [
        {"adjacency": "replace", "unit": "person", "order": 60.0, "n_is": "from a census"},
        {"notion": "gaussian"},
    ],
)
def test_an_account_is_opened_as_it_was_asked_for(dplateau, ledger, wanted):
    options = [one for name, value in wanted.items() for one in (f"--{name.replace('_', '-')}", value)]
    code, out, err = dplateau("ledger", "create", "a", "--n", 500, "--epsilon", 0.7, "--delta", 1e-7, *options, "--json")
    assert (code, err) == (0, "")
    ledger.create("b", n=500, epsilon=0.7, delta=1e-7, **wanted)
    state = ledger.account("b").state().to_dict()
    assert {name: state[name] for name in wanted if name in state} == {name: wanted[name] for name in wanted if name in state}
    assert json.loads(out)["account"] == json.loads(json.dumps(state)) | {"name": "a"}


def test_costs_are_accounted_for_again_where_that_is_asked(dplateau, ledger, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("dplateau.ledger.account.continued", lambda run, done: (run.replace(noise_multiplier=1e6), done))
        ledger.account("patients").reserve(RUN)
    assert dplateau("ledger", "verify")[0] == 0
    code, out, _ = dplateau("ledger", "verify", "--costs")
    assert code == 1
    assert "entry 2 says that its run costs" in out


def test_show(dplateau, ledger):
    ledger.account("patients", who="north", purpose="readmissions").reserve(RUN).commit()
    ledger.account("patients", who="south").reserve(RUN.replace(n=10), part=("shards", "south"))
    ledger.account("patients", who="south").reserve(dp.compose(RUN, RUN))
    code, out, err = dplateau("ledger", "show", "patients")
    assert (code, err) == (0, "")
    for said in ("reserved: 3 steps; readmissions", "committed 2", "shards: south", "2 runs, 6 steps", "3 reserved, 1 of them"):
        assert said in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = dplateau("ledger", "show")
    assert out.splitlines()[1].split()[:2] == ["patients", "1,000"]
    code, out, _ = dplateau("ledger", "show", "patients", "--json")
    data = json.loads(out)
    assert data["account"]["reserved"] == 3
    assert dp.Run.from_dict(data["entries"][1]["body"]["run"]) == RUN
    assert json.loads(dplateau("ledger", "show", "--json")[1])["accounts"][0]["name"] == "patients"


def test_many_entries_are_not_all_shown(dplateau, ledger):
    for _ in range(25):
        ledger.account("patients").reserve(RUN.replace(noise_multiplier=500.0))
    out = dplateau("ledger", "show", "patients")[1]
    assert "and 6 earlier entries" in out


def test_long_names_hide_nothing(dplateau, ledger):
    ledger.account("patients", who="n" * 100, purpose="readmissions").reserve(RUN)
    out = dplateau("ledger", "show", "patients")[1]
    assert out.count("n" * 20) >= 3
    for said in ("opened", "reserved: 3", "readmissions"):
        assert said in out
    assert max(map(len, out.splitlines())) <= 80


def test_verify_prove(dplateau, ledger, monkeypatch):
    pytest.importorskip("flint")
    ledger.account("patients", who="north").reserve(RUN)
    code, out, err = dplateau("ledger", "verify", "--prove")
    assert (code, err) == (0, "")
    assert out.splitlines()[1] == "every cost and budget is proved a second time, in ball arithmetic"
    assert json.loads(dplateau("ledger", "verify", "--prove", "--json")[1])["unproved"] == []
    assert "unproved" not in json.loads(dplateau("ledger", "verify", "--json")[1])
    monkeypatch.setattr(dp.Ledger, "unproved", lambda self: [f"entry {k} was not." for k in range(30)])
    code, out, _ = dplateau("ledger", "verify", "--prove")
    assert code == 2
    assert out.splitlines()[1] == "not everything was proved a second time"
    assert "entry 3 was not." in out
    assert " more" in out


def test_verify_prove_without_python_flint(dplateau, ledger, monkeypatch):
    for name in [one for one in sys.modules if one.startswith("dplateau.verifier") and not one.endswith("outcome")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flint", None)
    code, out, err = dplateau("ledger", "verify", "--prove")
    assert (code, out) == (2, "")
    assert err.startswith("dplateau: this needs flint: python -m pip install '.[verify]'")
    assert dplateau("ledger", "verify")[0] == 0


def test_a_head_is_one_word(dplateau, ledger):
    """Whoever keeps it copies it: it is not cut off, however many entries there are."""
    for _ in range(9):
        ledger.account("patients").reserve(RUN.replace(noise_multiplier=500.0))
    assert f"10:{ledger.head().digest}" in dplateau("ledger", "verify")[1].split()


def test_verify(dplateau, ledger):
    code, out, err = dplateau("ledger", "verify")
    assert (code, err) == (0, "")
    assert "no head was given" in out
    head = "1:" + ledger.head().digest
    assert head in out
    ledger.account("patients").reserve(RUN)
    code, out, _ = dplateau("ledger", "verify", "--head", head)
    assert code == 0
    assert "entry 1" in out
    assert dplateau("ledger", "verify", "--costs")[0] == 0
    assert dplateau("ledger", "verify", "--head", "5:" + 64 * "a")[0] == 1
    assert dplateau("ledger", "verify", "--head", "5:aa")[0] == 2  # cut off by who copied it, and no sign of a change
    assert dplateau("ledger", "verify", "--head", f"{'9' * 5000}:{'a' * 64}")[0] == 2
    assert dplateau("ledger", "verify", "--head", "5")[::2] == (
        2,
        "dplateau: --head is '5': expected NUMBER:DIGEST, as dplateau ledger verify prints it.\n",
    )
    with sqlite3.connect("privacy.db") as connection:
        connection.execute("DROP TRIGGER ledger_entries_no_update")
        connection.execute("UPDATE ledger_entries SET who = 'nobody' WHERE number = 2")
    code, out, err = dplateau("ledger", "verify")
    assert (code, err) == (1, "")
    assert "NOT what was written" in out
    assert "entry 2 has not the digest" in out
    code, out, _ = dplateau("ledger", "verify", "--json")
    assert code == 1
    assert json.loads(out)["agrees"] is False


@pytest.mark.parametrize(
    "change",
    [
        *(f"{column} = {value}" for column in ("who", "time", "kind") for value in ("x'ff'", "char(27, 91, 50, 74)")),
        "cost = 1e308",
        "spent = 1e308",
        "spent = 1.7e308",
        "partition_spent = -9e999",
        "part_spent = x'ff'",
        f"body = '{'[' * 100_000}'",
        "body = '{\"purpose\": Infinity}'",
        *(f"body = json_set(body, '$.{name}', {value}) WHERE kind = 'opened' --" for name, value in OPENED),
    ],
)
def test_entries_that_were_changed_are_no_crash(dplateau, ledger, change):
    ledger.account("patients").reserve(RUN)
    ledger.account("patients").reserve(RUN.replace(n=10), part=("shards", "north"))
    with sqlite3.connect("privacy.db") as connection:
        connection.execute("DROP TRIGGER ledger_entries_no_update")
        connection.execute(f"UPDATE ledger_entries SET {change} WHERE kind = 'reserved'")
    for command in ("show", "show --json", "show patients", "show patients --json", "export", "export --csv", "verify"):
        code, out, err = dplateau("ledger", *command.split())
        assert "a bug" not in err
        assert "\x1b" not in out + err
        assert code == {"verify": 1}.get(command, code)
        if command.endswith(("json", "export")) and code == 0:
            json.loads(out, parse_constant=pytest.fail)


def test_export(dplateau, ledger, tmp_path):
    ledger.account("patients", purpose='a "quote", a comma').reserve(RUN)
    code, out, err = dplateau("ledger", "export", "--json")
    assert (code, err) == (0, "")
    assert [entry["kind"] for entry in json.loads(out)["entries"]] == ["opened", "reserved"]
    assert dplateau("ledger", "export")[1] == out
    assert dplateau("ledger", "export", "patients", "--csv", "--output", "all.csv")[1] == "2 entries are written to all.csv.\n"
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert json.loads(rows[1]["body"])["purpose"] == 'a "quote", a comma'
    assert rows[1]["digest"] == ledger.head().digest
    assert dplateau("ledger", "export", "--csv", "--output", "all.csv")[0] == 2
    assert dplateau("ledger", "export", "--csv", "--json")[0] == 2


def test_close(dplateau, ledger):
    code, out, _ = dplateau("ledger", "close", "patients")
    assert code == 0
    assert "the account is closed" in out
    assert dplateau("ledger", "close", "patients") == (2, "", "dplateau: the account 'patients' is closed already.\n")
    assert "closed" in dplateau("ledger", "show")[1]


def test_the_address_may_come_from_the_environment(dplateau, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_LEDGER", f"sqlite:///{tmp_path}/privacy.db")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert dplateau("ledger", "show")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "--ledger", "sqlite:///none.db"), "there is no ledger at"),
        (("show", "--ledger", "privacy.db"), "not a database address"),
        (("show", "nobody"), "no account 'nobody' (accounts: patients)"),
        (CREATE[1:], "has an account 'patients' already"),
        (("show", "--ledger", "a", "--ledger", "b"), "--ledger is given 2 times"),
        (("show", "\udcff"), "surrogates not allowed"),  # bytes of a command line that are not UTF-8
        (("show", "--ledger", "sqlite:///\udcff.db"), "the address of the ledger, with its folder, is not UTF-8 text"),
        (("spend",), "No such command 'spend'. Try 'dplateau ledger --help'"),
    ],
)
def test_bad_input_is_one_line(dplateau, ledger, arguments, said):
    code, out, err = dplateau(*(arguments if arguments[0] == "ledger" else ("ledger", *arguments)))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
