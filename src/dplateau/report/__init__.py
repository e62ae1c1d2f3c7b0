"""Certificates: what a run costs, on paper."""

from dplateau.report.certificate import Certificate as Certificate
from dplateau.report.certificate import Verdict as Verdict
from dplateau.report.certificate import make_certificate as make_certificate
from dplateau.report.certificate import verify as verify
