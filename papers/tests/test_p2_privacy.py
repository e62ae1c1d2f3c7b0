from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from scipy.stats import norm

import dplateau as dp
from dplateau.accounting import gdp_epsilon
from dplateau.analyses.gdp_clt import clt_noise_multiplier
from dplateau.report.text import as_text
from dplateau.report.trade_off import compared
from dplateau_papers.p2 import pictures as p2_pictures
from dplateau_papers.p2 import theorems as p2_theorems
from dplateau_papers.p2.privacy import compute, page
from dplateau_papers.p2.settings import CALIBRATIONS, SETTINGS, trained

CERTIFIED = (0.8645, 2.3816, 5.6397, 10.9495, 15.7163, 28.0460, 11.8073, 12.1407, 12.7494)
"""From an independent computation."""


@pytest.fixture(scope="module")
def found():
    return compute()


@pytest.fixture(scope="module")
def text(found) -> str:
    return as_text(page(found).text())


def test_the_printed_columns_come_out(found) -> None:
    assert [row.report.run.steps for row in found.rows] == [3516, 14062, 10547, 14531, 15938, 23438, 2061, 439, 1600]
    for row in found.rows:
        assert f"{row.mu:.2f}" == f"{row.setting.mu:.2f}"
        assert f"{row.clt:.2f}" == f"{row.setting.clt:.2f}"
        assert row.ma == pytest.approx(row.setting.ma, rel=0.02)
    # With the orders of that time all but one agree in every digit.
    assert [row.setting.name for row in found.rows if f"{row.ma:.2f}" != f"{row.setting.ma:.2f}"] == ["IMDb"]


def test_what_is_certified(found) -> None:
    assert [round(row.certified.upper, 4) for row in found.rows] == pytest.approx(CERTIFIED, abs=1.001e-4)
    for row in found.rows:
        assert row.certified.width < 1e-4
        assert row.report.epsilon == pytest.approx(row.certified.upper, rel=1e-9)
        assert row.at_claim.lower > row.setting.delta if row.too_small else row.at_claim.upper < row.setting.delta
        epsilon = dp.accounting.gdp_epsilon(row.least_mu.upper, row.setting.delta - 1e-10)
        assert epsilon >= row.certified.lower
    assert [row.setting.name for row in found.rows if row.too_large] == ["MNIST 6"]
    assert sum(row.too_small for row in found.rows) == 8


def test_a_verdict_needs_more_than_the_printed_digits(found) -> None:
    from dataclasses import replace

    row = found.rows[0]
    for claim, small, large in ((0.865, False, False), (0.86, False, False), (0.855, True, False), (0.875, False, True)):
        other = replace(row, setting=replace(row.setting, clt=claim))
        assert (other.too_small, other.too_large) == (small, large)


def test_calibration(found) -> None:
    for c in found.calibrations:
        assert c.epsilon == pytest.approx(c.printed.epsilon, rel=0.01)
        assert c.mu == pytest.approx(c.printed.mu, abs=0.005)
        assert c.less_noise == pytest.approx(c.printed.less_noise, abs=0.005)
        run = trained(c.less_noise, c.printed.epochs)
        assert dp.account(run, 1e-5).epsilon == pytest.approx(c.cost.upper, rel=1e-9)
        assert c.cost.lower > c.epsilon
        assert c.delta.lower > 1e-5
        assert c.less_noise < c.exact < c.printed.noise_multiplier
        assert dp.account(run.replace(noise_multiplier=c.exact), 1e-5).epsilon <= c.epsilon
        assert dp.account(run.replace(noise_multiplier=0.999 * c.exact), 1e-5).epsilon > c.epsilon
    run = trained(CALIBRATIONS[0].noise_multiplier, 20)
    mu = 256 / 60_000 * math.sqrt(run.steps * math.expm1(1 / 1.3**2))
    assert clt_noise_multiplier(run, gdp_epsilon(mu, 1e-5), 1e-5) == pytest.approx(1.3, rel=1e-9)


def test_the_limit_of_figure_a1(found) -> None:
    early, late = found.limits
    assert (early.steps, late.steps) == (234, 14062)
    assert early.rate * math.sqrt(234) == pytest.approx(256 / 60_000 * math.sqrt(14062), rel=1e-12)
    assert early.mu == pytest.approx(late.mu, rel=1e-12)
    assert max(late.distance) < max(early.distance) < 0.02
    # delta(0) = 1 - min (alpha + f(alpha)) moves by no more than the distance.
    truth = dp.Run(n=10_000, sampling=dp.Poisson(10_000 * early.rate), steps=234, noise_multiplier=1.1)
    assert max(early.epsilon[:2]) == pytest.approx(dp.account(truth, 1e-5).epsilon, rel=2e-3)
    assert max(late.epsilon[:2]) == pytest.approx(CERTIFIED[1], rel=2e-3)
    assert early.epsilon[2] == pytest.approx(found.rows[1].clt, rel=1e-9)


def test_inequality_b2(found) -> None:
    assert len(found.inequalities) == 10
    for x in found.inequalities:
        assert x.least_ratio > 1
        assert all(left > right > 0 for _, left, right in x.places)
    assert [x.name for x in found.inequalities if x.accountants[0] > x.accountants[1]] == ["z = 0.4"]


@pytest.mark.parametrize("epsilon", [0.0, 4e-4, 2.0])
def test_the_right_side_of_b2_is_that_of_the_gaussian_mechanism(epsilon: float) -> None:
    mu = 1.3
    exact = dp.accounting.GaussianDP(mu)
    _, _, right = p2_theorems._sides(exact, exact, lambda e: exact.delta(e).upper, epsilon)
    # delta + e^epsilon x = Phi(mu/2 - epsilon/mu): the power of the test.
    assert right >= norm.cdf(mu / 2 - epsilon / mu)
    assert right == pytest.approx(norm.cdf(mu / 2 - epsilon / mu), rel=1e-3)


def test_the_least_sum_of_errors(found) -> None:
    errors = found.errors
    assert 2 * norm.cdf(-SETTINGS[1].mu / 2) == pytest.approx(0.776, abs=5e-4)  # the paper's, with its rounded mu
    assert errors.limit == pytest.approx(2 * norm.cdf(-found.rows[1].mu / 2), rel=1e-9)
    assert errors.point == pytest.approx(0.094, abs=5e-4)
    assert errors.point < errors.accountant < errors.certified.lower
    assert errors.certified.lower == pytest.approx(0.7755, abs=1e-4)


def test_the_page(found, text) -> None:
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = " ".join(text.split())
    for sentence in (
        "The CLT columns agree in every digit. The MA column agrees in every digit, but for IMDb (15.2347).",
        "The CLT's epsilon is too small in 8 of 9 rows",
        "It is too large in 1 (MNIST 6)",
        "holds in 10 of 10 runs",
        "At finite T it need not be: z = 0.4",
    ):
        assert sentence in words
    for value in ("0.864541", "28.0461", "9.45332", "0.65564"):
        assert value in text
    data = json.loads(json.dumps(page(found).numbers, allow_nan=False))
    assert len(data["settings"]) == 9
    assert data["settings"][3]["printed"] == {"mu": 2.0, "gdp-clt": 9.98, "moments-accountant": 13.27}
    assert dp.Run.from_dict(data["settings"][0]["run"]) == SETTINGS[0].run


def test_the_page_of_the_documentation_is_what_comes_out(found) -> None:
    shown = (Path(__file__).parents[2] / "docs" / "reproduced" / "p2-privacy.md").read_text()
    for table in page(found).tables:
        for line in table.markdown().splitlines():
            assert line in shown, line


def test_the_folder(found, tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    quick = compared(dp.account(dp.Run(n=1000, sampling=dp.FullBatch(), steps=4, noise_multiplier=4.0)))
    monkeypatch.setattr(p2_pictures, "compared", lambda report: quick)  # The nine models' own curves take ten seconds.
    page(found).write(tmp_path / "p2")
    names = {f"{name}.{kind}" for name in ("trade-offs", "epsilon", "spending") for kind in ("svg", "png")}
    assert {path.name for path in (tmp_path / "p2").iterdir()} == names | {"p2-privacy.md", "p2-privacy.json"}
    shown = (tmp_path / "p2" / "p2-privacy.md").read_text()
    assert shown.count("\n## ") == 6
    assert shown.count("![") == 3
