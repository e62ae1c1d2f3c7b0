"""Fine-tuning a block with privacy, on a few images; and the constants of Table 4, printed and recomputed."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic, Softmax
from dplateau_papers.p4 import fine_tuning as p4_fine_tuning
from dplateau_papers.p4 import table3 as p4_table3
from dplateau_papers.p4 import table4 as p4_table4
from dplateau_papers.p4.fine_tuning import BLOCK, HEAD, IMAGES, ROWS, Row, run_of
from dplateau_papers.page import Inputs
from dplateau_papers.records import Records

# ---- Table 3 ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def brief(monkeypatch):
    """Twenty-four images, batches of four, two epochs."""
    from dplateau_papers.p4 import networks as p4_networks

    for module in (p4_fine_tuning, p4_table3):
        monkeypatch.setattr(module, "IMAGES", 24)
        monkeypatch.setattr(module, "BATCH", 4)
        monkeypatch.setattr(module, "EPOCHS", 2)
    monkeypatch.setattr(p4_networks, "public_network", lambda _: untrained())


@cache
def untrained():
    """In place of the public network: random layers and random components."""
    from dplateau_papers import networks
    from dplateau_papers.study.features import PublicNetwork

    random = np.random.default_rng(0)
    layers = networks.he(random, 5, 5, 1, 16), networks.he(random, 5, 5, 16, 32)
    return PublicNetwork(*layers, random.normal(size=512) / 10, random.normal(size=(512, 128)) / 20, 10.0)


@pytest.fixture
def inputs(data_dir, tmp_path):
    return Inputs(data_dir, tmp_path / "records")


def test_the_runs_cost_epsilon_one():
    runs = [run_of(row, IMAGES) for row in ROWS if row.private]
    assert [run.clip_norm for run in runs] == [row.clip_norm for row in ROWS if row.private]
    for run in runs:
        assert run.steps == 293
        assert run.released == "all"
        assert run.adjacency == "add-remove"
        assert 1 - 1e-5 <= dp.account(run, delta=1e-5).epsilon <= 1
    held = run_of(ROWS[-1], 50_000)
    assert held.n == 50_000
    assert held.sampling.batch_size / held.n == pytest.approx(1024 / 60_000, rel=1e-12)
    assert held.noise_multiplier == runs[0].noise_multiplier


def test_every_row_is_in_its_grid():
    for row in ROWS:
        assert row in row.tried()
        assert len(set(row.tried())) == len(row.tried())
        assert {(each.layers, each.private) for each in row.tried()} == {(row.layers, row.private)}
    assert [row.printed for row in ROWS] == [70.7, 77.0, 68.0, 67.8]


@pytest.mark.usefixtures("brief")
def test_both_heads_are_the_same_function(inputs):
    from dplateau_papers import networks
    from dplateau_papers.p4.networks import task

    head, block = task(inputs, HEAD), task(inputs, BLOCK)
    assert set(head.params) == {"out"}
    assert set(block.params) == {"conv2", "out"}
    assert not np.any(block.params["out"])
    out = np.random.default_rng(0).normal(size=(129, 10)).astype(np.float32)
    first = networks.outputs(head.apply, {"out": out}, head.train[0])
    second = networks.outputs(block.apply, {**block.params, "out": out}, block.train[0])
    np.testing.assert_allclose(first, second, rtol=2e-3, atol=2e-3)
    assert np.ptp(first) > 1
    np.testing.assert_allclose(np.linalg.norm(head.train[0], axis=1), 1, rtol=1e-6)


@pytest.mark.usefixtures("brief")
def test_held_out_records_are_not_trained_on(inputs):
    from dplateau_papers.p4.networks import task

    whole = task(inputs, HEAD)
    held = whole.held_out()
    assert (len(held.train[1]), len(held.test[1])) == (20, 4)
    rows = np.concatenate([held.train[0], held.test[0]])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, whole.train[0]))


@pytest.mark.usefixtures("brief")
def testplaces_without_privacy():
    from dplateau_papers.p4.networks import places

    found = places(24, 0)
    assert found.shape == (12, 4)
    for epoch in np.split(found, 2):
        assert sorted(epoch.ravel()) == list(range(24))
    assert not np.array_equal(found, places(24, 1))


@pytest.mark.usefixtures("brief")
def test_training_without_privacy_learns_the_records(inputs):
    from dplateau_papers.p4.networks import task, train

    target = np.arange(24, dtype=np.int32) % 10
    records = np.eye(129, dtype=np.float32)[target], target
    seen = task(inputs, HEAD)._replace(train=records, test=records)
    assert seen.score(seen.params) < 20
    assert train(seen, Row(HEAD, False, 4.0), 0)["score"] > 90


@pytest.mark.usefixtures("brief")
def test_an_entry_trains(inputs, monkeypatch):
    from dplateau_papers.p4 import networks as p4_networks

    trained = []
    original = p4_networks.train_network
    monkeypatch.setattr(p4_networks, "train_network", lambda run, *a, **k: trained.append(run) or original(run, *a, **k))
    found = p4_table3.reproduce(Inputs(inputs.data_dir, inputs.records, 1))
    rows = found.numbers["rows"]
    assert [len(row["scores"]) for row in rows] == [1, 1, 1, 1]
    assert all(0 <= row["scores"][0] <= 100 for row in rows)
    assert [run.to_dict() for run in trained] == [row["run"] for row in rows if "run" in row]
    assert len(trained) == 2
    assert "not run" not in found.markdown()
    assert "too few trainings" in found.markdown()


def shown(tmp_path, scores):
    """The sentences for two trainings of each row around these scores."""
    records = Records(tmp_path / "x.jsonl")
    given = {str(row.setting): score for row, score in zip(ROWS, scores, strict=True)}
    records.collect([row.setting for row in ROWS], range(2), lambda setting, seed: {"score": given[str(setting)] + seed})
    (table,) = p4_table3.page(records).tables
    return table


def test_the_finding_holds(tmp_path):
    table = shown(tmp_path, (90.0, 95.0, 90.0, 90.5))
    assert [row[4] for row in table.rows] == ["90.50 ± 0.71", "95.50 ± 0.71", "90.50 ± 0.71", "91.00 ± 0.71"]
    without, private = [row[1] for row in table.rows[:2]], [float(row[1]) for row in table.rows[2:]]
    assert without == ["none", "none"]
    assert private == pytest.approx([1, 1], rel=1e-5)
    assert table.sentences[-3] == "Fine-tuning gains +5.00 ± 0.71 without privacy; printed: +6.3."
    assert table.sentences[-2] == "Fine-tuning gains +0.50 ± 0.71 with privacy; printed: -0.2."
    assert table.sentences[-1].endswith("Here it gains without privacy and gains nothing with it.")


def test_the_finding_does_not_hold(tmp_path):
    table = shown(tmp_path, (90.0, 90.0, 90.0, 95.0))
    assert table.sentences[-1].endswith("Here it gains nothing without privacy and gains with it.")


def test_nothing_in_the_records(tmp_path):
    (table,) = p4_table3.reproduce(Inputs(records=tmp_path, seeds=0)).tables
    assert {row[4] for row in table.rows} == {"not run"}
    assert table.sentences[-1].endswith("too few trainings to say whether that holds here.")


# ---- Table 4 ---------------------------------------------------------------------------------------------------------------------


def test_the_last_column_is_not_what_its_head_says():
    """Recomputed here from the paper's formula alone: a misprint by a common factor of some hundreds."""
    alpha = 1 + 2 * np.log(1e5)
    for row, n, d, factor in zip(p4_table4.TABLE_4, (50_000, 50_000, 5_163), (5_120, 2_560, 1_536), (953, 499, 949), strict=True):
        own = 0.5 * n**2 / (alpha * d) / row.condition**2
        assert row.recomputed == pytest.approx(own, rel=1e-12)
        assert row.last / own == pytest.approx(factor, abs=1)


def test_the_printed_entries_agree_with_one_another():
    ranges = [row.implied_range for row in p4_table4.TABLE_4]
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    assert low < high < 1.05 * low
    for row, (first, last) in zip(p4_table4.TABLE_4, ranges, strict=True):
        assert first < row.implied < last
        middle = row.n**2 / ((low + high) / 2 * row.classes) / row.condition**2
        assert middle == pytest.approx(row.last, rel=0.06)
    # No reading of the head gives it; without the number of inputs it comes closest.
    assert not any(low <= of() <= high for of in p4_table4.READINGS.values())
    nearest = min(p4_table4.READINGS, key=lambda way: abs(p4_table4.READINGS[way]() / low - 1))
    assert nearest.startswith("inputs left out")
    assert abs(p4_table4.READINGS[nearest]() / low - 1) < 0.05


def problem(loss, rows):
    from dplateau_papers.study.features import Problem

    target = np.arange(len(rows)) % loss.outputs
    return Problem("few rows", loss, rows, target, rows, target)


@pytest.mark.parametrize(("loss", "share"), [(Softmax(3), 0.5), (Logistic(), 0.25)])
def test_constants_bound_the_curvature(loss, share):
    rows = np.random.default_rng(1).normal(size=(400, 4)) * [1, 0.5, 0.2, 0.1]
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    largest = np.linalg.norm(rows, 2) ** 2 / 400
    for found, convexity in zip(p4_table4.constants(problem(loss, rows)), p4_table4.LAMBDAS, strict=True):
        assert found.d == 4 * loss.outputs
        assert found.convexity == convexity
        assert found.beta == share + convexity
        assert found.private_beta == pytest.approx(share * largest + convexity, rel=1e-9)
        assert found.private_beta < found.beta
        ratio, size = found.beta / convexity, 400**2 / (4 * np.log(1e5) * found.d)
        assert found.constant == np.ceil(2 * ratio * np.log(size))
        assert found.falling == np.ceil(max(ratio * size, size**2 / ratio))


def test_lemma_51_bounds_no_single_record():
    """A record's own curvature exceeds the lemma's beta: x'x/2 with many zero rows beside it; the public beta covers it."""
    rows = np.zeros((50, 3))
    rows[0] = [1.0, 0.0, 0.0]
    found = p4_table4.constants(problem(Softmax(2), rows))[0]
    direction = np.outer([1.0, 0.0, 0.0], [1.0, -1.0]) / np.sqrt(2)

    def slope(t):
        scores = rows[0] @ (t * direction)
        chances = np.exp(scores) / np.exp(scores).sum()
        return float((np.outer(rows[0], chances - [1, 0]) * direction).sum())

    own = (slope(1e-4) - slope(-1e-4)) / 2e-4 + found.convexity
    assert own == pytest.approx(0.5 + found.convexity, rel=1e-6)
    assert own > 10 * found.private_beta
    assert own <= found.beta * (1 + 1e-6)


def test_a_page_from_data(inputs, monkeypatch):
    from dplateau_papers.study import features as study_features

    monkeypatch.setattr(study_features, "public_network", lambda _: untrained())
    found = p4_table4.reproduce(inputs)
    printed, steps, ours = found.tables
    assert [row[6] for row in printed.rows] == ["3.2e-03", "1.5e-04", "6.8e-05"]
    assert [row[7] for row in printed.rows] == ["3.4e-06", "3.0e-07", "7.2e-08"]
    assert len(steps.rows) == 3
    assert [row[0] for row in ours.rows] == ["MNIST features"] * 3 + ["Adult"] * 3
    assert [row["beta"] for row in found.numbers["ours"]] == pytest.approx([0.51, 0.501, 0.5001, 0.26, 0.251, 0.2501])
    assert all(row["private_beta"] <= row["beta"] for row in found.numbers["ours"])


def test_the_page_has_what_is_computed():
    shown = (Path(__file__).parents[2] / "docs" / "reproduced" / "p4-tables34.md").read_text()
    for table in p4_table4.page(()).tables:
        assert table.markdown() in shown
    (table,) = p4_table3.page(Records("none")).tables
    for sentence in table.sentences[:3]:
        assert sentence in shown
    assert "not run" not in shown.replace("<!-- not run -->", "")


def test_without_data_only_what_is_printed(tmp_path):
    found = p4_table4.reproduce(Inputs(records=tmp_path, seeds=0))
    assert len(found.tables) == 2
    assert found.numbers["ours"] == []
