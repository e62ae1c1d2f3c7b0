"""Last iterates under fixed or shuffled batches: taut strings (``docs/proofs/fixed-order.md``, ``docs/proofs/shuffled.md``).

A use of the record in step t is a jump ``w_t s_t``, and the noise of step t is room ``w_t^2 v_t`` to absorb it; w_t is the product
of the later contractions. A string may also start after a use, with a jump of w_t times the largest distance for all before.
Every start is a bound, with what the arithmetic of the training loop adds to mu in the steps after it (fixed-order.md, section
6): the least counts, for the worst place in the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import accumulate, groupby, pairwise
from operator import mul
from typing import Final, NamedTuple

from flint import arb

from dplateau.spec import ROUND_OFF, Cyclic, FullBatch, OnePass, Run, Sampling, Shuffled
from dplateau.verifier.balls import BITS, exact, largest, precision
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
    costs = [_cost(run, parts, range(last % length, last, length), last) for last in lasts]
    return _statement([(Fraction(1), largest(*costs))])


@precision(2 * BITS)
def shuffled(run: Run) -> Statement:
    """A mixture over the place in the last epoch; in every earlier one the record comes last, with the epoch's largest jump."""
    parts, length = _parts(run, Shuffled), run.sampling.epoch_length(run.n)
    start = (run.steps - 1) // length * length
    left, ends, mixture = run.steps - start, range(length - 1, start, length), list[tuple[Fraction, arb]]()
    # The last 64 places one by one; earlier ones in stretches, which count as their last place with their largest jump.
    for _, group in groupby(range(left), lambda place: (min(left - place, 64), int(math.log(max(left - place, 64)) / 0.015))):
        places = list(group)
        held = run.sampling.batch_sizes(run.n, places[0], places[-1] + 1).sum()
        mixture.append((Fraction(int(held), run.n), _cost(run, parts, ends, start + places[-1], length, len(places))))
    unused = _cost(run, parts, ends[:-1], ends[-1], length, length) if ends else _mu([], run.steps)
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


def _cost(run: Run, parts: _Parts, uses: range, last: int, span: int = 1, last_span: int = 1) -> arb:
    """The least mu of a record that is used in the steps ``uses`` and ``last``, each with the largest jump of a span up to it."""

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
        return _mu([(parts.far(start), parts.room(start + 1, until)), *rest], run.steps - 1 - start)

    found = mu(len(uses) + 1)
    return min(found, _least(mu, len(uses) + 1), key=arb.upper) if run.diameter or run.strong_convexity else found


def _mu(jumps: Jumps, absorbing: int) -> arb:
    """The least mu of absorbing the jumps, where the last so many steps absorb and may round off."""
    return taut_string(jumps).sqrt() + 2 * exact(ROUND_OFF) * arb(absorbing).sqrt()


def _least(cost: Callable[[int], arb], count: int) -> arb:
    """The least of ``cost(0)`` to ``cost(count - 1)``: of all where they are few, else of a grid that closes in on it."""
    tried = {*range(count)} if count <= ALL else {round(count ** (i / 7)) - 1 for i in range(8)}
    known: dict[int, arb] = {}
    while new := tried - known.keys():
        known |= {back: cost(back) for back in new}
        best = min(known, key=lambda back: known[back].upper())
        low, high = max((b for b in known if b < best), default=best), min((b for b in known if b > best), default=best)
        tried = {low + round((high - low) * i / 7) for i in range(8)}
    return min(known.values(), key=arb.upper)


class _Parts(NamedTuple):
    """w_t times the largest distance, the room of steps, the jumps of uses with the largest rise of a span, and the last step that
    is forgotten.
    """

    far: Callable[[int], arb]
    room: Callable[[int, int], arb]
    jumps: Callable[[range, int, int], Jumps]
    forgotten: int
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
    c = max(1 - step.size * low, step.size * M - 1, Fraction(1, 1 << 200))  # 0 has no logarithm; any larger factor is right too.
    return c, gap * sensitivity(run), (gap * step.noise) ** 2


def _equal(count: int, far: arb, c: Fraction, gap: Fraction, variance: Fraction) -> _Parts:
    # A c above 1 (by a rounding of 2/smoothness) enlarges jumps, and counts as 1 then: rooms do not fall.
    over, log = exact(max(c, Fraction(1))) ** count, exact(min(c - 1, Fraction(0))).log1p()
    moved = exact(gap) + 2 * exact(ROUND_OFF) * exact(variance).sqrt()

    def powers(first: int, apart: int, terms: int) -> arb:
        return (first * log).exp() * ((terms * apart * log).expm1() / (apart * log).expm1() if c < 1 else arb(terms))

    def room(start: int, end: int) -> arb:
        return exact(variance) * powers(2 * (count - end), 2, end - start)

    def jumps(uses: range, _: int, end: int) -> Jumps:
        # The slopes of full epochs fall: they are one piece.
        return [(exact(gap) * over * powers(count - 1 - uses[-1], uses.step, len(uses)), room(uses[0], end))] if uses else []

    def furthest(t: int) -> arb:
        return min(far, moved * over * powers(0, 1, t + 1), key=arb.upper) * over * powers(count - 1 - t, 1, 1)

    deviation = exact(variance).sqrt()
    left = exact(FORGOTTEN) * min(exact(gap), deviation, key=arb.upper) / min(far, moved * powers(0, 1, count), key=arb.upper)
    # The largest number of steps after which more than that is left.
    remembered = math.floor(float(left.log() / log)) if c < 1 else count
    return _Parts(furthest, room, jumps, max(count - 2 - remembered, -1), True)


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
    return _Parts(lambda t: fars[t + 1] * weights[t], lambda start, end: rooms[end] - rooms[start], jumps, forgotten, False)


def _statement(mus: list[tuple[Fraction, arb]]) -> Statement:
    """Weights and mus."""
    return Statement.gaussian([(exact(weight), mu**2) for weight, mu in mus])
