"""Falling steps: values by hand, ends, and what is refused."""

import math
from itertools import pairwise

import pytest

from dplateau.algorithms import polynomial_decay, square_root_decay
from dplateau.spec import InputError


def test_values_by_hand():
    assert polynomial_decay(3, a=7, c=1, step_size=2.0) == pytest.approx((2 / math.sqrt(8), 2 / 3, 2 / math.sqrt(10)))
    assert polynomial_decay(3, a=4, c=0) == (0.5, 0.5, 0.5)
    # first - r sqrt(t) with r = (1 - 0.4)/2: 1 - 0.3 (1, sqrt 2, sqrt 3, 2)
    assert square_root_decay(4, 1.0, 0.4) == pytest.approx((0.7, 1 - 0.3 * math.sqrt(2), 1 - 0.3 * math.sqrt(3), 0.4))


def test_the_steps_of_the_paper():
    steps = polynomial_decay(11_760, a=20, c=1)
    assert (steps[0], steps[-1]) == pytest.approx((21**-0.5, 11_780**-0.5))
    falling = square_root_decay(11_760, 0.1, 1e-10)
    assert falling[-1] == 1e-10
    assert all(a > b for a, b in pairwise(falling))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: polynomial_decay(0, 1, 1), "steps"),
        (lambda: polynomial_decay(3, 0, 1), "a is 0"),
        (lambda: polynomial_decay(3, 1, -1), "c is -1"),
        (lambda: polynomial_decay(3, 1, 1, step_size=math.nan), "step_size"),
        (lambda: square_root_decay(3, 0.1, 0.0), "last is 0"),
        (lambda: square_root_decay(3, 0.1, 0.2), "last 0.2 exceeds first 0.1"),
    ],
)
def test_what_does_not_fall_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
