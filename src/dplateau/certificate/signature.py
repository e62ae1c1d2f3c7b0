"""``Signature``: whose key stands behind the bytes of a certificate file."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from dplateau.certificate.parts import keys, text_of
from dplateau.spec import InputError
from dplateau.spec.missing import explained
from dplateau.spec.strict_json import strict_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "dplateau signature"
FORMAT: Final = 1
ALGORITHM: Final = "Ed25519"
HEAD: Final = b"dplateau certificate signature 1\n"
"""What every signed text begins with, so that a signature of something else is none of a certificate."""
ENTRIES: Final = frozenset({"kind", "format", "algorithm", "public_key", "signed_at", "signature"})
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
KEY: Final = re.compile(r"[0-9a-f]{64}")
SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
WEAK: Final = frozenset(
    {
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    }
)
"""Points of small order, but for the sign: one signature of theirs fits many texts, and anybody can make it."""


@dataclass(frozen=True)
class Signature:
    """An Ed25519 signature over the bytes of a certificate file and the time.

    Attributes
    ----------
    public_key : str
        64 hexadecimal digits.
    signed_at : str
        The time that the signer claims, in UTC, such as ``2026-01-31T12:00:00Z``. Nobody else vouches for it.
    signature : str
        128 hexadecimal digits.
    """

    public_key: str
    signed_at: str
    signature: str

    @classmethod
    def of(cls, content: bytes, key: Ed25519PrivateKey) -> Signature:
        """Sign the bytes of a certificate file now."""
        signed_at = datetime.now(UTC).strftime(TIME)
        return cls(public_half(key), signed_at, key.sign(_signed_text(content, signed_at)).hex())

    def matches(self, content: bytes) -> bool:
        """Whether the key has signed these very bytes, at the time that stands here."""
        with explained():
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), _signed_text(content, self.signed_at))
        except InvalidSignature:
            return False
        return True

    def to_json(self) -> str:
        """The text of a signature file."""
        return json.dumps({"kind": KIND, "format": FORMAT, "algorithm": ALGORITHM, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Signature:
        """The signature that ``to_json`` wrote; raises ``InputError`` where the text is none. Whether it matches is not checked."""
        data = keys("the signature", strict_json(text), ENTRIES)
        if (data["kind"], data["format"], data["algorithm"]) != (KIND, FORMAT, ALGORITHM):
            raise InputError(f"this is not a {KIND} of format {FORMAT} with {ALGORITHM}: sign the certificate again.")
        signed_at = text_of("signed_at", data["signed_at"])
        try:
            known = datetime.strptime(signed_at, TIME).strftime(TIME) == signed_at
        except ValueError:
            known = False
        if not known:
            raise InputError("signed_at is not a time in UTC such as 2026-01-31T12:00:00Z.")
        if not SIGNATURE.fullmatch(text_of("signature", data["signature"])):
            raise InputError("signature is not 128 lower-case hexadecimal digits.")
        return cls(public_key_of(text_of("public_key", data["public_key"])), signed_at, data["signature"])


def public_half(key: Ed25519PrivateKey) -> str:
    """The public key of a private one, in hexadecimal."""
    return key.public_key().public_bytes_raw().hex()


def public_key_of(text: str) -> str:
    """A public key in hexadecimal that only the owner of its other half can sign with; raises ``InputError`` for any other text."""
    if not isinstance(text, str) or not KEY.fullmatch(text):
        raise InputError("a public key is 64 lower-case hexadecimal digits: use what 'dplateau keys export' prints.")
    if text[:62] + f"{int(text[62:], 16) & 0x7F:02x}" in WEAK:
        raise InputError("this is not a public key that anybody can rely on: everybody can sign with it. Ask for another one.")
    return text


def fingerprint(public_key: str) -> str:
    """128 bits of a key's SHA-256 in groups of four digits, to be compared by eye."""
    digest = hashlib.sha256(bytes.fromhex(public_key)).hexdigest()
    return " ".join(digest[i : i + 4] for i in range(0, 32, 4))


def _signed_text(content: bytes, signed_at: str) -> bytes:
    """What is signed. The time is one line, so no two pairs of time and content give the same bytes."""
    return HEAD + signed_at.encode() + b"\n" + content
