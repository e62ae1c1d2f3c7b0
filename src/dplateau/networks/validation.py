"""``Validation``: scores on public data, to stop early and to keep the best iterate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dplateau.spec import Assumption, InputError
from dplateau.spec.arguments import integer
from dplateau.spec.assumption import PublicValidation


class Score(NamedTuple):
    """A score, after so many steps."""

    steps: int
    score: float


@dataclass(frozen=True)
class Validation:
    """Looks at iterates through data that are **public**, which nobody can check but you.

    Every iterate of the run is accounted for, so what is computed from iterates and public data costs nothing. A part of the
    private records that is held out is not public: scores on it are releases that no bound here covers.

    Parameters
    ----------
    score : callable
        Takes the parameters, gives a number, the higher the better (an accuracy, or a negative loss) on public data. With a
        checkpoint or a ledger it is tried on the first parameters before anything is reserved.
    every : int
        Steps between two scores.
    declared_public : str
        What the data are and why they are public. It becomes part of the certificate.
    keep_best : bool, default True
        Whether the result is the iterate with the best score, not the last one.
    patience : int, optional
        Stop after so many scores without a better one. The cost is still that of all steps: the bounds do not know why a run
        stopped.

    Raises
    ------
    InputError
        An argument is out of range, or nothing is declared.
    """

    score: Callable[[Any], float]
    every: int
    declared_public: str
    keep_best: bool = True
    patience: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", integer("every", self.every))
        if self.patience is not None:
            object.__setattr__(self, "patience", integer("patience", self.patience))
        if not callable(self.score):
            raise InputError("score is not a function: expected one that takes the parameters and gives a number.")
        if not isinstance(self.declared_public, str) or not self.declared_public.strip():
            raise InputError("declared_public is empty: say what the validation data are and why they are public.")
        _ = self.assumption  # A text that no certificate takes is refused before anything is trained.

    @property
    def assumption(self) -> Assumption:
        """What the guarantee takes on trust."""
        return PublicValidation(data=" ".join(self.declared_public.split()))

    def number(self, params: Any) -> float:
        """What the score gives, as a number."""
        value = self.score(params)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(f"score gave {type(value).__name__}: expected a number, the higher the better.") from None

    def scored(self, params: Any, steps: int) -> Score:
        """The score of the parameters; raises ``InputError`` where it is not a number."""
        value = self.number(params)
        if math.isnan(value):
            raise InputError(f"score gave NaN after {steps} steps: expected a number, the higher the better.")
        return Score(steps, value)

    def gives_up(self, scores: list[Score]) -> bool:
        """Whether the patience is at an end."""
        if self.patience is None or not scores:
            return False
        best = max(range(len(scores)), key=lambda k: scores[k].score)
        return len(scores) - 1 - best >= self.patience
