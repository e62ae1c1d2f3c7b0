"""``dplateau train --person``: whose a row is stands in a column, which is not a feature."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dplateau.certificate import verify
from dplateau.data import load_dataset, load_schema, open_stream
from dplateau.estimators.table_model import load_model

N = 300
SCHEMA = """
[columns.age]
type = "number"
low = 0
high = 100
[columns.ill]
type = "target"
classes = ["no", "yes"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("persons")
    random = np.random.default_rng(0)
    number = np.repeat(np.arange(N), random.integers(1, 6, N))
    age = random.integers(0, 101, len(number))
    columns = {"id": [f"P{one}" for one in number], "number": number, "age": age, "ill": np.where(age > 50, "yes", "no")}
    table = pa.table(columns)
    parquet.write_table(table, folder / "rows.parquet", row_group_size=70)
    mixed = table.take(random.permutation(len(number)))
    for name, rows in (("rows", table.to_pylist()), ("mixed", mixed.to_pylist())):
        lines = (",".join(str(entry) for entry in row.values()) for row in rows)
        (folder / f"{name}.csv").write_text("\n".join(["id,number,age,ill", *lines]) + "\n")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "ignored.toml").write_text(SCHEMA + '[columns.id]\ntype = "ignored"\n')
    text = (folder / "rows.csv").read_text()
    (folder / "empty.csv").write_text(text.replace("P7,", ",", 1))
    return folder


@pytest.fixture
def train(dplateau, folder, tmp_path):
    def call(file, *arguments, schema="schema.toml"):
        output = tmp_path / "model"
        command = ("train", folder / file, "--schema", folder / schema, "--epsilon", 2, "--output", output)
        return *dplateau(*command, *arguments), output

    return call


@pytest.mark.parametrize("file", ["rows.csv", "mixed.csv", "rows.parquet", "rows.jsonl"])
def test_persons_are_certified(train, file):
    code, out, err, output = train(file, "--person", "id", "--steps", 20)
    assert (code, err) == (0, "")
    assert "All rows of a person are protected together." in re.sub(r"\s+", " ", out)
    model = load_model(output)
    certificate = model.certificate
    assert (certificate.run.n, certificate.run.unit) == (N, "person")
    assert {"persons", "schema"} <= {one.name for one in certificate.assumptions}
    assert verify(certificate).certifies
    assert model.feature_names == ("age", "age unknown", "intercept")


@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet", "rows.jsonl"])
@pytest.mark.parametrize("solver", ["auto", "noisy-sgd"])
def test_a_stream_is_the_same_from_every_file(train, file, solver, tmp_path):
    code, _, err, output = train(file, "--person", "number", "--stream", "--solver", solver, "--insecure-seed", 1, "--steps", 10)
    assert (code, err) == (0, "")
    found = load_model(output)
    assert (found.certificate.run.n, found.certificate.run.unit) == (N, "person")
    output.rename(tmp_path / "first")
    code, *_, output = train(
        file, "--person", "id", "--stream", "--solver", solver, "--insecure-seed", 1, "--steps", 10, "--rows", N
    )
    assert code == 0
    np.testing.assert_array_equal(load_model(output).estimator.coef_, found.estimator.coef_)


@pytest.mark.parametrize(
    ("file", "arguments", "says"),
    [
        ("rows.csv", ("--person", "nobody"), "lacks column 'nobody', which says whose a row is"),
        ("rows.csv", ("--person", "age"), "uses it as a number: a model must not see that"),
        ("rows.csv", ("--person", "ill"), "uses it as a target"),
        ("rows.csv", ("--person", "id", "--rows", 5), "300 persons where n = 5"),
        ("rows.csv", ("--person", "id", "--rows", 5, "--stream"), "more records than n = 5"),
        ("rows.parquet", ("--person", "id", "--rows", 301, "--stream"), "300 persons but the run has n = 301"),
        ("mixed.csv", ("--person", "id", "--stream"), "do not follow one another"),
        ("mixed.csv", ("--person", "id", "--stream", "--solver", "noisy-sgd"), "do not follow one another"),
        ("empty.csv", ("--person", "id"), "column 'id' is empty in 1 of"),
        ("empty.csv", ("--person", "id", "--stream"), "column 'id' is empty in 1 of"),
    ],
)
def test_what_is_wrong_is_one_line_and_no_folder(train, file, arguments, says):
    code, out, err, output = train(file, *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"(dplateau: warning: few persons [^\n]+\n)?dplateau: (?!warning)[^\n]+\n", err)
    assert says in err
    assert "P7" not in err
    assert not output.exists()


def test_the_column_may_be_ignored_by_the_schema(train, folder):
    assert train("rows.csv", "--person", "id", "--steps", 2, schema="ignored.toml")[0] == 0
    data = load_dataset(folder / "rows.csv", load_schema(folder / "ignored.toml"), n=N, person="id")
    assert data.groups.tolist()[0] == "P0"
    assert load_dataset(folder / "rows.csv", load_schema(folder / "ignored.toml")).groups is None


def test_files_that_cannot_say_whose_a_row_is(folder, tmp_path):
    from dplateau.spec import InputError

    np.save(tmp_path / "rows.npy", np.ones((4, 2)))
    (tmp_path / "plain.csv").write_text("P1,3,no\nP1,4,yes\n")
    plain = "[csv]\nheader = false\n" + SCHEMA
    (tmp_path / "plain.toml").write_text(plain)
    (tmp_path / "named.toml").write_text('[csv]\nheader = false\n[columns.id]\ntype = "ignored"\n' + SCHEMA)
    for read in (load_dataset, open_stream):
        with pytest.raises(InputError, match="a npy file has no column 'id' of persons"):
            read(tmp_path / "rows.npy", folder / "schema.toml", person="id")
        with pytest.raises(InputError, match="the schema must say where 'id' is"):
            read(tmp_path / "plain.csv", tmp_path / "plain.toml", person="id")
    assert load_dataset(tmp_path / "plain.csv", tmp_path / "named.toml", person="id").groups.tolist() == ["P1", "P1"]
    assert open_stream(tmp_path / "plain.csv", tmp_path / "named.toml", person="id").n == 1
    with pytest.raises(InputError, match="would tear the rows of a person apart"):
        open_stream(folder / "rows.parquet", folder / "schema.toml", person="id", order="random")
    parquet.write_table(pa.table({"id": [1.5, 2.0], "age": [3, 4], "ill": ["no", "yes"]}), tmp_path / "floats.parquet")
    with pytest.raises(InputError, match="of type double: expected texts or whole numbers"):
        load_dataset(tmp_path / "floats.parquet", folder / "schema.toml", person="id")
