"""Certificates: what a release costs, on what that rests, whether a recomputation agrees, and who has signed it."""

from dplateau.certificate.certificate import Certificate as Certificate
from dplateau.certificate.keys import KnownKey as KnownKey
from dplateau.certificate.keys import create_key as create_key
from dplateau.certificate.keys import known_keys as known_keys
from dplateau.certificate.keys import signing_key as signing_key
from dplateau.certificate.keys import trust as trust
from dplateau.certificate.label import Label as Label
from dplateau.certificate.make import DeclaredTraining as DeclaredTraining
from dplateau.certificate.make import make_certificate as make_certificate
from dplateau.certificate.proof import Proof as Proof
from dplateau.certificate.proof import proof_path as proof_path
from dplateau.certificate.proof import prove as prove
from dplateau.certificate.proof import read_proof as read_proof
from dplateau.certificate.read import certificate_schema as certificate_schema
from dplateau.certificate.read import read_certificate as read_certificate
from dplateau.certificate.read import read_signed as read_signed
from dplateau.certificate.signature import Signature as Signature
from dplateau.certificate.signed import Signed as Signed
from dplateau.certificate.signing import sign as sign
from dplateau.certificate.verification import Difference as Difference
from dplateau.certificate.verification import Verdict as Verdict
from dplateau.certificate.verification import verify as verify
from dplateau.certificate.weights import bound_to as bound_to
from dplateau.certificate.weights import check_weights as check_weights
from dplateau.certificate.weights import weights_digest as weights_digest
