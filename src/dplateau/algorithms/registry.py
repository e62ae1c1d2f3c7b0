"""``SOLVERS``: every algorithm that is known by a name. Estimators, planner, command line and black-box audit read it.

It takes no time to import: the file of an algorithm, and with it what trains, is imported when it is first planned.
"""

from __future__ import annotations

from typing import Final

from dplateau.algorithms.solver import Solver
from dplateau.spec import InputError

SOLVERS: Final = {
    solver.name: solver
    for solver in (
        Solver(
            name="noisy-sgd",
            title="Noisy-SGD with momentum and averaging",
            planner="noisy_sgd.plan_noisy_sgd",
            takes_steps=True,
            allocates=True,
            shares=True,
            takes_dtype=True,
        ),
        Solver(
            name="adp-sgd",
            title="ADP-SGD: falling steps, noise adapted to them",
            planner="adp_sgd.plan_adp_sgd",
            takes_steps=True,
            shares=True,
            takes_dtype=True,
        ),
        Solver(
            name="dp-sgld",
            title="DP-SGLD: plain steps, only the last iterate is released",
            planner="dp_sgld.plan_dp_sgld",
            needs_l2=True,
            takes_steps=True,
        ),
        Solver(
            name="pnsgd",
            title="one noisy pass with falling steps (PNSGD)",
            planner="pnsgd.plan_pnsgd",
            one_pass=True,
            shares=True,
        ),
        Solver(
            name="snowball-sgd",
            title="Snowball-SGD, falling steps (Theorem 3.6)",
            planner="snowball_sgd.plan_snowball_sgd",
            options={"rule": "falling"},
            refuses_l2=True,
            one_pass=True,
        ),
        Solver(
            name="snowball-sgd-fixed",
            title="Snowball-SGD, equal steps (Theorem 3.5)",
            planner="snowball_sgd.plan_snowball_sgd",
            options={"rule": "fixed"},
            one_pass=True,
        ),
        Solver(
            name="snowball-sgd-strong",
            title="Snowball-SGD, strongly convex (Theorem 5.4)",
            planner="snowball_sgd.plan_snowball_sgd",
            options={"rule": "strongly-convex"},
            needs_l2=True,
            one_pass=True,
        ),
        Solver(
            name="phased-sgd",
            title="Phased-SGD (Theorem 4.4)",
            planner="phased_sgd.plan_phased_sgd",
            refuses_l2=True,
        ),
        Solver(
            name="phased-sgd-strong",
            title="Phased-SGD, strongly convex (Theorem 5.3)",
            planner="phased_sgd.plan_phased_sgd",
            needs_l2=True,
        ),
        Solver(
            name="phased-erm",
            title="Phased-ERM (Theorem 4.8)",
            planner="phased_erm.plan_phased_erm",
        ),
        Solver(
            name="reduction",
            title="Phased-SGD, repeated on parts (Theorem 5.1)",
            planner="reduction.plan_reduction",
            needs_l2=True,
        ),
    )
}
"""Theorem numbers are those of Feldman, Koren, Talwar 2020."""


def solver_named(name: str) -> Solver:
    """The solver of that name; an error that lists them where there is none."""
    if not isinstance(name, str) or name not in SOLVERS:
        raise InputError(f"solver is {name!r}: expected one of auto, {', '.join(SOLVERS)}.")
    return SOLVERS[name]
