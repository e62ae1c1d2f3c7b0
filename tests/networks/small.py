"""A small network, small data, and training by hand, shared by the tests of this folder."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dplateau.networks.lattice import lattice_of
from dplateau.spec import Poisson, Run
from dplateau.spec.schedule import window
from dplateau.training import SecureGenerator
from dplateau.training.batches import batches
from dplateau.training.chunks import chunk_length

N = 40


def run_of(**changes):
    fields = {"n": N, "sampling": Poisson(6.0), "steps": 24, "noise_multiplier": 1.0, "clip_norm": 0.5, "step_size": 0.2}
    return Run(**{**fields, **changes})


def run_with_optimizer(**changes):
    return run_of(**{"step_size": None, "update": "post-processed", **changes})


def loss(params, example):
    x, y = example
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.sum((hidden @ params["v"] - y) ** 2)


def silent(params, example):
    """All gradients are zero where the example is: what moves the parameters is noise."""
    return jnp.sum(params["w"]) * jnp.sum(example)


def start():
    rng = np.random.default_rng(7)
    shapes = {"w": (3, 4), "b": (4,), "v": (4,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def data(n=N):
    rng = np.random.default_rng(8)
    return rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=n).astype(np.float32)


def seeded(seed=3):
    return SecureGenerator(insecure_seed=seed)


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


def normals_of(words):
    """Box and Muller's numbers by NumPy's logarithm and cosine."""
    high, low, angle = (row.astype(np.longdouble) for row in words)
    radius = np.sqrt(-2 * np.log((high + (low + 0.5) * 2.0**-64) * np.longdouble(2.0**-64)))
    angle *= 2 * np.pi * 2.0**-64
    return np.concatenate([radius * np.cos(angle), -radius * np.sin(angle)]).astype(np.float64)


@cache
def gradients_of(loss, unravel):
    return jax.jit(jax.vmap(jax.grad(lambda weights, example: loss(unravel(weights), example)), (None, 0)))


def noisy_gradients(run, loss, params, examples, generator, step, length=None):
    """Train by hand: ``step(weights, noisy mean gradient, t)`` gives the next weights. Yields the weights after every step."""
    weights, unravel = ravel_pytree(jax.tree.map(jnp.asarray, params))
    gradients = gradients_of(loss, unravel)
    lattice = lattice_of(run, weights.size)
    clipped = lattice.room * lattice.unit
    length = length or chunk_length(run, weights.size)
    plans = None if run.is_full_batch else batches(run, length, generator)
    for begin in range(0, run.steps, length):
        end = min(begin + length, run.steps)
        if plans is None:
            picked = [np.arange(run.n)] * (end - begin)
        else:
            plan = next(plans)
            picked = np.split(plan.records, np.cumsum(plan.counts)[:-1])
        deviations = window(run.noise_multiplier, begin, end) * run.clip_norm
        divisors = window(run.sampling.divisors(run.n), begin, end)
        for k in range(end - begin):
            each = np.asarray(gradients(weights, examples), np.float64)[picked[k]]
            norms = np.linalg.norm(each, axis=1, keepdims=True)
            total = (each * np.minimum(1, clipped / norms)).sum(0)
            noise = np.rint(normals_of(generator.normal_words(weights.size + 1)) * deviations[k] / lattice.unit) * lattice.unit
            noisy = (total + noise[: weights.size]) / divisors[k]  # One more is for the count.
            weights = step(weights, noisy, begin + k)
            yield np.asarray(weights)
