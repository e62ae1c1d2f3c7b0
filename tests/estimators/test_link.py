"""Probabilities after clipping undo what clipping does to the expected gradient, and change no decision."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dplateau.estimators.link import unclipped_probability
from dplateau.losses import Logistic

RESIDUAL = jax.jit(Logistic().residual)
SCORES = np.linspace(-12, 12, 101)


def test_the_closed_form_at_half_clipping():
    probability = unclipped_probability(SCORES, np.full(101, 0.5))
    np.testing.assert_allclose(np.maximum(probability, 1 - probability), 1 / (1 + 2 * expit(-abs(SCORES))), rtol=1e-12)


def test_without_clipping_it_is_the_sigmoid():
    np.testing.assert_allclose(unclipped_probability(SCORES, np.full(101, np.inf)), expit(SCORES), rtol=1e-12)


@settings(deadline=None, derandomize=True)  # the first example compiles
@given(st.floats(-20, 20), st.floats(0.05, 2.0))
def test_the_expected_clipped_residual_is_zero(score, largest):
    probability = float(unclipped_probability(np.array([score]), np.array([largest]))[0])
    with jax.enable_x64(True):
        residuals = np.array([float(RESIDUAL(np.float64(score), y)) for y in (0, 1)])
    assert abs(np.array([1 - probability, probability]) @ np.clip(residuals, -largest, largest)) < 1e-6


@settings(derandomize=True)
@given(st.floats(-30, 30), st.floats(0.5, 2.0))
def test_the_likelier_class_stays_the_likelier(score, largest):
    probability = float(unclipped_probability(np.array([score]), np.array([largest]))[0])
    assert (probability > 0.5) == (expit(score) > 0.5)
