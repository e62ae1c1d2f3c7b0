"""Algorithms: each plans a ``Run`` for a ``Problem`` and a ``Budget``, and carries it out.

Names are loaded when they are first used: the list of solvers needs nothing that trains.
"""

from typing import TYPE_CHECKING

from dplateau.algorithms.registry import SOLVERS as SOLVERS
from dplateau.algorithms.registry import solver_named as solver_named
from dplateau.algorithms.solver import Algorithm as Algorithm
from dplateau.algorithms.solver import Solver as Solver
from dplateau.algorithms.solver import StreamAlgorithm as StreamAlgorithm
from dplateau.spec.lazy import loaded

if TYPE_CHECKING:
    from dplateau.algorithms.adp_sgd import plan_adp_sgd as plan_adp_sgd
    from dplateau.algorithms.dp_sgld import DPSGLD as DPSGLD
    from dplateau.algorithms.dp_sgld import plan_dp_sgld as plan_dp_sgld
    from dplateau.algorithms.dp_sgld import printed_dp_sgld as printed_dp_sgld
    from dplateau.algorithms.noise_allocation import adagrad_noise as adagrad_noise
    from dplateau.algorithms.noise_allocation import adaptation_gain as adaptation_gain
    from dplateau.algorithms.noise_allocation import adapted_noise as adapted_noise
    from dplateau.algorithms.noise_allocation import least_noise_cost as least_noise_cost
    from dplateau.algorithms.noise_allocation import noise_cost as noise_cost
    from dplateau.algorithms.noise_allocation import noise_energy as noise_energy
    from dplateau.algorithms.noise_allocation import printed_sigma as printed_sigma
    from dplateau.algorithms.noise_optimum import optimal_noise as optimal_noise
    from dplateau.algorithms.noisy_sgd import NoisySGD as NoisySGD
    from dplateau.algorithms.noisy_sgd import plan_noisy_sgd as plan_noisy_sgd
    from dplateau.algorithms.online_sgd import OnlineSGD as OnlineSGD
    from dplateau.algorithms.online_sgd import start_online_sgd as start_online_sgd
    from dplateau.algorithms.phased_erm import PhasedERM as PhasedERM
    from dplateau.algorithms.phased_erm import plan_phased_erm as plan_phased_erm
    from dplateau.algorithms.phased_sgd import PhasedSGD as PhasedSGD
    from dplateau.algorithms.phased_sgd import plan_phased_sgd as plan_phased_sgd
    from dplateau.algorithms.pnsgd import PNSGD as PNSGD
    from dplateau.algorithms.pnsgd import plan_pnsgd as plan_pnsgd
    from dplateau.algorithms.problem import Budget as Budget
    from dplateau.algorithms.problem import Problem as Problem
    from dplateau.algorithms.reduction import plan_reduction as plan_reduction
    from dplateau.algorithms.snowball_sgd import plan_snowball_sgd as plan_snowball_sgd
    from dplateau.algorithms.step_schedules import polynomial_decay as polynomial_decay
    from dplateau.algorithms.step_schedules import square_root_decay as square_root_decay

__getattr__, __dir__ = loaded(
    __name__,
    {
        "adp_sgd": ("plan_adp_sgd",),
        "dp_sgld": ("DPSGLD", "plan_dp_sgld", "printed_dp_sgld"),
        "noise_allocation": (
            *("adagrad_noise", "adaptation_gain", "adapted_noise", "least_noise_cost"),
            *("noise_cost", "noise_energy", "printed_sigma"),
        ),
        "noise_optimum": ("optimal_noise",),
        "noisy_sgd": ("NoisySGD", "plan_noisy_sgd"),
        "online_sgd": ("OnlineSGD", "start_online_sgd"),
        "phased_erm": ("PhasedERM", "plan_phased_erm"),
        "phased_sgd": ("PhasedSGD", "plan_phased_sgd"),
        "pnsgd": ("PNSGD", "plan_pnsgd"),
        "problem": ("Budget", "Problem"),
        "reduction": ("plan_reduction",),
        "snowball_sgd": ("plan_snowball_sgd",),
        "step_schedules": ("polynomial_decay", "square_root_decay"),
    },
)
