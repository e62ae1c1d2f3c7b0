"""Whether a theorem gives a run the epsilon that is claimed, decided in balls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from flint import arb

from dplateau.spec import Run
from dplateau.verifier.allocation import is_exact
from dplateau.verifier.balls import exact, gaussian_delta, largest, precision
from dplateau.verifier.contour import Line
from dplateau.verifier.epoch import Epoch
from dplateau.verifier.forgetting import forgetting
from dplateau.verifier.lattice import Lattice
from dplateau.verifier.laws import Add, Sampled
from dplateau.verifier.look_back import look_back
from dplateau.verifier.mechanism import composed
from dplateau.verifier.outcome import Checked, Outcome, Part, failed
from dplateau.verifier.quadrature import TooHardError
from dplateau.verifier.statement import Composition, Mixture, Statement
from dplateau.verifier.steps import too_long
from dplateau.verifier.strings import ALL, fixed_order, shuffled

_FIRST: Final = (2**11, 2**13)
"""Points of the lattices that are tried first; the two tell how many are needed, since the error falls with their square."""
_MOST, _IN_ALL = 2**20, 2**21
"""Most points of one law, and of all laws of a composition."""
_ERRS: Final = 1.3
"""The error is at most so many times what such an extrapolation says."""
_ROOM, _MORE = 1.2, 4.0
"""So many times what seems to be needed is tried, and at most so many times the last number."""
Profile: TypeAlias = Callable[[arb], arb]


def statement(part: Part, delta: float) -> Statement:
    """What the part's bound says of its run; what the bound leaves to chance is chosen for this delta.

    Raises
    ------
    ValueError
        The bound does not cover the run, or is none that is verified, or there are too many steps.
    """
    run, steps = part.run, part.steps
    if why := too_long(run, counted=part.bound == "exact-composition"):
        raise ValueError(why)
    match part.bound:
        case "exact-composition":
            return composed(run)
        case "fixed-order":
            return fixed_order(run)
        case "shuffled":
            return shuffled(run)
        case "shuffle-partition":  # It is never better (its docstring).
            return (shuffled if run.sampling.shuffled else fixed_order)(run)
        case "sampled-last-iterate":
            return composed(run) if steps is None else look_back(run, steps, delta)
        case "reflection-coupling" if steps is not None:
            return forgetting(run, steps, delta, common_start)
        case other:
            raise ValueError(f"the bound {other} has no second computation")


def together(parts: Sequence[Part], delta: float) -> Statement:
    """What runs on the same records say together; each has its share of delta."""
    first, *others = (statement(part, delta / len(parts)) for part in parts)
    return sum(others, first)


def is_sharp(part: Part) -> bool:
    """Whether the statement is all that the bound can say, whatever is chosen: only then may a claim be refuted."""
    run = part.run
    if part.bound == "exact-composition":
        return not run.sampling.allocated or run.sampling.epoch_length(run.n) == 1 or is_exact(run)
    # Without either, only one start is worth trying.
    searched = run.diameter is not None or bool(run.strong_convexity)
    return part.bound == "fixed-order" and (not searched or run.steps <= ALL * run.sampling.period(run.n, run.steps))


def common_start(run: Run) -> Statement:
    """The steps of a run from a start that both data sets share: the least general theorem that covers it."""
    if run.sampling.drawn or run.sampling.allocated or run.strong_convexity is None:
        return composed(run)
    return (shuffled if run.sampling.shuffled else fixed_order)(run)


def profile(composition: Composition, epsilon: arb, delta: float, points: int, *, lattice: bool) -> tuple[Profile, bool]:
    """delta of a composition near ``epsilon``, and whether more points of a lattice may find less; with ``lattice`` only that."""
    laws = composition.parts
    if not laws:
        mu = composition.square.sqrt()
        return (lambda e: gaussian_delta(mu, e)), False
    plain = not composition.square > 0
    if plain and sum(count for _, count in laws) == 1:
        law = laws[0][0]
        if isinstance(law, Epoch):
            with suppress(TooHardError):
                return Line(composition, epsilon, delta).delta, False
        # Of other laws only a bound from above is known.
        return (law.profile if isinstance(law, Sampled) else lambda e: exact(0).union(law.profile(e))), False
    if plain and all(isinstance(law, Add) and not law.shift for law, _ in laws):
        greatest = sum((count * law.greatest for law, count in laws if isinstance(law, Add)), exact(0))
        if epsilon > greatest:
            return (lambda e: exact(0) if e > greatest else _variation(composition)), False
    if not epsilon > 0 and _variation(composition) <= exact(delta):
        return (lambda _: _variation(composition)), False
    if not lattice:
        with suppress(TooHardError):
            return Line(composition, epsilon, delta).delta, False
    return Lattice(composition, epsilon, delta, points).delta, True


def _variation(composition: Composition) -> arb:
    """delta at any epsilon: nobody can tell two runs apart by more than the sum of the total variations."""
    gaussian = gaussian_delta(composition.square.sqrt(), exact(0))
    return exact(0).union(sum((count * law.profile(exact(0)) for law, count in composition.parts), gaussian))


class Whole:
    """delta of a statement near one epsilon."""

    def __init__(self, said: Statement, epsilon: arb, delta: float) -> None:
        self.said, self.epsilon, self.delta = said, epsilon, delta
        self.known: dict[Composition, tuple[Profile, bool]] = {}

    def refine(self, points: int) -> bool:
        """Compute what a lattice of so many points may improve; False if nothing is left to improve."""
        parts = {composition for mixture in self.said.directions if not self._settled(mixture) for _, composition in mixture}
        todo = [one for one in parts if one not in self.known or self.known[one][1]]
        self.known |= {one: profile(one, self.epsilon, self.delta, points, lattice=one in self.known) for one in todo}
        return bool(todo)

    def _settled(self, mixture: Mixture) -> bool:
        """Whether a direction is known well enough: then its lattices need no more points."""
        known = all(one in self.known for _, one in mixture)
        return known and self.said.slack + self._mean(mixture, self.epsilon) <= exact(self.delta)

    def _mean(self, mixture: Mixture, epsilon: arb) -> arb:
        return sum((weight * self.known[one][0](epsilon) for weight, one in mixture), exact(0))

    @property
    def most(self) -> int:
        """Most points of a lattice."""
        laws = [len(one.parts) + (one.square > 0) for mixture in self.said.directions for _, one in mixture]
        return min(_MOST, _IN_ALL // max(1, *laws))

    @property
    def on_lattices(self) -> bool:
        """Whether delta is known well from above alone."""
        return any(more for _, more in self.known.values())

    def at(self, epsilon: arb) -> arb:
        """The ball of delta."""
        return self.said.slack + largest(*(self._mean(mixture, epsilon) for mixture in self.said.directions))

    def shows(self, epsilon: arb, delta: arb) -> bool:
        """Whether delta is at most this at an epsilon that it was not made for; it may not be known there."""
        with suppress(ArithmeticError, ValueError):
            return self.at(epsilon) <= delta
        return False


def check(
    parts: Sequence[Part],
    epsilon: float,
    delta: float,
    chosen_for: float | None = None,
    known: list[Whole] | None = None,
) -> Checked:
    """Whether runs on the same records are (epsilon, delta)-private together, by their bounds.

    Parameters
    ----------
    parts : sequence of Part
        The runs, each with its bound.
    epsilon, delta : float
        The claim, as exact numbers.
    chosen_for : float, optional
        The delta for which the bounds choose what they leave to chance; that of the claim if None.
    known : list of Whole, optional
        What was computed for other claims about these runs, with this choice; what is computed now is added. A claim that it
        verifies is not looked at further: ``upper`` is the claim then, and ``lower`` 0.
    """
    start = time.perf_counter()

    def found(outcome: Outcome, why: str | None = None, lower: float = 0.0, upper: float = math.inf) -> Checked:
        return Checked(outcome, why, lower, upper, time.perf_counter() - start)

    if not epsilon >= 0:  # Nothing below says anything there, and a NaN must not pass.
        return found(Outcome.NOT_DECIDED, f"the claim is epsilon {epsilon:g}: it must be at least 0")
    with precision():
        try:
            said = together(parts, chosen_for or delta)
        except ValueError as error:
            return found(Outcome.NOT_DECIDED, str(error))
        except (ArithmeticError, MemoryError) as error:
            return found(Outcome.NOT_DECIDED, failed(error))
        target, claimed = exact(delta), exact(epsilon)
        if any(whole.shows(claimed, target) for whole in known or ()):
            return found(Outcome.VERIFIED, None, 0.0, epsilon)
        whole = Whole(said, claimed, delta)
        ball = exact(0)
        tried = dict[int, float]()
        try:
            while (points := _points(tried, delta, whole.most)) and whole.refine(points):
                ball = whole.at(claimed)
                tried[points] = float(ball.upper())
                if ball <= target or ball > target:
                    break
        except (ArithmeticError, ValueError, MemoryError) as error:
            return found(Outcome.NOT_DECIDED, failed(error))
        if known is not None:
            known.append(whole)
        lower, upper = 0.0, math.inf
        if not whole.on_lattices:
            with suppress(ArithmeticError, ValueError):  # It may not be known at every other epsilon.
                lower, upper = _least(whole, claimed, target)
        if ball <= target:
            return found(Outcome.VERIFIED, None, lower, min(upper, epsilon))
        if ball > target and all(map(is_sharp, parts)):
            return found(Outcome.REFUTED, None, max(lower, epsilon), upper)
        if ball > target:
            return found(Outcome.NOT_DECIDED, "another choice of look-backs may give less", 0.0, upper)
        return found(Outcome.NOT_DECIDED, "the ball of delta holds the claim", lower, upper)


def _points(tried: dict[int, float], delta: float, most: int) -> int | None:
    """How many points to try next, after lattices whose delta was too large; None if there is nothing more to try."""
    if len(tried) < len(_FIRST):
        return _FIRST[len(tried)]
    (few, coarse), (many, fine) = [*tried.items()][-2:]
    error = (coarse - fine) / ((many / few) ** 2 - 1)
    room = delta - (fine - error)
    # Where points are too few yet the error may fall like their number alone, or not at all.
    hopeless = many > _FIRST[1] and coarse >= fine and fine - _ERRS * (coarse - fine) / (many / few - 1) > delta
    share = math.sqrt(error / room) if room > 0 and 0 < error < math.inf else math.inf
    # Where points are doubled the old ones stay, so delta falls; among others a kink may lie less well.
    doublings = min(max(math.ceil(math.log2(min(_ROOM * share, _MORE))), 1), int(math.log2(most / many)))
    return None if hopeless or doublings < 1 else many << doublings


def _least(whole: Whole, claimed: arb, target: arb) -> tuple[float, float]:
    """Ends of a ball around the least epsilon with this delta."""
    if not claimed > 0:
        return 0.0, math.inf
    epsilon, width = claimed, claimed * exact(1e-7)
    for _ in range(40):
        here, there = whole.at(epsilon).upper(), whole.at(epsilon + width).upper()
        if not (here > there > 0):
            return 0.0, math.inf
        step = (here / target).log() / (here / there).log() * width
        epsilon = (epsilon + step).mid()
        if not epsilon > 0:
            return 0.0, math.inf
        if abs(step) < epsilon * exact(1e-25):
            break
    lower, upper, gap = 0.0, math.inf, epsilon * exact(2e-16)
    while gap < epsilon / 10 and not (lower > 0 and upper < math.inf):
        if not lower and whole.at(epsilon - gap) >= target:
            lower = math.nextafter(float((epsilon - gap).lower()), 0.0)
        if upper == math.inf and whole.at(epsilon + gap) <= target:
            upper = math.nextafter(float((epsilon + gap).upper()), math.inf)
        gap *= 4
    return lower, upper
