"""Private selection in balls: divergences and rank factors against integrals and searches, and whole selections."""

# pyright: basic, reportPrivateUsage=false
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

pytest.importorskip("flint")

import dplateau as dp
from dplateau._account import leading_analyses
from dplateau.analyses.private_selection import best_of_candidates
from dplateau.certificate.proof import _selected
from dplateau.verifier import selection as module
from dplateau.verifier.balls import exact, precision
from dplateau.verifier.check import statement
from dplateau.verifier.outcome import Outcome, Part
from dplateau.verifier.selection import _Candidate, check_selection
from dplateau.verifier.statement import Statement

EXACT = "exact-composition"
SCORE = dp.Run(n=6000, sampling=dp.FullBatch(), steps=1, noise_multiplier=20.0)


def full(noise: float, steps: int = 100) -> dp.Run:
    return SCORE.replace(steps=steps, noise_multiplier=noise)


def poisson(noise: float, steps: int = 500) -> dp.Run:
    return SCORE.replace(sampling=dp.Poisson(60), steps=steps, noise_multiplier=noise)


def fixed(noise: float, steps: int = 500) -> dp.Run:
    return SCORE.replace(sampling=dp.FixedSize(60), steps=steps, noise_multiplier=noise)


SHUFFLED = SCORE.replace(
    sampling=dp.Shuffled(60), steps=500, noise_multiplier=8.0, step_size=1.0, smoothness=1.0, strong_convexity=0.01, l2=0.01,
    released="last",
)  # fmt: skip
SELECTIONS = [
    dp.Selection([full(40.0)] * 10, 0.5),
    dp.Selection([full(60.0)] * 5, 1.0),
    dp.Selection([full(40.0 + 10 * (z % 3)) for z in range(30)], 0.3),
    dp.Selection([poisson(z) for z in (3.0, 4.0, 5.0)], 0.5),
    dp.Selection([dp.compose(poisson(2.0), SCORE)] * 10, 0.5),
    dp.Selection([fixed(4.0)] * 2, 0.3),
    dp.Selection([dp.compose(fixed(3.0), SCORE), dp.compose(poisson(3.0), full(50.0, 9), SCORE)], 0.5),
    dp.Selection([poisson(3.0).replace(adjacency="replace")] * 4, 0.5),
    dp.Selection([dp.compose(SHUFFLED, SCORE)] * 6, 0.4),
    dp.Selection([poisson(1.0, 3), poisson(1.0, 1)], 0.5),
    dp.Selection([full(40.0), full(60.0)], 1e-8),
]


def candidate(run: dp.Run, order: float, bound: str = EXACT) -> _Candidate:
    with precision():
        return _Candidate(statement(Part(run, bound), 1e-6), exact(order) - 1, 2**13)


def epsilon(selection: dp.Selection, delta: float) -> float:
    """What the accountant's bound for selections says, whether it is the best or not."""
    return best_of_candidates(selection, leading_analyses(), delta).guarantee.upper(delta)


@pytest.mark.parametrize(("selection", "delta"), [*zip(SELECTIONS, itertools.cycle((1e-6, 1e-9)))])
def test_what_the_accountant_says_is_verified(selection, delta) -> None:
    """The lines are better than the accountant's, by little."""
    certified = epsilon(selection, delta)
    found = _selected(selection, certified, delta, delta)
    assert (found.outcome, found.why, found.lower, found.digits) == (Outcome.VERIFIED, None, 0.0, None)
    assert certified * (1 - 1e-3) <= found.upper <= certified


@pytest.mark.parametrize("selection", [SELECTIONS[0], SELECTIONS[4], SELECTIONS[8]])
def test_a_lower_claim_is_neither_verified_nor_refuted(selection) -> None:
    certified = epsilon(selection, 1e-6)
    found = _selected(selection, certified * (1 - 1e-3), 1e-6, 1e-6)
    assert found.outcome is Outcome.NOT_DECIDED
    assert "another order" in found.why
    assert certified * (1 - 1e-3) < found.upper <= certified


@pytest.mark.parametrize("order", [1.3, 2.0, 9.0, 40.0])
def test_the_divergence_of_poisson_sampling(order: float) -> None:
    q, mu, steps = 60 / 6000, 1 / 1.5, 500

    def moment(sign: int) -> float:
        def tilted(x: float) -> float:
            loss = sign * np.logaddexp(math.log1p(-q), math.log(q) + mu * x - mu**2 / 2)
            return math.exp(norm.logpdf(x) + (order if sign > 0 else order - 1) * loss)

        edges = [-12, -3, 0, 3, 6, 12, mu * order, mu * order + 12]
        return quad(tilted, -12, max(edges), points=edges[1:-1], epsrel=1e-12, limit=400)[0]

    found = candidate(poisson(1.5, steps), order).own
    assert float(found.mid()) == pytest.approx(steps * math.log(max(moment(1), moment(-1))), rel=1e-8)


@pytest.mark.parametrize(("draw", "adjacency"), [(poisson, "add-remove"), (poisson, "replace"), (fixed, "replace")])
def test_divergences_are_integrals_of_profiles(draw, adjacency: str) -> None:
    """``E exp(c loss) = 1 + a c times the integral of exp(c e) delta(e) + exp(-a e) reverse delta(e)``, a = 1 + c, over e > 0."""
    order, run = 4.0, draw(2.0, 1).replace(adjacency=adjacency)
    found = candidate(run, order)
    moments = []
    for ((_, one),) in found.said.directions:
        law = one.parts[0][0]

        def weighed(e: float, law=law) -> float:
            with precision():
                ahead, back = float(law.profile(exact(e)).upper()), float(law.reverse.profile(exact(e)).upper())
            return math.exp((order - 1) * e) * ahead + math.exp(-order * e) * back

        edges = [0.0, 0.005, 0.01, 0.02, 0.1, 0.5, 2.0]
        parts = [quad(weighed, a, b, epsrel=1e-7)[0] for a, b in zip(edges, [*edges[1:], 8.0], strict=True)]
        moments.append(1 + order * (order - 1) * math.fsum(parts))
    assert math.expm1(float(found.own.mid())) == pytest.approx(max(moments) - 1, rel=1e-6)


def test_the_divergence_of_shuffled_batches_is_that_of_a_mixture() -> None:
    said, order = statement(Part(SHUFFLED, "shuffled"), 1e-6), 5.0
    mean = math.fsum(float(w) * math.exp((order - 1) * order / 2 * float(one.square)) for w, one in said.directions[0])
    assert float(candidate(SHUFFLED, order, "shuffled").own) == pytest.approx(math.log(mean), rel=1e-12)


@pytest.mark.parametrize("probability", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("order", [1.5, 8.0])
def test_the_rank_factor_is_a_supremum(probability: float, mu: float, order: float) -> None:
    """Of all places in the ranking of a Gaussian candidate the worst one, to six digits; where p is 1, with its bounded tail."""
    x = np.linspace(-12, 40, 400_001)
    before, after = (
        np.logaddexp(math.log1p(-probability), math.log(probability) + norm.logsf(x + shift))
        if probability < 1
        else norm.logsf(x + shift)
        for shift in (0.0, mu)
    )
    truth = float(np.nanmax(np.where(np.isfinite(after), order * before + (1 - order) * after, -math.inf)))
    with precision():
        one = _Candidate(Statement.gaussian([(exact(1), exact(mu) ** 2)]), exact(order) - 1, 2**13)
        found = float(one.log_rank(exact(probability)))
    assert truth * (1 - 1e-9) - 1e-15 <= found <= truth * (1 + (1e-6 if probability < 1 else 0.03)) + 1e-9


def test_every_order_is_a_bound_and_the_chosen_one_is_the_best() -> None:
    selection = SELECTIONS[0]
    guarantee = best_of_candidates(selection, leading_analyses(), 1e-6).guarantee
    order, parts = guarantee.order(1e-6), [[Part(one, EXACT)] for one in selection.candidates]
    least = check_selection(parts, 0.5, order, 100.0, 1e-6).upper
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert check_selection(parts, 0.5, 1 + factor * (order - 1), 100.0, 1e-6).upper > least


def test_one_candidate_costs_what_it_costs() -> None:
    """Its divergence, however often it is tried."""
    for probability in (0.2, 1.0):
        found = check_selection([[Part(full(40.0), EXACT)]], probability, 8.0, 100.0, 1e-6).upper
        assert found == pytest.approx(8 * 100 / 40**2 / 2 + math.log1p(-1 / 8) - math.log(8e-6) / 7, rel=1e-12)


def test_more_points_are_taken_where_a_claim_needs_them(monkeypatch) -> None:
    """Candidates whose profiles are known on lattices only: a few thousand points lose a part in 10^6."""
    run = dp.Run(n=27_041, sampling=dp.FixedSize(1179), steps=41, noise_multiplier=3.3238853298767284)
    selection, delta = dp.Selection([run] * 5, 0.3), 8.535135049180329e-07
    certified = epsilon(selection, delta)
    assert _selected(selection, certified, delta, delta).outcome is Outcome.VERIFIED
    monkeypatch.setattr(module, "_POINTS", (2**13, 2**13))
    assert _selected(selection, certified, delta, delta).outcome is Outcome.NOT_DECIDED


ALLOCATED = SCORE.replace(sampling=dp.RandomAllocation(60), steps=600, noise_multiplier=3.0)


def test_candidates_with_random_allocation_have_divergences() -> None:
    """From moments of their epochs: no more than the accountant says, and nearly so much."""
    selection = dp.Selection([ALLOCATED, ALLOCATED.replace(noise_multiplier=4.0)], 0.5)
    guarantee = best_of_candidates(selection, leading_analyses(), 1e-6).guarantee
    said, order = guarantee.epsilon(1e-6).upper, guarantee.order(1e-6)
    found = check_selection([[Part(one, EXACT)] for one in selection.candidates], 0.5, order, said, 1e-6)
    assert found.outcome is Outcome.VERIFIED
    assert found.upper <= said <= found.upper * (1 + 1e-3)
    assert (
        check_selection([[Part(one, EXACT)] for one in selection.candidates], 0.5, order, 0.9 * said, 1e-6).outcome
        is not Outcome.VERIFIED
    )


@pytest.mark.parametrize(
    ("parts", "order", "why"),
    [
        ([Part(full(40.0), EXACT)], 1.0, "must be above 1"),
        ([Part(full(40.0), "pnsgd")], 5.0, "no second computation"),
        ([Part(ALLOCATED.replace(adjacency="replace"), EXACT)], 5.0, "replaced under random allocation"),
        ([Part(SHUFFLED.replace(sampling=dp.Poisson(60)), "sampled-last-iterate", 100)], 5.0, "leaves something to chance"),
    ],
)
def test_what_cannot_be_asked_is_not_decided(parts, order: float, why: str) -> None:
    found = check_selection([parts] * 2, 0.5, order, 1e3, 1e-6)
    assert found.outcome is Outcome.NOT_DECIDED
    assert why in found.why
    assert math.isinf(found.upper)


def test_what_gives_no_number_says_so() -> None:
    found = check_selection([[Part(full(40.0), EXACT)]] * 2, 1e-300, 5.0, 1e3, 1e-6)
    assert found.outcome is Outcome.NOT_DECIDED
    assert "no number" in found.why
    assert math.isinf(found.upper)


@pytest.mark.parametrize("probability", [-1.0, 0.0, 3.0, math.nan])
def test_what_is_no_probability_verifies_nothing(probability: float) -> None:
    found = check_selection([[Part(full(40.0), EXACT)]] * 2, probability, 5.0, 1e3, 1e-6)
    assert found.outcome is Outcome.NOT_DECIDED
    assert "above 0 and at most 1" in found.why
