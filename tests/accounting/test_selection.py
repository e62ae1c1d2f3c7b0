"""What it costs to tell the best of several candidates: against exact laws, and rankings that an adversary would choose."""

# pyright: basic, reportPrivateUsage=false
from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import dplateau as dp
from dplateau.accounting import Enclosure, GaussianDP, Guarantee
from dplateau.accounting.selection import Selected, log_rank_factor
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.trade_offs import trade_off
from dplateau.accounting.trade_offs.piecewise import Piecewise
from dplateau.accounting.trade_offs.smooth import Gaussian
from dplateau.training import SecureGenerator

DELTA = 1e-5


class Pair(Guarantee):
    """Two laws on a few outcomes, none of them 0: everything about them is a finite sum."""

    def __init__(self, p: np.ndarray, q: np.ndarray) -> None:
        self.p, self.q = p, q

    def delta(self, epsilon: float) -> Enclosure:
        value = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((self.p, self.q), (self.q, self.p)))
        return Enclosure(value, value)

    def epsilon(self, delta: float) -> Enclosure:
        low, high = 0.0, 60.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle).upper <= delta else (middle, high)
        return Enclosure(low, high)

    def divergence(self, order: float) -> float:
        return max(renyi(a, b, order) for a, b in ((self.p, self.q), (self.q, self.p)))


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(logsumexp(order * np.log(p) + (1 - order) * np.log(q))) / (order - 1)


def random_pair(rng: np.random.Generator, outcomes: int) -> Pair:
    p = rng.dirichlet(np.full(outcomes, rng.choice([0.3, 1.0, 5.0]))) + 1e-4
    q = p * np.exp(rng.normal(size=outcomes) * rng.choice([0.1, 0.5, 2.0]))
    return Pair(p / p.sum(), q / q.sum())


def told(laws: list[np.ndarray], ranks: list[np.ndarray], probability: float) -> np.ndarray:
    """The law of (candidate, outcome) that is told, by going through all coins and all outcomes."""
    found = {}
    for tried in itertools.product((False, True), repeat=len(laws)):
        if not any(tried):
            continue
        chance = math.prod(probability if one else 1 - probability for one in tried)
        who = [j for j, one in enumerate(tried) if one]
        for outcomes in itertools.product(*(range(len(laws[j])) for j in who)):
            weight = chance * math.prod(laws[j][k] for j, k in zip(who, outcomes, strict=True))
            best = max(zip(who, outcomes, strict=True), key=lambda one: ranks[one[0]][one[1]])
            found[best] = found.get(best, 0.0) + weight
    keys = [(j, k) for j in range(len(laws)) for k in range(len(laws[j]))]
    total = np.array([found.get(key, 0.0) for key in keys])
    return total / total.sum()


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("seed", range(60))
def test_no_ranking_of_discrete_candidates_costs_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    probability = float(rng.choice([0.1, 0.5, 0.9, 1.0]))
    pairs = [random_pair(rng, int(rng.integers(2, 5))) for _ in range(count)]
    claim = Selected(tuple(pairs), probability)
    orders = (1.2, 2.0, 6.0, 30.0)
    bounds = {order: claim.divergence(order) for order in orders}
    epsilons = {delta: claim.epsilon(delta).upper for delta in (1e-2, 1e-4)}
    sizes = [len(one.p) for one in pairs]
    for attempt in range(12):
        ranks = np.split(rng.permutation(sum(sizes)).astype(float), np.cumsum(sizes)[:-1])
        if attempt == 0:  # The most telling outcomes of one direction first, then those of the other.
            losses = [np.log(one.q / one.p) for one in pairs]
            ranks = [np.where(loss > 0, 10 + loss, -loss) for loss in losses]
            ranks = [rank + 1e-6 * j + 1e-8 * np.arange(len(rank)) for j, rank in enumerate(ranks)]
        laws = [told([getattr(one, name) for one in pairs], ranks, probability) for name in ("p", "q")]
        for a, b in (laws, laws[::-1]):
            for order, bound in bounds.items():
                assert renyi(a[a > 0], b[a > 0], order) <= bound * (1 + 1e-9) + 1e-12
            for delta, epsilon in epsilons.items():
                assert hockey_stick(a, b, epsilon) <= delta * (1 + 1e-9)


def worst_of_gaussians(mu: float, count: int, probability: float, epsilon: float) -> float:
    """Delta of the best of Gaussian candidates, ranked as an adversary would: a share that speaks for one law comes first, and then
    what speaks most for the other.
    """
    worst = 0.0
    for share in np.logspace(-3, -0.05, 40):
        y = np.linspace(-9, norm.isf(share), 20_001)
        first = share + norm.cdf(y), norm.sf(norm.isf(share) - mu) + norm.cdf(y - mu)
        nobody = (1 - probability) ** count
        kept = [((1 - probability * one) ** count - nobody) / (1 - nobody) for one in first]
        worst = max(worst, np.maximum(-np.diff(kept[0]) + math.exp(epsilon) * np.diff(kept[1]), 0).sum())
    return worst


@pytest.mark.parametrize(("count", "probability", "mu"), [(3, 0.5, 0.2), (10, 0.5, 0.15), (10, 1.0, 0.09), (40, 0.3, 0.1)])
def test_gaussian_candidates_are_refuted_just_below(count: int, probability: float, mu: float) -> None:
    """The bound holds, and one that allowed a fifth more mu at the same epsilon would be false."""
    epsilon = Selected((GaussianDP(mu),) * count, probability).epsilon(DELTA).upper
    assert worst_of_gaussians(mu, count, probability, epsilon) <= DELTA
    assert worst_of_gaussians(1.2 * mu, count, probability, epsilon) > DELTA


def test_a_mutation_without_the_ranks_is_refuted() -> None:
    """The ranks of the others tell something, too: their factor cannot be left out."""
    count, mu, order = 30, 0.1, 15.0
    whole = Selected((GaussianDP(mu),) * count, 0.5).divergence(order)
    bare = GaussianDP(mu).divergence(order) + math.log(count * 0.5) / (order - 1)
    assert whole > 1.5 * bare
    epsilon = bare + math.log1p(-1 / order) - math.log(DELTA * order) / (order - 1)
    assert worst_of_gaussians(mu, count, 0.5, epsilon) > DELTA


@pytest.mark.parametrize("probability", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_the_rank_factor_is_a_supremum(probability: float, mu: float) -> None:
    f, order = trade_off(GaussianDP(mu)), 8.0
    x = np.linspace(-12, 12, 200_001)
    before, after = (
        np.logaddexp(math.log1p(-probability), math.log(probability) + norm.logsf(x + shift))
        if probability < 1
        else norm.logsf(x + shift)
        for shift in (0.0, mu)
    )
    exact = (order * before + (1 - order) * after).max()
    value = log_rank_factor(f, probability, order, 15.0, GaussianDP(mu).divergence(15.0))
    assert exact * (1 - 1e-9) <= value
    if probability < 1:
        assert value <= exact * 1.01 + 1e-6


@pytest.mark.parametrize("points", [3, 8, 40])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_the_tail_that_few_lines_do_not_follow_counts_from_its_beginning(points: int, mu: float) -> None:
    """Beyond the last corner the divergence of a larger order bounds what a candidate of any rank may tell."""
    f = Gaussian(mu).polygon(points, least=0.1)
    x = np.linspace(-12, 12, 20_001)
    for order in (1.2, 1.5, 3.0, 8.0):
        exact = (order * norm.logsf(x) + (1 - order) * norm.logsf(x + mu)).max()
        further = 2 * order - 1
        assert log_rank_factor(f, 1.0, order, further, GaussianDP(mu).divergence(further)) >= exact * (1 - 1e-9)


def test_edges_of_the_rank_factor() -> None:
    """Between two corners the largest value may lie inside the edge."""
    f = Piecewise(np.array([0.0, 0.3, 1.0]), np.array([1.0, 0.4, 0.0]))
    for probability, order in ((0.3, 3.0), (0.9, 20.0)):
        a = np.linspace(0, 1, 200_001)
        exact = (order * np.log1p(-probability * a) + (1 - order) * np.log(1 - probability + probability * f(a))).max()
        assert exact - 1e-12 <= log_rank_factor(f, probability, order, 1e3, math.inf) <= exact + 1e-6
    assert log_rank_factor(Piecewise(*np.zeros((2, 1))), 0.5, 2.0, 3.0, math.inf) == math.inf


def test_one_candidate_costs_what_it_costs() -> None:
    one = GaussianDP(0.5)
    assert Selected((one,), 1.0).divergence(5.0) == pytest.approx(one.divergence(5.0), rel=1e-9)
    assert Selected((one,), 0.2).divergence(5.0) == pytest.approx(one.divergence(5.0), rel=1e-9)


def test_a_candidate_that_has_no_divergence_leaves_none() -> None:
    for some in ((GaussianDP(0.1), WithSlack(GaussianDP(0.1), 1e-9)), (GaussianDP(0.1), GaussianDP(math.inf))):
        for candidates in (some, some[::-1]):
            claim = Selected(candidates, 0.5)
            assert claim.divergence(3.0) == claim.epsilon(DELTA).upper == math.inf
            assert claim.delta(2.0).upper == 1


def test_more_candidates_and_larger_probabilities_cost_more() -> None:
    by_count = [Selected((GaussianDP(0.1),) * k, 0.5).epsilon(DELTA).upper for k in (1, 2, 5, 20, 100)]
    by_probability = [Selected((GaussianDP(0.1),) * 10, p).epsilon(DELTA).upper for p in (0.01, 0.1, 0.5, 0.9, 1.0)]
    assert by_count == sorted(by_count)
    assert by_probability == sorted(by_probability)


def test_profile_and_epsilon_agree() -> None:
    claim = Selected((GaussianDP(0.2), GaussianDP(0.1), GaussianDP(0.1)), 0.5)
    for delta in (1e-3, 1e-6, 1e-9):
        assert claim.delta(claim.epsilon(delta).upper).upper <= delta * (1 + 1e-6)


def test_what_has_no_divergence_is_not_selected_from() -> None:
    allocated = dp.Run(n=1000, sampling=dp.RandomAllocation(100), steps=20, noise_multiplier=3.0, adjacency="replace")
    report = dp.account(dp.Selection([allocated, allocated]), delta=1e-5)
    row = next(one for one in report.bounds if one.name == "private-selection")
    assert row.epsilon is None
    assert "candidate 1" in str(row.why_not)
    assert math.isfinite(report.epsilon)  # by composition


@pytest.mark.parametrize("mu", [1e-6, 1e-3])
@pytest.mark.parametrize("probability", [1e-9, 1e-4, 1e-3])
def test_a_rank_that_tells_little_keeps_its_digits(mu: float, probability: float) -> None:
    # 1 - p + p beta is nearly 1: its logarithm lost a rounding of 1, times the order and the number of candidates.
    f, order = trade_off(GaussianDP(mu), points=60, least=1e-6), 1.6e5
    polygon = f.polygon()
    with mp.workdps(40):
        corners = ((mp.mpf(a), mp.mpf(b)) for a, b in zip(polygon.alpha.tolist(), polygon.beta.tolist(), strict=True))
        exact = max(order * mp.log1p(-probability * a) + (1 - order) * mp.log1p(-probability * (1 - b)) for a, b in corners)
        assert log_rank_factor(f, probability, order, 2 * order, math.inf) >= exact * (1 - 1e-11)


class Answers(Guarantee):
    """Randomised response: an answer of two, the right one with odds of ``e^most``."""

    def __init__(self, most: float) -> None:
        with mp.workdps(60):
            self.most, self.wrong = most, 1 / (1 + mp.exp(most))

    def delta(self, epsilon: float) -> Enclosure:
        with mp.workdps(60):
            value = float(max(1 - self.wrong * (1 + mp.exp(epsilon)), mp.mpf(0))) * (1 + 1e-15)
        return Enclosure(value, value)

    def epsilon(self, delta: float) -> Enclosure:
        return Enclosure(0.0, self.most)

    def divergence(self, order: float) -> float:
        with mp.workdps(60):
            right, a = 1 - self.wrong, mp.mpf(order)
            return float(mp.log(right**a * self.wrong ** (1 - a) + self.wrong**a * right ** (1 - a)) / (a - 1)) * (1 + 1e-15)


@pytest.mark.parametrize("probability", [1 - 1e-15, 1 - 1e-13, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("most", [30.0, 33.0])
def test_a_candidate_that_is_hardly_ever_left_out_keeps_its_digits(most: float, probability: float) -> None:
    # 1 - p + p beta is next to 0: taken as 1 less the rest it lost a rounding of 1, which a large order multiplies.
    order, one = 1.6e5, Answers(most)
    with mp.workdps(60):
        # Wrong answers come first in the ranking, so a right one tells that both were; of equal ones that of the first candidate.
        p, left_out, wrong = mp.mpf(probability), 1 - mp.mpf(probability), one.wrong
        laws = [
            [p * b, (1 - p * b) * p * b, p * a * (1 - p * b), left_out * p * a] for a, b in ((1 - wrong, wrong), (wrong, 1 - wrong))
        ]
        moment = mp.fsum(a**order * b ** (1 - order) for a, b in zip(*laws, strict=True) if a)
        exact = mp.log(moment / (1 - left_out**2)) / (order - 1)
    assert exact <= Selected((one, one), probability).divergence(order) <= exact * (1 + 1e-3)


@pytest.mark.parametrize("probability", [0.5, 0.9, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
@pytest.mark.parametrize(("mu", "order"), [(0.01, 1e4), (0.15, 20.0), (0.3, 700.0), (4.0, 3.0)])
def test_the_rank_factor_is_rounded_up(mu: float, order: float, probability: float) -> None:
    polygon = trade_off(GaussianDP(mu), points=60, least=1e-6).polygon()
    with mp.workdps(40):
        p, corners = mp.mpf(probability), zip(map(mp.mpf, polygon.alpha.tolist()), map(mp.mpf, polygon.beta.tolist()), strict=True)
        exact = max(order * mp.log(1 - p * a) + (1 - order) * mp.log(1 - p + p * b) for a, b in corners)
        assert exact <= log_rank_factor(polygon, probability, order, 2 * order, math.inf)


class OneWord(SecureGenerator):
    """All its words are the same one."""

    word = 0

    def _words(self, count: int, memory: np.ndarray | None = None) -> np.ndarray:
        return np.full(count, self.word, np.uint64)


def heads(probability: float) -> Fraction:
    """How likely it is that the first coin shows heads, as it is drawn: the share of the words that make it do so."""
    generator, low, high = OneWord(), 0, 2**64  # The word 2^64 would surely, and word 0 surely does not.
    while high - low > 1:
        generator.word = (low + high) // 2
        low, high = (low, generator.word) if generator.bernoulli_positions(1, probability).size else (generator.word, high)
    return Fraction(2**64 - high, 2**64)


@pytest.mark.parametrize("probability", [0.3, 1e-3, 1.1e-7, 2.2e-8, 1.3e-8, 1.7e-8, 4.1e-9, 3.3e-10])
def test_coins_of_a_small_probability_prefer_no_candidate(probability: float) -> None:
    """A grid of 53 bits has few numbers for the heads of rare coins: a costly candidate was tried more often than others."""
    assert abs(heads(probability) - Fraction(probability)) <= Fraction(1, 2**64)  # further words decide within one
    order = 3.0
    for costly in (0, 1):
        mus = np.full(2, 0.01)
        mus[costly] = 2.0
        own = np.exp((order - 1) * order * mus**2 / 2)
        chances = np.array([probability, (1 - probability) * probability])
        true = math.log(chances @ own / chances.sum()) / (order - 1)
        assert true <= Selected(tuple(GaussianDP(mu) for mu in mus), probability).divergence(order)
