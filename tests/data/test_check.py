import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dplateau.data import Category, Number, Schema, Spelling, Target, Vector, check_file, encode, load_dataset, read_table
from dplateau.data import check as module
from dplateau.data.schema_digest import schema_digest
from dplateau.data.schema_file import schema_from_toml, schema_to_toml
from dplateau.spec import InputError

AGE, ILL = Number("age", 0, 100), Target("ill", ("no", "yes"))
SEX = Category("sex", ("A", "B"))


@pytest.fixture
def found(tmp_path):
    """The findings of the columns of a CSV file, by name."""

    def found(text, *columns):
        path = tmp_path / "rows.csv"
        path.write_text(text, encoding="utf-8")
        findings = check_file(path, Schema(columns=columns))
        return findings, {column.name: column for column in findings.columns}

    return found


def test_a_clean_file_has_nothing_to_say(found):
    findings, columns = found("age,sex,ill\n1,A,no\n2,B,yes\n", AGE, SEX, ILL)
    assert findings.passed
    assert all(column.clean and not column.spellings for column in columns.values())


def test_every_count(found):
    text = "age,sex,ill\n1,A,no\n101,B,yes\n-1,c,no\n,,no\nmany,a,no\n"
    findings, columns = found(text, AGE, SEX, ILL)
    age, sex = columns["age"], columns["sex"]
    assert (age.entries, age.empty, age.outside, age.unreadable, age.refused) == (5, 1, 2, 1, True)
    assert (sex.entries, sex.empty, sex.undeclared, sex.refused, sex.lost) == (5, 1, 2, False, False)
    assert not findings.passed


@pytest.mark.parametrize(
    ("declared", "written"),
    [("A", "a"), ("a", "A"), ("1", "1.0"), ("1.0", "1"), ("-3", "-3.00"), ("New York", "new  york"), ("é", "e\u0301"),
     ("a b", "a\u00a0b"), ("ab", "a\u200bb"), ("straße", "STRASSE")],
)  # fmt: skip
def test_a_spelling_that_is_declared_otherwise(found, declared, written):
    findings, columns = found(f"c,ill\n{written},no\n{written},yes\n", Category("c", (declared, "other")), ILL)
    assert columns["c"].spellings == (Spelling(written, declared, 2),)
    assert columns["c"].lost
    assert columns["c"].constant
    assert not findings.passed


@pytest.mark.parametrize(("declared", "written"), [("1", "10"), ("1", "1.5"), ("a", "b"), ("1", "01")])
def test_another_value_is_no_spelling(found, declared, written):
    assert found(f"c,ill\n{written},no\n", Category("c", (declared, "other")), ILL)[1]["c"].spellings == ()


def test_undeclared_classes_are_counted_and_refused(found):
    _, columns = found("age,ill\n1,No\n2,no\n3,maybe\n4,\n", AGE, ILL)
    ill = columns["ill"]
    assert (ill.undeclared, ill.empty, ill.refused) == (2, 1, True)
    assert ill.spellings == (Spelling("No", "no", 1),)


def test_constant_columns(found):
    _, columns = found("age,sex,ill\n200,A,no\n300,A,no\n", AGE, SEX, ILL)
    assert columns["age"].constant  # clipped to the same number
    assert columns["age"].lost
    assert columns["sex"].constant
    assert not found("age,sex,ill\n100,A,no\n,A,no\n", AGE, SEX, ILL)[1]["age"].constant


def test_pieces_count_as_one(found, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    sex = np.array(["A", "a", "B", "b ", ""])[rng.integers(0, 5, 3000)]
    table = pa.table({"age": rng.normal(50, 40, 3000), "sex": sex, "ill": ["no", "yes"] * 1500})
    parquet.write_table(table, tmp_path / "t.parquet")
    schema = Schema(columns=(AGE, SEX, ILL))
    whole = check_file(tmp_path / "t.parquet", schema)
    monkeypatch.setattr("dplateau.data.table_pieces.ROWS", 7)
    assert check_file(tmp_path / "t.parquet", schema) == whole
    assert sum(spelling.rows for spelling in whole.columns[1].spellings) == int(np.isin(sex, ["a", "b "]).sum())


def test_spellings_are_bounded(found, monkeypatch):
    monkeypatch.setattr(module, "SPELLINGS", 2)
    rows = "".join(f"{text},no\n" for text in ("ABC", "ABc", "Abc", "aBc"))
    column = found("c,ill\n" + rows, Category("c", ("abc",)), ILL)[1]["c"]
    assert (len(column.spellings), column.undeclared) == (2, 4)


def test_numbers_of_parquet_are_compared_as_numbers(tmp_path):
    rows = pa.table({"c": [1.0, 2.0, None], "age": [np.inf, 1.0, np.nan], "ill": pa.array([0, 1, 1], pa.int8())})
    parquet.write_table(rows, tmp_path / "t.parquet")
    schema = Schema(columns=(Category("c", ("1", "3")), AGE, Target("ill", ("0", "1"))))
    c, age, ill = check_file(tmp_path / "t.parquet", schema).columns
    assert (c.undeclared, c.empty, c.spellings) == (1, 1, ())
    assert (age.unreadable, age.empty, age.refused) == (1, 1, True)
    assert ill.clean


def test_vectors_and_arrays(tmp_path):
    schema = Schema(columns=(Vector("x", 2, 0, 1), Target("y", low=0, high=1)))
    (tmp_path / "a.svm").write_text("0.5 1:2 2:1\n3 1:0.5\n")
    np.save(tmp_path / "a.npy", np.array([[2, 1, 0.5], [0.5, 0, 3]]))
    for name in ("a.svm", "a.npy"):
        x, y = check_file(tmp_path / name, schema).columns
        assert (x.entries, x.outside, x.constant) == (4, 1, False)
        assert (y.outside, y.refused) == (1, False)


def test_what_cannot_be_read_quotes_nothing(found):
    for text, message in (
        ("age,ill\n", "no rows"),
        ("age,ill\nsecret,no,no\n", "line 2: 3 fields"),
        ("age,b\n1,2\n", "lacks target"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            found(text, AGE, ILL)
        assert "secret" not in str(caught.value)


def test_aliases_of_a_category(tmp_path):
    plain, schema = (Schema(columns=(Category("c", ("1", "2"), aliases=aliases), ILL)) for aliases in ((), {"1.0": "1"}))
    (tmp_path / "rows.csv").write_text("c,ill\n1.0,no\n1,no\n2,yes\n2.0,no\n")
    features = load_dataset(tmp_path / "rows.csv", schema, intercept=0).features
    np.testing.assert_allclose(features, [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], rtol=1e-6)
    assert check_file(tmp_path / "rows.csv", schema).columns[0].spellings == (Spelling("2.0", "2", 1),)
    assert schema_from_toml(schema_to_toml(schema)) == schema
    assert schema_digest(plain) != schema_digest(schema)
    numeric = pa.table({"c": [1.0, 2.0], "ill": ["no", "no"]})
    np.testing.assert_allclose(encode(numeric, schema, intercept=0).features, [[1, 0, 0], [0, 1, 0]], rtol=1e-6)
    assert read_table(tmp_path / "rows.csv", schema).num_rows == 4


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({"a": "3"}, "no declared values"),
        ({"1": "2"}, "may stand for one value only"),
        ((("a", "1"), ("a", "2")), "may stand for one value only"),
        ({"NA": "1"}, "mean missing too"),
    ],
)
def test_wrong_aliases(aliases, message):
    with pytest.raises(InputError, match=message):
        Schema(columns=(Category("c", ("1", "2"), aliases=aliases), ILL))


def test_a_schema_of_before_keeps_its_digest():
    old = Schema(columns=(Category("c", ("1", "2")), Number("n", 0, 1, bins=(0.5,)), ILL), csv=module.load_schema("adult").csv)
    assert schema_digest(old) == "ecce86650c09d12417a36782f3b098361f1a1e9498f560b5f8224c6f991377d6"
