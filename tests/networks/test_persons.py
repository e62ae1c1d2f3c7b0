"""Persons as examples of a network: the gradient of a person's mean loss is clipped, whatever its rows are."""

# pyright: basic
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dplateau as dp
from dplateau.certificate import make_certificate
from dplateau.networks import by_person, loss_of_person, train_network
from dplateau.training import SecureGenerator

GROUPS = ["b", "a", "b", "c", "b", "a"]
PARAMS = {"w": jnp.array([[0.5, -0.2], [0.1, 0.3]]), "v": jnp.array([1.0, -1.0])}


class Noiseless(SecureGenerator):
    def normal_words(self, count, memory=None):
        return np.full(super().normal_words(count).shape, ~np.uint64(0))  # Radius 0.


def loss(params, row):
    x, y = row
    return (jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2


def rows_of(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 2)).astype(np.float32), rng.normal(size=count).astype(np.float32)


def test_rows_are_put_together_by_person():
    x = np.arange(6.0)
    found = by_person({"x": x}, GROUPS, most=2)
    np.testing.assert_array_equal(found.rows["x"], [[0, 2], [1, 5], [3, 3]])
    np.testing.assert_array_equal(found.weight, [[0.5, 0.5], [0.5, 0.5], [1, 0]])
    whole = by_person({"x": x}, GROUPS, most=5)
    np.testing.assert_array_equal(whole.rows["x"][0], [0, 2, 4, 0, 0])
    np.testing.assert_allclose(whole.weight.sum(axis=1), 1)


def run_of(n, **changes):
    fields = {"n": n, "sampling": dp.FullBatch(), "steps": 1, "noise_multiplier": 1.0, "clip_norm": 0.3, "step_size": float(n)}
    return dp.Run(**{**fields, "unit": "person", **changes})


def moved(rows, groups, n, most=8):
    """The sum of clipped gradients."""
    found = train_network(
        run_of(n), loss_of_person(loss), PARAMS, by_person(rows, groups, most=most), generator=Noiseless(insecure_seed=0)
    )
    return jax.tree.map(lambda before, after: np.asarray(before - after, float), PARAMS, found.params)


def norm_of(tree, other=None):
    parts = [leaf.ravel() for leaf in jax.tree.leaves(tree)]
    others = [leaf.ravel() for leaf in jax.tree.leaves(other)] if other else [0 * one for one in parts]
    return float(np.linalg.norm(np.concatenate(parts) - np.concatenate(others)))


def test_a_step_is_the_sum_of_clipped_gradients_of_means():
    rows, groups = rows_of(6), np.array(GROUPS)
    total = jax.tree.map(lambda leaf: np.zeros(leaf.shape), PARAMS)
    for person in "abc":
        mine = tuple(column[groups == person] for column in rows)
        mean = jax.grad(lambda p, mine=mine: jnp.mean(jax.vmap(lambda x, y: loss(p, (x, y)))(*mine)))(PARAMS)
        factor = min(1, 0.3 / norm_of(mean))
        total = jax.tree.map(lambda before, one, factor=factor: before + factor * np.asarray(one), total, mean)
    assert norm_of(moved(rows, groups, 3), total) < 0.01 * norm_of(total)


@pytest.mark.parametrize("factor", [1.0, 1e6, 1e18])
def test_a_person_moves_the_sum_by_at_most_the_clip_norm(factor):
    (x, y), groups = rows_of(20), np.r_[np.arange(12), np.full(8, 12)]
    mine = groups == 12
    x[mine] *= factor
    y[mine] *= factor
    with_it = moved((x, y), groups, 13)
    without = moved((x[~mine], y[~mine]), groups[~mine], 12)
    assert norm_of(with_it, without) <= 0.3 * (1 + 1e-3)


def test_the_certificate_says_persons():
    rows = rows_of(60)
    run = run_of(20, sampling=dp.Poisson(10), steps=5, noise_multiplier=3.0, step_size=0.1)
    result = train_network(run, loss_of_person(loss), PARAMS, by_person(rows, np.arange(60) % 20, most=3))
    certificate = make_certificate(dp.account(run, 1e-3), result)
    assert "All rows of a person are protected together." in certificate.statement
    assert "persons" in {one.name for one in certificate.assumptions}


def test_what_is_wrong():
    rows = rows_of(6)
    with pytest.raises(dp.InputError, match="use a run with unit='person'"):
        train_network(run_of(3, unit="row"), loss_of_person(loss), PARAMS, by_person(rows, GROUPS, most=2))
    more = {"person": by_person(rows, GROUPS, most=2), "age": np.zeros(3, np.float32)}  # They are found wherever they are.
    with pytest.raises(dp.InputError, match="use a run with unit='person'"):
        train_network(run_of(3, unit="row"), lambda p, one: loss_of_person(loss)(p, one["person"]), PARAMS, more)
    with pytest.raises(dp.InputError, match="the run's n = 4"):
        train_network(run_of(4), loss_of_person(loss), PARAMS, by_person(rows, GROUPS, most=2))
    for groups, most, says in ((GROUPS[:5], 2, "one label"), (GROUPS, 0, "most"), ([None] * 6, 2, "6 of 6 rows")):
        with pytest.raises(dp.InputError, match=says):
            by_person(rows, groups, most=most)
    x, y = rows
    with pytest.raises(dp.InputError, match="masked entries, which are missing"):
        by_person((np.ma.masked_equal(x, x[1, 0]), y), GROUPS, most=2)
    with pytest.raises(dp.InputError, match="arrays of several lengths"):
        by_person((np.zeros(3), np.zeros(4)), GROUPS, most=2)


def test_persons_in_a_fixed_order_are_sorted_by_the_caller():
    rows, groups = rows_of(6), np.array(["b", "b", "a", "a", "c", "c"])
    run = run_of(3, sampling=dp.Cyclic(1))
    train_network(run, loss_of_person(loss), PARAMS, by_person(rows, groups, most=2))
    moved = by_person(rows, groups[[0, 2, 3, 1, 4, 5]], most=2)
    with pytest.raises(dp.InputError, match="do not follow one another"):
        train_network(run, loss_of_person(loss), PARAMS, moved)
    more = {"person": moved, "age": np.zeros(3, np.float32)}
    with pytest.raises(dp.InputError, match="do not follow one another"):
        train_network(run, lambda params, one: loss_of_person(loss)(params, one["person"]), PARAMS, more)
    train_network(run_of(3), loss_of_person(loss), PARAMS, moved)
