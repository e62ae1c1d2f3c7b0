"""dplateau: training with differential privacy, with every epsilon proved and enclosed.

Names are loaded when they are first used. Runs need numpy only, accounting scipy as well; what trains needs ``dplateau[train]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dplateau.spec import AccuracyWarning as AccuracyWarning
from dplateau.spec import BudgetError as BudgetError
from dplateau.spec import InputError as InputError
from dplateau.spec import LedgerError as LedgerError
from dplateau.spec import PrivacyWarning as PrivacyWarning
from dplateau.spec import UncertifiedError as UncertifiedError
from dplateau.spec import WeakPrivacyWarning as WeakPrivacyWarning
from dplateau.spec.lazy import loaded

if TYPE_CHECKING:
    from dplateau._account import Report as Report
    from dplateau._account import account as account
    from dplateau._account import compose as compose
    from dplateau.accounting import Enclosure as Enclosure
    from dplateau.calibration import calibrate as calibrate
    from dplateau.estimators import PrivateGridSearch as PrivateGridSearch
    from dplateau.estimators import PrivateLinearRegression as PrivateLinearRegression
    from dplateau.estimators import PrivateLinearSVC as PrivateLinearSVC
    from dplateau.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from dplateau.estimators import load_estimator as load_estimator
    from dplateau.estimators import load_model as load_model
    from dplateau.estimators import load_network as load_network
    from dplateau.estimators import save_network as save_network
    from dplateau.filter import Filter as Filter
    from dplateau.ledger.ledger import Ledger as Ledger
    from dplateau.planning import Plan as Plan
    from dplateau.planning import plan as plan
    from dplateau.spec import Cyclic as Cyclic
    from dplateau.spec import FixedSize as FixedSize
    from dplateau.spec import FullBatch as FullBatch
    from dplateau.spec import OnePass as OnePass
    from dplateau.spec import Poisson as Poisson
    from dplateau.spec import RandomAllocation as RandomAllocation
    from dplateau.spec import Run as Run
    from dplateau.spec import Runs as Runs
    from dplateau.spec import Selection as Selection
    from dplateau.spec import Shuffled as Shuffled

__version__ = "0.2.0.dev0"

__getattr__, __dir__ = loaded(
    __name__,
    {
        "_account": ("Report", "account", "compose"),
        "accounting": ("Enclosure",),
        "calibration": ("calibrate",),
        "estimators": (
            "PrivateGridSearch",
            "PrivateLinearRegression",
            "PrivateLinearSVC",
            "PrivateLogisticRegression",
            "load_estimator",
            "load_model",
            "load_network",
            "save_network",
        ),
        "filter": ("Filter",),
        "ledger.ledger": ("Ledger",),
        "planning": ("Plan", "plan"),
        "spec": (
            "Cyclic",
            "FixedSize",
            "FullBatch",
            "OnePass",
            "Poisson",
            "RandomAllocation",
            "Run",
            "Runs",
            "Selection",
            "Shuffled",
        ),
    },
    star=("spec",),
)
