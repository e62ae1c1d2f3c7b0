"""dplateau: training with differential privacy, with every epsilon proved and enclosed.

Names are loaded when they are first used. Runs need numpy only, accounting scipy as well; what trains needs ``dplateau[train]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from dplateau.spec.missing import explained

if TYPE_CHECKING:
    from dplateau._account import Report as Report
    from dplateau._account import account as account
    from dplateau._account import compose as compose
    from dplateau.accounting import Enclosure as Enclosure
    from dplateau.calibration import calibrate as calibrate
    from dplateau.estimators import PrivateLinearRegression as PrivateLinearRegression
    from dplateau.estimators import PrivateLinearSVC as PrivateLinearSVC
    from dplateau.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from dplateau.estimators import load_model as load_model
    from dplateau.filter import Filter as Filter
    from dplateau.planning import Plan as Plan
    from dplateau.planning import plan as plan

__version__ = "0.1.0"

_LAZY = {
    **dict.fromkeys(("Report", "account", "compose"), "dplateau._account"),
    "Enclosure": "dplateau.accounting",
    "calibrate": "dplateau.calibration",
    "Filter": "dplateau.filter",
    **dict.fromkeys(
        ("PrivateLinearRegression", "PrivateLinearSVC", "PrivateLogisticRegression", "load_model"), "dplateau.estimators"
    ),
    **dict.fromkeys(("Plan", "plan"), "dplateau.planning"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dplateau' has no attribute {name!r}")
    with explained():
        found = getattr(import_module(_LAZY[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
