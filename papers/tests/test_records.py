"""Finished trainings in a file, and the folders of data sets."""

import json
import os

import pytest

import dplateau as dp
from dplateau_papers.data_sets import DATA_SETS
from dplateau_papers.page import Inputs
from dplateau_papers.records import Records, certified, difference, spread

ROWS = [{"row": 1}, {"row": 2}]
LINE = '{"setting": {"row": 1}, "seed": 0, "result": {"score": 9}}\n'


def scored(setting, seed):
    return {"score": setting["row"] + 10 * seed}


def test_an_interrupted_collection_goes_on(tmp_path):
    path, done, told = tmp_path / "records.jsonl", [], []

    def train(setting, seed):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append((setting["row"], seed))
        return scored(setting, seed)

    with pytest.raises(KeyboardInterrupt):
        Records(path).collect(ROWS, range(2), train)
    assert done == [(1, 0), (2, 0), (1, 1)]
    with open(path, "a") as file:
        file.write('{"setting": {"row": 2}, "se')  # cut off
    done.clear()
    records = Records(path)
    assert [line["seed"] for line in records.lines] == [0, 0, 1]
    records.collect(ROWS, range(2), train, told.append)
    assert done == [(2, 1)]
    assert told == ["1 of 1: row 2, seed 1"]
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [0, 0, 1, 1]
    again = Records(path)
    assert again.lines == records.lines
    assert again.results({"row": 2}) == [{"score": 2}, {"score": 12}]
    assert again.values({"row": 2}, "score") == [2, 12]
    assert again.results({"row": 3}) == []


def test_settings_are_the_same_after_they_were_written(tmp_path):
    settings = [{"sizes": (0.1, 1e-5), "noise_multiplier": 3}]
    told = []
    for _ in range(2):
        records = Records(tmp_path / "x.jsonl")
        records.collect(settings, [0], lambda setting, seed: {"score": 1}, told.append)
    assert len(records.lines) == 1
    assert records.values(settings[0], "score") == [1]
    assert told == ["1 of 1: sizes [0.1, 1e-05], noise multiplier 3, seed 0"]


def test_what_is_done_needs_no_permission_to_write(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl"
    path.write_text(LINE)
    records = Records(path)
    monkeypatch.setattr("builtins.open", None)
    records.collect(ROWS[:1], [0], scored)


@pytest.mark.parametrize("broken", ["nothing\n", "[1]\n", '{"setting": {}, "seed": 0}\n', "\n", '{"seed": "1"}\n', "\xff\n"])
def test_a_foreign_line_is_named(tmp_path, broken):
    (tmp_path / "x.jsonl").write_text(LINE + broken, encoding="latin-1")
    with pytest.raises(dp.InputError, match=r"x\.jsonl, line 2 is not a record of a training"):
        Records(tmp_path / "x.jsonl")


def test_results_of_another_version(tmp_path):
    (tmp_path / "x.jsonl").write_text(LINE)
    with pytest.raises(dp.InputError, match=r"x\.jsonl has results without 'mean'"):
        Records(tmp_path / "x.jsonl").values({"row": 1}, "mean")


def test_numbers_that_are_not_finite_are_no_result(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        Records(tmp_path / "x.jsonl").collect(ROWS, [0], lambda setting, seed: {"score": float("nan")})
    assert (tmp_path / "x.jsonl").read_text() == ""


def test_a_file_that_cannot_be_used(tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "endless"):
        with pytest.raises(dp.InputError, match=r"is not a file: expected records of trainings\."):
            Records(path)
    with pytest.raises(dp.InputError, match="cannot be written: No such file or directory"):
        Records(tmp_path / "no" / "x.jsonl").collect(ROWS, [0], scored)

    def missing(setting, seed):
        (tmp_path / "data").read_text()

    with pytest.raises(dp.InputError, match=r"data: No such file or directory, in the training with row 1, seed 0"):
        Records(tmp_path / "x.jsonl").collect(ROWS, [0], missing)


@pytest.mark.skipif(os.name != "posix", reason="no such locks")
def test_two_do_not_do_the_same(tmp_path):
    path = tmp_path / "x.jsonl"
    other = Records(path)

    def train(setting, seed):
        if setting["row"] == 2:
            with open(path, "a") as file:
                file.write('{"cut')  # the lock is held, so this one is writing: it must not be cut off
            late = Records(path)
            assert late.lines == [json.loads(LINE) | {"result": {"score": 1}}]
            with pytest.raises(dp.InputError, match="another process adds to the records"):
                late.collect(ROWS, [0], scored)
            assert path.read_text().endswith('{"cut')
            os.truncate(path, path.stat().st_size - 5)
        return scored(setting, seed)

    Records(path).collect(ROWS, [0], train)
    # What was finished meanwhile is not done again.
    other.collect([*ROWS, {"row": 3}], [0], scored)
    assert [json.loads(line)["setting"]["row"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_costs_are_certified_beside_what_is_claimed():
    cost = certified(dp.Run(n=60_000, sampling=dp.Poisson(256), steps=3516, noise_multiplier=1.3), 1e-5)
    assert cost["epsilon"] == pytest.approx(0.864541, abs=1e-6)
    assert cost["clt"] == pytest.approx(0.83, abs=0.005)
    assert cost["moments"] == pytest.approx(1.19, abs=0.005)


def test_means_and_gaps():
    assert spread([]) == "not run"
    assert spread([3.0]) == "3.00"
    assert spread([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0"
    assert difference([1.0, 3.0], [5.0]) == ""
    # Variances 2 and 8 of two each: the error is sqrt(1 + 4).
    assert difference([1.0, 3.0], [3.0, 7.0]) == "-3.00 ± 2.24"


def test_the_folder_of_a_data_set(tmp_path):
    with pytest.raises(dp.InputError, match=r"give --data-dir, a folder that holds a folder a9a\. It holds a9a, a9a\.t, published"):
        Inputs().folder("a9a")
    inputs = Inputs(data_dir=tmp_path)
    with pytest.raises(
        dp.InputError, match=r"there is no folder .*mnist: .*train-images-idx3-ubyte.* \(or \.gz\), published at http"
    ):
        inputs.folder("mnist")
    for name, data in DATA_SETS.items():
        (tmp_path / name).mkdir()
        for file in data.files:
            with pytest.raises(dp.InputError, match=f"{name} has no {file}"):
                inputs.folder(name)
            (tmp_path / name / (f"{file}.gz" if data.packed else file)).touch()
        assert inputs.folder(name) == tmp_path / name


def test_the_folder_of_records(tmp_path):
    with pytest.raises(dp.InputError, match="p2-table1 trains, and keeps what is finished: give --records"):
        Inputs().records_of("p2-table1")
    records = Inputs(records=tmp_path / "a" / "b").records_of("p2-table1")
    assert records.path == tmp_path / "a" / "b" / "p2-table1.jsonl"
    assert records.path.parent.is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(dp.InputError, match="file cannot be made: File exists"):
        Inputs(records=tmp_path / "file").records_of("p2-table1")
