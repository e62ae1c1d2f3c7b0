"""What the best of several candidates costs, of which each is trained with some probability. **Proved**
(``docs/proofs/private-selection.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from dplateau.accounting import Bound, Guarantee, NotApplicable, Proved
from dplateau.accounting.selection import Selected
from dplateau.accounting.tensor import tensor
from dplateau.analyses.base import Analysis
from dplateau.spec import Run, Runs, Selection
from dplateau.spec.runs import runs_of

NAME: Final = "private-selection"
SOURCE: Final = "dplateau: candidates tried with some probability; docs/proofs/private-selection.md"
_ORDER: Final = 2.0
"""A bound without a divergence of this order has none that is of use."""


def best_of_candidates(selection: Selection, leading: Iterable[Analysis], delta: float) -> Bound | NotApplicable:
    """Every candidate by the proved bound that has a Renyi divergence and is least at its share of delta, and the best one told.

    Parameters
    ----------
    selection : Selection
        The candidates.
    leading : iterable of Analysis
        Proved analyses.
    delta : float
        Of the whole. What is chosen by it holds at every other delta, too.
    """
    known: dict[Run | Runs, Guarantee] = {}
    used, share = list(leading), delta / len(selection.candidates)
    for number, candidate in enumerate(selection.candidates, start=1):
        if candidate in known:
            continue
        parts = [covering(run, used, share) for run in runs_of(candidate)]
        if any(part is None for part in parts):
            reason = f"no proved bound gives candidate {number} a finite Renyi divergence."
            return NotApplicable(NAME, SOURCE, Proved.__name__, reason)
        known[candidate] = tensor([part[1] for part in parts if part is not None])
    return Proved(NAME, SOURCE, Selected(tuple(known[one] for one in selection.candidates), selection.probability))


def covering(run: Run, leading: Iterable[Analysis], delta: float) -> tuple[Analysis, Guarantee] | None:
    """The proved analysis that is least for a candidate's run among those with a Renyi divergence, and what it says."""
    found = [(analysis, analysis.guarantee(run).chosen(delta)) for analysis in leading if analysis.why_not(run) is None]
    usable = [(analysis, one) for analysis, one in found if one.divergence(_ORDER) < math.inf]
    return min(usable, key=lambda pair: pair[1].upper(delta), default=None)
