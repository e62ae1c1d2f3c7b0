# pyright: basic
"""Clipping rows protects rows: a person with many of them moves the sum by as many clip norms. The mean of a person does not.

All noise comes from fixed seeds, so these tests always give the same; the error probability of each verdict is 1e-9.
"""

from __future__ import annotations

import numpy as np
import pytest

from dplateau._account import account
from dplateau.black_box import Case, examine
from dplateau.black_box.neighbours import FAR, one_record
from dplateau.calibration import calibrate
from dplateau.losses import Squared
from dplateau.spec import FullBatch, Poisson, Run
from dplateau.training import SecureGenerator, train

N, ROWS, SEVERAL = 64, 20, 3
"""Persons; rows of the one whose presence is guessed; rows of each other."""


def examined(trained, run, adjacency="add-remove"):
    neighbours = one_record(N, target=FAR, adjacency=adjacency)
    return examine(Case("persons", neighbours, run, trained), 2000, error=1e-9, generator=SecureGenerator(insecure_seed=0))


def run_of(sampling, adjacency="add-remove"):
    run = Run(n=N, sampling=sampling, steps=1, noise_multiplier=1.0, step_size=1.0, adjacency=adjacency, unit="person")
    return calibrate(run.replace(update="post-processed"), epsilon=8.0, delta=1e-5)


def persons():
    """Whose each row is."""
    return np.repeat(np.arange(N), np.r_[ROWS, np.full(N - 1, SEVERAL)])


@pytest.mark.parametrize("sampling", [FullBatch(), Poisson(N / 2)], ids=lambda one: one.kind)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_person_is_as_hidden_as_is_certified(sampling, adjacency):
    run, groups = run_of(sampling, adjacency), persons()

    def trained(features, target, generator):
        return train(run, Squared(), features[groups], target[groups], groups=groups, generator=generator).weights

    found = examined(trained, run, adjacency)
    assert not found.wrong
    assert found.found.mu > 0.2 * found.found.allowed_mu


def test_rows_that_are_clipped_one_by_one_do_not_hide_a_person():
    run, groups = run_of(FullBatch()), persons()
    rows = run.replace(unit="row", n=len(groups))

    def trained(features, target, generator):
        return train(rows, Squared(), features[groups], target[groups], generator=generator).weights

    assert examined(trained, run).wrong


def test_a_person_who_has_two_labels_is_not_hidden():
    """Why the certificate says that this is declared."""
    run, groups = run_of(FullBatch()), persons()
    torn = np.r_[np.arange(ROWS) + N, groups[ROWS:]]
    more = run.replace(n=len(np.unique(torn)))

    def trained(features, target, generator):
        return train(more, Squared(), features[groups], target[groups], groups=torn, generator=generator).weights

    assert examined(trained, run).wrong


def test_the_guarantee_of_a_row_says_less_of_a_person():
    """What there was before: the guarantee for a group, which grows faster than the number of rows."""
    row = Run(n=1000, sampling=Poisson(100), steps=200, noise_multiplier=2.0)
    one, group = account(row, 1e-6), account(row, 1e-6).trade_off.group(5)
    assert group.epsilon(1e-6) > 5 * one.epsilon
    assert account(row.replace(unit="person"), 1e-6).epsilon == one.epsilon


def test_the_audit_of_the_engine_has_persons():
    from dplateau.black_box.engine import engine_cases

    cases = [case for case in (one() for one in engine_cases() if one.keywords) if case.run.unit == "person"]
    assert {case.run.adjacency for case in cases} == {"add-remove", "replace"}
    found = examine(cases[1], 800, error=1e-9, generator=SecureGenerator(insecure_seed=0))
    assert not found.wrong
    assert found.found.mu > 0.05
