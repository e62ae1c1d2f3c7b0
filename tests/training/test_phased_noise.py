"""Noise on a phase's result: the right scale, one grid, exact sums."""

import math

import numpy as np
import pytest

from dplateau.spec import InputError
from dplateau.training import SecureGenerator
from dplateau.training.output_noise import output_noise

COUNT = 40_000


@pytest.mark.parametrize("deviation", [3e-7, 0.05, 2.0, 700.0])
def test_the_noise_has_the_scale_that_it_should_and_no_other(deviation):
    noise = output_noise(deviation, 10.0)
    drawn = noise.add(np.zeros(COUNT), SecureGenerator(insecure_seed=1))
    five = 5 / math.sqrt(2 * COUNT)  # five standard errors of a standard deviation
    for factor, accepted in ((1.0, True), (1.1, False), (0.9, False)):
        assert bool(abs(np.std(drawn) / (factor * deviation) - 1) < five) is accepted
    assert abs(drawn.mean()) < 5 * deviation / math.sqrt(COUNT)


def test_results_and_noise_share_a_grid_and_their_sum_is_exact():
    noise = output_noise(0.3, 10.0)
    result = np.random.default_rng(0).uniform(-10, 10, COUNT)
    with_result, alone = (noise.add(x, SecureGenerator(insecure_seed=2)) for x in (result, np.zeros(COUNT)))
    assert (np.rint(with_result / noise.spacing) * noise.spacing == with_result).all()
    rounded = with_result - alone  # exact: both are small multiples of the spacing
    assert (np.rint(rounded / noise.spacing) * noise.spacing == rounded).all()
    assert abs(rounded - result).max() <= noise.spacing / 2
    assert math.log2(noise.spacing).is_integer()
    assert noise.spacing <= 0.3 * 2**-30


def test_the_margin_covers_the_rounding_of_two_results():
    noise = output_noise(1.0, 10.0)
    rng = np.random.default_rng(0)
    far = []
    for _ in range(200):
        a, b = rng.uniform(-10, 10, (2, 50))
        moved = np.rint(a / noise.spacing) - np.rint(b / noise.spacing)
        far.append(np.linalg.norm(moved * noise.spacing) - np.linalg.norm(a - b))
    assert 0 < max(far) <= noise.margin(50)
    # Close together, but on two sides of the middle in every coordinate.
    near = [np.full(50, half * noise.spacing) for half in (0.5 - 1e-9, 0.5 + 1e-9)]
    moved = np.subtract(*(noise.add(one, SecureGenerator(insecure_seed=2)) for one in near))
    assert 0.999 * noise.margin(50) < np.linalg.norm(moved) - np.linalg.norm(near[0] - near[1]) <= noise.margin(50)


def test_small_noise_on_large_results_gets_a_coarser_grid_and_in_the_end_none():
    coarse = output_noise(1e-12, 10.0)
    assert 10.0 / coarse.spacing <= 2**51
    assert coarse.spacing < 1e-12
    for deviation in (1e-16, 1e-220, math.nan):
        with pytest.raises(InputError, match="double precision"):
            output_noise(deviation, 10.0)
    for deviation, largest in ((1e-120, 1e300), (math.inf, 1.0), (1.0, math.nan)):
        with pytest.raises(InputError, match="double precision"):
            output_noise(deviation, largest)
