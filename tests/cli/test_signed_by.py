"""A signature that is demanded, keys that are forgotten, and that nothing good stands beside a signature that does not match."""

import json
import os
import sys

import pytest
from rich.console import Console

from dplateau.certificate import create_key, read_signed, sign, signing_key, trust, verify
from dplateau.cli.main import status
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.report.text import verdict_text
from dplateau.spec import ContradictionError, InputError

from .test_report import SEEDED, certified
from .test_sign import STRANGER, change, training
from .test_terminal import colours, on_a_terminal

GREEN, YELLOW, RED = "32", "33", "31"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def model(tmp_path):
    """The folder of a certificate that anna has signed."""
    (tmp_path / "model").mkdir()
    certified().write(tmp_path / "model" / "certificate.json")
    create_key("anna")
    sign(tmp_path / "model", signing_key("anna"))
    return tmp_path / "model"


def commands(model):
    return ("account", "--run", model), ("report", model)


def refused(dplateau, command, *names, code=1):
    options = [option for name in names for option in ("--signed-by", name)]
    for json_ in ((), ("--json",)):
        found, out, err = dplateau(*command, *options, *json_)
        assert (found, out, err.count("\n")) == (code, "", 1)
    return err


def test_signed_by(dplateau, model):
    ben = trust(STRANGER, "ben")
    fingerprint = read_signed(model)[1].known.fingerprint
    for command in commands(model):
        for names in (["anna"], ["ben", "anna"], [fingerprint]):
            assert dplateau(*command, *(x for name in names for x in ("--signed-by", name)))[0] == 0
        (model / "certificate.html").unlink(missing_ok=True)
        assert "is signed by anna, and a signature by ben is demanded" in refused(dplateau, command, "ben")
        assert "a signature by ben is demanded" in refused(dplateau, command, ben.fingerprint)
        assert "did you mean anna?" in refused(dplateau, command, "ann", code=2)
    assert dplateau("keys", "forget", "anna")[0] == 0
    for command in commands(model):
        assert "is signed by an unknown key" in refused(dplateau, command, "ben")
    change(model)
    for command in commands(model):
        assert "does NOT match" in refused(dplateau, command, "ben")
    (model / "certificate.sig.json").unlink()
    for command in commands(model):
        assert "is not signed, and a signature by ben is demanded" in refused(dplateau, command, "ben")
    assert not (model / "certificate.html").exists()


def test_signed_by_of_several_and_of_runs(dplateau, model, tmp_path):
    other = tmp_path / "other.json"
    certified().write(other)
    both = ("account", "--run", model, "--run", other)
    assert dplateau(*both)[0] == 0
    assert "other.json is not signed" in refused(dplateau, both, "anna")
    sign(other, signing_key("anna"))
    assert dplateau(*both, "--signed-by", "anna")[0] == 0
    (tmp_path / "run.json").write_text(certified().run.to_json())
    assert "only certificates are signed" in refused(dplateau, ("account", "--run", tmp_path / "run.json"), "anna", code=2)
    assert "give them with --run" in refused(dplateau, ("account", "--n", 10), "anna", code=2)


def test_load_model(table, tmp_path):
    create_key("anna")
    trust(STRANGER, "ben")
    assert status([*map(str, training(table, tmp_path / "m")), "--sign", "anna"]) == 0
    assert load_model(tmp_path / "m", signed_by="anna").certificate == TableModel.load(tmp_path / "m").certificate
    with pytest.raises(ContradictionError, match="signed by anna, and a signature by ben is demanded"):
        load_model(tmp_path / "m", signed_by=["ben"])
    for names in ("nobody", ()):
        with pytest.raises(InputError, match=r"no key"):
            TableModel.load(tmp_path / "m", signed_by=names)
    (tmp_path / "m" / "certificate.sig.json").unlink()
    assert load_model(tmp_path / "m")
    with pytest.raises(ContradictionError, match="is not signed"):
        TableModel.load(tmp_path / "m", signed_by="anna")


def test_forget(dplateau, folder):
    made = json.loads(dplateau("keys", "create", "anna", "--json")[1])
    trust(STRANGER, "ben")
    code, out, err = dplateau("keys", "forget", "ben")
    assert (code, err) == (0, "")
    assert "private key" not in out
    assert out.endswith(f"To trust it again:\ndplateau keys trust {STRANGER} --name ben\n")
    code, out, err = dplateau("keys", "forget", "anna")
    assert (code, err) == (0, "")
    assert "and can still sign" in " ".join(out.split())  # where the line breaks depends on the folder's name
    assert (folder / "anna.pem").exists()
    assert dplateau("keys", "forget", "anna") == (
        *(2, "", "dplateau: no key is known as anna: no key is known at all, see 'dplateau keys trust'.\n"),
    )
    assert dplateau("keys", "trust", made["public_key"], "--name", "anna")[0] == 0
    assert json.loads(dplateau("keys", "forget", "anna", "--json")[1])["fingerprint"] == made["fingerprint"]
    code, out, err = dplateau("keys", "forget", "a\x1b[31m/b")
    assert (code, out) == (2, "")
    assert "name of a key" in err
    assert "\x1b" not in err


def test_an_own_key_is_known_again_with_its_passphrase(dplateau, monkeypatch):
    public = create_key("anna", "secret").public_key
    assert dplateau("keys", "forget", "anna")[0] == 0
    code, out, err = dplateau("keys", "trust", public, "--name", "anna")
    assert (code, out) == (2, "")
    assert "set DPLATEAU_PASSPHRASE" in err
    monkeypatch.setenv("DPLATEAU_PASSPHRASE", "secret")
    assert dplateau("keys", "trust", public, "--name", "anna")[0] == 0


def test_a_file_that_has_a_key_for_its_name_is_not_read(dplateau, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / STRANGER).write_text("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert json.loads(dplateau("keys", "trust", STRANGER, "--name", "ben", "--json")[1])["public_key"] == STRANGER
    assert "a public key is 64" in dplateau("keys", "trust", "a" * 5000, "--name", "eve")[2]


def test_escape_codes_in_names_of_files_reach_no_terminal(dplateau, model):
    odd = model.with_name("a\x1b[31mb")
    model.rename(odd)
    for command in (("report", odd), ("report", odd / "none"), ("sign", odd, "--key", "anna")):
        _, out, err = dplateau(*command)
        assert out + err
        assert "\x1b" not in out + err
    (odd / "certificate.sig.json").unlink()
    _, out, err = dplateau("sign", odd, "--key", "anna")
    assert "written to" in out
    assert "\x1b" not in out + err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("state", ["known", "unknown", "unsigned", "mismatch"])
def test_what_is_green(dplateau, model, state, folder):
    if state == "unknown":
        assert dplateau("keys", "forget", "anna")[0] == 0
    if state == "unsigned":
        (model / "certificate.sig.json").unlink()
    if state == "mismatch":
        change(model)
    shown = on_a_terminal(("report", model), DPLATEAU_KEYS=os.environ["DPLATEAU_KEYS"])
    assert colours(shown) & {YELLOW, RED} == {"unknown": {YELLOW}, "mismatch": {RED}}.get(state, set())
    page = (model / "certificate.html").read_text()
    if state == "mismatch":
        assert GREEN not in colours(shown.split("recomputing the certificate")[-1])  # what turns while one waits is green
        assert shown.index("does NOT match") < shown.index("its numbers follow from its run")
        assert ".good-text { color: inherit; }" in page
        assert "(certifies)" not in page
        assert page.index("The signature does NOT match") < page.index("The numbers were computed again")
    else:
        assert "\x1b[1;32m" in shown
        assert ".good-text { color: inherit; }" not in page
        assert "(certifies)" in page


def test_a_verdict_that_is_printed_without_a_check(model):
    """As somebody may do in Python."""
    change(model)
    certificate, signed = read_signed(model)
    console = Console(force_terminal=True, width=80, color_system="standard")
    with console.capture() as capture:
        console.print(verdict_text(certificate, verify(certificate), signed))
    assert capture.get().startswith("\x1b[1;31mthe signature does NOT match")
    assert "\x1b[32m" not in capture.get()
    assert "\x1b[1;32m" not in capture.get()


def test_a_known_signature_of_what_certifies_nothing_is_not_green(dplateau, tmp_path):
    file = tmp_path / "certificate.json"
    certified(SEEDED).write(file)
    create_key("anna")
    sign(file, signing_key("anna"))
    certificate, signed = read_signed(file)
    assert signed.state == "known"
    console = Console(force_terminal=True, width=80, color_system="standard")
    with console.capture() as capture:
        console.print(verdict_text(certificate, verify(certificate), signed))
    assert {RED, YELLOW} <= colours(capture.get())
    assert GREEN not in colours(capture.get())
