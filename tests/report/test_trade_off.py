from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import dplateau as dp
from dplateau.accounting.enclosure import rounded_up
from dplateau.report.epsilon import against_delta, against_runs
from dplateau.report.epsilon_picture import plot_epsilon
from dplateau.report.text import as_text, trade_off_text
from dplateau.report.trade_off import ALPHAS, CERTIFIED, POINT, compared, read_attack, trade_offs
from dplateau.report.trade_off_picture import plot_trade_off
from dplateau.report.words import percent
from dplateau.spec import InputError, UncertifiedError

FULL = dp.Run(n=1000, sampling=dp.FullBatch(), steps=4, noise_multiplier=2.0)  # 1-GDP
SGD = dp.Run(n=10_000, sampling=dp.Poisson(100), steps=50, noise_multiplier=1.0)


@pytest.fixture(scope="module")
def sgd():
    return trade_offs(SGD)


def test_readings_are_those_of_the_gaussian_mechanism() -> None:
    attack = trade_offs(FULL).attack
    for false, true in attack.detects:
        assert true == pytest.approx(norm.cdf(norm.ppf(false) + 1), rel=1e-3)
        assert true >= norm.cdf(norm.ppf(false) + 1) * (1 - 1e-12)
    assert attack.advantage == pytest.approx(norm.cdf(0.5) - norm.cdf(-0.5), rel=1e-9)
    assert attack.accuracy == pytest.approx(norm.cdf(0.5), rel=1e-9)
    true = norm.cdf(norm.ppf(0.01) + 1)
    assert attack.posterior == pytest.approx(true / (true + 0.01), rel=1e-3)


def test_the_curves_are_what_the_bounds_say(sgd) -> None:
    assert [curve.name for curve in sgd.curves] == [CERTIFIED, "gdp-clt", "moments-accountant", POINT]
    assert [curve.status for curve in sgd.curves] == ["Proved", "Asymptotic", "Proved", "Proved"]
    report = dp.account(SGD)
    rows = {row.name: row for row in report.bounds}
    certified, clt, accountant, point = (curve.f for curve in sgd.curves)
    assert certified.delta(report.epsilon) == pytest.approx(1e-5, rel=0.01)
    assert clt.mu == rows["gdp-clt"].bound.guarantee.parameter
    epsilon = rows["moments-accountant"].epsilon.upper
    assert accountant.delta(epsilon) == pytest.approx(1e-5, rel=0.1)
    assert point(0.0) == pytest.approx(1 - 1e-5, rel=1e-12)
    assert point.epsilon(1e-5 * (1 + 1e-10)) == pytest.approx(report.epsilon, rel=1e-9)  # delta is rounded up
    # Every one follows from the certified curve, which is therefore nowhere below; but for what a table of deltas leaves out.
    for weaker in (accountant, point):
        assert (certified(ALPHAS) >= weaker(ALPHAS) - 1e-4).all()
        assert (certified(ALPHAS) > weaker(ALPHAS) + 0.01).any()


def test_without_the_limit_theorem_there_is_no_such_curve() -> None:
    assert [curve.name for curve in trade_offs(FULL).curves] == [CERTIFIED, "moments-accountant", POINT]


def test_several_runs() -> None:
    both = trade_offs(dp.compose(FULL, FULL))
    assert both.certified(0.5) == pytest.approx(norm.cdf(-math.sqrt(2)), rel=1e-6)
    pytest.importorskip("matplotlib")
    assert "2 runs, 8 steps" in plot_trade_off(both).axes[0].get_title(loc="left")


def test_json(sgd) -> None:
    data = json.loads(json.dumps(sgd.to_dict(), allow_nan=False))
    assert list(data) == ["epsilon", "delta", "attack", "type_i", "curves", "run"]
    assert data["type_i"][0] == 0
    assert data["type_i"][-1] == 1
    assert (np.diff(data["type_i"]) > 0).all()
    for curve in data["curves"]:
        assert (np.diff(curve["type_ii"]) <= 1e-12).all()
    assert data["attack"]["detects"][1] == {"false_positive_rate": 0.01, "true_positive_rate": sgd.attack.detects[1][1]}
    assert dp.Run.from_dict(data["run"]) == SGD


def test_percent_is_rounded_up() -> None:
    assert [percent(value) for value in (0.0, 0.0401, 0.04, 0.9999, 1.0, 1e-9, 1e-13, 5e-324)] == [
        *("0.0 %", "4.1 %", "4.0 %", "100.0 %", "100.0 %", "0.1 %", "0.1 %", "0.1 %")
    ]


def test_text_fits_the_terminal(sgd) -> None:
    text = as_text(trade_off_text(sgd))
    assert max(map(len, text.splitlines())) <= 80
    assert f"at most {percent(sgd.attack.advantage)}" in text
    assert f"1 % {percent(sgd.attack.detects[1][1]):>16}" in text
    assert "whether one particular row was in the data" in " ".join(text.split())
    assert "which of two" in " ".join(as_text(trade_off_text(trade_offs(FULL.replace(adjacency="replace")))).split())


def test_what_cannot_be_asked() -> None:
    with pytest.raises(InputError, match="delta is 0"):
        trade_offs(SGD, 0.0)
    nothing = replace(dp.account(FULL), bounds=())
    with pytest.raises(UncertifiedError, match="raise delta or the noise multiplier"):
        compared(nothing)


def test_the_picture_tells_proved_from_the_rest(sgd) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = plot_trade_off(sgd).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    epsilon = rounded_up(sgd.report.epsilon, 3)
    assert labels == [
        *("certified: exact-composition", "gdp-clt (Asymptotic: no guarantee)", "moments-accountant"),
        *(f"({epsilon}, 1e-05) alone", "perfect privacy"),
    ]
    certified, clt, accountant, point, perfect = axes.lines
    assert certified.get_linewidth() > 2 * max(line.get_linewidth() for line in (clt, accountant, point, perfect))
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--", "-", "-", "--"]
    dashes = [tuple(line._unscaled_dash_pattern[1]) for line in (clt, perfect)]
    assert len(set(dashes)) == 2
    assert {line.get_marker() for line in (accountant, point)} == {"o", "s"}
    x, y = certified.get_data()
    assert (y == sgd.certified(x)).all()
    assert list(perfect.get_ydata()) == list(1 - perfect.get_xdata())


def test_logarithmic_axes_show_rates(sgd) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = plot_trade_off(sgd, log=True).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlim() == (1e-5, 1)
    x, y = axes.lines[0].get_data()
    assert (y == 1 - sgd.certified(x)).all()
    perfect = axes.lines[-1]
    assert list(perfect.get_ydata()) == list(perfect.get_xdata())


def test_logarithmic_axes_of_the_least_delta() -> None:
    pytest.importorskip("matplotlib")
    (axes,) = plot_trade_off(trade_offs(FULL, 5e-324), log=True).axes
    assert axes.get_xlim()[0] == pytest.approx(1e-300)


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_files(tmp_path, sgd, kind, start) -> None:
    pytest.importorskip("matplotlib")
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        plot_trade_off(sgd, path)
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with pytest.raises(InputError, match="does not end in"):
        plot_trade_off(sgd, tmp_path / "a.jpg")


def test_without_matplotlib(monkeypatch, sgd) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (lambda: plot_trade_off(sgd), lambda: plot_epsilon(against_delta(FULL, [1e-4]))):
        with pytest.raises(InputError, match=r"pip install '\.\[plots\]'"):
            draw()


def test_epsilons_are_what_account_says() -> None:
    by_delta = against_delta(SGD, [1e-3, 1e-6])
    assert by_delta.places == (1e-6, 1e-3)
    for i, delta in enumerate(by_delta.places):
        report = dp.account(SGD, delta) if delta < 1e-4 else None
        rows = {row.name: row.bound for row in dp.account(SGD).bounds}
        assert by_delta.lines[1].epsilons[i] == rows["gdp-clt"].guarantee.epsilon(delta).upper
        assert report is None or by_delta.lines[0].epsilons[i] == pytest.approx(report.epsilon, rel=1e-9)
    by_steps = against_runs("steps", {50.0: SGD, 100.0: SGD.replace(steps=100)}, 1e-5)
    assert by_steps.lines[0].epsilons == (dp.account(SGD).epsilon, dp.account(SGD.replace(steps=100)).epsilon)
    assert [line.name for line in by_steps.lines] == [CERTIFIED, "gdp-clt", "moments-accountant"]
    assert [line.name for line in against_delta(FULL, [1e-5]).lines] == [CERTIFIED, "moments-accountant"]
    assert json.loads(json.dumps(by_steps.to_dict(), allow_nan=False))["places"] == [50.0, 100.0]
    with pytest.raises(InputError, match="deltas is empty"):
        against_delta(SGD, [])
    for deltas in ([2.0], [1e-5, 2.0]):
        with pytest.raises(InputError, match="delta is 2"):
            against_delta(SGD, deltas)
    with pytest.raises(InputError, match="delta is '0"):
        against_delta(SGD, [1e-5, "0.1"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="runs is empty"):
        against_runs("steps", {})


def test_the_picture_of_epsilons() -> None:
    pytest.importorskip("matplotlib")
    (axes,) = plot_epsilon(against_delta(SGD, [1e-8, 1e-6, 1e-5])).axes
    assert axes.get_xscale() == "log"
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--", "-"]
    (axes,) = plot_epsilon(against_runs("steps", {50.0: SGD})).axes
    assert axes.get_xscale() == "linear"


def test_an_attack_on_nothing_is_a_coin_toss() -> None:
    from dplateau.accounting.trade_offs import Gaussian

    attack = read_attack(Gaussian(0.0))
    assert attack.advantage == pytest.approx(0, abs=1e-9)
    assert attack.posterior == pytest.approx(0.5, abs=1e-6)
    assert all(true == pytest.approx(false, abs=1e-9) for false, true in attack.detects)


def test_a_report_can_be_used_again(sgd) -> None:
    assert compared(sgd.report).attack == sgd.attack
