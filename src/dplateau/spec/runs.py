"""``Runs``: several runs on the same records, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dplateau.spec.arguments import sequence
from dplateau.spec.errors import InputError
from dplateau.spec.run import FORMAT, Run, digest_of
from dplateau.spec.schedule import Schedule
from dplateau.spec.shown import shown


@dataclass(frozen=True, repr=False)
class Runs:
    """Several runs on the same records: phases of one training, or one model after the other.

    Each run may start from what earlier ones released, and look at it. Their number and their parameters are fixed in advance;
    where they are chosen on the way, use ``dplateau.Filter``.

    Parameters
    ----------
    runs : iterable of Run
        At least one, in the order in which they took place, all with the same ``n``, ``adjacency`` and ``unit``.

    Raises
    ------
    InputError
        There is no run, or they differ in ``n``, ``adjacency`` or ``unit``.
    """

    runs: tuple[Run, ...]

    def __init__(self, runs: Iterable[Run]) -> None:
        object.__setattr__(self, "runs", sequence("runs", runs))
        if not self.runs:
            raise InputError("there is no run to compose: give at least one.")
        for run in self.runs:
            if not isinstance(run, Run):
                raise InputError(f"expected runs, got {type(run).__name__}.")
        for name in ("n", "adjacency", "unit"):
            if len(found := {getattr(run, name) for run in self.runs}) > 1:
                values = " and ".join(str(value) for value in sorted(found))
                raise InputError(f"the runs differ in {name} ({values}): only runs on the same records compose to one guarantee.")

    def __repr__(self) -> str:
        return shown(self)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.runs[0].n

    @property
    def adjacency(self) -> str:
        """What neighbouring data sets differ in."""
        return self.runs[0].adjacency

    @property
    def unit(self) -> str:
        """What a record is."""
        return self.runs[0].unit

    @property
    def steps(self) -> int:
        """Gradient steps of all runs."""
        return sum(run.steps for run in self.runs)

    @property
    def released(self) -> str:
        """What the runs release: the last iterate if that holds for every one, all iterates otherwise."""
        return "last" if all(run.released == "last" for run in self.runs) else "all"

    @property
    def noise_multiplier(self) -> tuple[Schedule, ...]:
        """The noise of each run."""
        return tuple(run.noise_multiplier for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. ``Runs.from_dict(runs.to_dict()) == runs``, exactly."""
        return {"format": FORMAT, "runs": [run.to_dict() for run in self.runs]}

    @classmethod
    def from_dict(cls, data: object) -> Runs:
        """The runs that ``to_dict`` wrote; raises ``InputError`` as ``Run.from_dict`` does."""
        if not isinstance(data, dict) or set(data) != {"format", "runs"} or not isinstance(data["runs"], list):
            raise InputError('composed runs must be a JSON object with "format" and a list "runs".')
        if data["format"] != FORMAT:
            raise InputError(f"the runs have format {data['format']!r}: this version reads format {FORMAT}.")
        return cls(Run.from_dict(run) for run in data["runs"])

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return digest_of(self.to_dict())


def run_or_runs(data: object) -> Run | Runs:
    """The run, or the several composed ones, that ``to_dict`` wrote; raises ``InputError`` on anything else."""
    return Runs.from_dict(data) if isinstance(data, dict) and "runs" in data else Run.from_dict(data)


def checked_run(run: Any) -> Any:
    """``run`` if it is a run, or several; raises ``InputError`` otherwise."""
    if not isinstance(run, Run | Runs):
        raise InputError(
            f"run is of type {type(run).__name__}: expected a Run, several as compose(*runs), or the one of a certificate as"
            " certificate.run, which read_certificate(path) reads."
        )
    return run


def single_run(run: Any) -> Run:
    """``run`` if it is one run; raises ``InputError`` otherwise."""
    if isinstance(checked_run(run), Runs):
        raise InputError("run is several runs: expected a single Run.")
    return run


def runs_of(run: Run | Runs) -> tuple[Run, ...]:
    """The runs of several, or the one that stands alone."""
    return run.runs if isinstance(run, Runs) else (run,)
