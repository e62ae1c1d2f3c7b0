"""Noisy SGD with random batches: against the formula, the exact law of a random walk, and composition."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import dplateau as dp
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.terms import Composition, Repeated
from dplateau.analyses import RenyiCompositionBound, altschuler_talwar_sgd
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDBound, NoisySGDScheduleBound, NoisySGDStronglyConvexBound, _contraction
from dplateau.analyses.base import Analysis
from dplateau.analyses.split_noise import SplitNoise

from .lemma import final_law, hockey_stick, renyi

ALL = [NoisySGDBound(), NoisySGDStronglyConvexBound(), NoisySGDScheduleBound()]


def sampled(sampling: object = None, **changes: object) -> dp.Run:
    values = {
        "n": 1000,
        "sampling": sampling or dp.FixedSize(20),
        "steps": 5000,
        "noise_multiplier": 3.0,
        "step_size": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.0,
        "diameter": 0.5,
        "adjacency": "replace",
        "released": "last",
    }
    return dp.Run(**(values | changes))


def one(order: float, *laws: StepLaw) -> float:
    return max(renyi_divergence(Composition((Repeated(law, 1),)), order) for law in laws)


def by_search(order: float, laws: tuple[tuple[type[StepLaw], float], ...], q: float, far: np.ndarray) -> float:
    """The formula, over a fine grid of splits and every look-back; far is mu_1 by look-back at the whole noise."""
    looks = np.arange(1.0, far.size + 1)
    best = far.size * one(order, *(kind(q, shift) for kind, shift in laws))
    for share in np.linspace(0.01, 0.999, 250):
        step = one(order, *(kind(q, shift / math.sqrt(share)) for kind, shift in laws))
        best = min(best, float((looks * step + order * far**2 / (2 * (1 - share))).min()))
    return best


LAWS = {
    ("fixed-size", "replace"): ((Amplified, 2.0),),
    ("fixed-size", "add-remove"): ((PresentOrEmpty, 1.0), (EmptyOrPresent, 1.0)),
    ("poisson", "replace"): ((PoissonReplace, 1.0),),
    ("poisson", "add-remove"): ((PoissonRemove, 1.0), (PoissonAdd, 1.0)),
}


@pytest.mark.parametrize(("kind", "adjacency"), LAWS)
@pytest.mark.parametrize("order", [1.5, 3.0, 8.0])
def test_the_formula(kind: str, adjacency: str, order: float) -> None:
    sampling = dp.Poisson(20) if kind == "poisson" else dp.FixedSize(20)
    z, noise = 3.0, 0.5 * 3.0 / 20
    laws = tuple((law, shift / z) for law, shift in LAWS[kind, adjacency])
    run = sampled(sampling, adjacency=adjacency)
    looks = np.arange(1.0, 5001)
    wanted = by_search(order, laws, 0.02, 0.5 / (noise * np.sqrt(looks)))
    found, outside = NoisySGDBound().guarantee(run).point(order, 1e-5)
    assert wanted * (1 - 1e-3) <= found <= wanted * 1.01
    assert outside <= 1e-12

    if kind == "fixed-size":
        strong = run.replace(strong_convexity=0.01)
        c = 1 - 0.5 * 0.01 * (0.95 if adjacency == "add-remove" else 1.0)
        far = c**looks * 0.5 / noise * np.sqrt((1 - c**2) / (1 - c ** (2 * looks)))
        wanted = by_search(order, laws, 0.02, far)
        assert wanted * (1 - 1e-3) <= NoisySGDStronglyConvexBound().guarantee(strong).point(order, 1e-5)[0] <= wanted * 1.01

    eta = 0.5 / np.sqrt(np.arange(1.0, 5001))
    wanted = by_search(order, laws, 0.02, 0.5 / np.sqrt(np.cumsum((eta[::-1] * z / 20) ** 2)))
    found = NoisySGDScheduleBound().guarantee(run.replace(step_size=eta.tolist())).point(order, 1e-5)[0]
    assert wanted * (1 - 1e-3) <= found <= wanted * 1.01


def walk(diameter: float, *, adjacency: str, z: float = 1.5, steps: int = 60, n: int = 10, c: float = 1.0) -> dp.Run:
    """Linear losses on a line: the record pulls by 1 or by -1, all others do not."""
    return sampled(
        dp.Poisson(2.0) if c == 1 else dp.FixedSize(2),
        n=n,
        steps=steps,
        noise_multiplier=z,
        step_size=1e-3,
        smoothness=1.0 if c == 1 else 1000 * (1 - c),
        strong_convexity=0.0 if c == 1 else 1000 * (1 - c),
        diameter=1e-3 * diameter,
        adjacency=adjacency,
    )


@pytest.mark.parametrize("diameter", [2.0, 6.0, 20.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_never_below_the_truth(diameter: float, adjacency: str) -> None:
    """In units of the step size: moves of 1/2 with probability 1/5, noise 3/4."""
    run = walk(diameter, adjacency=adjacency)
    assert NoisySGDBound().why_not(run) is None
    law = final_law([(0.8, 0.0), (0.2, 0.5)], 0.75, run.steps, diameter / 2)
    other = law[::-1] if adjacency == "replace" else final_law([(1.0, 0.0)], 0.75, run.steps, diameter / 2)
    guarantee = NoisySGDBound().guarantee(run)
    for order in (1.5, 2.0, 4.0, 8.0):
        truth = max(renyi(law, other, order), renyi(other, law, order))
        assert guarantee.point(order, 1e-5)[0] >= truth * 0.98
    epsilon = guarantee.epsilon(1e-3).upper
    assert max(hockey_stick(law, other, epsilon), hockey_stick(other, law, epsilon)) <= 1e-3
    # Looser than the truth, by a known factor at most: the bound is not infinite.
    assert guarantee.point(2.0, 1e-5)[0] <= 60 * max(renyi(law, other, 2.0), renyi(other, law, 2.0))


@pytest.mark.parametrize(("c", "steps"), [(0.25, 2000), (0.25, 32_000), (0.5, 64_000)])
def test_falling_steps_have_the_power_of_example_5_9(c: float, steps: int) -> None:
    """Altschuler, Talwar 2022, Example 5.9: for steps t^-c the divergence grows as T^c, after D n T^c/L steps."""

    def divergence(steps: int) -> float:
        step_size = tuple((np.arange(1.0, steps + 1) ** -c).tolist())
        run = sampled(dp.FixedSize(100), steps=steps, noise_multiplier=400.0, step_size=step_size, diameter=0.05)
        return NoisySGDScheduleBound().guarantee(run).point(2.0, 1e-5)[0]

    assert steps > 2 * 0.05 * 1000 * steps**c
    assert math.log(divergence(4 * steps) / divergence(steps)) / math.log(4) == pytest.approx(c, abs=0.02)


def test_strongly_convex_never_below_the_truth() -> None:
    run = walk(8.0, adjacency="replace", c=0.8)
    law = final_law([(0.8, 0.0), (0.2, 0.5)], 0.75, run.steps, 4.0, factor=0.8)
    guarantee = NoisySGDStronglyConvexBound().guarantee(run)
    for order in (1.5, 2.0, 4.0):
        assert guarantee.point(order, 1e-5)[0] >= renyi(law, law[::-1], order) * 0.98
    assert guarantee.epsilon(1e-5).upper < NoisySGDBound().guarantee(run).epsilon(1e-5).upper


@pytest.mark.parametrize("sampling", [dp.FixedSize(20), dp.Poisson(20)])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_plateau_below_composition(sampling: object, adjacency: str) -> None:
    run = sampled(sampling, adjacency=adjacency, diameter=0.2)
    here = NoisySGDBound().guarantee(run).epsilon(1e-5).upper
    later = NoisySGDBound().guarantee(run.replace(steps=50_000)).epsilon(1e-5).upper
    assert later <= here * (1 + 1e-5)  # the split of the noise is searched
    composed = RenyiCompositionBound().guarantee(run.replace(steps=50_000)).epsilon(1e-5).upper
    assert later < 0.5 * composed
    # Few steps: back to the start, it is composition.
    few = run.replace(steps=3, diameter=100.0)
    assert NoisySGDBound().guarantee(few).epsilon(1e-5).upper == pytest.approx(
        RenyiCompositionBound().guarantee(few).epsilon(1e-5).upper, rel=1e-3
    )


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.name)
def test_contracts(analysis: Analysis) -> None:
    run = sampled(diameter=0.2, strong_convexity=0.01)
    if isinstance(analysis, NoisySGDScheduleBound):
        run = run.replace(step_size=np.linspace(0.5, 0.3, 5000).tolist())
    assert analysis.why_not(run) is None
    guarantee = analysis.guarantee(run)
    here = guarantee.epsilon(1e-5).upper
    assert 0 < here < math.inf
    assert guarantee.epsilon(1e-6).upper > here
    assert guarantee.delta(here).upper == pytest.approx(1e-5, rel=0.05)
    assert analysis.guarantee(run.replace(noise_multiplier=4.0)).epsilon(1e-5).upper < here
    for changes, words in (
        ({"released": "all"}, "released"),
        ({"update": "post-processed"}, "not a plain gradient step"),
        ({"strong_convexity": None}, "not known to be convex"),
        ({"diameter": None}, "diameter"),
        ({"noise_multiplier": (1.0,) * 5000}, "constant"),
        ({"sampling": dp.Cyclic(20)}, "it is for sampling Poisson, FixedSize"),
        ({"sampling": dp.FixedSize(1000)}, "FullBatch"),
    ):
        assert words in (analysis.why_not(run.replace(**changes)) or "")
    assert "strongly convex" in (NoisySGDStronglyConvexBound().why_not(sampled()) or "")
    assert "alike" in (NoisySGDScheduleBound().why_not(sampled()) or "")


def test_large_poisson_batches_go_to_delta() -> None:
    # 2/(eta M) = 4/3: a batch of more than 26 instead of 20 records is not a contraction, and that is not rare.
    steep = sampled(dp.Poisson(20), step_size=1.5)
    assert "more than 26.67 records" in (NoisySGDBound().why_not(steep) or "")
    assert NoisySGDBound().why_not(steep.replace(sampling=dp.FixedSize(20))) is None
    rare = sampled(dp.Poisson(20), step_size=0.79, diameter=0.3)
    guarantee = NoisySGDBound().guarantee(rare)
    # P[Bin(1000, .02) + 1 > 50], and no more than a tenth of delta is spent on it.

    assert guarantee.escape == pytest.approx(binom.sf(49, 1000, 0.02), rel=1e-3)
    bound, outside = guarantee.point(4.0, 1e-6)
    assert 0 < outside <= 1e-7
    looks = round(outside / guarantee.escape)
    assert outside / guarantee.escape == pytest.approx(looks)
    # So many steps may escape: no split of the noise says that little by looking back over fewer.
    absorbing = 4.0 / 2 * (0.3 / (0.79 * 3.0 / 20)) ** 2 / looks
    shares = np.linspace(0.1, 0.99, 40)
    splits = [looks * one(4.0, PoissonReplace(0.02, 1 / 3 / math.sqrt(x))) + absorbing / (1 - x) for x in shares]
    assert bound >= min(splits) * 0.99
    assert guarantee.point(4.0, 0.0)[0] >= bound
    assert guarantee.divergence(4.0) == pytest.approx(5000 * one(4.0, PoissonReplace(0.02, 1 / 3)))


def test_what_rounding_adds_is_absorbed_with_the_distance() -> None:
    """A distance of 0, and twice as much rounding a step as there is noise for: no split says less."""
    order, shift, rounding = 3.0, 2.0, 0.2
    bound, _ = SplitNoise((PoissonReplace,), 0.1, shift, 300, lambda looks: 0 * looks, 0.0, rounding).point(order, 0.0)
    shares = np.linspace(0.1, 0.99, 60)
    splits = [one(order, PoissonReplace(0.1, shift / math.sqrt(x))) + order / 2 * (2 * rounding) ** 2 / (1 - x) for x in shares]
    assert bound == pytest.approx(min(splits), rel=2e-2)


def test_small_poisson_batches_contract_less() -> None:
    run = sampled(dp.Poisson(200), n=10_000, strong_convexity=0.1)
    fixed = run.replace(sampling=dp.FixedSize(200))

    factor, escape = _contraction(run)
    assert _contraction(fixed) == (pytest.approx(0.95), 0.0)
    assert 0.95 < factor < 1
    assert 0 < escape < 1e-17
    assert "may be empty" in (NoisySGDStronglyConvexBound().why_not(run.replace(sampling=dp.Poisson(5))) or "")


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("n", "b", "eta"), [(12, 3, 0.6), (40, 4, 0.3), (12, 10.8, 0.9), (30, 27, 0.7), (4, 3, 1.4), (6, 5, 1.6)])
@pytest.mark.parametrize("tail", [0.3, 0.05, 1e-3])
def test_poisson_batches_of_every_size_contract_as_claimed_or_escape(monkeypatch, n, b, eta, adjacency, tail) -> None:
    """The sizes of the batches of the other records, one by one, with the record and without."""
    monkeypatch.setattr(altschuler_talwar_sgd, "_TAIL", tail)
    for convexity in (0.2, 0.9):
        factor, escape = _contraction(sampled(dp.Poisson(b), n=n, step_size=eta, strong_convexity=convexity, adjacency=adjacency))
        assert 0 < factor <= 1
        for most in (n - 1, n) if adjacency == "add-remove" else (n - 1,):
            size = np.arange(most + 2) / b
            true = np.maximum(abs(1 - eta * convexity * size), abs(1 - eta * size)) > factor * (1 + 1e-12)
            assert binom.pmf(np.arange(most + 1), most, b / n)[true[:-1] | true[1:]].sum() <= escape * (1 + 1e-9)


def test_a_batch_of_fixed_size_may_have_an_empty_place() -> None:
    for size, step in ((1, 0.5), (4, 0.5), (20, 1.99)):
        run = sampled(dp.FixedSize(size), step_size=step, strong_convexity=0.4)
        true = [max(abs(1 - step * 0.4 * k / size), abs(1 - step * k / size)) for k in (size, size - 1)]
        assert _contraction(run)[0] == pytest.approx(true[0])
        assert _contraction(run.replace(adjacency="add-remove"))[0] == pytest.approx(max(true))
