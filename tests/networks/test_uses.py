"""Clipped sums against ``vmap(grad)`` and a clip by hand, for every way of using a weight."""

from __future__ import annotations

import numpy as np
import pytest

from .uses import CASES, by_hand, compiled, sites


@pytest.mark.parametrize("name", CASES)
def test_every_use_of_a_weight_gives_the_sum_of_the_clipped_gradients(name):
    loss, params, examples, wanted = CASES[name]
    used = np.array([True, True, False, True, True, True])
    total, clip_norm = by_hand(loss, params, examples, None, used)
    np.testing.assert_allclose(
        compiled(loss, params, examples, False)(examples, clip_norm, used), total, rtol=2e-4, atol=2e-5 * clip_norm
    )
    assert sites(loss, params, examples) == wanted
