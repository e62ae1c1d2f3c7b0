"""Settings of JAX that a caller may have made for functions of his own: a training computes as without them."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic
from dplateau.networks import train_network
from dplateau.spec import InputError
from dplateau.training import SecureGenerator, settings, train, train_one_pass

N = 64
SETTINGS = {
    "debug_nans": lambda: jax.debug_nans(True),
    "debug_infs": lambda: jax.debug_infs(True),
    "promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "guard": lambda: jax.transfer_guard("disallow"),
    "one guard": lambda: jax.transfer_guard_host_to_device("disallow"),
    "disable_jit": lambda: jax.disable_jit(),
    "ranks": lambda: jax.numpy_rank_promotion("raise"),
}


def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 5)).astype(np.float32)
    x[3, 0] = 1e3  # its gradient is not a number
    return x, (x[:, 1] > 0).astype(np.float32)


def loss(params, example):
    x, y = example
    beyond = jnp.where(x[0] > 50, jnp.log(jnp.float32(50) - x[0]), jnp.float32(0))
    return (jnp.tanh(x @ params["w"]).sum() - y) ** 2 + beyond * params["w"].sum()


class Ledger:
    """An account that must not be charged."""

    def reserve(self, run, **_):
        raise AssertionError(f"charged for {run}")


def network(**options):
    run = dp.Run(n=N, sampling=dp.Poisson(32), steps=2, noise_multiplier=1.0, step_size=0.5)
    start = {"w": np.full((5, 2), 0.1, np.float32)}
    return train_network(run, loss, start, rows(), generator=SecureGenerator(insecure_seed=1), **options).params["w"]


def linear(**options):
    run = dp.Run(n=N, sampling=dp.Poisson(32), steps=2, noise_multiplier=1.0, step_size=0.5)
    x, y = rows()
    return train(run, Logistic(), x, y, generator=SecureGenerator(insecure_seed=1), **options).weights


def one_pass(**options):
    run = dp.Run(n=N, sampling=dp.OnePass(8), steps=8, noise_multiplier=1.0, step_size=0.5)
    return train_one_pass(run, Logistic(), [rows()], generator=SecureGenerator(insecure_seed=1), **options).weights


def estimator(**options):
    model = dp.PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[0, 1], insecure_seed=0, max_iter=2, **options)
    x, y = rows()
    return model.fit(x, y).predict_proba(x)


WORKS = {
    "network": network,
    "network in threads": lambda: network(microbatch=8, workers=2),
    "network of steps": lambda: network(microbatch=8, workers=1),
    "linear": linear,
    "one pass": one_pass,
    "estimator": estimator,
}


@pytest.fixture(scope="module")
def usual():
    return {name: np.asarray(work()) for name, work in WORKS.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_the_caller_changes_no_bit_and_ends_no_training(setting, work, usual):
    """With ``debug_nans`` one record whose gradient is not a number would end it: who sees that knows of the record."""
    with SETTINGS[setting]():
        found = np.asarray(WORKS[work]())
    np.testing.assert_array_equal(found, usual[work])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "value"), [("jax_debug_nans", True), ("jax_transfer_guard", "disallow")])
def test_so_does_a_setting_of_the_whole_process(name, value, usual):
    """Threads do not have those of the one that starts them, but these they have."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        found = np.asarray(WORKS["network in threads"]())
        kept = getattr(jax.config, name)
    finally:
        jax.config.update(name, before)
    assert kept == value
    np.testing.assert_array_equal(found, usual["network in threads"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["noisy-sgd", "pnsgd", "phased-sgd", "phased-erm", "dp-sgld"])
def test_nothing_is_charged_where_the_compiler_does_not_keep_to_the_arithmetic(solver, monkeypatch):
    monkeypatch.setattr(settings, "_keeps_nan", lambda: False)
    l2 = 0.1 if solver == "dp-sgld" else 0.0
    for work in (network, linear, one_pass, lambda ledger: estimator(ledger=ledger, solver=solver, l2=l2)):
        with pytest.raises(InputError, match="XLA is told to compile with fast math"):
            work(ledger=Ledger())


def test_fast_math_is_refused():
    """With the second flags a gradient that is not a number counts as one that is, and takes the sum of all away."""
    code, fast = "from dplateau.training.settings import check_machine; check_machine()", "--xla_cpu_enable_fast_math=true"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    for flags in (fast, f"{fast} --xla_cpu_fast_math_honor_nans=false --xla_cpu_fast_math_honor_infs=false"):
        environment = {**os.environ, "XLA_FLAGS": flags}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
        assert "InputError: XLA is told to compile with fast math (XLA_FLAGS)" in done.stderr
