import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dplateau.data import Category, Csv, Number, Schema, Target, Vector, csv_records, load_dataset, open_stream
from dplateau.data.stream_parquet import parquet_pieces
from dplateau.spec import InputError
from dplateau.spec.columns import Columns

MIXED = Schema(
    columns=(
        Number("a", -1, 1),
        Number("b", 0, 9, transform="log", bins=(1, 5)),
        Category("c", ("f", "m")),
        Target("y", ("no", "yes")),
    )
)
FLOATS = Schema(columns=(*(Number(f"x{i}", -2, 2, unknown=False) for i in range(4)), Target("y", ("0", "1"))))
VECTOR = Schema(columns=(Vector("x", 3, -1, 1), Target("y", low=-1, high=1)))
BROKEN = Csv(header=False, comment="#", line_breaks=True)
BARE = Schema(columns=(Number("a", 0, 9), Target("y", ("no", "yes"))), csv=Csv(header=False, comment="#"))


def mixed(n, seed=0):
    rng = np.random.default_rng(seed)
    a = pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1)
    c = rng.choice(["f", "m", " f ", "NA", "?"], n)
    return pa.table({"a": a, "b": rng.exponential(3, n), "c": c, "other": np.arange(n), "y": rng.choice(["no", "yes"], n)})


def floats(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"x{i}": rng.normal(size=n).astype(np.float32) for i in range(4)}
    return pa.table({**columns, "y": rng.integers(0, 2, n)})


def block_bytes(stream_rows, d):
    return 4 * stream_rows * d


def whole(stream):
    blocks = list(stream.blocks())
    assert all(len(features) == len(target) == stream.block_rows for features, target in blocks[:-1])
    return np.concatenate([features for features, _ in blocks]), np.concatenate([target for _, target in blocks])


def same_as_at_once(path, schema, **options):
    stream, data = open_stream(path, schema, **options), load_dataset(path, schema)
    features, target = whole(stream)
    np.testing.assert_array_equal(features, data.features)
    np.testing.assert_array_equal(target, data.target)
    assert (features.dtype.name, target.dtype) == (stream.dtype, data.target.dtype)
    assert (stream.n, stream.d) == data.features.shape
    for name in ("feature_names", "classes", "target_range", "feature_norm"):
        assert getattr(stream, name) == getattr(data, name)
    return stream


def refused(stream, message, before=None, way="blocks"):
    """The stream fails with one line that quotes nothing, before it hands out all rows, or after handing out ``before`` rows."""
    seen = 0

    def read():
        nonlocal seen
        for _, target in getattr(stream, way)():
            seen += len(target)

    with pytest.raises(InputError, match=message) as caught:
        read()
    assert seen < stream.n
    assert before is None or seen == before
    text = str(caught.value)
    assert "\n" not in text
    assert "secret" not in text


@settings(derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 70), st.sampled_from([(MIXED, mixed), (FLOATS, floats)]))
def test_parquet_in_any_pieces_is_the_file_at_once(tmp_path, n, group, block, case):
    schema, make = case
    path = tmp_path / "t.parquet"
    parquet.write_table(make(n), path, row_group_size=group)
    d = open_stream(path, schema).d
    stream = same_as_at_once(path, schema, block_bytes=block_bytes(block, d))
    assert stream.block_rows == block
    features, target = whole(open_stream(path, schema, block_bytes=block_bytes(block, d), order="random", order_seed=n))
    data = load_dataset(path, schema)
    rows = sorted(map(bytes, np.column_stack([features, target])))
    assert rows == sorted(map(bytes, np.column_stack([data.features, data.target])))


@settings(derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["3,yes", '"4\n# x",no', "", "#x", '#"', " NA , no ", '"2",yes']), max_size=40), st.integers(1, 20))
def test_csv_in_any_pieces_is_the_file_at_once(tmp_path, lines, block):
    path = tmp_path / "t.csv"
    schema = Schema(columns=(Category("a", ("3", "4\n# x", "2")), BARE.target), csv=BROKEN)
    path.write_text("\n".join(["1,no", *lines, "5,yes"]), newline="")
    stream = same_as_at_once(path, schema, block_bytes=block_bytes(block, 5))
    assert stream.n == 2 + sum("," in line for line in lines)
    np.testing.assert_array_equal(
        load_dataset(path, schema).features[:, 1] > 0, [False, *("4" in one for one in lines if "," in one), False]
    )
    same_as_at_once(path, schema, n=stream.n)


@pytest.fixture
def small_chunks(monkeypatch):
    """CSV files are parsed in chunks of 4 KiB."""
    monkeypatch.setattr(csv_records, "BLOCK", 1 << 12)


@pytest.mark.parametrize("comment", ["#", "", "# 1"])
def test_a_csv_file_of_many_chunks(tmp_path, small_chunks, comment):
    path = tmp_path / "t.csv"
    schema = Schema(columns=BARE.columns, csv=Csv(header=False, comment=comment))
    notes = [f"{comment}{'x' * (i % 50)}\n" * bool(comment) for i in range(9999)]
    path.write_text("".join(f"{note}{i % 10},{'no' if i % 3 else 'yes'}\n" for i, note in enumerate(notes)))
    assert path.stat().st_size > 10 << 12
    stream = same_as_at_once(path, schema, block_bytes=block_bytes(1000, 3))
    assert stream.n == len(notes)


@pytest.mark.parametrize(
    ("line", "changes", "place"),
    [
        ("+1.5;x;yes", {}, -0.25),
        (" 1.5;x;yes", {}, -0.25),
        (" 1.5;x;yes", {"strip": False}, None),
        ("1,5;x;yes", {"csv": Csv(delimiter=";", decimal=",")}, -0.25),
        ("1.5;x;yes", {"csv": Csv(delimiter=";", decimal=",")}, None),
        (" 3 ;x;yes", {"missing": ("3",)}, 0),
        ("NaN;x;yes", {"missing": ("nan",)}, 0),
        ("NaN;x;yes", {"missing": ("",)}, None),
        ("1.5;x\0;yes", {}, None),
        ("1.5;x;y\0", {}, None),
    ],
)
def test_numbers_of_a_csv_file_are_those_of_its_texts(tmp_path, line, changes, place):
    """Streams may parse them, and whole files are read as texts: both read the same number, none, or refuse the file."""
    columns = (Number("a", 0, 4), Category("c", ("x",)), Target("y", ("no", "yes")))
    schema = Schema(columns=columns, **{"csv": Csv(delimiter=";"), **changes})
    (tmp_path / "t.csv").write_text(f"a;c;y\n1;x;no\n{line}\n2;x;no\n")
    stream = open_stream(tmp_path / "t.csv", schema, n=3, rows="scale", feature_norm=2.0)
    if place is None:
        refused(stream, "NUL|not a number|is NaN")
        with pytest.raises(InputError):
            load_dataset(tmp_path / "t.csv", schema)
    else:
        same = load_dataset(tmp_path / "t.csv", schema, rows="scale", feature_norm=2.0).features
        np.testing.assert_array_equal(whole(stream)[0], same)
        assert same[1, 0] / same[1, 2] == place  # beside the indicator of x, which is 1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_vector_column_and_an_array(tmp_path, kind):
    rng = np.random.default_rng(1)
    array = rng.normal(size=(50, 4)).astype(kind)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(array[:, :3].ravel()), 3)
    parquet.write_table(pa.table({"x": vectors, "y": array[:, 3]}), tmp_path / "t.parquet", row_group_size=7)
    np.save(tmp_path / "t.npy", array)
    for name in ("t.parquet", "t.npy"):
        for block in (1, 7, 16, 50, 99):
            same_as_at_once(tmp_path / name, VECTOR, block_bytes=block_bytes(block, 4))
    stream = open_stream(tmp_path / "t.npy", VECTOR, dtype=np.float64, intercept=0, feature_norm=2, rows="unit")
    features, _ = whole(stream)
    assert (stream.d, stream.dtype, stream.feature_norm) == (3, "float64", 2.0)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 2)


def test_a_random_order_is_public(tmp_path):
    path, n = tmp_path / "t.parquet", 1000
    schema = Schema(columns=(Number("i", 0, n), Target("y", low=0, high=n)))
    parquet.write_table(pa.table({"i": np.arange(n), "y": np.arange(n)}), path, row_group_size=100)

    def order(seed, block=50):
        stream = open_stream(path, schema, order="random", order_seed=seed, block_bytes=block_bytes(block, 3))
        return whole(stream)[1].astype(int), stream.order

    first, text = order(1)
    assert sorted(first) == list(range(n))
    assert (first == order(1)[0]).all()
    assert (first != order(2)[0]).any()
    assert text == "random: groups of 100 rows, and the rows within blocks of 50, permuted by the public seed 1"
    blocks = first.reshape(20, 50)
    assert (blocks // 100 == blocks[:, :1] // 100).all()  # a block stays within its group here
    assert (np.sort(blocks) != blocks).any(axis=1).all()
    assert (np.diff(blocks[:, 0] // 100) < 0).any()
    # The order is the same whatever the rows say.
    rng = np.random.default_rng(0)
    parquet.write_table(pa.table({"i": rng.random(n), "y": np.arange(n)}), path, row_group_size=100)
    assert (first == order(1)[0]).all()
    assert open_stream(path, schema).order.startswith("as given")


def test_a_random_order_needs_even_row_groups(tmp_path):
    path = tmp_path / "t.parquet"
    with parquet.ParquetWriter(path, floats(1).schema) as writer:
        for size in (10, 9, 10):
            writer.write_table(floats(size))
    with pytest.raises(InputError, match="3 row groups differ in their numbers of rows"):
        open_stream(path, FLOATS, order="random")
    same_as_at_once(path, FLOATS)
    (tmp_path / "t.csv").write_text("1,no\n")
    with pytest.raises(InputError, match='order = "random" is for Parquet files'):
        open_stream(tmp_path / "t.csv", BARE, order="random")


def test_the_number_of_rows_is_checked_before_the_last_block(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("1,no\n" * 10)
    options = {"block_bytes": block_bytes(4, 3)}
    assert open_stream(path, BARE, **options).n == 10
    refused(open_stream(path, BARE, n=11, **options), "ends after 10 of the declared 11 rows", before=8)
    refused(open_stream(path, BARE, n=12, **options), "ends after 10 of the declared 12 rows")
    # A reader that stops as soon as it has n rows still meets the error.
    refused(open_stream(path, BARE, n=9, **options), "more than the declared 9 rows", before=4)
    refused(open_stream(path, BARE, n=8, **options), "more than the declared 8 rows", before=4)
    parquet.write_table(floats(10), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="has 10 rows by its own account where n = 9 is declared"):
        open_stream(tmp_path / "t.parquet", FLOATS, n=9)


@pytest.mark.parametrize(("rows", "sizes"), [(95, [100] * 5), (40, [50] * 10), (210, [200, 200, 100]), (7, [8] * 62 + [4])])
def test_pieces_of_parquet_end_where_row_groups_do(tmp_path, rows, sizes):
    path = tmp_path / "t.parquet"
    parquet.write_table(floats(500), path, row_group_size=100)
    # The last are pieces that divide no group of 100 rows.
    assert [piece.num_rows for piece in parquet_pieces(path, FLOATS, rows, None)] == sizes


@pytest.mark.parametrize("order", ["given", "random"])
def test_a_damaged_page(tmp_path, order):
    path = tmp_path / "t.parquet"
    parquet.write_table(floats(4000), path, row_group_size=1000, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 1  # one bit of one number
    path.write_bytes(content)
    stream = open_stream(path, FLOATS, block_bytes=block_bytes(100, 5), order=order)
    refused(stream, r"t\.parquet is damaged.*\d+ rows could be read")


def test_a_damaged_page_header(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(floats(4000), path, row_group_size=1000)
    start = parquet.read_metadata(path).row_group(2).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    refused(open_stream(path, FLOATS, block_bytes=block_bytes(500, 5)), r"is damaged.* 2000 rows could be read")


def test_files_that_are_cut_short(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(floats(1000), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="is not a Parquet file, or is damaged"):
        open_stream(path, FLOATS)
    np.save(tmp_path / "t.npy", np.zeros((100, 4)))
    content = (tmp_path / "t.npy").read_bytes()
    (tmp_path / "t.npy").write_bytes(content[:-40])
    refused(open_stream(tmp_path / "t.npy", VECTOR, block_bytes=block_bytes(30, 4)), "ends after 98 rows where its header says 100")
    (tmp_path / "t.npy").write_bytes(content + b"secret")
    refused(open_stream(tmp_path / "t.npy", VECTOR, block_bytes=block_bytes(30, 4)), "goes on after the 100 rows")


def test_a_file_that_changes_while_it_is_read(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(floats(1000), path)
    stream = open_stream(path, FLOATS, block_bytes=block_bytes(100, 5))
    whole(stream)  # a stream can be read again
    blocks = stream.blocks()
    next(blocks)
    os.utime(path, (1, 1))
    with pytest.raises(InputError, match="was changed or replaced"):
        list(blocks)
    refused(stream, "was changed or replaced", before=0)
    stream = open_stream(path, FLOATS)
    path.unlink()
    refused(stream, "cannot be read: No such file")


def written_again(path):
    os.utime(path, (1, 1))


def longer(path):
    """By a blank line, at the same time."""
    about = path.stat()
    with path.open("a") as file:
        file.write("\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def another(path):
    """As long as the first one, and of the same time."""
    about, other = path.stat(), path.with_name("other.csv")
    other.write_text(path.read_text().replace("0.5", "1.5"))
    os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("read", ["blocks", "unplaced"])
@pytest.mark.parametrize("change", [written_again, longer, another])
def test_any_change_of_a_file_ends_every_reading(tmp_path, small_chunks, change, read):
    path = tmp_path / "t.csv"
    path.write_text("x0,x1,x2,x3,y\n" + "0.5,-1,0.5,2,1\n" * 1000)
    stream = open_stream(path, FLOATS, n=1000, block_bytes=block_bytes(10, 5))
    blocks = getattr(stream, read)()
    assert isinstance(next(blocks)[0], Columns if read == "unplaced" else np.ndarray)
    change(path)
    with pytest.raises(InputError, match="was changed or replaced"):
        list(blocks)
    with pytest.raises(InputError, match="was changed or replaced"):
        next(getattr(stream, read)())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rows": "scale"},
        {"dtype": np.float64},
        {"order": "random"},
        {"person": "who"},
        {"feature_norm": 0.3, "intercept": 0.0},
    ],
    ids=str,
)
def test_columns_are_the_rows_of_blocks(tmp_path, options):
    table = floats(1000).append_column("who", pa.array(np.arange(1000) // 3))
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    stream = open_stream(tmp_path / "t.parquet", FLOATS, block_bytes=block_bytes(30, 5), **options)
    every = [
        [np.concatenate([one.rows() if isinstance(one, Columns) else one for one in part]) for part in zip(*read(), strict=True)]
        for read in (stream.unplaced, stream.blocks)
    ]
    for one, other in zip(*every, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [8, 9, 11, 12])
def test_columns_are_counted_as_blocks_are(tmp_path, n):
    path = tmp_path / "t.csv"
    path.write_text("x0,x1,x2,x3,y\n" + "0.5,-1,0.5,2,1\n" * 10)
    refused(open_stream(path, FLOATS, n=n), f"declared {n} rows", way="unplaced")


def test_values_that_are_not_allowed_are_named_by_their_rows(tmp_path):
    def case(**changes):
        table = floats(100)
        for name, value in changes.items():
            column = table[name].to_pylist()
            column[57] = value
            table = table.set_column(table.column_names.index(name), name, pa.array(column))
        parquet.write_table(table, tmp_path / "t.parquet")
        return open_stream(tmp_path / "t.parquet", FLOATS, block_bytes=block_bytes(20, 5))

    refused(case(x1=None), r"rows 41 to 60: column 'x1' is missing or undeclared in 1 rows", before=20)
    refused(case(x1=float("inf")), r"rows 41 to 60: column 'x1' is infinite in 1 rows", before=20)
    refused(case(y=None), r"rows 41 to 60: target 'y' is none of the 2 declared classes in 1 of 20 rows")
    refused(case(y=7), r"rows 41 to 60: target 'y' is none of the 2 declared classes in 1 of 20 rows")
    random = open_stream(tmp_path / "t.parquet", FLOATS, block_bytes=block_bytes(20, 5), order="random")
    refused(random, r"rows \d+ to \d+ of those read: target 'y' is none")
    array = np.zeros((100, 4))
    array[57, 3] = np.nan
    np.save(tmp_path / "t.npy", array)
    refused(open_stream(tmp_path / "t.npy", VECTOR, block_bytes=block_bytes(20, 4)), "rows 41 to 60: 1 rows are NaN or infinite")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(array[:, :3].ravel()), 3)
    parquet.write_table(pa.table({"x": vectors, "y": array[:, 3]}), tmp_path / "v.parquet")
    stream = open_stream(tmp_path / "v.parquet", VECTOR, block_bytes=block_bytes(20, 4))
    refused(stream, "rows 41 to 60: target 'y' is missing in 1 rows|rows 41 to 60: column 'y' is NaN in 1 rows", before=20)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("secret\n", r"line 20001: 1 fields where 2 are expected"),
        ("secret,secret,secret\n", r"line 20001: 3 fields where 2 are expected"),
        ('"secret,yes\n', "line 20001: a quote is not closed where the line ends"),
    ],
)
def test_a_bad_record_far_into_a_csv_file(tmp_path, small_chunks, bad, message):
    path = tmp_path / "t.csv"
    path.write_text("3,yes\n" * 20_000 + bad + "3,yes\n" * 20_000)
    refused(open_stream(path, BARE, n=40_001), message)
    with pytest.raises(InputError, match=message):
        open_stream(path, BARE)


def test_text_that_is_not_utf8(tmp_path):
    schema = Schema(columns=(Category("c", ("f",)), Target("y", ("no", "yes"))))
    (tmp_path / "t.csv").write_bytes(b"c,y\n" + b"f,no\n" * 9 + b"\xff,no\n")
    refused(open_stream(tmp_path / "t.csv", schema), "expected UTF-8|Expected UTF-8")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "\n\n", "is empty"),
        ("t.csv", "#a,b\n", "is empty"),
        ("t.csv", "a,y\n", "has no rows"),
        ("t.csv", "y,secret\n1,2\n", "lacks column 'a'"),
        ("t.svm", "1 1:1\n", "a libsvm file cannot be read piece by piece"),
        ("t.npz", "x", "a npz file cannot be read piece by piece"),
        ("t.npy", "secret", "is not a NumPy file"),
        ("t.parquet", "PAR1secret", "is not a Parquet file"),
    ],
)
def test_files_that_cannot_be_streamed(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    schema = Schema(columns=BARE.columns, csv=Csv(header=not content.startswith("#"), comment="#"))
    with pytest.raises(InputError, match=message) as caught:
        open_stream(path, schema)
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        open_stream(tmp_path / "none", schema)


def test_arrays_of_another_shape_or_layout(tmp_path):
    for array, message in [
        (np.zeros((5, 3)), r"has shape \(5, 3\): expected \(n, 4\)"),
        (np.zeros(5), r"has shape \(5,\)"),
        (np.zeros((5, 4), complex), "has type complex128: expected numbers"),
        (np.asfortranarray(np.zeros((5, 4))), "stored column by column"),
        (np.zeros((0, 4)), "has no rows"),
    ]:
        np.save(tmp_path / "t.npy", array)
        with pytest.raises(InputError, match=message):
            open_stream(tmp_path / "t.npy", VECTOR)
    with (tmp_path / "t.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (-5, 4)})
    with pytest.raises(InputError, match=r"has shape \(-5, 4\)"):
        open_stream(tmp_path / "t.npy", VECTOR)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0},
        {"n": 1.5},
        {"order": "shuffled"},
        {"order_seed": -1},
        {"block_bytes": 0},
        {"feature_norm": 0},
        {"rows": 10},
        {"intercept": -1},
        {"dtype": "int8"},
    ],
)
def test_wrong_arguments(tmp_path, wrong):
    parquet.write_table(floats(10), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="expected"):
        open_stream(tmp_path / "t.parquet", FLOATS, **wrong)


def test_reading_can_be_given_up(tmp_path):
    parquet.write_table(floats(1000), tmp_path / "t.parquet")
    stream = open_stream(tmp_path / "t.parquet", FLOATS, block_bytes=block_bytes(10, 5))
    blocks = stream.blocks()
    next(blocks)
    blocks.close()
    assert list(blocks) == []
    assert len(whole(stream)[0]) == 1000


def peak(stream):
    """The largest memory while the stream is read, in bytes: Arrow's columns, Arrow with its files between two blocks, Python."""
    outer = pa.default_memory_pool()
    columns, start, most, rows = pa.proxy_memory_pool(outer), outer.bytes_allocated(), 0, 0
    pa.set_memory_pool(columns)
    tracemalloc.start()
    try:
        for _, target in stream.blocks():
            rows, most = rows + len(target), max(most, outer.bytes_allocated() - start)
        assert rows == stream.n
        return columns.max_memory(), most, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(outer)


@pytest.mark.parametrize("name", ["groups.parquet", "one-group.parquet", "random.parquet", "t.csv", "t.npy"])
def test_memory_does_not_grow_with_the_file(tmp_path, small_chunks, name):
    def use(n):
        path = tmp_path / f"{n}-{name}"
        schema, size, order = FLOATS, 1 << 16, "given"
        if name.endswith("parquet"):
            order = "random" if name.startswith("random") else "given"
            group = n if name.startswith("one") else 5000
            parquet.write_table(floats(n), path, row_group_size=group, data_page_size=1 << 14, use_dictionary=False)
        elif name.endswith("csv"):
            schema = BARE
            path.write_text("# note\n3,yes\n4,no\n" * (n // 2))
        else:
            schema = VECTOR
            np.save(path, np.random.default_rng(0).normal(size=(n, 4)))
        stream = open_stream(path, schema, block_bytes=size, order=order)
        peak(stream)  # what is imported and kept at the first reading does not count
        return np.array(peak(stream)), path.stat().st_size

    (small, _), (large, size) = use(50_000), use(400_000)
    assert (large <= 1.5 * small + (1 << 20)).all()
    assert large.sum() < size
