import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dplateau.data import load_dataset, load_schema, sample_path, schema_from_toml, schema_template
from dplateau.spec import InputError


def test_a_template_has_names_and_types_but_nothing_from_the_rows(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age;odd name;income\n3141;secretly;zero\nNA;private;many\n")
    text = schema_template(path, target="income")
    assert re.search(r'\[columns\.age\]\ntype = "number"\nlow = "FILL IN"\nhigh = "FILL IN"', text)
    assert re.search(r'\[columns\."odd name"\]\ntype = "category"\nvalues = \["FILL IN"\]', text)
    assert re.search(r'\[columns\.income\]\ntype = "target"\nclasses = \["FILL IN"\]', text)
    assert 'delimiter = ";"' in text
    assert "statistics of private" in text
    assert not any(value in text for value in ("3141", "secretly", "zero", "many"))


def test_a_template_is_refused_until_it_is_filled_in(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex,income\n30,f,low\n40,m,high\n")
    template = tmp_path / "schema.toml"
    template.write_text(schema_template(path))
    with pytest.raises(InputError, match='3 columns still say "FILL IN": age, sex, income'):
        load_schema(template)
    filled = template.read_text().replace('low = "FILL IN"', "low = 0").replace('high = "FILL IN"', "high = 99")
    filled = filled.replace('values = ["FILL IN"]', 'values = ["f", "m"]').replace(
        'classes = ["FILL IN"]', 'classes = ["low", "high"]'
    )
    assert load_dataset(path, schema_from_toml(filled)).target.tolist() == [0, 1]


def test_a_file_without_a_header(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("30, secret\n40, x\n")
    with pytest.raises(InputError, match=r"looks like data.* pass header=False") as caught:
        schema_template(path)
    assert "30" not in str(caught.value).replace(str(path), "")
    text = schema_template(path, header=False)
    assert "header = false" in text
    assert '[columns.column_1]\ntype = "number"' in text


def test_other_formats(tmp_path):
    rows = pa.table({"n": [1.5], "c": ["a"], "v": [[1.0]], "d": pa.array([0], pa.date32()), "y": [True]})
    parquet.write_table(rows, tmp_path / "t.parquet")
    kinds = dict(re.findall(r'\[columns\.(\w+)\]\ntype = "(\w+)"', schema_template(tmp_path / "t.parquet")))
    assert kinds == {"n": "number", "c": "category", "v": "vector", "d": "ignored", "y": "target"}
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2)), y=np.ones(2))
    assert 'size = "FILL IN"' in schema_template(tmp_path / "a.npz")
    assert 'type = "target"' in schema_template(sample_path("adult-train"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("one\ntwo\n", "no delimiter"),
        ("a,b\n1\n", "no delimiter"),
        ("a,a\n1,2\n", "used twice"),
        ("a,\n1,2\n", "is empty or used"),
    ],
)
def test_files_that_have_no_template(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        schema_template(path)


def test_a_target_that_is_no_column(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,income\n30,low\n")
    with pytest.raises(InputError, match="no column 'wage'"):
        schema_template(path, target="wage")
