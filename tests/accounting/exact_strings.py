"""Taut strings in rational arithmetic, from the page of the proof and from nothing else: no code of the library is used."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, pairwise

import dplateau as dp

Numbers = Sequence[Fraction]
ROUND_OFF = Fraction(1e-7)
"""What a step may round off, as a share of its noise (section 6)."""


def rational(values) -> list[Fraction]:
    """Doubles as they are."""
    return [Fraction(value) for value in values]


def corners(rise: Numbers, room: Numbers) -> list[tuple[Fraction, Fraction]]:
    """What may have been absorbed at most, after so much variance."""
    return [(Fraction(0), Fraction(0)), *zip(accumulate(room), accumulate(rise), strict=True)]


def slope(here: tuple[Fraction, Fraction], there: tuple[Fraction, Fraction]) -> Fraction | float:
    across, up = there[0] - here[0], there[1] - here[1]
    return up / across if across else math.inf if up else 0


def wrapped(rise: Numbers, room: Numbers) -> tuple[Fraction | float, list[Fraction | float]]:
    """The least cost and the slope over each room: from every corner on to the one that is seen under the least slope."""
    points, at, cost, slopes = corners(rise, room), 0, Fraction(0), []
    while at < len(rise):
        least, beyond = min((slope(points[at], points[i]), -i) for i in range(at + 1, len(points)))
        across = points[-beyond][0] - points[at][0]
        cost += least**2 * across if across else least
        slopes += [least] * (-beyond - at)
        at = -beyond
    return cost, slopes


def by_segments(rise: Numbers, room: Numbers) -> Fraction | float:
    """The same by trying all ways to join corners by straight lines that pass above none."""
    points, best = corners(rise, room), math.inf
    inner = range(1, len(rise))
    for count in range(len(rise)):
        for chosen in combinations(inner, count):
            cost = Fraction(0)
            for first, last in pairwise((0, *chosen, len(rise))):
                steep, (x, y) = slope(points[first], points[last]), points[first]
                if steep == math.inf or any(y + steep * (u - x) > v for u, v in points[first:last]):
                    break
                cost += steep**2 * (points[last][0] - x)
            else:
                best = min(best, cost)
    return best


def steps(run: dp.Run) -> Iterator[tuple[Fraction, Fraction, Fraction, int]]:
    """Contraction factor, gap, variance and batch of the epoch of every step."""
    length, rest = run.sampling.period(run.n, run.steps), run.sampling.remainder(run.n)
    sizes = run.sampling.divisors(run.n)
    m, M, once, clip = (Fraction(x) for x in (run.strong_convexity, run.smoothness, run.l2, run.clip_norm))
    for t in range(run.steps):
        eta, z, b = (
            Fraction(part[t % len(part)] if isinstance(part, tuple) else part)
            for part in (run.step_size, run.noise_multiplier, sizes)
        )
        held = Fraction(rest) if rest and t % length == length - 1 else b
        low = once + (m - once) * held / b
        # Rows may be as curved as training takes, which lets no step of 2/M expand.
        factor = max(abs(1 - eta * low), min(abs(1 - eta * M * Fraction(1 + 1e-12)), max(abs(1 - eta * M), Fraction(1))))
        yield factor, eta * clip * (2 if run.adjacency == "replace" else 1) / b, (eta * z * clip / b) ** 2, t % length


FORGOTTEN = Fraction(1e-12)
"""So little of the last step's jump and noise is nothing (section 4)."""


def rounded_mu(square: Fraction, absorbing: int) -> Fraction:
    """mu of a cost, with what so many absorbing steps may round off, rounded down to eighty digits."""

    def root(value: Fraction | int) -> Fraction:
        return Fraction(math.isqrt(math.floor(value * 10**160)), 10**80)

    return root(square) + 2 * ROUND_OFF * root(absorbing)


def least_mu(run: dp.Run, used: Sequence[bool], *, anywhere: bool = False) -> Fraction:
    """The least mu of a record that is used in these steps, over the starts of section 4: after a use, or where hardly anything is
    left of what came before; ``anywhere`` after any step.

    A string starts at a diameter, or at what all steps until then would move the iterate by if all of them used the record.
    """
    table = list(steps(run))
    weights = [Fraction(1)]
    for factor, *_ in table[:0:-1]:
        weights.insert(0, weights[0] * factor)
    rise = [w * gap * use for w, (_, gap, _, _), use in zip(weights, table, used, strict=True)]
    room = [w**2 * variance for w, (_, _, variance, _) in zip(weights, table, strict=True)]
    fars = [Fraction(0)]
    for factor, gap, variance, _ in table:
        deviation = Fraction(math.isqrt(variance.numerator), math.isqrt(variance.denominator))
        assert deviation**2 == variance
        far = factor * fars[-1] + gap + 2 * ROUND_OFF * deviation
        fars.append(far if run.diameter is None else min(far, Fraction(run.diameter)))
    first = [w * far for w, far in zip([Fraction(0), *weights], fars, strict=True)]
    forgotten = sum(1 for far in first[1:] if far <= FORGOTTEN * min(gap, deviation))
    starts = [t for t in range(run.steps) if anywhere or t in (0, forgotten) or (t > forgotten and used[t - 1])]
    squares = [wrapped([first[t], *rise[t:]], [Fraction(0), *room[t:]])[0] for t in starts]
    return min(rounded_mu(square, run.steps - t) for square, t in zip(squares, starts, strict=True))


def worst_mu(run: dp.Run) -> Fraction:
    """The largest of it over the places of a fixed order."""
    places = [place for *_, place in steps(run)]
    return max(least_mu(run, [here == place for here in places]) for place in {*places})


def noisy_gd(c: Fraction, steps: int) -> Fraction:
    """mu^2 for s = v = 1: Bok, Su, Altschuler 2024, strongly convex, full batches."""
    return (1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)


def noisy_cgd(c: Fraction, length: int, epochs: int) -> Fraction:
    """The same for cyclic batches, for the record in the last one."""
    late = c ** (length * (epochs - 1))
    return 1 + c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - late) / (1 + late)
