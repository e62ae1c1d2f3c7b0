"""dplateau: training with differential privacy, with every epsilon proved and enclosed.

Accounting is imported at once and needs numpy and scipy only; estimators and everything that trains are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dplateau.account import Report as Report
from dplateau.account import account as account
from dplateau.account import compose as compose
from dplateau.accounting import Enclosure as Enclosure
from dplateau.calibration import calibrate as calibrate
from dplateau.filter import Filter as Filter
from dplateau.spec import Cyclic as Cyclic
from dplateau.spec import FixedSize as FixedSize
from dplateau.spec import FullBatch as FullBatch
from dplateau.spec import InputError as InputError
from dplateau.spec import OnePass as OnePass
from dplateau.spec import Poisson as Poisson
from dplateau.spec import PrivacyWarning as PrivacyWarning
from dplateau.spec import Run as Run
from dplateau.spec import Runs as Runs
from dplateau.spec import Shuffled as Shuffled
from dplateau.spec import UncertifiedError as UncertifiedError

if TYPE_CHECKING:
    from dplateau.estimators import PrivateLinearRegression as PrivateLinearRegression
    from dplateau.estimators import PrivateLinearSVC as PrivateLinearSVC
    from dplateau.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from dplateau.estimators import load_model as load_model
    from dplateau.planning import Plan as Plan
    from dplateau.planning import plan as plan

__version__ = "0.1.0"

_LAZY = {
    **dict.fromkeys(
        ("PrivateLinearRegression", "PrivateLinearSVC", "PrivateLogisticRegression", "load_model"), "dplateau.estimators"
    ),
    **dict.fromkeys(("Plan", "plan"), "dplateau.planning"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dplateau' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
