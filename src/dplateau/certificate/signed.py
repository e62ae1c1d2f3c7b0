"""``Signed``: who has signed a certificate file, as far as the reader knows the key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dplateau.certificate.keys import KnownKey, known_keys
from dplateau.certificate.signature import Signature, fingerprint
from dplateau.spec import ContradictionError, InputError

LARGEST: Final = 4096
"""Bytes of a signature file; one has some 400."""
LONGEST: Final = 600
"""Characters of an error about a file."""


@dataclass(frozen=True)
class Signed:
    """What is known of a certificate file's signature.

    Attributes
    ----------
    signature : Signature or None
        What lies beside the file. None where nothing does: it is not signed.
    known : KnownKey or None
        The key that made it, where the signature matches and the reader knows the key.
    matches : bool
        Whether the signature is one of this file. One that is not may be anybody's, and says that something was changed.
    """

    signature: Signature | None = None
    known: KnownKey | None = None
    matches: bool = True

    @property
    def state(self) -> str:
        """One of ``"known"``, ``"unknown"``, ``"unsigned"`` and ``"mismatch"``."""
        if self.signature is None:
            return "unsigned"
        if not self.matches:
            return "mismatch"
        return "unknown" if self.known is None else "known"

    @property
    def who(self) -> str:
        """By whom it is signed, and since when the key is known."""
        if self.signature is None:
            return "not signed"
        if not self.matches:
            return "the signature does NOT match the certificate"
        if self.known is None:
            return f"signed by an unknown key {fingerprint(self.signature.public_key)}"
        return f"signed by {self.known.name}, whose key is known since {self.known.known_since}"

    def check(self, path: Path) -> None:
        """Raise ``ContradictionError`` if the signature does not match."""
        if not self.matches:
            raise ContradictionError(
                f"{signature_path(path)}: {self.who}: the certificate was changed after it was signed, or the signature belongs to"
                " another one. Ask for both as they were signed."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Of a signature that does not match nothing is repeated."""
        one = self.signature if self.matches else None
        return {
            "state": self.state,
            "name": self.known and self.known.name,
            "known_since": self.known and self.known.known_since,
            "public_key": one and one.public_key,
            "signed_at": one and one.signed_at,
        }


UNSIGNED: Final = Signed()


def signature_path(path: Path) -> Path:
    """Where the signature of a certificate file lies: ``certificate.sig.json`` beside ``certificate.json``."""
    return path.with_suffix(".sig.json")


def signed_by(path: Path, content: bytes) -> Signed:
    """Who has signed the certificate file at ``path``, which has these bytes; raises ``InputError`` for a file that is none."""
    beside = signature_path(path)
    if not os.path.lexists(beside):
        return Signed()
    if not beside.is_file():
        raise InputError(f"{beside} is no file: expected a signature.")
    try:
        with beside.open("rb") as file:
            found = file.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise InputError(f"a signature has less than {LARGEST:,} bytes, and this file has more.")
        signature = Signature.from_json(found.decode("utf-8"))
    except OSError as error:
        raise InputError(f"{beside} cannot be read: {error.strerror or 'input/output error'}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{beside} cannot be read: it is not UTF-8 text.") from None
    except InputError as error:
        raise InputError(f"{beside}: {str(error)[:LONGEST]}") from None
    if not signature.matches(content):
        return Signed(signature, matches=False)
    return Signed(signature, next((one for one in known_keys() if one.public_key == signature.public_key), None))
