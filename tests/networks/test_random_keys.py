"""Random keys of the loss: one for each example and step, uniform, apart from noise and batches, and never twice."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.networks import Checkpoint, train_network
from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.keys import NO_KEY, Keyed, draw_keys
from dplateau.networks.lattice import lattice_of
from dplateau.networks.recorded import record
from dplateau.spec import Cyclic, FullBatch, InputError, Poisson
from dplateau.training import SecureGenerator, TrainingInterrupted

from .small import N, data, flat, loss, run_of, seeded, start


def dropped(params, example, key):
    """Dropout on the inputs."""
    x, y = example
    return loss(params, (jnp.where(jax.random.bernoulli(key, 0.5, x.shape), 2 * x, 0), y))


def summing(keyed_loss, run, examples=None, microbatch=None, workers=None):
    examples, params = data() if examples is None else examples, start()
    recorded = record(Keyed(keyed_loss), params, (jax.tree.map(lambda column: column[0], examples), NO_KEY))
    lattice = lattice_of(run, 20)
    return ClippedSums(run, recorded, params, examples, lattice, microbatch, workers), params, lattice


def test_each_example_has_its_own_key_whoever_else_is_in_the_batch():
    """The sum with keys is that of the examples, each alone with its key: in any order, microbatch and number of threads."""
    keys, batch = draw_keys(seeded(), N), np.random.default_rng(1).permutation(N).astype(np.int32)
    run = run_of(sampling=FullBatch())
    for microbatch, workers in ((None, None), (3, 1), (8, 2)):
        summed, params, _ = summing(dropped, run, None, microbatch, workers)
        alone = [summed(params, batch[k : k + 1], keys[k : k + 1]) for k in range(N)]
        np.testing.assert_array_equal(np.sum(alone, 0), summed(params, batch, keys))
        np.testing.assert_array_equal(np.sum(alone[5:], 0), summed(params, batch[5:], keys[5:]))
        assert (summed(params, batch, keys) != summed(params, batch, keys[::-1])).any()
        summed.close()


def test_a_loss_may_copy_its_key():
    """As flax does where dropout is computed twice, in ``nn.remat``."""
    copying = lambda params, example, key: dropped(params, example, jax.random.clone(key))  # noqa: E731
    keys, batch = draw_keys(seeded(), N), np.arange(N, dtype=np.int32)
    (first, params, _), (second, _, _) = (summing(one, run_of(sampling=FullBatch())) for one in (dropped, copying))
    np.testing.assert_array_equal(first(params, batch, keys), second(params, batch, keys))


def test_the_gradient_is_that_of_the_loss_with_this_key():
    run = run_of(sampling=FullBatch(), clip_norm=1e4, noise_multiplier=1e-3)
    summed, params, lattice = summing(dropped, run)
    bits = draw_keys(seeded(), N)
    keys = jax.random.wrap_key_data(bits, impl="threefry2x32")
    gradients = jax.vmap(jax.grad(dropped), (None, 0, 0))(params, data(), keys)
    wanted = flat(jax.tree.map(lambda leaf: leaf.sum(0), gradients))
    found, other = (summed(params, np.arange(N, dtype=np.int32), rows)[:-1] * lattice.unit for rows in (bits, bits[::-1]))
    np.testing.assert_allclose(found, wanted, atol=0.1)
    assert np.abs(other - wanted).max() > 1


class Watching(SecureGenerator):
    """Remembers every word that it gave."""

    def __init__(self, **options):
        super().__init__(**options)
        self.given = []

    def _words(self, count, memory=None):
        words = super()._words(count, memory)
        self.given.append(words.copy())
        return words


@pytest.mark.parametrize("sampling", [Poisson(6.0), Cyclic(10), FullBatch()], ids=lambda s: s.kind)
def test_keys_are_fresh_in_every_step_and_made_of_words_that_nothing_else_is_made_of(sampling, monkeypatch):
    seen = []
    called = ClippedSums.noisy_mean

    def watched(self, params, batch, keys, noise, scale):
        assert keys is not None
        assert keys.shape == (len(batch), 2)
        assert keys.dtype == np.uint32
        seen.append(keys.copy())
        return called(self, params, batch, keys, noise, scale)

    monkeypatch.setattr(ClippedSums, "noisy_mean", watched)
    generator = Watching()
    train_network(run_of(sampling=sampling, steps=12), dropped, start(), data(), rng=True, generator=generator, workers=2)
    keys = np.concatenate(seen)
    assert len(seen) == 12
    assert len({row.tobytes() for row in keys}) == len(keys)  # of 64 bits: two are equal with probability 1e-14
    words = np.concatenate(generator.given)
    low = (words % (1 << 32)).astype(np.uint32)
    places = [np.flatnonzero(low == word) for word in keys.reshape(-1)]
    assert all(len(place) >= 1 for place in places)  # each is a word of the generator, and no other number was drawn for it
    assert generator.drawn == sum(len(one) for one in generator.given)


def test_keys_are_uniform():
    keys = draw_keys(seeded(), 50_000)
    fixed = keys | np.uint32(1)
    for rows, uniform in ((keys, True), (fixed, False)):
        ones = np.unpackbits(rows.view(np.uint8)).reshape(-1, 64).sum(0, dtype=np.int64)
        assert (np.abs(ones - 25_000).max() < 7 * np.sqrt(12_500)) == uniform  # false alarm below 1e-9


def test_a_seeded_run_with_keys_is_the_same_again_and_an_unseeded_one_is_not():
    def go(generator=None, **options):
        return flat(train_network(run_of(), dropped, start(), data(), rng=True, generator=generator, **options).params)

    np.testing.assert_array_equal(go(seeded()), go(seeded()))
    np.testing.assert_array_equal(go(seeded(), workers=2), go(seeded(), workers=3))
    assert (go() != go()).all()
    assert (go(seeded()) != go(seeded(4))).all()


def test_the_noise_does_not_depend_on_the_keys():
    """Losses whose gradients vanish, with and without keys: full batches draw nothing but keys beside the noise."""
    silent = lambda params, example: jnp.sum(params["w"]) * jnp.sum(example[0]) * 0  # noqa: E731
    run = run_of(sampling=FullBatch(), steps=1)
    params, examples = {"w": np.zeros(4, np.float32)}, (np.zeros((N, 3), np.float32),)
    quiet = lambda p, e, key: silent(p, e) + 0 * jnp.sum(p["w"]) * jax.random.normal(key)  # noqa: E731
    with_keys = train_network(run, quiet, params, examples, rng=True, generator=seeded(), workers=2)
    without = train_network(run, silent, params, examples, generator=seeded(), workers=2)
    np.testing.assert_array_equal(with_keys.params["w"], without.params["w"])


def stopping(done, _):
    if done == 8:
        raise KeyboardInterrupt


def test_a_checkpoint_goes_on_with_the_same_keys(tmp_path):
    def go(path, keyed=True, **options):
        loss_ = dropped if keyed else loss
        return train_network(
            run_of(), loss_, start(), data(), rng=keyed, generator=seeded(), checkpoint=Checkpoint(path, 4), **options
        )

    whole = go(tmp_path / "whole")
    with pytest.raises(TrainingInterrupted):
        go(tmp_path / "c", progress=stopping)
    with pytest.raises(InputError, match="another trainable or rng"):
        go(tmp_path / "c", keyed=False)
    np.testing.assert_array_equal(flat(go(tmp_path / "c").params), flat(whole.params))


@pytest.mark.parametrize(
    ("loss", "rng", "message"),
    [
        (dropped, False, r"loss cannot be called as loss\(params, example\): write it so; with rng=True it gets a random key too"),
        (loss, True, r"loss cannot be called as loss\(params, example, key\): write it so\."),
        (dropped, 3, "rng is int: expected True or False; keys are drawn by the run's generator"),
        (dropped, jax.random.key(0), "rng is .*: expected True or False"),
    ],
)
def test_losses_that_take_other_arguments_are_refused(loss, rng, message):
    with pytest.raises(InputError, match=message):
        train_network(run_of(), loss, start(), data(), rng=rng)


def test_a_loss_that_does_not_say_how_it_is_called_is_called(monkeypatch):
    known = inspect.signature

    def signature(one, *args, **options):
        if one is dropped:
            raise ValueError
        return known(one, *args, **options)

    monkeypatch.setattr(inspect, "signature", signature)
    assert train_network(run_of(steps=1), dropped, start(), data(), rng=True).steps == 1


def test_keys_of_bits_are_refused_where_they_are_of_rbg():
    """Under vmap its numbers come of the first key."""

    def bad(p, e, key):
        bits = jnp.concatenate([jax.random.key_data(key)] * 2)
        return loss(p, e) * jax.random.uniform(jax.random.wrap_key_data(bits, impl="rbg"))

    with pytest.raises(InputError, match="rbg"):
        train_network(run_of(), bad, start(), data(), rng=True)
