"""What proofs assume of functions of NumPy and SciPy: they are right to a few units in the last place, on whole arrays and alone.

Which code computes them depends on the processor, on the version, and on how the numbers lie in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import erfcx, gammaln, log_ndtr, loggamma, ndtr, roots_legendre

from dplateau.accounting.gaussian import ULP
from dplateau.accounting.lattice import _power

UNIT = ULP
SPREAD = np.random.default_rng(0)


def both(low: float, high: float, count: int = 60) -> np.ndarray:
    """Numbers of all sizes between these, of both signs."""
    size = np.exp(SPREAD.uniform(math.log(low), math.log(high), count))
    return np.concatenate([size, -size])


NUMBERS = both(1e-12, 700.0)
POSITIVE = np.abs(np.concatenate([both(1e-300, 1e300), 1 + both(1e-9, 0.5)]))
TURNS = np.concatenate([both(1e-12, 1e5), np.pi / 2 * np.arange(1.0, 30.0)])
ELEMENTARY: list[Any] = [
    (np.exp, mpmath.exp, NUMBERS),
    (np.expm1, mpmath.expm1, NUMBERS),
    (np.log, mpmath.log, POSITIVE),
    (np.log1p, mpmath.log1p, np.concatenate([both(1e-12, 0.999), POSITIVE])),
    (np.sinh, mpmath.sinh, NUMBERS),
    (np.cosh, mpmath.cosh, NUMBERS),
    (np.tanh, mpmath.tanh, NUMBERS),
    (np.arcsinh, mpmath.asinh, both(1e-12, 1e100)),
    (np.sin, mpmath.sin, TURNS),
    (np.cos, mpmath.cos, TURNS),
    (np.sqrt, mpmath.sqrt, POSITIVE),
]


def off(found: Any, truth: Any, size: float) -> float:
    """How far these are apart, in units of the last place of ``size``."""
    return float(abs(mpmath.mpmathify(found) - truth)) / (UNIT * size)


@pytest.mark.parametrize(("ours", "theirs", "numbers"), ELEMENTARY, ids=[one.__name__ for one, _, _ in ELEMENTARY])
def test_elementary_functions_are_right_to_two_units(
    ours: Callable[..., Any], theirs: Callable[..., Any], numbers: np.ndarray
) -> None:
    with mpmath.mp.workdps(40):
        truth = [theirs(mpmath.mpf(x)) for x in numbers.tolist()]
        apart = np.repeat(numbers, 3)[::3]
        for found in (ours(numbers), ours(apart), [ours(x) for x in numbers]):
            assert max(off(float(x), t, abs(float(t))) for x, t in zip(found, truth, strict=True)) <= 2


def test_functions_of_two_numbers_are_right_to_two_units() -> None:
    """Of a logarithm of a sum, units of the larger exponent."""
    numbers = both(1e-6, 700.0)
    other = numbers[::-1].copy()
    with mpmath.mp.workdps(40):
        pairs = [(mpmath.mpf(x), mpmath.mpf(y)) for x, y in zip(numbers.tolist(), other.tolist(), strict=True)]
        for ours, theirs in ((np.hypot, mpmath.hypot), (np.arctan2, mpmath.atan2)):
            truth = [theirs(*pair) for pair in pairs]
            assert max(off(float(x), t, abs(float(t))) for x, t in zip(ours(numbers, other), truth, strict=True)) <= 2
        found = np.logaddexp(numbers, other).tolist()
        truth = [mpmath.log(mpmath.exp(x) + mpmath.exp(y)) for x, y in pairs]
        assert max(off(f, t, max(abs(x), abs(y), 1)) for f, t, (x, y) in zip(found, truth, pairs, strict=True)) <= 2


def test_complex_powers_and_logarithms_are_right_to_a_few_units() -> None:
    """As moments of an epoch take them: turns of the unit circle, sums of them, and the gamma function on a line."""
    with mpmath.mp.workdps(40):
        z = both(1e-6, 500.0) + 1j * both(1e-6, 1e5)
        truth = [mpmath.exp(mpmath.mpc(x)) for x in z.tolist()]
        assert max(off(f, t, float(abs(t))) for f, t in zip(np.exp(z).tolist(), truth, strict=True)) <= 2
        truth = [mpmath.log(mpmath.mpc(x)) for x in z.tolist()]
        assert max(off(f, t, 1 + float(abs(t))) for f, t in zip(np.log(z).tolist(), truth, strict=True)) <= 2
        z = SPREAD.uniform(8.0, 560.0, 120) - 1j * np.append(np.zeros(20), np.abs(both(1e-6, 1e3, 50)))
        truth = [mpmath.loggamma(mpmath.mpc(x)) for x in z.tolist()]
        assert max(off(f, t, 4 + float(abs(t))) for f, t in zip(loggamma(z).tolist(), truth, strict=True)) <= 4
        truth = [mpmath.loggamma(mpmath.mpf(x)) for x in range(1, 600)]
        assert max(off(f, t, 4 + float(t)) for f, t in zip(gammaln(np.arange(1.0, 600.0)).tolist(), truth, strict=True)) <= 4


def test_masses_of_the_normal_law_are_right_to_thirteen_digits_as_far_as_lattices_go() -> None:
    """Where there is little mass the exponent is large, and its rounding counts; its logarithm has all its digits."""
    numbers = SPREAD.uniform(-22.0, 9.0, 300)
    with mpmath.mp.workdps(40):
        truth = [mpmath.ncdf(mpmath.mpf(x)) for x in numbers.tolist()]
        assert max(off(f, t, float(t)) for f, t in zip(ndtr(numbers).tolist(), truth, strict=True)) <= 1e-13 / UNIT
        logs = log_ndtr(numbers).tolist()
        assert max(off(f, mpmath.log(t), 1 + abs(f)) for f, t in zip(logs, truth, strict=True)) <= 4


def test_the_scaled_error_function_is_right_to_eight_units() -> None:
    """Below 0 it is nearly twice ``exp(x^2)``, and x^2 is rounded."""
    numbers = np.append(both(1e-12, 3.0), np.linspace(3, 12, 50))
    with mpmath.mp.workdps(100):
        truth = [mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(mpmath.mpf(x)) for x in numbers.tolist()]
        assert max(off(f, t, float(t)) for f, t in zip(erfcx(numbers).tolist(), truth, strict=True)) <= 8


@pytest.mark.parametrize("count", [5, 6, 8, 12])
def test_rules_of_quadrature_integrate_powers_to_fourteen_digits(count: int) -> None:
    points, weights = (part.tolist() for part in roots_legendre(count))
    for power in range(2 * count):
        exact = 0.0 if power % 2 else 2 / (power + 1)
        assert math.fsum(w * x**power for x, w in zip(points, weights, strict=True)) == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize("count", [2, 7, 99, 100, 101, 1000, 10**6, 10**9, 10**12, 10**15])
def test_powers_err_by_eight_units_a_factor(count: int) -> None:
    rng = np.random.default_rng(4)
    size, angle = rng.uniform(0, 600, 100) / count, rng.uniform(-np.pi, np.pi, 100)
    z = np.exp(-size * rng.choice([1.0, 1e-6, 1e-12], 100)) * np.exp(1j * angle * rng.choice([1.0, 1e-6, 1e-12], 100))
    with mpmath.mp.workdps(60):
        for one, found in zip(z.tolist(), _power(z, count).tolist(), strict=True):
            truth = mpmath.mpc(one) ** count
            assert abs(mpmath.mpc(found) - truth) <= 8 * count * ULP * abs(truth)


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
            truth = mpmath.expjpi(-mpmath.mpf(2 * (place * k % size)) / size)
            assert abs(found[k] - truth) <= levels * ULP
            # Its real part is that of the wave that this mass is in the other direction.
            assert abs(wave[k] - truth.real) <= levels * ULP
