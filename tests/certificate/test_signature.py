"""Signatures: Ed25519 over exact bytes and a time, and nothing else passes for one."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dplateau.certificate import Signature, Signed, create_key, read_certificate, read_signed, sign, signing_key, trust
from dplateau.certificate import signature as module
from dplateau.certificate.keys import forget
from dplateau.certificate.read import read_run_or_certificate
from dplateau.certificate.weights import bound_to
from dplateau.spec import ContradictionError, InputError

from . import ed25519 as rfc
from .forging import claiming, forged

KEY = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(rfc.VECTORS[0][0]))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(rfc.VECTORS[1][0]))


@pytest.fixture(autouse=True)
def keys(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))


@pytest.fixture
def file(tmp_path, certificate):
    certificate.write(tmp_path / "certificate.json")
    return tmp_path / "certificate.json"


@pytest.fixture
def signed(file):
    sign(file, KEY)
    return file


def beside(file):
    return file.with_name("certificate.sig.json")


@pytest.mark.parametrize(("secret", "public", "message", "signature"), rfc.VECTORS)
def test_the_reference_is_that_of_the_rfc(secret, public, message, signature):
    assert rfc.signed(bytes.fromhex(secret), bytes.fromhex(message)).hex() == signature
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    assert key.public_key().public_bytes_raw().hex() == public


@pytest.mark.parametrize(("secret", "public"), [vector[:2] for vector in rfc.VECTORS])
@pytest.mark.parametrize("content", [b"", b"{}\n", bytes(range(256))])
def test_what_is_signed_is_the_head_the_time_and_the_bytes(secret, public, content):
    found = Signature.of(content, Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)))
    text = b"dplateau certificate signature 1\n" + found.signed_at.encode() + b"\n" + content
    assert (found.public_key, found.signature) == (public, rfc.signed(bytes.fromhex(secret), text).hex())
    assert found.matches(content)
    assert not found.matches(content + b" ")
    bare = replace(found, signature=rfc.signed(bytes.fromhex(secret), content).hex())
    assert not bare.matches(content)  # a signature of the bytes alone was meant for something else


def test_keys_that_everybody_can_sign_with_are_refused():
    assert {key[:62] + f"{int(key[62:], 16) & 127:02x}" for key in rfc.small_orders()} == module.WEAK
    anybody = "01" + "00" * 31 + "00" * 32
    for key in sorted(module.WEAK):
        for sign_bit in (0, 128):
            weak = key[:62] + f"{int(key[62:], 16) | sign_bit:02x}"
            with pytest.raises(InputError, match="everybody can sign with it"):
                trust(weak, "eve")
            with pytest.raises(InputError, match="everybody can sign with it"):
                Signature.from_json(json.dumps({**json.loads(Signature.of(b"", KEY).to_json()), "public_key": weak}))
    # Without the refusal they would pass: this one for every content.
    assert Signature("01" + "00" * 31, "2026-01-31T12:00:00Z", anybody).matches(b"whatever")


def test_a_signature_has_one_form():
    found = Signature.of(b"{}", KEY)
    response = int.from_bytes(bytes.fromhex(found.signature)[32:], "little") + rfc.ORDER
    assert not replace(found, signature=found.signature[:64] + response.to_bytes(32, "little").hex()).matches(b"{}")


def test_what_was_read_already_is_not_read_again(signed):
    """A proof names the digest of the bytes that were read: it must be about these, if the file changes meanwhile."""
    content = signed.read_bytes()
    certificate = read_signed(signed)[0]
    signed.write_text("changed")
    again, who = read_signed(signed, content)
    assert (again, who.state) == (certificate, "unknown")


def test_a_round_trip(file):
    found = sign(file, KEY)
    assert Signature.from_json(beside(file).read_text()) == found
    certificate, signed = read_signed(file)
    assert (certificate, signed.signature, signed.state) == (read_certificate(file), found, "unknown")
    assert signed.who == "signed by an unknown key 21fe 31df a154 a261 626b f854 046f d227"
    known = trust(found.public_key, "anna")
    again = read_signed(file)[1]
    assert (again.state, again.known) == ("known", known)
    assert again.who == f"signed by anna, whose key is known since {known.known_since}"
    assert again.to_dict() == {
        "state": "known",
        "name": "anna",
        "known_since": known.known_since,
        "public_key": found.public_key,
        "signed_at": found.signed_at,
    }


def test_without_a_signature_nothing_changes(file):
    _, signed = read_signed(file)
    assert (signed.state, signed.who, signed.matches) == ("unsigned", "not signed", True)
    assert set(signed.to_dict().values()) == {"unsigned", None}


def test_every_byte_counts(signed):
    """Any bit of any byte of the certificate, at a sample of places, and of the signature's three texts, at all of them."""
    content, found = signed.read_bytes(), Signature.from_json(beside(signed).read_text())
    assert found.matches(content)
    for place in {0, len(content) - 1, *range(0, len(content), 97)}:
        for bit in (1, 128):
            assert not found.matches(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
    assert not found.matches(content[:-1])
    assert not found.matches(b"\n" + content)
    for field in ("public_key", "signature"):
        text = getattr(found, field)
        for place in range(len(text)):
            changed = text[:place] + f"{int(text[place], 16) ^ 1:x}" + text[place + 1 :]
            assert not replace(found, **{field: changed}).matches(content), (field, place)
    assert not replace(found, signed_at="2020-01-01T00:00:00Z").matches(content)


def test_no_time_and_content_are_those_of_another_pair():
    """A line of the content cannot become the time."""
    found = Signature.of(b"2026-01-31T12:00:00Z\n{}", KEY)
    assert not replace(found, signed_at="2026-01-31T12:00:00Z").matches(b"{}")


def test_a_consistent_forgery_is_found(signed, certificate):
    """It would pass every other check: it is a right certificate of another run."""

    def quieter(data):
        data["versions"]["dplateau"] = "0.0.1"

    forged(certificate, quieter).write(signed)
    assert read_signed(signed)[1].state == "mismatch"
    for read in (read_certificate, read_run_or_certificate):
        with pytest.raises(ContradictionError, match="does NOT match"):
            read(signed)
    assert set(read_signed(signed)[1].to_dict().values()) == {"mismatch", None}
    beside(signed).unlink()
    assert read_certificate(signed)  # nothing but the signature tells


def test_a_signature_of_another_certificate_is_found(signed, certificates):
    certificates["poisson"].write(signed.with_name("other.json"))
    sign(signed.with_name("other.json"), KEY)
    shutil.copy(signed.with_name("other.sig.json"), beside(signed))
    with pytest.raises(ContradictionError, match="belongs to another"):
        read_certificate(signed)


def test_a_claim_of_another_key_is_found(signed):
    trust(OTHER.public_key().public_bytes_raw().hex(), "anna")
    data = json.loads(beside(signed).read_text())
    beside(signed).write_text(json.dumps({**data, "public_key": OTHER.public_key().public_bytes_raw().hex()}))
    assert read_signed(signed)[1].state == "mismatch"


def changed(**entries):
    data = json.loads(Signature.of(b"", KEY).to_json()) | entries
    return json.dumps({key: value for key, value in data.items() if value != "left out"})


BAD = {
    "empty": ("", "the file is empty"),
    "no JSON": ("{", "not JSON"),
    "a list": ("[]", "not a JSON object"),
    "huge": (" " * 5000, "more than 4,096 bytes"),
    "large and valid": (changed() + " " * 5000, "more than 4,096 bytes"),
    "another kind": (changed(kind="dplateau certificate"), "not a dplateau signature of format 1"),
    "another format": (changed(format=2), "not a dplateau signature of format 1"),
    "another algorithm": (changed(algorithm="none"), "not a dplateau signature of format 1"),
    "an entry missing": (changed(signed_at="left out"), "lacks"),
    "an entry more": (changed(name="anna"), "unknown keys"),
    "twice the same key": (changed().replace("{", '{"format": 1, '), "same key twice"),
    "a short key": (changed(public_key="ab"), "64 lower-case"),
    "capitals": (changed(public_key="AB" * 32), "64 lower-case"),
    "other digits": (changed(public_key="\u0661" * 64), "64 lower-case"),
    "a number as key": (changed(public_key=1), "is not text"),
    "a short signature": (changed(signature="ab" * 63), "128 lower-case"),
    "a long signature": (changed(signature="ab" * 65), "128 lower-case"),
    "no signature": (changed(signature=None), "is not text"),
    "no such day": (changed(signed_at="2026-02-30T12:00:00Z"), "not a time in UTC"),
    "another zone": (changed(signed_at="2026-01-31T12:00:00+01:00"), "not a time in UTC"),
    "a day written shortly": (changed(signed_at="2026-1-31T12:00:00Z"), "not a time in UTC"),
    "a line break": (changed(signed_at="2026-01-31T12:00:00Z\n"), "control characters"),
    "escape codes": (changed(signed_at="\x1b[2J"), "control characters"),
    "deep": ("[" * 2000, "JSON"),
    "binary": (b"\xff\xfe\x00", "not UTF-8"),
    "a pickle": (b"\x80\x04\x95", "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_signature_is_one_clear_error(file, name):
    content, message = BAD[name]
    beside(file).write_bytes(content if isinstance(content, bytes) else content.encode())
    for read in (read_signed, read_certificate):
        with pytest.raises(InputError, match=r"certificate\.sig\.json") as caught:
            read(file)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 900


def test_what_is_no_file_is_no_signature(file):
    beside(file).mkdir()
    with pytest.raises(InputError, match="is not a file"):
        read_signed(file)
    beside(file).rmdir()
    for target in ("nowhere", "/dev/zero"):
        beside(file).symlink_to(target)
        with pytest.raises(InputError, match="is not a file"):
            read_signed(file)
        beside(file).unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(beside(file))
        with pytest.raises(InputError, match="is not a file"):
            read_signed(file)
        with pytest.raises(InputError, match="exists already"):
            sign(file, KEY)


def demanded(file, *names):
    """What is said where a signature by these is demanded."""
    with pytest.raises(ContradictionError) as caught:
        read_certificate(file, signed_by=names)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(file))


def test_a_signature_can_be_demanded(file):
    anna = trust(KEY.public_key().public_bytes_raw().hex(), "anna")
    trust(OTHER.public_key().public_bytes_raw().hex(), "ben")
    assert demanded(file, "anna", "ben").startswith(" is not signed, and a signature by anna or ben is demanded")
    sign(file, KEY)
    for names in ("anna", anna.fingerprint, ["ben", "anna"]):
        assert read_certificate(file, signed_by=names)
        assert read_run_or_certificate(file, signed_by=names) == read_signed(file)
    assert demanded(file, "ben").startswith(" is signed by anna, and a signature by ben is demanded")
    beside(file).unlink()
    sign(file, Ed25519PrivateKey.generate())
    assert demanded(file, "anna").startswith(" is signed by an unknown key")
    file.write_bytes(file.read_bytes() + b"\n")
    assert "does NOT match" in demanded(file, "anna")
    for names, said in (("ana", "did you mean anna"), ((), "names no key")):
        with pytest.raises(InputError, match=said):
            read_certificate(file, signed_by=names)


def test_a_run_has_no_signature(file, certificate):
    trust(KEY.public_key().public_bytes_raw().hex(), "anna")
    file.write_text(certificate.run.to_json())
    with pytest.raises(InputError, match="is not a certificate, and a signature is demanded"):
        read_run_or_certificate(file, signed_by=["anna"])


def test_a_name_that_was_given_to_another_key(signed):
    """What the old key has signed is not the new one's."""
    public = KEY.public_key().public_bytes_raw().hex()
    trust(public, "anna")
    with pytest.raises(InputError, match="known as anna already"):
        trust(OTHER.public_key().public_bytes_raw().hex(), "anna")
    assert read_certificate(signed, signed_by="anna")
    forget("anna")
    trust(OTHER.public_key().public_bytes_raw().hex(), "anna")
    assert "signed by an unknown key" in demanded(signed, "anna")


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: json.dumps(json.loads(text), indent=2)])
def test_line_ends_and_indents_count(signed, change):
    signed.write_bytes(change(signed.read_text()).encode())
    assert read_signed(signed)[1].state == "mismatch"


def test_a_time_to_come_is_told():
    at = "2999-01-31T12:00:00Z"
    assert (
        Signed(Signature(rfc.VECTORS[0][1], at, "")).when == f"signed at {at}, as the signer says, but that time is still to come"
    )
    assert Signed(Signature.of(b"", KEY)).when.endswith("as the signer says")
    assert Signed(Signature.of(b"", KEY), matches=False).when == Signed().when == ""


def test_only_what_verifies_is_signed(file, certificate):
    def lower(data):
        claiming(data, 0.5, 0.5)

    forged(certificate, lower).write(file)
    with pytest.raises(ContradictionError, match="differs from what follows from its run, so it is not signed"):
        sign(file, KEY)
    file.write_text("{}")
    with pytest.raises(InputError, match="not a certificate"):
        sign(file, KEY)
    with pytest.raises(InputError, match="cannot be read"):
        sign(file.with_name("none.json"), KEY)
    assert not beside(file).exists()


def test_a_certificate_beside_another_model_is_not_signed(file, certificate):
    bound_to(certificate, {"coefficients": np.ones(3)}).write(file)
    file.with_name("model.json").write_text("{}")
    np.savez(file.with_name("weights.npz"), coefficients=np.zeros(3))
    with pytest.raises(ContradictionError, match="about other weights"):
        sign(file, KEY)
    assert not beside(file).exists()
    np.savez(file.with_name("weights.npz"), coefficients=np.ones(3))
    assert sign(file, KEY).matches(file.read_bytes())


def test_a_signature_is_never_replaced(signed):
    before = beside(signed).read_bytes()
    with pytest.raises(InputError, match="exists already"):
        sign(signed, OTHER)
    assert beside(signed).read_bytes() == before


KILLED = """
import os, signal, sys
from dplateau.certificate import sign, signing_key
key = signing_key("anna")
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
sign("certificate.json", key)
"""


def test_a_killed_signing_leaves_no_half_file(file):
    create_key("anna")
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=file.parent)
    assert done.returncode == -signal.SIGKILL
    assert not beside(file).exists()
    assert read_signed(file)[1].state == "unsigned"
    assert sign(file, signing_key("anna"))


def test_the_library_behind_it_verifies_as_the_rfc_signs():
    """And refuses what is not canonical: the tests above rest on it."""
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(rfc.VECTORS[2][1]))
    public.verify(bytes.fromhex(rfc.VECTORS[2][3]), bytes.fromhex(rfc.VECTORS[2][2]))


def test_reading_needs_no_package_where_nothing_is_signed(file):
    code = "import sys\nsys.modules['cryptography'] = None\nfrom dplateau.certificate import read_signed\n"
    command = [sys.executable, "-c", code + f"print(read_signed({str(file)!r})[1].state)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "unsigned\n", done.stderr
    sign(file, KEY)
    done = subprocess.run(command, capture_output=True, text=True)
    assert "this needs cryptography: python -m pip install '.[train]', in a copy of dplateau's source." in done.stderr
