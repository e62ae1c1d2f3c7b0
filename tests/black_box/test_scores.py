# pyright: basic
"""What releases are looked at for: each score finds its own kind of leak."""

from __future__ import annotations

import numpy as np
import pytest

from dplateau.black_box.scores import Releases, along, scored


def halves(make, seed: int = 0, count: int = 400):
    """Three samples of releases, ``make(random, present)`` each."""
    random = np.random.default_rng(seed)
    return [Releases(*(make(random, count, present) for present in (True, False))) for _ in range(3)]


def power(make, name: str) -> float:
    """How much more often the named score is large with the record than without, learnt and looked at on different samples."""
    learn, _, last = halves(make)
    (scores,) = scored(learn, [last], {})
    found = next(one for one in scores if one.name == name)
    middle = (np.median(found.present) + np.median(found.absent)) / 2
    return float(np.mean(found.present > middle) - np.mean(found.absent > middle))


def lattice(random, count, present):
    """The same law, but with the record the numbers are multiples of 2^-20."""
    values = random.normal(size=(count, 2))
    values[:, 1] = np.rint(values[:, 1] * 2**20) / 2**20 if present else values[:, 1]
    return values


def odd(random, count, present):
    """Integers that are 3 modulo 4 with the record, and 1 modulo 4 without."""
    values = random.normal(size=(count, 1))
    values[:, 0] = 4 * random.integers(0, 2**40, count) + (3 if present else 1)
    return values


def few(random, count, present):
    """One of five outputs, others with the record than without it, and they lie in between."""
    return (2 * random.integers(0, 5, (count, 1)) + present).astype(np.float64)


def moved(random, count, present):
    return random.normal(size=(count, 3)) + np.array([0.0, 5.0, -5.0]) * present


def lost(random, count, present):
    values = random.normal(size=(count, 2))
    values[: count // 2 if present else 0] = np.nan
    return values


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("make", "name", "least"),
    [
        (lattice, "zeros at the end of number 2", 0.95),
        (odd, "low bits of number 1", 0.95),
        (few, "output", 0.95),
        (moved, "learnt direction", 0.95),
        (lost, "nothing released", 0.4),
    ],
)
def test_each_finds_its_kind(make, name, least, dtype):
    if make is lattice and dtype == "float32":
        pytest.skip("a float32 number has hardly more bits than that lattice")
    if make is odd and dtype == "float32":

        def small(random, count, present):
            return (make(random, count, present) % 2**20).astype(np.float32)

        assert power(small, name) > least
        return
    assert power(lambda *arguments: make(*arguments).astype(dtype), name) > least


def test_none_finds_anything_in_equal_laws():
    learn, _, last = halves(lambda random, count, _: random.normal(size=(count, 2)))
    (scores,) = scored(learn, [last], {"along": along(np.array([0.6, 0.8]))})
    assert {one.name for one in scores} >= {"along", "output", "length"}
    for one in scores:
        middle = np.median(np.concatenate(one[1:]))
        assert abs(np.mean(one.present > middle) - np.mean(one.absent > middle)) < 0.2


def test_huge_and_infinite_releases_have_scores():
    def wild(random, count, present):
        values = random.normal(size=(count, 2)) * 1e300
        values[::3] = np.inf
        return values if present else values / 1e300

    learn, _, last = halves(wild)
    (scores,) = scored(learn, [last], {"along": along(np.array([1.0, 0.0]))})
    assert all(np.isfinite(side).all() for one in scores for side in one[1:])
