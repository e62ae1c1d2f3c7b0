# pyright: basic, reportArgumentType=false
from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import dplateau as dp
from dplateau.accounting import gdp_epsilon
from dplateau.analyses import FixedOrderBound, LangevinBound
from dplateau.report.text import as_text
from dplateau_papers.entries import ENTRIES
from dplateau_papers.p4 import privacy as p4_privacy
from dplateau_papers.p4.settings import DELTA, FLAT, falling_steps, flat_mu, flat_run, halved_run, printed_variance
from dplateau_papers.p4.tables import factor_table, full_table, growth_table, minibatch_table, page

SHOWN = (Path(__file__).parents[2] / "docs" / "reproduced" / "p4-privacy.md").read_text()


@pytest.fixture(scope="module")
def found():
    return p4_privacy.compute(minibatches=((1000, 10, 1.0), (1000, 1000, 1.0)))


def test_minibatches_are_refuted_and_full_batches_hold(found) -> None:
    small, whole = found.minibatches
    assert small.refuted
    assert small.exact == pytest.approx(2.7708, rel=1e-4)
    assert small.delta == pytest.approx(2.4528e-4, rel=1e-4)
    assert small.status == "Refuted"
    assert not whole.refuted
    assert whole.exact == pytest.approx(0.24888, rel=1e-4)
    assert whole.status == "Proved"
    assert whole.certified >= whole.exact
    assert small.certified >= small.exact


def test_the_factor_certifies_what_is_claimed(found) -> None:
    for row in found.minibatches:
        run = halved_run(row.n, row.m, row.claimed)
        spent = p4_privacy.certified(run.replace(noise_multiplier=row.factor * run.noise_multiplier))[0]
        assert 0.985 * row.claimed < spent <= row.claimed
    assert found.minibatches[1].factor < 1 < found.minibatches[0].factor


def test_the_runs_are_the_papers() -> None:
    for falling in (False, True):
        run = flat_run(50, falling=falling)
        eta = run.step_size if falling else (run.step_size,) * 50
        z = run.noise_multiplier if falling else (run.noise_multiplier,) * 50
        variance = printed_variance(run.n, 1.0, FLAT.lipschitz, FLAT.curvature)
        for step, noise in zip(eta, z, strict=True):
            assert (step * noise * run.clip_norm / run.n) ** 2 == pytest.approx(2 * step * variance)
        assert eta == pytest.approx(falling_steps(50) if falling else (0.5,) * 50)
        # Corollaries 3.2 and 3.3, for one order.
        k = 50
        last = 1 - math.exp(-FLAT.curvature * 0.5 * k / 2)
        if falling:
            last = 1 - math.exp(-FLAT.curvature / 2 * sum(falling_steps(k)))
            assert last == pytest.approx(0.01 * k / (4 + 0.01 * k), rel=0.01)
        assert LangevinBound().guarantee(run).rho == pytest.approx(4 / (0.01 * run.n**2 * variance) * last, rel=1e-3)


@pytest.mark.parametrize("falling", [False, True])
def test_two_gaussians_are_the_exact_laws(falling: bool) -> None:
    run = flat_run(12, falling=falling)
    assert FLAT.laws(run).epsilon(DELTA) == pytest.approx(gdp_epsilon(flat_mu(run), DELTA), rel=1e-5)


def test_full_batches(found) -> None:
    assert [row.steps for row in found.constant] == list(p4_privacy.KS)
    for row in (*found.constant, *found.falling):
        assert row.exact <= row.proved < row.printed
        assert row.proved <= row.composed * (1 + 1e-4)
    # 4 is printed, 2 - eta lambda is proved, and a^2 of it is exact.
    *_, last = found.constant
    assert last.units[0] == pytest.approx(4, rel=1e-3)
    assert last.units[1] == pytest.approx(2 - 0.5 * 0.01, rel=1e-3)
    assert last.units[2] == pytest.approx(0.99**2 * (2 - 0.5 * 0.01), rel=1e-3)
    assert found.constant[0].units[0] == pytest.approx(2 * found.constant[0].units[3], rel=0.01)


def test_how_k_grows() -> None:
    row = p4_privacy.growth(1000)
    size = 1e6 / (4 * math.log(1e5) * 100)
    assert row.constant == math.ceil(200 * math.log(size))
    assert row.falling == math.ceil(max(100 * size, size**2 / 100))
    run = flat_run(row.constant, falling=False, n=1000)
    assert row.composed[0] == pytest.approx(dp.account(run.replace(released="all"), DELTA).epsilon, rel=1e-3)
    assert row.plateau == pytest.approx(FixedOrderBound().guarantee(run).epsilon(DELTA).upper)
    # The sum of the falling steps is not above what is counted.
    travel = 2 / 0.01 * math.log1p(3000 / 400) + 0.5
    assert travel - 1 < sum(falling_steps(3000)) <= travel


def test_the_page(found) -> None:
    made = page(found)
    text = as_text(made.text())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = " ".join(text.split())
    assert "The claim is false in 1 of 2 rows, the minibatches" in words
    assert "So the 4 of the discussion should be a 2." in words
    assert "up to K = 300 (constant steps) and 1,000 (falling ones)" in words
    json.dumps(made.numbers, allow_nan=False)
    assert ENTRIES["p4-privacy"].name == made.name


def test_the_page_of_the_documentation_is_what_comes_out(found) -> None:
    tables = full_table(found.constant, found.falling), factor_table(found.constant, found.falling), growth_table(found.growth)
    for table in tables:
        for line in table.markdown().splitlines():
            assert line in SHOWN, line
    for line in minibatch_table(found.minibatches).markdown().splitlines()[:6]:
        assert line in SHOWN, line


def test_the_picture(found, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    page(found).write(tmp_path / "p4")
    assert {path.name for path in (tmp_path / "p4").iterdir()} == {f"p4-privacy.{kind}" for kind in ("md", "json", "svg", "png")}
