"""What is wrong in kind is one clear ``InputError``, and what is shown in a notebook is short."""

import math
from dataclasses import replace

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import gdp_delta, gdp_epsilon, gdp_mu
from dplateau.accounting.advanced import advanced_composition
from dplateau.accounting.attack import accuracy, detection_chain, posterior, true_positive_rate
from dplateau.accounting.trade_offs import (
    Gaussian,
    least_mu,
    limit_mu,
    maximum,
    mixture,
    of_masses,
    of_table,
    product,
    subsampled_limit_mu,
    trade_off,
)
from dplateau.algorithms import Budget, Problem, noise_energy, plan_noisy_sgd, plan_pnsgd, polynomial_decay, printed_dp_sgld
from dplateau.analyses import FixedOrderBound
from dplateau.black_box import examine
from dplateau.certificate import bound_to, check_weights, create_key, prove, read_certificate, read_proof, verify
from dplateau.data import Csv, Schema, array_stream, read_table, schema_from_toml, schema_to_toml
from dplateau.losses import ClassWeighted, Logistic, class_weighted
from dplateau.networks import train_network
from dplateau.report.epsilon_picture import plot_epsilon
from dplateau.report.page import certificate_page
from dplateau.report.plateau import plateau
from dplateau.report.plateau_picture import plot_plateau
from dplateau.report.trade_off import trade_offs
from dplateau.report.trade_off_picture import plot_trade_off
from dplateau.training.checks import checked_l2
from dplateau.training.persons import checked_groups

RUN = dp.Run(n=1_000, sampling=dp.FullBatch(), steps=4, noise_multiplier=20.0)
PROBLEM = Problem(1_000, 3, Logistic())
NAMES = np.array(["a", "b"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: RUN.replace(adjacency=NAMES), "adjacency is"),
        (lambda: dp.calibrate(None, epsilon=1.0), "run is of type NoneType"),
        (lambda: dp.calibrate(RUN, epsilon=1.0, vary=NAMES), "vary is"),
        (lambda: plateau(dp.compose(RUN, RUN)), "several runs"),
        (lambda: noise_energy(None), "run is of type NoneType"),
        (lambda: dp.Runs(None), "runs is None: expected a list"),
        (lambda: dp.Selection("ab"), "candidates is 'ab': expected a list"),
        (lambda: dp.Run.from_json(None), "expected JSON as a text, got NoneType"),
        (lambda: dp.Filter(n=1_000, epsilon=1.0, delta=None, order=2.0), "leaves no budget at epsilon 1 and delta 1e-05"),
        (lambda: dp.account(RUN).profile([math.nan]), "delta is nan"),
        (lambda: dp.account(RUN).profile(b"ab"), "deltas is b'ab': expected a list"),
        (lambda: dp.plan(1_000, 3, epsilon=1.0, loss="hinge"), r"loss is str: .*Logistic\(\)"),
        (lambda: dp.plan(1_000, 3, epsilon=1.0, solver=["pnsgd"]), "solver is"),
        (lambda: plan_noisy_sgd(Problem(1_000, 3, Logistic()), None), "budget is of type NoneType: expected a Budget"),
        (lambda: plan_noisy_sgd(None, Budget(1.0, 1e-5)), "problem is of type NoneType: expected a Problem"),
        (lambda: gdp_delta(-1.0, 1.0), "mu is -1.0"),
        (lambda: gdp_epsilon("1", 1e-5), "mu is '1'"),
        (lambda: gdp_mu(1.0, 0.0), "delta is 0"),
        (lambda: gdp_mu(math.nan, 1e-5), "epsilon is nan"),
        (lambda: true_positive_rate(None, 0.1), "f is of type NoneType: expected a TradeOff"),
        (lambda: accuracy(RUN), "f is of type Run: expected a TradeOff"),
        (lambda: posterior(Gaussian(1.0), None), "false_positive_rate is None"),
        (lambda: plot_plateau(RUN), "plateau is of type Run: expected a Plateau, which plateau"),
        (lambda: plot_trade_off(RUN), "found is of type Run: expected a TradeOffs, which trade_offs"),
        (lambda: plot_epsilon(RUN), "curves is of type Run: expected an? EpsilonCurves, which against_delta"),
        (lambda: detection_chain(Gaussian(1.0), 0, -1), "rows is -1"),
        (lambda: Gaussian(1.0).delta(math.nan), "epsilon is nan"),
        (lambda: Gaussian(1.0).polygon(points=-1), "points is -1"),
        (lambda: Gaussian(1.0).conjugate(None), "slope is None"),
        (lambda: Gaussian(1.0).log_delta("abc"), "epsilon is of type str: expected numbers"),
        (lambda: Gaussian(1.0).log_alpha(None), "epsilon is of type NoneType: expected numbers"),
        (lambda: limit_mu("1"), "parts is '1': expected a list"),
        (lambda: limit_mu([Gaussian(1.0)]), "a factor and its count is Gaussian"),
        (lambda: limit_mu([(Gaussian(1.0), None)]), "count is None"),
        (lambda: least_mu(None, 1e-9), "guarantee is of type NoneType: expected a Guarantee"),
        (lambda: detection_chain(Gaussian(1.0), None, 2), "false_positive_rate is None"),
        (lambda: train_network(RUN, None, {}, {}, cluster="1"), "cluster is of type str: expected a Cluster"),
        (lambda: read_proof(3, b""), "certificate is of type int: expected a path"),
        (lambda: subsampled_limit_mu(Gaussian(1.0), -1.0, 10.0), "p is -1"),
        (lambda: read_certificate(None), "certificate is of type NoneType: expected a path"),
        (lambda: create_key(None), "the name of a key"),
        (lambda: schema_from_toml(b"[columns]"), "expected a TOML text; load_schema reads a file"),
        (lambda: array_stream(np.zeros((3, 2)), np.zeros(3), feature_norm=math.nan), "feature_norm is nan"),
        (lambda: array_stream([[1.0, 2.0], [3.0]], np.zeros(2), feature_norm=1.0), "the rows have several lengths"),
        (lambda: schema_to_toml(None), "schema is of type NoneType: expected a Schema"),
        (lambda: Schema(columns=None), "columns is None: expected a list"),
        (lambda: Csv(decimal=NAMES), "csv: decimal is"),
        (lambda: product(None), "factors is None: expected a list"),
        (lambda: product([Gaussian(1.0)]), "a factor and its count is Gaussian"),
        (lambda: product([(None, 1)]), "factor is of type NoneType: expected a TradeOff"),
        (lambda: product([(Gaussian(1.0), 1, 2)]), "factors has an entry that is no pair"),
        (lambda: maximum(None), "member is of type NoneType: expected a TradeOff"),
        (lambda: mixture(None, [1.0]), "members is None: expected a list"),
        (lambda: mixture([Gaussian(1.0)], None), "weights is None: expected a list"),
        (lambda: of_table("ab", [0.1]), "epsilons is of type str: expected numbers"),
        (lambda: of_masses([0.5, 0.5], {}), "q is of type dict: expected numbers"),
        (lambda: trade_off(None), "guarantee is of type NoneType: expected a Guarantee"),
        (lambda: Gaussian(1.0).enclosure("ab"), "alpha is of type str: expected numbers"),
        (lambda: verify(None), "certificate is of type NoneType: expected a Certificate"),
        (lambda: certificate_page(None), "certificate is of type NoneType: expected a Certificate"),
        (lambda: bound_to(None, np.zeros(2)), "certificate is of type NoneType: expected a Certificate"),
        (lambda: read_table({}, None), "schema is of type NoneType: expected a Schema"),
        (lambda: check_weights(None, np.zeros(2)), "certificate is of type NoneType: expected a Certificate"),
        (lambda: advanced_composition("ab", [0.1], 0.1), "epsilons is 'ab'"),
        (lambda: advanced_composition([0.1], [math.nan], 0.1), r"deltas\[0\] is nan"),
        (lambda: advanced_composition([0.1], [0.1], None), "slack is None"),
        (lambda: class_weighted(None, [1.0, 2.0]), "loss is of type NoneType: expected a GeneralisedLinearLoss"),
        (lambda: class_weighted(Logistic(), None), "class_weight is None"),
        (lambda: ClassWeighted(Logistic(), None), "weights is None: expected a list"),
        (lambda: dp.plan(10**30, 3, epsilon=1.0), "n over the batch size is .* <= 10,000,000"),
        (lambda: dp.plan(1_000, 10**30, epsilon=1.0), "d times the number of scores is .* <= 1,000,000,000"),
        (lambda: dp.plan(1_000, 3, epsilon=1.0, classes=10**30), "d times the number of scores is .* <= 1,000,000,000"),
        (lambda: dp.plan(1_000, 3, epsilon=1.0, feature_norm=1e-320), "feature_norm is 9.99989e-321"),
        (lambda: dp.plan(1_000, 3, epsilon=1.0, solver=NAMES), "solver is"),
        (lambda: dp.plan(1_000, 3, epsilon=1.0, one_pass=NAMES), "one_pass is .*: expected true or false"),
        (lambda: plan_pnsgd(PROBLEM, Budget(1.0, 1e-5), batch_size=[]), "batch_size has no entry"),
        (lambda: plan_noisy_sgd(PROBLEM, Budget(1.0, 1e-5), stream=NAMES), "stream is .*: expected true or false"),
        (lambda: polynomial_decay(10**30, a=1, c=1), "steps is .* <= 10,000,000"),
        (lambda: printed_dp_sgld(None, 1.0, 1e-5), "run is of type NoneType: expected a Run"),
        (lambda: FixedOrderBound().bound(None), "run is of type NoneType: expected a Run"),
        (lambda: examine(None, 40, error=0.1), "case is of type NoneType: expected a Case"),
        (lambda: checked_l2("1", 2), "l2 is of type str: expected numbers"),
        (lambda: checked_groups([True, 1], 2), "1 of 2 rows have no label in groups"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_is_said(call, says):
    with pytest.raises(dp.InputError, match=says):
        call()


def test_deltas_at_the_ends():
    assert gdp_delta(1.0, math.inf) < 1e-300
    assert gdp_delta(1.0, math.nan) == gdp_delta(1.0, -math.inf) == gdp_delta(math.nan, 1.0) == 1.0
    assert gdp_epsilon(math.nan, 1e-5) == gdp_epsilon(10**400, 1e-5) == math.inf
    assert gdp_delta(1.0, -(10**400)) == 1.0
    assert gdp_delta(0.0, math.inf) == 0.0


def test_what_is_shown_is_short():
    sampled = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=100, noise_multiplier=1.3)
    for shown in (
        dp.account(sampled).trade_off,
        trade_offs(sampled),
        dp.compose(*[RUN] * 100),
        dp.Selection([RUN] * 50),
    ):
        assert len(repr(shown)) < 1_500, repr(shown)
    assert repr(dp.compose(*[RUN] * 100)) == "Runs(runs=<100 of Run>)"
    assert repr(dp.Selection([RUN] * 50)) == "Selection(candidates=<50 of Run>, probability=0.5)"
    assert repr(dp.Filter(n=1_000, epsilon=1.0, delta=1e-5)) == "<Filter: 100.0% left of epsilon 1 at delta 1e-05, 0 runs>"


def test_a_proof_of_many_numbers_is_shown_in_short():
    pytest.importorskip("flint")
    proof = prove(RUN, epsilon=3.0, delta=1e-5)
    assert "others=<42 of Proof>" in repr(replace(proof, others=(proof,) * 42))
