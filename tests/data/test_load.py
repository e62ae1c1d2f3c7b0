import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dplateau.data import encode, feature_names, load_dataset, load_schema, open_stream, sample_path
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.spec import InputError

DATA = Path(os.environ.get("DPLATEAU_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


def original(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not on this machine")
    return path


def test_the_bundled_adult_data():
    train, test = (load_dataset(sample_path(f"adult-{part}"), "adult") for part in ("train", "test"))
    assert train.features.shape == (32561, len(feature_names(load_schema("adult"))))
    assert test.features.shape == (16281, train.features.shape[1])
    # The class counts of the data set's own documentation (23.93 % of all 48,842 earn more).
    assert int(train.target.sum()) + int(test.target.sum()) == 11687
    assert (np.linalg.norm(train.features.astype(float), axis=1) <= 1).all()
    # Every declared category and bin is a feature, and unknown stays rare: the schema fits the file.
    unknown = [i for i, name in enumerate(train.feature_names) if name.endswith("unknown")]
    assert len(unknown) == 12
    assert 0 < (train.features[:, unknown] > 0).mean() < 0.02


@pytest.mark.parametrize(("file", "sample"), [("adult/adult.data", "adult-train"), ("adult/adult.test", "adult-test")])
def test_the_bundled_adult_data_are_the_originals(file, sample):
    theirs, ours = load_dataset(original(file), "adult"), load_dataset(sample_path(sample), "adult")
    assert (theirs.features == ours.features).all()
    assert (theirs.target == ours.target).all()


def test_a9a():
    found = load_dataset(original("a9a/a9a.t"), "a9a", rows="scale", intercept=0, feature_norm=np.sqrt(14))
    assert found.features.shape == (16281, 123)
    assert found.features.astype(float).sum() == pytest.approx(found.features.round().sum(), rel=1e-6)
    assert int(found.target.sum()) == 3846
    assert found.classes == ("-1", "+1")


def test_linear_models_do_well_on_the_encoding():
    from sklearn.linear_model import LogisticRegression

    train, test = (load_dataset(sample_path(f"adult-{part}"), "adult") for part in ("train", "test"))
    model = LogisticRegression(C=1, fit_intercept=False, max_iter=300).fit(train.features, train.target)
    assert model.score(test.features, test.target) > 0.858


def test_samples_that_do_not_exist():
    with pytest.raises(InputError, match="adult-train, adult-test"):
        sample_path("iris")


def test_importing_the_room_loads_no_table_library():
    code = "import sys, dplateau.data; sys.exit(any(name in sys.modules for name in ('pyarrow', 'jax', 'sklearn', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("read", [open_stream, partial(TableModel.train, stream=True, epsilon=1)])
def test_what_is_no_path_is_said(read):
    for rows in (pd.DataFrame({"age": range(40)}), {"age": [1]}, None):
        wanted = f"is of type {type(rows).__name__}: expected a path. Rows in memory: leave out stream, or write them with to_parq"
        with pytest.raises(InputError, match=wanted):
            read(rows, "adult")


@pytest.mark.parametrize("read", [load_dataset, partial(TableModel.train, epsilon=1)])
def test_what_is_neither_a_path_nor_a_table_is_said(read):
    for rows in (None, 5, [[1, 2]]):
        wanted = f"of type {type(rows).__name__}: expected the path of a file, a DataFrame, an Arrow table, or a dict of columns"
        with pytest.raises(InputError, match=wanted):
            read(rows, "adult")
    with pytest.raises(InputError, match="the table lacks column 'workclass'"):
        read(pd.DataFrame({"age": range(40)}), "adult")
    with pytest.raises(InputError, match="the table has no rows"):
        read(pd.read_parquet(sample_path("adult-train"))[:0], "adult")
    with pytest.raises(InputError, match="the table has 30 rows where n = 31 is declared"):
        read(pd.read_parquet(sample_path("adult-train"))[:30], "adult", n=31)


def test_a_table_in_memory_is_read_as_its_file_is():
    """As a DataFrame, an Arrow table and a dict of columns, with the labels of persons."""
    whole = pq.read_table(sample_path("adult-train"))[:500]
    for rows in (whole, whole.to_pandas(), whole.to_pydict(), {name: whole[name].to_numpy() for name in whole.column_names}):
        found = load_dataset(rows, "adult", n=500)
        wanted = load_dataset(sample_path("adult-train"), "adult")
        assert (found.features == wanted.features[:500]).all()
        assert (found.target == wanted.target[:500]).all()
    frame = whole.to_pandas().assign(who=[f"P{i // 5}" for i in range(500)])
    persons = load_dataset(frame, "adult", n=100, person="who")
    assert persons.groups.tolist() == frame["who"].tolist()
    with pytest.raises(InputError, match="the table has 100 persons where n = 99 is declared"):
        load_dataset(frame, "adult", n=99, person="who")
    with pytest.raises(InputError, match="the schema uses it as a number"):
        load_dataset(frame, "adult", person="age")


def test_a_model_of_a_dataframe_is_that_of_its_file(tmp_path):
    frame = pq.read_table(sample_path("adult-train")).to_pandas()[:2000]
    frame.to_parquet(tmp_path / "rows.parquet")
    how = {"epsilon": 1.0, "insecure_seed": 1, "max_iter": 20, "private_test": 0.1}
    found, wanted = (TableModel.train(rows, "adult", **how) for rows in (frame, tmp_path / "rows.parquet"))
    assert (found.estimator.coef_ == wanted.estimator.coef_).all()
    assert found.certificate == wanted.certificate
    assert (found.private_test.counts == wanted.private_test.counts).all()


def test_what_is_no_table_schema_or_folder_is_said():
    frame = pd.DataFrame({"age": [1]})
    with pytest.raises(InputError, match="the table is of type DataFrame: expected what read_table returns"):
        encode(frame, load_schema("adult"))
    with pytest.raises(InputError, match=r"the schema is of type DataFrame: expected a path. Or pass a Schema"):
        load_schema(frame)
    with pytest.raises(InputError, match="the folder of a model is of type DataFrame: expected a path"):
        load_model(frame)
