"""What other libraries' accountants record: noisy sums over all records or over a sample, and how often each was released."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from dplateau.accounting import Guarantee
from dplateau.accounting.tensor import tensor
from dplateau.analyses import ExactCompositionBound
from dplateau.spec import FixedSize, FullBatch, InputError, Poisson, Run, Sampling
from dplateau.spec.arguments import real

SCALE: Final = 2**40
"""Records of a run that stands for a sampling rate: a rate times a power of two is exact."""
FEW: Final = 24
"""Up to so many different noisy sums are composed one by one; more go through one schedule, which is quicker."""
LONGEST: Final = 1_000_000
"""A schedule of more steps than this becomes one run for each of its constant parts."""


@dataclass(frozen=True)
class NoisySum:
    """The sum of vectors of norm at most 1, one for each record of a sample, plus Gaussian noise.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise in each coordinate; 0 for none.
    rate : float, optional
        Each record is in the sample independently with this probability, in (0, 1].
    drawn : (int, int), optional
        Size of a uniformly random subset, and of the data set that it is drawn from. Without this and ``rate``: all records.
    """

    noise: float
    rate: float | None = None
    drawn: tuple[int, int] | None = None

    @property
    def kind(self) -> tuple[type[Sampling], int | None]:
        """How the sample is drawn; sums of one kind can be steps of one run."""
        if self.drawn is not None:
            return FixedSize, self.drawn[1]
        return (FullBatch, None) if self.rate is None else (Poisson, None)


Block = tuple[NoisySum, int]
"""A noisy sum, and how often it is released in a row."""


def merged(blocks: Iterable[Block]) -> list[Block]:
    """The same releases in the same order, equal neighbours counted together."""
    return [(one, sum(count for _, count in same)) for one, same in groupby(blocks, key=lambda block: block[0])]


def batch_size(rate: float, n: int) -> float:
    """The expected batch size whose quotient by ``n`` is ``rate``, or the next larger number where there is none."""
    near = rate * n
    for size in (float(round(near)), near, math.nextafter(near, 0), math.nextafter(near, math.inf)):
        if size / n == rate:
            return size
    return next(size for size in (near, math.nextafter(near, math.inf)) if size / n >= rate)


def written(values: list[float], counts: list[int]) -> float | tuple[float, ...]:
    """A constant, or a schedule with each value as often as its count says."""
    return values[0] if len(set(values)) == 1 else tuple(np.repeat(values, counts).tolist())


def _run(blocks: list[Block], n: int, adjacency: str) -> Run:
    """One run of blocks of one kind."""
    scheme, source = blocks[0][0].kind
    if source is not None and source != n:
        raise InputError(f"a sample is drawn from {source} records, but n is {n}: a run is on one data set.")
    counts = [count for _, count in blocks]
    sampling: Sampling = FullBatch()
    if scheme is Poisson:
        sampling = Poisson(written([batch_size(one.rate or 1.0, n) for one, _ in blocks], counts))
    elif scheme is FixedSize:
        sampling = FixedSize(written([float(one.drawn[0]) for one, _ in blocks if one.drawn], counts))
    noise = written([one.noise for one, _ in blocks], counts)
    return Run(n=n, sampling=sampling, steps=sum(counts), noise_multiplier=noise, adjacency=adjacency)


def to_runs(blocks: Iterable[Block], n: int, adjacency: str) -> list[Run]:
    """Runs that release these noisy sums in this order, neighbours of one kind in one run.

    Raises
    ------
    InputError
        A sum has no noise, or a sample is drawn from another number of records than ``n``.
    """
    blocks = merged(blocks)
    if any(one.noise == 0 for one, _ in blocks):
        raise InputError("a sum is released without noise: no run has that, because its privacy loss is infinite.")
    runs: list[Run] = []
    for _, same in groupby(blocks, key=lambda block: block[0].kind):
        group = list(same)
        long = len(group) > 1 and sum(count for _, count in group) > LONGEST
        runs += [_run(part, n, adjacency) for part in ([[block] for block in group] if long else [group])]
    return runs


def _guarantee(counts: Mapping[NoisySum, int], adjacency: str) -> Guarantee:
    """The exact composition of all releases; their order does not matter."""
    kinds: dict[tuple[type[Sampling], int | None], list[Block]] = {}
    for block in counts.items():
        kinds.setdefault(block[0].kind, []).append(block)
    runs: list[Run] = []
    for (_, source), group in kinds.items():
        parts = [group] if len(group) > FEW else [[block] for block in group]
        runs += [run for part in parts for run in to_runs(part, source or SCALE, adjacency)]
    return tensor([ExactCompositionBound().guarantee(run) for run in runs])


def spent_epsilon(counts: Mapping[NoisySum, int], adjacency: str, delta: float) -> float:
    """The certified epsilon of all releases at ``delta``: the upper end of its enclosure.

    0 for no release, infinity for one without noise and for ``delta`` 0.

    Raises
    ------
    InputError
        ``delta`` is not in [0, 1].
    """
    delta = real("delta", delta, inclusive=True, high=1.0)
    if not counts:
        return 0.0
    if delta == 0 or any(one.noise == 0 for one in counts):
        return math.inf
    if delta == 1:
        return 0.0
    with np.errstate(all="ignore"):
        try:
            return _guarantee(counts, adjacency).epsilon(delta).upper
        except (ArithmeticError, ValueError):  # Hardly any noise: what overflows is not known to be finite.
            return math.inf


def spent_delta(counts: Mapping[NoisySum, int], adjacency: str, epsilon: float) -> float:
    """The certified delta of all releases at ``epsilon``: the upper end of its enclosure; 0 for none, 1 for one without noise.

    Raises
    ------
    InputError
        ``epsilon`` is negative or not finite.
    """
    epsilon = real("epsilon", epsilon, inclusive=True)
    if not counts:
        return 0.0
    if any(one.noise == 0 for one in counts):
        return 1.0
    with np.errstate(all="ignore"):
        try:
            return _guarantee(counts, adjacency).delta(epsilon).upper
        except (ArithmeticError, ValueError):
            return 1.0
