"""What a step does to the distance of two runs, and how far apart one record may have driven them.

Proofs: ``docs/proofs/sampled-last-iterate.md``, sections 1, 5, 6; ``docs/proofs/reflection-coupling.md``, sections 4, 5, 8.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, lru_cache
from math import ceil, exp, expm1, floor, lgamma, log, log1p
from typing import Final, NamedTuple

from flint import arb

from dplateau.spec import ROUND_OFF, Run, Sampling
from dplateau.spec.schedule import largest
from dplateau.verifier.balls import exact
from dplateau.verifier.steps import Step, sensitivity

SMALL: Final = 1e-3
"""Share of delta that may go to batches of unusual size."""
ROUNDING: Final = 2 * Fraction(ROUND_OFF)
"""What the training loop's arithmetic may add to a distance in a step, over its noise."""
CURVED: Final = Fraction(1 + 1e-12)
"""Training takes rows so many times as curved as M, but none that makes a step of up to 2/M expand (fixed-order.md, section 1)."""
_SHARED: Final = 10_000
"""At most so many steps share the budget where losses need not be convex."""
_GONE: Final = 40.0
"""Minus the logarithm of a weight that is negligible."""


class Move(NamedTuple):
    """A step, or several equal ``times``: it brings two points to at most ``contraction`` times their distance, but for ``chance``;
    a record, used with probability ``used``, adds at most ``gap``; its noise has ``deviation``, on the iterate.
    """

    contraction: arb
    gap: arb
    deviation: arb
    used: arb
    chance: arb
    times: int


def check(run: Run, steps: int, *samplings: type[Sampling], convex: bool = True) -> None:
    """Raise ``ValueError`` unless a theorem on the last iterate, for ``samplings``, covers a look-back over ``steps`` steps."""
    size, smoothness, unknown = run.step_size, run.smoothness, run.strong_convexity is None
    reasons = {
        f"batches are {run.sampling.kind}": not isinstance(run.sampling, samplings),
        "all iterates are released": run.released != "last",
        "a step is not a plain gradient step": run.update != "sgd",
        "smoothness or step_size is not stated": smoothness is None or size is None,
        "losses are not known to be convex": unknown and (convex or run.diameter is None),
        "the start is not forgotten": run.diameter is None and not run.strong_convexity,
        "step_size exceeds 2/smoothness": not unknown and Fraction(largest(size or 0.0)) * Fraction(smoothness or 0.0) > 2,
        f"{steps} are not some of its {run.steps} steps": not 0 < steps < run.steps,
        "the look-back does not begin with an epoch": (run.steps - steps) % run.sampling.epoch_length(run.n) != 0,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ValueError(f"the look-back does not cover the run: {reason}.")


@lru_cache(maxsize=1 << 17)
def more_than(k: int, n: int, q: Fraction) -> arb:
    """``P[Bin(n, q) > k]``."""
    return exact(q).beta_lower(k + 1, n - k, regularized=True) if 0 <= k < n else exact(int(k < 0))


@lru_cache(maxsize=1 << 17)
def most(n: int, q: Fraction, tail: float) -> int:
    """About the least k with ``P[Bin(n, q) > k] <= tail``."""
    if q == 1 or not tail > 0:
        return n

    def rare(k: int) -> bool:
        """Whether the geometric series that is above the tail is small enough."""
        first = lgamma(n + 1) - lgamma(k + 2) - lgamma(n - k) + (k + 1) * log(q) + (n - k - 1) * log1p(-q)
        return first - log1p(-(n - k - 1) / (k + 2) * float(q / (1 - q))) <= log(tail)

    def surely(k: int) -> bool:
        return more_than(k, n, q) <= exact(tail)

    low, step = min(floor((n + 1) * q), n), 1
    k = low + bisect_left(range(low, n), True, key=rare)
    # Doubles say little of the tails of 10^12 records or more, so the rest is done in strides.
    while k - step >= low and surely(k - step):
        step *= 2
    first, last = (max(k - step + 1, low), k - step // 2) if surely(k) else (k + 1, n)
    return first + bisect_left(range(first, last), True, key=surely)


def moves(run: Run, rows: Sequence[Step], budget: float, *, both: bool = False) -> list[Move]:
    """What the steps ``rows`` of a run do, all of them or the last ones; with ``both``, on either data set: the other one
    may have a record less, or more where their number is not public.

    Where batch sizes are random the contraction is that between two quantiles, which cost about ``budget`` at most; where these are
    too far apart, or losses not strongly convex, that of all sizes which do not expand.
    """
    n, steps, random, unknown = run.n, sum(row.count for row in rows), run.sampling.random_size, run.strong_convexity is None
    M, m, once = (Fraction(part or 0) for part in (run.smoothness, run.strong_convexity, run.l2))
    curved = M * CURVED
    empty, fixed = int(both and run.adjacency == "add-remove"), run.sampling.ordered or run.sampling.full
    top = n + empty
    tail = budget / (min(steps, _SHARED) if unknown else 2 * steps)

    @cache
    def move(row: Step, listed: float, *, quantiles: bool) -> Move:
        q, chance = row.batch / n, exact(0)
        low, high = Fraction(listed) - empty, row.batch + (empty if run.sampling.full else 0)
        if random and quantiles:
            large, small = most(top, q, tail), n - 1 if unknown else 0 if q == 1 else most(n - 1, 1 - q, tail)
            low, high, chance = Fraction(n - 1 - small), Fraction(large), more_than(large, top, q) + more_than(small, n - 1, 1 - q)
        elif random:
            low, high = Fraction(0), 2 * row.batch / (row.size * curved)
            chance = more_than(floor(high), top, q)
        # No larger share of m and no smaller one of M is counted on than 1.
        flat, share = once + (m - once) * min(low / row.batch, 1), max(high / row.batch, Fraction(1))
        steep = row.size * (once + (curved - once) * share)
        c = 1 + steep if unknown else max(abs(1 - row.size * flat), min(steep - 1, 1) if share == 1 else steep - 1)
        gap = row.size * Fraction(run.clip_norm) / row.batch
        c, s, deviation, used = map(exact, (c, gap * sensitivity(run), gap * row.noise, Fraction(1) if fixed else q))
        return Move(c, s, deviation, used, chance, row.count)

    if len(rows) == 1 < steps:
        listed = [float(run.sampling.batch_sizes(n, 0, run.sampling.epoch_length(n)).min())]
    else:
        listed = run.sampling.batch_sizes(n, run.steps - steps, run.steps).tolist()
    found = list[Move]()
    for quantiles in (True, False) if unknown or (m and budget > 0) else (False,):
        found = [move(*pair, quantiles=quantiles) for pair in zip(rows, listed, strict=True)]
        if unknown or not any(one.contraction > 1 for one in found):
            break
    return found


def parted(rows: list[Move], steps: int) -> tuple[list[Move], list[Move]]:
    """The first steps, and the last ``steps``."""
    if len(rows) > 1:
        return rows[:-steps], rows[-steps:]
    return [rows[0]._replace(times=rows[0].times - steps)], [rows[0]._replace(times=steps)]


def unusual(rows: Sequence[Move]) -> arb:
    """The probability that any step contracts less."""
    return sum((row.chance * row.times for row in rows), exact(0))


def geometric(base: arb, count: int) -> arb:
    """``1 + base + ... + base^(count - 1)``."""
    return exact(count) if count == 1 or base == 1 else (1 - base**count) / (1 - base)


def pieces(rows: list[Move], groups: int) -> list[Move]:
    """Steps that are alike in groups of equal length, and before them those whose weight is negligible."""
    if len(rows) > 1 or (row := rows[0]).contraction == 1:
        return rows
    near = min(row.times, ceil(min(_GONE / max(-log(max(float(row.contraction), 1e-17)), 1e-17), 1e17)))
    size = -(-near // groups)
    return [row._replace(times=times) for times in (row.times - near, near % size, *[size] * (near // size)) if times]


def travelled(rows: Sequence[Move], epoch: int = 1, *, mean: bool = False) -> arb:
    """The distance that the record brings about, at most, or at most in the mean.

    One of the ``epoch`` steps of an epoch is a use, which counts at its end: the largest of all places.
    """
    gaps = [row.gap * row.used if mean else row.gap for row in rows]
    if len(rows) == 1:
        c, count = rows[0].contraction, rows[0].times
        uses = geometric(c, -(-count // epoch) * epoch) / geometric(c, epoch)
        uses *= c.max(exact(1)) ** max(min(epoch, count) - 1, 0)
        return gaps[0] * uses + rows[0].deviation * exact(ROUNDING) * geometric(c, count)
    far, use, rounding = exact(0), exact(0), exact(ROUNDING)
    for t, (c, _, deviation, _, _, count) in enumerate(rows):
        far = far * c**count + deviation * rounding * geometric(c, count)
        use = (use * c.max(exact(1)) ** count).max(gaps[t] * geometric(c, count)) if t % epoch else gaps[t] * geometric(c, count)
        if (t + 1) % epoch == 0 or t + 1 == len(rows):
            far += use
    return far


def likely(rows: list[Move], tail: float) -> arb:
    """The same distance, which is exceeded with a probability of at most ``tail`` where the record is drawn: Chernoff's bound.

    The logarithm of the mean of exp(theta distance) is convex in a weight: over a group it is below the mean of the group's ends.
    """
    ends, rest, later, rows = list[tuple[arb, float, arb]](), exact(0), exact(1), pieces(rows, 1000)
    for t in reversed(range(len(rows))):
        c, gap, deviation, used, _, count = rows[t]
        if later < exact(exp(-_GONE)):
            rest += later * travelled(rows[: t + 1])
            break
        ends += [(later * c**place * gap, count / 2 if count > 1 else 1.0, used) for place in {0, count - 1}]
        rest, later = rest + later * deviation * exact(ROUNDING) * geometric(c, count), later * c**count
    rough = [(float(weight), count, float(used)) for weight, count, used in ends]
    unit = max(weight for weight, _, _ in rough)

    def beyond(place: int) -> bool:
        """Whether theta is beyond the best one."""
        theta, slope = exp(place / 65536) / unit, log(tail)
        for weight, count, used in rough:
            grown = used * expm1(theta * weight)
            slope += count * ((used + grown) * theta * weight / (1 + grown) - log1p(grown))
        return slope > 0

    grid = range(-450_000, 425_000)
    theta = exact(exp(grid[bisect_left(grid, True, hi=len(grid) - 1, key=beyond)] / 65536) / unit)
    grown = sum((count * (used * (theta * weight).expm1()).log1p() for weight, count, used in ends), exact(0))
    return (grown - exact(tail).log()) / theta + rest
