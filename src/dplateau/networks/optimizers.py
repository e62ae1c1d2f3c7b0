"""Optimizers of the papers, as optax transformations. All they see is noisy gradients, so they cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, NamedTuple, ParamSpec, TypeAlias

import jax
import jax.numpy as jnp
import optax

from dplateau.spec import InputError
from dplateau.spec.arguments import real

Tree: TypeAlias = Any
Rate: TypeAlias = float | Callable[[Any], Any]
P = ParamSpec("P")


def _kept(make: Callable[P, optax.GradientTransformation]) -> Callable[P, optax.GradientTransformation]:
    """The same object for the same settings: what was compiled for it is used again."""
    kept = lru_cache(maxsize=32, typed=True)(make)

    @wraps(make)
    def found(*args: P.args, **settings: P.kwargs) -> optax.GradientTransformation:
        known = all(isinstance(value, Hashable) for value in (*args, *settings.values()))
        return (kept if known else make)(*args, **settings)

    return found


def _rate(learning_rate: Rate) -> Rate:
    return learning_rate if callable(learning_rate) else real("learning_rate", learning_rate)


def _below_one(name: str, value: float) -> float:
    value = real(name, value, inclusive=True)
    if value >= 1:
        raise InputError(f"{name} is {value!r}: expected a number >= 0 and < 1.")
    return value


@_kept
def noisy_sgd(learning_rate: Rate, *, momentum: float = 0.0) -> optax.GradientTransformation:
    """NoisySGD: steps along the noisy gradient, with heavy-ball momentum if wanted.

    Source: Bu et al. 2020, Algorithm 1, with the public batch size as divisor.

    Parameters
    ----------
    learning_rate : float or callable
        eta, or a function of the number of steps so far.
    momentum : float, default 0.0
        At least 0, below 1.
    """
    return optax.sgd(_rate(learning_rate), momentum=_below_one("momentum", momentum) or None)


class AdamState(NamedTuple):
    """Number of steps, and the moving means of noisy gradients and of their squares."""

    count: Any
    mean: Tree
    square: Tree


@_kept
def noisy_adam(
    learning_rate: Rate, *, b1: float = 0.9, b2: float = 0.999, xi: float = 1e-8, m0: float = 0.0, u0: float = 0.0
) -> optax.GradientTransformation:
    """NoisyAdam: Adam on noisy gradients, with no correction of the moments' bias.

    ``m <- b1 m + (1 - b1) g``, ``u <- b2 u + (1 - b2) g^2``, ``theta <- theta - eta m / (sqrt(u) + xi)``. ``optax.adam`` corrects
    the bias, and is as private.

    Source: Bu et al. 2020, Algorithm 2, with the public batch size as divisor.

    Parameters
    ----------
    learning_rate : float or callable
        eta, or a function of the number of steps so far.
    b1, b2 : float
        beta_1 and beta_2, at least 0 and below 1.
    xi : float, default 1e-8
        Added to the root, above 0.
    m0, u0 : float, default 0.0
        The first m and u, the same for all weights; u0 >= 0.
    """
    rate = _rate(learning_rate)
    b1, b2 = _below_one("b1", b1), _below_one("b2", b2)
    xi, m0, u0 = real("xi", xi), real("m0", m0, low=-math.inf), real("u0", u0, inclusive=True)

    def init(params: Tree) -> AdamState:
        return AdamState(
            jnp.zeros([], jnp.int32),
            jax.tree.map(lambda leaf: jnp.full_like(leaf, m0), params),
            jax.tree.map(lambda leaf: jnp.full_like(leaf, u0), params),
        )

    def update(updates: Tree, state: Any, params: Tree | None = None) -> tuple[Tree, AdamState]:
        del params
        mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, updates)
        square = jax.tree.map(lambda u, g: b2 * u + (1 - b2) * g * g, state.square, updates)
        eta = rate(state.count) if callable(rate) else rate
        steps = jax.tree.map(lambda m, u: (-eta * m / (jnp.sqrt(u) + xi)).astype(m.dtype), mean, square)
        return steps, AdamState(state.count + 1, mean, square)

    return optax.GradientTransformation(init, update)


class NormState(NamedTuple):
    """b_t^2."""

    squared: Any


class CountedNormState(NamedTuple):
    """Number of steps, and b_t^2."""

    count: Any
    squared: Any


@_kept
def adagrad_norm(
    learning_rate: float = 1.0, *, b0_squared: float = 20.0, nu: float = 1e-5, scale: Rate = 1.0
) -> optax.GradientTransformation:
    """AdaGrad-norm on noisy gradients: one step size for all weights, ``eta / b_t`` with ``b_t^2 = b_(t-1)^2 + max(s |g|^2, nu)``.

    The paper takes |g| from the gradient *before* noise is added; its step sizes then tell of the records, and its guarantee does
    not cover them. Here g is the noisy gradient.

    Source: Wu et al. 2021, section 5.2, with noisy gradients.

    Parameters
    ----------
    learning_rate : float, default 1.0
        eta.
    b0_squared, nu : float
        Above 0.
    scale : float or callable, default 1.0
        s, above 0, or a function of the number of steps so far. The paper's beta_t (section 6.2) is
        ``lambda t: jnp.maximum(beta / (t % 195 + 1), 1)``, with beta from 1 to 8192: large at the beginning of every epoch of 195
        steps, because its gradients without noise are short.
    """
    eta, start, nu = (
        real(name, value) for name, value in (("learning_rate", learning_rate), ("b0_squared", b0_squared), ("nu", nu))
    )
    factor = scale if callable(scale) else real("scale", scale)

    def init(params: Tree) -> NormState | CountedNormState:
        squared = jnp.asarray(start, jax.tree.leaves(params)[0].dtype)
        return CountedNormState(jnp.zeros([], jnp.int32), squared) if callable(factor) else NormState(squared)

    def update(updates: Tree, state: Any, params: Tree | None = None) -> tuple[Tree, NormState | CountedNormState]:
        del params
        norm = sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(updates))
        times = factor(state.count) if callable(factor) else factor
        squared = (state.squared + jnp.maximum(times * norm, nu)).astype(state.squared.dtype)
        found = CountedNormState(state.count + 1, squared) if callable(factor) else NormState(squared)
        return jax.tree.map(lambda g: (-eta / jnp.sqrt(squared)).astype(g.dtype) * g, updates), found

    return optax.GradientTransformation(init, update)
