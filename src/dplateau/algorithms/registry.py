"""``SOLVERS``: every algorithm that is known by a name. Estimators, planner, command line and black-box audit read it."""

from __future__ import annotations

from typing import Final

from dplateau.algorithms.adp_sgd import SOLVERS as ADP_SGD
from dplateau.algorithms.dp_sgld import SOLVERS as DP_SGLD
from dplateau.algorithms.noisy_sgd import SOLVERS as NOISY_SGD
from dplateau.algorithms.phased_erm import SOLVERS as PHASED_ERM
from dplateau.algorithms.phased_sgd import SOLVERS as PHASED_SGD
from dplateau.algorithms.pnsgd import SOLVERS as PNSGD
from dplateau.algorithms.reduction import SOLVERS as REDUCTION
from dplateau.algorithms.snowball_sgd import SOLVERS as SNOWBALL_SGD
from dplateau.algorithms.solver import Solver
from dplateau.spec import InputError

SOLVERS: Final = {
    solver.name: solver for solver in (*NOISY_SGD, *ADP_SGD, *DP_SGLD, *PNSGD, *SNOWBALL_SGD, *PHASED_SGD, *PHASED_ERM, *REDUCTION)
}


def solver_named(name: str) -> Solver:
    """The solver of that name; an error that lists them where there is none."""
    if name not in SOLVERS:
        raise InputError(f"solver is {name!r}: expected one of auto, {', '.join(SOLVERS)}.")
    return SOLVERS[name]
