"""Utility theorems: bounds on the excess risk, or on the squared gradient, as functions of public facts.

Nothing here reads a record. Excess risk is ``E F(release) - min F`` with F the population loss. Where a theorem speaks of privacy,
rho is the parameter mu of Gaussian differential privacy under the replacement of a record.
"""

from dplateau.utility.adp_sgd import adp_sgd_stationarity as adp_sgd_stationarity
from dplateau.utility.adp_sgd import adp_sgd_stationarity_of as adp_sgd_stationarity_of
from dplateau.utility.adp_sgd import printed_adp_sgd_stationarity as printed_adp_sgd_stationarity
from dplateau.utility.adp_sgd_adagrad import adagrad_stationarity as adagrad_stationarity
from dplateau.utility.adp_sgd_adagrad import noisy_adagrad_stationarity as noisy_adagrad_stationarity
from dplateau.utility.adp_sgd_adagrad import printed_adagrad_stationarity as printed_adagrad_stationarity
from dplateau.utility.adp_sgd_polynomial import polynomial_stationarity as polynomial_stationarity
from dplateau.utility.adp_sgd_polynomial import printed_polynomial_stationarity as printed_polynomial_stationarity
from dplateau.utility.fixed_step_strongly_convex import fixed_step_risk as fixed_step_risk
from dplateau.utility.fixed_step_strongly_convex import fixed_step_weights as fixed_step_weights
from dplateau.utility.jain_nagaraj_netrapalli import jnn_risk as jnn_risk
from dplateau.utility.jain_nagaraj_netrapalli import jnn_step_sizes as jnn_step_sizes
from dplateau.utility.last_iterate import last_iterate_risk as last_iterate_risk
from dplateau.utility.linear_decay import linear_decay_risk as linear_decay_risk
from dplateau.utility.linear_decay import linear_decay_step_sizes as linear_decay_step_sizes
from dplateau.utility.localisation import Phases as Phases
from dplateau.utility.localisation import localised_risk as localised_risk
from dplateau.utility.phased_erm import phased_erm_phases as phased_erm_phases
from dplateau.utility.phased_erm import phased_erm_risk as phased_erm_risk
from dplateau.utility.phased_erm import phased_erm_sensitivity as phased_erm_sensitivity
from dplateau.utility.phased_erm import printed_phased_erm_rate as printed_phased_erm_rate
from dplateau.utility.phased_sgd import phased_sgd_phases as phased_sgd_phases
from dplateau.utility.phased_sgd import phased_sgd_risk as phased_sgd_risk
from dplateau.utility.phased_sgd import printed_phased_sgd_risk as printed_phased_sgd_risk
from dplateau.utility.phased_sgd_strongly_convex import phased_sgd_strongly_convex_phases as phased_sgd_strongly_convex_phases
from dplateau.utility.phased_sgd_strongly_convex import phased_sgd_strongly_convex_risk as phased_sgd_strongly_convex_risk
from dplateau.utility.phased_sgd_strongly_convex import (
    printed_phased_sgd_strongly_convex_rate as printed_phased_sgd_strongly_convex_rate,
)
from dplateau.utility.reduction import printed_reduction_risk as printed_reduction_risk
from dplateau.utility.reduction import reduction_closed_form as reduction_closed_form
from dplateau.utility.reduction import reduction_counts as reduction_counts
from dplateau.utility.reduction import reduction_risk as reduction_risk
from dplateau.utility.shamir_zhang import shamir_zhang_risk as shamir_zhang_risk
from dplateau.utility.shamir_zhang import shamir_zhang_step_size as shamir_zhang_step_size
from dplateau.utility.snowball_batches import DECAYING_STEPS as DECAYING_STEPS
from dplateau.utility.snowball_batches import FIXED_STEPS as FIXED_STEPS
from dplateau.utility.snowball_batches import snowball_batch_sizes as snowball_batch_sizes
from dplateau.utility.snowball_batches import snowball_root as snowball_root
from dplateau.utility.snowball_batches import snowball_steps as snowball_steps
from dplateau.utility.snowball_decaying import snowball_decaying_risk as snowball_decaying_risk
from dplateau.utility.snowball_decaying import snowball_decaying_risk_of_records as snowball_decaying_risk_of_records
from dplateau.utility.snowball_fixed import snowball_fixed_risk as snowball_fixed_risk
from dplateau.utility.snowball_fixed import snowball_fixed_risk_of_records as snowball_fixed_risk_of_records
from dplateau.utility.snowball_strongly_convex import snowball_strongly_convex_risk as snowball_strongly_convex_risk
from dplateau.utility.snowball_strongly_convex import (
    snowball_strongly_convex_risk_of_records as snowball_strongly_convex_risk_of_records,
)
from dplateau.utility.snowball_strongly_convex import snowball_strongly_convex_step_size as snowball_strongly_convex_step_size
