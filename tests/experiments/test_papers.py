"""The experiments on networks, on small files in the formats of the data sets."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import dplateau as dp
from dplateau.networks.recorded import record

EXPERIMENTS = str(Path(__file__).parents[2] / "experiments")


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, EXPERIMENTS)
    yield
    sys.path.remove(EXPERIMENTS)
    for name in ("networks", "records", "p2_networks", "p3_adaptive"):
        sys.modules.pop(name, None)


@pytest.fixture
def p2():
    import p2_networks

    return p2_networks


@pytest.fixture
def p3():
    import p3_adaptive

    return p3_adaptive


def small(p2, name, **changes):
    return p2.ROWS[name][0]._replace(epochs=2, batch_size=4, **changes)


def write_imdb(folder):
    words = ["good", "bad", "film", "the", "and"]
    for part in ("train", "test"):
        for kind, word in (("pos", "good"), ("neg", "bad")):
            (folder / part / kind).mkdir(parents=True)
            for k in range(6):
                (folder / part / kind / f"{k}_{9 if kind == 'pos' else 2}.txt").write_text(f"The {word} film and the {word}")
    (folder / "imdb.vocab").write_text("\n".join(words) + "\n")


def test_table_3_on_small_reviews(p2, tmp_path):
    write_imdb(tmp_path)
    task = p2.imdb(tmp_path, 0)
    assert task.train[0].shape == (12, 256)
    assert set(task.train[1].tolist()) == {0.0, 1.0}
    result = p2.train(task, small(p2, "imdb"), 0)
    assert 0 <= result["score"] <= 100
    assert [steps for steps, _ in result["curve"]] == [3, 6]


def test_table_4_on_small_ratings(p2, tmp_path):
    lines = [f"{user}::{movie}::{1 + (user + movie) % 5}::1" for user in range(1, 6) for movie in range(1, 5)]
    (tmp_path / "ratings.dat").write_text("\n".join(lines) + "\n")
    task = p2.movielens(tmp_path, 0)
    assert len(task.train[1]) == 16
    assert len(task.test[1]) == 4
    assert set(np.concatenate([task.train[1], task.test[1]]).tolist()) <= set(range(5))
    result = p2.train(task, small(p2, "movielens"), 0)
    assert 0 < result["score"] < 4


def test_embeddings_need_no_gradient_for_every_example(p2):
    # A copy of the embedding for each example would make both experiments impossible.
    import networks

    for network, loss, example in (
        (networks.imdb_network(), networks.logistic, (np.zeros(256, np.int32), np.float32(0))),
        (networks.movielens_network(), networks.cross_entropy, (np.zeros(2, np.int32), np.int32(0))),
    ):
        params = network.init(jax.random.key(0))
        large = {leaf for leaf, value in enumerate(jax.tree.leaves(params)) if value.size > 1_000}
        assert large <= set(record(loss(network), params, example).sites)


def test_the_rows_are_those_that_the_paper_accounts_for(p2):
    from dplateau.reproduce.p2_settings import SETTINGS

    rows = [(*p2.ROWS["mnist"], *p2.ROWS["adult"], *p2.ROWS["imdb"], *p2.ROWS["movielens"]), SETTINGS]
    for row, setting in zip(*rows, strict=True):
        run = p2.run_of(row, setting.n)
        assert (run.sampling, run.steps, run.noise_multiplier) == (
            setting.run.sampling,
            setting.run.steps,
            setting.run.noise_multiplier,
        )
        assert (row.clt, row.moments, row.delta) == (setting.clt, setting.ma, setting.delta)


def test_costs_are_certified_beside_what_is_claimed():
    from records import certified

    run = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=3516, noise_multiplier=1.3)
    cost = certified(run, 1e-5)
    assert cost["epsilon"] == pytest.approx(0.8645, abs=1e-4)
    assert cost["clt"] == pytest.approx(0.83, abs=0.01)
    assert cost["moments"] == pytest.approx(1.19, abs=0.01)


def test_records_survive_an_interruption(tmp_path):
    from records import Records

    path, done = tmp_path / "records.jsonl", []

    def train(setting, seed):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append((setting["row"], seed))
        return {"score": setting["row"] + 10 * seed}

    with pytest.raises(KeyboardInterrupt):
        Records(path).collect([{"row": 1}, {"row": 2}], range(2), train)
    with open(path, "a") as file:
        file.write('{"setting": {"row": 2}, "se')  # cut off by the interruption
    assert done == [(1, 0), (2, 0), (1, 1)]
    done.clear()
    records = Records(path)
    records.collect([{"row": 1}, {"row": 2}], range(2), train)
    assert done == [(2, 1)]
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [0, 0, 1, 1]
    assert Records(path).results({"row": 2}) == [{"score": 2}, {"score": 12}]


def test_adp_and_dp_cost_the_same(p3):
    for schedule in ("linear", "polynomial"):
        runs = [p3.compared(5_120, schedule, method, 2, 1.0, 1.2) for method in ("DP", "ADP")]
        for run in runs:
            assert 1.2 * (1 - 1e-6) <= dp.account(run, delta=p3.DELTA).epsilon <= 1.2
        assert runs[0].step_size == runs[1].step_size
        noise = np.array(runs[1].noise_multiplier)
        np.testing.assert_allclose(noise * np.sqrt(runs[1].step_size) / (noise[0] * np.sqrt(runs[1].step_size[0])), 1, rtol=1e-9)
