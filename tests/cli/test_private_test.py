"""``dplateau train --private-test``: what is printed and written."""

import json
import shutil

import pytest

from dplateau.certificate import read_certificate, verify
from dplateau.estimators.table_model import load_model


@pytest.fixture
def train(dplateau, table, tmp_path):
    def call(*options):
        fixed = ("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 2, "--steps", 20)
        return dplateau(*fixed, "--output", tmp_path / "model", *options)

    return call


def test_it_is_printed_and_written(train, dplateau, tmp_path):
    code, out, err = train("--private-test", 0.2)
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "400 private rows that were held out; epsilon 2, for these rows and no others" in said
    assert "recall: no " in said
    assert "private-test/" in said
    assert "every row is in one of the two parts" in said
    assert max(map(len, out.splitlines())) <= 80
    assert sorted(path.name for path in (tmp_path / "model" / "private-test").iterdir()) == [
        "certificate.json",
        "test.json",
        "weights.npz",
    ]
    assert verify(read_certificate(tmp_path / "model" / "private-test" / "certificate.json")).certifies
    assert dplateau("account", "--run", tmp_path / "model" / "private-test")[0] == 0
    shutil.copytree(tmp_path / "model" / "private-test", tmp_path / "other")
    shutil.copy(tmp_path / "model" / "weights.npz", tmp_path / "other" / "weights.npz")
    assert dplateau("account", "--run", tmp_path / "other")[0] == 1
    assert dplateau("account", "--run", tmp_path / "model")[0] == 0


def test_json_has_it(train, tmp_path):
    code, out, err = train("--private-test", 0.25, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)["private_test"]
    assert found == load_model(tmp_path / "model").private_test.to_dict()
    assert found["rows"] == 500
    assert abs(found["accuracy"]["value"] - 0.9) < 0.3
    assert found["certifies"]


def test_with_a_fixed_seed_nothing_is_certified(train):
    code, out, _ = train("--private-test", 0.2, "--insecure-seed", 1)
    said = " ".join(out.split())
    assert (code, "epsilon 2, for these rows" in said) == (0, False)
    assert "400 private rows that were held out; certifies nothing: fixed seed" in said


def test_with_a_fixed_seed_json_says_so(train):
    code, out, _ = train("--private-test", 0.2, "--insecure-seed", 1, "--json")
    found = json.loads(out)
    assert (code, found["certifies"], found["private_test"]["certifies"]) == (0, False, False)


@pytest.mark.parametrize("share", ["0", "0.6", "-1", "nan", "x", "0.0001"])
def test_wrong_shares_are_one_line(train, tmp_path, share):
    code, out, err = train("--private-test", share)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "private" in err
    assert not (tmp_path / "model").exists()


def test_a_stream_is_refused(train):
    code, _, err = train("--private-test", 0.2, "--stream")
    assert (code, "private_test does not go with a stream" in err) == (2, True)


def test_an_interrupt_leaves_nothing(train, tmp_path, monkeypatch):
    from dplateau.estimators import private_test
    from dplateau.training import TrainingInterrupted

    def interrupted(*_):
        raise TrainingInterrupted

    monkeypatch.setattr(private_test.PlannedTest, "released", interrupted)
    assert train("--private-test", 0.2)[0] == 130
    assert list(tmp_path.iterdir()) == []
