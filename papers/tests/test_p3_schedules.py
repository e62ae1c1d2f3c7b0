# pyright: basic, reportArgumentType=false
from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import dplateau as dp
from dplateau.algorithms.noise_allocation import least_noise_cost, noise_cost
from dplateau.report.text import as_text
from dplateau_papers.entries import ENTRIES
from dplateau_papers.p3 import noise as p3_noise

SHOWN = (Path(__file__).parents[2] / "docs" / "reproduced" / "p3-schedules.md").read_text()


@pytest.fixture(scope="module")
def pair():
    return p3_noise.both(3000, points=2)


@pytest.fixture(scope="module")
def claims():
    return tuple(p3_noise.claim(*each) for each in p3_noise.CLAIMS)


def narrow(reproduction) -> str:
    text = as_text(reproduction.text())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    json.dumps(reproduction.numbers, allow_nan=False)
    return " ".join(text.split())


def test_both_end_at_the_printed_budget(pair) -> None:
    one, other = pair
    for along in pair:
        assert along.printed[-1] == pytest.approx(3.2)
        assert list(along.printed) == sorted(along.printed)
        assert list(along.certified) == sorted(along.certified)
        assert along.certified[-1] < 16 * along.printed[-1]
    # Adapted noise falls more slowly, and begins lower.
    assert other.noise[0] < one.noise[0]
    assert other.noise[-1] > one.noise[-1]
    assert other.energy < one.energy
    ratio = one.energy / other.energy
    b = np.sqrt(20 + np.arange(1, 3001))
    assert ratio == pytest.approx(noise_cost(np.ones(3000), b) / least_noise_cost(b), rel=1e-9)


def test_noise_along_the_run(pair) -> None:
    for along in pair:
        for t, noise, z in zip(along.steps, along.noise, along.multiplier, strict=True):
            assert noise == pytest.approx(z / 256 / math.sqrt(20 + t))


def test_the_certified_epsilon_of_constant_noise(pair) -> None:
    one = pair[0]
    run = dp.Run(n=50_000, sampling=dp.Poisson(256), steps=one.steps[-1], noise_multiplier=one.multiplier[0])
    assert dp.account(run, 1e-5).epsilon == pytest.approx(one.certified[-1], rel=1e-4)


def test_budgets(claims) -> None:
    for claim in claims:
        assert claim.certified < claim.moments
        assert claim.certified < claim.numerical
        assert 16 * claim.budget > 40 * claim.certified
        assert claim.moments == pytest.approx(claim.numerical, rel=0.2)


def test_the_square_root_schedule_ends_where_the_paper_says() -> None:
    etas = p3_noise.square_root(11_760)
    assert etas[-1] == pytest.approx(1e-10)
    assert etas[0] == pytest.approx(0.1 - (0.1 - 1e-10) / math.sqrt(11_760))


def test_the_pages(pair, claims, tmp_path) -> None:
    first = p3_noise.first_page(pair, claims)
    words = narrow(first)
    assert "As printed both end at 3.2." in words
    gains = tuple(p3_noise.Gain(name, 600, 0.2, 0.1, 0.01, 1.5, (1.4, 1.1, 0.9)) for name in p3_noise.SCHEDULES)
    second = p3_noise.second_page(gains)
    assert "Adapted noise is worse than constant noise in 2 of 6 places" in narrow(second)
    assert {"p3-figure1", "p3-figure2"} <= set(ENTRIES)
    for line in first.tables[1].markdown().splitlines():
        assert line in SHOWN, line
    pytest.importorskip("matplotlib")
    for page in (first, second):
        page.write(tmp_path / page.name)
        assert {path.name for path in (tmp_path / page.name).iterdir()} == {
            f"{page.name}.{k}" for k in ("md", "json", "svg", "png")
        }


def test_the_gain_at_equal_epsilon_and_its_row() -> None:
    steps = 11_760
    found = p3_noise.gain("1/sqrt(20 + t)", steps, (0.29,))
    # A little less is gained than where a step costs 1/alpha^2.
    assert 0.95 * found.gain < found.exact[0] < found.gain
    numbers = f"{found.first:.4f}", f"{found.middle:.4f}", f"{found.last:.1e}", f"{found.gain:.3f}", f"{found.exact[0]:.3f}"
    row = " | ".join(("| 1/sqrt(20 + t)", "11,760", *numbers, ""))
    assert row in SHOWN
