"""``Signed``: who has signed a certificate file, as far as the reader knows the key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from dplateau.certificate.keys import KnownKey, known_keys
from dplateau.certificate.parts import LONGEST, utf8
from dplateau.certificate.signature import TIME, Signature, fingerprint
from dplateau.files import read_small
from dplateau.spec import ContradictionError, InputError

LARGEST: Final = 4096
"""Bytes of a signature file; one has some 400."""
AHEAD: Final = timedelta(hours=1)
"""What clocks may differ by."""


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

    @property
    def when(self) -> str:
        """When it was signed, as the signer says; empty where nothing is known."""
        if self.signature is None or not self.matches:
            return ""
        said = self.signature.signed_at
        ahead = said > (datetime.now(UTC) + AHEAD).strftime(TIME)
        return f"signed at {said}, as the signer says" + (", but that time is still to come" if ahead else "")

    def check(self, path: Path, wanted: Iterable[KnownKey] | None = None) -> None:
        """Check the signature of a certificate file.

        Parameters
        ----------
        path : Path
            The certificate file.
        wanted : iterable of KnownKey, optional
            Keys of which one must have signed it; see ``named_keys``.

        Raises
        ------
        ContradictionError
            The signature does not match, or none of the keys that are wanted has made it.
        """
        if not self.matches:
            raise ContradictionError(
                f"{signature_path(path)}: {self.who}: the certificate was changed after it was signed, or the signature belongs to"
                " another one. Ask for both as they were signed."
            )
        if wanted is not None and self.known not in (wanted := tuple(wanted)):
            names = " or ".join(one.name for one in wanted)
            found = self.who if self.known is None else f"signed by {self.known.name}"
            ask = f"ask for its {signature_path(path).name}" if self.signature is None else f"ask for what {names} signed"
            raise ContradictionError(f"{path} is {found}, and a signature by {names} is demanded: {ask}.")

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


def who_signed(path: Path, content: bytes) -> Signed:
    """Who has signed the certificate file at ``path``, which has these bytes; raises ``InputError`` for a file that is none."""
    beside = signature_path(path)
    try:
        found, _ = read_small(beside, "a signature", LARGEST)
    except FileNotFoundError:
        return UNSIGNED
    text = utf8(beside, found)
    try:
        signature = Signature.from_json(text)
    except InputError as error:
        raise InputError(f"{beside}: {str(error)[:LONGEST]}") from None
    if not signature.matches(content):
        return Signed(signature, matches=False)
    return Signed(signature, next((one for one in known_keys() if one.public_key == signature.public_key), None))
