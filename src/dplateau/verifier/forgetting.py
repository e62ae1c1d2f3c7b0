"""The last iterate forgets its start, but for the probability that two coupled runs on the same records are still apart.

Theorem ``reflection-coupling``: ``delta(epsilon) <= S + delta_R(epsilon)``, delta_R the bound of the last R steps from a common
start, S the probability that the walk ``r -> min(D, rho)`` lasts for R steps, rho normal with variance 4 v around c r + e; it ends
where rho is below 0. It rises with the distance before, and is concave in it. Proof: ``docs/proofs/reflection-coupling.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import ceil, exp, floor, inf, log, nextafter
from typing import Final, NamedTuple

from flint import arb, arb_mat, arb_poly

from dplateau.spec import Cyclic, FixedSize, FullBatch, Poisson, RandomAllocation, Run, Shuffled
from dplateau.verifier.balls import above, density, exact, largest, precision
from dplateau.verifier.batches import ROUNDING, SMALL, Move, check, geometric, moves, parted, travelled, unusual
from dplateau.verifier.statement import Statement
from dplateau.verifier.steps import steps as steps_of

_CELLS: Final = 128
"""The bound on S is linear between so many points, which are stretches of D/128 apart."""
_FINE: Final = 4096
"""A block of steps has at least the variance D^2/4096."""
_MANY, _OPERATORS, _LEVELS = 2000, 250, (100, 50, 20, 8, 3)
"""More blocks that differ are rounded to few values, until there are so many at most."""
_STEADY: Final = 5e-4
"""A block changes the bound by one factor where the factors' range is this part of the change."""
_TAIL: Final = 8.5
_BITS: Final = 64


def forgetting(run: Run, steps: int, delta: float, window: Callable[[Run], Statement]) -> Statement:
    """What holds of the last iterate if its last ``steps`` steps, as a run of their own, have the bound that ``window`` states.

    Raises ``ValueError`` where the theorem does not cover the run.
    """
    check(run, steps, Poisson, FixedSize, RandomAllocation, Cyclic, Shuffled, FullBatch, convex=False)
    part = window(run.part(run.steps - steps, run.steps))
    return Statement(part.directions, part.slack + apart(run, steps, delta))


def apart(run: Run, steps: int, delta: float) -> arb:
    """What the last ``steps`` steps leave to chance: that two runs are still apart, and batches of unusual size (Sections 1, 4)."""
    whole = moves(run, steps_of(run), SMALL * delta if run.strong_convexity != 0 else 0.0, both=True)
    earlier, window = parted(whole, steps)
    probability = survival(window, run.diameter)
    mean = travelled(earlier, run.sampling.epoch_length(run.n) if run.sampling.ordered else 1, mean=True)
    # Either the distance is that of the set, or no batch of the whole run may be unusual.
    found = (probability(mean) + unusual(whole)).min(exact(1))
    return found if run.diameter is None else found.min(probability(exact(run.diameter)) + unusual(window))


class _Block(NamedTuple):
    """Steps as one, since normal walks add up: contraction, extra distance and variance at the end. Without the cap at D in between
    the walk lives longer.
    """

    contraction: arb
    extra: arb
    variance: arb

    def after(self, row: Move) -> _Block:
        """The same with steps before them."""
        c, lost = row.contraction, self.contraction * row.deviation
        extra = self.extra + lost * exact(ROUNDING) * geometric(c, row.times)
        return _Block(self.contraction * c**row.times, extra, self.variance + lost**2 * geometric(c * c, row.times))

    def apart(self, distance: arb) -> arb:
        """The probability that a walk from ``distance`` has not ended."""
        return ((self.contraction * distance + self.extra) / (8 * self.variance).sqrt()).erf()

    def rounded(self, levels: int) -> _Block:
        """Contraction and extra distance moved up, variance moved down, to one of so many values per factor e, or fewer."""

        def moved(value: arb, levels: int, *, up: bool) -> arb:
            place = log(float(value)) * levels
            near = exact(exp((ceil(place) if up else floor(place)) / levels) * (1 + 1e-13 if up else 1 - 1e-13))
            return near.max(value) if up else near.min(value)

        less, contraction = 1 - self.contraction, self.contraction
        if less != 0:
            far = moved(less, levels, up=False) if less > 1e-12 else -moved((-less).max(exact(1e-12)), levels, up=True)
            contraction = 1 - far
        return _Block(contraction, moved(self.extra, 3, up=True), moved(self.variance, levels, up=False))


_NONE: Final = _Block(arb(1), arb(0), arb(0))


def survival(window: list[Move], diameter: float | None) -> Callable[[arb], arb]:
    """The probability that two runs are still apart after ``window``, by their distance before."""
    free = _NONE
    for row in reversed(window):
        free = free.after(row)
    if diameter is None:
        return free.apart
    D, grid = exact(diameter), [exact(1)] * (_CELLS + 1)
    with precision(_BITS):
        rows = [row._replace(deviation=row.deviation / D) for row in window]
        blocks = _equal(rows[0]) if len(rows) == 1 else _varied(rows)
        for block, count in blocks:
            if len(rows) > 1 and len(blocks) <= _MANY:
                grid = _walked(grid, block)
            else:
                operator = _operator(block.contraction.upper(), block.extra.upper(), block.variance.lower())
                grid = _moved(grid, operator, count)

    def probability(distance: arb) -> arb:
        place = min(nextafter(float((distance * _CELLS / D).upper()), inf), _CELLS)
        cell = min(floor(place), _CELLS - 1)
        return (grid[cell] + (grid[cell + 1] - grid[cell]) * (place - cell)).min(free.apart(distance.min(D)))

    return probability


def _equal(row: Move) -> list[tuple[_Block, int]]:
    """Equal steps from the last to the first, in blocks with the number of times that each comes; lengths are in units of D."""
    c, size = row.contraction, max(ceil(min(1 / _FINE / float(row.deviation) ** 2, row.times) * (1 - 1e-9)), 1)
    size = min(size, ceil(min(0.01 / float(1 - c), 1e18))) if c < 1 else size
    block, (count, rest) = _NONE.after(row._replace(times=size)), divmod(row.times, size)
    if not count or float(block.variance) < 1 / (2 * _CELLS) ** 2:
        return []  # The set does not matter: a block moves less than a cell.
    return [(_NONE.after(row._replace(times=size + rest)), 1), (block, count - 1)][: min(count, 2)]


def _varied(rows: list[Move]) -> list[tuple[_Block, int]]:
    """Steps that differ."""
    found, variance = [_NONE], inf
    for row in reversed(rows):
        if variance >= 1 / _FINE:
            found.append(_NONE)
            variance = 0.0
        found[-1], variance = found[-1].after(row), variance + float(row.deviation) ** 2
    blocks = found[1:]
    for levels in _LEVELS if len(blocks) > _MANY else ():
        blocks = [block.rounded(levels) for block in found[1:]]
        if len({tuple(map(float, block)) for block in blocks}) <= _OPERATORS:
            break
    return [(block, 1) for block in blocks]


def _moved(grid: list[arb], operator: arb_mat, count: int) -> list[arb]:
    """The bound at 0 (the limit from above), D/128, ..., D so many equal blocks earlier; beyond D it is constant."""
    for left in range(count, 0, -1):
        rise = [after - before for before, after in pairwise(grid)]
        jumps = [(here - there) * _CELLS for here, there in pairwise([*rise, exact(0)])]
        vector = arb_mat(2 * _CELLS + 1, 1, [*jumps, *(abs(jump) for jump in jumps), grid[0]])
        before, grid = grid, [value.upper().min(exact(1)) for value in (operator * vector).entries()]
        factors = [(new / old).upper() for new, old in zip(grid, before, strict=True)]
        most = max(factors)
        if most < 1 and most - min(factors) < _STEADY * (1 - most):
            # Means are linear and monotone: what was multiplied by at most this is so once more.
            return [value * most ** (left - 1) for value in grid]
    return grid


@lru_cache(maxsize=_OPERATORS)
def _operator(contraction: arb, extra: arb, variance: arb) -> arb_mat:
    """One block, D = 1. The odd continuation of a bound is a sum of ``J_k clip(x, -r_k, r_k)`` and ``J_0 sign(x)``, whose means are
    known. Between the points a mean is not linear: half its largest second derivative times ``h^2/4`` is added (Section 6).

    Lengths are in units of the walk's deviation.
    """
    deviation, peak, half = 2 * variance.sqrt(), density(exact(0)), exact(1) / 2
    knots = [exact(k) / _CELLS / deviation for k in range(_CELLS + 1)]
    step = contraction * knots[1]
    bent, rough = step**2 / 8 * deviation, [float(knot) for knot in knots]
    tail = exact(1e-16) * arb(0.5, 0.5)

    def ramp(x: arb, near: float) -> arb:
        """The mean of (x + N)+, x being near that: beyond 8 it is x+ and less than 1e-16."""
        if abs(near) < _TAIL:
            return (-x * x * half).exp() * peak + x * above(-x)
        return x + tail if near > 0 else tail

    rows = list[list[arb]]()
    for start in (contraction * knot + extra / deviation for knot in knots):
        near, kept, bend = float(start), list[arb](), list[arb]()
        for knot, place in zip(knots[1:], rough[1:], strict=True):
            kept.append((ramp(start + knot, near + place) - ramp(start - knot, near - place) - knot) * deviation)
            away = ((abs(start - knot) if abs(near - place) < _TAIL else exact(_TAIL)) - step).max(exact(0))
            bend.append((-away * away * half).exp() * peak * bent)
        rows.append([*kept, *bend, (start / exact(2).sqrt()).erf() + bent * 2 * density(exact(1)) / deviation])
    return arb_mat(rows)


def _walked(grid: list[arb], block: _Block) -> list[arb]:
    """One block, D = 1, without its operator: all ramps at the points by one product of polynomials, and Taylor's series from the
    nearest point. With ``R(t) = E (t + N)+``, the derivatives are ``R' = Phi``, ``R'' = phi``, and so on, of which the one of order
    n + 2 is at most ``0.44 sqrt(n!)`` (Cramer's inequality).
    """
    rise = [after - before for before, after in pairwise(grid)]
    jumps = [(here - there) * _CELLS for here, there in pairwise([*rise, exact(0)])]
    sizes, deviation, step = [abs(jump) for jump in jumps], 2 * block.variance.sqrt(), block.contraction / _CELLS
    starts = [block.contraction * k / _CELLS + block.extra for k in range(_CELLS + 1)]
    places = [min(round(float(start) * _CELLS), 4 * _CELLS) for start in starts]
    away = [(start - exact(place) / _CELLS) / deviation for start, place in zip(starts, places, strict=True)]
    far = largest(exact(0), *(abs(x) for x, place in zip(away, places, strict=True) if place < 4 * _CELLS))

    order, top, last = 2, exact(22) / 100 * far**2, max(places)
    while top > 1e-13 and order < 60:
        order += 1
        top *= far * exact(max(order - 2, 1)).sqrt() / order
    at = [exact(k) / _CELLS / deviation for k in range(-_CELLS, last + _CELLS + 1)]
    phi = [density(x) for x in at]
    below = [above(-x) for x in at]
    derivatives = [[p + x * b for x, p, b in zip(at, phi, below, strict=True)], below, phi]
    for n in range(order - 3):
        before = derivatives[-2] if n else phi
        derivatives.append([-x * p - n * b for x, p, b in zip(at, derivatives[-1], before, strict=True)])
    signed = arb_poly([*reversed(jumps), 0, *(-jump for jump in jumps)])
    terms = [signed * arb_poly(derivative) for derivative in derivatives[:order]]
    near = [(abs(x) - far - step / deviation).max(exact(0)) for x in at]
    bends = arb_poly([*[0] * (_CELLS + 1), *sizes]) * arb_poly([density(x) for x in near])
    bent, missing = step**2 / 8 / deviation, 2 * sum(sizes, exact(0)) * top
    result = list[arb]()
    for start, place, x in zip(starts, places, away, strict=True):
        series = exact(0)
        for m in reversed(range(order)):
            series = series * x / (m + 1) + terms[m][place + 2 * _CELLS]
        met = (start / deviation / exact(2).sqrt()).erf() + bent * 2 * density(exact(1)) / deviation
        mean = deviation * (series + missing) - (grid[-1] - grid[0]) + bent * bends[place + 2 * _CELLS] + met * grid[0]
        found = mean if place < 4 * _CELLS else largest(*grid)
        result.append(found.upper().min(exact(1)))
    return result
