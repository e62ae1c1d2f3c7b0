"""The digest of a public schema, which certificates and models are bound to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from dplateau.data.schema import Schema


def schema_digest(schema: Schema) -> str:
    """SHA-256 of the schema as JSON with sorted keys and without spaces, in hexadecimal.

    What has its default value is left out, so that a schema keeps its digest when later versions know more fields.
    """
    return hashlib.sha256(json.dumps(_plain(schema), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        given = {one.name: getattr(value, one.name) for one in fields(value) if getattr(value, one.name) != one.default}
        kind = {"kind": value.kind} if hasattr(value, "kind") else {}  # type: ignore[attr-defined]
        return kind | {name: _plain(one) for name, one in given.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
