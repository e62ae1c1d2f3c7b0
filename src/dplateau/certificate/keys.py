"""The user's folder of keys: private ones to sign with, and a list of public ones that the user has declared to know."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dplateau.certificate.parts import keys, list_of, text_of
from dplateau.certificate.signature import fingerprint, public_key_of
from dplateau.certificate.strict_json import strict_json
from dplateau.files import write_file
from dplateau.spec import InputError
from dplateau.spec.missing import explained

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "dplateau known keys"
FORMAT: Final = 1
FOLDER: Final = "DPLATEAU_KEYS"
"""The environment variable that names another folder."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9@+._-]{0,63}")
OTHERS: Final = 0o077


@dataclass(frozen=True)
class KnownKey:
    """A public key that the user has declared to know.

    Attributes
    ----------
    name : str
        What the user calls its owner.
    public_key : str
        64 hexadecimal digits.
    known_since : str
        The day of the declaration, such as ``2026-01-31``.
    """

    name: str
    public_key: str
    known_since: str

    @property
    def fingerprint(self) -> str:
        """What is compared by eye, or over the telephone."""
        return fingerprint(self.public_key)


def keys_folder() -> Path:
    """The folder of ``DPLATEAU_KEYS``, or the one where the operating system wants settings of programs."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    from typer import get_app_dir

    return Path(get_app_dir("dplateau")) / "keys"


def create_key(name: str, passphrase: str | None = None) -> KnownKey:
    """Make a key to sign with. Its public half is known from now on.

    Parameters
    ----------
    name : str
        A new name.
    passphrase : str, optional
        What the file is encrypted with; a long one, because it can be guessed at by anybody who has the file.

    Raises
    ------
    InputError
        The name is no name, or is taken; the passphrase is empty; or the folder cannot be written.
    """
    path = _private(name)
    if os.path.lexists(path):
        raise InputError(f"{path} exists already: choose another name.")
    if passphrase == "":
        raise InputError("the passphrase is empty: give one, or make the key without.")
    with explained():
        from cryptography.hazmat.primitives import serialization as as_
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    key = Ed25519PrivateKey.generate()
    known = _checked(name, key.public_key().public_bytes_raw().hex(), known_keys())
    lock = as_.NoEncryption() if passphrase is None else as_.BestAvailableEncryption(passphrase.encode())
    _make_folder()
    write_file(path, key.private_bytes(as_.Encoding.PEM, as_.PrivateFormat.PKCS8, lock), mode=0o600)
    return _declared(known)


def is_locked(name: str) -> bool:
    """Whether the key of this name needs a passphrase; raises ``InputError`` where there is none."""
    return b"ENCRYPTED" in _pem(name)


def signing_key(name: str, passphrase: str | None = None) -> Ed25519PrivateKey:
    """The private key of a name.

    Raises
    ------
    InputError
        There is none, other people may read its file, it is damaged, or the passphrase is missing or wrong.
    """
    pem, locked = _pem(name), is_locked(name)
    if locked and not passphrase:
        raise InputError(f"the key {name} is encrypted: give its passphrase.")
    with explained():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    try:
        key = load_pem_private_key(pem, passphrase.encode() if locked and passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        what = "the passphrase is wrong, or the file is damaged" if locked else "the file is damaged"
        raise InputError(f"the key {name} cannot be read from {_private(name)}: {what}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{_private(name)} holds a key of another kind: expected Ed25519, as 'dplateau keys create' makes.")
    return key


def has_private(name: str) -> bool:
    """Whether there is a key to sign with under this name."""
    return _private(name).is_file()


def known_keys() -> tuple[KnownKey, ...]:
    """All keys that the user has declared to know; raises ``InputError`` where the list is damaged."""
    path = keys_folder() / "known.json"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: it is not UTF-8 text.") from None
    try:
        data = keys("the list of keys", strict_json(text), {"kind", "format", "keys"})
        if (data["kind"], data["format"]) != (KIND, FORMAT):
            raise InputError(f"this is no list of keys of format {FORMAT}.")
        found: tuple[KnownKey, ...] = ()
        for entry in list_of("keys", data["keys"]):
            one = keys("a key", entry, {"name", "public_key", "known_since"})
            name, public_key, since = (text_of(field, one[field]) for field in ("name", "public_key", "known_since"))
            found = (*found, _checked(name, public_key, found, since))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return found


def trust(public_key: str, name: str) -> KnownKey:
    """Declare that a public key is somebody's: from now on its signatures are theirs.

    Parameters
    ----------
    public_key : str
        64 hexadecimal digits, obtained from its owner, and never from the certificate that is to be checked.
    name : str
        What to call the owner.

    Raises
    ------
    InputError
        It is no public key, or it, or the name, is known already.
    """
    known = _checked(name, public_key, known_keys())
    _make_folder()
    return _declared(known)


def known_key(name: str) -> KnownKey:
    """The public key of a name; raises ``InputError`` where none is known."""
    _name(name)
    found = next((one for one in known_keys() if one.name == name), None)
    if found is None:
        raise InputError(f"no key is known as {name}: 'dplateau keys list' names those that are.")
    return found


def _checked(name: str, public_key: str, others: tuple[KnownKey, ...], since: str | None = None) -> KnownKey:
    """A key whose name and number no other one has."""
    known = KnownKey(_name(name), public_key_of(public_key), since or datetime.now(UTC).date().isoformat())
    try:
        date.fromisoformat(known.known_since)
    except ValueError:
        raise InputError("known_since is no date such as 2026-01-31.") from None
    for one in others:
        if one.name == known.name:
            raise InputError(f"a key is known as {name} already, since {one.known_since}: choose another name.")
        if one.public_key == known.public_key:
            raise InputError(f"this key is known already, as {one.name}, since {one.known_since}.")
    return known


def _declared(known: KnownKey) -> KnownKey:
    """Write the list with one key more."""
    data = {"kind": KIND, "format": FORMAT, "keys": [asdict(one) for one in (*known_keys(), known)]}
    write_file(keys_folder() / "known.json", json.dumps(data, indent=1) + "\n", mode=0o600)
    return known


def _make_folder() -> None:
    try:
        keys_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{keys_folder()} cannot be created: {error.strerror or 'input/output error'}. Set {FOLDER}.") from None


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InputError("the name of a key has 1 to 64 letters, digits and @ + . _ -, and begins with a letter or a digit.")
    return name


def _private(name: str) -> Path:
    return keys_folder() / f"{_name(name)}.pem"


def _pem(name: str) -> bytes:
    """The file of a private key."""
    path = _private(name)
    try:
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & OTHERS:
                raise InputError(f"{path} can be read by other people: take it from them with 'chmod 600', or make a new key.")
            return file.read()
    except FileNotFoundError:
        raise InputError(f"there is no key {name} to sign with: make one with 'dplateau keys create {name}'.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
