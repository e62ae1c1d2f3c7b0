"""Exact laws of the last iterate in one dimension, and a search for the instances that break a bound."""

from dplateau.audit.audit import BoundVerdict as BoundVerdict
from dplateau.audit.audit import Finding as Finding
from dplateau.audit.audit import audit as audit
from dplateau.audit.audit import examine as examine
from dplateau.audit.instance import Gradient as Gradient
from dplateau.audit.instance import Instance as Instance
from dplateau.audit.laws import Direction as Direction
from dplateau.audit.laws import Laws as Laws
from dplateau.audit.lower_bound import RenyiLowerBound as RenyiLowerBound
from dplateau.audit.lower_bound import lower_bound as lower_bound
from dplateau.audit.lower_bound import printed_lower_bound as printed_lower_bound
from dplateau.audit.lower_bound import random_walks as random_walks
from dplateau.audit.oracle import final_laws as final_laws
from dplateau.audit.search import worst_instance as worst_instance
from dplateau.audit.settings import setting as setting
from dplateau.audit.settings import settings as settings
from dplateau.spec.deprecated import moved

__getattr__ = moved(__name__, {"Verdict": f"{__name__}.BoundVerdict"})
