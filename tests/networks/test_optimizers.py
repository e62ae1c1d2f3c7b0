"""The papers' optimizers against their formulas, alone and inside a training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dplateau.networks import adagrad_norm, noisy_adam, noisy_sgd, train_network
from dplateau.spec import InputError

from .small import data, flat, loss, noisy_gradients, run_with_optimizer, seeded, start

GRADIENTS = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)


def steps_of(optimizer, gradients=GRADIENTS):
    """What the optimizer adds to the weights, step by step."""
    weights = {"a": jnp.ones(2), "b": jnp.zeros(3)}
    state, steps = optimizer.init(weights), []
    for g in gradients:
        change, state = optimizer.update({"a": g[:2], "b": g[2:]}, state, weights)
        steps.append(flat(change))
        weights = optax.apply_updates(weights, change)
    return np.array(steps)


def adam_by_hand(eta, b1, b2, xi, m, u):
    steps = []
    for t, g in enumerate(np.float64(GRADIENTS)):
        m, u = b1 * m + (1 - b1) * g, b2 * u + (1 - b2) * g**2
        steps.append(-(eta(t) if callable(eta) else eta) * m / (np.sqrt(u) + xi))
    return np.array(steps)


@pytest.mark.parametrize(
    ("eta", "settings"),
    [
        (0.01, {}),
        (0.5, {"b1": 0.8, "b2": 0.5, "xi": 0.3, "m0": -0.4, "u0": 2.0}),
        (0.5, {"b1": 0.0, "b2": 0.0}),
        (lambda t: 0.1 / (1 + t), {"u0": 1e-3}),
    ],
)
def test_noisy_adam_is_the_papers_second_algorithm(eta, settings):
    wanted = adam_by_hand(eta, *({"b1": 0.9, "b2": 0.999, "xi": 1e-8, "m0": 0.0, "u0": 0.0} | settings).values())
    np.testing.assert_allclose(steps_of(noisy_adam(eta, **settings)), wanted, rtol=1e-4, atol=1e-7)


def test_noisy_adam_differs_from_adam_only_in_the_correction_of_the_bias():
    t = np.arange(1, 9)[:, None]
    corrected = steps_of(noisy_adam(0.1, xi=1e-12)) / (1 - 0.9**t) * np.sqrt(1 - 0.999**t)
    np.testing.assert_allclose(corrected, steps_of(optax.adam(0.1, eps=1e-12)), rtol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"learning_rate": 0.3, "b0_squared": 0.5, "nu": 4.0, "scale": 0.7}])
def test_adagrad_norm_is_its_formula(settings):
    eta, squared, nu, scale = ({"learning_rate": 1.0, "b0_squared": 20.0, "nu": 1e-5, "scale": 1.0} | settings).values()
    wanted = []
    for g in np.float64(GRADIENTS):
        squared += max(scale * g @ g, nu)
        wanted.append(-eta / np.sqrt(squared) * g)
    np.testing.assert_allclose(steps_of(adagrad_norm(**settings)), wanted, rtol=1e-5)


def test_adagrad_norm_with_the_papers_beta_of_every_step():
    squared, wanted = 20.0, []
    for t, g in enumerate(np.float64(GRADIENTS)):
        squared += max(max(4 / (t % 5 + 1), 1) * g @ g, 1e-5)
        wanted.append(-1 / np.sqrt(squared) * g)
    found = steps_of(adagrad_norm(scale=lambda t: jnp.maximum(4 / (t % 5 + 1), 1)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert not np.allclose(found, steps_of(adagrad_norm(scale=4.0)))


def test_noisy_sgd_has_heavy_ball_momentum():
    v, wanted = 0.0, []
    for g in np.float64(GRADIENTS):
        v = 0.7 * v + g
        wanted.append(-0.2 * v)
    np.testing.assert_allclose(steps_of(noisy_sgd(0.2, momentum=0.7)), wanted, rtol=1e-5)
    np.testing.assert_allclose(steps_of(noisy_sgd(0.2)), -0.2 * GRADIENTS, rtol=1e-6)
    np.testing.assert_allclose(steps_of(noisy_sgd(lambda t: 0.1 * t))[:2], [np.zeros(5), -0.1 * GRADIENTS[1]], rtol=1e-5)


OPTIMIZERS = {
    "noisy_adam": noisy_adam(0.05, u0=0.1),
    "adagrad_norm": adagrad_norm(0.5),
    "adagrad_norm with a schedule": adagrad_norm(0.5, scale=lambda t: jnp.maximum(4 / (t % 5 + 1), 1)),
    "noisy_sgd": noisy_sgd(0.1, momentum=0.9),
    "adamw with a schedule": optax.adamw(optax.cosine_decay_schedule(0.1, 24), weight_decay=0.1),
    "chain": optax.chain(optax.clip_by_global_norm(0.5), optax.lion(0.01), optax.ema(0.9)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_hands_every_optimizer_the_noisy_mean_gradients(name):
    optimizer, run = OPTIMIZERS[name], run_with_optimizer(steps=12)
    _, unravel = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, start()))
    state = optimizer.init(start())
    update = jax.jit(lambda noisy, state, weights: optimizer.update(unravel(noisy), state, unravel(weights)))

    def step(weights, noisy, t):
        nonlocal state
        changes, state = update(jnp.float32(noisy), state, weights)
        return weights + flat(changes)

    wanted = list(noisy_gradients(run, loss, start(), data(), seeded(), step))[-1]
    result = train_network(run, loss, start(), data(), optimizer=optimizer, generator=seeded())
    # The signs that some of these take turn rounding errors of gradients near zero into steps.
    np.testing.assert_allclose(flat(result.params), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: noisy_sgd(0.0), "learning_rate is 0"),
        (lambda: noisy_sgd(0.1, momentum=1.0), "momentum is 1"),
        (lambda: noisy_sgd(0.1, momentum=-0.1), "momentum is -0.1"),
        (lambda: noisy_adam(float("nan")), "learning_rate"),
        (lambda: noisy_adam(0.1, b1=1.0), "b1 is 1.0"),
        (lambda: noisy_adam(0.1, b2=-0.5), "b2 is -0.5"),
        (lambda: noisy_adam(0.1, b1="0.9"), "b1 is '0.9'"),
        (lambda: noisy_adam(0.1, m0=float("nan")), "m0 is nan"),
        (lambda: noisy_adam(0.1, xi=0.0), "xi is 0"),
        (lambda: noisy_adam(0.1, u0=-1.0), "u0 is -1"),
        (lambda: adagrad_norm(-1.0), "learning_rate is -1"),
        (lambda: adagrad_norm(b0_squared=0.0), "b0_squared is 0"),
        (lambda: adagrad_norm(nu=0.0), "nu is 0"),
        (lambda: adagrad_norm(scale=0.0), "scale is 0"),
    ],
)
def test_what_is_out_of_range_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    "look",
    [lambda g: jax.debug.print("{}", g), lambda g: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(g.shape, g.dtype), g)],
)
def test_an_optimizer_that_shows_noisy_gradients_is_refused(look):
    """It would show those of steps that an interruption takes back."""
    inner = optax.sgd(0.1)

    def update(gradients, state, params=None):
        looked = look(gradients["w"])
        return inner.update(gradients if looked is None else gradients | {"w": looked}, state, params)

    with pytest.raises(InputError, match=r"the optimizer uses (debug_print|debug_callback|pure_callback): it would show noisy"):
        train_network(run_with_optimizer(), loss, start(), data(), optimizer=optax.GradientTransformation(inner.init, update))


def test_the_same_settings_give_the_same_optimizer():
    """What was compiled for it serves the next training."""
    rate = optax.linear_schedule(1.0, 0.1, 5)
    for make in (noisy_sgd, noisy_adam):
        assert make(0.1) is make(0.1) is not make(0.2)
        assert make(rate) is make(rate)
        make(1.0)
        with pytest.raises(InputError, match="learning_rate is True"):
            make(True)
        with pytest.raises(InputError, match="expected a finite number"):
            make(np.ones(2))
    assert adagrad_norm() is adagrad_norm()
    assert noisy_sgd.__name__ == "noisy_sgd"
