"""What every analysis is: a published (or our own) theorem, applied to a run or declined with a reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dplateau.accounting import Bound, Guarantee, NotApplicable
from dplateau.spec import Run
from dplateau.spec.arguments import of_type


class Analysis(ABC):
    """One theorem. Concrete analyses are final and hold no state.

    The proof of a ``Proved`` analysis is the page of ``docs/proofs/`` that is named like its file. ``dominated_by`` names an
    analysis that is no worse where both apply, up to what its search may miss: reports then leave this one out. Searches always do.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    status: ClassVar[type[Bound]]
    dominated_by: ClassVar[str | None] = None

    @abstractmethod
    def why_not(self, run: Run) -> str | None:
        """The missing assumption and how to meet it; None where the theorem covers the run."""

    @abstractmethod
    def guarantee(self, run: Run) -> Guarantee:
        """What the theorem says of a run that it covers."""

    def about(self, run: Run, delta: float) -> float:
        """About what epsilon is, of a run that the theorem covers. For searches, where that is faster; never reported."""
        return self.guarantee(run).upper(delta)

    def bound(self, run: Run) -> Bound | NotApplicable:
        """The statement with its status, or the reason why there is none. Never a bare number."""
        reason = self.why_not(of_type("run", run, Run))
        return self.status(self.name, self.source, self.guarantee(run)) if reason is None else self.declined(reason)

    def declined(self, reason: str) -> NotApplicable:
        """That there is no statement, and why."""
        return NotApplicable(self.name, self.source, self.status.__name__, reason)
