"""Last iterates under fixed or shuffled batches: taut strings (``docs/proofs/fixed-order.md``, ``docs/proofs/shuffled.md``).

A use of the record in step t is a jump ``w_t s_t``, and the noise of step t is room ``w_t^2 v_t`` to absorb it; w_t is the product
of the later contractions. A string may also start after a use, with a jump of w_t times the largest distance for all before.
Every start is a bound, with what the arithmetic of the training loop adds to mu in the steps after it (fixed-order.md, section
6): the least counts, for the worst place in the order.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import accumulate, groupby, pairwise
from operator import mul
from typing import Final, NamedTuple

from flint import arb

from dplateau.spec import ROUND_OFF, Cyclic, FullBatch, OnePass, Run, Sampling, Shuffled
from dplateau.verifier.balls import BITS, exact, largest, precision
from dplateau.verifier.batches import CURVED
from dplateau.verifier.statement import Statement
from dplateau.verifier.steps import Step, sensitivity, steps

FORGOTTEN: Final = 1e-12
"""Steps of which no more is left than this of the last step's jump and noise need not be looked back at."""
ALL: Final = 128
"""Where there are no more starts, all are tried."""
Jumps = list[tuple[arb, arb]]  # Rises, and the room to absorb each before the next one.


@precision(2 * BITS)
def fixed_order(run: Run) -> Statement:
    """mu-GDP. Raises ``ValueError`` where the theorem does not cover the run."""
    parts, length = _parts(run, Cyclic, OnePass, FullBatch), run.sampling.period(run.n, run.steps)
    # Of equal steps the last place is the worst one (section 5).
    lasts = range(run.steps - 1 if parts.equal else max(run.steps - length, 0), run.steps)
    costs = [_cost(run, parts, range(last % length, last, length), last)[0] for last in lasts]
    return _statement([(Fraction(1), largest(*costs))])


@precision(2 * BITS)
def shuffled(run: Run) -> Statement:
    """A mixture over the place in the last epoch; in every earlier one the record comes last, with the epoch's largest jump."""
    parts, length = _parts(run, Shuffled), run.sampling.epoch_length(run.n)
    start = (run.steps - 1) // length * length
    left, ends, mixture = run.steps - start, range(length - 1, start, length), list[tuple[Fraction, arb]]()
    back: int | None = None  # Of equal steps without a diameter, the best start of a place is close to that of the place before.
    # The last 64 places one by one; earlier ones in stretches, which count as their last place with their largest jump.
    for _, group in groupby(range(left), lambda place: (min(left - place, 64), int(math.log(max(left - place, 64)) / 0.015))):
        places = list(group)
        held = run.sampling.batch_sizes(run.n, places[0], places[-1] + 1).sum()
        mu, back = _cost(
            run, parts, ends, start + places[-1], length, len(places), None if run.diameter or not parts.equal else back
        )
        mixture.append((Fraction(int(held), run.n), mu))
    unused = _cost(run, parts, ends[:-1], ends[-1], length, length)[0] if ends else _mu([], run.steps)
    if parts.equal:
        # A place costs no more than a later one (section 5); a late start may have saved the later one rounding.
        later = accumulate((mu for _, mu in mixture[::-1]), lambda one, other: min(one, other, key=arb.upper))
        mixture = [(share, mu) for (share, _), mu in zip(mixture, [*later][::-1], strict=True)]
    unused = min(unused, mixture[0][1], key=arb.upper)
    return _statement([*mixture, (1 - sum((share for share, _ in mixture), Fraction(0)), unused)])


def taut_string(jumps: Jumps) -> arb:
    """The least cost of absorbing the jumps (section 3): the sum of rise^2/room over the pieces of the convex minorant."""
    pieces: Jumps = []
    # Neighbours are pooled where the slope surely does not rise. Where that is open each is absorbed by itself: a bound as well.
    for rise, room in jumps:
        while pieces and pieces[-1][0] * room >= rise * pieces[-1][1]:
            before = pieces.pop()
            rise, room = before[0] + rise, before[1] + room
        pieces.append((rise, room))
    return sum((rise**2 / room if room > 0 else arb(0 if rise == 0 else "inf") for rise, room in pieces), arb(0))


def _cost(
    run: Run, parts: _Parts, uses: range, last: int, span: int = 1, last_span: int = 1, near: int | None = None
) -> tuple[arb, int]:
    """The least mu of a record that is used in the steps ``uses`` and ``last``, each with the largest jump of a span up to it, and
    so many uses before the last one that the string starts there; ``near`` is where to look for it.
    """

    def string(rest: range) -> Jumps:
        ends = [*parts.jumps(rest[-1:], span, last), *parts.jumps(range(last, last + 1), last_span, run.steps)]
        return [*parts.jumps(rest[:-1], span, rest[-1]), *ends] if rest else ends

    def use(back: int) -> int:
        return run.steps if back < 0 else last if back == 0 else uses[-back] if back <= len(uses) else -1

    def mu(back: int) -> arb:
        """Starting after the use so many before the last one, or later, but before the next one."""
        until = use(back - 1)
        start = min(max(use(back), parts.forgotten), until - 1)
        rest = string(uses[len(uses) + 1 - back :]) if back else []
        return _mu([(parts.far(start), parts.room(start + 1, until)), *rest], run.steps - 1 - start, parts.over)

    first = len(uses) - bisect_right(uses, parts.forgotten) + 1  # No string starts earlier than this.
    late = min((last >= parts.bounded) + len(uses) - bisect_left(uses, parts.bounded), first)
    tried = [(mu(first), first)]
    if run.diameter or run.strong_convexity:
        # Two valleys: from where the diameter counts, late starts save more than rounding.
        tried += [_least(mu, backs, near) for backs in (range(late), range(late, first)) if backs]
    return min(tried, key=lambda one: one[0].upper())


def _mu(jumps: Jumps, absorbing: int, over: arb | int = 1) -> arb:
    """The least mu of absorbing the jumps, where the last so many steps absorb, may round off, and expand by ``over``."""
    return taut_string(jumps).sqrt() * over**absorbing + 2 * exact(ROUND_OFF) * arb(absorbing).sqrt()


def _least(cost: Callable[[int], arb], backs: range, near: int | None = None) -> tuple[arb, int]:
    """The least cost of ``backs``, and where: of all where they are few, else of a grid that closes in on it; or of what is around
    ``near``.
    """
    tried = {*backs} if len(backs) <= ALL else {backs[round(len(backs) ** (i / 7)) - 1] for i in range(8)}
    if near is not None:
        tried = {min(max(back, backs[0]), backs[-1]) for back in range(near - 1, near + 2)}
    known, best = dict[int, arb](), backs[0]
    while new := tried - known.keys():
        known |= {back: cost(back) for back in new}
        best = min(known, key=lambda back: known[back].upper())
        low = max((back for back in known if back < best), default=backs[0])
        high = min((back for back in known if back > best), default=backs[-1])
        tried = {low + round((high - low) * i / 7) for i in range(8)}
    return known[best], best


class _Parts(NamedTuple):
    """w_t times the largest distance, the room of steps, the jumps of uses with the largest rise of a span, the last step that is
    forgotten, the first after which the diameter counts, and by how much every step enlarges jumps that count as if it did not.
    """

    far: Callable[[int], arb]
    room: Callable[[int, int], arb]
    jumps: Callable[[range, int, int], Jumps]
    forgotten: int
    bounded: int
    over: arb
    equal: bool


def _parts(run: Run, *covered: type[Sampling]) -> _Parts:
    """What the strings of a run are made of, if the theorem covers it."""
    stated = None not in (run.step_size, run.smoothness, run.strong_convexity)
    if not (stated and isinstance(run.sampling, covered) and run.is_last_iterate):
        names = ", ".join(one.__name__ for one in covered)
        raise ValueError(f"the theorem covers last iterates of plain steps on smooth convex losses, with sampling {names}.")
    rows, far = steps(run), exact(run.diameter or math.inf)
    # One row stands for all steps: then an epoch shows all that differs, a smaller last batch.
    count = run.steps if len(rows) > 1 else min(run.steps, run.sampling.epoch_length(run.n))
    rows, held = rows * (count // len(rows)), run.sampling.batch_sizes(run.n, 0, count).tolist()
    kinds = {pair: _step(run, *pair) for pair in {*zip(rows, held, strict=True)}}
    if len({*kinds.values()}) == 1:
        return _equal(run.steps, far, *kinds.popitem()[1])
    return _varying(far, [kinds[rows[t % count], held[t % count]] for t in range(run.steps)])


def _step(run: Run, step: Step, records: float) -> tuple[Fraction, Fraction, Fraction]:
    """Contraction factor c (section 1), gap s of a use, and variance v of the noise, exactly."""
    m, M, once, clip = (Fraction(number or 0) for number in (run.strong_convexity, run.smoothness, run.l2, run.clip_norm))
    if step.size * M > 2 + Fraction(1, 1 << 52):  # What a double rounds to 2 passes: c is then above 1 by as much.
        raise ValueError("step_size exceeds 2/smoothness: the gradient step is not a contraction.")
    low, gap = once + (m - once) * Fraction(records) / step.batch, step.size * clip / step.batch
    steep = min(step.size * M * CURVED - 1, max(step.size * M - 1, Fraction(1)))
    c = max(1 - step.size * low, steep, Fraction(1, 1 << 200))  # 0 has no logarithm; any larger factor is right too.
    return c, gap * sensitivity(run), (gap * step.noise) ** 2


def _equal(count: int, far: arb, c: Fraction, gap: Fraction, v: Fraction) -> _Parts:
    # A c above 1 (by a rounding of 2/smoothness) enlarges jumps in the end, and counts as 1 until then: rooms do not fall.
    over, log, variance, deviation = exact(max(c, Fraction(1))), exact(min(c - 1, Fraction(0))).log1p(), exact(v), exact(v).sqrt()
    moved, constant = exact(gap) + 2 * exact(ROUND_OFF) * deviation, c >= 1
    decay = cache(lambda apart: (apart * log).expm1())

    def powers(first: int, apart: int, terms: int) -> arb:
        return arb(terms) if constant else (first * log).exp() * ((terms * apart * log).expm1() / decay(apart))

    def room(start: int, end: int) -> arb:
        return variance * powers(2 * (count - end), 2, end - start)

    def jumps(uses: range, _: int, end: int) -> Jumps:
        # The slopes of full epochs fall: they are one piece.
        return [(exact(gap) * powers(count - 1 - uses[-1], uses.step, len(uses)), room(uses[0], end))] if uses else []

    def apart(t: int) -> arb:
        return moved * over ** (t + 1) * powers(0, 1, t + 1)

    def furthest(t: int) -> arb:
        return min(far, apart(t), key=arb.upper) * powers(count - 1 - t, 1, 1)

    left = exact(FORGOTTEN) * min(exact(gap), deviation, key=arb.upper) / min(far, apart(count - 1), key=arb.upper)
    # The largest number of steps after which more than that is left.
    remembered = count if constant else math.floor(float(left.log() / log))
    return _Parts(furthest, room, jumps, max(count - 2 - remembered, -1), bisect_left(range(count), far, key=apart), over, True)


def _varying(far: arb, table: list[tuple[Fraction, Fraction, Fraction]]) -> _Parts:
    weights = [*accumulate((exact(c) for c, _, _ in table[:0:-1]), mul, initial=arb(1))][::-1]
    rises = [w * exact(gap) for w, (_, gap, _) in zip(weights, table, strict=True)]
    # Iterates are no further apart than what uses in all steps so far, and their rounding, add up to.
    moved = [(exact(c), exact(gap) + 2 * exact(ROUND_OFF) * exact(variance).sqrt()) for c, gap, variance in table]
    fars = [*accumulate(moved, lambda before, step: min(far, before * step[0] + step[1], key=arb.upper), initial=arb(0))]
    rooms = [*accumulate((w**2 * exact(variance) for w, (_, _, variance) in zip(weights, table, strict=True)), initial=arb(0))]
    rise = cache(lambda start, end: largest(*rises[start:end]))

    def jumps(uses: range, span: int, end: int) -> Jumps:
        return [(rise(t + 1 - span, t + 1), rooms[u] - rooms[t]) for t, u in pairwise([*uses, end])]

    left = exact(FORGOTTEN) * min(exact(table[-1][1]), exact(table[-1][2]).sqrt(), key=arb.upper)
    forgotten = sum(1 for weight, far in zip(weights, fars[1:], strict=True) if weight * far <= left) - 1
    bounded = sum(1 for one in fars[1:] if one < far)
    return _Parts(
        lambda t: fars[t + 1] * weights[t], lambda start, end: rooms[end] - rooms[start], jumps, forgotten, bounded, arb(1), False
    )


def _statement(mus: list[tuple[Fraction, arb]]) -> Statement:
    """Weights and mus."""
    return Statement.gaussian([(exact(weight), mu**2) for weight, mu in mus])
