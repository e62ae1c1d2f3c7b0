"""Random allocation: the laws of an epoch, their composition, and attacks on what dominates."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, GaussianDP, RenyiDP, compositions
from dplateau.accounting.attack import advantage
from dplateau.accounting.composition import _single
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace
from dplateau.accounting.random_allocation import _LAWS, AllocationAdd, AllocationRemove, AllocationReplace, _epochs
from dplateau.analyses import ExactCompositionBound, MomentsAccountantBound, RenyiCompositionBound
from dplateau.spec import Run

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(180)
WEIGHTS = WEIGHTS / math.sqrt(2 * math.pi)


def run(noise=1.0, *, batches=100, steps=None, epochs=1, **changes) -> Run:
    steps = batches * epochs if steps is None else steps
    return Run(n=10 * batches, sampling=dp.RandomAllocation(10), steps=steps, noise_multiplier=noise, **changes)


def guarantee(*args, **options):
    return ExactCompositionBound().guarantee(run(*args, **options))


def call(mu: float, strike: float) -> float:
    """E (exp(mu g - mu^2/2) - strike)_+."""
    if strike <= 0:
        return 1 - strike
    d = -math.log(strike) / mu + mu / 2
    return float(ndtr(d) - strike * ndtr(d - mu))


def of_two(mus: tuple[float, float], y: float) -> float:
    """E ((X_1 + X_2) / 2 - y)_+, by an integral."""

    def at(g: float) -> float:
        x = math.exp(mus[0] * g - mus[0] ** 2 / 2)
        return math.exp(-(g**2) / 2) / math.sqrt(2 * math.pi) * call(mus[1], 2 * y - x) / 2

    edges = sorted({-14.0, 0.0, min(max((math.log(2 * y) / mus[0] + mus[0] / 2), -14.0), 14.0), mus[0], 14.0 + mus[0]})
    return math.fsum(quad(at, a, b, epsabs=0, epsrel=1e-12, limit=400)[0] for a, b in pairwise(edges))


@pytest.mark.parametrize("mus", [(0.05, 0.05), (0.5, 0.5), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (0.4, 1.5)])
def test_two_batches_by_quadrature(mus) -> None:
    parts = ((mus[0], 2),) if mus[0] == mus[1] else tuple((mu, 1) for mu in mus)
    for epsilon in max(mus) * np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0]):
        remove = of_two(mus, math.exp(epsilon))
        # E (1 - e^epsilon S)_+ = e^epsilon E (S - e^-epsilon)_+ + 1 - e^epsilon, for S of mean 1.
        add = math.exp(epsilon) * (of_two(mus, math.exp(-epsilon)) - 1 + math.exp(-epsilon))
        for kind, truth in ((AllocationRemove, remove), (AllocationAdd, add)):
            if truth < 1e-9:
                continue
            ends = [math.exp(float(kind(0.5, max(mus), 0.0, parts, 2, safe).log_delta(epsilon))) for safe in (False, True)]
            assert ends[0] <= truth * (1 + 1e-6) <= ends[1] * (1 + 2e-6)
            assert ends[1] - ends[0] <= 1e-3 * truth


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("batches", [2, 10, 1000])
def test_an_epoch_cut_after_one_batch_is_a_poisson_step(mu, batches) -> None:
    parts = ((mu, 1),)
    pairs = (AllocationRemove, PoissonRemove), (AllocationAdd, PoissonAdd), (AllocationReplace, PoissonReplace)
    for ours, theirs in pairs:
        exact = theirs(1 / batches, mu)
        for epsilon in np.array([0.0, 0.2, 1.0, 3.0]) * min(mu, 1.0) * (1 if batches == 2 else 0.3):
            truth = float(exact.log_delta(np.array(epsilon)))
            above = float(ours(1 / batches, mu, 0.0, parts, batches, True).log_delta(np.array(epsilon)))
            if truth < (-20 if ours is AllocationReplace else -40) or not math.isfinite(truth):
                continue
            assert truth <= above + 1e-9
            assert above - truth < (0.3 if ours is AllocationReplace else 0.02)
            if ours is not AllocationReplace:
                below = float(ours(1 / batches, mu, 0.0, parts, batches, False).log_delta(np.array(epsilon)))
                assert below <= truth + 1e-9


@pytest.mark.parametrize(("noise", "batches", "delta"), [(1.0, 30, 1e-3), (0.7, 100, 1e-3), (2.0, 5, 1e-3)])
def test_an_epoch_against_a_simulation(noise, batches, delta) -> None:
    """delta(epsilon) = E_P (1 - e^epsilon / S)_+ over 4 million records, with power against a share of 2 per cent."""
    random, mu = np.random.default_rng(7), 1 / noise
    epsilon = guarantee(noise, batches=batches).epsilon(delta).upper
    kept = []
    for _ in range(40):
        g = random.standard_normal((100_000, batches))
        g[:, 0] += mu
        s = np.exp(mu * g - mu**2 / 2).mean(axis=1)
        kept.append(np.maximum(1 - math.exp(epsilon) / s, 0.0))
    values = np.concatenate(kept)
    error = values.std() / math.sqrt(values.size)
    assert error < 0.02 * delta
    assert values.mean() == pytest.approx(delta, abs=4 * error + 1e-3 * delta)


def test_figures_of_the_prototype_are_met_from_below() -> None:
    """Upper ends of a cruder enclosure, and the epsilons of Poisson batches of the same rate."""
    for noise, batches, epochs, delta, crude, poisson in (
        (1.3, 234, 15, 1e-5, 0.8424, 0.8653),
        (0.7, 234, 45, 1e-5, 5.4444, 5.6449),
        (1.0, 100, 1, 1e-6, 0.858, 0.954),
        (2.0, 20, 100, 1e-5, 5.362, 5.472),
    ):
        found = guarantee(noise, batches=batches, epochs=epochs).epsilon(delta)
        assert found.width <= 1e-4 * max(found.upper, 1.0)
        assert crude * (1 - 3e-3) <= found.lower
        assert found.upper <= crude + 5e-5
        drawn = run(noise, batches=batches, epochs=epochs).replace(sampling=dp.Poisson(10))
        assert ExactCompositionBound().guarantee(drawn).epsilon(delta).upper == pytest.approx(poisson, abs=5e-4)


@pytest.mark.parametrize(("batches", "epochs", "noise"), [(10_000, 1000, 1.0), (3, 2, 0.3), (50, 1, 30.0), (2, 7, 1e3)])
def test_enclosures_are_narrow_and_profiles_agree(batches, epochs, noise) -> None:
    said = guarantee(noise, batches=batches, epochs=epochs)
    for delta in (1e-4, 1e-8):
        epsilon = said.epsilon(delta)
        assert epsilon.width <= 1e-4 * max(epsilon.upper, 1.0)
        assert said.delta(epsilon.upper).upper <= delta * (1 + 1e-3) or epsilon.upper == 0
        assert 0 <= said.upper(delta) - epsilon.upper <= 1e-4 * max(epsilon.upper, 1.0)


@pytest.mark.parametrize(("batches", "noise", "delta"), [(20, 2.0, 1e-5), (50, 0.5, 1e-6), (3, 1.0, 1e-5), (100, 0.3, 1e-9)])
def test_a_single_epoch_by_moments(batches, noise, delta) -> None:
    """Narrower than the sums in the convex order, between whose ends it lies, in both directions and of both profiles."""
    said = guarantee(noise, batches=batches)
    found = said.epsilon(delta)
    assert found.width < 1e-6
    wide = Enclosure(0.0, 0.0)
    for above, below in zip(said.directions, said.below, strict=True):
        wide |= Enclosure(_single(below.alone.law, delta).lower, _single(above.alone.law, delta).upper)
    assert wide.lower <= found.lower < found.upper <= wide.upper
    assert wide.width > 5 * found.width
    exact = said.delta(found.upper).upper
    assert exact <= delta * (1 + 1e-6)
    assert exact >= 0.999 * max(math.exp(float(one.alone.law.log_delta(np.array(found.upper)))) for one in said.directions)


def test_shorter_epochs_and_noise_that_varies() -> None:
    same = guarantee(tuple([1.5] * 250), batches=100, steps=250).epsilon(1e-5)
    assert same == guarantee(1.5, batches=100, steps=250).epsilon(1e-5)
    path = np.linspace(1.0, 2.0, 250)
    varied = guarantee(tuple(path.tolist()), batches=100, steps=250).epsilon(1e-5)
    for level, side in ((1.0, "above"), (2.0, "below")):
        end = guarantee(level, batches=100, steps=250).epsilon(1e-5)
        assert end.lower > varied.upper if side == "above" else end.upper < varied.lower
    two = guarantee(tuple([1.0] * 50 + [2.0] * 50), batches=100).epsilon(1e-5)
    assert two.width <= 1e-4  # two levels need no rounding
    assert guarantee(2.0, batches=100).epsilon(1e-5).upper < two.lower < two.upper < guarantee(1.0, batches=100).epsilon(1e-5).lower
    # In which batch of an epoch the noise is less does not matter to the law.
    assert guarantee(tuple([1.0, 2.0] * 50), batches=100).epsilon(1e-5) == two


@pytest.mark.parametrize("pattern", ["random", "falling", "steps"])
def test_noise_levels_are_rounded_to_the_safe_side(pattern) -> None:
    """Above every law whose noise is less, below every law whose noise is more, whatever the rounding."""
    random = np.random.default_rng(3)
    noise = {"random": random.uniform(1, 2, 1030), "falling": np.geomspace(2, 1, 1030), "steps": np.repeat([1.0, 2.0], 515)}[
        pattern
    ]
    found = guarantee(tuple(noise.tolist()), batches=100, steps=1030).epsilon(1e-5)
    assert found.lower < found.upper
    least = guarantee(1.0, batches=100, steps=1030).epsilon(1e-5)
    most = guarantee(2.0, batches=100, steps=1030).epsilon(1e-5)
    assert most.lower <= found.lower
    assert found.upper <= least.upper


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("pattern", ["random", "falling"])
def test_no_batch_of_an_epoch_has_more_noise_than_it_has_or_less_for_the_lower_end(pattern: str, safe: bool) -> None:
    """Whether every batch is rounded to a level of its own, or a whole epoch to that of one of its batches."""
    noise = np.random.default_rng(3).uniform(1, 2, 2030) if pattern == "random" else np.geomspace(2, 1, 2030)
    epochs = _epochs(run(tuple(noise.tolist()), batches=100, steps=2030), 100, safe=safe)
    assert sum(len(parts) for parts, _ in epochs) <= _LAWS
    assert (max(len(parts) for parts, _ in epochs) == 1) == (pattern == "random")
    assert sorted(sum(count for _, count in parts) for parts, times in epochs for _ in range(times)) == [30] + [100] * 20
    rounded = [np.full(count, 1 / mu) for parts, times in epochs for _ in range(times) for mu, count in parts]
    ratio = np.sort(np.concatenate(rounded)) / np.sort(noise)
    assert (ratio <= 1 + 1e-12).all() if safe else (ratio >= 1 - 1e-12).all()


def test_one_batch_is_a_full_batch() -> None:
    for adjacency in ("add-remove", "replace"):
        one = Run(n=50, sampling=dp.RandomAllocation(50), steps=9, noise_multiplier=3.0, adjacency=adjacency)
        full = one.replace(sampling=dp.FullBatch())
        assert ExactCompositionBound().guarantee(one).mu == ExactCompositionBound().guarantee(full).mu


def test_a_replacement_costs_more_than_a_presence_and_no_more_than_two_gaussians() -> None:
    for noise in (0.5, 1.0, 4.0):
        one = guarantee(noise, batches=20, epochs=3).epsilon(1e-6)
        two = guarantee(noise, batches=20, epochs=3, adjacency="replace").epsilon(1e-6)
        assert one.upper < two.upper
        assert two.lower >= one.lower * (1 - 1e-9)  # the record's new value may have no gradient
        sums = GaussianDP(2 / noise * math.sqrt(3 / 20)).epsilon(1e-6)  # of each epoch's noisy gradients
        assert two.lower >= sums.lower * (1 - 1e-9)
        assert noise < 1 or two.width < 0.01 * two.upper
        certain = Run(n=20, sampling=dp.FullBatch(), steps=3, noise_multiplier=noise, adjacency="replace")
        assert two.upper <= ExactCompositionBound().guarantee(certain).epsilon(1e-6).upper


@pytest.mark.parametrize("seed", range(20))
def test_no_directions_of_the_two_records_are_worse_than_opposite_ones(seed) -> None:
    """The lemma for one batch: E (X_a - e^epsilon X_b - t)_+ for any a, b in the disc, any epsilon and t, in the plane."""
    random = np.random.default_rng(seed)
    mu, epsilon = random.uniform(0.1, 2.0), random.normal()

    def excess(a, b, t) -> float:
        x, y = NODES[:, None], NODES[None, :]
        first = np.exp(a[0] * x + a[1] * y - (a @ a) / 2)
        second = np.exp(b[0] * x + b[1] * y - (b @ b) / 2)
        return float(WEIGHTS @ np.maximum(first - math.exp(epsilon) * second - t, 0.0) @ WEIGHTS)

    worst = np.array([mu, 0.0])
    for _ in range(20):
        a, b = ((mu * math.sqrt(random.random()) * np.array([math.cos(x), math.sin(x)])) for x in random.uniform(0, 2 * np.pi, 2))
        t = random.normal() * 2
        assert excess(a, b, t) <= excess(worst, -worst, t) + 2e-3 * mu  # the kink costs the quadrature so much


@pytest.mark.parametrize("seed", range(30))
def test_no_two_batches_are_worse_than_constant_gradients(seed) -> None:
    """An epoch of two batches whose second gradient follows from the first noisy sum, against both bounds, by quadrature."""
    random, mu = np.random.default_rng([seed, 1]), float(np.random.default_rng(seed).uniform(0.2, 2.0))
    switch, size = random.normal(0, 2), random.uniform(0.3, 1, 4) * random.choice([-1, 1], 4)
    first, second = NODES[:, None], NODES[None, :]

    def ratio(gradient: float, x) -> np.ndarray:
        return np.exp(mu * gradient * x - (mu * gradient) ** 2 / 2)

    later = np.where(first > switch, size[1], size[2])
    here = (ratio(size[0], first) + np.exp(mu * later * second - (mu * later) ** 2 / 2)) / 2
    other = np.where(first > random.normal(), -1.0, size[3])
    there = (ratio(-abs(size[3]), first) + np.exp(mu * other * second - (mu * other) ** 2 / 2)) / 2
    for epsilon in (0.1, 0.5, 1.5):
        y, parts = math.exp(epsilon), ((mu, 2),)
        pairs = (
            (AllocationRemove, np.maximum(here - y, 0.0)),
            (AllocationAdd, np.maximum(1 - y * here, 0.0)),
            (AllocationReplace, np.maximum(here - y * there, 0.0)),
        )
        for kind, values in pairs:
            bound = math.exp(float(kind(0.5, mu, 0.0, parts, 2, True).log_delta(np.array(epsilon))))
            assert float(WEIGHTS @ values @ WEIGHTS) <= bound + 2e-3 * mu


def test_constant_gradients_attain_what_is_claimed() -> None:
    """The quadrature of the test above, where it must meet the bound: it has power."""
    mu, epsilon = 1.0, 0.5
    x = np.exp(mu * NODES - mu**2 / 2)
    s = (x[:, None] + x[None, :]) / 2
    mirrored = (1 / x[:, None] + 1 / x[None, :]) / 2 * math.exp(-(mu**2))
    for kind, values in (
        (AllocationRemove, np.maximum(s - math.exp(epsilon), 0.0)),
        (AllocationReplace, np.maximum(s - math.exp(epsilon) * mirrored, 0.0)),
    ):
        bound = math.exp(float(kind(0.5, mu, 0.0, ((mu, 2),), 2, True).log_delta(np.array(epsilon))))
        assert float(WEIGHTS @ values @ WEIGHTS) == pytest.approx(bound, abs=5e-3)


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.4])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_hardly_any_noise_warns_of_no_overflow(noise) -> None:
    one = dp.Run(n=500, sampling=dp.RandomAllocation(100), steps=12, noise_multiplier=noise, adjacency="replace")
    assert 10 < dp.account(one, 1e-6).epsilon < math.inf


def test_hard_regimes_stay_finite_and_never_above_plain_gaussians() -> None:
    for noise in (0.02, 0.4, 1e2, 1e6):
        for adjacency in ("add-remove", "replace"):
            said = guarantee(noise, batches=5, steps=12, adjacency=adjacency)
            certain = Run(n=1, sampling=dp.FullBatch(), steps=3, noise_multiplier=noise, adjacency=adjacency)
            top = ExactCompositionBound().guarantee(certain).epsilon(1e-6).upper
            found = said.epsilon(1e-6)
            assert 0 <= found.lower <= found.upper <= top * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(("noise", "batches", "steps"), [(2.0, 2, 2), (1.0, 100, 100), (2.0, 3, 1), (0.3, 10, 10)])
@pytest.mark.parametrize("delta", [1e-60, 1e-100, 1e-300])
def test_far_out_one_epoch_costs_no_more_than_without_sampling(noise: float, batches: int, steps: int, delta: float) -> None:
    """There the law that is rounded upwards has a mass at 0 that is more than delta."""
    said = guarantee(noise, batches=batches, steps=steps)
    found, top = said.epsilon(delta), GaussianDP(1 / noise).epsilon(delta).upper
    assert found.lower <= found.upper <= top
    assert said.upper(delta) <= top
    assert said.delta(top).upper <= delta * (1 + 1e-6)


@pytest.mark.parametrize(("noise", "batches", "adjacency"), [(0.15, 1430, "add-remove"), (0.08, 50, "replace")])
def test_deltas_where_nothing_is_known_of_sampling(noise, batches, adjacency) -> None:
    """Such an epsilon is that of the run without sampling: so are the deltas, and what attackers detect."""
    report = dp.account(run(noise, batches=batches, adjacency=adjacency), 1e-6)
    certain = Run(n=1, sampling=dp.FullBatch(), steps=1, noise_multiplier=noise, adjacency=adjacency)
    whole = ExactCompositionBound().guarantee(certain)
    for share in (0.3, 1.0, 1.3):
        epsilon = share * report.epsilon
        assert report.delta_at(epsilon) <= whole.delta(epsilon).upper * 1.001
    assert report.delta_at(report.epsilon) <= 1e-6 * (1 + 1e-6)
    assert advantage(report.trade_off) <= advantage(dp.account(certain, 1e-6).trade_off) + 1e-3


def test_both_sides_of_a_run_are_dominated_or_dominate() -> None:
    safe, rounded = compositions(run(1.0))
    assert rounded
    assert [law.law.safe for term in safe for law in term.terms] == [True, True]
    assert [law.law.safe for term in compositions(run(1.0), safe=False)[0] for law in term.terms] == [False, False]
    assert [type(term.terms[0].law) for term in compositions(run(1.0, adjacency="replace"))[0]] == [AllocationReplace]


def test_runs_compose() -> None:
    once, twice = dp.account(run(1.0), 1e-5), dp.account(run(1.0, epochs=2), 1e-5)
    # By moments too, not by sums in the convex order, whose upper end is 3e-5 of it higher.
    assert dp.account(dp.compose(run(1.0), run(1.0)), 1e-5).epsilon == pytest.approx(twice.epsilon, rel=1e-6)
    full = run(1.0).replace(sampling=dp.FullBatch(), noise_multiplier=200.0)
    mixed = dp.account(dp.compose(run(1.0), full), 1e-5)
    assert max(once.epsilon, dp.account(full, 1e-5).epsilon) < mixed.epsilon < once.epsilon + dp.account(full, 1e-5).epsilon


def test_divergences_are_not_claimed() -> None:
    for analysis in (RenyiCompositionBound(), MomentsAccountantBound()):
        assert "random allocation" in str(analysis.why_not(run(1.0)))
    replaced = run(1.0).replace(adjacency="replace")
    assert ExactComposition(compositions(replaced)[0]).divergence(2.0) == math.inf


def _moment(power: int, mu: float, count: int, batches: int) -> float:
    """``E S^power`` for a whole power, exactly: sums of k log-normals have moments that follow from those of k - 1."""
    of_one = [math.exp(k * (k - 1) * mu**2 / 2) for k in range(power + 1)]
    moments = [float((batches - count) ** k) for k in range(power + 1)]
    for _ in range(count):
        moments = [sum(math.comb(k, i) * moments[i] * of_one[k - i] for i in range(k + 1)) for k in range(power + 1)]
    return moments[power] / batches**power


@pytest.mark.parametrize(
    ("batches", "count", "mu"),
    [(2, 2, 0.5), (10, 10, 1.0), (100, 100, 0.3), (100, 30, 1.0), (5, 3, 0.8), (1, 1, 3.0), (2, 2, 3.0), (5, 3, 4.0)],
)
@pytest.mark.parametrize("power", [2, 3, 5, 8])
def test_moments_of_a_presence_are_bounded_and_nearly_met(batches: int, count: int, mu: float, power: int) -> None:
    exact = math.log(_moment(power, mu, count, batches))
    found = AllocationRemove(1 / batches, mu, 0.0, ((mu, count),), batches, True).log_moment(power - 1)
    assert found is not None
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-7)


def test_moments_of_an_absence_are_those_of_a_simulation() -> None:
    batches, mu, c = 20, 0.7, 2.5
    rng = np.random.default_rng(4)
    ratio = np.exp(mu * rng.normal(size=(400_000, batches)) - mu**2 / 2).mean(axis=1)
    powers = ratio**-c
    error = powers.std() / math.sqrt(powers.size) / powers.mean()
    found = AllocationAdd(1 / batches, mu, 0.0, ((mu, batches),), batches, True).log_moment(c)
    assert found is not None
    assert abs(found - math.log(powers.mean())) < 4 * error


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("kind", [AllocationRemove, AllocationAdd])
def test_moments_are_never_above_those_of_a_record_that_is_used_for_certain(kind: Any, c: float) -> None:
    for batches, mu in ((2, 3.0), (1000, 1.5), (50, 0.01)):
        found = kind(1 / batches, mu, 0.0, ((mu, batches),), batches, True).log_moment(c)
        assert 0 < found <= c * (c + 1) / 2 * mu**2 * (1 + 1e-12)
        assert kind(1 / batches, mu, 0.0, ((mu, batches),), batches, False).log_moment(c) is None
    for mu in (0.3, 3.0):
        assert kind(1.0, mu, 0.0, ((mu, 1),), 1, True).log_moment(c) >= c * (c + 1) / 2 * mu**2


def test_divergences_agree_with_the_exact_composition() -> None:
    """What they say of epsilon is never less, and a filter takes the run."""
    allocated = run(1.5, epochs=3)
    exact = ExactComposition(compositions(allocated)[0])
    renyi = RenyiDP(compositions(allocated)[0], orders=(5.0, 10.0, 15.0, 20.0, 30.0)).epsilon(1e-6).upper
    assert exact.epsilon(1e-6).lower <= renyi < 1.5 * exact.epsilon(1e-6).upper
    drawn = allocated.replace(sampling=dp.Poisson(allocated.n / allocated.sampling.epoch_length(allocated.n)))
    assert exact.divergence(3.0) == pytest.approx(ExactComposition(compositions(drawn)[0]).divergence(3.0), rel=0.1)
    budget = dp.Filter(n=allocated.n, epsilon=4.0, delta=1e-6)
    budget.spend(allocated)
    assert 0 < budget.left < 1


@pytest.mark.parametrize(
    ("n", "batch", "epochs", "epsilon", "delta"), [(204_158, 87, 3.7, 0.2, 2.5e-12), (101_004, 11, 64, 0.54, 2.9e-8)]
)
def test_noise_of_many_batches_is_found_at_once(
    n: int, batch: int, epochs: float, epsilon: float, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Poisson batches, which may draw a record twice, need 15 to 75 per cent more noise here: a search from there takes long."""
    asked: list[float] = []
    about = ExactCompositionBound.about

    def counted(self: ExactCompositionBound, run: Run, delta: float) -> float:
        asked.append(run.noise_multiplier)  # type: ignore[arg-type]
        return about(self, run, delta)

    monkeypatch.setattr(ExactCompositionBound, "about", counted)
    sampling = dp.RandomAllocation(batch)
    start = dp.Run(n=n, sampling=sampling, steps=round(epochs * sampling.epoch_length(n)), noise_multiplier=1.0)
    found = dp.calibrate(start, epsilon=epsilon, delta=delta)
    assert 1 <= len(asked) <= 2
    assert epsilon * (1 - 1e-4) <= dp.account(found, delta).epsilon <= epsilon


def test_calibration_meets_the_target() -> None:
    for vary in ("noise_multiplier", "steps"):
        found = dp.calibrate(run(3.0, epochs=4), epsilon=1.0, delta=1e-5, vary=vary)
        epsilon = dp.account(found, 1e-5).epsilon
        assert epsilon <= 1.0
        if vary == "noise_multiplier":
            assert epsilon > 1 - 1e-4
        else:
            assert dp.account(found.replace(steps=found.steps + 1), 1e-5).epsilon > 1.0
    batch = dp.calibrate(run(3.0, steps=40), epsilon=0.5, delta=1e-5, vary="batch_size")
    assert dp.account(batch, 1e-5).epsilon <= 0.5
