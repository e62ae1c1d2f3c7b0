"""``dplateau predict`` and ``dplateau evaluate``: what is printed and written, and that nothing is half-written."""

import csv
import io
import json
import os
import shutil
import sys

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from dplateau.data import pieces, schema_from_toml
from dplateau.estimators.table_model import TableModel, load_model

AGE = '[columns.age]\ntype = "target"\nlow = 0\nhigh = 100\n[columns.colour]\ntype = "category"\nvalues = ["red", "blue"]\n'


@pytest.fixture(scope="module")
def models(table, tmp_path_factory):
    """A folder with a logistic model, a support vector machine and a regression."""
    from dplateau.cli.main import status

    folder = tmp_path_factory.mktemp("models")
    (folder / "age.toml").write_text(AGE)
    for name, schema, model in (
        ("logistic", table / "schema.toml", "logistic"),
        ("svc", table / "schema.toml", "svc"),
        ("linear", folder / "age.toml", "linear"),
    ):
        arguments = ["train", table / "rows.csv", "--schema", schema, "--model", model, "--epsilon", 2, "--steps", 30]
        assert status([str(one) for one in (*arguments, "--output", folder / name, "--json")]) == 0
    return folder


@pytest.fixture
def new(table, tmp_path):
    """Rows without a label, in a folder of their own."""
    lines = (table / "holdout.csv").read_text().splitlines()
    path = tmp_path / "new.csv"
    path.write_text("".join(line.rpartition(",")[0] + "\n" for line in lines))
    return path


def test_rows_keep_their_order(dplateau, models, new, monkeypatch):
    monkeypatch.setattr(pieces, "ENTRIES", 100)
    model = load_model(models / "logistic")
    code, out, err = dplateau("predict", models / "logistic", new)
    assert (code, err) == (0, "")
    header, *found = csv.reader(io.StringIO(out))
    assert header == ["prediction"]
    assert [one for (one,) in found] == model.predict(new).tolist()
    assert dplateau("predict", models / "logistic", new, "-o", "-")[1] == out
    assert [path.name for path in new.parent.iterdir()] == ["new.csv"]


def test_files_and_probabilities(dplateau, models, new, monkeypatch):
    monkeypatch.setattr(pieces, "ENTRIES", 100)
    model = load_model(models / "logistic")
    names = ["prediction", "probability no", "probability yes"]
    for ending in ("csv", "parquet"):
        output = new.parent / f"out.{ending}"
        code, out, err = dplateau("predict", models / "logistic", new, "-o", output, "--proba")
        assert (code, err) == (0, "")
        assert out.startswith("500 predictions written to")
        table = pyarrow.csv.read_csv(output) if ending == "csv" else pyarrow.parquet.read_table(output)
        assert table.column_names == names
        assert table["prediction"].to_pylist() == model.predict(new).tolist()
        assert np.column_stack([table[name].to_numpy() for name in names[1:]]).tolist() == model.predict_proba(new).tolist()
    assert sorted(path.name for path in new.parent.iterdir()) == ["new.csv", "out.csv", "out.parquet"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode there")
def test_columns_of_the_rows_are_written_first(dplateau, models, new):
    lines = new.read_text().splitlines()
    new.write_text("\n".join([f"id,{lines[0]}", *(f"{100 - i},{line}" for i, line in enumerate(lines[1:]))]) + "\n")
    code, out, err = dplateau("predict", models / "logistic", new, "--keep", "id", "--keep", "colour")
    assert (code, err) == (0, "")
    header, *found = csv.reader(io.StringIO(out))
    assert header == ["id", "colour", "prediction"]
    assert [one[0] for one in found] == [str(100 - i) for i in range(500)]
    assert [one[2] for one in found] == load_model(models / "logistic").predict(new).tolist()
    code, out, err = dplateau("predict", models / "logistic", new, "--keep", "idd")
    assert (code, out) == (2, "")
    assert "lacks column 'idd', which is to be kept" in err


def test_a_name_that_is_no_unicode(dplateau, models, new):
    output = new.parent / os.fsdecode(b"\xff.parquet")
    code, _, err = dplateau("predict", models / "logistic", new, "--output", output)
    assert (code, err) == (0, "")
    assert output.read_bytes().endswith(b"PAR1")


def test_numbers(dplateau, models, new):
    assert dplateau("predict", models / "linear", new, "--output", new.parent / "out.csv")[0] == 0
    found = pyarrow.csv.read_csv(new.parent / "out.csv")["prediction"].to_pylist()
    assert found == load_model(models / "linear").predict(new).tolist()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("new.csv", "exists already"),
        ("link.csv", "exists already"),
        ("out.txt", "neither .csv nor .parquet"),
        ("out", "neither .csv nor .parquet"),
        ("no/out.csv", "is not a folder"),
        (f"{'x' * 300}.csv", "cannot be written"),
    ],
)
def test_where_nothing_can_be_written(dplateau, models, new, output, message):
    (new.parent / "link.csv").symlink_to("nowhere")
    before = sorted(new.parent.iterdir())
    code, out, err = dplateau("predict", models / "logistic", new, "-o", new.parent / output)
    assert (code, out) == (2, "")
    assert err.startswith("dplateau: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(new.parent.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(dplateau, models, new, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "no permission" in dplateau("predict", models / "logistic", new, "-o", tmp_path / "closed" / "out.csv")[2]


BAD = {
    "empty": ("", "is empty"),
    "header alone": ("age,colour\n", "has no rows"),
    "no column": ("colour\nred\n", "lacks column 'age', which the model was trained on"),
    "column twice": ("age,age,colour\n1,1,red\n", "more than one column 'age'"),
    "text in a number": ("age,colour\n" + "1,red\n" * 300 + "x,red\n", "rows 301 to 301: column 'age'"),
    "infinite": ("age,colour\ninf,red\n", "column 'age' is infinite"),
    "ragged": ("age,colour\n1,red\n2\n", "line 3"),
    "binary": ("\x00\x01", "column"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("output", ["-", "out.csv", "out.parquet"])
def test_bad_rows_leave_nothing_behind(dplateau, models, tmp_path, monkeypatch, name, output):
    monkeypatch.setattr(pieces, "piece_rows", lambda width: 100)
    content, message = BAD[name]
    (tmp_path / "bad.csv").write_text(content)
    code, out, err = dplateau(
        "predict", models / "logistic", tmp_path / "bad.csv", "-o", output if output == "-" else tmp_path / output
    )
    assert (code, out) == (2, ""), err
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_no_model_and_no_file(dplateau, models, table, new, tmp_path, command):
    os.mkfifo(tmp_path / "pipe")
    shutil.copytree(models / "logistic", tmp_path / "cut")
    (tmp_path / "cut" / "schema.toml").unlink()
    for model, file, message in (
        (tmp_path / "nowhere", new, "there is no such file"),
        (tmp_path, new, "model.json cannot be read"),
        (new, new, "is not a folder"),
        (tmp_path / "cut", new, "schema.toml is missing"),
        (models / "logistic", tmp_path / "no.csv", "no such file"),
        (models / "logistic", tmp_path / "pipe", "is a pipe or a device"),
        (models / "logistic", tmp_path, "is a directory"),
    ):
        code, out, err = dplateau(command, model, file)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_probabilities_are_of_logistic_models(dplateau, models, new):
    code, out, err = dplateau("predict", models / "svc", new, "--proba")
    assert (code, out) == (2, "")
    assert "has no class probabilities" in err


def test_a_signature_can_be_demanded(dplateau, models, new):
    for command in ("predict", "evaluate"):
        assert "no key is known as nobody" in dplateau(command, models / "logistic", new, "--signed-by", "nobody")[2]


def test_evaluate(dplateau, models, table):
    for name in ("logistic", "svc", "linear"):
        code, out, err = dplateau("evaluate", models / name, table / "holdout.csv")
        assert (code, err) == (0, "")
        assert "500 of holdout.csv, public by declaration" in out
        assert max(map(len, out.splitlines())) <= 80
        code, out, err = dplateau("evaluate", models / name, table / "holdout.csv", "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert found.pop("model") == str(models / name)
        assert found.pop("file") == str(table / "holdout.csv")
        assert "must be public" in found.pop("warning")
        assert found == load_model(models / name).evaluate(table / "holdout.csv").to_dict()


def test_errors_are_those_of_the_true_targets(dplateau, models, table, tmp_path):
    """Also where they lie outside the range of the schema, to which a training clips them."""
    (tmp_path / "old.csv").write_text("age,colour\n" + "90000,red\n10000,blue\n" * 20)
    out = dplateau("evaluate", models / "linear", tmp_path / "old.csv")[1]
    assert "always predicting the mean, 50,000: 40,000" in out
    (tmp_path / "age.toml").write_text(AGE)
    trained = ("train", table / "rows.csv", "--schema", tmp_path / "age.toml", "--epsilon", 2, "--test", tmp_path / "old.csv")
    out = dplateau(*trained, "--steps", 30, "--output", tmp_path / "model")[1]
    assert "always the mean: 40,000" in " ".join(out.split())


def test_evaluating_needs_the_target(dplateau, models, new):
    code, out, err = dplateau("evaluate", models / "logistic", new)
    assert (code, out) == (2, "")
    assert "lacks target column 'ill'" in err


def test_a_model_that_says_one_thing_is_a_warning(dplateau, models, table, tmp_path):
    """Rows that the model cannot tell apart."""
    (tmp_path / "same.csv").write_text("age,colour,ill\n" + "1,blue,no\n1,blue,no\n1,blue,yes\n")
    for options in ((), ("--json",)):
        code, _, err = dplateau("evaluate", models / "logistic", tmp_path / "same.csv", *options)
        assert code == 0
        assert err.startswith("dplateau: warning: every row is predicted as 'no'")
        assert err.count("\n") == 1


def test_training_says_what_the_majority_is_worth(dplateau, table, tmp_path):
    options = ("--schema", table / "schema.toml", "--epsilon", 1, "--steps", 20, "--output", tmp_path / "model")
    code, out, _ = dplateau("train", table / "rows.csv", "--test", table / "holdout.csv", *options)
    assert code == 0
    labels = [line.rpartition(",")[2] for line in (table / "holdout.csv").read_text().splitlines()[1:]]
    most = max(set(labels), key=labels.count)
    assert f"always {most}: {labels.count(most) / 500:.2%}" in " ".join(out.split())


def test_a_terminal_does_not_obey_the_names_of_classes(dplateau, tmp_path, monkeypatch):
    red = "\x1b[31mred"
    schema = schema_from_toml(
        '[columns.a]\ntype = "number"\nlow = 0\nhigh = 1\n[columns.y]\ntype = "target"\nclasses = ["\\u001b[31mred", "b"]'
    )
    TableModel.train({"a": [0.5] * 50, "y": [red] * 50}, schema, epsilon=9.0, delta=1e-6, max_iter=9).save(tmp_path / "model")
    (tmp_path / "new.csv").write_text("a\n0.5\n")
    assert (
        dplateau("predict", tmp_path / "model", tmp_path / "new.csv", "--proba")[1].splitlines()[0].split(",")[1]
        == f"probability {red}"
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = dplateau("predict", tmp_path / "model", tmp_path / "new.csv", "--proba")[1]
    assert shown.startswith("prediction,probability ?[31mred,probability b\n")
    assert "\x1b" not in shown
