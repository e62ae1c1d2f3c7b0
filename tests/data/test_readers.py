import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dplateau.data import Category, Csv, Ignored, Number, Schema, Target, Vector, load_dataset, read_table
from dplateau.spec import InputError

AGE, SEX, INCOME = Number("age", 0, 100), Category("sex", ("f", "m")), Target("income", ("low", "high"))
PLAIN = Schema(columns=(AGE, SEX, INCOME))
BARE = Schema(columns=(AGE, Ignored("note"), SEX, INCOME), csv=Csv(header=False, comment="|"))
BROKEN = Schema(columns=PLAIN.columns, csv=Csv(line_breaks=True))
ARRAYS = Schema(columns=(Vector("x", 3, 0, 1), Target("y", ("-1", "+1"))))


@pytest.fixture
def write(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(path, schema, message):
    with pytest.raises(InputError, match=message) as caught:
        load_dataset(path, schema)
    text = str(caught.value).replace(str(path), "")
    assert "\n" not in text
    assert "secret" not in text
    assert caught.value.__cause__ is None


def test_csv_with_a_header_in_any_order_and_other_columns(write):
    schema = Schema(columns=PLAIN.columns, csv=Csv(line_breaks=True))
    path = write('\ufeffincome , secret,age,sex\r\nlow,"a,\nb",3,f\r\n\r\n high,c, 4 ,"m"\r\n')
    table = read_table(path, schema)
    assert table.column_names == ["age", "sex", "income"]
    assert set(table.schema.types) == {pa.string()}
    assert load_dataset(path, schema).target.tolist() == [0, 1]
    refused(path, PLAIN, "line 2: a quote is not closed where the line ends")


def test_csv_without_a_header_with_comments(write):
    path = write("|one, comment\n3, n, f, low\n|\n4, n, m, high\n\n", "adult.data")
    found = load_dataset(path, BARE)
    assert found.target.tolist() == [0, 1]
    assert found.features.shape == (2, 6)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_csv_with_other_delimiters(write, delimiter):
    schema = Schema(columns=PLAIN.columns, csv=Csv(delimiter=delimiter))
    path = write("age,sex,income\n3,f,low\n".replace(",", delimiter))
    assert read_table(path, schema).to_pylist() == [{"age": "3", "sex": "f", "income": "low"}]


@pytest.mark.parametrize(
    ("content", "schema", "message"),
    [
        ("", PLAIN, "is empty"),
        ("\n\n", PLAIN, "is empty"),
        ("age,sex,income\n", PLAIN, "has no rows: expected at least one after the header line"),
        ("|only a comment\n", BARE, "is empty"),
        (
            "age;sex;income\n3;f;low\n",
            PLAIN,
            r"delimiter ',' finds one column .* declares 3\. It may be the semicolon: set delimiter = \";\"",
        ),
        ("age\tsex\tincome\n3\tf\tlow\n", PLAIN, r"the tab: set delimiter = \"\\t\""),
        ("age,sex,income\n1,f,low\n\nsecret,f\n", PLAIN, "line 4: 2 fields where 3 are expected"),
        ('age,sex,income\n1,"f",low\nsecret,f\n', PLAIN, "line 3: 2 fields where 3 are expected"),
        ('age,sex,income\n1,"f\n",low\nsecret,f\n', BROKEN, "line 4: 2 fields where 3 are expected"),
        ('age,sex,income\n1,f,low\n"secret,f,low\n1,f,low\n', PLAIN, "line 3: a quote is not closed where the line ends"),
        ('age,sex,income\n1,f,low\n"secret,f,low\n1,f,low\n', BROKEN, "line 3: no whole record"),
        ('age,sex,income\n1,f,low\n1,sec"ret"\n,low\n', BROKEN, "line 3: no whole record"),
        ("age,sex,income\n1,f,low\n1,secret\r,low\n", PLAIN, "line 3: a carriage return stands within it"),
        ("age,sex,income\r1,secret,low\r", PLAIN, "line 1: a carriage return stands within it"),
        (b"age,sex,income\n1,f,low\n\n1,\xffsecret,low\n", PLAIN, "line 4 is not readable as CSV: expected UTF-8"),
        ("1,%s,f,low\n" % ("x" * 200_000), BARE, "a field of the first record is longer than 131,072 characters"),
        ("|c\n1,n,f,low\n|c\nsecret,n,f,low,secret\n", BARE, "line 4: 5 fields where 4 are expected"),
        ("age,income\n1,low\n", PLAIN, "lacks column 'sex'"),
        ("age,sex,secret\n1,f,low\n", PLAIN, "lacks target column 'income', which the schema declares.$"),
        ("age,sex,sex,income\n1,f,f,low\n", PLAIN, "more than one column 'sex'"),
        (
            b"age,sex,incom\xe9\n1,f,low\n",
            PLAIN,
            "lacks target column 'income'.* header line is not UTF-8 text: declare the encoding",
        ),
        ("7,secret,low\n8,f,low\n", PLAIN, "set header = false"),
        ("1,f,secret\n", BARE, "first line has 3 fields where the schema declares 4"),
        ("age, note, sex, income\n1,n,f,low\n", BARE, "set header = true"),
        (b"age,sex,income\n1,\xff,low\n", PLAIN, "expected UTF-8"),
        ("age,sex,income\n1,f,secret\n2,f,low\n", PLAIN, "none of the 2 declared classes in 1 of 2 rows"),
        ("age,sex,income\nsecret,f,low\n", PLAIN, "not a number"),
        ("age,sex,income\ninf,f,low\n", PLAIN, "infinite in 1 rows"),
    ],
)
def test_bad_csv_is_one_clear_line(write, content, schema, message):
    refused(write(content), schema, message)


def test_files_that_cannot_be_opened(tmp_path, write, monkeypatch):
    refused(tmp_path / "none.csv", PLAIN, "no such file")
    refused(tmp_path, PLAIN, "is a directory")
    path = write("age")

    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    refused(path, PLAIN, "cannot be read: Permission denied")


def test_parquet_keeps_types_and_reads_declared_columns_only(tmp_path):
    rows = {"income": ["low", "high"], "other": [1, 2], "sex": pa.array(["f", None]), "age": pa.array([3, None], pa.int8())}
    parquet.write_table(pa.table(rows), tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet", PLAIN)
    assert table.column_names == ["age", "sex", "income"]
    assert table.schema.field("age").type == pa.int8()
    (tmp_path / "data.parquet").rename(tmp_path / "data.bin")  # then the first bytes tell the format
    assert load_dataset(tmp_path / "data.bin", PLAIN).target.tolist() == [0, 1]


def test_parquet_with_a_list_column(tmp_path):
    parquet.write_table(pa.table({"y": [1, -1], "x": [[0.0, 0.5, 1.0], [1.0, 0.0, 0.0]]}), tmp_path / "x.parquet")
    found = load_dataset(tmp_path / "x.parquet", ARRAYS, rows="scale", feature_norm=2)
    np.testing.assert_allclose(found.features, [[0, 0.5, 1, 1], [1, 0, 0, 1]])
    assert found.target.tolist() == [1, 0]


def test_bad_parquet(tmp_path, write):
    refused(write("PAR1secret", "a.parquet"), PLAIN, "not a Parquet file")
    parquet.write_table(pa.table({"age": [1]}), tmp_path / "b.parquet")
    refused(tmp_path / "b.parquet", PLAIN, "lacks column 'sex'")
    parquet.write_table(pa.table({"age": [1], "sex": ["f"], "income": ["low"]}).slice(0, 0), tmp_path / "c.parquet")
    refused(tmp_path / "c.parquet", PLAIN, "has no rows")


@pytest.mark.parametrize("name", ["data.svm", "data"])  # by suffix, and by the look of the first line
def test_libsvm(write, name):
    path = write("+1 1:0.5 3:1 # secret\n\n-1 \n1.0 2:1\n", name)
    table = read_table(path, ARRAYS)
    assert table.to_pylist() == [{"x": [0.5, 0, 1], "y": 1}, {"x": [0, 0, 0], "y": -1}, {"x": [0, 1, 0], "y": 1}]
    found = load_dataset(path, ARRAYS, intercept=0)
    assert found.target.tolist() == [1, 0, 1]
    np.testing.assert_allclose(np.linalg.norm(found.features, axis=1), [1, 0, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("# nothing\n", "has no rows"),
        ("+1 1:1\n+1 4:1\n", "line 2: a feature index is not between 1 and the declared 3"),
        ("+1 0:1\n", "line 1: a feature index is not between 1"),
        ("+1 2:1 1:1\n", "line 1: feature indices do not increase"),
        ("+1 2:1 2:1\n", "line 1: feature indices do not increase"),
        ("+1 1:1\n\nsecret 1:1\n", "line 3: expected a numeric label"),
        ("+1 1:secret\n", "line 1: expected a numeric label"),
        ("+1 qid:3 1:1\n", "line 1: expected a numeric label"),
        ("+1 0_1:1\n", "line 1: expected a numeric label"),
        ("+1 1:1_0\n", "line 1: expected a numeric label"),
        ("+1 1:nan\n", "line 1: a value is NaN or infinite"),
        ("+1 1:1e99\n", "line 1: a value is NaN or infinite"),
        ("inf 1:1\n", "line 1: a value is NaN or infinite"),
        ("+1 1:1\n2 1:1\n", "none of the 2 declared classes in 1 of 2 rows"),
    ],
)
def test_bad_libsvm_is_one_clear_line(write, content, message):
    refused(write(content, "data.libsvm"), ARRAYS, message)


def test_numpy(tmp_path):
    X, y = np.array([[0, 0.5, 1], [1, 0, 0]]), np.array([1, -1])
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.save(tmp_path / "b.npy", np.column_stack([X, y]))
    np.savez(tmp_path / "c.npz", X=X.astype(np.float32), y=np.array([["+1"], ["-1"]]))
    for name in ("a.npz", "b.npy", "c.npz"):
        found = load_dataset(tmp_path / name, ARRAYS, rows="scale", feature_norm=2)
        np.testing.assert_allclose(found.features, [[0, 0.5, 1, 1], [1, 0, 0, 1]])
        assert found.target.tolist() == [1, 0]


def test_numpy_columns_are_declared_in_order(tmp_path):
    schema = Schema(columns=(AGE, Target("y", ("0", "1")), Ignored("z"), Category("c", ("5", "6"))))
    np.savez(tmp_path / "a.npz", X=np.array([[50, 9, 6], [0, 9, 5]]), y=np.array([False, True]))
    assert read_table(tmp_path / "a.npz", schema).to_pylist()[0] == {"age": 50, "y": False, "z": 9, "c": 6}


def test_bad_numpy(tmp_path, write):
    X, y = np.ones((4, 3)), np.ones(4)

    def saved(**arrays):
        np.savez(tmp_path / "bad.npz", **arrays)
        return tmp_path / "bad.npz"

    refused(saved(X=X), ARRAYS, "lacks the array 'y'")
    refused(saved(X=X[:, :2], y=y), ARRAYS, r"shape \(4, 2\): expected \(n, 3\)")
    refused(saved(X=X, y=y[:2]), ARRAYS, r"y has shape \(2,\): expected \(4,\)")
    refused(saved(X=X[:0], y=y[:0]), ARRAYS, "has no rows")
    refused(saved(X=X.astype(str), y=y), ARRAYS, "expected numbers")
    refused(saved(X=X.astype(object), y=y), ARRAYS, "pickled objects")
    refused(saved(X=np.where(np.eye(4, 3), np.nan, 1), y=y), ARRAYS, "X is NaN or infinite in 3 rows")
    refused(saved(X=X, y=np.array([1, 1, np.inf, 1])), ARRAYS, "y is NaN or infinite in 1 rows")
    refused(saved(X=X, y=np.array(["-1", "+1", "secret\ud800", "-1"])), ARRAYS, "half a character")
    refused(write(b"PK\x03\x04secret", "a.npz"), ARRAYS, "not a NumPy file")
    refused(write(b"secret", "a.npy"), ARRAYS, "not a NumPy file")
    np.save(tmp_path / "flat.npy", y)
    refused(tmp_path / "flat.npy", ARRAYS, "expected two dimensions")


@pytest.mark.parametrize("column", [Category("c", ("f", "m")), Number("c", 0, 1)], ids=["category", "number"])
def test_text_in_parquet_that_is_not_utf8(tmp_path, column):
    text = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 7, 8], np.int32)), pa.py_buffer(b"secret\xfff"))
    parquet.write_table(pa.table({"c": text, "income": ["low", "high"]}), tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", Schema(columns=(column, INCOME)), "column 'c' holds text that cannot be read: expected UTF-8")


def test_labels_of_persons_that_are_not_utf8(tmp_path):
    who = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 7, 8], np.int32)), pa.py_buffer(b"secret\xfff"))
    parquet.write_table(pa.table({"age": [1.0, 2.0], "who": who, "income": ["low", "high"]}), tmp_path / "t.parquet")
    for strip in (True, False):
        with pytest.raises(InputError, match=r"column 'who' .*holds text that cannot be read: expected UTF-8") as caught:
            load_dataset(tmp_path / "t.parquet", Schema(columns=(AGE, INCOME), strip=strip), person="who")
        assert "secret" not in str(caught.value)


def test_a_record_does_not_decide_how_the_others_are_read(write):
    """The first line of a file without a header and without a suffix may look like LIBSVM, or like JSON."""
    columns = (Target("y", ("0", "1")), Category("a", ("1:5", "1:6")), Category("b", ("2:3", "2:4")))
    schema, rest = Schema(columns=columns, csv=Csv(header=False, delimiter=" ")), "1 1:6 2:4\n0 1:5 2:4\n"
    found = [load_dataset(write(first + rest, "rows"), schema).features[1:] for first in ("0 1:5 2:3\n", "0 NA 2:3\n")]
    np.testing.assert_array_equal(*found)
    bare = Schema(columns=(Category("a", ('{"', "b")), Target("y", ("0", "1"))), csv=Csv(header=False, delimiter=";"))
    assert load_dataset(write('{";0\nb;1\n', "rows"), bare).target.tolist() == [0, 1]


def test_a_carriage_return_begins_no_row_of_libsvm(write):
    refused(write("+1 1:1\r-1 2:1\n-1 3:1\n", "data.svm"), ARRAYS, "line 1: expected a numeric label")
    assert len(load_dataset(write("+1 1:1\r\n-1 2:1\r\n", "data.svm"), ARRAYS).target) == 2


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, lambda path, X, y: np.save(path, np.column_stack([X, y]))])
def test_damaged_numpy_files_are_one_clear_error(tmp_path, save):
    path = tmp_path / ("t.npy" if save not in (np.savez, np.savez_compressed) else "t.npz")
    rng = np.random.default_rng(0)
    save(path, X=rng.random((20, 3)), y=np.arange(20) % 2 * 2 - 1)
    content = path.read_bytes()
    refused_files = 0
    for _ in range(400):
        damaged = bytearray(content[: rng.integers(1, len(content))] if rng.random() < 0.1 else content)
        for place in rng.integers(0, min(len(damaged), 200), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            load_dataset(path, ARRAYS)
        except InputError:
            refused_files += 1
    assert refused_files > 200
