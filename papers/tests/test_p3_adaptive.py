"""ADP-SGD against DP-SGD, and falling against constant steps, on a few images."""

import re

import numpy as np
import pytest

import dplateau as dp
from dplateau_papers.p3 import adaptive as p3_adaptive
from dplateau_papers.p3 import networks as p3_networks
from dplateau_papers.p3 import printed as p3_printed
from dplateau_papers.p3 import settings as p3_settings
from dplateau_papers.page import Inputs
from dplateau_papers.records import Records

SHOWN = (*p3_adaptive.COMPARISONS.values(), p3_adaptive.ADAGRAD, p3_adaptive.FALLING)


@pytest.fixture
def brief(monkeypatch):
    """Twelve images, three steps an epoch, two epochs."""
    for name, value in {"IMAGES": 12, "BATCH": 4, "ADAGRAD_EPOCHS": 2, "FALLING_EPOCHS": 2}.items():
        monkeypatch.setattr(p3_settings, name, value)


def result(last):
    return {"last": last, "best": last + 1, "curve": [[1, last + 1], [2, last]]}


@pytest.mark.usefixtures("brief")
def test_adp_and_dp_cost_the_same():
    for schedule in ("linear", "polynomial"):
        runs = [p3_settings.compared(schedule, method, 2, 1.0, 1.2) for method in ("DP", "ADP")]
        for run in runs:
            assert 1.2 * (1 - 1e-5) <= dp.account(run, delta=p3_settings.DELTA).epsilon <= 1.2
        assert runs[0].step_size == runs[1].step_size
        assert np.ptp(runs[0].noise_multiplier) == 0
        noise = np.array(runs[1].noise_multiplier)
        np.testing.assert_allclose(noise * np.sqrt(runs[1].step_size) / (noise[0] * np.sqrt(runs[1].step_size[0])), 1, rtol=1e-9)


@pytest.mark.usefixtures("brief")
def test_noise_for_steps_of_adagrad_norm():
    equal, falling = (p3_settings.adagrad(growth, 1.0, 1.2) for growth in (None, 1.0))
    for run in (equal, falling):
        assert 1.2 * (1 - 1e-5) <= dp.account(run, delta=p3_settings.DELTA).epsilon <= 1.2
        assert run.step_size is None
    noise = np.array(falling.noise_multiplier)
    np.testing.assert_allclose((noise / noise[0]) ** 4, (20 + np.arange(1, 7)) / 21, rtol=1e-9)


def test_steps_of_section_f3():
    run = p3_settings.falling(0.1, 3.2)
    assert run.steps == 5859
    assert run.step_size[:2] == pytest.approx((2.1**-0.5, 2.2**-0.5))
    assert np.ptp(p3_settings.falling(0.0, 3.2).step_size) == 0


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("run", [lambda: p3_settings.falling(0.1, 3.2), lambda: p3_settings.adagrad(None, 1.0, 1.2)])
def test_a_training(data_dir, run):
    b0_squared = None if run().step_size else 20.0
    found = p3_networks.train(data_dir / "mnist", run(), 0, b0_squared)
    assert [steps for steps, _ in found["curve"]] == [1, 2, 3, 4, 5, 6]
    assert found["last"] == found["curve"][-1][1]
    assert found["best"] == max(score for _, score in found["curve"])


@pytest.mark.usefixtures("brief")
def test_an_entry_trains(data_dir, tmp_path):
    told = []
    found = p3_adaptive.reproduce(p3_adaptive.FALLING, 1, Inputs(data_dir, tmp_path / "records", None, told.append))
    assert len(told) == len(p3_adaptive.FALLING.settings) == 24
    assert told[1] == "2 of 24: growth 1e-05, noise 1.6, seed 0"
    (table,) = found.tables
    assert all(re.fullmatch(r"\d+\.\d\d", cell) for row in table.rows for cell in row[2:])
    assert len(found.numbers["trainings"]) == 24


def test_gaps_and_the_verdict_on_them(tmp_path):
    shown = p3_adaptive.COMPARISONS["linear"]
    records = Records(tmp_path / "x.jsonl")

    def train(setting, seed):
        better = setting["method"] == "ADP" and setting["clip_norm"] == 1
        return result(50 + seed + 10 * better)

    records.collect(shown.settings, range(2), train)
    best, _, last, _ = shown.tables(records)
    assert last.rows[0] == ("0.01", "1", "10", "60.50 ± 0.71", "50.50 ± 0.71", "+10.00 ± 0.71")
    assert last.rows[2] == ("0.01", "5", "10", "50.50 ± 0.71", "50.50 ± 0.71", "+0.00 ± 0.71")
    assert best.rows[0][3] == "61.50 ± 0.71"
    assert "Of 8 gaps 4 are above 0 by more than two standard errors, and 0 below" in last.sentences[0]
    assert "between +0.00 and +10.00" in last.sentences[0]


def test_the_best_growth_is_named_where_all_were_trained(tmp_path):
    shown, records = p3_adaptive.FALLING, Records(tmp_path / "x.jsonl")
    some = [setting for setting in shown.settings if setting["noise"] < 5]
    records.collect(some, [0], lambda setting, seed: result(90 - 100 * abs(setting["growth"] - 1e-3)))
    (table,) = shown.tables(records)
    assert table.rows[0][1:] == ("1.8127", "89.90", "89.90", "90.00", "89.10", "80.10", "40.10")
    assert table.rows[3][2:] == ("not run",) * 6
    assert table.sentences[1:] == ("z = 1.6: c = 0.001 is best, c = 0.5 worst.", "z = 3.2: c = 0.001 is best, c = 0.5 worst.")


def test_printed_gaps():
    assert {len(table) for table in (p3_printed.TABLE_1, p3_printed.TABLE_4)} == {15}
    assert {len(table) for table in (p3_printed.TABLE_2, p3_printed.TABLE_5)} == {20}
    # Those that the text quotes.
    assert p3_printed.TABLE_2[0.8, 1.0] == (0.25, 1.48, 7.03)
    assert p3_printed.TABLE_1[6.4, 1.0][0] == -0.32
    assert sum(value is None for row in p3_printed.TABLE_4.values() for value in row) == 7
    table = p3_adaptive.COMPARISONS["linear"].tables(Records("none"))[3]
    assert table.rows[1] == ("0.8", "1", "+3.35", "+11.30", "N/A")
    assert table.sentences == ("34 of 38 are above 0; between -0.32 and +11.30.",)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.name)
def test_pages_and_pictures(tmp_path, shown):
    pytest.importorskip("matplotlib")
    records = Records(tmp_path / "x.jsonl")
    assert p3_adaptive.page(shown, records).pictures == {}
    records.collect(shown.settings, range(2), lambda setting, seed: result(60 + seed))
    found = p3_adaptive.page(shown, records)
    assert len(found.numbers["trainings"]) == len(shown.settings)
    assert "not run" not in found.markdown()
    figure = found.pictures[shown.name][1]()
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    assert len(figure.axes) == 4
    assert len(lines) == len(shown.settings)
    assert {tuple(line.get_ydata()) for line in lines} == {(61.5, 60.5)}
