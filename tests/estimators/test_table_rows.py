"""Rows to predict: wherever they come from they are encoded as those of the training, and what is wrong with them is one error."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from dplateau.data import load_dataset, pieces, schema_from_toml, schema_to_toml
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.spec import InputError

SCHEMA = """
missing = ["", "?"]
[columns.age]
type = "number"
low = 17
high = 90
bins = [30, 50]
[columns.weight]
type = "number"
low = 0
high = 10
[columns.code]
type = "category"
values = ["1", "2", "3"]
[columns.job]
type = "category"
values = ["clerk", "smith"]
[columns.note]
type = "ignored"
[columns.t]
type = "target"
"""
CLASSES, RANGE = 'classes = ["no", "yes"]', "low = -3\nhigh = 5"


def frame(n, seed=0):
    """Rows with values out of range, missing ones, and categories that nobody declared."""
    random = np.random.default_rng(seed)
    age = pd.Series(random.integers(10, 100, n), dtype="Int64").mask(random.random(n) < 0.1)
    weight = np.where(random.random(n) < 0.1, np.nan, random.uniform(-2, 12, n))
    job = random.choice(np.array(["clerk", "smith", "baker", None], dtype=object), n)
    return pd.DataFrame({"more": random.random(n), "age": age, "weight": weight, "code": random.integers(0, 5, n), "job": job})


@pytest.fixture(scope="module", params=["classes", "numbers"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rows = frame(3000, 1)
    score = rows["weight"].fillna(5) / 5 - 1
    rows["t"] = np.where(score > 0, "yes", "no") if request.param == "classes" else score
    rows["note"] = "x"
    rows.to_csv(folder / "rows.csv", index=False)
    schema = schema_from_toml(SCHEMA + (CLASSES if request.param == "classes" else RANGE))
    return TableModel.train(folder / "rows.csv", schema, epsilon=5.0, delta=1e-6, max_iter=50, insecure_seed=1)


class Exported:
    """A table of another library, as Arrow's interface shows it; texts as Polars has them."""

    def __init__(self, table, *, categorical=False):
        place = table.column_names.index("job")
        job = pa.array(table["job"].to_pylist(), pa.string_view())  # cast to it by older versions of Arrow, it cannot be handed on
        if categorical:
            indices = table["job"].combine_chunks().dictionary_encode()
            texts = pa.array(indices.dictionary.to_pylist(), pa.string_view())
            job = pa.DictionaryArray.from_arrays(indices.indices, texts)
        self.table = table.set_column(place, "job", job)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def forms(rows, folder):
    """The same rows in every form that is taken."""
    arrow = pa.Table.from_pandas(rows, preserve_index=False)
    csv.write_csv(arrow, folder / "rows.csv")
    parquet.write_table(arrow, folder / "rows.parquet", row_group_size=1000)
    return {
        "csv": folder / "rows.csv",
        "parquet": str(folder / "rows.parquet"),
        "frame": rows.set_index(rows.index + 7),
        "categorical": rows.astype({"job": "category", "code": "category"}),
        "objects": rows.astype(object),
        "arrow": arrow,
        "chunks": pa.concat_tables([arrow.slice(0, 11), arrow.slice(11)]),
        "batch": arrow.combine_chunks().to_batches()[0],
        "another library": Exported(arrow),
        "another library's categories": Exported(arrow, categorical=True),
        "lists": arrow.to_pydict(),
        "frame's lists": rows.to_dict("list"),
        "arrays": {name: rows[name].to_numpy() for name in rows},
    }


def test_all_forms_of_the_same_rows_have_the_same_predictions(model, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "ENTRIES", 7000)
    rows = frame(2500)
    found = {
        name: (model.predict(form), model.classes and model.predict_proba(form)) for name, form in forms(rows, tmp_path).items()
    }
    expected = found.pop("csv")
    assert len(expected[0]) == 2500
    assert len(set(expected[0].tolist())) > 1
    for name, (predicted, probabilities) in found.items():
        assert predicted.tolist() == expected[0].tolist(), name
        if model.classes:
            assert probabilities.tobytes() == expected[1].tobytes(), name


def test_rows_are_encoded_as_in_training(model, tmp_path):
    """The features of a file with a target are those of the same file without it."""
    rows = frame(500)
    rows["t"], rows["note"] = ("no" if model.classes else 1.0), "x"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    whole = load_dataset(tmp_path / "rows.csv", model.schema, intercept=1.0 if model.classes else 0.0)
    assert (model.read(rows).features == whole.features).all()
    assert (model.predict(model.read(tmp_path / "rows.csv")) == model.predict(rows.drop(columns="t"))).all()


def test_columns_are_kept_as_they_stand_in_all_forms(model, tmp_path, monkeypatch):
    """Also the target, columns that the schema leaves out, and whole numbers that no double holds."""
    monkeypatch.setattr(pieces, "ENTRIES", 700)
    rows = frame(500)
    rows["t"], rows["note"] = "unknown", [f"note {i} \u00fc" for i in range(500)]
    rows["id"] = pd.Series(2**53 + np.arange(500) + 1, dtype="Int64").mask(np.arange(500) == 7)
    keep = ["id", "note", "t", "job"]
    given = forms(rows, tmp_path)
    del given["arrays"]  # pandas makes doubles of whole numbers of which one is missing
    for name, form in given.items():
        found = list(model.predict_pieces(form, keep=keep))
        assert len(found) > 1
        assert all(list(one) == [*keep, "prediction"] for one in found), name
        assert np.concatenate([one["prediction"] for one in found]).tolist() == model.predict(form).tolist()
        kept = {column: [entry for one in found for entry in one[column].to_pylist()] for column in keep}
        assert [None if one in ("", None) else int(one) for one in kept["id"]] == [
            2**53 + 1 + i if i != 7 else None for i in range(500)
        ]
        assert kept["note"] == rows["note"].tolist()
        assert set(kept["t"]) == {"unknown"}
        assert [one or None for one in kept["job"]] == [None if pd.isna(one) else one for one in rows["job"]]


def test_what_cannot_be_kept(model, tmp_path):
    rows = frame(5)
    np.save(tmp_path / "rows.npy", np.ones((5, 2)))
    for form, keep, message in (
        (rows, ["nothing"], "lacks column 'nothing', which is to be kept"),
        (rows, "job", "keep is 'job': expected a list"),
        (rows, ["probability no"], "none of those that predictions get"),
        (model.read(rows.assign(t="no" if model.classes else 1.0)), ["job"], "encoded rows have no columns to keep"),
        (tmp_path / "rows.npy", ["job"], "a file of format npy holds numbers without names"),
    ):
        with pytest.raises(InputError, match=message):
            next(model.predict_pieces(form, keep=keep))


def test_a_single_row(model):
    rows = frame(20).astype(object)
    every = model.predict(rows)
    for i in range(len(rows)):
        one = rows.iloc[i]
        assert model.predict(one) == pytest.approx(every[i]) if not model.classes else model.predict(one) == every[i]
        assert model.predict(one.to_dict()).tolist() == model.predict(one).tolist() == model.predict(rows.iloc[i : i + 1]).tolist()


GOOD = {"age": [30, 40], "weight": [1.0, 2.0], "code": [1, 2], "job": ["clerk", "smith"]}
BAD = {
    "lacks a column": ({name: GOOD[name] for name in ("age", "weight", "code")}, "the table lacks column 'job'"),
    "a frame lacks it": (pd.DataFrame(GOOD).drop(columns="age"), "the table lacks column 'age'"),
    "a row lacks it": ({"age": 1}, "the table lacks column 'weight'"),
    "twice": (pd.DataFrame([[1, 1, 1, 1, "clerk"]], columns=["age", "age", "weight", "code", "job"]), "more than one column 'age'"),
    "twice in a row": (pd.Series([1, 1, 1, 1, "a"], index=["age", "age", "weight", "code", "job"]), "more than one column 'age'"),
    "twice in Arrow": (pa.table([[1]] * 5, names=["age", "age", "weight", "code", "job"]), "more than one column 'age'"),
    "other lengths": ({**GOOD, "code": [1]}, "'age' has 2 rows, and 'code' 1"),
    "a value and columns": ({**GOOD, "code": 1}, "'code' is a single value, and 'age' a column"),
    "no rows": (pd.DataFrame(GOOD).head(0), "the table has no rows"),
    "no rows in a dict": ({name: [] for name in GOOD}, "the table has no rows"),
    "text in a number": ({**GOOD, "age": ["x", "y"]}, "the table, rows 1 to 2: column 'age' holds something that is not a number"),
    "several types": ({**GOOD, "job": ["clerk", 7]}, "column 'job' has values of several types"),
    "a list among texts": ({**GOOD, "job": ["clerk", ["clerk"]]}, "column 'job' has values of several types"),
    "dates": (
        pd.DataFrame({**GOOD, "age": pd.to_datetime(["2020-01-01"] * 2)}),
        "column 'age' holds something that is not a number",
    ),
    "infinite": ({**GOOD, "weight": [1.0, np.inf]}, "column 'weight' is infinite in 1 rows"),
    "objects": ({**GOOD, "job": [object(), object()]}, "column 'job' has values of several types"),
    "a table": ({**GOOD, "age": np.ones((2, 2))}, "column 'age' holds something that is not a number"),
    "an array": (np.ones((2, 4)), "the rows are of type ndarray"),
    "a list": ([1, 2], "the rows are of type list"),
    "nothing": (None, "the rows are of type NoneType"),
    "a number": (3, "the rows are of type int"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_clear_error(model, name):
    rows, message = BAD[name]
    with pytest.raises(InputError) as caught:
        model.predict(rows)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_target_is_needed_to_evaluate_only(model):
    assert len(model.predict(GOOD)) == 2
    with pytest.raises(InputError, match="the table lacks target column 't'"):
        model.evaluate(GOOD)


def test_files_without_a_target(model, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("age,weight,code,job\n")
    parquet.write_table(pa.table(GOOD).slice(0, 0), tmp_path / "empty.parquet")
    (tmp_path / "bad.csv").write_text("age,weight,code,job\n" + "30,1,1,clerk\n" * 5 + "x,1,1,clerk\n")
    for name, message in (
        ("pipe.csv", "is a pipe or a device"),
        ("empty.csv", "is empty"),
        ("header.csv", "has no rows"),
        ("empty.parquet", "has no rows"),
        ("bad.csv", "rows 1 to 6: column 'age' holds something that is not a number"),
        ("no.csv", "no such file"),
        (".", "is a directory"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(tmp_path / name)


def test_rows_encoded_by_another_schema_are_refused(model):
    rows = model.read(frame(5).assign(t="no" if model.classes else 0.0))
    other = type(rows)(**{**vars(rows), "feature_names": ("a",)})
    with pytest.raises(InputError, match="encoded by another schema"):
        model.predict(other)


def test_a_csv_file_without_names(model, tmp_path):
    """The place of a column counts, so the target may be left out, and nothing else."""
    schema = schema_from_toml(schema_to_toml(model.schema) + "\n[csv]\nheader = false\n")
    unnamed = TableModel(model.model, model.estimator, schema)
    rows = frame(50).drop(columns="more").assign(note="x", t="no")
    rows.drop(columns="t").to_csv(tmp_path / "new.csv", index=False, header=False)
    rows.to_csv(tmp_path / "old.csv", index=False, header=False)
    rows.drop(columns=["t", "note"]).to_csv(tmp_path / "short.csv", index=False, header=False)
    expected = model.predict(rows).tolist()
    assert unnamed.predict(tmp_path / "new.csv").tolist() == unnamed.predict(tmp_path / "old.csv").tolist() == expected
    with pytest.raises(InputError, match="the first line has 4 fields"):
        unnamed.predict(tmp_path / "short.csv")


VECTOR = '[columns.x]\ntype = "vector"\nsize = 3\nlow = -1\nhigh = 1\n[columns.t]\ntype = "target"\nclasses = ["0", "1"]\n'


def test_arrays_with_and_without_a_target(tmp_path):
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (400, 3))
    y = (X[:, 0] > 0).astype(float)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    model = TableModel.train(tmp_path / "train.npz", schema_from_toml(VECTOR), epsilon=5, delta=1e-6, max_iter=20, insecure_seed=1)
    np.savez(tmp_path / "new.npz", X=X)
    np.save(tmp_path / "new.npy", X)
    np.save(tmp_path / "old.npy", np.column_stack([X, np.full(400, np.nan)]))
    (tmp_path / "new.svm").write_text("".join(f"0 1:{a} 2:{b} 3:{c}\n" for a, b, c in X.tolist()))
    expected = model.predict(tmp_path / "train.npz").tolist()
    assert set(expected) == {"0", "1"}
    for form in ("new.npz", "new.npy", "old.npy", "new.svm"):
        assert model.predict(tmp_path / form).tolist() == expected, form
    for form in ({"x": X}, {"x": list(X)}, {"x": X.tolist()}, pd.DataFrame({"x": list(X)}), pa.table({"x": X.tolist()})):
        assert model.predict(form).tolist() == expected
    np.save(tmp_path / "narrow.npy", X[:, :2])
    with pytest.raises(InputError, match="narrow"):
        model.predict(tmp_path / "narrow.npy")
    with pytest.raises(InputError, match="expected lists of 3"):
        model.predict({"x": X[:, :2]})


def test_predicting_needs_no_pandas(model, tmp_path):
    model.save(tmp_path / "model")
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'pandas':\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from dplateau import load_model\n"
        f"print(len(load_model({str(tmp_path / 'model')!r}).predict({GOOD!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]


def test_many_rows_are_predicted_in_little_memory(model, tmp_path):
    """A million rows of a file: their encoding alone would take more than is allowed here."""
    model.save(tmp_path / "model")
    table = pa.Table.from_pandas(frame(10_000), preserve_index=False)
    with parquet.ParquetWriter(tmp_path / "rows.parquet", table.schema) as writer:
        for _ in range(100):
            writer.write_table(table)
    code = (
        "import resource, sys; from dplateau import load_model\n"
        f"model = load_model({str(tmp_path / 'model')!r})\n"
        f"small = {str(tmp_path / 'rows.parquet')!r}\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "rows = sum(len(piece['prediction']) for piece in model.predict_pieces(small))\n"
        "print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows, grown = map(int, done.stdout.split())
    assert rows == 1_000_000
    assert grown < 400_000, f"{grown} KiB"


def test_coefficients_say_what_the_model_does(model, tmp_path):
    found = model.coefficients()
    table = pd.DataFrame(found)
    assert table["feature"].iloc[-1] == "intercept"
    rows = model.read(frame(200).assign(t="no" if model.classes else 0.0))
    if model.classes:
        assert list(table) == ["feature", "class", "coefficient"]
        assert set(table["class"]) == {"yes"}
        scores = rows.features @ table["coefficient"].to_numpy()
        assert (np.where(scores > 0, "yes", "no") == model.predict(rows)).all()
        return
    assert list(table) == ["feature", "coefficient"]
    # Features are rows of the schema's own units again: 0 or 1 for an indicator.
    indicator = list(model.feature_names).index("job = clerk")
    units = rows.features / rows.features[:, indicator].max()
    assert units @ table["coefficient"].to_numpy()[:-1] + table["coefficient"].iloc[-1] == pytest.approx(
        model.predict(rows), rel=1e-5
    )


def test_coefficients_of_several_classes(tmp_path):
    schema = schema_from_toml(SCHEMA + 'classes = ["a", "b", "c"]')
    rows = frame(300).assign(t=np.resize(["a", "b", "c"], 300))
    rows.to_parquet(tmp_path / "rows.parquet")
    model = TableModel.train(tmp_path / "rows.parquet", schema, epsilon=5, delta=1e-6, max_iter=5, insecure_seed=1)
    table = pd.DataFrame(model.coefficients())
    assert table["class"].tolist() == [name for name in "abc" for _ in model.feature_names]
    assert table["coefficient"].tolist() == model.estimator.coef_.ravel().tolist()


def test_a_loaded_model_takes_the_same(model, tmp_path):
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    rows = frame(50)
    assert again.predict(rows).tolist() == model.predict(rows).tolist()
    assert again.coefficients() == model.coefficients()
