"""Linear models where an accelerator computes, run on processors that pass for one.

The host draws their noise, and all sums are of whole numbers. So the same seed gives the same weights, to the bit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.losses import Logistic, Softmax
from dplateau.spec import FullBatch, OnePass, Poisson, Run
from dplateau.training import SecureGenerator, groups, integers, train
from dplateau.training.integers import BLOCK, Rows, bits_of, block_of, encoded, integer_sum

N, D = 3 * BLOCK - 100, 5


@pytest.fixture(autouse=True)
def _nothing_compiled_before():
    jax.clear_caches()  # a function compiled for processors must not be taken for that of an accelerator
    yield
    jax.clear_caches()


def data(n=N, d=D):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, 3, n)


def weights(where, monkeypatch, sampling, outputs, groups=None, **more):
    features, target = data()
    run = Run(**{"n": N, "sampling": sampling, "noise_multiplier": 1.5, "clip_norm": 0.7, "step_size": 0.3} | more)
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: where)
        jax.clear_caches()
        loss, labels = (Logistic(), target > 0) if outputs == 1 else (Softmax(3), target)
        generator = SecureGenerator(insecure_seed=1)
        return train(run, loss, features, labels, groups=groups, generator=generator, dtype="float64").weights


@pytest.mark.parametrize("far", [None, 2 * BLOCK * (D + 1), BLOCK * (D + 3)], ids=["one block", "two", "three"])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(
    ("sampling", "more"),
    [
        (FullBatch(), {"steps": 4}),
        (Poisson(N / 2), {"steps": 4}),
        (OnePass((BLOCK + 7, 10, N - BLOCK - 17)), {"steps": 3}),
        (FullBatch(), {"steps": 3, "released": "last", "smoothness": 200.0, "diameter": 10.0, "step_size": 1e-3}),
    ],
    ids=["full", "poisson", "one pass", "last iterate"],
)
def test_the_same_seed_gives_the_same_weights_as_on_processors(sampling, more, outputs, far, monkeypatch):
    here = weights("cpu", monkeypatch, sampling, outputs, **more)
    if far is not None:
        monkeypatch.setattr(integers, "_FAR", far)
    there = weights("gpu", monkeypatch, sampling, outputs, **more)
    assert np.isfinite(here).all()
    assert (abs(here) > 0).all()
    assert (here == there).all()


@pytest.mark.parametrize("steps", [1, 5, 16, 20])
@pytest.mark.parametrize("more", [{}, {"released": "last", "smoothness": 200.0, "diameter": 10.0, "step_size": 1e-3}], ids=str)
def test_what_is_done_after_the_last_step_of_a_chunk_changes_nothing(more, steps, monkeypatch):
    """The loop goes on to the end of a group of iterations."""
    here = weights("cpu", monkeypatch, FullBatch(), 1, steps=steps, **more)
    monkeypatch.setattr(groups, "_GROUPS", 1)
    went, group_of = [], groups.group_of
    monkeypatch.setattr(groups, "group_of", lambda most: went.append(group_of(most)) or went[-1])
    there = weights("gpu", monkeypatch, FullBatch(), 1, steps=steps, **more)
    assert went == [1 << (steps - 1).bit_length() if steps < 16 else 16]
    assert (here == there).all()


@pytest.mark.parametrize("sampling", [FullBatch(), Poisson(N / 6), OnePass((N // 3 - 5, 5))], ids=lambda s: s.kind)
def test_so_it_does_where_a_record_is_a_person(sampling, monkeypatch):
    more = {"n": N // 3, "steps": 2, "unit": "person", "groups": np.minimum(np.arange(N) // 3, N // 3 - 1)}
    here, there = (weights(where, monkeypatch, sampling, 1, **more) for where in ("cpu", "gpu"))
    assert (abs(here) > 0).all()
    assert (here == there).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_sums_of_more_records_than_double_precision_can_add_up_are_exact(outputs, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    count = 5 * BLOCK + 1
    assert block_of(D, outputs) >= count
    run = Run(n=count, sampling=FullBatch(), steps=1, noise_multiplier=1.0, clip_norm=1.0, step_size=1.0)
    bits = bits_of(run, D)
    with jax.enable_x64(True):
        rows, _ = encoded(np.ones((count, D)), np.zeros(count), bits, np.float64(1.0))
        loss = Logistic() if outputs == 1 else Softmax(3)
        start = jnp.full((1, D), 1e6) if outputs == 1 else jnp.zeros((1, D, 3)).at[..., 1].set(1e6)

        def summed(rows):  # every residual is at its limit: sums are as large as they can be
            return np.asarray(integer_sum(loss, start, jnp.float64(1.0), rows, np.float64(2.0**bits.gradient), bits))

        found, one, rest = (summed(Rows(*(part[some] for part in rows))) for some in (slice(None), slice(1), slice(1, None)))
    assert abs(found).max() > 2**53
    assert (found == count * one).all()
    assert (found - rest == one).all()


def test_one_output_needs_no_product_of_a_library(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    features, target = data()
    bits = bits_of(Run(n=N, sampling=FullBatch(), steps=1, noise_multiplier=1.0, clip_norm=1.0, step_size=1.0), D)

    def summed(features, target, whole):
        rows, _ = encoded(features, target, bits, 1.0)
        return integer_sum(Logistic(), whole, 1.0, rows, 1e6, bits)

    with jax.enable_x64(True):
        assert "dot_general" not in str(jax.make_jaxpr(summed)(features, target.astype(float), np.ones((1, D))))
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    jax.clear_caches()
    with jax.enable_x64(True):
        assert "dot_general" in str(jax.make_jaxpr(summed)(features, target.astype(float), np.ones((1, D))))
