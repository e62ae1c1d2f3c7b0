"""Random small runs, reproducible one by one, in which the walls, the batches and the schedules all matter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Final, TypeAlias

import numpy as np

from dplateau.spec import (
    SAMPLINGS,
    Cyclic,
    FixedSize,
    FullBatch,
    OnePass,
    Poisson,
    RandomAllocation,
    Run,
    Sampling,
    Shuffled,
    per_step,
)
from dplateau.spec.arguments import integer
from dplateau.spec.schedule import Schedule

VERSION: Final = 4
"""Of the stream: a seed and an index mean the same run as long as this stays."""

LEVELS: Final = 4
"""Values that a schedule takes: every one more is a kernel more."""

_Random: TypeAlias = np.random.Generator


def setting(seed: int, index: int) -> Run:
    """The run with the given index in the stream of ``seed``."""
    random = np.random.default_rng([integer("seed", seed, low=0), integer("index", index, low=0), 1])
    kind = SAMPLINGS[str(random.choice(sorted(SAMPLINGS)))]
    n = round(_between(random, 2, 40))
    steps = round(_between(random, 1, 300))
    if kind is OnePass:
        steps = min(steps, n)
    scheme = _sampling(random, kind, n, steps)
    noise = _schedule(random, _between(random, 0.4, 8.0), steps, 0.2, grows=True)
    smoothness = _between(random, 0.1, 10.0)
    step_size = _schedule(random, _between(random, 0.05, 2.0) / smoothness, steps, 0.3, grows=False)
    convexity = 0.0 if random.random() < 0.5 else smoothness * _between(random, 0.01, 1.0)
    curved = np.random.default_rng([seed, index, 1, 2]).random() < 0.15  # Losses need not be convex.
    # The walls are so far away that the iterate gets there within one step, or within many, or hardly.
    deviations = np.divide(per_step(step_size, steps) * per_step(noise, steps), per_step(scheme.divisors(n), steps))
    widest = min(float(deviations.max()), 2 * float(deviations.min()))
    return Run(
        n=n,
        sampling=scheme,
        steps=steps,
        noise_multiplier=noise,
        step_size=step_size,
        smoothness=smoothness,
        strong_convexity=None if curved else convexity,
        l2=0.0 if curved else _l2(np.random.default_rng([seed, index, 1, 1]), convexity),
        diameter=widest * _between(random, 0.5, 30.0),
        adjacency=str(random.choice(["add-remove", "replace"])),
        released="last",
    )


def _l2(random: _Random, convexity: float) -> float:
    """The part of the strong convexity that every step adds once: none, all, or some of it."""
    return convexity * float(random.choice([0.0, 0.0, 1.0, random.random()]))


def settings(seed: int, first: int = 0) -> Iterator[Run]:
    """The endless stream of ``seed``, from index ``first`` on."""
    return (setting(seed, index) for index in count(first))


def _between(random: _Random, low: float, high: float) -> float:
    """Uniform in the logarithm, with three digits so that a finding is easy to read; never above ``high``."""
    return min(float(f"{math.exp(random.uniform(math.log(low), math.log(high))):.3g}"), high)


def _schedule(random: _Random, value: float, steps: int, share: float, *, grows: bool) -> Schedule:
    """A constant, or (with probability ``share``) a schedule between the value and up to four times more (or less)."""
    if random.random() >= share:
        return value
    path = np.arange(steps) * LEVELS // steps if random.random() < 0.5 else random.integers(0, LEVELS, steps)
    scale = 1 + 3 * random.random() * path / (LEVELS - 1)
    return tuple((value * scale if grows else value / scale).tolist())


def _sampling(random: _Random, kind: type[Sampling], n: int, steps: int) -> Sampling:
    if kind is FullBatch:
        return FullBatch()
    varied = random.random() < 0.25
    if kind is Poisson:
        rate = _between(random, 0.02, 1.0)
        sizes = np.maximum(n * rate * random.uniform(0.3, 1.0, LEVELS), 1.0)
        return Poisson(tuple(random.choice(sizes, steps).tolist()) if varied else max(n * rate, 1.0))
    if kind is RandomAllocation:
        return RandomAllocation(max(n * _between(random, 0.02, 1.0), 1.0))
    most = n // steps if kind is OnePass else n
    if kind is FixedSize or kind is OnePass:
        size = round(_between(random, 1, most))
        sizes = tuple(random.choice(random.integers(1, size + 1, LEVELS), steps).tolist())
        return (FixedSize if kind is FixedSize else OnePass)(sizes if varied else size)
    size = round(_between(random, 1, n))
    epochs = Cyclic if kind is Cyclic else Shuffled
    if not varied:
        return epochs(size)
    cuts = np.flatnonzero(random.random(n - 1) < 1 / size) + 1
    return epochs(tuple(np.diff(cuts, prepend=0, append=n).tolist()))
