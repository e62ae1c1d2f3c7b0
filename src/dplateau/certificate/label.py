"""What a release is called, by the person who made it: nothing follows from it, and nothing checks it but a signature."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from dplateau.certificate.parts import keys
from dplateau.spec import InputError
from dplateau.spec.one_line import is_line

LONGEST: Final = 200
"""Characters of an entry."""


@dataclass(frozen=True)
class Label:
    """Who released what, from which data, and for what.

    Attributes
    ----------
    model, data, purpose, author : str or None
        One line of at most 200 printable characters each. They stand in the certificate and on its page, for everybody to read: put
        nothing private there, such as a count that is not public.
    date : str, optional
        Of the release, as ``2026-11-23``; today by default.

    Raises
    ------
    InputError
        An entry is longer, or cannot be printed, or the date is none.
    """

    model: str | None = None
    data: str | None = None
    purpose: str | None = None
    author: str | None = None
    date: str = ""

    def __post_init__(self) -> None:
        for name in ("model", "data", "purpose", "author"):
            value: object = getattr(self, name)
            if value is not None and not is_line(value, LONGEST):
                raise InputError(f"label: {name} is not a line of 1 to {LONGEST} printable characters.")
        if self.date == "":
            object.__setattr__(self, "date", datetime.now(UTC).date().isoformat())
        try:
            known = date.fromisoformat(self.date).isoformat() == self.date
        except (TypeError, ValueError):
            known = False
        if not known:
            raise InputError("label: date is not a day such as 2026-11-23.")

    @classmethod
    def from_dict(cls, data: object) -> Label:
        """The label that ``to_dict`` wrote; raises ``InputError`` where it is none."""
        entries = keys("label", data, set(cls.__dataclass_fields__))
        if entries["date"] == "":
            raise InputError("label: date is not a day such as 2026-11-23.")
        return cls(**entries)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What is stated, in words: names, and what stands beside them."""
        names = {"model": self.model, "data": self.data, "purpose": self.purpose, "made by": self.author, "date": self.date}
        return [(name, value) for name, value in names.items() if value]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)
