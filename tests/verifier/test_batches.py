"""What steps do to distances, in balls: against exact sums, loops and enumerations."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import pytest

from dplateau.spec import ROUND_OFF, Cyclic, FixedSize, FullBatch, Poisson, RandomAllocation, Run, Shuffled

pytest.importorskip("flint")

from flint import arb

from dplateau.verifier.balls import exact, precision
from dplateau.verifier.batches import Move, check, likely, more_than, most, moves, parted, travelled, unusual
from dplateau.verifier.steps import steps


@pytest.fixture(autouse=True)
def digits() -> Any:
    with precision():
        yield


CURVED = Fraction(1 + 1e-12)
"""So many times as curved as is stated are the rows that training takes."""


def run(sampling: Any = None, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "n": 100,
        "sampling": sampling or FixedSize(10),
        "steps": 12,
        "noise_multiplier": 2.0,
        "clip_norm": 0.5,
        "step_size": 0.25,
        "smoothness": 2.0,
        "strong_convexity": 0.5,
        "released": "last",
    }
    return Run(**(fields | changes))


def holds(ball: arb, value: Fraction) -> bool:
    return bool(ball.contains(exact(value))) or abs(ball - exact(value)) < exact(1e-40)


@pytest.mark.parametrize("k", [-1, 0, 3, 39, 40])
def test_tail_of_a_binomial(k: int) -> None:
    q = Fraction(3, 10)
    tail = sum((comb(40, j) * q**j * (1 - q) ** (40 - j) for j in range(k + 1, 41)), Fraction(0))
    assert holds(more_than(k, 40, q), tail)


@pytest.mark.parametrize(
    ("n", "q", "tail"),
    [
        (40, Fraction(1, 4), 1e-3),
        (30_000, Fraction(1, 100), 1e-12),
        (1000, Fraction(999, 1000), 1e-9),
        (10**14, Fraction(1, 2), 1e-9),
    ],
)
def test_quantile_is_the_least(n: int, q: Fraction, tail: float) -> None:
    k = most(n, q, tail)
    assert more_than(k, n, q) <= exact(tail)
    assert more_than(k - 1, n, q) > exact(tail)


def the_move(one: Run, budget: float = 0.0, *, both: bool = False) -> Move:
    (move,) = moves(one, steps(one), budget, both=both)
    return move


def test_contraction_of_fixed_sizes() -> None:
    assert holds(the_move(run()).contraction, Fraction(7, 8))
    assert holds(the_move(run(), both=True).contraction, 1 - Fraction(1, 4) * Fraction(9, 20))
    assert holds(the_move(run(adjacency="replace"), both=True).contraction, Fraction(7, 8))
    # The l2 term is added once, whatever the batch.
    assert holds(the_move(run(l2=0.5), both=True).contraction, Fraction(7, 8))
    assert holds(the_move(run(strong_convexity=None, diameter=1.0)).contraction, 1 + CURVED / 2)
    # The last batch of an epoch may be small.
    assert holds(the_move(run(Cyclic(30))).contraction, 1 - Fraction(1, 8) / 3)


def test_one_last_step_has_the_size_of_its_batch() -> None:
    one = run(FixedSize((2,) * 11 + (20,)))
    (last,) = moves(one, steps(one)[-1:], 0.0)
    assert holds(last.contraction, Fraction(7, 8))
    assert holds(moves(one, steps(one), 0.0)[-1].contraction, Fraction(7, 8))


def test_contraction_between_quantiles_costs_their_tails() -> None:
    q, tail = Fraction(1, 10), 1e-3 / 24
    high, more = most(100, q, tail), most(99, 1 - q, tail)
    move = the_move(run(Poisson(10)), 1e-3)
    assert holds(
        move.contraction,
        max(abs(1 - Fraction(1, 4) * Fraction(99 - more, 20)), abs(1 - Fraction(1, 2) * CURVED * Fraction(high, 10))),
    )
    assert move.chance.overlaps(more_than(high, 100, q) + more_than(more, 99, 1 - q))
    assert unusual([move]) <= exact(1e-3)
    assert unusual([move]).overlaps(12 * move.chance)
    assert unusual([move, move._replace(times=5)]).overlaps(17 * move.chance)
    # Convex losses: below 2/(step size smoothness) times the public size a batch does not expand.
    plain = the_move(run(Poisson(10), strong_convexity=0.0, diameter=1.0), 1e-3)
    assert plain.contraction == 1
    assert plain.chance.overlaps(more_than(39, 100, q))


def test_the_other_data_set_may_have_a_record_more() -> None:
    q, tail = Fraction(1, 10), 1e-3 / 24
    plain = {"strong_convexity": 0.0, "diameter": 1.0}
    assert the_move(run(Poisson(10), **plain), both=True).chance.overlaps(more_than(39, 101, q))
    assert the_move(run(Poisson(10), adjacency="replace", **plain), both=True).chance.overlaps(more_than(39, 100, q))
    bent = the_move(run(Poisson(10), strong_convexity=None, diameter=1.0), 2e-3, both=True)
    assert bent.chance.overlaps(more_than(most(101, q, 2e-3 / 12), 101, q))
    assert the_move(run(Poisson(10)), 1e-3, both=True).chance.overlaps(
        more_than(most(101, q, tail), 101, q) + more_than(most(99, 1 - q, tail), 99, 1 - q)
    )
    longest = run(FullBatch(), step_size=1.0, **plain)
    assert holds(the_move(longest, both=True).contraction, CURVED * Fraction(2 * 101, 100) - 1)
    assert the_move(longest).contraction == 1


def test_gap_and_noise() -> None:
    move = the_move(run(RandomAllocation(30), adjacency="replace"))
    assert holds(move.gap, Fraction(1, 4) * Fraction(1, 2) * 2 / 25)
    assert holds(move.deviation, Fraction(1, 4) * Fraction(1, 2) * 2 / 25)
    assert holds(move.used, Fraction(1, 4))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("epoch", [1, 5])
def test_distance_is_that_of_a_loop(epoch: int, mean: bool) -> None:
    alike = the_move(run(steps=13))
    varying = [alike._replace(times=1, gap=alike.gap * (1 + t % 3)) for t in range(13)]
    for rows, gaps in (([alike], [1] * 13), (varying, [1 + t % 3 for t in range(13)])):
        far = 0.0
        for t in range(13):
            far = float(alike.contraction) * far + 2 * ROUND_OFF * float(alike.deviation)
            if (t + 1) % epoch == 0 or (t == 12 and len(rows) > 1):
                far += float(alike.gap) * max(gaps[t - t % epoch : t + 1]) * (float(alike.used) if mean else 1)
        found = float(travelled(rows, epoch, mean=mean))
        if len(rows) == 1 and epoch > 1:
            # A last epoch that is not complete counts as a whole one.
            assert found >= far
        else:
            assert found == pytest.approx(far, rel=1e-12)


@pytest.mark.parametrize("varying", [False, True])
def test_the_first_place_moves_furthest_where_steps_expand(varying: bool) -> None:
    alike = the_move(run(steps=10, strong_convexity=None, diameter=1.0))
    rows = [alike._replace(times=1)] * 10 if varying else [alike]
    c, rounding = float(alike.contraction), 2 * ROUND_OFF * float(alike.deviation)
    far = float(alike.gap) * (c**4 + c**9) + rounding * sum(c**t for t in range(10))
    assert float(travelled(rows, 5)) == pytest.approx(far, rel=1e-12)


def test_chernoff_is_exceeded_no_more_often() -> None:
    tail, alike = 1e-2, the_move(run())
    for rows in ([alike], [alike._replace(times=1, gap=alike.gap * (1 + t % 2)) for t in range(12)]):
        gaps = [1 + t % 2 if len(rows) > 1 else 1 for t in range(12)]
        found, q, c = float(likely(rows, tail)), 0.1, float(alike.contraction)
        weights = [c ** (11 - t) * float(alike.gap) * gaps[t] for t in range(12)]
        exceeded = 0.0
        for coins in product((0, 1), repeat=12):
            if sum(w for w, coin in zip(weights, coins, strict=True) if coin) > found:
                exceeded += q ** sum(coins) * (1 - q) ** (12 - sum(coins))
        assert exceeded <= tail
        assert found < 0.6 * float(travelled(rows))


def test_groups_of_steps_cost_little() -> None:
    one = run(steps=30_000, step_size=1e-3, sampling=FixedSize(2))
    earlier, last = parted([the_move(one)], 10_000)
    written = [earlier[0]._replace(times=1)] * earlier[0].times
    assert last[0].times == 10_000
    grouped, alone = float(likely(earlier, 1e-8)), float(likely(written, 1e-8))
    assert alone * (1 - 1e-9) <= grouped <= alone * (1 + 1e-4)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sampling": Shuffled(10)}, "batches are shuffled"),
        ({"released": "all"}, "all iterates"),
        ({"update": "post-processed"}, "plain gradient step"),
        ({"smoothness": None}, "smoothness or step_size"),
        ({"strong_convexity": None, "diameter": 1.0}, "not known to be convex"),
        ({"strong_convexity": 0.0}, "the start is not forgotten"),
        ({"step_size": 1.01}, "exceeds 2/smoothness"),
        ({"steps": 5}, "5 are not some of its 5 steps"),
        ({"sampling": RandomAllocation(50)}, "begin with an epoch"),
    ],
)
def test_what_is_not_covered_is_refused(changes: dict[str, Any], reason: str) -> None:
    check(run(), 5, FixedSize, RandomAllocation)
    with pytest.raises(ValueError, match=reason):
        check(run(**changes), 5, FixedSize, RandomAllocation)


def test_losses_need_not_be_convex_where_the_set_is_bounded() -> None:
    check(run(FullBatch(), strong_convexity=None, diameter=1.0, step_size=5.0), 5, FullBatch, convex=False)
    with pytest.raises(ValueError, match="not known to be convex"):
        check(run(FullBatch(), strong_convexity=None), 5, FullBatch, convex=False)
