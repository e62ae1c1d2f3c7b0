"""Random subjects for the contracts, reproducible one by one: analyses of random runs, and currencies with random parameters."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dplateau as dp
from dplateau.accounting import ExactComposition, GaussianDP, Guarantee, RenyiDP
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.best_of import BestOf
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.privacy_loss import PoissonRemove, PoissonReplace
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.terms import Composition, Repeated
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses import ANALYSES, Analysis
from dplateau.audit.settings import setting

N = 10_000_000
TRIES = 4000
"""Runs that are drawn until one meets all assumptions of an analysis."""
SCHEMES = (dp.Poisson, dp.FixedSize, dp.Cyclic, dp.Shuffled, dp.FullBatch, dp.OnePass)
SHARES = (0.3, 0.3, 0.1, 0.1, 0.1, 0.1)

Change = Callable[[float, float, float], Guarantee | None]


@dataclass(frozen=True)
class Subject:
    """A guarantee, and how to make it again with ``noise`` times the noise, ``steps`` times the steps, ``rate`` times the rate."""

    name: str
    text: str
    change: Change
    run: dp.Run | None = None

    @property
    def guarantee(self) -> Guarantee:
        found = self.change(1.0, 1.0, 1.0)
        assert found is not None
        return found


def between(random: np.random.Generator, low: float, high: float) -> float:
    """Uniform in the logarithm, with three digits."""
    return min(float(f"{math.exp(random.uniform(math.log(low), math.log(high))):.3g}"), high)


def log_delta(random: np.random.Generator) -> float:
    """Of a delta that is sometimes extreme."""
    return math.log(random.choice([1e-15, 0.3, 0.5])) if random.random() < 0.1 else random.uniform(math.log(1e-11), math.log(1e-2))


def all_iterates(random: np.random.Generator) -> dp.Run:
    """Many records, every sampling, all iterates released; one in five has a noise schedule."""
    steps = int(between(random, 1, 20_000))
    size = max(round(N * min(between(random, 1e-4, 2.0), 1.0)), 1)
    kind = random.choice(
        [dp.Poisson, dp.FixedSize, dp.RandomAllocation, dp.Cyclic, dp.Shuffled, dp.FullBatch, dp.OnePass],
        p=[0.3, 0.25, 0.1, 0.1, 0.1, 0.1, 0.05],
    )
    scheme = dp.FullBatch() if kind is dp.FullBatch else kind(min(size, N // steps) if kind is dp.OnePass else size)
    noise: Any = between(random, 0.6, 8.0)
    if random.random() < 0.2 and steps < 3000:
        noise = tuple((noise * random.choice(np.linspace(1, 3, 30), steps)).tolist())
    return dp.Run(
        n=N, sampling=scheme, steps=steps, noise_multiplier=noise, adjacency=str(random.choice(["add-remove", "replace"]))
    )


def last_iterate(random: np.random.Generator) -> dp.Run:
    """Equal steps and whole epochs of equal batches, as the closed forms want them; only the last iterate is released."""
    size, batches = int(between(random, 30, 3000)), int(between(random, 2, 200))
    kind = random.choice(
        [dp.Poisson, dp.FixedSize, dp.Cyclic, dp.Shuffled, dp.FullBatch, dp.OnePass], p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1]
    )
    steps = batches if kind is dp.OnePass or random.random() < 0.2 else int(between(random, 1, 100)) * batches
    scheme = dp.FullBatch() if kind is dp.FullBatch else kind(size)
    noise, smoothness = between(random, 0.8, 60.0), between(random, 0.1, 10.0)
    step_size: Any = between(random, 0.02, 1.6) / smoothness
    n = size * batches
    deviation = step_size * noise / scheme.divisors(n)
    if random.random() < 0.25 and steps < 5000:
        step_size = tuple((step_size / (1 + np.arange(steps) / random.uniform(1, 3 * steps))).tolist())
    return dp.Run(
        n=n,
        sampling=scheme,
        steps=steps,
        noise_multiplier=noise,
        step_size=step_size,
        smoothness=smoothness,
        strong_convexity=0.0 if random.random() < 0.4 else smoothness * between(random, 1e-3, 0.9),
        diameter=None if random.random() < 0.2 else deviation * between(random, 0.3, 100.0),
        adjacency=str(random.choice(["add-remove", "replace"])),
        released="last",
    )


def some_run(random: np.random.Generator) -> dp.Run:
    """One of the above, or one of those that the audit draws."""
    x = random.random()
    return all_iterates(random) if x < 0.25 else last_iterate(random) if x < 0.75 else setting(int(random.integers(2**31)), 0)


def scaled(run: dp.Run, noise: float, steps: float, rate: float) -> dp.Run | None:
    """The run with more noise, fewer (or more) steps, or smaller batches; None where it has no such form."""
    z, eta, size = run.noise_multiplier, run.step_size, getattr(run.sampling, "batch_size", None)
    changes: dict[str, Any] = {}
    if noise != 1:
        changes["noise_multiplier"] = tuple(noise * value for value in z) if isinstance(z, tuple) else noise * z
    if steps != 1:
        if any(isinstance(value, tuple) for value in (z, eta, size)):
            return None
        unit = (
            int(run.sampling.epoch_steps(run.n)) if isinstance(run.sampling, (dp.RandomAllocation, dp.Cyclic, dp.Shuffled)) else 1
        )
        changes["steps"] = math.floor(run.steps * steps / unit) * unit  # Whole epochs, which closed forms want.
        if changes["steps"] < 1 or changes["steps"] == run.steps:
            return None
    if rate != 1:
        if not isinstance(run.sampling, (dp.Poisson, dp.FixedSize)):
            return None
        less = tuple(max(rate * value, 1.0) for value in size) if isinstance(size, tuple) else max(rate * size, 1.0)
        if isinstance(run.sampling, dp.FixedSize):
            less = tuple(float(math.floor(value)) for value in less) if isinstance(less, tuple) else math.floor(less)
        changes["sampling"] = type(run.sampling)(less)
    return run.replace(**changes)


def analysed(random: np.random.Generator, wanted: Callable[[Analysis], bool] = lambda _: True) -> Subject:
    """An analysis, and a run that it covers."""
    candidates = [analysis for analysis in ANALYSES if wanted(analysis)]
    analysis = candidates[int(random.integers(len(candidates)))]
    for _ in range(TRIES):
        run = some_run(random)
        if analysis.why_not(run) is None:
            break
    else:
        raise LookupError(f"no run for {analysis.name} in {TRIES}")

    def change(noise: float, steps: float, rate: float) -> Guarantee | None:
        other = scaled(run, noise, steps, rate)
        return None if other is None or analysis.why_not(other) is not None else analysis.guarantee(other)

    return Subject(analysis.name, run.to_json(), change, run)


def _directions(parts: list[tuple[Any, float, float, float, int]], gaussian: float, both: bool) -> Callable[..., Any]:
    """Compositions of laws (kind, rate, mu, shift, count), and of their reverses, by change of noise, steps and rate."""

    def build(noise: float, steps: float, rate: float) -> tuple[Composition, ...]:
        laws = [
            (kind(q * rate, mu / noise, shift / noise), max(math.ceil(count * steps), 1)) for kind, q, mu, shift, count in parts
        ]
        found = [Composition(tuple(Repeated(law, count) for law, count in laws), gaussian / noise * math.sqrt(steps))]
        if both:
            found.append(
                Composition(tuple(Repeated(law.reverse, count) for law, count in laws), gaussian / noise * math.sqrt(steps))
            )
        return tuple(found)

    return build


def composed(random: np.random.Generator) -> tuple[Callable[..., Any], str]:
    """Directions of one to three laws, as above."""
    kinds = random.choice([PoissonRemove, PoissonReplace, Amplified])
    parts = []
    for _ in range(int(random.choice([1, 1, 2, 3]))):
        q, mu = min(between(random, 1e-3, 1.2), 0.99), between(random, 0.1, 1.5)
        shift = 0.0 if random.random() < 0.6 else mu * between(random, 0.01, 1.0)
        parts.append((kinds, q, mu, shift, int(between(random, 1, min(3e4, 10 / (q * mu + shift) ** 2 + 2)))))
    gaussian = 0.0 if random.random() < 0.7 else between(random, 0.05, 1.5)
    return _directions(parts, gaussian, kinds is PoissonRemove), f"{parts} gaussian {gaussian}"


def exact(random: np.random.Generator) -> Subject:
    build, text = composed(random)
    return Subject("ExactComposition", text, lambda *c: ExactComposition(build(*c)))


def renyi(random: np.random.Generator) -> Subject:
    (build, text), classical = composed(random), bool(random.random() < 0.3)
    return Subject("RenyiDP", text, lambda *c: RenyiDP(build(*c), classical))


def gaussian(random: np.random.Generator) -> Subject:
    mu = between(random, 1e-4, 20.0)
    return Subject("GaussianDP", f"mu {mu}", lambda z, t, q: GaussianDP(mu / z * math.sqrt(t) * q))


def concentrated(random: np.random.Generator) -> Subject:
    rho, greatest = between(random, 1e-6, 50.0), float(random.choice([1e8, between(random, 2.0, 1e3)]))
    return Subject(
        "ZeroConcentratedDP", f"rho {rho} to {greatest}", lambda z, t, q: ZeroConcentratedDP(rho / z**2 * t * q, greatest)
    )


def mixture(random: np.random.Generator) -> Subject:
    count = int(random.integers(1, 40))
    mus, weights = between(random, 1e-2, 3.0) * random.random(count) ** 2, random.random(count)
    mus[random.random(count) < 0.1] = 0.0
    weights = tuple((weights / weights.sum()).tolist())

    def change(z: float, t: float, q: float) -> Guarantee:
        return MixtureOfGaussianDP(tuple((mus / z * math.sqrt(t) * q).tolist()), weights)

    return Subject("MixtureOfGaussianDP", f"{mus} {weights}", change)


def with_slack(random: np.random.Generator) -> Subject:
    inner, slack = random.choice([exact, gaussian, concentrated, mixture])(random), between(random, 1e-16, 1e-6)
    return Subject("WithSlack", f"{slack} {inner.name} {inner.text}", lambda *c: WithSlack(inner.change(*c), slack))


def best_of(random: np.random.Generator) -> Subject:
    """Looking back r steps costs r uses and a distance that r steps absorb."""
    use, far, most = between(random, 1e-3, 0.5), between(random, 0.1, 50.0), int(between(random, 1, 3000))

    def change(z: float, t: float, q: float) -> Guarantee:
        last = max(int(most * t), 1)

        def member(r: int) -> Guarantee:
            return GaussianDP(math.hypot(use * q * math.sqrt(r), far / math.sqrt(r) if r < last else 0.0) / z)

        return BestOf(member, last, last, lambda r, delta: member(r).upper(delta))

    return Subject("BestOf", f"use {use} far {far} most {most}", change)


CURRENCIES = (exact, exact, renyi, gaussian, concentrated, mixture, with_slack, best_of)


def currency(random: np.random.Generator) -> Subject:
    """Any currency, made directly."""
    return CURRENCIES[int(random.integers(len(CURRENCIES)))](random)


def subject(random: np.random.Generator) -> Subject:
    """An analysis two times out of three."""
    return analysed(random) if random.random() < 2 / 3 else currency(random)
