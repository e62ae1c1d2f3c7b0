"""Certificates: what a release costs, on what that rests, and whether a recomputation agrees."""

from dplateau.certificate.certificate import Certificate as Certificate
from dplateau.certificate.make import DeclaredTraining as DeclaredTraining
from dplateau.certificate.make import make_certificate as make_certificate
from dplateau.certificate.read import certificate_schema as certificate_schema
from dplateau.certificate.read import read_certificate as read_certificate
from dplateau.certificate.verification import Difference as Difference
from dplateau.certificate.verification import Verdict as Verdict
from dplateau.certificate.verification import verify as verify
from dplateau.certificate.weights import bound_to as bound_to
from dplateau.certificate.weights import check_weights as check_weights
from dplateau.certificate.weights import weights_digest as weights_digest
