"""How likely two runs are apart still, in balls: against a fine grid, the free walk, and the accountant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from dplateau.analyses.reflection_coupling import _look_backs
from dplateau.spec import Cyclic, FixedSize, FullBatch, Poisson, RandomAllocation, Run, Shuffled

pytest.importorskip("flint")

from dplateau.verifier import forgetting as blocks
from dplateau.verifier.balls import exact, precision
from dplateau.verifier.batches import Move
from dplateau.verifier.check import check
from dplateau.verifier.forgetting import apart, forgetting, survival
from dplateau.verifier.mechanism import composed
from dplateau.verifier.outcome import Outcome, Part
from dplateau.verifier.statement import Statement


@pytest.fixture(autouse=True)
def digits() -> Any:
    with precision():
        yield


def move(contraction: float, deviation: float, times: int) -> Move:
    return Move(exact(contraction), exact(0), exact(deviation), exact(0), exact(0), times)


def on_a_fine_grid(contractions: list[float], deviations: list[float], diameter: float, cells: int = 300) -> tuple[Any, Any]:
    """Midpoints, and the probability of being apart from them: masses of the walk, cell by cell."""
    edges = np.linspace(0.0, diameter, cells + 1)
    middle, g = (edges[1:] + edges[:-1]) / 2, np.ones(cells)
    kind, mass, beyond = None, np.zeros(0), np.zeros(0)
    for c, sd in zip(contractions[::-1], deviations[::-1], strict=True):
        if kind == (c, sd):
            g = mass @ g + beyond * g[-1]
            continue
        kind, start = (c, sd), c * middle[:, None]
        # Mass of rho below each edge, less what has been absorbed: P(0 < rho <= edge).
        mass = np.diff(ndtr((edges - start) / (2 * sd)) - ndtr((edges + start) / (2 * sd)), axis=1)
        beyond = ndtr((start[:, 0] - diameter) / (2 * sd)) - ndtr(-(start[:, 0] + diameter) / (2 * sd))
        g = mass @ g + beyond * g[-1]
    return middle, g


@pytest.mark.parametrize(("c", "sd", "steps"), [(1.0, 0.05, 400), (0.99, 0.03, 300), (1.01, 0.2, 40), (1.0, 0.5, 8)])
def test_equal_steps_against_a_fine_grid(c: float, sd: float, steps: int) -> None:
    middle, truth = on_a_fine_grid([c] * steps, [sd] * steps, 1.0)
    found = survival([move(c, sd, steps)], 1.0)
    for place in (25, 149, 299):
        bound = float(found(exact(float(middle[place]))))
        assert truth[place] * (1 - 1e-3) <= bound
        assert bound <= truth[place] * 1.35 + 1e-12


def test_steps_that_differ_against_a_fine_grid() -> None:
    deviations = [0.1 * (1 + t / 80) for t in range(80)]
    contractions = [1 - 2e-4 * t for t in range(80)]
    middle, truth = on_a_fine_grid(contractions, deviations, 1.0)
    found = survival([move(c, sd, 1) for c, sd in zip(contractions, deviations, strict=True)], 1.0)
    bound = float(found(exact(1)))
    assert truth[-1] * (1 - 1e-3) <= bound <= truth[-1] * 1.2
    assert float(found(exact(float(middle[30])))) >= truth[30] * (1 - 1e-3)


def test_without_a_set_the_walk_is_free() -> None:
    found = survival([move(0.9, 1.0, 1), move(1.0, 2.0, 1)], None)
    variance, reach = 1.0 + 4.0, 0.9 * 0.7 + 2e-7 * (1.0 + 2.0)
    assert float(found(exact(0.7))) == pytest.approx(math.erf(reach / math.sqrt(8 * variance)), rel=1e-12)


def test_noise_that_is_far_larger_than_the_set() -> None:
    """Then every walk starts beyond the set, by what rounding may add."""
    found = survival([move(1.0, 1.0, 1), move(1.0, 1e9, 1)], 1.0)
    assert exact(0) < found(exact(1)) < exact(1e-6)


@pytest.mark.parametrize("levels", [100, 8, 3])
@pytest.mark.parametrize("c", [0.0, 0.3, 1 - 1e-6, 1 - 1e-13, 1.0, 1 + 1e-15, 1 + 1e-7, 1.5, 40.0])
def test_a_rounded_block_leaves_no_fewer_apart(c: float, levels: int) -> None:
    """It contracts less, or expands more, rounds off more and has less noise: by no more than one of so many values a factor e."""
    step, off = exact(1.001) / levels, set[tuple[float, ...]]()
    for extra, variance in ((1e-9, 0.7), (3e-4, 1e-5), (0.02, 31.0), (0.02001, 31.1)):
        block = blocks._Block(exact(c), exact(extra), exact(variance))
        found = block.rounded(levels)
        assert block.contraction <= found.contraction <= exact(c) + abs(exact(c) - 1) * step.expm1() + exact(2e-12)
        assert block.extra <= found.extra <= block.extra * exact(0.34).exp()
        assert block.variance * (-step).exp() <= found.variance <= block.variance
        assert not any(block.apart(exact(far)) > found.apart(exact(far)) for far in (0.0, 0.1, 5.0))
        off.add(tuple(map(float, found)))
    assert len(off) == 3


def test_many_steps_that_differ_are_rounded_to_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [move(1 - 1e-3 * (t % 7), 0.1 * (1 + t / 50), 1) for t in range(40)]
    fine = [block for block, _ in blocks._varied(rows)]
    assert len(fine) == len(rows)
    monkeypatch.setattr(blocks, "_MANY", 10)
    for most in (1000, 20, 1):
        monkeypatch.setattr(blocks, "_OPERATORS", most)
        found = [block for block, count in blocks._varied(rows) if count == 1]
        assert len(found) == len(fine)
        assert all(c >= a and e >= b and v <= w for (a, b, w), (c, e, v) in zip(fine, found, strict=True))
        assert len({tuple(map(float, block)) for block in found}) <= max(most, 30) < len(fine) or most == 1000


RUNS = {
    "poisson": {"sampling": Poisson(256), "noise_multiplier": 3.0, "strong_convexity": 0.0},
    "decaying": {
        "sampling": FixedSize(256),
        "steps": 600,
        "step_size": tuple(1 - t / 1000 for t in range(600)),
        "noise_multiplier": 80.0,
        "strong_convexity": 0.0,
    },
    "strong": {
        "sampling": Poisson(500),
        "noise_multiplier": 2.0,
        "strong_convexity": 0.02,
        "l2": 0.02,
        "diameter": None,
        "steps": 3000,
    },
    "allocated": {"sampling": RandomAllocation(1000), "noise_multiplier": 30.0, "strong_convexity": 0.01},
    "shuffled": {"sampling": Shuffled(1000), "noise_multiplier": 30.0, "strong_convexity": 0.0, "adjacency": "replace"},
    "cyclic": {"sampling": Cyclic(1000), "noise_multiplier": 20.0, "strong_convexity": 0.05, "l2": 0.05},
    "full": {"sampling": FullBatch(), "noise_multiplier": 1000.0, "strong_convexity": 0.0},
    "not convex": {
        "sampling": Poisson(256),
        "noise_multiplier": 100.0,
        "strong_convexity": None,
        "step_size": 0.1,
        "diameter": 0.3,
    },
}


def run(name: str) -> Run:
    fields: dict[str, Any] = {"n": 30_000, "steps": 10**6, "step_size": 1.0, "smoothness": 1.0, "diameter": 2.0, "released": "last"}
    return Run(**(fields | RUNS[name]))


@pytest.mark.parametrize("name", RUNS)
def test_no_more_is_left_than_the_accountant_says(name: str) -> None:
    one, delta = run(name), 1e-5
    counted = one.sampling.random_size and one.strong_convexity != 0
    back, chance = _look_backs(one, 1e-3 * delta if counted else 0.0)
    place = int(np.argmax(chance <= 0.3 * delta))
    assert chance[place] <= 0.3 * delta
    found = float(apart(one, int(back[place]), delta).upper())
    assert 0.3 * chance[place] <= found <= chance[place]


def test_what_is_left_is_added_to_the_bound_of_the_window() -> None:
    one, asked = run("shuffled"), list[Run]()

    def window(part: Run) -> Statement:
        asked.append(part)
        return composed(part)

    found = forgetting(one, 3010, 1e-5, window)
    assert asked == [one.part(one.steps - 3010, one.steps)]
    ((_, inside),) = found.directions[0]
    ((_, alone),) = composed(asked[0]).directions[0]
    assert inside.square.overlaps(alone.square)
    assert found.slack.overlaps(apart(one, 3010, 1e-5))


def test_a_look_back_begins_with_an_epoch() -> None:
    with pytest.raises(ValueError, match="begin with an epoch"):
        forgetting(run("shuffled"), 3001, 1e-5, composed)


def test_in_a_fixed_order_the_first_place_is_the_worst_where_distances_grow() -> None:
    """The other records' gradient is -theta, the record's is 1 or -1 and comes in the steps 0 and 5. No gradient is clipped."""
    one = Run(
        n=160,
        sampling=Cyclic(32),
        steps=6,
        noise_multiplier=(1e-3,) * 5 + (32.0,),
        step_size=1.0,
        smoothness=1.0,
        diameter=20.0,
        adjacency="replace",
        released="last",
    )
    far = variance = 0.0
    for t, z in enumerate((1e-3,) * 5 + (32.0,)):
        grown = 1 + (32 - (t in (0, 5))) / 32
        far, variance = grown * far + (t == 0) / 16, grown**2 * variance + (z / 32) ** 2
    truth = math.erf(far / math.sqrt(8 * variance))  # of what the first use moves
    assert truth > 0.6
    assert apart(one, 1, 0.1) >= exact(truth)
    assert check([Part(one, "reflection-coupling", 1)], 1e-3, 0.1).outcome is Outcome.NOT_DECIDED
    assert apart(one.replace(strong_convexity=0.0), 1, 0.1) < exact(0.1)
