"""Frozen parameters: no clip norm, no noise, no gradient, the same numbers at the end; and masks that do not fit."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dplateau.networks import Checkpoint, Validation, noisy_adam, noisy_sgd, train_network
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.lattice import lattice_of
from dplateau.networks.recorded import record
from dplateau.networks.trainable import parts_of
from dplateau.spec import FullBatch, InputError
from dplateau.training import TrainingInterrupted

from .small import N, data, flat, loss, run_of, run_with_optimizer, seeded, start

MASK = {"w": False, "b": True, "v": True}
LAYERS = {"first": {"w": np.ones((3, 4), np.float32), "b": np.zeros(4, np.float32)}, "second": {"v": np.ones(4, np.float32)}}


def layers_loss(params, example):
    return loss({**params["first"], **params["second"]}, example)


def partitioned(weight):
    """The same loss by hand: what is frozen is a constant of the loss, and no parameter."""
    return lambda params, example: loss({"w": weight, **params}, example)


@pytest.mark.parametrize("optimizer", [None, noisy_sgd(0.2, momentum=0.5), noisy_adam(0.05), optax.adamw(0.05)])
@pytest.mark.parametrize("average", [0.0, 0.5])
def test_training_with_frozen_parameters_is_training_of_the_others(optimizer, average):
    run = run_of() if optimizer is None and not average else run_with_optimizer(step_size=0.2)
    params = start()
    options = {"optimizer": optimizer, "average": average}
    found = train_network(run, loss, params, data(), trainable=MASK, generator=seeded(), **options)
    others = {name: params[name] for name in "bv"}
    wanted = train_network(run, partitioned(params["w"]), others, data(), generator=seeded(), **options)
    for tree, reference in ((found.params, wanted.params), (found.last, wanted.last)):
        np.testing.assert_array_equal(tree["w"], params["w"])
        np.testing.assert_allclose(flat({name: tree[name] for name in "bv"}), flat(reference), rtol=1e-5, atol=1e-6)
    assert (flat(found.last) != flat(params)).any()


def test_frozen_parameters_take_no_part_of_the_clip_norm():
    """With them every example has norm 0.5, of which the others have a small part; without, the others have all of it."""
    params, examples = start(), data()
    everybody, rows = np.arange(N, dtype=np.int32), jax.tree.map(lambda column: column[0], examples)
    norms = []
    for mask in (None, MASK):
        parts = parts_of(params, mask)
        recorded, run = record(loss, parts.start, rows, parts), run_of(sampling=FullBatch(), clip_norm=1e-3)
        weights = sum(leaf.size for leaf in jax.tree.leaves(parts.start))
        lattice = lattice_of(run, weights)
        summed = ClippedSums(run, recorded, parts.start, examples, lattice, None, None, parts.frozen)
        alone = np.array([summed(parts.start, everybody[k : k + 1]) for k in range(N)])
        assert alone.shape == (N, weights + 1)
        assert max(sum(int(entry) ** 2 for entry in row) for row in alone) <= 4**lattice.bits  # exact, in integers
        norms.append(np.linalg.norm(alone[:, :8], axis=1) / 2.0**lattice.bits)  # b and v come first
    np.testing.assert_allclose(norms[1], np.sqrt(1 - 2.0**-8), rtol=1e-4)
    assert (norms[0] < 0.9).any()


def test_no_gradient_by_frozen_parameters_is_formed():
    parts = parts_of(start(), MASK)
    recorded = record(loss, parts.start, jax.tree.map(lambda column: column[0], data()), parts)
    gradients = jax.eval_shape(recorded.gradients, parts.start, data(), parts.frozen)
    assert len(gradients) == recorded.leaves == 2
    assert recorded.footprint < record(loss, start(), jax.tree.map(lambda column: column[0], data())).footprint


@pytest.mark.parametrize(
    "mask",
    [
        {"first": False, "second": True},
        {"first": {"w": False, "b": False}, "second": {"v": np.True_}},
        {"first": {"w": np.False_, "b": False}, "second": True},
    ],
)
def test_a_mask_is_the_upper_part_of_the_tree(mask):
    result = train_network(run_of(steps=3), layers_loss, LAYERS, data(), trainable=mask)
    assert jax.tree.structure(result.params) == jax.tree.structure(LAYERS)
    np.testing.assert_array_equal(flat(result.params["first"]), flat(LAYERS["first"]))
    assert (flat(result.params["second"]) != 1).all()


def test_all_trainable_is_the_same_as_no_mask():
    results = [train_network(run_of(), loss, start(), data(), trainable=mask, generator=seeded()) for mask in (None, True)]
    np.testing.assert_array_equal(flat(results[0].params), flat(results[1].params))


def test_frozen_parameters_have_any_type():
    params = {
        **start(),
        "half": jnp.ones(4, jnp.bfloat16),
        "table": np.arange(4),
        "mask": np.array([True, False, True, True]),
        "minus": np.float32(-np.inf),
        "double": np.full(4, 0.5),
    }

    def mixed(p, e):
        hidden = e[0] @ p["w"] * p["half"] * p["double"] + p["table"]
        return jnp.max(jnp.where(p["mask"], hidden, p["minus"])) + loss(p, e)

    trainable = {name: name in "wbv" for name in params}
    result = train_network(run_of(steps=3), mixed, params, data(), trainable=trainable)
    for name in params.keys() - set("wbv"):
        np.testing.assert_array_equal(np.asarray(result.params[name]), np.asarray(params[name]))
    assert result.params["half"].dtype == jnp.bfloat16
    assert result.dtype == "float32"


def test_scores_see_all_parameters():
    seen = []
    look = Validation(lambda params: seen.append(jax.tree.map(np.asarray, params)) or 0.0, 4, "made up")
    result = train_network(run_of(steps=8), loss, start(), data(), trainable=MASK, validation=look)
    assert all(params.keys() == {"w", "b", "v"} for params in seen)
    np.testing.assert_array_equal(seen[0]["w"], start()["w"])
    np.testing.assert_array_equal(flat(result.params), flat(seen[0]))


def stopping(done, _):
    if done == 8:
        raise KeyboardInterrupt


def test_a_checkpoint_goes_on_with_the_mask_and_the_frozen_numbers_that_it_was_made_with(tmp_path):
    square = {"a": np.ones((3, 3), np.float32), "b": np.ones((3, 3), np.float32)}
    deep = lambda p, e: jnp.sum(jnp.tanh(e[0] @ p["a"]) @ p["b"])  # noqa: E731

    def go(params, mask, path, **options):
        arguments = {"trainable": mask, "checkpoint": Checkpoint(path, 4), "generator": seeded(), **options}
        return train_network(run_of(), deep, params, data(), **arguments)

    mask, other = {"a": False, "b": True}, {"a": True, "b": False}
    whole = go(square, mask, tmp_path / "whole")
    path = tmp_path / "stopped"
    with pytest.raises(TrainingInterrupted):
        go(square, mask, path, progress=stopping)
    for params, wrong in ((square, other), ({**square, "a": 2 * square["a"]}, mask)):
        with pytest.raises(InputError, match="another trainable or rng, or with other frozen parameters"):
            go(params, wrong, path)
    with pytest.raises(InputError, match="belongs to another"):
        go(square, None, path)
    result = go(square, mask, path)
    np.testing.assert_array_equal(flat(result.params), flat(whole.params))
    np.testing.assert_array_equal(result.params["a"], square["a"])


@pytest.mark.parametrize(
    ("mask", "changes", "message"),
    [
        ([False, True], {}, "trainable does not fit params: expected their tree"),
        ({"w": True, "b": True}, {}, "trainable does not fit params"),
        ({"w": None, "b": True, "v": True}, {}, "trainable does not fit params"),
        ({"w": "frozen", "b": True, "v": True}, {}, "trainable holds bool, str: expected True"),
        ({"w": 0, "b": 1, "v": 1}, {}, "trainable holds int: expected True"),
        (lambda path: True, {}, "trainable holds function: expected True"),
        (False, {}, "nothing would be trained"),
        (MASK, {"w": np.full((3, 4), 0.1)}, r"params\['w'\] holds float64: expected numbers that float32 holds"),
        (MASK, {"w": np.array("text")}, r"params\['w'\] holds <U4: expected numbers"),
        (MASK, {"w": jnp.tanh}, r"params\['w'\] is .*: expected arrays of numbers; keep everything else out"),
        (MASK, {"w": jax.random.key(0)}, r"params\['w'\] is key<fry>"),
        (True, {"w": jax.random.key(0)}, "params hold float32, key<fry>"),
    ],
)
def test_masks_that_do_not_fit_are_refused_in_one_line(mask, changes, message):
    with pytest.raises(InputError, match=message) as error:
        train_network(run_of(), loss, {**start(), **changes}, data(), trainable=mask)
    assert "\n" not in str(error.value)


FROZEN = {
    "multi_transform": optax.multi_transform({"t": optax.adam(0.1), "f": optax.set_to_zero()}, {"w": "f", "b": "t", "v": "t"}),
    "masked": optax.chain(optax.sgd(0.1), optax.masked(optax.set_to_zero(), {"w": True, "b": False, "v": False})),
    "with decay": optax.chain(optax.adamw(0.1), optax.transforms.freeze({"w": True, "b": False, "v": False})),
}


@pytest.mark.parametrize("name", FROZEN)
def test_an_optimizer_that_freezes_is_told_of_the_mask_once(name):
    with pytest.warns(UserWarning, match="trainable=") as found:
        train_network(run_with_optimizer(steps=2), loss, start(), data(), optimizer=FROZEN[name])
    assert [str(one.message) for one in found] == [
        "the optimizer never changes params['w'], whose gradients take a part of clip_norm all the same: freeze them with "
        "trainable= of train_network."
    ]
    assert found[0].filename == __file__


@pytest.mark.parametrize("optimizer", [noisy_sgd(0.1), optax.adam(optax.linear_schedule(0.0, 1.0, 5)), optax.adamw(0.1)])
def test_an_optimizer_that_changes_everything_is_not_warned_of(optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_network(run_with_optimizer(steps=2), loss, start(), data(), optimizer=optimizer)
        train_network(run_with_optimizer(steps=2), loss, start(), data(), optimizer=optimizer, trainable=MASK)
