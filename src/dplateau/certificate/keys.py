"""The user's folder of keys: private ones to sign with, and a list of public ones that the user has declared to know."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dplateau.certificate.parts import keys, list_of, text_of, utf8
from dplateau.certificate.signature import fingerprint, public_half, public_key_of
from dplateau.files import locked, read_small, write_file
from dplateau.spec import InputError
from dplateau.spec.missing import explained
from dplateau.spec.strict_json import strict_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "dplateau known keys"
FORMAT: Final = 1
FOLDER: Final = "DPLATEAU_KEYS"
"""The environment variable that names another folder."""
FINGERPRINT: Final = re.compile(r"[0-9a-f]{32}")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9@+._-]{0,63}")
ENCRYPTED: Final = b"ENCRYPTED"
OTHERS: Final = 0o077
EVERYBODY_WRITES: Final = 0o002
LARGEST: Final = 1_000_000
"""Bytes of the list of keys, and more than a private key has."""
LISTED: Final = 8
"""Names that an error lists."""


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
        The name is not a name, or is taken; the passphrase is empty; or the folder cannot be written.
    """
    path = private_path(name)
    if passphrase is not None and not (isinstance(passphrase, str) and passphrase):
        raise InputError("the passphrase is empty, or no text: give one, or make the key without.")
    try:
        secret = (passphrase or "").encode()
    except UnicodeEncodeError:  # half a character, as an environment variable may hold
        raise InputError("the passphrase is not UTF-8 text: give another one.") from None
    with explained():
        from cryptography.hazmat.primitives import serialization as as_
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    lock = as_.NoEncryption() if passphrase is None else as_.BestAvailableEncryption(secret)
    key = Ed25519PrivateKey.generate()
    with _changing() as others:
        if os.path.lexists(path):
            raise InputError(f"{path} exists already: choose another name, or move that file away first.")
        known = _checked(name, public_half(key), others)
        write_file(path, key.private_bytes(as_.Encoding.PEM, as_.PrivateFormat.PKCS8, lock), mode=0o600)
        try:
            _write((*others, known))
        except InputError:
            path.unlink(missing_ok=True)  # nobody knows its public half, and the name would be taken
            raise
    return known


def is_locked(name: str) -> bool:
    """Whether the key of this name needs a passphrase; raises ``InputError`` where there is none."""
    return ENCRYPTED in _pem(name)


def signing_key(name: str, passphrase: str | None = None) -> Ed25519PrivateKey:
    """The private key of a name.

    Raises
    ------
    InputError
        There is none, other people may read its file, it is damaged, or the passphrase is missing or wrong.
    """
    pem = _pem(name)
    encrypted = ENCRYPTED in pem
    if encrypted and not passphrase:
        raise InputError(f"the key {name} is encrypted: give its passphrase.")
    with explained():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    try:
        key = load_pem_private_key(pem, passphrase.encode() if encrypted and passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        what = "the passphrase is wrong, or the file is damaged" if encrypted else "the file is damaged"
        raise InputError(f"the key {name} cannot be read from {private_path(name)}: {what}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{private_path(name)} holds a key of another kind: expected Ed25519, as 'dplateau keys create' makes.")
    return key


def private_path(name: str) -> Path:
    """Where the private key of a name is kept; raises ``InputError`` for what is not a name."""
    return keys_folder() / f"{_name(name)}.pem"


def has_private(name: str) -> bool:
    """Whether there is a key to sign with under this name."""
    return private_path(name).is_file()


def known_keys() -> tuple[KnownKey, ...]:
    """All keys that the user has declared to know; raises ``InputError`` where the list is damaged."""
    path = keys_folder() / "known.json"
    try:
        content, mode = read_small(path, "the list of known keys", LARGEST)
    except FileNotFoundError:
        return ()
    text = utf8(path, content)
    if os.name == "posix" and mode & EVERYBODY_WRITES:
        raise InputError(f"{path} can be written by everybody: look whether its keys are yours, and call 'chmod o-w' on it.")
    try:
        data = keys("the list of keys", strict_json(text), {"kind", "format", "keys"})
        if (data["kind"], data["format"]) != (KIND, FORMAT):
            raise InputError(f"this is not a list of keys of format {FORMAT}.")
        found: tuple[KnownKey, ...] = ()
        for entry in list_of("keys", data["keys"]):
            one = keys("a key", entry, {"name", "public_key", "known_since"})
            name, public_key, since = (text_of(field, one[field]) for field in ("name", "public_key", "known_since"))
            found = (*found, _checked(name, public_key, found, since))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return found


def trust(public_key: str, name: str, passphrase: str | None = None) -> KnownKey:
    """Declare that a public key is somebody's: from now on its signatures are theirs.

    Parameters
    ----------
    public_key : str
        64 hexadecimal digits, obtained from its owner, and never from the certificate that is to be checked.
    name : str
        What to call the owner.
    passphrase : str, optional
        Where there is an encrypted private key of this name: only with it can be seen whether that is the other half.

    Raises
    ------
    InputError
        It is not a public key; it, or the name, is known already; or there is another private key of this name.
    """
    _checked(name, public_key, ())
    with _changing() as others:
        known = _checked(name, public_key, others)
        if os.path.lexists(private_path(name)) and public_half(signing_key(name, passphrase)) != public_key:
            raise InputError(
                f"{private_path(name)} is a private key, and not the other half of this one: choose another name, or"
                " move that file away."
            )
        _write((*others, known))
    return known


def forget(name: str) -> KnownKey:
    """Forget a key: its signatures are those of an unknown key again. A private key is left where it is.

    Parameters
    ----------
    name : str
        The name of a known key.

    Returns
    -------
    KnownKey
        What was known; ``trust`` takes it back.

    Raises
    ------
    InputError
        No key is known by this name, or the list cannot be read or written.
    """
    found = known_key(name)
    with _changing() as all_:
        _write(one for one in all_ if one != found)
    return found


def known_key(name: str) -> KnownKey:
    """The public key of a name; raises ``InputError`` where none is known."""
    _name(name)
    known = known_keys()
    found = next((one for one in known if one.name == name), None)
    if found is None:
        raise InputError(f"no key is known as {name}: {_instead(name, known)}")
    return found


def named_keys(signed_by: str | Iterable[str]) -> tuple[KnownKey, ...]:
    """The known keys of these names or fingerprints, one or several.

    Raises
    ------
    InputError
        One of them is none of a known key, or none is given.
    """
    wanted = (signed_by,) if isinstance(signed_by, str) else tuple(signed_by)
    if not wanted:
        raise InputError("signed_by names no key: name one, or leave it out.")
    return tuple(map(_named, wanted))


def _named(text: str) -> KnownKey:
    """The key with this fingerprint, or else of this name: a name that looks like a fingerprint must not hide one."""
    if not isinstance(text, str):
        raise InputError(f"signed_by holds {type(text).__name__}: expected names of known keys.")
    known, digits = known_keys(), "".join(text.split()).lower()
    if found := next((one for one in known if one.fingerprint.replace(" ", "") == digits), None):
        return found
    if FINGERPRINT.fullmatch(digits) and text not in {one.name for one in known}:
        raise InputError("no known key has this fingerprint: ask its owner for the key, and declare it with 'dplateau keys trust'.")
    return known_key(text)


def _instead(name: str, known: tuple[KnownKey, ...]) -> str:
    """What may have been meant."""
    names = [one.name for one in known]
    if near := get_close_matches(name, names, 1):
        return f"did you mean {near[0]}? 'dplateau keys list' names all."
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return f"known are {', '.join(names[:LISTED])}{more}." if names else "no key is known at all, see 'dplateau keys trust'."


def _checked(name: str, public_key: str, others: tuple[KnownKey, ...], since: str | None = None) -> KnownKey:
    """A key whose name and number no other one has."""
    known = KnownKey(_name(name), public_key_of(public_key), since or datetime.now(UTC).date().isoformat())
    try:
        date.fromisoformat(known.known_since)
    except ValueError:
        raise InputError("known_since is not a date such as 2026-01-31.") from None
    for one in others:
        if one.name == known.name:
            raise InputError(f"a key is known as {name} already, since {one.known_since}: choose another name.")
        if one.public_key == known.public_key:
            raise InputError(f"this key is known already, as {one.name}, since {one.known_since}.")
    return known


@contextmanager
def _changing() -> Iterator[tuple[KnownKey, ...]]:
    """The keys that are known, while no other process changes them."""
    known_keys()  # where the list is damaged nothing is made
    folder = keys_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror or 'input/output error'}. Set {FOLDER}.") from None
    with locked(folder / ".lock"):
        yield known_keys()


def _write(known: Iterable[KnownKey]) -> None:
    """Write the list; where it is a link, what that leads to."""
    data = {"kind": KIND, "format": FORMAT, "keys": [asdict(one) for one in known]}
    write_file(os.path.realpath(keys_folder() / "known.json"), json.dumps(data, indent=1) + "\n", mode=0o600)


def _name(name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError("the name of a key has 1 to 64 letters, digits and @ + . _ -, and begins with a letter or a digit.")
    return name


def _pem(name: str) -> bytes:
    """The file of a private key."""
    path = private_path(name)
    try:
        pem, mode = read_small(path, "a private key", LARGEST)
    except FileNotFoundError:
        raise InputError(f"there is no key {name} to sign with: make one with 'dplateau keys create {name}'.") from None
    if os.name == "posix" and mode & OTHERS:
        raise InputError(f"{path} can be read by other people: take it from them with 'chmod 600', or make a new key.")
    return pem
