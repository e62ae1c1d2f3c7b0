"""The folder of keys: private ones are private, and a key is known only because somebody said so."""

import json
import os
import stat
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dplateau.certificate import create_key, known_keys, read_signed, sign, signing_key, trust
from dplateau.certificate.keys import forget, keys_folder, known_key, named_keys
from dplateau.spec import InputError

from .ed25519 import VECTORS

STRANGER = VECTORS[1][1]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("passphrase", [None, "correct horse ä"])
def test_a_key_is_made_and_found(folder, passphrase):
    umask = os.umask(0)
    try:
        known = create_key("anna", passphrase)
    finally:
        os.umask(umask)
    assert known_keys() == (known,)
    assert signing_key("anna", passphrase).public_key().public_bytes_raw().hex() == known.public_key
    assert (mode(folder), mode(folder / "anna.pem"), mode(folder / "known.json")) == (0o700, 0o600, 0o600)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "anna.pem", "known.json"]
    start = b"-----BEGIN PRIVATE" if passphrase is None else b"-----BEGIN ENCRYPTED PRIVATE"
    assert (folder / "anna.pem").read_bytes().startswith(start)
    assert len(known.fingerprint) == 39


def test_a_passphrase_can_be_written_as_bytes(folder):
    with pytest.raises(InputError, match="not UTF-8 text"):
        create_key("anna", "half a \udcff")
    assert not (folder / "anna.pem").exists()


def test_a_passphrase_is_needed_and_must_be_right():
    create_key("anna", "right")
    for passphrase, message in ((None, "give its passphrase"), ("", "give its passphrase"), ("wrong", "passphrase is wrong")):
        with pytest.raises(InputError, match=message):
            signing_key("anna", passphrase)
    with pytest.raises(InputError, match="passphrase is empty"):
        create_key("ben", "")
    create_key("ben")
    assert signing_key("ben", "superfluous")


def test_nothing_is_overwritten(folder):
    create_key("anna")
    before = (folder / "anna.pem").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        create_key("anna")
    trust(STRANGER, "ben")
    with pytest.raises(InputError, match="known as ben already"):
        create_key("ben")
    with pytest.raises(InputError, match="known as anna already"):
        trust(Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex(), "anna")
    with pytest.raises(InputError, match="known already, as ben"):
        trust(STRANGER, "carl")
    assert (folder / "anna.pem").read_bytes() == before
    assert [one.name for one in known_keys()] == ["anna", "ben"]
    assert not (folder / "ben.pem").exists()


@pytest.mark.parametrize("name", ["", "../anna", "a/b", ".anna", "-a", "a b", "anna\n", "a" * 65, "änna"])
def test_names_are_names_of_files(folder, name):
    for call in (create_key, signing_key, known_key, forget, named_keys, lambda name: trust(STRANGER, name)):
        with pytest.raises(InputError, match="name of a key"):
            call(name)
    assert not folder.exists()


@pytest.mark.parametrize("text", ["", "ab", "AB" * 32, STRANGER + "\n", "g" * 64])
def test_only_public_keys_are_trusted(folder, text):
    with pytest.raises(InputError, match="a public key is 64"):
        trust(text, "eve")
    assert not folder.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("bits", [0o640, 0o604, 0o622])
def test_a_key_that_others_can_reach_is_refused(folder, bits):
    create_key("anna")
    (folder / "anna.pem").chmod(bits)
    with pytest.raises(InputError, match="can be read by other people"):
        signing_key("anna")


def pem(key) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is damaged"),
        (b"\x00\xff", "is damaged"),
        (pem(ed448.Ed448PrivateKey.generate()), "key of another kind"),
    ],
    ids=["empty", "no key", "binary", "another kind"],
)
def test_damaged_private_keys(folder, content, message):
    create_key("anna")
    (folder / "anna.pem").write_bytes(content)
    with pytest.raises(InputError, match=message):
        signing_key("anna")


def test_a_missing_key_says_how_to_make_one():
    with pytest.raises(InputError, match="make one with 'dplateau keys create anna'"):
        signing_key("anna")
    with pytest.raises(InputError, match="no key is known as anna"):
        known_key("anna")


def entry(**fields):
    return {"name": "ben", "public_key": STRANGER, "known_since": "2026-01-31", **fields}


def listed(*entries, **fields):
    return json.dumps({"kind": "dplateau known keys", "format": 1, "keys": list(entries), **fields})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("[", "not JSON"),
        (listed(format=2), "not a list of keys of format 1"),
        (listed(keys={}), "not a JSON list"),
        (listed(entry(name="a b")), "name of a key"),
        (listed(entry(public_key="00" * 32)), "everybody can sign"),
        (listed(entry(known_since="yesterday")), "not a date"),
        (listed(entry(extra=1)), "unknown keys"),
        (listed(entry(), entry()), "known as ben already"),
        (listed(entry(), entry(name="carl")), "known already, as ben"),
    ],
)
def test_a_damaged_list_is_one_error_and_is_left_alone(folder, content, message):
    folder.mkdir()
    (folder / "known.json").write_text(content)
    for call in (known_keys, lambda: create_key("anna"), lambda: trust(STRANGER, "dora"), lambda: forget("ben")):
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert "known.json" in str(caught.value)
    assert (folder / "known.json").read_text() == content
    assert not (folder / "anna.pem").exists()


def test_nothing_is_known_by_being_seen(certificate, tmp_path, folder):
    certificate.write(tmp_path / "certificate.json")
    sign(tmp_path / "certificate.json", Ed25519PrivateKey.generate())
    for _ in range(2):
        assert read_signed(tmp_path / "certificate.json")[1].state == "unknown"
    assert not folder.exists()


def test_the_folder(monkeypatch, tmp_path):
    assert keys_folder() == tmp_path / "keys"
    monkeypatch.delenv("DPLATEAU_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    if os.uname().sysname == "Linux":
        assert keys_folder() == tmp_path / "config" / "dplateau" / "keys"
    assert keys_folder().name == "keys"


def test_a_folder_that_cannot_be(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    for name, message in (("file/keys", "Not a directory"), ("link", "cannot be created: File exists. Set DPLATEAU_KEYS")):
        monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / name))
        for call in (lambda: trust(STRANGER, "ben"), lambda: create_key("anna")):
            with pytest.raises(InputError, match=message):
                call()


def test_a_key_is_forgotten_and_its_private_half_stays(folder):
    anna, ben = create_key("anna"), trust(STRANGER, "ben")
    before = (folder / "anna.pem").read_bytes()
    assert forget("anna") == anna
    assert known_keys() == (ben,)
    assert (folder / "anna.pem").read_bytes() == before
    assert signing_key("anna")
    with pytest.raises(InputError, match="exists already"):
        create_key("anna")
    assert trust(anna.public_key, "anna").name == "anna"


@pytest.mark.parametrize("passphrase", [None, "secret"])
def test_a_name_with_a_private_key_is_given_to_no_other_key(folder, passphrase):
    """Else "signs here: yes" would stand beside a stranger's key."""
    anna = create_key("anna", passphrase)
    forget("anna")
    with pytest.raises(InputError, match=r"anna\.pem is a private key, and not the other half"):
        trust(STRANGER, "anna", passphrase)
    if passphrase:
        with pytest.raises(InputError, match="give its passphrase"):
            trust(anna.public_key, "anna")
    assert known_keys() == ()
    assert trust(anna.public_key, "anna", passphrase).public_key == forget("anna").public_key
    (folder / "anna.pem").rename(folder / "old.pem")
    assert trust(STRANGER, "anna").public_key == STRANGER


def test_what_is_not_known_is_not_forgotten(folder):
    with pytest.raises(InputError, match="no key is known as anna: no key is known at all"):
        forget("anna")
    assert not folder.exists()
    create_key("anna")
    for name, said in (("anne", "did you mean anna?"), ("xyz", "known are anna.")):
        with pytest.raises(InputError, match=f"no key is known as {name}: .*{said}"):
            forget(name)
    assert [one.name for one in known_keys()] == ["anna"]


def test_keys_by_name_and_by_fingerprint():
    anna, ben = create_key("anna"), trust(STRANGER, "ben")
    assert named_keys(["anna", ben.fingerprint]) == (anna, ben)
    assert named_keys(ben.fingerprint.upper()) == named_keys(ben.fingerprint.replace(" ", "")) == (ben,)
    with pytest.raises(InputError, match="no known key has this fingerprint"):
        named_keys("00" * 16)
    with pytest.raises(InputError, match="names no key"):
        named_keys(())
    with pytest.raises(InputError, match="expected names"):
        named_keys([b"anna"])


def test_a_name_hides_no_fingerprint():
    ben = trust(STRANGER, "ben")
    create_key(ben.fingerprint.replace(" ", ""))
    assert named_keys(ben.fingerprint.replace(" ", "")) == (ben,)


DECLARES = """
import sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dplateau.certificate import create_key, trust
sys.stdin.readline()
for i in range(20):
    trust(Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex(), f"{sys.argv[1]}-{i}")
try:
    create_key("wanted")
except ValueError:
    pass
"""


@pytest.mark.skipif(os.name != "posix", reason="locks are those of POSIX")
def test_processes_that_declare_at_once_lose_nothing():
    command = [sys.executable, "-c", DECLARES]
    processes = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, text=True) for name in ("a", "b", "c")]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[0] or process.returncode for process in processes] == [0, 0, 0]
    assert len(known_keys()) == 61
    assert signing_key("wanted").public_key().public_bytes_raw().hex() == known_key("wanted").public_key


@pytest.mark.skipif(os.name != "posix", reason="modes and pipes are those of POSIX")
def test_odd_files_in_the_folder_are_one_error_at_once(folder):
    create_key("anna")
    (folder / "known.json").rename(folder / "kept.json")
    (folder / "pipe.pem").symlink_to("/dev/zero")
    os.mkfifo(folder / "known.json")
    for call in (known_keys, lambda: trust(STRANGER, "ben"), lambda: signing_key("pipe")):
        with pytest.raises(InputError, match="is not a file: expected"):
            call()
    (folder / "known.json").unlink()
    (folder / "known.json").symlink_to("nowhere")
    with pytest.raises(InputError, match="is not a file"):
        trust(STRANGER, "ben")
    (folder / "known.json").unlink()
    (folder / "known.json").write_text(listed() + " " * 1_000_000)
    with pytest.raises(InputError, match="more than 1,000,000 bytes"):
        known_keys()


@pytest.mark.skipif(os.name != "posix", reason="links are those of POSIX")
def test_a_list_that_is_a_link_stays_one(folder, tmp_path):
    folder.mkdir()
    (tmp_path / "list.json").write_text(listed())
    (folder / "known.json").symlink_to(tmp_path / "list.json")
    trust(STRANGER, "ben")
    assert (folder / "known.json").is_symlink()
    assert STRANGER in (tmp_path / "list.json").read_text()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_list_that_everybody_can_write_is_refused(folder):
    trust(STRANGER, "ben")
    (folder / "known.json").chmod(0o666)
    with pytest.raises(InputError, match="can be written by everybody"):
        known_keys()


def test_a_list_that_cannot_be_written_leaves_no_key(folder, monkeypatch):
    trust(STRANGER, "ben")
    before = (folder / "known.json").read_bytes()

    def full(*_):
        raise InputError("No space left on device")

    monkeypatch.setattr("dplateau.certificate.keys._write", full)
    with pytest.raises(InputError, match="No space"):
        create_key("anna")
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "known.json"]
    assert (folder / "known.json").read_bytes() == before
