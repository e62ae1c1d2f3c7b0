"""What the enclosures take for granted of NumPy and SciPy: errors of elementary functions, powers and transforms."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import erfcx, log_ndtr

from dplateau.accounting.gaussian import ULP
from dplateau.accounting.lattice import _power

FEW = 4.0
"""So many units in the last place are a few roundings."""


def spread(low: float, high: float, rng: np.random.Generator) -> np.ndarray:
    """Numbers of either sign, of all sizes, within the limits."""
    sizes = 10.0 ** rng.uniform(-300, np.log10(max(-low, high)), 150)
    some = np.concatenate([sizes, -sizes, rng.uniform(low, high, 200), rng.uniform(-2, 2, 101)])
    return some[(some > low) & (some < high)]


REAL: dict[str, tuple[Any, Callable[[Any], Any], float, float]] = {
    "exp": (np.exp, mp.exp, -700, 700),
    "expm1": (np.expm1, mp.expm1, -700, 700),
    "log": (np.log, mp.log, 0, 1e300),
    "log1p": (np.log1p, mp.log1p, -1, 1e300),
    "sin": (np.sin, mp.sin, -1e8, 1e8),
    "cos": (np.cos, mp.cos, -1e8, 1e8),
    "sinh": (np.sinh, mp.sinh, -700, 700),
    "arcsinh": (np.arcsinh, mp.asinh, -1e300, 1e300),
    "sqrt": (np.sqrt, mp.sqrt, 0, 1e300),
    "log_ndtr": (log_ndtr, lambda x: mp.log(mp.ncdf(x)), -1e4, 3),
    "erfcx": (erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), -3, 12),
}


@pytest.mark.parametrize("name", REAL)
def test_functions_err_by_few_units_in_the_last_place(name: str) -> None:
    """Wherever a number stands in an array: processors compute several at a time, and the last ones otherwise."""
    function, exact, low, high = REAL[name]
    x = spread(low, high, np.random.default_rng(3))
    with mp.workdps({"erfcx": 100}.get(name, 340)):
        truth = [exact(mp.mpf(one)) for one in x.tolist()]
        wide = np.empty((x.size, 3))
        wide[:, 1] = x
        for found in (function(x), function(wide[:, 1]), np.array([float(function(one)) for one in x])):
            errors = [abs(mp.mpf(one) - t) - FEW * ULP * abs(t) for one, t in zip(found.tolist(), truth, strict=True)]
            assert max(errors) <= 5e-324


@pytest.mark.parametrize("count", [2, 7, 99, 100, 101, 1000, 10**6, 10**9, 10**12, 10**15])
def test_powers_err_by_eight_units_a_factor(count: int) -> None:
    rng = np.random.default_rng(4)
    size, angle = rng.uniform(0, 600, 100) / count, rng.uniform(-np.pi, np.pi, 100)
    z = np.exp(-size * rng.choice([1.0, 1e-6, 1e-12], 100)) * np.exp(1j * angle * rng.choice([1.0, 1e-6, 1e-12], 100))
    with mp.workdps(60):
        for one, found in zip(z.tolist(), _power(z, count).tolist(), strict=True):
            truth = mp.mpc(one) ** count
            assert abs(mp.mpc(found) - truth) <= 8 * count * ULP * abs(truth)


@pytest.mark.parametrize("levels", [13, 17, 19])
def test_factors_of_transforms_are_accurate(levels: int) -> None:
    """The transform of one mass is a product of such factors, one a level at most."""
    size, rng = 2**levels, np.random.default_rng(5)
    for place in (1, size // 3, size // 2 - 1):
        x = np.zeros(size)
        x[place] = 1.0
        found = np.fft.rfft(x)
        back = np.zeros(size // 2 + 1, complex)
        back[min(place, size - place)] = size / 2
        wave = np.fft.irfft(back, size)
        for k in [0, 1, size // 2, *rng.integers(size // 2, size=30).tolist()]:
            truth = mp.expjpi(-mp.mpf(2 * (place * k % size)) / size)
            assert abs(found[k] - truth) <= levels * ULP
            # Its real part is that of the wave that this mass is in the other direction.
            assert abs(wave[k] - truth.real) <= levels * ULP
