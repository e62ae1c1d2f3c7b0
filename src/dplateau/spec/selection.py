"""``Selection``: several candidates, of which only the best is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dplateau.spec.arguments import real, sequence
from dplateau.spec.errors import InputError
from dplateau.spec.run import FORMAT, Run
from dplateau.spec.runs import Runs, run_or_runs, runs_of
from dplateau.spec.shown import shown


@dataclass(frozen=True, init=False, repr=False)
class Selection(Runs):
    """Candidates on the same records, of which each is trained with some probability, and only the one with the best score is told.

    Coins say which candidates are trained; if none is, all coins are tossed again. The score is part of a candidate: where it is
    computed from the records, it is noisy, and its noise is the last of the candidate's runs. What is told is the result of the
    candidate with the best score, which one it is, and its score; nothing is told of the others, nor which of them were trained.

    Candidates are as many releases as they have runs, if all of them are told: ``Runs`` says what that costs.

    Parameters
    ----------
    candidates : iterable of Run or Runs
        At least one. Fixed in advance, as their order is: of equal scores the first one counts.
    probability : float, default 0.5
        With which each is trained, in (0, 1].

    Raises
    ------
    InputError
        There is no candidate, they differ in ``n``, ``adjacency`` or ``unit``, or the probability is out of range.

    Examples
    --------
    >>> import dplateau as dp
    >>> candidates = [dp.Run(n=60_000, sampling=dp.Poisson(600), steps=1000, noise_multiplier=z) for z in (3.0, 4.0, 5.0, 6.0)]
    >>> all_told, best_told = dp.compose(*candidates), dp.Selection(candidates)
    >>> round(dp.account(all_told, delta=1e-6).epsilon, 2), round(dp.account(best_told, delta=1e-6).epsilon, 2)
    (0.66, 0.5)
    """

    candidates: tuple[Run | Runs, ...]
    probability: float

    def __init__(self, candidates: Iterable[Run | Runs], probability: float = 0.5) -> None:
        found = sequence("candidates", candidates)
        if not found:
            raise InputError("there is no candidate to select: give at least one.")
        for one in found:
            if not isinstance(one, (Run, Runs)) or isinstance(one, Selection):
                raise InputError(f"a candidate is a run, or several composed ones, got {type(one).__name__}.")
        super().__init__(run for one in found for run in runs_of(one))
        object.__setattr__(self, "candidates", found)
        object.__setattr__(self, "probability", real("probability", probability, high=1.0))

    def __repr__(self) -> str:
        return shown(self, "runs")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. ``Selection.from_dict(selection.to_dict()) == selection``, exactly."""
        return {"format": FORMAT, "candidates": [one.to_dict() for one in self.candidates], "probability": self.probability}

    @classmethod
    def from_dict(cls, data: object) -> Selection:
        """The selection that ``to_dict`` wrote; raises ``InputError`` as ``Run.from_dict`` does."""
        wanted = {"format", "candidates", "probability"}
        if not isinstance(data, dict) or set(data) != wanted or not isinstance(data["candidates"], list):
            raise InputError('a selection must be a JSON object with "format", a list "candidates" and "probability".')
        if data["format"] != FORMAT:
            raise InputError(f"the selection has format {data['format']!r}: this version reads format {FORMAT}.")
        return cls((run_or_runs(one) for one in data["candidates"]), data["probability"])


def run_from_dict(data: object) -> Run | Runs:
    """The run, the several composed ones or the selection that ``to_dict`` wrote; raises ``InputError`` on anything else."""
    return Selection.from_dict(data) if isinstance(data, dict) and "candidates" in data else run_or_runs(data)
