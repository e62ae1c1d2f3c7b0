"""What a guarantee rests on, and who saw to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

HOW: Final = ("enforced", "declared", "derived")


@dataclass(frozen=True)
class Assumption:
    """One condition of a guarantee.

    ``how`` is "enforced" (the code made it true: clipped, projected, drew the noise), "declared" (the caller vouches for it) or
    "derived" (it follows from the others by the stated mathematics).
    """

    name: str
    statement: str
    how: str

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ValueError(f"how is {self.how!r}: expected one of {', '.join(HOW)}.")

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return asdict(self)
