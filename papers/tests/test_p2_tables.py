"""The networks of Bu, Dong, Long and Su 2020, on a few records in the data sets' own formats."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from dplateau.networks.recorded import record
from dplateau.spec import InputError
from dplateau_papers import networks
from dplateau_papers.entries import ENTRIES
from dplateau_papers.p2 import networks as p2_networks
from dplateau_papers.p2 import tables as p2_tables
from dplateau_papers.p2.settings import CALIBRATIONS, SETTINGS
from dplateau_papers.page import Inputs
from dplateau_papers.records import Records

SHOWN = (p2_tables.TABLE_1, p2_tables.TABLE_2, p2_tables.TABLE_3, p2_tables.TABLE_4, p2_tables.FIGURE_4)


def brief(shown):
    """The same with p = 1/3 and two epochs."""
    return replace(shown, trainings=tuple(_brief(one) for one in shown.trainings))


def _brief(one):
    return replace(one, setting=replace(one.setting, n=12, batch_size=4, epochs=2))


def columns(table, name):
    return [row[table.columns.index(name)] for row in table.rows]


def test_runs_are_those_that_the_paper_accounts_for():
    trainings = [one for shown in SHOWN[:4] for one in shown.trainings]
    assert [one.setting for one in trainings] == list(SETTINGS)
    for one in trainings:
        run = one.run(one.setting.n)
        assert run == one.setting.run.replace(clip_norm=one.clip_norm, update="post-processed")
        # On other numbers of records it costs the same.
        half = one.run(one.setting.n // 2)
        assert (half.steps, half.noise_multiplier) == (run.steps, run.noise_multiplier)
        assert half.sampling.batch_size / half.n == pytest.approx(run.sampling.batch_size / run.n, rel=1e-12)


def test_figure_4_compares_the_noise_of_two_accountants():
    top, less, *_ = (one.setting for one in p2_tables.FIGURE_4.trainings)
    assert (top.noise_multiplier, top.ma, less.noise_multiplier, less.clt) == (1.3, 1.34, 1.06, 1.34)
    assert np.isnan([top.clt, less.ma]).all()
    assert [top.epochs, less.epochs] == [CALIBRATIONS[0].epochs] * 2
    # What the limit theorem claims is what it says here too.
    table = p2_tables.costs_table(p2_tables.FIGURE_4)
    assert columns(table, "limit theorem, printed") == ["", "1.34", "", "8.68"]
    assert columns(table, "certified") == ["1.0074", "1.40781", "7.09477", "9.4767"]
    assert "row 2, 4." in table.sentences[0]


@pytest.mark.parametrize(("k", "records", "features"), [(0, 24, (28, 28)), (1, 36, (123,)), (2, 12, (256,)), (3, 16, (2,))])
def test_the_data_of_each_table(data_dir, k, records, features):
    task = p2_networks.TASKS[SHOWN[k].key](data_dir / SHOWN[k].data, 0)
    assert task.train[0].shape == (records, *features)
    assert task.train[1].shape == (records,)
    assert 0 <= task.score(task.network.init(jax.random.key(0))) <= 100


@pytest.mark.parametrize("shown", SHOWN[2:4], ids=lambda shown: shown.name)
def test_noisy_adam_on_embeddings(data_dir, shown):
    result = p2_networks.train(p2_networks.TASKS[shown.key](data_dir / shown.data, 0), _brief(shown.trainings[0]), 0)
    assert set(result) == {"score", "mean", "curve"}
    assert 0 <= result["score"] <= 100
    assert 0 <= result["mean"] <= 100
    assert [steps for steps, _ in result["curve"]] == [3, 6]


def test_splits_differ_by_seed_and_share_nothing(data_dir):
    first, again, other = (networks.split(40, 4, seed) for seed in (0, 0, 1))
    assert sorted(np.concatenate(first)) == list(range(40))
    assert len(first[1]) == 4
    np.testing.assert_array_equal(first[1], again[1])
    assert set(first[1]) != set(other[1])
    classes = p2_networks.movielens(data_dir / "ml-1m", 0)
    assert (len(classes.train[1]), len(classes.test[1])) == (16, 4)


def test_embeddings_need_no_gradient_for_every_example():
    # A copy of the embedding for each example would make both tables impossible.
    for network, loss, example in (
        (networks.imdb_network(), networks.logistic, (np.zeros(256, np.int32), np.float32(0))),
        (networks.movielens_network(), networks.cross_entropy, (np.zeros(2, np.int32), np.int32(0))),
    ):
        params = network.init(jax.random.key(0))
        large = {leaf for leaf, value in enumerate(jax.tree.leaves(params)) if value.size > 1_000}
        assert large <= set(record(loss(network), params, example).sites)


def test_an_entry_trains_and_goes_on(data_dir, tmp_path):
    shown, told = brief(p2_tables.TABLE_2), []
    inputs = Inputs(data_dir, tmp_path / "records", 2, told.append)
    found = p2_tables.reproduce(shown, 10, inputs)
    assert told == ["1 of 2: table adult, row 1, seed 0", "2 of 2: table adult, row 1, seed 1"]
    scores, costs = found.tables
    assert columns(scores, "printed") == ["84.0"]
    assert columns(scores, "runs") == ["2"]
    values = Records(tmp_path / "records" / "p2-table2.jsonl").values({"table": "adult", "row": 1}, "score")
    assert columns(scores, "last iterate") == [f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"]
    assert found.numbers["rows"][0]["scores"] == values
    assert costs.rows[0][:4] == ("1", "1e-05", "10.20", "14.70")
    # What is finished is shown again, without the data.
    told.clear()
    assert p2_tables.reproduce(shown, 10, replace(inputs, data_dir=None, seeds=0)).tables == found.tables
    assert p2_tables.reproduce(shown, 2, replace(inputs, seeds=None)).tables == found.tables
    assert told == []


def test_pictures(data_dir, tmp_path):
    pytest.importorskip("matplotlib")
    for shown in (brief(p2_tables.TABLE_1), p2_tables.FIGURE_4):
        path = tmp_path / f"{shown.name}.jsonl"
        assert p2_tables.page(shown, Records(path)).pictures == {}
        curve = [[steps, 90 + steps] for steps in (1, 2, 3)]
        result = {"score": 93, "mean": 92, "curve": curve}
        Records(path).collect([shown.key_of(1), shown.key_of(2)], [0, 1], lambda setting, seed, result=result: result)
        pictures = p2_tables.page(shown, Records(path)).pictures
        assert list(pictures) == [shown.name]
        figure = pictures[shown.name][1]()
        labels = [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()]
        assert len(labels) == (2 if shown.name == "p2-table1" else 2 + 4)
        lines = figure.axes[0].get_lines()
        assert lines[0].get_ydata().tolist() == [91, 92, 93]
        assert lines[0].get_xdata()[-1] == shown.trainings[0].setting.epochs


def test_entries_say_what_is_missing_before_any_work(data_dir, tmp_path):
    for shown in SHOWN:
        entry = ENTRIES[shown.name]
        with pytest.raises(InputError, match=f"the data set {shown.data} is needed: give --data-dir"):
            entry.check(Inputs(records=tmp_path))
        with pytest.raises(InputError, match=f"{shown.name} trains, and keeps what is finished: give --records"):
            entry.check(Inputs(data_dir))
        entry.check(Inputs(data_dir, tmp_path))
        entry.check(Inputs(records=tmp_path, seeds=0))
        (tmp_path / f"{shown.name}.jsonl").write_text("{}\n")
        with pytest.raises(InputError, match=r"line 1 is not a record"):
            entry.check(Inputs(data_dir, tmp_path))
