"""A stream of batches costs what one of them costs, can be stored at any time, and learns."""

import numpy as np
import pytest

from dplateau._account import account
from dplateau.algorithms import start_online_sgd
from dplateau.losses import Logistic, Softmax
from dplateau.spec import InputError
from dplateau.training import SecureGenerator

from .plans import planned


def start(**changes):
    return planned(start_online_sgd, **{"n": 1, "loss": Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 5, **changes})


def batch(size, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-9)
    return rows, (rows[:, 0] > 0).astype(int)


def stream(count, size=500, **changes):
    state, result = start(**changes), None
    for seed in range(count):
        state, result = state.step(*batch(size, seed), generator=SecureGenerator(insecure_seed=seed))
    return state, result


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_many_batches_cost_what_one_costs(adjacency):
    one, many = (account(stream(count, adjacency=adjacency)[0].run, 1e-5).epsilon for count in (1, 7))
    assert one == many
    assert 0.9999 < many <= 1.0


def test_the_run_says_what_happened():
    state, result = stream(3)
    run = state.run
    assert (run.n, run.steps, run.released, run.update) == (1_500, 3, "all", "post-processed")
    assert run.sampling.batch_size == (500, 500, 500)
    assert result.run == run
    assert "no record was in more than one batch" in [assumption.statement for assumption in result.assumptions]


def test_the_model_is_the_mean_weighted_by_the_records_so_far():
    state, mean, total = start(), np.zeros(5), 0
    for seed, size in enumerate((300, 500, 200)):
        state, result = state.step(*batch(size, seed), generator=SecureGenerator(insecure_seed=seed))
        seen = sum(state.sizes)
        mean, total = mean + seen * state.weights, total + seen
        assert result.weights == pytest.approx(mean / total)


def test_a_stream_learns():
    state, _ = stream(60, size=1_000, epsilon=4.0)
    rows, target = batch(5_000, 999)
    assert ((rows @ state.mean > 0) == target).mean() > 0.95


def test_a_refused_batch_leaves_the_stream_where_it_was():
    state, _ = stream(2)
    for rows, target, message in (
        (np.full((3, 5), np.nan), np.zeros(3), "not finite"),
        (np.zeros((3, 5)), np.full(3, 2), "other than 0 and 1"),
        (np.zeros((0, 5)), np.zeros(0), "no records"),
        (np.zeros((3, 4)), np.zeros(3), "shape"),
        (np.zeros((3, 5)), 1.0, "shape"),
        (np.ma.masked_array(np.zeros((3, 5)), mask=np.eye(3, 5)), np.zeros(3), "features have masked entries"),
        (np.zeros((3, 5)), np.ma.masked_array(np.zeros(3), mask=[0, 1, 0]), "targets have masked entries"),
        ([[0.1] * 5, [0.2] * 4, [0.3] * 5], np.zeros(3), "features cannot be made an array"),
        (np.zeros((3, 5)), [0.0, [1.0], 0.0], "target cannot be made an array"),
    ):
        with pytest.raises(InputError, match=message):
            state.step(rows, target)
    assert state.sizes == (500, 500)


def test_several_classes_are_not_clipped():
    state = start(loss=Softmax(3))
    after, result = state.step(batch(100)[0], np.arange(100) % 3, generator=SecureGenerator(insecure_seed=0))
    assert result.weights.shape == after.mean.shape == (5, 3)
    assert state.step_run.clip_norm > Softmax(3).lipschitz(1.0)


def test_step_sizes_fall_and_stay_below_the_smoothness():
    state, _ = stream(6, size=50, epsilon=0.1)
    assert list(state.step_sizes) == sorted(state.step_sizes, reverse=True)
    assert max(state.step_sizes) <= 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"unit": "person"}, "would be two records"), ({"l2": 0.1}, "have no l2 term"), ({"l2": (0, 0, 0.1, 0, 0)}, "no l2")],
)
def test_persons_and_l2_terms_have_no_stream(changes, words):
    with pytest.raises(InputError, match=words):
        start(**changes)
