"""What the proof of exact sums assumes of compiled quotients and roots: XLA need not round them as IEEE 754 says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

BIT = 2.0**-52
FORMULAS = {
    "one": (lambda a, b: a / b[0], lambda a, b: a / b[0], 1.0),
    "row": (lambda a, b: a / b, lambda a, b: a / b, 1.0),
    "column": (lambda a, b: a.T / b[:, None], lambda a, b: a.T / b[:, None], 1.0),
    "each": (lambda a, b: 1 / a, lambda a, b: 1 / a, 0.5),
    "root": (lambda a, b: jnp.sqrt(a), lambda a, b: np.sqrt(a), 0.5),
    "by a root": (lambda a, b: b / jnp.sqrt(a), lambda a, b: b / np.sqrt(a), 1.5),
    "one by a root": (lambda a, b: b[0] / jnp.sqrt(a), lambda a, b: b[0] / np.sqrt(a), 1.5),
    "by a row's root": (lambda a, b: a / jnp.sqrt(b), lambda a, b: a / np.sqrt(b), 1.5),
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_quotients_and_roots_are_right_to_so_many_units_in_the_last_place(formula):
    compiled, exact, units = FORMULAS[formula]
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 4, (2_000, 100)), rng.uniform(1, 4, 100)
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(compiled)(a, b)).astype(np.longdouble)
    true = exact(a.astype(np.longdouble), b.astype(np.longdouble))
    off = float(np.max(abs(found - true) / true)) / BIT
    assert off <= units, off
