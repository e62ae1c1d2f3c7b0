"""``Run`` and its parts: frozen records of what was computed and what was released.

Names are loaded when they are first used: errors need nothing, runs NumPy.
"""

from typing import TYPE_CHECKING

from dplateau.spec.errors import AccuracyWarning as AccuracyWarning
from dplateau.spec.errors import BudgetError as BudgetError
from dplateau.spec.errors import ContradictionError as ContradictionError
from dplateau.spec.errors import InputError as InputError
from dplateau.spec.errors import LedgerError as LedgerError
from dplateau.spec.errors import PrivacyWarning as PrivacyWarning
from dplateau.spec.errors import UncertifiedError as UncertifiedError
from dplateau.spec.errors import WeakPrivacyWarning as WeakPrivacyWarning
from dplateau.spec.lazy import loaded

if TYPE_CHECKING:
    from dplateau.spec.assumption import Assumption as Assumption
    from dplateau.spec.facts import By as By
    from dplateau.spec.facts import Estimator as Estimator
    from dplateau.spec.facts import Generator as Generator
    from dplateau.spec.facts import How as How
    from dplateau.spec.facts import Key as Key
    from dplateau.spec.facts import Training as Training
    from dplateau.spec.run import ADJACENCIES as ADJACENCIES
    from dplateau.spec.run import RELEASED as RELEASED
    from dplateau.spec.run import ROUND_OFF as ROUND_OFF
    from dplateau.spec.run import Run as Run
    from dplateau.spec.runs import Runs as Runs
    from dplateau.spec.sampling import SAMPLINGS as SAMPLINGS
    from dplateau.spec.sampling import Cyclic as Cyclic
    from dplateau.spec.sampling import FixedSize as FixedSize
    from dplateau.spec.sampling import FullBatch as FullBatch
    from dplateau.spec.sampling import OnePass as OnePass
    from dplateau.spec.sampling import Poisson as Poisson
    from dplateau.spec.sampling import RandomAllocation as RandomAllocation
    from dplateau.spec.sampling import Sampling as Sampling
    from dplateau.spec.sampling import Shuffled as Shuffled
    from dplateau.spec.schedule import Schedule as Schedule
    from dplateau.spec.schedule import per_step as per_step
    from dplateau.spec.selection import Selection as Selection
    from dplateau.spec.steps import StepTable as StepTable

__getattr__, __dir__ = loaded(
    __name__,
    {
        "assumption": ("Assumption",),
        "facts": ("By", "Estimator", "Generator", "How", "Key", "Training"),
        "run": ("ADJACENCIES", "RELEASED", "ROUND_OFF", "Run"),
        "runs": ("Runs",),
        "sampling": (
            "SAMPLINGS",
            "Cyclic",
            "FixedSize",
            "FullBatch",
            "OnePass",
            "Poisson",
            "RandomAllocation",
            "Sampling",
            "Shuffled",
        ),
        "schedule": ("Schedule", "per_step"),
        "selection": ("Selection",),
        "steps": ("StepTable",),
    },
    star=("assumption", "facts", "run", "runs", "sampling", "schedule", "selection", "steps"),
)
