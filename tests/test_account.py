# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

import dplateau as dp
from dplateau import calibration
from dplateau._account import Report, Row
from dplateau.accounting import Asymptotic, Bound, Conjectured, Enclosure, GaussianDP, Proved, Refuted
from dplateau.accounting.enclosure import rounded_up, up
from dplateau.analyses import ANALYSES
from dplateau.spec import SAMPLINGS, PrivacyWarning

# Bu, Dong, Long, Su 2020: data, records, batch, z, epochs, delta; printed mu and epsilon of the limit, moments; certified.
TABLE = [
    ("MNIST 1", 60_000, 256, 1.3, 15, 1e-5, 0.23, 0.83, 1.19, 0.8645),
    ("MNIST 2", 60_000, 256, 1.1, 60, 1e-5, 0.57, 2.32, 3.01, 2.3816),
    ("MNIST 3", 60_000, 256, 0.7, 45, 1e-5, 1.13, 5.07, 7.10, 5.6397),
    ("MNIST 4", 60_000, 256, 0.6, 62, 1e-5, 2.00, 9.98, 13.27, 10.9495),
    ("MNIST 5", 60_000, 256, 0.55, 68, 1e-5, 2.76, 14.98, 18.72, 15.7163),
    ("MNIST 6", 60_000, 256, 0.5, 100, 1e-5, 4.78, 31.12, 32.40, 28.0460),
    ("Adult", 29_305, 256, 0.55, 18, 1e-5, 2.03, 10.20, 14.70, 11.8073),
    ("IMDb", 25_000, 512, 0.56, 9, 1e-5, 2.07, 10.43, 15.24, 12.1407),
    ("MovieLens", 800_000, 10_000, 0.6, 20, 1e-6, 1.94, 10.61, 15.39, 12.7494),
]


def poisson(n: int = 10_000, size: float = 100, steps: int = 1000, z: float = 1.0, **more: Any) -> dp.Run:
    return dp.Run(n=n, sampling=dp.Poisson(size), steps=steps, noise_multiplier=z, **more)


@pytest.mark.parametrize(("name", "n", "batch", "z", "epochs", "delta", "mu", "clt", "moments", "certified"), TABLE)
def test_published_privacy_columns(
    name: str, n: int, batch: int, z: float, epochs: int, delta: float, mu: float, clt: float, moments: float, certified: float
) -> None:
    report = dp.account(poisson(n, batch, round(epochs * n / batch), z), delta)
    rows = {row.name: row for row in report.bounds}
    assert round(report.epsilon, 4) == certified
    exact = rows["exact-composition"].epsilon
    assert exact is not None
    assert exact.width <= 1e-6
    limit = rows["gdp-clt"].bound
    assert limit is not None
    assert limit.guarantee.mu == pytest.approx(mu, abs=0.00501)
    assert limit.guarantee.epsilon(delta).upper == pytest.approx(clt, abs=0.00501)
    renyi = rows["moments-accountant"].epsilon
    assert renyi is not None
    assert renyi.upper == pytest.approx(moments, rel=0.02)


def test_calibrated_noise() -> None:
    run = dp.calibrate(poisson(steps=10_000), epsilon=2.0, delta=1e-5)
    assert isinstance(run.noise_multiplier, float)
    assert round(run.noise_multiplier, 3) == 2.127
    assert 2 - 1e-5 < dp.account(run, 1e-5).epsilon <= 2
    again = dp.calibrate(poisson(steps=10_000, z=40.0), epsilon=2.0, delta=1e-5)
    assert again.noise_multiplier == pytest.approx(run.noise_multiplier, rel=1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "sampling",
    [dp.Poisson(100), dp.FixedSize(100), dp.RandomAllocation(100), dp.Cyclic(30), dp.Shuffled(300), dp.OnePass(5), dp.FullBatch()],
    ids=lambda s: s.kind,
)
def test_noise_is_calibrated_for_every_sampling(sampling: Any, adjacency: str) -> None:
    start = dp.Run(n=1000, sampling=sampling, steps=150, noise_multiplier=1.0, adjacency=adjacency)
    for epsilon in (0.5, math.log(3), 6.0):
        run = dp.calibrate(start, epsilon=epsilon, delta=1e-6)
        z = run.noise_multiplier
        assert isinstance(z, float)
        assert run == start.replace(noise_multiplier=z)
        assert up(dp.account(run, 1e-6).epsilon) <= epsilon  # what a certificate says, too
        assert dp.account(run.replace(noise_multiplier=z * (1 - 1e-4)), 1e-6).epsilon > epsilon


@pytest.mark.parametrize("start", [0.3, 1.0, 200.0])
@pytest.mark.parametrize(
    ("sampling", "changes"),
    [
        (dp.Poisson(256), {}),
        (dp.Poisson(256), {"strong_convexity": 0.01}),
        (dp.FixedSize(256), {"strong_convexity": 0.01}),
        (dp.FixedSize(256), {"adjacency": "replace", "diameter": 0.3}),
        (dp.RandomAllocation(256), {"diameter": 0.3}),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_last_iterates_are_calibrated_from_anywhere(sampling: Any, changes: dict[str, Any], start: float) -> None:
    """A bound that is left out on the way, because it was far behind, is not left out where it is the least."""
    given = {"smoothness": 1.0, "strong_convexity": 0.0, "diameter": 2.0, "step_size": 1.0, "released": "last", **changes}
    run = dp.Run(n=30_000, sampling=sampling, steps=20_000, noise_multiplier=start, **given)
    found = dp.calibrate(run, epsilon=1.0, delta=1e-5)
    z = found.noise_multiplier
    assert isinstance(z, float)
    report = dp.account(found, 1e-5)
    assert 0.999 < report.epsilon <= 1.0
    assert dp.account(found.replace(noise_multiplier=z * (1 - 2e-3)), 1e-5).epsilon > 1.0


def test_noise_is_that_of_a_jump_where_epsilon_jumps() -> None:
    """Whole epochs are looked back: with a little more noise an epoch less is enough, and epsilon falls by 0.4 %."""
    given = {"smoothness": 1.0, "strong_convexity": 0.0, "diameter": 2.0, "step_size": 1.0, "released": "last"}
    run = dp.Run(n=30_000, sampling=dp.RandomAllocation(256), steps=10**6, noise_multiplier=9.0, adjacency="replace", **given)
    found = dp.calibrate(run, epsilon=1.0, delta=1e-5)
    z = found.noise_multiplier
    assert isinstance(z, float)
    assert 0.996 < dp.account(found, 1e-5).epsilon < 1 - 1e-3
    assert dp.account(found.replace(noise_multiplier=z * (1 - 2e-4)), 1e-5).epsilon > 1 + 7e-4


CURVES: dict[str, Callable[[float], float]] = {
    "falls like noise": lambda x: 3 * math.exp(-x),
    "bends": lambda x: math.exp(-x) + 5 * math.exp(-2 * x),
    "hardly falls": lambda x: 1.5 * math.exp(-0.05 * x),
    "falls steeply": lambda x: math.exp(-(x**3) / 50),
    "far away": lambda x: math.exp(15 - x),
    "no number at first": lambda x: math.exp(-x) if x > -1 else math.nan,
    "infinite at first": lambda x: math.exp(-x) if x > -0.5 else math.inf,
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("slope", [calibration._SLOPE, -2.0])
@pytest.mark.parametrize("start", [-3.0, 0.0, 4.0])
def test_a_curve_is_met_from_below(name: str, slope: float, start: float) -> None:
    asked = []

    def curve(x: float) -> float:
        asked.append(x)
        return CURVES[name](x)

    x, _ = calibration._reached(curve, 0.7, (start, slope), 1e-9, -40.0)
    assert 0.7 * (1 - 1e-9) <= CURVES[name](x) <= 0.7
    assert len(asked) <= 40


@pytest.mark.parametrize("start", [-0.15, -0.05, -1e-3, 0.05, 0.15])
def test_what_is_just_above_is_not_near_enough(start: float) -> None:
    x, _ = calibration._reached(lambda x: math.exp(-x), 1.0, (start, calibration._SLOPE), 0.1, -40.0)
    assert 0 <= x <= 0.1


@pytest.mark.parametrize("height", [1e-3, 0.1, math.inf])
@pytest.mark.parametrize("start", [-3.0, 0.0, 4.0])
def test_where_a_curve_jumps_the_safe_side_of_the_jump_is_found(height: float, start: float) -> None:
    x, _ = calibration._reached(
        lambda x: math.exp(0.4 - x) * (1 + height if x < 0.4 else 1 - 1e-3), 1.0, (start, calibration._SLOPE), 1e-9, -40.0
    )
    assert 0.4 <= x <= 0.4 + 1e-4


def test_curves_that_lead_nowhere() -> None:
    for curve, says in (
        (lambda x: 2.0, "no noise_multiplier reaches epsilon 1"),
        (lambda x: math.nan, "no noise_multiplier reaches epsilon 1"),
        (lambda x: 0.5, "needs almost no noise"),
    ):
        with pytest.raises(dp.InputError, match=says):
            calibration._reached(curve, 1.0, (0.0, calibration._SLOPE), 1e-9, -10.0)


def test_a_schedule_keeps_its_shape() -> None:
    shape = [1.0, 2.0, 3.0] * 200
    run = dp.calibrate(poisson(steps=600, size=300).replace(noise_multiplier=shape), epsilon=0.7, delta=1e-6)
    assert isinstance(run.noise_multiplier, tuple)
    factor = run.noise_multiplier[0]
    assert run.noise_multiplier == pytest.approx([factor * value for value in shape])
    assert 0.69 < dp.account(run, 1e-6).epsilon <= 0.7


@pytest.mark.parametrize("sampling", [dp.Poisson(100), dp.FixedSize(100)], ids=lambda s: s.kind)
@pytest.mark.parametrize("vary", ["steps", "batch_size"])
def test_counts_are_maximal(sampling: Any, vary: str) -> None:
    start = dp.Run(n=10_000, sampling=sampling, steps=3000, noise_multiplier=3.0)
    run = dp.calibrate(start, epsilon=1.5, delta=1e-6, vary=vary)
    if vary == "steps":
        assert run.sampling == start.sampling
        more = run.replace(steps=run.steps + 1)
    else:
        assert run.steps == start.steps
        more = run.replace(sampling=type(sampling)(run.sampling.batch_size + 1))
    assert dp.account(run, 1e-6).epsilon <= 1.5 < dp.account(more, 1e-6).epsilon


@pytest.mark.parametrize("sampling", [dp.FullBatch(), dp.Cyclic(30), dp.Shuffled(30)], ids=lambda s: s.kind)
def test_steps_of_fixed_orders_are_maximal(sampling: Any) -> None:
    run = dp.calibrate(dp.Run(n=100, sampling=sampling, steps=1, noise_multiplier=9.0), epsilon=2.0, delta=1e-6, vary="steps")
    assert dp.account(run, 1e-6).epsilon <= 2.0 < dp.account(run.replace(steps=run.steps + 1), 1e-6).epsilon
    if run.sampling != dp.FullBatch():
        assert run.steps % 4 == 0


def test_batches_never_exceed_the_data() -> None:
    run = dp.calibrate(poisson(n=500, size=1, steps=2, z=50.0), epsilon=3.0, delta=1e-6, vary="batch_size")
    assert run.sampling == dp.Poisson(500)


def test_one_pass_ends_with_the_data() -> None:
    start = dp.Run(n=1000, sampling=dp.OnePass(30), steps=2, noise_multiplier=4.0)
    assert dp.calibrate(start, epsilon=2.0, delta=1e-6, vary="steps").steps == 33


@pytest.mark.parametrize(
    ("n", "batch", "noise", "step_size", "convexity", "diameter", "end"),
    [(10, 7, 10.0, 0.1, 0.5, 1.0, 2), (100, 10, 3.0, 1.0, 0.1, 10.0, 30)],
)
def test_the_most_steps_in_shuffled_order(n, batch, noise, step_size, convexity, diameter, end) -> None:
    """Inside an epoch the last iterate can cost more than at its end: a search by steps alone found none, or 20 where all are."""
    run = dp.Run(
        n=n,
        sampling=dp.Shuffled(batch),
        steps=end,
        noise_multiplier=noise,
        released="last",
        step_size=step_size,
        smoothness=1.0,
        strong_convexity=convexity,
        diameter=diameter,
    )
    allowed = dp.account(run, 1e-3).epsilon * 1.0001
    found = dp.calibrate(run, epsilon=allowed, delta=1e-3, vary="steps")
    assert found.steps >= end
    assert dp.account(found, 1e-3).epsilon <= allowed


@pytest.mark.parametrize("z", [1e-9, 1e-3, 1e6])
def test_any_start_leads_to_the_same_noise(z: float) -> None:
    run = dp.calibrate(poisson(steps=10_000, z=z), epsilon=2.0, delta=1e-5)
    assert run.noise_multiplier == pytest.approx(2.12738, abs=1e-5)


@pytest.mark.parametrize("z", [0.01, 0.05, 0.2])
def test_almost_no_noise_is_no_error(z: float) -> None:
    report = dp.account(poisson(steps=10_000, z=z), 1e-5)
    exact = report.bounds[0].epsilon
    assert exact is not None
    assert exact.lower > 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"epsilon": -1.0}, "epsilon is -1"),
        ({"epsilon": math.nan}, "epsilon is nan"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta is 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta is 1"),
        ({"epsilon": 1.0, "vary": "epochs"}, "vary is 'epochs'"),
        ({"epsilon": 1e-9, "vary": "steps"}, "even steps = 1"),
        ({"epsilon": 1e-9, "vary": "batch_size"}, "even batch_size = 1"),
    ],
)
def test_what_cannot_be_calibrated(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(dp.InputError, match=says):
        dp.calibrate(poisson(), **{"delta": 1e-6, **arguments})


def test_schedules_have_no_count_to_calibrate() -> None:
    with pytest.raises(dp.InputError, match="constant noise_multiplier"):
        dp.calibrate(poisson(steps=2).replace(noise_multiplier=[1.0, 2.0]), epsilon=1.0, delta=1e-6, vary="steps")
    with pytest.raises(dp.InputError, match="constant batch_size"):
        dp.calibrate(
            dp.Run(n=100, sampling=dp.Cyclic(10), steps=2, noise_multiplier=1.0), epsilon=1.0, delta=1e-6, vary="batch_size"
        )


def test_a_large_delta_is_warned_of() -> None:
    with pytest.warns(PrivacyWarning, match="at least 1/n"):
        dp.account(poisson(n=100, size=10, steps=1), 0.01)
    for delta in (0.0, 1.0, -1.0, math.nan, math.inf):
        with pytest.raises(dp.InputError, match="delta is"):
            dp.account(poisson(), delta)


@pytest.mark.parametrize("given", [[poisson()], "run.json", None])
def test_what_is_no_run_is_said(given: Any) -> None:
    with pytest.raises(dp.InputError, match=rf"run is of type {type(given).__name__}: expected a Run, several as compose"):
        dp.account(given)


def row(kind: type[Bound], upper: float) -> Row:
    bound = kind(kind.__name__.lower(), "nowhere", GaussianDP(0.1))
    return Row(bound.name, bound.status, bound.source, Enclosure(0.0, upper), None, bound)


def test_only_proved_bounds_certify() -> None:
    others = (row(Asymptotic, 0.1), row(Conjectured, 0.2), row(Refuted, 0.01))
    report = Report(poisson(), 1e-5, (*others, row(Proved, 3.0), row(Proved, 2.0)))
    assert report.epsilon == 2.0
    assert report.best is report.bounds[4]
    assert report.to_dict()["bound"] == "proved"
    without = Report(poisson(), 1e-5, others)
    assert without.epsilon == math.inf
    assert without.best is None
    assert without.mu is None
    assert without.to_dict()["epsilon"] is None
    assert without.to_dict()["bound"] is None
    assert without.profile([1e-5])[0].upper == math.inf
    assert "inf" in str(without)


def test_a_bound_counts_where_the_one_that_dominates_it_does_not_cover_the_run() -> None:
    """Batches that are too large with a probability between 1e-6 and 1/n: the curve lay above epsilon."""
    lengths = {"step_size": 1.0, "smoothness": 1.0, "strong_convexity": 0.0, "diameter": 0.5}
    run = dp.Run(n=100, sampling=dp.Poisson(20), steps=20_000, noise_multiplier=4.0, released="last", **lengths)
    report = dp.account(run, 5e-3)
    assert report.best is not None
    assert report.best.name == "noisy-sgd"
    assert report.profile([5e-3]) == [report.best.epsilon]
    assert [bound.name for bound in report.leading] == ["exact-composition", "noisy-sgd"]


def test_an_infinite_end_is_null_in_json() -> None:
    report = Report(poisson(), 1e-5, (row(Proved, math.inf),))
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["epsilon"] is None
    assert data["bounds"][0]["epsilon"] is None
    assert data["bounds"][0]["enclosure"] is None
    assert data["bounds"][0]["why_not"]


def test_the_report() -> None:
    report = dp.account(poisson(), 1e-5)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["epsilon"] == report.epsilon
    assert [bound["name"] for bound in data["bounds"]] == [analysis.name for analysis in ANALYSES]
    assert dp.Run.from_dict(data["run"]) == report.run
    assert data["bounds"][0]["enclosure"][1] == report.epsilon
    profile = report.profile([1e-4, 1e-5, 1e-6])
    assert profile[1].upper == report.epsilon
    assert profile[0].upper < profile[1].lower <= profile[1].upper < profile[2].lower
    shown = str(report).splitlines()
    assert shown[3].startswith("* exact-composition")
    assert next(line for line in shown if line.startswith("  gdp-clt")).split()[2] == "Asymptotic:"
    everything = " ".join(str(report).split())
    assert all(row.name in everything and (row.why_not or "") in everything for row in report.bounds)
    replaced = dp.account(poisson(adjacency="replace"), 1e-5).to_dict()["bounds"]
    declined = next(bound for bound in replaced if bound["name"] == "gdp-clt")
    assert declined["epsilon"] is None
    assert "add-remove" in declined["why_not"]
    assert dp.account(poisson().replace(sampling=dp.FullBatch(), steps=4), 1e-5).mu == 2.0
    assert report.mu is None


@pytest.mark.parametrize("z", [1e-4, 1e-3, 0.02, 1e6])
@pytest.mark.parametrize("kind", ["poisson", "fixed-size", "random-allocation", "cyclic", "shuffled", "full"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_extreme_noise_gives_an_answer_or_infinity_and_never_an_error(z, kind, adjacency):
    scheme = None if kind == "full" else SAMPLINGS[kind]
    run = dp.Run(
        n=2000,
        sampling=scheme(100) if scheme else dp.FullBatch(),
        steps=300,
        noise_multiplier=z,
        step_size=0.05,
        smoothness=0.25,
        strong_convexity=0.004,
        diameter=10.0,
        adjacency=adjacency,
        released="last",
    )
    for steps in (300,) if z == 0.02 else (1, 300):  # where one step is no faster than many
        report = dp.account(run.replace(steps=steps), 1e-5)
        assert report.epsilon >= 0
        if z < 1:
            assert report.epsilon > 30
        else:
            assert report.epsilon < 0.01


def test_the_smallest_double_as_delta():
    """A share of it is 0: bounds that share it have no finite epsilon."""
    run = dp.Run(n=100, sampling=dp.FullBatch(), steps=1, noise_multiplier=5.0)
    drawn = run.replace(sampling=dp.Poisson(10))
    for one in (run, drawn, dp.Selection([run] * 3)):
        assert 0 < dp.account(one, 5e-324).epsilon < math.inf


def test_what_a_report_looks_like() -> None:
    report = dp.account(dp.Run(n=60_000, sampling=dp.Poisson(256), steps=100, noise_multiplier=1.3), delta=1e-5)
    assert repr(report) == f"<Report: epsilon {rounded_up(report.epsilon)} at delta 1e-05, Proved by exact-composition>"
    nothing = Report(report.run, 1e-5, report.bounds[-1:])
    assert repr(nothing) == "<Report: epsilon inf at delta 1e-05, nothing is proved>"
