"""What every guarantee promises, each as a check of one random draw.

An enclosure that contradicts another one is a *violation*, whatever its width. Upper ends need only be close: a check returns by
how much they are off, relative to their size, and ``ALLOWED`` says how much is room for a search that may stop early (the best
order, the best look-back): every order and every look-back is a bound, so this is never room for a number that is too small.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplateau.accounting import Enclosure, ExactComposition, GaussianDP, Guarantee
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.tensor import tensor
from dplateau.analyses import ANALYSES, ExactCompositionBound

from . import draws
from .draws import Subject

Random = np.random.Generator
LEAST = 1e-3
"""Epsilons are compared relative to themselves and this."""
WIDTH = 1e-6
"""What ``ExactComposition`` aims at, and is not counted against it."""
ALLOWED = {"exact": 1e-6, "search": 2e-2}
"""How far an upper end may be off; both are epsilons relative to ``LEAST`` and themselves, or deltas by the slope of their log."""


@dataclass(frozen=True)
class Outcome:
    """What a check saw: whether two enclosures exclude each other, how far upper ends are off, and the kind of guarantee."""

    name: str
    contradicted: bool
    excess: float
    kind: str
    text: str

    @property
    def violated(self) -> bool:
        """Whether the contract is broken."""
        return self.contradicted or not self.excess <= ALLOWED[self.kind]


def kind(guarantee: Guarantee) -> str:
    """Whether the ends of the guarantee are those of an enclosure, or of a search."""
    if isinstance(guarantee, WithSlack):
        return kind(guarantee.inner)
    return "exact" if isinstance(guarantee, (ExactComposition, GaussianDP, MixtureOfGaussianDP)) else "search"


def _room(*enclosures: Enclosure) -> float:
    """What enclosures that are known to be wide may differ by."""
    return (
        sum(min(one.width, one.upper) for one in enclosures) if all(one.lower > 0 or one.upper == 0 for one in enclosures) else 0.0
    )


def _off(less: Enclosure, more: Enclosure, exact: bool) -> tuple[bool, float]:
    """Whether ``less <= more`` is refuted, and by how much the upper ends miss it."""
    for one in (less, more):
        if not 0 <= one.lower <= one.upper:
            return True, math.inf
    contradicted = exact and less.lower > more.upper * (1 + 1e-12)  # The lower ends of a search are those of what it found.
    if less.upper <= more.upper:
        return contradicted, 0.0
    room = _room(less, more) if exact and math.isfinite(less.upper) else 0.0
    if exact and (less.width > 10 * WIDTH or more.width > 10 * WIDTH):
        return contradicted, 0.0  # A wide enclosure says little; how many there are is counted by ``narrow``.
    return contradicted, max(less.upper - more.upper - room, 0.0) / (LEAST + more.upper)


def _outcome(subject: Subject, pairs: list[tuple[Enclosure, Enclosure]], what: str, guarantee: Guarantee | None = None) -> Outcome:
    of = kind(guarantee or subject.guarantee)
    found = [_off(less, more, of == "exact") for less, more in pairs]
    text = f"{what}: {pairs} of {subject.text}"
    return Outcome(subject.name, any(bad for bad, _ in found), max((excess for _, excess in found), default=0.0), of, text)


def _changed(random: Random, noise: float, steps: float, rate: float, draw: Callable[[Random], Subject]) -> Outcome | None:
    subject, delta = draw(random), math.exp(draws.log_delta(random))
    less = subject.change(noise, steps, rate)
    if less is None:
        return None
    here = subject.guarantee.epsilon(delta)
    return _outcome(subject, [(less.epsilon(delta), here)], f"delta {delta!r}, noise {noise}, steps {steps}, rate {rate}")


def ordered(random: Random) -> Outcome:
    """Enclosures are ordered, never negative, never NaN; delta is a probability."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    guarantee = subject.guarantee
    epsilon = guarantee.epsilon(delta)
    profile = [guarantee.delta(e) for e in (0.0, min(epsilon.upper, 50.0))]
    good = 0 <= epsilon.lower <= epsilon.upper and all(0 <= one.lower <= one.upper <= 1 for one in profile)
    return Outcome(subject.name, not good, 0.0, kind(guarantee), f"{delta!r}: {epsilon} {profile} of {subject.text}")


def narrow(random: Random) -> Outcome:
    """Exact enclosures are a millionth wide, relative to 1 and epsilon."""
    plain = draws.exact(random) if random.random() < 0.5 else None
    subject = plain or draws.analysed(random, lambda one: isinstance(one, ExactCompositionBound))
    delta = math.exp(draws.log_delta(random))
    epsilon = subject.guarantee.epsilon(delta)
    excess = math.inf
    if math.isfinite(epsilon.upper):
        excess = max(epsilon.width - WIDTH * (1 + epsilon.upper), 0.0) / (LEAST + epsilon.upper)
    return Outcome(subject.name, False, excess, "exact", f"{delta!r}: {epsilon} of {subject.text}")


def falls_with_noise(random: Random) -> Outcome | None:
    """More noise costs no more."""
    return _changed(random, float(random.choice([1.01, 1.1, 2.0])), 1.0, 1.0, draws.subject)


def falls_with_fewer_steps(random: Random) -> Outcome | None:
    """Fewer steps cost no more."""
    return _changed(random, 1.0, float(random.choice([0.5, 0.9])), 1.0, draws.subject)


def _whole(run: Any) -> bool:
    size = run.sampling.batch_size
    return (max(size) if isinstance(size, tuple) else size) == run.n


def falls_with_the_rate(random: Random) -> Outcome | None:
    """Smaller batches cost no more (the noise being a multiple of the clip norm)."""

    def draw(random: Random) -> Subject:
        # The contraction of a Poisson batch may get worse as it gets smaller, so that is not a contract.
        while True:
            subject = draws.subject(random)
            run = subject.run
            # A fixed batch of all records has under add-remove half the sensitivity that a smaller one is charged.
            whole = run is not None and run.sampling.kind == "fixed-size" and run.adjacency == "add-remove" and _whole(run)
            if run is None or (not whole and (run.released == "all" or run.sampling.kind == "fixed-size")):
                return subject

    return _changed(random, 1.0, 1.0, float(random.choice([0.5, 0.9])), draw)


def falls_with_delta(random: Random) -> Outcome:
    """A larger delta needs a smaller epsilon."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    guarantee = subject.guarantee
    more = min(delta * float(random.choice([1.001, 2.0, 100.0])), 0.9)
    return _outcome(subject, [(guarantee.epsilon(more), guarantee.epsilon(delta))], f"delta {delta!r} to {more!r}")


def profile_falls(random: Random) -> Outcome:
    """delta falls as epsilon and noise grow, and is at most 1 at epsilon 0."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    guarantee, epsilon = subject.guarantee, min(subject.guarantee.epsilon(delta).upper, 50.0) * random.random()
    here = guarantee.delta(epsilon)
    pairs = [
        (guarantee.delta(epsilon * 1.1 + 0.01), here),
        (here, guarantee.delta(0.0)),
        (guarantee.delta(0.0), Enclosure(1.0, 1.0)),
    ]
    if random.random() < 0.5 and (quiet := subject.change(1.1, 1.0, 1.0)) is not None:
        pairs.append((quiet.delta(epsilon), here))
    exact = kind(guarantee) == "exact"
    found = [_off_delta(less, more, exact) for less, more in pairs]
    text, worst = f"{epsilon!r}: {pairs} of {subject.text}", max(excess for _, excess in found)
    return Outcome(subject.name, any(bad for bad, _ in found), worst, kind(guarantee), text)


def _off_delta(less: Enclosure, more: Enclosure, exact: bool) -> tuple[bool, float]:
    """As ``_off``, relative to the delta; what is known to be wide is left out."""
    if not (0 <= less.lower <= less.upper <= 1 and 0 <= more.lower <= more.upper <= 1):
        return True, math.inf
    contradicted = exact and less.lower > more.upper * (1 + 1e-12) + 1e-300
    if less.upper <= more.upper + 1e-18:
        return contradicted, 0.0
    if exact and max(less.width / max(less.upper, 1e-300), more.width / max(more.upper, 1e-300)) > 1e-4:
        return contradicted, 0.0
    room = _room(less, more) if exact else 0.0
    return contradicted, max(less.upper - more.upper - room, 0.0) / more.upper if more.upper else math.inf


def there_and_back(random: Random) -> Outcome | None:
    """delta -> epsilon -> delta never gains and loses little: what it loses is ``excess``."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    guarantee = subject.guarantee
    epsilon = guarantee.epsilon(delta)
    if not 0 < epsilon.upper < 100:
        return None
    back = guarantee.delta(epsilon.upper)
    exact = kind(guarantee) == "exact"
    excess = max(back.upper / delta - 1, 0.0)
    if exact and (epsilon.width > 10 * WIDTH or back.width > 1e-4 * back.upper):
        excess = 0.0
    # What epsilon's own width and the slope of log delta make of it.
    slope = abs(math.log(max(guarantee.delta(epsilon.upper * (1 + 1e-3) + 1e-6).upper, 1e-300) / max(back.upper, 1e-300)))
    per_unit = slope / (epsilon.upper * 1e-3 + 1e-6)
    scaled = excess / max(1.0, per_unit * (LEAST + epsilon.upper))
    return Outcome(
        subject.name, back.lower > delta * (1 + 1e-12), scaled, kind(guarantee), f"{delta!r} {epsilon} {back} of {subject.text}"
    )


def back_and_there(random: Random) -> Outcome | None:
    """epsilon -> delta -> epsilon never gains and loses little."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    guarantee = subject.guarantee
    epsilon = guarantee.epsilon(delta).upper * float(random.choice([0.5, 0.9, 1.1]))
    if not 1e-6 < epsilon < 100:
        return None
    found = guarantee.delta(epsilon)
    if not 1e-18 < found.upper < 1:
        return None
    back = guarantee.epsilon(found.upper)
    excess, exact = max(back.upper - epsilon, 0.0) / (LEAST + epsilon), kind(guarantee) == "exact"
    if exact:
        excess = 0.0 if back.width > 10 * WIDTH else max(back.upper - epsilon - back.width, 0.0) / (LEAST + epsilon)
    text = f"{epsilon!r} {found} {back} of {subject.text}"
    return Outcome(subject.name, exact and back.lower > epsilon * (1 + 1e-12), excess, kind(guarantee), text)


def convex(random: Random) -> Outcome:
    """delta is convex in exp(epsilon); for a minimum over a search only the enclosures have to allow it."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    guarantee, top = subject.guarantee, min(subject.guarantee.epsilon(delta).upper, 30.0)
    low, middle, high = np.sort(random.random(3) * (top + 1e-3)).tolist()
    first, second, third = (guarantee.delta(e) for e in (low, middle, high))
    share = math.expm1(middle - low) / math.expm1(high - low) if high > low else 0.0
    chord = Enclosure(first.lower * (1 - share) + third.lower * share, first.upper * (1 - share) + third.upper * share)
    exact = kind(guarantee) == "exact"
    contradicted, excess = _off_delta(second, chord, exact)
    text = f"{low!r} {middle!r} {high!r}: {first} {second} {third} of {subject.text}"
    return Outcome(subject.name, contradicted, excess if exact else 0.0, kind(guarantee), text)


def _equal(subject: Subject, first: Guarantee, second: Guarantee, delta: float, what: str) -> Outcome:
    """Two ways to the same thing: overlapping enclosures, and upper ends that agree."""
    a, b = first.epsilon(delta), second.epsilon(delta)
    return _outcome(subject, [(a, b), (b, a)], f"{what}, delta {delta!r}", first)


def _few(random: Random) -> list[Subject]:
    """Currencies of one sort, whose compositions stay of that sort; or of several that are exact."""
    make = [[draws.exact], [draws.renyi], [draws.gaussian, draws.exact]][int(random.integers(3))]
    return [make[int(random.integers(len(make)))](random) for _ in range(3)]


def _one_kind(random: Random) -> tuple[Subject, list[Guarantee]]:
    subjects = _few(random)
    guarantees: list[Any] = [subject.guarantee for subject in subjects]
    if subjects[0].name == "RenyiDP":
        guarantees = [type(one)(one.directions, guarantees[0].classical) for one in guarantees]
    return Subject(
        f"tensor of {subjects[0].name}", " and ".join(subject.text for subject in subjects), lambda *_: guarantees[0]
    ), guarantees


def commutes(random: Random) -> Outcome:
    """The order of releases does not matter."""
    subject, (a, b, _) = _one_kind(random)
    return _equal(subject, tensor([a, b]), tensor([b, a]), math.exp(draws.log_delta(random)), "commutes")


def associates(random: Random) -> Outcome:
    """Nor does how they are gathered."""
    subject, (a, b, c) = _one_kind(random)
    return _equal(
        subject, tensor([a, tensor([b, c])]), tensor([tensor([a, b]), c]), math.exp(draws.log_delta(random)), "associates"
    )


def composing_costs(random: Random) -> Outcome:
    """Another release never makes the others cheaper."""
    subject, guarantees = _one_kind(random)
    delta = math.exp(draws.log_delta(random))
    whole = tensor(guarantees)
    return _outcome(
        subject, [(one.epsilon(delta), whole.epsilon(delta)) for one in guarantees], f"composing, delta {delta!r}", whole
    )


def _all_iterates(random: Random) -> Subject:
    names = ("exact-composition", "renyi-composition", "moments-accountant")
    while True:
        subject = draws.analysed(random, lambda one: one.name in names)
        if subject.run.released == "all" and subject.run.steps > 1:
            return subject


def splits(random: Random) -> Outcome | None:
    """A run of T1 + T2 steps is a run of T1 and one of T2."""
    subject = _all_iterates(random)
    run = subject.run
    unit = int(run.sampling.epoch_steps(run.n)) if run.sampling.kind in ("cyclic", "shuffled") else 1
    if run.steps < 2 * unit or run.sampling.kind == "one-pass" or isinstance(run.noise_multiplier, tuple):
        return None
    first = int(random.integers(1, run.steps // unit)) * unit
    analysis = next(one for one in ANALYSES if one.name == subject.name)
    parts = tensor([analysis.guarantee(run.replace(steps=steps)) for steps in (first, run.steps - first)])
    return _equal(subject, subject.guarantee, parts, math.exp(draws.log_delta(random)), f"split at {first}")


def permutes(random: Random) -> Outcome | None:
    """The order of a noise schedule does not matter where every step samples afresh."""
    subject = _all_iterates(random)
    run = subject.run
    if run.sampling.kind not in ("poisson", "fixed-size", "full") or run.steps > 2000:
        return None
    schedule = float(np.min(run.noise_multiplier)) * random.choice(np.linspace(1, 3, int(random.choice([2, 5, 60]))), run.steps)
    analysis = next(one for one in ANALYSES if one.name == subject.name)
    first, second = (
        analysis.guarantee(run.replace(noise_multiplier=tuple(z.tolist()))) for z in (schedule, random.permutation(schedule))
    )
    return _equal(subject, first, second, math.exp(draws.log_delta(random)), "permuted")


def dominates(random: Random) -> Outcome:
    """An analysis that is said to dominate another one covers its runs, and is no worse."""
    leader = {one.name: one for one in ANALYSES}
    subject = draws.analysed(random, lambda one: one.dominated_by is not None)
    analysis = leader[leader[subject.name].dominated_by]
    delta = math.exp(draws.log_delta(random))
    if analysis.why_not(subject.run) is not None:
        return Outcome(
            subject.name, True, math.inf, "search", f"{analysis.name} declines: {analysis.why_not(subject.run)}: {subject.text}"
        )
    pair = analysis.guarantee(subject.run).epsilon(delta), subject.guarantee.epsilon(delta)
    text = f"{analysis.name} {pair} at {delta!r} of {subject.text}"
    return Outcome(subject.name, False, _off(*pair, False)[1], "search", text)


def exact_is_least(random: Random) -> Outcome:
    """No proved bound on all iterates lies below the exact composition."""
    names = ("renyi-composition", "moments-accountant")
    subject, delta = draws.analysed(random, lambda one: one.name in names), math.exp(draws.log_delta(random))
    exact, other = ExactCompositionBound().guarantee(subject.run).epsilon(delta), subject.guarantee.epsilon(delta)
    return Outcome(
        subject.name, exact.lower > other.upper * (1 + 1e-12), 0.0, "search", f"{delta!r}: {exact} {other} of {subject.text}"
    )


def upper_is_an_upper_end(random: Random) -> Outcome:
    """What is found faster is never below what ``epsilon`` encloses, and hardly above it."""
    subject, delta = draws.subject(random), math.exp(draws.log_delta(random))
    found, said = subject.guarantee.upper(delta), subject.guarantee.epsilon(delta)
    excess = 0.0 if math.isinf(said.upper) else (found - said.upper) / (LEAST + said.upper)
    return Outcome(subject.name, found < said.upper * (1 - 1e-15), excess, "search", f"{delta!r}: {found} {said} of {subject.text}")


PROPERTIES: tuple[Callable[[Random], Outcome | None], ...] = (
    ordered,
    narrow,
    falls_with_noise,
    falls_with_fewer_steps,
    falls_with_the_rate,
    falls_with_delta,
    profile_falls,
    there_and_back,
    back_and_there,
    convex,
    commutes,
    associates,
    composing_costs,
    splits,
    permutes,
    dominates,
    exact_is_least,
    upper_is_an_upper_end,
)


def check(seed: int, index: int) -> tuple[str, Outcome]:
    """The draw with the given index: its property, and what came out. Draws that do not apply are drawn again."""
    examine = PROPERTIES[index % len(PROPERTIES)]
    random = np.random.default_rng([seed, index])
    with np.errstate(all="ignore"):
        while (outcome := examine(random)) is None:
            pass
    return examine.__name__, outcome
