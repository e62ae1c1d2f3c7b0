"""What the fields of an assumption may hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from dplateau.spec.errors import InputError
from dplateau.spec.facts import By, How, Rounding, member, plain_text
from dplateau.spec.schedule import integer, real


def _finite(name: str, value: object) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} is no number.")
    return real(name, value, low=-math.inf)


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is neither true nor false.")
    return value


CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "How": lambda name, value: member(name, How, value),
    "By": lambda name, value: member(name, By, value),
    "Rounding": lambda name, value: member(name, Rounding, value),
    "float": _finite,
    "int": lambda name, value: integer(name, _finite(name, value)),
    "bool": _truth,
    "str": plain_text,
    "str | None": lambda name, value: None if value is None else plain_text(name, value),
}
"""What a field may hold, by its type as it is written in the class."""
