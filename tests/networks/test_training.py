"""``train_network`` against training by hand, the noise that reaches the iterates, and everything that it refuses."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from dplateau.networks import Validation, noisy_sgd, train_network
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.lattice import lattice_of
from dplateau.networks.recorded import record
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Shuffled
from dplateau.training import TrainingDiverged

from .small import N, data, flat, loss, noisy_gradients, run_of, run_with_optimizer, seeded, silent, start

FALSE_ALARM = 1e-9
SAMPLINGS = (
    Poisson(6.0),
    FixedSize(7),
    RandomAllocation(6.5),
    Cyclic(9),
    Cyclic((5, 15, 20)),
    Shuffled(9),
    OnePass(1),
    FullBatch(),
)


def by_hand(run, loss=loss, params=None, examples=None):
    """The iterates of plain steps."""
    eta = np.broadcast_to(np.float32(run.step_size), run.steps)
    step = lambda weights, noisy, t: weights - eta[t] * np.float32(noisy)  # noqa: E731
    return list(noisy_gradients(run, loss, params or start(), examples or data(), seeded(), step))


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: f"{s.kind}")
def test_training_equals_training_by_hand(sampling):
    run = run_of(sampling=sampling)
    wanted = by_hand(run)[-1]
    for microbatch, workers in ((None, None), (3, 1), (2, 2)):
        result = train_network(run, loss, start(), data(), generator=seeded(), microbatch=microbatch, workers=workers)
        np.testing.assert_allclose(flat(result.params), wanted, rtol=2e-4, atol=2e-5)
    assert result.run == run
    assert (result.steps, result.dtype, result.scores) == (run.steps, "float32", ())


def test_schedules_of_noise_steps_and_batches_are_followed():
    rng = np.random.default_rng(1)
    changes = {"noise_multiplier": rng.uniform(0.5, 5, 24), "step_size": rng.uniform(0.01, 0.4, 24)}
    for sampling in (Poisson(rng.uniform(1, 20, 24)), FixedSize(rng.integers(1, 20, 24))):
        run = run_of(sampling=sampling, **changes)
        result = train_network(run, loss, start(), data(), generator=seeded())
        np.testing.assert_allclose(flat(result.params), by_hand(run)[-1], rtol=1e-3, atol=2e-4)


def test_a_batch_beyond_its_public_room_is_not_cut_off():
    run = run_of(n=200, sampling=Poisson(1.0))
    x, y = data(200)
    params, lattice = jax.tree.map(jnp.asarray, start()), lattice_of(run, 20)
    recorded = record(loss, params, (x[0], y[0]))
    for microbatch, workers in ((1, 1), (5, 1), (5, 2), (None, None), (64, 2)):
        summed = ClippedSums(run, recorded, params, (x, y), lattice, microbatch, workers)
        alone = sum(summed(params, np.int32([k])) for k in range(150))
        found = summed(params, np.arange(150, dtype=np.int32))
        np.testing.assert_array_equal(found, alone)
        assert found[-1] == 150 * lattice.tally
        np.testing.assert_array_equal(summed(params, np.int32([])), 0)
        summed.close()


def iterates_of(run, **options):
    """All iterates of a run on silent losses, seen through a validation; shape (steps + 1, weights)."""
    seen = [flat({"w": np.zeros((40, 50), np.float32)})]
    watch = Validation(lambda params: seen.append(flat(params)) or 0.0, 1, "no data")
    params = {"w": np.zeros((40, 50), np.float32)}
    train_network(run, silent, params, np.zeros(run.n, np.float32), generator=seeded(5), validation=watch, **options)
    return np.array(seen, np.float64)


def right_scale(noise):
    """Two-sided chi-square test that the noise has unit variance."""
    tail = stats.chi2(noise.size).cdf(np.sum(noise**2))
    return 2 * min(tail, 1 - tail) > FALSE_ALARM


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.kind)
def test_the_noise_in_the_iterates_has_the_scale_that_the_run_states(sampling):
    rng = np.random.default_rng(2)
    run = run_of(sampling=sampling, steps=12, noise_multiplier=rng.uniform(0.5, 5, 12), step_size=rng.uniform(0.1, 1, 12))
    divisors = np.resize(np.asarray(sampling.divisors(N)), 12)  # Epochs repeat theirs.
    scale = np.asarray(run.step_size) * np.asarray(run.noise_multiplier) * run.clip_norm / divisors
    noise = np.diff(iterates_of(run), axis=0) / scale[:, None]
    for part, low, high in ((noise, 0.95, 1.05), *((one, 0.8, 1.25) for one in noise)):
        assert right_scale(part)
        assert not right_scale(low * part)
        assert not right_scale(high * part)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-6
    assert abs(np.corrcoef(noise) - np.eye(12)).max() < 6.5 / np.sqrt(2000)


def test_noise_reaches_an_optimizer_undiminished():
    iterates = iterates_of(run_with_optimizer(sampling=FixedSize(8), steps=6, noise_multiplier=3.0), optimizer=optax.sgd(0.1))
    noise = np.diff(iterates, axis=0) / (0.1 * 3 * 0.5 / 8)
    assert right_scale(noise)
    assert not right_scale(0.9 * noise)


def test_fresh_noise_every_time_unless_seeded():
    first, second = (train_network(run_of(steps=3), loss, start(), data()) for _ in range(2))
    assert (flat(first.params) != flat(second.params)).all()
    assert first.generator.secure
    assert {a.name: a.how for a in first.assumptions}["noise"] == "enforced"
    again = [train_network(run_of(steps=3), loss, start(), data(), generator=seeded()) for _ in range(2)]
    np.testing.assert_array_equal(flat(again[0].params), flat(again[1].params))
    assert {a.name: a.how for a in again[0].assumptions}["noise"] == "declared"


def test_nothing_is_compiled_again_for_other_batch_sizes(caplog):
    def compilations(steps, seed=3, **options):
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            run = run_of(steps=steps, sampling=Poisson(16.0))
            train_network(run, loss, start(), data(), generator=seeded(seed), microbatch=4, **options)
        return [record.getMessage().split(" with ")[0] for record in caplog.records if "Compiling" in record.getMessage()]

    assert compilations(6, workers=2)  # The log works.
    assert not compilations(64, workers=2)
    assert compilations(64)
    assert not compilations(64, seed=4)
    assert not compilations(60, seed=5)


def test_a_record_with_an_overflowing_gradient_leaves_the_others_alone():
    x, y = data()
    run = run_of(sampling=FullBatch(), steps=6)
    weighted = lambda p, e: e[2] * loss(p, e[:2])  # noqa: E731
    results = []
    for entry, weight in ((0.0, 0.0), (3e38, 3e38)):
        rows, weights = x.copy(), np.ones(N, np.float32)
        rows[3], weights[3] = entry, weight
        for workers in (1, 2):
            results.append(train_network(run, weighted, start(), (rows, y, weights), generator=seeded(), workers=workers))
    for one in results[1:]:
        np.testing.assert_allclose(flat(one.params), flat(results[0].params), rtol=1e-5, atol=1e-6)


def test_double_precision():
    with jax.enable_x64(True):
        params = jax.tree.map(np.float64, start())
        result = train_network(run_of(sampling=FullBatch()), loss, params, tuple(map(np.float64, data())), generator=seeded())
        single = train_network(run_of(sampling=FullBatch()), loss, start(), data(), generator=seeded())
    assert result.dtype == "float64"
    assert {leaf.dtype for leaf in jax.tree.leaves(result.params)} == {np.dtype("float64")}
    assert single.dtype == "float32"
    assert {leaf.dtype for leaf in jax.tree.leaves(single.params)} == {np.dtype("float32")}
    for name, leaf in result.params.items():
        np.testing.assert_allclose(leaf, single.params[name], rtol=1e-3, atol=1e-4)


def test_divergence_is_an_error():
    with pytest.raises(TrainingDiverged, match="lower the step size"):
        train_network(run_of(step_size=3e38, noise_multiplier=9.0), loss, start(), data())


def test_progress_tells_steps_and_nothing_else():
    def calls(**options):
        seen = []
        train_network(run_of(), loss, start(), data(), progress=lambda *numbers: seen.append(numbers), **options)
        return seen

    assert calls(workers=2) == [(k, 24) for k in range(25)]
    assert calls() == [(0, 24), (24, 24)]  # All steps in one call.
    look = Validation(lambda _: 0.0, 6, "no data")
    assert calls(validation=look) == [(k, 24) for k in (0, 6, 12, 18, 24)]


def test_the_result_says_what_its_guarantee_rests_on():
    found = {a.name: a.how for a in train_network(run_of(sampling=Cyclic(9)), loss, start(), data()).assumptions}
    assert found["order"] == "declared"
    assert found["clipping"] == found["divisor"] == found["noise"] == "enforced"
    assert "validation" not in found
    assert "lost steps" not in found


SECRET = 7.7e12


@pytest.mark.parametrize(
    ("run", "changes", "message"),
    [
        (run_of(), {"optimizer": noisy_sgd(0.1)}, "update='post-processed'"),
        (run_with_optimizer(), {}, "there is no optimizer"),
        (run_with_optimizer(), {"optimizer": optax.adam}, r"optimizer is function: .*optax\.adam\(0\.01\), not optax\.adam"),
        (run_of(), {"params": {**start(), "activation": jnp.tanh}}, r"split the model first, as with equinox\.partition"),
        (run_of(step_size=None), {}, "step_size"),
        (run_of(released="last"), {}, "released='all'"),
        (run_of(smoothness=1.0), {}, "nobody can enforce"),
        (run_of(diameter=1.0), {}, "nobody can enforce"),
        (run_of(smoothness=1.0, strong_convexity=0.1), {}, "nobody can enforce"),
        (run_of(clip_norm=1e-32), {}, "clip_norm 1e-32 is below"),
        (run_of(sampling=OnePass(1), update="phased-erm", strong_convexity=0.0), {}, "gradient steps"),
        (run_of(noise_multiplier=1e7), {}, "4 bits are left .* rounding 20 weights"),
        (run_of(), {"params": {}}, "params hold nothing"),
        (run_of(), {"params": {"none": np.zeros((0, 3), np.float32)}}, "params have no entries"),
        (run_of(), {"params": {**start(), "n": np.int32(3)}}, "params hold float32, int32"),
        (run_of(), {"params": {**start(), "v": np.zeros(4, np.float16)}}, "float16"),
        (run_of(), {"params": {**start(), "v": [1.0, 2.0]}}, "params hold float, float32"),
        (run_of(), {"params": jax.tree.map(np.float64, start())}, "jax_enable_x64 is off"),
        (run_of(), {"params": {**start(), "b": np.full(4, np.nan, np.float32)}}, "params have values that are not finite"),
        (run_of(n=41), {}, "n = 41"),
        (run_of(), {"examples": ()}, "examples have shapes nothing"),
        (
            run_of(),
            {"examples": list(zip(*data(), strict=True))},
            r"examples have shapes \(3,\), \(\), \(3,\), \(\), and 76 more: expected arrays with the run's n = 40 in front. A",
        ),
        (run_of(), {"examples": (row for row in zip(*data(), strict=True))}, r"examples have shapes \(\): .*Loaders are not read"),
        (run_of(), {"examples": (data()[0], SECRET)}, r"\(40, 3\), \(\)"),
        (run_of(), {"examples": (data()[0], data()[1].astype(str))}, "expected numbers"),
        (run_of(), {"examples": (data()[0], np.full(N, np.nan))}, "finite .*float32"),
        (run_of(), {"examples": (data()[0], np.full(N, 7.7e300))}, "finite .*float32"),
        (run_of(), {"examples": (data()[0], np.full(N, 1 << 40))}, "whole numbers beyond int32"),
        (
            run_of(),
            {"examples": (data()[0], np.append(np.full(N - 1, SECRET), np.inf))},
            "finite .*float32",
        ),
        (run_of(), {"loss": lambda p, e: p["w"]}, "expected one number"),
        (run_of(), {"microbatch": 0}, "microbatch is 0"),
        (run_of(), {"microbatch": 2.5}, "microbatch is 2.5"),
        (run_of(), {"workers": -1}, "workers is -1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_without_quoting_the_data(run, changes, message):
    arguments = {"loss": loss, "params": start(), "examples": data(), **changes}
    with pytest.raises(InputError, match=message) as error:
        train_network(run, **arguments)
    text = str(error.value)
    assert "\n" not in text
    assert "7.7" not in text
    assert len(text) < 300


@dataclass
class Weighted:
    """A loss that cannot be hashed, as a model with arrays in it."""

    weight: float

    def __call__(self, params, example):
        return self.weight * loss(params, example)


def test_a_loss_need_not_be_hashable():
    weighted = Weighted(0.1)
    for weight in (0.1, 2.0):
        weighted.weight = weight
        result = train_network(run_of(steps=5), weighted, start(), data(), generator=seeded())
        wanted = by_hand(run_of(steps=5), lambda p, e, weight=weight: weight * loss(p, e))[-1]
        np.testing.assert_allclose(flat(result.params), wanted, rtol=2e-4, atol=2e-5)


def test_examples_of_mixed_types_make_a_tree():
    examples = {"x": data()[0], "k": np.arange(N) % 4, "u": np.arange(2 * N, dtype=np.uint8).reshape(N, 2)}

    def mixed(p, e):
        return jnp.sum((e["x"] @ p["w"] + p["t"][e["k"]] + e["u"] @ p["z"]) ** 2)

    params = {"w": np.zeros((3, 4), np.float32), "t": np.ones((4, 4), np.float32), "z": np.ones((2, 4), np.float32)}
    params = jax.tree.map(jnp.asarray, params)
    run = run_of(sampling=FullBatch(), steps=5)
    result = train_network(run, mixed, params, examples, generator=seeded())
    np.testing.assert_allclose(flat(result.params), by_hand(run, mixed, params, examples)[-1], rtol=2e-4, atol=2e-5)


class Tensor:
    """A torch tensor, as far as NumPy and JAX can tell: JAX does not know the type of its entries."""

    dtype = object()

    def __init__(self, entries, *, readable=True):
        self.entries, self.readable = entries, readable

    def __array__(self, dtype=None, copy=None):
        if not self.readable:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.entries


def test_tensors_of_other_libraries_are_examples():
    x, y = data()
    run = run_of()
    plain, tensors = (
        train_network(run, loss, start(), examples, generator=seeded()) for examples in ((x, y), (Tensor(x), Tensor(y)))
    )
    jax.tree.map(np.testing.assert_array_equal, plain.params, tensors.params)
    with pytest.raises(InputError, match="examples hold a Tensor, which NumPy does not read"):
        train_network(run, loss, start(), (Tensor(x, readable=False), y))


@pytest.mark.parametrize("workers", [None, 2])
def test_an_empty_leaf_is_a_leaf(workers):
    def with_nothing(params, example):
        return loss(params, example) + jnp.sum(params["none"]) * example[1]

    params = {**start(), "none": np.zeros((0, 3), np.float32)}
    found = train_network(run_of(steps=3), with_nothing, params, data(), generator=seeded(), workers=workers).params
    usual = train_network(run_of(steps=3), loss, start(), data(), generator=seeded(), workers=workers).params
    assert found.pop("none").shape == (0, 3)
    np.testing.assert_array_equal(flat(found), flat(usual))


def test_the_model_is_the_mean_of_the_last_iterates_where_that_is_asked_for():
    run = run_with_optimizer(steps=12, step_size=0.2)
    iterates = by_hand(run.replace(update="sgd"))
    for optimizer in (None, noisy_sgd(0.2)):
        for average, count in ((0.25, 3), (1.0, 12), (1e-9, 1)):
            result = train_network(run, loss, start(), data(), optimizer=optimizer, generator=seeded(), average=average)
            np.testing.assert_allclose(flat(result.last), iterates[-1], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(flat(result.params), np.mean(iterates[-count:], axis=0), rtol=1e-4, atol=1e-5)
    assert np.abs(iterates[-1] - np.mean(iterates[-3:], axis=0)).max() > 1e-2
    with pytest.raises(InputError, match="averaging are other updates"):
        train_network(run_of(), loss, start(), data(), average=0.5)
    with pytest.raises(InputError, match="average"):
        train_network(run, loss, start(), data(), optimizer=noisy_sgd(0.2), average=1.5)


def test_what_is_scored_is_what_would_be_the_model():
    seen = []
    watch = Validation(lambda params: seen.append(flat(params)) or 0.0, 4, "made up", keep_best=False)
    result = train_network(
        run_with_optimizer(steps=12), loss, start(), data(), optimizer=noisy_sgd(0.2), average=0.5, validation=watch
    )
    np.testing.assert_array_equal(seen[-1], flat(result.params))
    assert (flat(result.params) != flat(result.last)).any()


@pytest.mark.parametrize("part", ["optimizer", "checkpoint", "validation"])
def test_parts_of_a_wrong_kind_are_refused_by_name(part):
    with pytest.raises(InputError, match=f"{part} is str: expected"):
        train_network(run_with_optimizer(), loss, start(), data(), **{"optimizer": noisy_sgd(0.1), part: "sgd"})
