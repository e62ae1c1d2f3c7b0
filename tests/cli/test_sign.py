"""Keys, signing, and what is said of signatures, on the command line."""

import json
import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from dplateau.certificate import Signature, create_key, read_signed
from dplateau.cli.main import status
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.spec import ContradictionError, InputError

STRANGER = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("DPLATEAU_PASSPHRASE", raising=False)
    return tmp_path / "keys"


@pytest.fixture(scope="module")
def made(table, tmp_path_factory):
    """A model that train signed, and the keys of the person who did; both are copied before they are used."""
    home = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPLATEAU_KEYS", str(home / "keys"))
        create_key("anna")
        assert status([*map(str, training(table, home / "model")), "--sign", "anna"]) == 0
    return home


@pytest.fixture
def model(made, tmp_path):
    shutil.copytree(made / "model", tmp_path / "model")
    shutil.copytree(made / "keys", tmp_path / "keys")
    return tmp_path / "model"


def training(table, output):
    rows, schema = table / "rows.csv", table / "schema.toml"
    return "train", rows, "--schema", schema, "--epsilon", 2, "--steps", 20, "--output", output


def change(model):
    """A certificate that is consistent, but not what was signed."""
    text = (model / "certificate.json").read_text()
    (model / "certificate.json").write_text(text.replace('"python": "', '"python": "1'))


def test_train_signs_what_it_writes(model):
    assert sorted(path.name for path in model.iterdir()) == [
        *("certificate.json", "certificate.sig.json", "model.json", "schema.toml", "weights.npz")
    ]
    assert read_signed(model)[1].state == "known"
    assert load_model(model).certificate == read_signed(model)[0]


def test_train_says_what_it_wrote(dplateau, table, tmp_path):
    create_key("anna")
    code, out, _ = dplateau(*training(table, tmp_path / "m"), "--sign", "anna")
    assert code == 0
    assert "certificate.sig.json" in out
    assert "certificate.sig.json" not in dplateau(*training(table, tmp_path / "n"))[1]


@pytest.mark.parametrize("passphrase", [None, "wrong"])
def test_what_is_wrong_with_a_key_is_found_before_the_rows_are_read(dplateau, table, tmp_path, monkeypatch, passphrase):
    def never(*_, **__):
        raise AssertionError("the rows were read")

    monkeypatch.setattr(TableModel, "train", never)
    code, out, err = dplateau(*training(table, tmp_path / "model"), "--sign", "anna")
    assert (code, out) == (2, "")
    assert "there is no key anna" in err
    create_key("anna", "right")
    if passphrase:
        monkeypatch.setenv("DPLATEAU_PASSPHRASE", passphrase)
    code, out, err = dplateau(*training(table, tmp_path / "model"), "--sign", "anna")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert ("passphrase is wrong" if passphrase else "set DPLATEAU_PASSPHRASE") in err
    assert not (tmp_path / "model").exists()


def test_a_failure_to_sign_leaves_no_folder(model, monkeypatch, tmp_path):
    def fails(*_):
        raise InputError("no")

    monkeypatch.setattr(Signature, "of", fails)
    with pytest.raises(InputError, match="no"):
        load_model(model).save(tmp_path / "other", sign=object())
    assert not (tmp_path / "other").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys", "model"]


def test_account_and_report_say_who(dplateau, model):
    known = read_signed(model)[1].known
    says = f"signed by anna, whose key is known since {known.known_since}; signed at"
    for command in (("account", "--run", model), ("report", model)):
        code, out, _ = dplateau(*command)
        assert code == 0
        assert says in " ".join(out.split())
        code, out, _ = dplateau(*command, "--json")
        assert (code, json.loads(out)["signature"]) == (0, read_signed(model)[1].to_dict())
        assert json.loads(out)["signature"]["state"] == "known"
    assert f"Signed by anna, whose key is known since {known.known_since}" in (model / "certificate.html").read_text()


def test_an_unknown_key(dplateau, model, monkeypatch, tmp_path):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "nothing"))
    for command in (("account", "--run", model), ("report", model)):
        code, out, _ = dplateau(*command)
        assert code == 0
        assert "signed by an unknown key" in out
        result = json.loads(dplateau(*command, "--json")[1])["signature"]
        assert (result["state"], result["name"], result["known_since"]) == ("unknown", None, None)
    assert "Signed by an unknown key" in (model / "certificate.html").read_text()


def test_nothing_signed(dplateau, model):
    (model / "certificate.sig.json").unlink()
    assert load_model(model)
    for command in (("account", "--run", model), ("report", model)):
        code, out, _ = dplateau(*command)
        assert code == 0
        assert "not signed" in out
        assert json.loads(dplateau(*command, "--json")[1])["signature"]["state"] == "unsigned"
    assert "the certificate is not signed" in (model / "certificate.html").read_text()


def test_a_certificate_that_was_changed(dplateau, model):
    change(model)
    for option in ((), ("--json",)):
        code, out, err = dplateau("account", "--run", model, *option)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "does NOT match" in err
    code, out, _ = dplateau("report", model)
    assert code == 1
    assert "the signature does NOT match" in out
    assert "Proved" not in out
    page = (model / "certificate.html").read_text()
    assert "This certifies nothing." in page
    assert '<div class="verdict bad">' in page
    assert "The signature does NOT match." in page
    result = json.loads(dplateau("report", model, "--json")[1])
    assert (result["agrees"], result["certifies"], result["signature"]["state"]) == (True, False, "mismatch")
    with pytest.raises(ContradictionError, match="does NOT match"):
        load_model(model)
    code, _, err = dplateau("account", "--run", model / "certificate.json", "--run", model / "certificate.json")
    assert code == 1
    assert "does NOT match" in err


def test_a_model_whose_signature_is_damaged(dplateau, model):
    (model / "certificate.sig.json").write_text("")
    for command in (("account", "--run", model), ("report", model)):
        code, out, err = dplateau(*command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "certificate.sig.json: the file is empty" in err
    with pytest.raises(InputError, match="the file is empty"):
        load_model(model)


def test_sign(dplateau, model, monkeypatch):
    create_key("ben", "secret")
    beside = model / "certificate.sig.json"
    beside.unlink()
    code, _, err = dplateau("sign", model, "--key", "ben")
    assert code == 2
    assert "set DPLATEAU_PASSPHRASE" in err
    monkeypatch.setenv("DPLATEAU_PASSPHRASE", "secret")
    code, out, err = dplateau("sign", model, "--key", "ben", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"written": str(beside), "signature": read_signed(model)[1].to_dict()}
    assert json.loads(out)["signature"]["name"] == "ben"
    code, out, err = dplateau("sign", model / "certificate.json", "--key", "anna")
    assert (code, out) == (2, "")
    assert "exists already" in err
    beside.unlink()
    code, out, _ = dplateau("sign", model / "certificate.json", "--key", "anna")
    assert code == 0
    assert out.startswith("signed by anna, whose key is known since")


def test_what_does_not_verify_is_not_signed(dplateau, model):
    (model / "certificate.sig.json").unlink()
    text = (model / "certificate.json").read_text()
    (model / "certificate.json").write_text(text.replace('"certified": true', '"certified": false'))
    code, out, err = dplateau("sign", model, "--key", "anna")
    assert (code, out) == (1, "")
    assert "contradicts itself" in err
    assert not (model / "certificate.sig.json").exists()


def test_keys(dplateau, folder, tmp_path):
    code, out, _ = dplateau("keys", "list")
    assert code == 0
    assert "no keys are known" in out
    code, out, _ = dplateau("keys", "create", "anna", "--json")
    made = json.loads(out)
    assert (code, list(made)) == (0, ["name", "public_key", "fingerprint", "known_since", "private"])
    code, out, _ = dplateau("keys", "export", "anna")
    assert (code, out) == (0, made["public_key"] + "\n")
    (tmp_path / "ben.txt").write_text(STRANGER + "\n")
    code, out, _ = dplateau("keys", "trust", tmp_path / "ben.txt", "--name", "ben")
    assert code == 0
    assert "fingerprint" in out
    code, out, err = dplateau("keys", "trust", STRANGER, "--name", "carl")
    assert (code, out) == (2, "")
    assert "known already, as ben" in err
    shown = json.loads(dplateau("keys", "list", "--json")[1])
    assert shown["folder"] == str(folder)
    assert shown["keys"] == [made, json.loads(dplateau("keys", "export", "ben", "--json")[1])]
    assert [one["private"] for one in shown["keys"]] == [True, False]
    lines = dplateau("keys", "list")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["name", "anna", "ben"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "a/b"), "name of a key"),
        (("create", "anna", "--passphrase"), "set DPLATEAU_PASSPHRASE"),
        (("trust", "xy", "--name", "eve"), "a public key is 64"),
        (("trust", STRANGER), "--name"),
        (("trust", STRANGER, "--name", "a", "--name", "b"), "given 2 times"),
        (("export", "anna"), "no key is known as anna"),
    ],
)
def test_bad_input(dplateau, folder, arguments, message):
    code, out, err = dplateau("keys", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not folder.exists()


@pytest.mark.parametrize("content", [b"", b"\xff" * 10, b"a" * 10_000_000])
def test_bad_files_of_keys(dplateau, tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    code, out, err = dplateau("keys", "trust", tmp_path / "key", "--name", "eve")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a public key is 64" in err


def test_the_commands_without_one_show_help(dplateau):
    code, out, _ = dplateau("keys")
    assert code == 0
    assert "create" in out


def asked(arguments, *answers: str) -> tuple[int, str]:
    """The exit status, and what a terminal shows, whose user types these lines."""
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-c", "from dplateau.cli.main import run; run()", *map(str, arguments)]
    process = subprocess.Popen(command, stdin=other_end, stdout=other_end, stderr=other_end, start_new_session=True)
    os.close(other_end)
    shown, left = b"", list(answers)
    with suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part
            if left and shown.endswith(b": "):  # the space comes when the echo is off
                os.write(terminal, left.pop(0).encode() + b"\n")
    os.close(terminal)
    return process.wait(), shown.decode()


def test_a_passphrase_is_asked_for_and_not_shown(model):
    (model / "certificate.sig.json").unlink()
    code, shown = asked(("keys", "create", "ben", "--passphrase"), "hush-hush", "hush-hush")
    assert code == 0
    assert "fingerprint" in shown
    code, more = asked(("sign", model, "--key", "ben"), "hush-hush")
    assert code == 0
    assert "signed by ben" in more
    assert "hush-hush" not in shown + more
    code, shown = asked(("sign", model, "--key", "ben"), "wrong")
    assert code == 2
    assert "passphrase is wrong" in shown
