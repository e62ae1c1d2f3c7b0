"""Privacy notions, exact composition, and the statuses of bounds."""

from dplateau.accounting.bound import Asymptotic as Asymptotic
from dplateau.accounting.bound import Bound as Bound
from dplateau.accounting.bound import Conjectured as Conjectured
from dplateau.accounting.bound import NotApplicable as NotApplicable
from dplateau.accounting.bound import Proved as Proved
from dplateau.accounting.bound import Refuted as Refuted
from dplateau.accounting.composition import ExactComposition as ExactComposition
from dplateau.accounting.composition import GaussianDP as GaussianDP
from dplateau.accounting.composition import Guarantee as Guarantee
from dplateau.accounting.enclosure import Enclosure as Enclosure
from dplateau.accounting.gaussian import gdp_delta as gdp_delta
from dplateau.accounting.gaussian import gdp_epsilon as gdp_epsilon
from dplateau.accounting.gaussian import gdp_mu as gdp_mu
from dplateau.accounting.mechanism import compositions as compositions
from dplateau.accounting.renyi import RenyiDP as RenyiDP
