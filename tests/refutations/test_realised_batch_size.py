"""Bu, Dong, Long, Su 2020, Algorithms 1 and 2 divide the noisy sum by the realised batch size.

Printed: Theorem 3 accounts for one step as ``p G_(1/sigma) + (1 - p) Id``, that is for the noisy sum alone. True: released is
``(sum + sigma R N)/|I|``; its scale shows |I|, and so whether one more record is there, even where all gradients are 0 and whatever
sigma is. Exact on the line: a mixture over the binomial batch size. The record-free division by a public size is as accounted.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

import dplateau as dp


def release(n: int, p: float, sigma: float, x: np.ndarray, *, extra: bool, gradient: float, public: float | None) -> np.ndarray:
    """Density of the release with n records of gradient 0, and one more with ``gradient`` if ``extra``; an empty batch is left out
    where it would be divided by its size."""
    density = np.zeros_like(x)
    for drawn in (0, 1) if extra else (0,):
        chance = (p if drawn else 1 - p) if extra else 1.0
        sizes = np.arange(n + 1)
        for size, weight in zip(sizes + drawn, chance * binom.pmf(sizes, n, p), strict=True):
            divisor = public or float(size)
            if divisor:
                density += weight * norm.pdf(x, drawn * gradient / divisor, sigma / divisor)
    return density


def delta_of(n: int, p: float, sigma: float, epsilon: float, *, gradient: float, public: float | None) -> float:
    """A lower bound on delta: the event that the batch is empty is left out."""
    reach = 10 * sigma / (public or 1.0) + 2
    x = np.linspace(-reach, reach, 100_001)
    width = x[1] - x[0]
    one = release(n, p, sigma, x, extra=True, gradient=gradient, public=public)
    other = release(n, p, sigma, x, extra=False, gradient=gradient, public=public)
    factor = math.exp(epsilon)
    return float(max(np.maximum(one - factor * other, 0).sum(), np.maximum(other - factor * one, 0).sum()) * width)


@pytest.mark.parametrize(("n", "p"), [(20, 0.5), (10, 0.3), (50, 0.1)])
@pytest.mark.parametrize("sigma", [20.0, 100.0])
@pytest.mark.parametrize("gradient", [0.0, 1.0])
def test_the_scale_shows_the_batch_size(n: int, p: float, sigma: float, gradient: float) -> None:
    run = dp.Run(n=n + 1, sampling=dp.Poisson(p * (n + 1)), steps=1, noise_multiplier=sigma)
    accounted = dp.account(run, 1e-5)
    assert delta_of(n, p, sigma, accounted.epsilon, gradient=gradient, public=None) > 5e-5
    public = delta_of(n, p, sigma, accounted.epsilon, gradient=gradient, public=p * (n + 1))
    assert public <= 1.01e-5


def test_more_noise_does_not_help() -> None:
    """The accounted epsilon vanishes, the true delta at epsilon = 0 does not."""
    found = [delta_of(20, 0.5, sigma, 0.0, gradient=0.0, public=None) for sigma in (10.0, 1000.0)]
    assert found[0] == pytest.approx(found[1], rel=1e-2)
    assert found[0] > 5e-3
