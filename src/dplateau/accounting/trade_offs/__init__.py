"""Trade-off functions: what f-differential privacy is stated in."""

from dplateau.accounting.trade_offs.base import TradeOff as TradeOff
from dplateau.accounting.trade_offs.functionals import Functionals as Functionals
from dplateau.accounting.trade_offs.functionals import functionals as functionals
from dplateau.accounting.trade_offs.functionals import limit_mu as limit_mu
from dplateau.accounting.trade_offs.functionals import subsampled_limit_mu as subsampled_limit_mu
from dplateau.accounting.trade_offs.least_mu import least_mu as least_mu
from dplateau.accounting.trade_offs.of_guarantee import Enclosed as Enclosed
from dplateau.accounting.trade_offs.of_guarantee import trade_off as trade_off
from dplateau.accounting.trade_offs.operations import maximum as maximum
from dplateau.accounting.trade_offs.operations import minimum as minimum
from dplateau.accounting.trade_offs.operations import mixture as mixture
from dplateau.accounting.trade_offs.piecewise import Piecewise as Piecewise
from dplateau.accounting.trade_offs.piecewise import epsilon_delta as epsilon_delta
from dplateau.accounting.trade_offs.piecewise import of_masses as of_masses
from dplateau.accounting.trade_offs.piecewise import of_table as of_table
from dplateau.accounting.trade_offs.product import product as product
from dplateau.accounting.trade_offs.smooth import Gaussian as Gaussian
from dplateau.accounting.trade_offs.smooth import OfPair as OfPair
