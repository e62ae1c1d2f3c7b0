"""Steps that are one compiled call, for small networks on processors, and what else is done otherwise where an accelerator
computes, run on processors that pass for one.

On a machine that has one, most tests of this folder use it.
"""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dplateau import PrivateLogisticRegression
from dplateau.networks import Checkpoint, Validation, compiled, device, train_network
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.compiled import CompiledLoop
from dplateau.networks.engine import _prepared
from dplateau.networks.lattice import lattice_of
from dplateau.networks.loop import State
from dplateau.networks.noise import Noise
from dplateau.networks.recorded import record
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Shuffled
from dplateau.training import TrainingDiverged, exact_products, groups

from .small import N, data, flat, loss, run_of, run_with_optimizer, seeded, start

SAMPLINGS = (Poisson(6.0), FixedSize(7), RandomAllocation(6.5), Cyclic((5, 15, 20)), Shuffled(9), OnePass(1), FullBatch())


@pytest.fixture
def accelerator(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@pytest.fixture(params=["gpu", "cpu"])
def compiled_loop(request, monkeypatch):
    """Where a chunk of steps is one call: on accelerators always, on processors that of a small network."""
    monkeypatch.setattr(jax, "default_backend", lambda: request.param)
    return request.param


@pytest.fixture
def quiet(monkeypatch):
    """Without noise, so that an accelerator's training can be compared with that of processors. No library can be asked for it."""
    monkeypatch.setattr(Noise, "steps", lambda self, deviations: iter([_none(self)] * len(deviations)))
    monkeypatch.setattr(Noise, "rows", lambda self, deviations, length: tuple(np.stack([one] * length) for one in _none(self)))


def _none(noise):
    return (np.zeros(-(-noise._entries // 2)),) * 2


def trained(monkeypatch, where, *arguments, **options):
    """What is released by a training there; without noise the same batches are drawn everywhere, if chunks are as long.

    On a "cpu" each step is a call of its own here; in "one call" all are.
    """
    options |= {"workers": 2} if where == "cpu" else {}
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "gpu" if where == "gpu" else "cpu")
        batches, called = [], CompiledLoop._packed
        patch.setattr(CompiledLoop, "_packed", lambda self, *given: batches.append(given[0]) or called(self, *given))
        result = train_network(*arguments, generator=seeded(), **options)
        assert bool(batches) == (where != "cpu")
        return result


def words_loss(params, example):
    words, x = example
    return jnp.sum(params["table"][words] @ params["w"] * x)


def words_data():
    rng = np.random.default_rng(1)
    return rng.integers(0, 3, (N, 7)).astype(np.int32), rng.normal(size=N).astype(np.float32)


def words_start():
    rng = np.random.default_rng(2)
    return {"table": rng.normal(size=(5, 4)).astype(np.float32), "w": rng.normal(size=(4, 2)).astype(np.float32)}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("microbatch", [None, 4])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.kind)
@pytest.mark.parametrize("other", ["gpu", "one call"])
def test_the_compiled_loop_takes_the_steps_of_the_other_loop(other, sampling, microbatch, monkeypatch):
    rng = np.random.default_rng(3)
    run = run_of(sampling=sampling, step_size=rng.uniform(0.01, 0.4, 24), noise_multiplier=rng.uniform(1, 3, 24))
    there, here = (trained(monkeypatch, where, run, loss, start(), data(), microbatch=microbatch) for where in (other, "cpu"))
    np.testing.assert_allclose(flat(there.params), flat(here.params), rtol=1e-4, atol=1e-5)
    assert not np.allclose(flat(here.params), flat(start()), atol=1e-2)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("steps", [1, 24, 33])
@pytest.mark.parametrize("microbatch", [None, 4])
def test_what_is_done_after_the_last_microbatch_of_a_chunk_changes_nothing(microbatch, steps, monkeypatch):
    """The loop goes on to the end of a group of iterations."""
    run, found = run_with_optimizer(sampling=Poisson(6.0), steps=steps), []
    monkeypatch.setattr(groups, "_GROUPS", 1)
    for most in (1, 16):
        monkeypatch.setattr(groups, "LARGEST", most)
        jax.clear_caches()
        found.append(trained(monkeypatch, "gpu", run, loss, start(), data(), optimizer=optax.adam(0.1), microbatch=microbatch))
    jax.clear_caches()
    assert (flat(found[0].params) == flat(found[1].params)).all()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("microbatch", [None, 3])
@pytest.mark.parametrize("other", ["gpu", "one call"])
def test_optimizers_averages_tables_and_frozen_leaves(other, microbatch, monkeypatch):
    run = run_with_optimizer(sampling=Poisson(6.0))
    options = {"optimizer": optax.adam(0.05), "average": 0.5, "microbatch": microbatch}
    for trainable in (None, {"table": True, "w": False}):
        there, here = (
            trained(monkeypatch, where, run, words_loss, words_start(), words_data(), trainable=trainable, **options)
            for where in (other, "cpu")
        )
        np.testing.assert_allclose(flat(there.params), flat(here.params), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(flat(there.last), flat(here.last), rtol=1e-3, atol=1e-4)
        assert not np.allclose(flat(there.params), flat(there.last))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("sampling", "steps"), [(Poisson(6.0), 1), (Cyclic(9), 5), (FullBatch(), 5)], ids=str)
@pytest.mark.parametrize("other", ["gpu", "one call"])
def test_random_keys_belong_to_their_examples(other, sampling, steps, monkeypatch):
    dropped = lambda p, e, key: loss(p, (e[0] * jax.random.bernoulli(key, 0.5, e[0].shape), e[1]))  # noqa: E731
    run = run_of(sampling=sampling, steps=steps)
    there, here = (trained(monkeypatch, where, run, dropped, start(), data(), rng=True, microbatch=4) for where in (other, "cpu"))
    np.testing.assert_allclose(flat(there.params), flat(here.params), rtol=1e-4, atol=1e-5)


HARD = np.array([1.0, 1e-30, 1e-38, 1e18, 1e38, np.inf, np.nan, 0.0, -1.0, 3e5])


@pytest.mark.usefixtures("compiled_loop")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", ["dense", "words"])
def test_removing_any_record_moves_the_sum_of_the_compiled_loop_by_at_most_the_clip_norm(case, dtype):
    with jax.enable_x64(dtype == np.float64):
        params, examples = (start(), data()) if case == "dense" else (words_start(), words_data())
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)
        examples = jax.tree.map(lambda one: one.astype(dtype) if one.dtype == np.float32 else one, examples)
        run = run_of(sampling=FullBatch(), clip_norm=0.3)
        loop = loop_of(run, loss=loss if case == "dense" else words_loss, params=params, examples=examples)
        with np.errstate(over="ignore", under="ignore"):
            numbers = examples[0] if case == "dense" else examples[1]
            numbers[: len(HARD)] = (numbers[: len(HARD)].T * HARD.astype(dtype)).T
        state, everybody = State(params, (), ()), np.arange(N, dtype=np.int32)
        rng, whole, lengths = np.random.default_rng(5), loop.sums_of(State(params, (), ()), examples, everybody, N), []
        assert (whole == np.rint(whole)).all()
        for record in range(N):
            order = np.append(rng.permutation(np.delete(everybody, record)), record).astype(np.int32)
            moved = whole - loop.sums_of(state, examples, order, N - 1)
            lengths.append(sum(int(entry) ** 2 for entry in moved))  # Exact: Python's integers.
            np.testing.assert_array_equal(moved, loop.sums_of(state, examples, np.roll(order, 1), 1))
        assert max(lengths) <= 4**loop.summed.lattice.bits
        assert max(lengths) > 0.99 * 4**loop.summed.lattice.bits
        assert lengths[5] == lengths[6] == 0  # Not finite.
        assert lengths[7] >= loop.summed.lattice.tally**2  # Zeros: finite, and counted.


@pytest.mark.usefixtures("quiet")
def test_double_precision(monkeypatch):
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: leaf.astype(np.float64), (start(), data()))
        there, other, here = (trained(monkeypatch, where, run_of(), loss, *wide) for where in ("gpu", "one call", "cpu"))
        for one in (there, other):
            np.testing.assert_allclose(flat(one.params), flat(here.params), rtol=1e-6, atol=1e-7)
            assert one.dtype == "float64"


@pytest.mark.usefixtures("accelerator")
def test_the_noise_is_chacha20s_and_has_the_scale_that_the_run_states():
    rng = np.random.default_rng(4)
    silent = lambda params, example: jnp.sum(params["w"]) * jnp.sum(example)  # noqa: E731
    params = {"w": np.zeros((40, 50), np.float32)}
    run = run_of(steps=12, noise_multiplier=rng.uniform(0.5, 5, 12), step_size=rng.uniform(0.1, 1, 12))
    seen = [flat(params)]
    watch = Validation(lambda params: seen.append(flat(params)) or 0.0, 4, "no data")
    result = train_network(run, silent, params, np.zeros(N, np.float32), generator=seeded(5), validation=watch)
    scale = np.sqrt(np.add.reduceat((np.asarray(run.step_size) * np.asarray(run.noise_multiplier)) ** 2, [0, 4, 8]))
    noise = np.diff(np.array(seen, np.float64), axis=0) / (scale * run.clip_norm / 6.0)[:, None]
    assert result.generator.algorithm == "ChaCha20"
    np.testing.assert_allclose(noise.std(axis=1), 1, atol=6 / np.sqrt(2 * 2_000))
    assert abs(np.corrcoef(noise) - np.eye(3)).max() < 6.5 / np.sqrt(2_000)


@pytest.mark.usefixtures("accelerator", "quiet")
def test_records_that_do_not_fit_its_memory_are_taken_a_chunk_at_a_time(monkeypatch):
    run = run_of(steps=40, sampling=Cyclic(9))  # chunks of other lengths draw other random batches
    whole = train_network(run, loss, start(), data(), generator=seeded())
    size = sum(column.nbytes for column in data())
    monkeypatch.setattr(device, "memory", lambda: (size - 1) / device.RECORDS)
    monkeypatch.setattr(compiled, "memory", device.memory)
    parts = train_network(run, loss, start(), data(), generator=seeded(), microbatch=8)
    assert loop_of(run).held is None
    assert loop_of(run).room < 40
    np.testing.assert_allclose(flat(parts.params), flat(whole.params), rtol=1e-4, atol=1e-5)


def loop_of(run, **changes):
    nothing = dict.fromkeys(
        (
            "groups",
            "optimizer",
            "trainable",
            "generator",
            "microbatch",
            "workers",
            "checkpoint",
            "validation",
            "progress",
            "cluster",
        )
    )
    given = {"run": run, "loss": loss, "params": start(), "examples": data(run.n), "rng": False, "average": 0.0, **nothing}
    return _prepared(**{**given, **changes})[0]


@pytest.mark.usefixtures("accelerator")
def test_a_microbatch_fits_its_memory(monkeypatch):
    run = run_of(n=2_000, sampling=FullBatch())
    loop = loop_of(run)
    assert loop.summed.micro == 2_000
    size = device._BYTES * loop.summed.recorded.footprint * 100 / device._MICROBATCH
    monkeypatch.setattr(device, "memory", lambda: size)
    assert 64 <= loop_of(run).summed.micro <= 104


@pytest.mark.usefixtures("compiled_loop")
def test_a_killed_run_goes_on_as_if_it_had_not_been_killed(tmp_path):
    """Batches of the next chunk are drawn while the steps of one are taken: the checkpoint must not count them."""
    run, checkpoint = run_of(steps=24), Checkpoint(tmp_path / "run.checkpoint", 4)

    def go(score, checkpoint=checkpoint):
        watch = Validation(score, 4, "no data")
        return train_network(run, loss, start(), data(), generator=seeded(), checkpoint=checkpoint, validation=watch)

    def killed(params):
        killed.left -= 1
        if not killed.left:
            raise OSError
        return 0.0

    killed.left = 5  # The first parameters are scored, too.
    whole = go(lambda _: 0.0, None)
    with pytest.raises(OSError):
        go(killed)
    again = go(lambda _: 0.0)
    np.testing.assert_array_equal(flat(again.params), flat(whole.params))


@pytest.mark.usefixtures("accelerator")
def test_gradients_that_are_never_finite_end_the_run():
    broken = lambda params, example: loss(params, example) * jnp.where(example[1] > -9.0, jnp.inf, 1.0)  # noqa: E731
    with pytest.raises((TrainingDiverged, InputError), match="finite"):
        train_network(run_of(n=2_000, sampling=FullBatch(), steps=60), broken, start(), data(2_000))


@pytest.mark.parametrize("wrong", ["place", "neighbours"])
def test_contributions_that_depend_on_others_are_refused_before_the_first_step(wrong, compiled_loop, monkeypatch):
    exact = compiled.multipliers

    def bent(gradients, used, lattice):
        found, valid = exact(gradients, used, lattice)
        by = jnp.arange(len(used)) if wrong == "place" else 1000 * jnp.sum(gradients[0].values) % 1
        return [one._replace(values=one.values * (1 - 2.0**-20 * by)) for one in found], valid

    monkeypatch.setattr(compiled, "multipliers", bent)
    assert (device.ways() > 1) == (compiled_loop == "gpu")
    refused_or_by_calls(compiled_loop, run=run_of(n=39), loss=lambda p, e: loss(p, e), examples=data(39))
    monkeypatch.undo()
    monkeypatch.setattr(jax, "default_backend", lambda: compiled_loop)
    assert isinstance(loop_of(run_of(n=39), loss=lambda p, e: loss(p, e)), CompiledLoop)


def refused_or_by_calls(where, **given):
    """A compiled loop is refused; on processors each step is a call of its own then, of functions that pass."""
    if where == "gpu":
        with pytest.raises(InputError, match="depends on its place"):
            loop_of(**given)
    else:
        assert not isinstance(loop_of(**given), CompiledLoop)


@pytest.mark.parametrize("sampling", [Poisson(12.0), FullBatch()], ids=lambda s: s.kind)
@pytest.mark.parametrize("microbatch", [1, 8])
def test_microbatches_of_a_step_that_see_other_weights_are_refused_before_the_first_step(
    microbatch, sampling, compiled_loop, monkeypatch
):
    """As if a compiler had computed the new weights twice, and differently: once to keep them, once to go on with."""
    carry, run = compiled.Carry, run_of(n=33, sampling=sampling)

    def torn(state, *others):
        return carry(state._replace(params=jax.tree.map(lambda leaf: leaf * (1 + 2.0**-20), state.params)), *others)

    monkeypatch.setattr(compiled, "Carry", torn)
    given = {"run": run, "examples": data(33), "microbatch": microbatch}
    refused_or_by_calls(compiled_loop, loss=lambda p, e: loss(p, e), **given)
    monkeypatch.undo()
    monkeypatch.setattr(jax, "default_backend", lambda: compiled_loop)
    assert isinstance(loop_of(loss=lambda p, e: loss(p, e), **given), CompiledLoop)


def test_gradients_factors_sums_and_the_step_are_branches_on_processors(monkeypatch):
    """What one of them hands to the next is stored, so that a compiler computes nothing twice."""
    texts, called = [], CompiledLoop._compiled

    def lowered(self, *given):
        run = jax.jit(compiled.run_chunk, static_argnames="kind")
        state, examples, *others = given
        texts.append(run.lower(state, examples, self.summed.frozen, *others, kind=self.kind).compile().as_text())
        return called(self, *given)

    run = run_with_optimizer(sampling=Poisson(6.0))
    monkeypatch.setattr(CompiledLoop, "_compiled", lowered)
    loop_of(run, optimizer=optax.adam(0.1))
    assert len(re.findall(r"= \S.* conditional\(", texts[0])) == 4


def forget():
    """What is known of products."""
    exact_products._exact.cache_clear()
    exact_products._equal.clear_cache()


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_products_are_tried_with_either_order_in_memory(monkeypatch, wrong):
    orders = []

    def product(left, right):
        orders.append(len(orders))
        return left @ right * (1 + 2.0**-50 * (orders[-1] == wrong))

    monkeypatch.setattr(exact_products, "product", product)
    forget()
    assert exact_products._exact((8, 64), (64, 4)) is (wrong is None)
    assert orders == [0, 1]
    forget()


@pytest.mark.usefixtures("accelerator")
def test_emulated_double_precision_is_refused_before_the_first_step(monkeypatch):
    monkeypatch.setattr(exact_products, "product", lambda a, b: a @ b * (1 + 2.0**-50))
    forget()
    same = lambda p, e: loss(p, e)  # noqa: E731
    for _ in range(2):  # that it was refused is no reason not to ask again
        with pytest.raises(InputError, match="does not add up whole numbers exactly"):
            train_network(run_of(n=38), same, start(), data(38))
    with pytest.raises(InputError, match="does not add up whole numbers exactly"):
        PrivateLogisticRegression(epsilon=1.0, classes=[0, 1, 2]).fit(np.eye(50, 3), np.arange(50) % 3)
    monkeypatch.undo()
    forget()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert train_network(run_of(n=38), same, start(), data(38)).steps == 24


def test_sums_by_number_are_the_same_by_comparison(monkeypatch):
    params = jax.tree.map(jnp.asarray, words_start())
    run = run_of()
    batch = np.random.default_rng(3).permutation(N)[:29].astype(np.int32)

    def found():
        traced = record(lambda p, e: words_loss(p, e), params, jax.tree.map(lambda column: column[0], words_data()))
        return ClippedSums(run, traced, params, words_data(), lattice_of(run, 28), 8, 1)(params, batch)

    here = found()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    there = found()
    assert there[-1] == here[-1]
    np.testing.assert_allclose(there, here, rtol=0, atol=29 * 2.0**7)  # sums of equal words are rounded otherwise
    assert abs(here).max() > 2.0**26


@pytest.mark.usefixtures("accelerator")
def test_another_way_to_compile_is_taken_where_the_first_one_depends_on_the_place(monkeypatch):
    used, called = [], CompiledLoop.sums_of

    def bent(self, state, examples, index, count):
        used.append(self.summed.way)
        found = called(self, state, examples, index, count)
        return found + (self.summed.way == 0) * (index[0] == 0)

    monkeypatch.setattr(CompiledLoop, "sums_of", bent)
    loop = loop_of(run_of(n=36))
    assert loop.summed.way == 1
    assert {0, 1} <= set(used)
    first = len(used)
    assert loop_of(run_of(n=36)).summed.way == 1  # known, and so is that the first way does not do
    assert 0 < len(used) - first <= 6  # whether there are finite gradients is asked every time


@pytest.mark.usefixtures("accelerator")
def test_a_loop_whose_second_microbatch_sees_other_weights_is_not_taken(monkeypatch):
    """In one entry of the sums, and in none of those of a single microbatch."""
    called, asked = CompiledLoop.sums_in_turns, []

    def moved(self, *given):
        one, other = called(self, *given)
        asked.append(self.summed.way)
        return one, other + (self.summed.way == 0) * (np.arange(len(other)) == 3)

    monkeypatch.setattr(CompiledLoop, "sums_in_turns", moved)
    assert loop_of(run_of(n=35, sampling=FullBatch()), microbatch=8).summed.way == 1
    assert asked == [0, 1]


@pytest.mark.usefixtures("accelerator")
def test_every_compiled_loop_is_tested_and_none_twice(monkeypatch):
    tested, called = [], CompiledLoop.sums_of
    monkeypatch.setattr(CompiledLoop, "sums_of", lambda *given: tested.append(1) or called(*given))

    def one(**changes):
        before = len(tested)
        loop_of(**{"run": run_of(n=34), "loss": words_loss, "params": words_start(), "examples": short, **changes})
        return len(tested) - before

    short = jax.tree.map(lambda column: column[:34], words_data())
    first, again = one(), one()
    assert first > again  # Whether there are finite gradients is asked every time.
    full = {None: first}  # What a test asks for, by the size of microbatches.
    averaged = run_of(n=34, update="post-processed")
    adam = optax.adam(0.1)
    for changes in (
        {"average": 0.5, "run": averaged},
        {"optimizer": adam, "run": run_with_optimizer(n=34)},
        {"optimizer": adam, "run": run_with_optimizer(n=34), "average": 0.5},
        {"run": run_of(n=34, sampling=FullBatch()), "microbatch": 8},
        {"run": run_of(n=34), "microbatch": 8},
        {"run": run_of(n=34, sampling=Poisson(20.0)), "microbatch": 8},
        {"run": run_of(n=34, steps=200)},
    ):
        found = one(**changes)
        assert found == full.setdefault(changes.get("microbatch"), found) > again
        assert one(**changes) == again
