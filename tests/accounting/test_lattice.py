"""The lattice's convolution, when the transforms err as badly as their theorem allows."""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dplateau.accounting.dotted import Law
from dplateau.accounting.lattice import Convolution, convolved
from dplateau.accounting.privacy_loss import TooSlowError

ULP = 2.0**-52
H, SIZE, TILT, EDGE = 0.3, 2**17, 0.7, 1_000
"""A lattice, and the point of it at which delta is read."""


def wide() -> np.ndarray:
    """A loss from 0 to 1,000 lattice steps that is a bell curve once it is tilted."""
    k = np.arange(EDGE + 1)
    p = np.exp(-(((k - EDGE / 2) / 100) ** 2) / 2 - TILT * H * k)
    return p / p.sum()


def erring(sign: float) -> Callable[..., np.ndarray]:
    """An inverse transform with a 2-norm error of 4 ulp a level, all of it where the sum that gives delta has its weights."""
    plain = np.fft.irfft

    def transform(spectrum: np.ndarray, size: int) -> np.ndarray:
        found = plain(spectrum, size)
        at = np.arange(EDGE + 1, 2 * EDGE)
        weight = np.exp(-TILT * H * (at - EDGE)) * -np.expm1(H * (EDGE - at))
        found[at] += sign * 4 * ULP * math.log2(size) * np.linalg.norm(found) * weight / np.linalg.norm(weight)
        return found

    return transform


@pytest.mark.parametrize("above", [True, False])
def test_an_adversarial_transform_is_within_the_bound(monkeypatch: pytest.MonkeyPatch, above: bool) -> None:
    law, sign = wide(), 1.0 if above else -1.0
    both = np.convolve(law, law)
    at = np.arange(both.size)
    true = math.fsum((both * -np.expm1(np.minimum(H * (EDGE - at), 0.0))).tolist())
    for error in (0.0, -sign):
        monkeypatch.setattr(np.fft, "irfft", erring(error))
        tail = Convolution([(Law(law, 0, 0.0), 2)], H).tail(TILT, EDGE * H, SIZE, 3.0, above=above)
        found = float(tail.at[np.argmin(np.abs(tail.e - EDGE * H))])
        assert 0 <= sign * (found / true - 1) < 1e-8
        assert sign * (tail.delta(EDGE * H) - true) >= 0
        # Far below, where the masses are large, so is the error: the end that is found must be the one at the edge.
        assert sign * (tail.epsilon(true) - EDGE * H) >= 0
        assert tail.epsilon(true) == pytest.approx(EDGE * H, rel=1e-8)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_the_error_of_a_convolution_is_bounded(count: int) -> None:
    rng = np.random.default_rng(count)
    places = rng.choice(SIZE // 64, 3, replace=False)
    law = np.zeros(SIZE)
    law[places] = rng.dirichlet(np.ones(3))
    exact = {0: Fraction(1)}
    for _ in range(count):
        grown: dict[int, Fraction] = {}
        for k, mass in exact.items():
            for place in places.tolist():
                grown[k + place] = grown.get(k + place, Fraction(0)) + mass * Fraction(float(law[place]))
        exact = grown
    found, bound = convolved([(law, count)])
    off = found.copy()
    for k, mass in exact.items():
        off[k] = float(Fraction(float(found[k])) - mass)
    assert 0 < np.linalg.norm(off) <= bound < 1e-11


def test_a_convolution_of_too_many_steps_is_refused() -> None:
    law = np.zeros(2**10)
    law[:2] = 0.5
    with pytest.raises(TooSlowError):
        convolved([(law, 10**11)])
