"""Who is taken for a Poisson sampler."""

from __future__ import annotations

import numpy as np
import pytest

from dplateau.interchange.batch_sizes import BatchSizes


def steps_until_noticed(sizes: list[int], rate: float, expected: float) -> int | None:
    seen = BatchSizes(rate, expected)
    for step, size in enumerate(sizes):
        seen.saw(size)
        if seen.too_regular:
            return step
    return None


@pytest.mark.parametrize("n", [4, 50, 3_000])
@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_poisson_batches_are(n: int, rate: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        assert steps_until_noticed(rng.binomial(n, rate, size=2_000).tolist(), rate, int(n * rate)) is None


def test_equal_batches_are_not() -> None:
    assert (steps_until_noticed([64] * 1_000, 64 / 60_000, 64) or 1_000) < 12
    assert (steps_until_noticed([4] * 1_000, 0.1, 4) or 1_000) < 40


def test_smaller_last_batches_do_not_hide_them() -> None:
    found = steps_until_noticed(([64, 64, 64, 8] * 500), 0.25, 50)
    assert found is not None
    assert found < 60


def test_a_batch_of_everything_says_nothing() -> None:
    assert steps_until_noticed([100] * 1_000, 1.0, 100) is None
    assert steps_until_noticed([0] * 1_000, 0.01, 0) is None
