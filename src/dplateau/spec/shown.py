"""What records look like in an interpreter or a notebook."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np

_WRITTEN: Final = 8
"""A longer schedule is shown by its length and its ends."""


def shown(record: Any, *without: str) -> str:
    """The ``repr`` of a dataclass without what has its default, and with long schedules, arrays and lists in short."""
    given = ((one.name, getattr(record, one.name), one.default) for one in fields(record) if one.name not in without)
    parts = (f"{name}={_short(value)}" for name, value, default in given if isinstance(value, np.ndarray) or value != default)
    return f"{type(record).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    if not isinstance(value, tuple | np.ndarray) or len(value) <= _WRITTEN:
        return repr(value)
    if isinstance(value[0], float):
        return f"<{len(value):,} values, {value[0]:g} to {value[-1]:g}>"
    return f"<{len(value):,} of {type(value[0]).__name__}>"
