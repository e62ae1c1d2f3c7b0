import re

import numpy as np
import pandas as pd
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
    assert kinds == {"n": "number", "c": "category", "v": "vector", "d": "date", "y": "target"}
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2)), y=np.ones(2))
    assert 'size = "FILL IN"' in schema_template(tmp_path / "a.npz")
    assert 'type = "target"' in schema_template(sample_path("adult-train"))


def test_dates_of_pandas_are_dates_and_times_of_day_are_left_out(tmp_path):
    day, path = 86_400_000_000, tmp_path / "t.parquet"
    columns = {
        "signed": pa.array([0, None, day], pa.timestamp("us")),
        "fine": pa.array([0, None, 1000 * day], pa.timestamp("ns")),
        "never": pa.array([None] * 3, pa.timestamp("us")),
        "seen": pa.array([0, 1, None], pa.timestamp("ns")),
        "zoned": pa.array([0, day, day], pa.timestamp("us", "UTC")),
        "y": pa.array(["a", "b", "a"]),
    }
    parquet.write_table(pa.table(columns), path)
    text = schema_template(path)
    kinds = {name: kind for name, (kind, _) in proposed(text).items()}
    assert kinds == {"signed": "date", "fine": "date", "never": "date", "seen": "ignored", "zoned": "ignored", "y": "target"}
    assert text.count("# Left out: it holds times of day") == 2
    filled = text.replace('first = "FILL IN"', "first = 1970-01-01").replace('last = "FILL IN"', "last = 1970-01-03")
    data = load_dataset(path, schema_from_toml(filled.replace('["FILL IN"]', '["a", "b"]')))
    assert data.features[0, 0] < data.features[2, 0]


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


def test_a_parquet_file_with_two_columns_of_one_name(tmp_path):
    parquet.write_table(pa.table([[1], [2], [3]], names=["a", "a", "y"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="two columns of one name"):
        schema_template(tmp_path / "t.parquet")


def test_a_target_that_is_no_column(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,income\n30,low\n")
    with pytest.raises(InputError, match="no column 'wage'"):
        schema_template(path, target="wage")


def proposed(text):
    """The kinds of the columns, and the comments before them."""
    found = re.findall(r'(?:^# (.*)\n)?^\[columns\.(.+)\]\n(?:numbers = .*\n)?type = "(\w+)"', text, flags=re.M)
    return {name.strip('"'): (kind, why) for why, name, kind in found}


def test_what_pandas_writes(tmp_path):
    rows = pd.DataFrame({"age": [30, 40], "day": ["2020-01-05", None], "ill": ["no", "yes"]})
    rows.to_csv(tmp_path / "t.csv")
    text = schema_template(tmp_path / "t.csv")
    assert "The first column of the file has no name" in text
    assert [kind for kind, _ in proposed(text).values()] == ["number", "date", "target"]
    filled = re.sub(r'(first|last|low|high) = "FILL IN"', lambda m: f"{m[1]} = " + VALUES[m[1]], text)
    schema = schema_from_toml(filled.replace('["FILL IN"]', '["no", "yes"]'))
    assert load_dataset(tmp_path / "t.csv", schema).features.shape == (2, 5)
    parquet.write_table(pa.table({"age": [1.5], "__index_level_0__": [3], "ill": ["no"]}), tmp_path / "u.parquet")
    assert proposed(schema_template(tmp_path / "u.parquet", target="ill"))["__index_level_0__"][0] == "ignored"


VALUES = {"first": "2020-01-01", "last": "2020-12-31", "low": "0", "high": "100"}


def test_names_and_record_numbers_are_proposed_to_be_left_out(tmp_path):
    rows = "".join(f"p{i},{i},{i % 7},{50 - i},2020-01-{i + 1:02},no\n" for i in range(30))
    (tmp_path / "t.csv").write_text("who,id,few,falling,day,ill\n" + rows)
    found = proposed(schema_template(tmp_path / "t.csv"))
    assert [kind for kind, _ in found.values()] == ["ignored", "ignored", "number", "number", "date", "target"]
    assert "every entry is another one" in found["who"][1]
    assert "only grow" in found["id"][1]


@pytest.mark.parametrize(
    ("entries", "kind", "why"),
    [
        ([f"{i % 9}.{i + 100},50" for i in range(30)], "number", "thousands separators"),
        ([f"{i + 1} {i + 100}" for i in range(30)], "number", "thousands separators"),
        (["950,00", "-1.234.567,5"], "number", "thousands separators"),
        ([f"{i % 28 + 1}.12.2020" for i in range(30)], "date", "only such as 2020-12-31 are read"),
        (["2020/12/31"], "date", "only such as 2020-12-31 are read"),
        (["10.20.30.40", "1.2.3.4"], "category", ""),
        (["12,5", "0,25"], "number", ""),
    ],
)
def test_numbers_and_dates_as_other_programs_write_them(tmp_path, entries, kind, why):
    (tmp_path / "t.csv").write_text("what;ill\n" + "".join(f"{entry};no\n" for entry in entries))
    text = schema_template(tmp_path / "t.csv")
    found = proposed(text)["what"]
    assert found[0] == kind
    assert why in found[1]
    assert ('decimal = ","' in text) == ("," in entries[0])


@pytest.mark.parametrize(
    ("entries", "keys"),
    [(range(30), ["low", "high"]), ([0.5, 1, 2], ["low", "high"]), ([0, 1, 2] * 10, ["classes"]), (["a", "b"], ["classes"])],
)
def test_a_target_with_many_numbers_is_predicted_as_one(tmp_path, entries, keys):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"5,{entry}\n" for entry in entries))
    text = schema_template(tmp_path / "t.csv").partition("[columns.y]\n")[2]
    assert re.findall(r"^(\w+) = .*FILL IN", text, flags=re.M) == keys


def test_numbered_columns_are_one_table(tmp_path):
    names = [f"pixel_{i}" for i in range(64)] + [f"t{i:02}" for i in range(5, 15)] + ["x1", "x2", "x4", "y"]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + ",".join(["3"] * len(names)) + "\n")
    text = schema_template(tmp_path / "t.csv")
    assert '[columns."pixel_*"]\nnumbers = [0, 63]\ntype = "number"' in text
    assert '[columns."t*"]\nnumbers = ["05", "14"]\ntype = "number"' in text
    assert list(proposed(text)) == ["pixel_*", "t*", "x1", "x2", "x4", "y"]
    filled = text.replace('["FILL IN"]', '["3", "4"]').replace('low = "FILL IN"', "low = 0").replace('high = "FILL IN"', "high = 9")
    assert [column.name for column in schema_from_toml(filled).columns] == names
    assert "*" not in schema_template(tmp_path / "t.csv", header=False).partition("header = ")[2]


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ([f"x{i:02}" for i in range(90, 101)] + [f"x{i}" for i in range(101, 110)], ["[90, 109]"]),
        ([f"x{i}" for i in (*range(9), *range(20, 29))], ["[0, 8]"]),
        (["x*", *(f"x{i}" for i in range(9))], []),
        ([f"x{i:02}" for i in range(1, 108)], ['["01", "99"]']),
        ([f"t{i}" for i in range(20240101001, 20240101010)], ["[240101001, 240101009]"]),
        ([f"x{i}" for i in range(10_009)], ["[0, 9999]"]),
    ],
)
def test_numbered_columns_are_those_that_a_schema_can_describe(tmp_path, names, numbers):
    (tmp_path / "t.csv").write_text(",".join([*names, "y"]) + "\n" + ",".join(["3"] * len(names) + ["a"]) + "\n")
    text = schema_template(tmp_path / "t.csv")
    assert re.findall(r"^numbers = (.*)", text, flags=re.M) == numbers
    filled = text.replace('["FILL IN"]', '["a", "b"]').replace('low = "FILL IN"', "low = 0").replace('high = "FILL IN"', "high = 9")
    assert [column.name for column in schema_from_toml(filled).features] == names


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8-sig"])
def test_headers_in_other_encodings(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("größe;ill\n1,5;no\n2,25;yes\n".encode(encoding))
    text = schema_template(tmp_path / "t.csv")
    assert '[columns."größe"]\ntype = "number"' in text
    assert 'decimal = ","' in text
    filled = text.replace('low = "FILL IN"', "low = 0").replace('high = "FILL IN"', "high = 9").replace('"FILL IN"', '"no", "yes"')
    assert load_dataset(tmp_path / "t.csv", schema_from_toml(filled)).target.tolist() == [0, 1]


def test_json_lines(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"a": 1, "more": {"b": [1]}, "c": "x", "d": null, "y": true}\n{"a": 2, "c": "z", "y": false}\n'
    )
    text = schema_template(tmp_path / "t.jsonl")
    assert [kind for kind, _ in proposed(text).values()] == ["number", "ignored", "category", "category", "target"]
    assert "lists or objects" in proposed(text)["more"][1]
    (tmp_path / "t.jsonl").write_text("[]")
    with pytest.raises(InputError, match="expected one JSON object"):
        schema_template(tmp_path / "t.jsonl")
