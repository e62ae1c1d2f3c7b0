"""Certificates: what a release costs, on what that rests, and whether a recomputation agrees."""

import warnings
from typing import Any

from dplateau.report.certificate import Certificate as Certificate
from dplateau.report.certificate import DeclaredTraining as DeclaredTraining
from dplateau.report.certificate import make_certificate as make_certificate
from dplateau.report.certificate_json import certificate_schema as certificate_schema
from dplateau.report.certificate_json import read_certificate as read_certificate
from dplateau.report.files import new_folder as new_folder
from dplateau.report.files import write_file as write_file
from dplateau.report.page import certificate_page as certificate_page
from dplateau.report.page import write_page as write_page
from dplateau.report.verify import Difference as Difference
from dplateau.report.verify import Verdict as Verdict
from dplateau.report.verify import verify as verify
from dplateau.report.weights import bound_to as bound_to
from dplateau.report.weights import check_weights as check_weights
from dplateau.report.weights import weights_digest as weights_digest
from dplateau.spec import ContradictionError as ContradictionError


def __getattr__(name: str) -> Any:
    if name == "Testimony":
        warnings.warn("dplateau.report.Testimony is DeclaredTraining now.", DeprecationWarning, stacklevel=2)
        return DeclaredTraining
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
