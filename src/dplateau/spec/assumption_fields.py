"""What every assumption has, and what its fields may hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

import numpy as np

from dplateau.spec.arguments import integer, real
from dplateau.spec.errors import InputError
from dplateau.spec.facts import By, How, Rounding, member, plain_text


def _finite(name: str, value: object) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} is not a number.")
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


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """One condition of a guarantee.

    Parameters
    ----------
    how : How or str, default "declared"
        "enforced" (the code made it true) or "declared" (somebody vouches for it).
    by : By or str, default "caller"
        Who did: "dplateau", "opacus" or "caller", which is the person who trained.

    Raises
    ------
    InputError
        A field is not of its kind.
    """

    how: How = How.DECLARED
    by: By = By.CALLER
    name: ClassVar[str] = ""
    sentence: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = CHECKS[str(field.type)](f"assumption {self.name!r}: {field.name}", getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    @property
    def statement(self) -> str:
        """The condition as a sentence."""
        return self.sentence.format(**vars(self))

    @property
    def void(self) -> str | None:
        """Why it does not hold, and the guarantee with it; None where it does."""
        return None

    def enforced(self, by: By = By.DPLATEAU) -> Self:
        """The same, made true by code."""
        return replace(self, how=How.ENFORCED, by=by)

    def vouched(self, by: By) -> Self:
        """The same, on somebody's word."""
        return replace(self, how=How.DECLARED, by=by)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = vars(self).items()
        return {"name": self.name} | {name: one.value if isinstance(one, StrEnum) else one for name, one in found}
