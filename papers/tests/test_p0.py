# pyright: basic, reportArgumentType=false
from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dplateau.accounting import gdp_epsilon
from dplateau.audit import random_walks
from dplateau.audit.instance import check_instance
from dplateau.report.text import as_text
from dplateau_papers.entries import ENTRIES
from dplateau_papers.p0 import figures as p0_figures
from dplateau_papers.p0 import lower_bound as p0_lower_bound
from dplateau_papers.p0 import statements as p0_statements
from dplateau_papers.p0.curves import COMPOSED, OURS, PRINTED, TURNED, WALKS, panel
from dplateau_papers.p0.settings import CONVEXITY, FIGURE_1, FIGURE_2, turned_walks

STEPS = (1, 30, 30_000)
SHOWN = Path(__file__).parents[2] / "docs" / "reproduced" / "p0.md"


def in_documentation(table, rows) -> None:
    text = SHOWN.read_text()
    lines = table.markdown().splitlines()
    for line in lines[:4]:
        assert line in text
    for line in lines[4 : 4 + len(table.rows)]:
        if line.split("|")[1].strip() in rows:
            assert line in text, line


@pytest.fixture(scope="module")
def first():
    return p0_figures.first_figure(FIGURE_1[:1], STEPS)


@pytest.fixture(scope="module")
def second():
    return p0_figures.second_figure((10, 3000))


def narrow(reproduction) -> str:
    text = as_text(reproduction.text())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    json.dumps(reproduction.numbers, allow_nan=False)
    return " ".join(text.split())


def test_bounds_and_exact_values_are_in_order(first) -> None:
    for curves in (first[0].epsilon, first[0].divergence):
        assert [curve.status for curve in curves.values()] == ["Proved", "Refuted", "Proved", "exact", "exact"]
        for composed, ours, walks, turned in zip(*(curves[k].values for k in (COMPOSED, OURS, WALKS, TURNED)), strict=True):
            assert 0 < walks < turned <= ours * (1 + 1e-6)
            assert ours <= composed * (1 + 1e-6)


def test_what_figure_1_says(first) -> None:
    found = first[0]
    assert found.setting.burn_in == 2000
    assert found.crossing == 30_000
    assert found.refuted_at == [1]
    assert found.epsilon[TURNED].values[0] > found.epsilon[PRINTED].values[0]
    words = narrow(p0_figures.first_page(first))
    assert "printed-noisy-sgd is Refuted: an exact epsilon is larger at T = 1." in words
    assert "From T = 30,000 on (3,000 epochs) less is certified" in words
    in_documentation(p0_figures.first_page(first).tables[0], ("1", "30", "30,000"))


def test_one_step_by_its_definition() -> None:
    """The mixtures with centres 1 and -1 at the exact epsilon have the delta that was asked for."""
    found = panel(FIGURE_1[0], (1,))
    epsilon, z = found.epsilon[TURNED].values[0], 20.0

    def excess(x: float) -> float:
        p, q = (0.9 * norm.pdf(x, 0, z) + 0.1 * norm.pdf(x, c, z) for c in (1, -1))
        return max(p - math.exp(epsilon) * q, 0.0)

    assert quad(excess, -15 * z, 15 * z, limit=400, epsabs=1e-12)[0] == pytest.approx(1e-5, rel=1e-3)


def test_turned_walks_are_allowed_and_worse() -> None:
    for settings in FIGURE_2.values():
        for setting in settings:
            run = setting.run.replace(steps=20)
            check_instance(run, turned_walks(run))
            assert turned_walks(run).position == random_walks(run).position


def test_what_figure_2_says(second) -> None:
    assert [[p.setting.name for p in panels] for panels in second.values()] == [["random", "cyclic", "shuffled", "full"]] * 2
    for m, panels in second.items():
        at = {p.setting.name: p for p in panels}
        begin = {name: p.epsilon[OURS].values[0] for name, p in at.items()}
        # An order costs more in the beginning, and shuffling less than a fixed one.
        assert begin["full"] < begin["random"] < begin["shuffled"] < begin["cyclic"]
        assert all(p.epsilon[OURS].values[-1] > p.epsilon[TURNED].values[-1] > p.epsilon[WALKS].values[-1] for p in panels)
        assert at["cyclic"].plateau < at["cyclic"].epsilon[COMPOSED].values[-1] / 3
        if m:
            assert all(p.plateau < q.plateau / 1.1 for p, q in zip(panels, second[0.0], strict=True))
    assert set(second) == {0.0, CONVEXITY}
    page = p0_figures.second_page(second)
    words = narrow(page)
    assert "noisy-cgd (Proved)" in words
    for table in page.tables[:2]:
        in_documentation(table, ("10", "3,000"))


def test_theorem_41() -> None:
    inside = p0_lower_bound.inside(3)
    # Far from the walls: two Gaussians, sqrt(T) L / (n sigma) apart.
    mu = math.sqrt(3) / (100 * math.sqrt(1e-3 * 1000**2 / 75_000))
    assert inside.exact == pytest.approx(100 * mu**2 / 2, rel=1e-5)
    assert inside.epsilon == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-5)
    assert inside.printed == pytest.approx(1e-7 * 100 * mu**2, rel=1e-9)
    assert inside.certified == pytest.approx(gdp_epsilon(2 * mu, 1e-5), rel=1e-4)


def test_where_the_lower_bound_holds_there_is_no_privacy() -> None:
    insides, plateaus = p0_lower_bound.compute((1,), (0.1, 1.0, 10.0))
    assert [(p.batches, p.ratio) for p in plateaus] == [
        *(("full", 0.1), ("full", 1.0), ("full", 10.0)),
        *(("random, 10", 1.0), ("random, 10", 10.0)),
    ]
    assert all(p.certified > p.turned > p.walks > 0 for p in plateaus)
    # Reflection keeps the factor from growing with the noise: the taut string alone has 18 in the third row.
    assert plateaus[0].factor < plateaus[2].factor < plateaus[1].factor < 9
    page = p0_lower_bound.page(insides, plateaus)
    words = narrow(page)
    assert f"as much as an epsilon of {gdp_epsilon(0.75 / math.sqrt(1e-3), 1e-5):.0f}" in words
    text = SHOWN.read_text()
    for line in page.tables[1].markdown().splitlines()[4:9]:
        assert line in text, line


@pytest.fixture(scope="module")
def statements():
    return p0_statements.compute()


def test_the_sampled_step(statements) -> None:
    known = {(0.1, 8.0): (9.24e-3, 9.97e-3), (0.1, 32.0): (2.59e-2, 4.15e-2), (0.5, 8.0): (0.57, 3.90)}
    for step in statements.steps[:3]:
        printed, true = known[step.rate, step.order]
        assert step.printed == pytest.approx(printed, rel=0.01)
        assert step.true == pytest.approx(true, rel=0.01)
    assert all(step.larger >= max(step.printed, step.true) for step in statements.steps)
    share, places = statements.lemma
    # 2 a q^2/s^2 is four times the leading term.
    assert 0.25 <= share < 0.3
    assert places >= 30


def test_the_conditions_of_lemma_212() -> None:
    def kept(order: float, q: float, s: float) -> bool:
        m = math.log(1 + 1 / (q * (order - 1)))
        first = order <= m * s**2 / 2 - 2 * math.log(s)
        return first and order <= (m**2 * s**2 / 2 - math.log(5) - 2 * math.log(s)) / (m + math.log(q * order) + 1 / (2 * s**2))

    for q, s in ((0.01, 8.0), (0.1, 4.0), (0.19, 20.0)):
        most = p0_statements.greatest_order(q, s)
        assert kept(most * 0.999, q, s)
        assert not kept(most * 1.001, q, s)


def test_one_step_as_claimed(statements) -> None:
    for claim in statements.claims:
        assert claim.printed < claim.exact <= claim.repaired
        assert claim.delta > 10 * 1e-5


def test_the_look_back(statements) -> None:
    for look in statements.looks:
        assert abs(look.best - look.right) <= 1
        assert look.bounds[2] <= look.bounds[1] < look.bounds[0]
        assert look.bounds[2] <= look.bounds[1] <= 1.001 * look.bounds[2]
    found = p0_statements.look(8.0, 0.99, 1e-4)

    def bound(steps: int) -> float:
        return steps * 1e-4 + 8 * 4 * (1 - 0.99**2) / (2 * 0.04 * (0.99 ** (-2 * steps) - 1))

    assert min(range(1, 3000), key=bound) == found.best
    assert bound(round(found.printed)) == pytest.approx(found.bounds[0])


def test_the_page_of_statements(statements) -> None:
    page = p0_statements.page(statements)
    words = narrow(page)
    assert "below the truth in 3 of 5 rows: Refuted" in words
    assert "below the exact epsilon in 4 of 4 rows" in words
    text = SHOWN.read_text()
    for table in page.tables:
        for line in table.markdown().splitlines():
            assert line in text, line


def test_entries_and_pictures(first, second, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    assert {"p0-figure1", "p0-figure2", "p0-theorem41", "p0-statements"} <= set(ENTRIES)
    plateaus = (p0_lower_bound.plateau(1.0, 100),)
    pages = p0_figures.first_page(first), p0_figures.second_page(second), p0_lower_bound.page((p0_lower_bound.inside(1),), plateaus)
    for page in pages:
        page.write(tmp_path / page.name)
        assert {path.name for path in (tmp_path / page.name).iterdir()} == {
            f"{page.name}.{k}" for k in ("md", "json", "svg", "png")
        }
