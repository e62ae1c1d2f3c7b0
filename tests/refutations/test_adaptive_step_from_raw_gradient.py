"""Wu et al. 2021, section 5.2: the step size is computed from the raw gradient, and it scales what is released.

Printed: ``b_1^2 = b_0^2 + max(|g|^2, nu)`` with the raw gradient g, release ``eta/b_1 (g + alpha c)``, c ~ N(0, sigma^2), and
Theorem 4.1 claims (epsilon, delta) for the sigma of its equation (6), for any alpha known in advance (Proposition 5.2 uses it so).
True: the standard deviation of the release, eta alpha sigma/b_1, shows |g|, whatever sigma is. Exact on the line, one step: one of
n records is drawn; all gradients are 0 but that of the record, which is G.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

G, NU, B0 = 1.0, 1e-12, 1e-6


def printed_sigma(n: int, epsilon: float, delta: float, alpha: float) -> float:
    """Equation (6) for one step."""
    log_terms = math.log(16 / (n * delta)) * math.log(1.25 / delta)
    return 16 * G * math.sqrt(log_terms) / (n * epsilon * alpha)


def deltas(
    p: Callable[[np.ndarray], np.ndarray], q: Callable[[np.ndarray], np.ndarray], scales: list[float], epsilon: float
) -> float:
    """The larger hockey-stick integral of two densities, on a grid that resolves every scale."""
    steps = [np.geomspace(min(scales) * 1e-4, max(scales) * 20, 60_000)]
    x = np.concatenate([-steps[0][::-1], steps[0]])
    width = np.gradient(x)
    one, other = p(x), q(x)
    return max(
        float((np.maximum(one - math.exp(epsilon) * other, 0.0) * width).sum()),
        float((np.maximum(other - math.exp(epsilon) * one, 0.0) * width).sum()),
    )


def scale(gradient: float) -> float:
    """eta/b_1 with eta = 1."""
    return 1 / math.sqrt(B0**2 + max(gradient**2, NU))


@pytest.mark.parametrize(("n", "epsilon"), [(2, 0.5), (3, 0.3), (4, 0.25)])
def test_the_step_size_shows_the_gradient(n: int, epsilon: float) -> None:
    delta = 1e-5
    # What Theorem C.1 requires of T = 1, as printed and as its proof uses it, with the smallest delta_0 of its (21).
    log_terms, small = math.log(16 / (n * delta)) * math.log(1.25 / delta), math.log(1.25 * 12.5 / (n * delta))
    assert max(log_terms / small, small / log_terms) * n**2 * epsilon**2 / 32 <= 1
    alpha = (B0**2 + G**2) ** 0.25
    noise = alpha * printed_sigma(n, epsilon, delta, alpha)
    still, drawn = scale(0.0) * noise, scale(G) * noise

    def without(x: np.ndarray) -> np.ndarray:
        return norm.pdf(x, 0, still)

    def with_record(x: np.ndarray) -> np.ndarray:
        return (1 - 1 / n) * without(x) + norm.pdf(x, scale(G) * G, drawn) / n

    assert deltas(with_record, without, [still, drawn], epsilon) > 0.5 / n > 40 * delta

    # More noise does not help: the ratio of the two scales stays what it is.
    wide = deltas(
        lambda x: (1 - 1 / n) * norm.pdf(x, 0, 100 * still) + norm.pdf(x, scale(G) * G, 100 * drawn) / n,
        lambda x: norm.pdf(x, 0, 100 * still),
        [100 * still, 100 * drawn],
        epsilon,
    )
    assert wide > 0.5 / n

    # With a step size that does not depend on the raw gradient the claim holds, with room to spare.
    fixed = deltas(
        lambda x: (1 - 1 / n) * norm.pdf(x, 0, noise) + norm.pdf(x, G, noise) / n, lambda x: norm.pdf(x, 0, noise), [noise], epsilon
    )
    assert fixed < delta
