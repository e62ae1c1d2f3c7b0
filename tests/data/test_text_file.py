"""Files as people have them: packed, in other encodings, as JSON lines, with decimal commas and dates."""

import gzip
import json
import os
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dplateau.data import Category, Csv, Date, Number, Schema, Target, check_file, load_dataset, open_stream, text_file
from dplateau.data.schema_file import schema_from_toml, schema_to_toml
from dplateau.spec import InputError

AGE, WHO, DAY = Number("age", 0, 100), Category("who", ("é", "b")), Date("day", "2020-01-01", "2020-12-31")
ILL = Target("ill", ("no", "yes"))
COLUMNS = (AGE, WHO, DAY, ILL)
PLAIN = Schema(columns=COLUMNS)
CSV = "age,who,day,ill\n1.5,é,2020-01-01,no\n100,b,2020-12-31,yes\n,,,no\n"
JSONL = (
    '{"age": 1.5, "who": "\\u00e9", "day": "2020-01-01", "ill": "no", "more": [{}]}\n\n'
    '{"ill": "yes", "age": "100", "who": "b", "day": "2020-12-31"}\r\n{"age": null, "who": null, "day": null, "ill": "no"}'
)


def with_csv(**options):
    return Schema(columns=COLUMNS, csv=Csv(**options))


def same_rows(path, schema):
    """The rows of the file, the same in memory, as a stream and for a check."""
    data = load_dataset(path, schema)
    blocks = list(open_stream(path, schema, block_bytes=60).blocks())
    np.testing.assert_array_equal(np.concatenate([features for features, _ in blocks]), data.features)
    assert check_file(path, schema).rows == len(data.target)
    return np.column_stack([data.features, data.target])


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "plain.csv").write_text(CSV, encoding="utf-8")
    return same_rows(tmp_path / "plain.csv", PLAIN)


@pytest.mark.parametrize(
    ("name", "content", "schema"),
    [
        ("t.csv.gz", gzip.compress(CSV.encode()), PLAIN),
        ("t.CSV.GZ", gzip.compress(CSV[:20].encode()) + gzip.compress(CSV[20:].encode()), PLAIN),
        ("t", gzip.compress(CSV.encode()), PLAIN),
        ("t.csv", CSV.encode("utf-16"), PLAIN),
        ("t.csv", b"\xfe\xff" + CSV.encode("utf-16-be"), PLAIN),
        ("t.csv", CSV.encode("utf-16"), with_csv(encoding="utf-16")),
        ("t.csv", CSV.encode("utf-16-be"), with_csv(encoding="utf-16-be")),
        ("t.csv", CSV.encode("utf-16-le"), with_csv(encoding="utf-16-le", line_breaks=True)),
        ("t.csv.gz", gzip.compress(CSV.encode("utf-16")), PLAIN),
        ("t.csv", CSV.encode("latin-1"), with_csv(encoding="latin-1")),
        ("t.csv", CSV.encode("cp1252"), with_csv(encoding="cp1252")),
        ("t.csv", CSV.replace(",", ";").replace(".", ",").encode(), with_csv(delimiter=";", decimal=",")),
        ("t.csv", CSV.replace("1.5", '"1,5"').encode(), with_csv(decimal=",")),
        ("t.jsonl", JSONL.encode(), PLAIN),
        ("t.ndjson", b"\xef\xbb\xbf" + JSONL.encode(), PLAIN),
        ("t.jsonl.gz", gzip.compress(JSONL.encode()), PLAIN),
        ("t", JSONL.encode(), PLAIN),
        ("t.txt", JSONL.replace('"age"', ' "age"').encode(), Schema(columns=COLUMNS, format="jsonl")),
    ],
)
def test_the_rows_are_those_of_the_plain_file(tmp_path, expected, name, content, schema):
    (tmp_path / name).write_bytes(content)
    np.testing.assert_array_equal(same_rows(tmp_path / name, schema), expected)


HEAD = "age,who,day,ill\n"


@pytest.mark.parametrize(
    ("name", "content", "schema", "message"),
    [
        ("t.csv", b"", PLAIN, "is empty"),
        ("t.csv.gz", gzip.compress(b""), PLAIN, "is empty"),
        ("t.jsonl", b"\n\n", PLAIN, "has no rows"),
        ("t.csv", HEAD.encode(), PLAIN, "has no rows: expected at least one"),
        ("t.csv", (CSV + HEAD).encode(), PLAIN, "holds its header line again"),
        ("t.csv", b"age,age,who,day,ill\n1,1,b,,no\n", PLAIN, "more than one column 'age'"),
        ("t.csv", (HEAD + "1,b,,no\n1,secret\0,,no\n").encode(), PLAIN, "lines 2 to 3: column 'who' holds a NUL byte"),
        ("t.csv", CSV.encode("utf-16-le"), PLAIN, "header line holds NUL bytes"),
        ("t.csv", CSV.encode("utf-16-le"), with_csv(encoding="utf-16"), "no byte order mark"),
        ("t.csv", CSV.encode("utf-16")[:-1], PLAIN, "line 4 is not text in utf-16-le"),
        ("t.csv", b"\xff\xfe" + "age,who\n1,secret\ud800\n".encode("utf-16-le", "surrogatepass"), PLAIN, "line 2 is not text"),
        ("t.csv", (HEAD + "1,b\ud800,,no\n").encode("utf-8", "surrogatepass"), PLAIN, "line 2 is not readable as CSV"),
        ("t.csv", CSV.encode("latin-1"), PLAIN, "line 2 is not readable as CSV"),
        ("t.csv", CSV.encode("latin-1") + b"1,\x81,,no\n", with_csv(encoding="cp1252"), "line 5 is not text in cp1252"),
        ("t.csv.gz", gzip.compress(CSV.encode())[:-9], PLAIN, "not a whole gzip file"),
        ("t.csv.gz", gzip.compress(CSV.encode())[:30] + b"secret" * 9, PLAIN, "not a whole gzip file"),
        ("t.csv.gz", gzip.compress(CSV.encode()) + b"secret", PLAIN, "not a whole gzip file"),
        ("t.csv.gz", CSV.encode(), PLAIN, "not a whole gzip file"),
        ("t.parquet.gz", gzip.compress(b"PAR1"), PLAIN, "gzip is read around CSV and JSON lines only"),
        ("t.gz", gzip.compress(b"PAR1"), PLAIN, "gzip is read around CSV and JSON lines only"),
        ("t.csv", (HEAD + '"1.234",b,,no\n').encode(), with_csv(decimal=","), "not a number"),
        ("t.csv", (HEAD + "1,b,2020-1-5,no\n").encode(), PLAIN, "'day' holds something that is not a date"),
        ("t.csv", (HEAD + "1,b,2020-02-30,no\n").encode(), PLAIN, "'day' holds something that is not a date"),
        ("t.csv", (HEAD + "1,b,2020-01-05T10:00,no\n").encode(), PLAIN, "'day' holds something that is not a date"),
        ("t.csv", (HEAD + "1,b,05.01.2020,no\n").encode(), PLAIN, "'day' holds something that is not a date"),
        ("t.csv", (CSV + "2,b,05.01.2020,no\n" * 4).encode(), PLAIN, "not a date, first in row 4 of 7: expected dates"),
        ("t.csv", (HEAD + "1,b,,no\n" * 4 + "x,b,,no\n").encode(), PLAIN, "not a number, first in row 5 of 5: expected"),
        ("t.jsonl", b"[1]\n", PLAIN, "line 1: expected one JSON object"),
        ("t.jsonl", JSONL.encode() + b"\nsecret", PLAIN, "line 5: expected one JSON object"),
        ("t.jsonl", b"{}{}", PLAIN, "line 1: expected one JSON object"),
        ("t.jsonl", b'{"age": "\xff"}', PLAIN, "line 1: expected one JSON object"),
        ("t.jsonl", b'{"age": ' + b"[" * 100_000, PLAIN, "line 1: expected one JSON object"),
        ("t.jsonl", b'{"age": 1, "who": "secret", "age": 2}', PLAIN, "line 1: a key is given twice"),
        ("t.jsonl", b'{"age": 1, "who": "secret"}', PLAIN, "line 1 lacks '(day|ill)'"),
        ("t.jsonl", JSONL.replace('"b"', '["secret"]').encode(), PLAIN, "line 3: 'who' is a list or an object"),
        ("t.jsonl", JSONL.replace('"b"', '{"b": "secret"}').encode(), PLAIN, "line 3: 'who' is a list or an object"),
        ("t.jsonl", JSONL.replace('"b"', '"secret\\ud800"').encode(), PLAIN, "line 3: 'who' holds half of a surrogate pair"),
        ("t.jsonl", JSONL.replace("1.5", "Infinity").encode(), PLAIN, "infinite in 1 rows"),
        ("t.jsonl", JSONL.replace("1.5", "1e400").encode(), PLAIN, "infinite in 1 rows"),
        ("t.jsonl", JSONL.replace("1.5", "true").encode(), PLAIN, "not a number"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line_that_quotes_nothing(tmp_path, name, content, schema, message):
    (tmp_path / name).write_bytes(content)
    for read in (lambda path: load_dataset(path, schema), lambda path: list(open_stream(path, schema).blocks())):
        with pytest.raises(InputError, match=message) as caught:
            read(tmp_path / name)
        text = str(caught.value).replace(str(tmp_path), "")
        assert "\n" not in text
        assert "secret" not in text
        assert caught.value.__cause__ is None


def test_pipes_and_devices(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", "/dev/null"):
        with pytest.raises(InputError, match="is a pipe or a device"):
            load_dataset(path, PLAIN)
    with pytest.raises(InputError, match="is a directory"):
        load_dataset(tmp_path, PLAIN)


def test_a_file_that_unpacks_to_very_much(tmp_path, monkeypatch):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(CSV.encode() + b"\n" * 10_000_000))
    assert len(load_dataset(tmp_path / "t.csv.gz", PLAIN).target) == 3
    monkeypatch.setattr(text_file, "SMALL", 1000)
    with pytest.raises(InputError, match="unpacks to more than 100 times its size"):
        load_dataset(tmp_path / "t.csv.gz", PLAIN)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b" " * 10_000_000))
    monkeypatch.setattr(text_file, "SMALL", 1 << 30)
    with pytest.raises(InputError, match="line 1: it is longer than 4096 KiB"):
        load_dataset(tmp_path / "t.jsonl.gz", PLAIN)


def test_a_record_does_not_decide_how_others_are_read(tmp_path):
    """The first line of a file without a header is a record: what looks like a mark of UTF-16 there does not count."""
    schema = Schema(columns=(WHO, ILL), csv=Csv(header=False))
    (tmp_path / "t.csv").write_bytes(b"\xff\xfeb,no\nb,no\n")
    with pytest.raises(InputError, match="line 1 is not readable as CSV: expected UTF-8"):
        load_dataset(tmp_path / "t.csv", schema)


OBJECT = st.dictionaries(
    st.sampled_from(["age", "who", "day", "ill", "x"]),
    st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.sampled_from(["b", "no", "2020-05-05", "7"])),
)
ODD = st.one_of(
    st.binary(max_size=20).map(lambda text: text.replace(b"\n", b"\r")),
    OBJECT.map(lambda found: json.dumps({"age": 1, "who": "b", "day": None, "ill": "no", **found}).encode()),
    st.sampled_from([b"", b"{}", b"\xef\xbb\xbf", b'{"age": 1', b'{"a":"', b"\xff\xfe", b"\x1f\x8b", b"[", b"]", b'"']),
)


@settings(derandomize=True, deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=ODD, place=st.integers(0, 3))
def test_a_line_of_json_changes_its_own_row_only(tmp_path, monkeypatch, line, place):
    lines = JSONL.encode().replace(b"\n\n", b"\n").split(b"\n")
    without, path = None, tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(lines))
    without = [bytes(row) for row in same_rows(path, PLAIN)]
    path.write_bytes(b"\n".join([*lines[:place], line, *lines[place:]]))
    try:
        found = [bytes(row) for row in same_rows(path, PLAIN)]
    except InputError:
        return
    assert found[:place] == without[:place]
    assert found[len(found) - len(without) + place :] == without[place:]
    assert len(found) - len(without) in (0, 1)


def test_dates_are_places_in_the_range(tmp_path):
    schema = Schema(columns=(Date("day", "2020-01-01", date(2020, 1, 11)), ILL))
    days = ["2020-01-01", "2020-01-06", "2020-01-11", "1999-12-31", "2030-01-01", None]
    (tmp_path / "t.csv").write_text("day,ill\n" + "".join(f"{day or ''},no\n" for day in days))
    found = load_dataset(tmp_path / "t.csv", schema, intercept=0, rows="scale", dtype=np.float64)
    assert found.feature_names == ("day", "day unknown")
    np.testing.assert_allclose(found.features, [[-1, 0], [0, 0], [1, 0], [-1, 0], [1, 0], [0, 1]], atol=1e-6)
    assert schema_from_toml(schema_to_toml(schema)) == schema
    native = schema_from_toml(schema_to_toml(schema).replace('"2020-01-01"', "2020-01-01"))
    assert native == schema
    column = check_file(tmp_path / "t.csv", schema).columns[0]
    assert (column.outside, column.empty, column.unreadable) == (2, 1, 0)
    (tmp_path / "t.csv").write_text("day,ill\n2020-01-05,no\n5.1.2020,no\n")
    assert check_file(tmp_path / "t.csv", schema).columns[0].unreadable == 1
    for kind in (pa.date32(), pa.date64(), pa.timestamp("us")):
        column = pa.array([None if day is None else date.fromisoformat(day) for day in days], pa.date32()).cast(kind)
        parquet.write_table(pa.table({"day": column, "ill": ["no"] * 6}), tmp_path / "t.parquet")
        again = load_dataset(tmp_path / "t.parquet", schema, intercept=0, rows="scale", dtype=np.float64)
        np.testing.assert_array_equal(again.features, found.features)
    midnight = pa.array([date(2020, 1, 5)], pa.date32()).cast(pa.timestamp("s")).cast(pa.int64())[0].as_py()
    for column, wrong in (
        (pa.array([midnight, midnight + 5, midnight], pa.timestamp("s")), "first in row 2 of 3"),
        (pa.array([1] * 3), "by its type int64"),
        (pa.array([midnight] * 3, pa.timestamp("s", "UTC")), r"by its type timestamp\[.*UTC"),
    ):
        parquet.write_table(pa.table({"day": column, "ill": ["no"] * 3}), tmp_path / "t.parquet")
        with pytest.raises(InputError, match=f"not a date, {wrong}"):
            load_dataset(tmp_path / "t.parquet", schema)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Date("d", "2020-1-1", "2021-01-01"), "first is '2020-1-1': expected a date like"),
        (lambda: Date("d", "2020-01-01", 3), "last is 3: expected a date"),
        (lambda: Date("d", "2021-01-01", "2020-01-01"), "expected first < last"),
        (lambda: Date("d", "2020-01-01", "2021-01-01", unknown="no"), "expected true or false"),
        (lambda: Csv(encoding="utf-7"), "encoding is 'utf-7': expected one of utf-8"),
        (lambda: Csv(decimal="'"), "expected a point or a comma"),
    ],
)
def test_wrong_declarations(make, message):
    with pytest.raises(InputError, match=message):
        make()
