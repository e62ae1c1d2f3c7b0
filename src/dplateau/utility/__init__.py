"""Utility theorems: bounds on the excess risk, or on the squared gradient, as functions of public facts.

Nothing here reads a record. Excess risk is ``E F(release) - min F`` with F the population loss. Where a theorem speaks of privacy,
rho is the parameter mu of Gaussian differential privacy under the replacement of a record.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from dplateau.utility.dp_sgld_constant import langevin_risk as langevin_risk
from dplateau.utility.dp_sgld_settings import langevin_noise as langevin_noise
from dplateau.utility.dp_sgld_settings import langevin_renyi_noise as langevin_renyi_noise
from dplateau.utility.dp_sgld_settings import langevin_step_sizes as langevin_step_sizes
from dplateau.utility.dp_sgld_settings import langevin_steps as langevin_steps
from dplateau.utility.dp_sgld_settings import langevin_steps_decaying as langevin_steps_decaying
from dplateau.utility.dp_sgld_settings import poisson_gradient_variance as poisson_gradient_variance
from dplateau.utility.dp_sgld_settings import poisson_smoothness as poisson_smoothness
from dplateau.utility.dp_sgld_settings import regularised_radius as regularised_radius
from dplateau.utility.jain_nagaraj_netrapalli import jnn_step_sizes as jnn_step_sizes
from dplateau.utility.last_iterate import last_iterate_risk as last_iterate_risk
from dplateau.utility.snowball_batches import DECAYING_STEPS as DECAYING_STEPS
from dplateau.utility.snowball_batches import FIXED_STEPS as FIXED_STEPS
from dplateau.utility.snowball_batches import snowball_batch_sizes as snowball_batch_sizes
from dplateau.utility.snowball_batches import snowball_root as snowball_root
from dplateau.utility.snowball_batches import snowball_steps as snowball_steps
from dplateau.utility.snowball_batches import snowball_strongly_convex_step_size as snowball_strongly_convex_step_size


def __getattr__(name: str) -> Any:
    """Theorems that only the papers use have moved to dplateau-papers."""
    try:
        found = None if name.startswith("__") else getattr(import_module("dplateau_papers.utility"), name, None)
    except ModuleNotFoundError as error:
        if error.name != "dplateau_papers":  # They are there, and something of theirs is not.
            raise
        raise AttributeError(f"dplateau.utility has no {name!r}; theorems of the papers are in dplateau-papers now.") from None
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"dplateau.utility.{name} has moved to dplateau_papers.utility.", DeprecationWarning, stacklevel=2)
    return found
