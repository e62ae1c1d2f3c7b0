"""The last iterate under random batches: the record's distance is absorbed by shifted steps.

Theorem ``sampled-last-iterate``: before the last steps two runs are at most a distance D apart; the composition of these, step t
shifted by ``a_t`` over its noise, holds for any ``a_t`` >= 0 with ``sum_t w_t deviation_t a_t >= w D``, w what is left of a
distance before them, ``w_t`` of one after step t. Proof: ``docs/proofs/sampled-last-iterate.md``.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from math import exp, expm1, log, sqrt
from typing import Final

from flint import arb

from dplateau.spec import FixedSize, Poisson, RandomAllocation, Run
from dplateau.spec.schedule import scaled
from dplateau.verifier import mechanism
from dplateau.verifier.balls import exact
from dplateau.verifier.batches import ROUNDING, SMALL, Move, check, geometric, likely, moves, parted, pieces, travelled, unusual
from dplateau.verifier.statement import Composition, Statement
from dplateau.verifier.steps import Step, sensitivity
from dplateau.verifier.steps import steps as steps_of

_FAR: Final = 0.05
"""Share of delta that may go to a record that has moved the iterate further than is counted on."""
_NEARER: Final = 0.999
"""What the record has done counts if it is nearer than so much of the diameter."""
_BLOCKS: Final = 12
"""Steps are gathered into so many blocks of one shift, one rate and one noise."""
_FINE: Final = 100_000


def look_back(run: Run, steps: int, delta: float) -> Statement:
    """What holds of the last iterate by its last ``steps`` steps; shares of ``delta`` go to what is left to chance.

    Raises ``ValueError`` where the theorem does not cover the run.
    """
    check(run, steps, Poisson, FixedSize, RandomAllocation)
    table = steps_of(run)
    recent = [table[0]._replace(count=steps)] if len(table) == 1 else table[-steps:]
    far, window, slack = _start(run, table, recent, delta)
    if len(window) == 1:
        window = pieces(window, _FINE)
        recent = [recent[0]._replace(count=row.times) for row in window]
    if run.sampling.allocated and run.sampling.epoch_length(run.n) > 1:
        return _split(run, recent, window, far, slack)
    return _shifted(run, recent, window, far, slack)


def _start(run: Run, table: list[Step], recent: list[Step], delta: float) -> tuple[arb, list[Move], arb]:
    """The distance before the last steps, what these do, and the probability that either is worse (Section 5, and Section 4 of
    ``reflection-coupling``).
    """
    window, whole = (moves(run, rows, SMALL * delta) for rows in (recent, table))
    earlier, last = parted(whole, sum(row.count for row in recent))
    far, chance, ever, slack = likely(earlier, _FAR * delta), exact(_FAR * delta), unusual(whole), unusual(window)
    if not far < (surely := travelled(earlier)):
        far, chance = surely, exact(0)
    if run.diameter is None or (far < exact(_NEARER * run.diameter) and not ever > slack.max(exact(SMALL * delta))):
        return far, last, ever + chance
    return exact(run.diameter), window, slack


def _shifted(run: Run, recent: list[Step], window: list[Move], far: arb, slack: arb) -> Statement:
    """Shifts in one step with the record (Sections 3 and 4)."""
    laws, unit = mechanism.kinds(run)
    worth, _, left = _worth(window)
    rate, noise = [float(row.batch / run.n) for row in recent], [float(row.noise) for row in recent]
    weight, count = [float(w) / row.count for w, row in zip(worth, recent, strict=True)], [row.count for row in recent]
    shift = _spread(weight, [q * unit / z for q, z in zip(rate, noise, strict=True)], count, float(left * far))
    block = iter(_blocks(rate, noise, shift))
    gathered = [[*places] for _, places in groupby(range(len(recent)), key=lambda _: next(block))]
    room = [sum((worth[t] for t in places), exact(0)) for places in gathered]
    mean = [
        sum(shift[t] * weight[t] * count[t] for t in places) / max(sum(weight[t] * count[t] for t in places), 1e-300)
        for places in gathered
    ]
    # Rounded up, until they are known to make up the distance.
    have = sum((exact(a) * w for a, w in zip(mean, room, strict=True)), exact(0))
    if not have > 0:
        mean, have = [1.0] * len(room), sum(room, exact(0))
    mean = [Fraction(max(a * float((left * far / have).upper()) * (1 + 2.0**-40), 1e-30)) for a in mean]
    if not sum((exact(a) * w for a, w in zip(mean, room, strict=True)), exact(0)) >= left * far:
        raise ArithmeticError("the shifts are not known to make up the distance")

    square, drawn = Fraction(0), Counter[tuple[Fraction, Fraction, Fraction]]()
    for a, places in zip(mean, gathered, strict=True):
        q, z = max(recent[t].batch / run.n for t in places), min(recent[t].noise for t in places)
        size = sum(count[t] for t in places)
        if q == 1:
            square += size * (a + ROUNDING + sensitivity(run) / z) ** 2
        else:
            drawn[q, unit / z, a + ROUNDING] += size
    parts = [tuple((law(*of), size) for of, size in drawn.items()) for law in laws]
    return Statement.of(*(Composition(part, exact(square)) for part in parts), slack=slack)


def _worth(window: list[Move]) -> tuple[list[arb], arb, arb]:
    """What is left of each row's noise in the end; the sum of the squares over the steps; what is left of a distance before."""
    worth, square, later = list[arb](), exact(0), exact(1)
    for c, _, deviation, _, _, count in reversed(window):
        worth.append(later * deviation * geometric(c, count))
        square += (later * deviation) ** 2 * geometric(c * c, count)
        later *= c**count
    return worth[::-1], square, later


def _spread(weight: list[float], mean: list[float], count: list[int], total: float) -> list[float]:
    """The shifts ``(k weight - mean)+`` that make up ``total``: best if all steps were Gaussians with the mean shift."""
    k, moved, square = 0.0, total, 0.0
    for t in sorted(range(len(weight)), key=lambda t: mean[t] / max(weight[t], 1e-300)):
        moved, square = moved + count[t] * weight[t] * mean[t], square + count[t] * weight[t] ** 2
        if not k or moved / max(square, 1e-300) * weight[t] >= mean[t]:
            k = moved / max(square, 1e-300)
    return [max(k * w - m, 0.0) for w, m in zip(weight, mean, strict=True)]


def _blocks(rate: list[float], noise: list[float], shift: list[float]) -> list[int]:
    """The block of each row: new ones where rate, noise or shift change."""
    top, change = max(max(shift), 1e-300), [0.0]
    for (q, r), (y, z), (a, b) in zip(pairwise(rate), pairwise(noise), pairwise(shift), strict=True):
        moved = abs(log(r / q)) + abs(log(z / y)) + 4 * abs(b - a) / top
        change.append(1.0 if (a > 0) != (b > 0) else min(moved, 1.0))
    along = list(accumulate(change))
    return [int(x / max(along[-1], 1e-9) * _BLOCKS * (1 - 1e-9)) for x in along]


def _split(run: Run, recent: list[Step], window: list[Move], far: arb, slack: arb) -> Statement:
    """Epochs with a part of the noise's variance; the rest hides the shifts, one Gaussian, the least one (Section 8)."""
    steps = sum(row.count for row in recent)
    _, square, left = _worth(window)
    shift = left * far / square.sqrt() + exact(ROUNDING) * exact(steps).sqrt()
    small = [(min(float(row.noise) ** -2, 100.0), float(row.batch / run.n) ** 2 * row.count) for row in recent]
    told = 1 + min(max(size for size, _ in small), 3.0)
    odds = sqrt(sum(expm1(size) * count for size, count in small)) * told / float(shift)
    if run.adjacency == "replace":
        odds = sqrt(sum(2 * (exp(size) - exp(-size)) * count for size, count in small)) / float(shift)
    part = run.part(run.steps - steps, run.steps)
    share = min(max(odds / (1 + odds), 1e-3), 1 - 1e-3)
    quieter = part.replace(noise_multiplier=scaled(part.noise_multiplier, sqrt(share)))
    pairs = zip(steps_of(quieter), steps_of(part), strict=True)
    share = max((less.noise / full.noise) ** 2 for less, full in pairs)
    return mechanism.composed(quieter) + Statement.gaussian([(exact(1), shift**2 / exact(1 - share))], slack)
