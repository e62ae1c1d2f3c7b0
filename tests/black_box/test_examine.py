# pyright: basic
"""The audit finds what is wrong, and accepts what is right: real solvers beside ones that are broken on purpose.

All noise comes from fixed seeds, so these tests always give the same; the error probability of each verdict is 1e-9.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dplateau.algorithms import SOLVERS, Budget, Problem, plan_noisy_sgd, plan_pnsgd
from dplateau.black_box import GROUPS, Case, audit_solvers, examine
from dplateau.black_box.estimators import stream_cases
from dplateau.black_box.last_iterate import last_iterate_cases
from dplateau.black_box.neighbours import FAR, float32_order, one_record, vanishing_norm
from dplateau.black_box.solvers import solver_cases
from dplateau.calibration import calibrate
from dplateau.losses import Squared
from dplateau.spec import FullBatch, InputError, Run
from dplateau.training import SecureGenerator, TrainingDiverged, train

ERROR = 1e-9


def examined(case, trainings=1000, seed=0):
    return examine(case, trainings, error=ERROR, generator=SecureGenerator(insecure_seed=seed))


def one_step(n, epsilon, clip_norm=1.0):
    run = Run(n=n, sampling=FullBatch(), steps=1, noise_multiplier=1.0, clip_norm=clip_norm, step_size=1.0)
    return calibrate(run, epsilon=epsilon, delta=1e-5)


def case_of(trained_run, certified_run, neighbours=None):
    """A solver that does ``trained_run`` and is certified for another one."""
    neighbours = neighbours or one_record(64, target=FAR)

    def trained(features, target, generator):
        return train(trained_run, Squared(), features, target, generator=generator).weights

    return Case("broken", neighbours, certified_run, trained)


def test_a_right_solver_is_accepted_and_found_to_cost_much_of_what_is_certified():
    finding = examined(next(solver_cases("dp-sgld"))())
    assert not finding.wrong
    assert 0.3 * finding.found.allowed_mu < finding.found.mu < finding.found.allowed_mu


def test_half_of_the_noise_is_found():
    run = one_step(64, 8.0)
    assert not examined(case_of(run, run)).wrong
    assert examined(case_of(run.replace(noise_multiplier=run.noise_multiplier / 2), run)).wrong


def test_a_clip_norm_that_is_not_enforced_is_found():
    run = one_step(64, 8.0)
    loose = run.replace(clip_norm=1000 * run.clip_norm, noise_multiplier=run.noise_multiplier / 1000)
    assert examined(case_of(loose, run), 400).wrong


def noisy(sums, run, generator):
    """Minus the mean of a sum with the noise that it ought to have, as one step releases it."""
    return -(sums + run.noise_multiplier * run.clip_norm * generator.normal(np.shape(sums))) / run.n


def test_sums_in_single_precision_are_found():
    neighbours = float32_order(60_000)
    run = one_step(60_000, 1.0, clip_norm=0.5)

    def trained(features, target, generator):
        gradients = ((0.5 - target)[:, None] * features).astype(np.float32)
        return noisy(np.add.accumulate(gradients)[-1].astype(float), run, generator)

    finding = examined(Case("float32", neighbours, run, trained), 400)
    assert finding.wrong
    assert finding.found.mu > 3 * finding.found.allowed_mu


def test_norms_that_underflow_are_found():
    neighbours = vanishing_norm("float64")
    run = one_step(len(neighbours.target), 1.0)

    def trained(features, target, generator):
        with np.errstate(divide="ignore", over="ignore"):
            norms = np.sqrt((features**2).sum(axis=1)) * abs(target)
            factor = np.minimum(1, run.clip_norm / norms)
        return noisy(-(factor * target) @ features, run, generator)

    assert examined(Case("underflow", neighbours, run, trained), 200).found.epsilon > 1


def test_low_bits_of_a_last_iterate_are_found():
    """Two steps in double precision, the noise of each on a grid, the iterate on none."""
    case = next(last_iterate_cases())()
    run = case.run
    scale = run.noise_multiplier * run.clip_norm
    grid = 2.0 ** (math.floor(math.log2(scale)) - 30)

    def trained(features, target, generator):
        weights = np.zeros(2)
        for _ in range(2):
            residual = features @ weights - target
            norms = np.linalg.norm(features, axis=1) * abs(residual)
            factor = np.where(norms > 0, np.minimum(1, run.clip_norm / np.maximum(norms, 1e-300)), 0)
            noisy = (np.rint((factor * residual) @ features / grid) + np.rint(scale * generator.normal(2) / grid)) * grid
            weights = weights - (noisy / run.n + run.l2 * weights)
        return weights

    finding = examined(replace(case, train=trained))
    assert finding.wrong
    assert finding.found.separated_by == "both sums"


def test_a_release_that_only_one_data_set_withholds_is_found():
    run = one_step(64, 1.0)

    def trained(features, _, generator):
        if features.any():
            raise TrainingDiverged("overflow")
        return noisy(np.zeros(2), run, generator)

    finding = examined(Case("diverges", one_record(64, target=FAR), run, trained), 400)
    assert finding.wrong
    assert finding.found.epsilon > 1


def test_a_solver_that_never_releases_anything_tells_nothing():
    def trained(*_):
        raise TrainingDiverged("overflow")

    finding = examined(Case("diverges", one_record(64, target=FAR), one_step(64, 1.0), trained), 100)
    assert (finding.wrong, finding.found.epsilon) == (False, 0)


def test_refused_data_are_no_failure():
    def trained(*_):
        raise InputError("no such rows")

    finding = examined(Case("refuses", one_record(64, target=FAR), one_step(64, 1.0), trained), 100)
    assert (finding.refused, finding.found, finding.wrong) == ("no such rows", None, False)
    assert finding.to_dict()["epsilon_at_least"] is None


def told(release, trainings=100):
    """What is found of a release of one number or more, without noise: ``release(features, k)`` in training number k."""
    count = iter(range(2 * trainings))
    case = Case("tells", one_record(64, target=FAR), one_step(64, 1.0), lambda features, *_: release(features, next(count)))
    return examined(case, trainings)


@pytest.mark.parametrize(
    "release",
    [
        lambda features, _: features.sum(),
        lambda features, _: [int(features.any())],
        lambda features, _: np.array([features.sum()], np.float16),
        lambda features, _: features.any(axis=0),
        lambda features, k: np.zeros(3 + features.any() + 5 * (k == 199)),
    ],
    ids=["one number", "a whole number", "half precision", "truth values", "lengths"],
)
def test_a_release_of_any_kind_is_looked_at(release):
    assert told(release).wrong


def test_a_release_into_the_same_memory_is_kept():
    weights = np.zeros(2)

    def release(features, _):
        weights[:] = features.sum(axis=0)
        return weights

    assert told(release).wrong


def test_a_solver_that_writes_into_its_data_is_given_the_same_ones_each_time():
    neighbours = one_record(64, target=FAR)
    sums = []

    def release(features, _):
        sums.append(features.sum())
        features *= 2
        return np.zeros(2)

    case = Case("writes", neighbours, one_step(64, 1.0), lambda features, *_: release(features, 0))
    assert not examined(case, 40).wrong
    assert set(sums) == {0.0, 1.0}
    assert neighbours.features.sum() == 1


@pytest.mark.parametrize("record", [True, False])
def test_data_of_which_one_is_refused_are_told_apart(record):
    def release(features, _):
        if features.any() == record:
            raise InputError("no such rows")
        return np.zeros(2)

    finding = told(release)
    assert (finding.refused, finding.wrong) == (None, True)


def test_complex_numbers_are_refused():
    with pytest.raises(InputError, match="tells: one record releases an array of complex128: expected real numbers"):
        told(lambda features, _: np.zeros(2, complex))


@pytest.mark.parametrize("error", [0.0, -1e-9, 1.0, 0.9999999e-18, math.nan])
def test_an_error_that_is_none_is_refused(error):
    """With 0 nothing would ever be found, and beyond 1 everything."""
    case = Case("mine", one_record(64, target=FAR), one_step(64, 1.0), lambda *_: pytest.fail("was trained"))
    with pytest.raises(InputError, match="error is "):
        examine(case, 100, error=error)


def test_every_solver_of_the_estimators_is_audited():
    assert set(SOLVERS) < set(GROUPS)
    for solver in SOLVERS:
        kinds = {case().neighbours.name for case in solver_cases(solver)}
        assert {"one record", "one record, replaced", "vanishing norm", "denormal"} <= kinds


def test_cases_certify_the_runs_that_they_train():
    """The plan that a case trains by is that of its certificate, at the epsilon that was asked for."""
    for case in (made() for made in (*solver_cases("pnsgd"), *stream_cases())):
        if case.solver == "pnsgd" and case.neighbours.name == "one record":
            plan = plan_pnsgd(Problem(64, 2, Squared()), Budget(8.0, 1e-5))
            assert case.run == plan.run
        if case.solver == "noisy-sgd, stream":
            epsilon = 8.0 if case.neighbours.name == "one record" else 1.0
            plan = plan_noisy_sgd(Problem(case.run.n, 2, Squared()), Budget(epsilon, 1e-5), steps=20, stream=True)
            assert case.run == plan.run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["no-such"]}, "solver is 'no-such': expected one of noisy-sgd, "),
        ({"names": ["pnsgd"], "confidence": 1.0}, "confidence is 1: expected a number below 1"),
        ({"names": ["pnsgd"], "trainings": 10}, "trainings is 10: expected a whole number >= 40"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        list(audit_solvers(**arguments))
