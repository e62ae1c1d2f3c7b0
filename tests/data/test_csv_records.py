"""What one line of a CSV file does to the table: at most its own row, whatever bytes it holds and wherever pieces begin."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dplateau.data import Category, Csv, Ignored, Number, Schema, Target, csv_records, load_dataset, open_stream, read_table
from dplateau.spec import InputError

CSV = Csv(header=False, comment="#")
SCHEMA = Schema(columns=(Category("a", ("f", "m", 'x"y')), Ignored("note"), Target("y", ("no", "yes"))), csv=CSV)
PLAIN = [b"f,,no", b'"m","a, b",yes', b' m , 5" pipe,no', b'"x""y","",yes', b"f,#,yes\r", b"# a comment", b""]
BYTES = st.binary(max_size=30).map(lambda text: text.replace(b"\n", b"\r"))
ODD = st.sampled_from([b'"', b'""', b",", b"\0", b"\r", b"\xef\xbb\xbf", b"\xff", b"#", b" ", b"x" * 90, b"x" * 700, b'"#'])
FIELD = st.lists(
    st.one_of(ODD, st.sampled_from([b"f", b"m"]), st.characters(exclude_characters="\n").map(lambda c: c.encode(errors="replace")))
).map(b"".join)
PARTS = st.lists(st.sampled_from([b'"', b'"', b",", b",,", b"\r", b"f", b"no", b"yes", b"f,,no", b"\0", b"#"]), max_size=12).map(
    b"".join
)
ROW = st.builds(
    lambda start, a, note, end: start + a + b"," + note + b",yes" + end, PARTS, FIELD, FIELD, st.sampled_from([b"", b"\r", b'"'])
)
LINE = st.one_of(BYTES, PARTS, ROW)


def rows_of(path, content, stream):
    """The encoded rows, or None where the file is refused; read at once or in pieces of 256 bytes."""
    path.write_bytes(content)
    try:
        if stream:
            blocks = list(open_stream(path, SCHEMA, block_bytes=60).blocks())
            rows = np.concatenate([np.column_stack(block) for block in blocks])
        else:
            data = load_dataset(path, SCHEMA)
            rows = np.column_stack([data.features, data.target])
    except InputError:
        return None
    return [bytes(row) for row in rows]


@pytest.mark.parametrize("stream", [False, True])
@settings(derandomize=True, deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.sampled_from(PLAIN), max_size=30), place=st.integers(0, 30), line=LINE)
def test_a_line_changes_its_own_row_only(tmp_path, monkeypatch, stream, lines, place, line):
    monkeypatch.setattr(csv_records, "BLOCK", 256)
    lines = [b"f,,no", *lines, b"m,,yes"]
    place = min(place, len(lines))
    before, after = lines[:place], lines[place:]
    path = tmp_path / "t.csv"

    def read(*parts):
        return rows_of(path, b"\n".join([one for part in parts for one in part]), stream)

    without = read(before, after)
    assert without is not None
    assert len(without) == sum(bool(one) and not one.startswith(b"#") for one in lines)
    changed = read(before, [line], after)
    if changed is not None:
        own = sum(bool(one) and not one.startswith(b"#") for one in before)
        rest = len(without) - own
        assert changed[:own] == without[:own]
        assert changed[len(changed) - rest :] == without[own:]
        assert len(changed) - len(without) in (0, 1)


def test_many_odd_lines_are_rows_and_not_errors(tmp_path):
    """So that the property above is not one of errors only."""
    odd = [b'5" x', b"a\0b", b"a\xef\xbb\xbfb", b'"a""b"', b'x"', b'"', b"x" * 10_000, b"\xff"]
    content = b"".join(b"f," + note + b",yes\n" for note in odd if note != b'"')
    assert len(rows_of(tmp_path / "t.csv", content, False)) == len(odd) - 1


def test_a_stray_quote_takes_no_neighbours(tmp_path):
    path = tmp_path / "t.csv"
    lines = ["f,,no"] * 1000
    for place in (200, 695):
        lines[place] = '"f,,no'
    path.write_text("\n".join(lines))
    for read in (lambda: load_dataset(path, SCHEMA), lambda: open_stream(path, SCHEMA)):
        with pytest.raises(InputError, match=r"t\.csv, line 201: a quote is not closed where the line ends"):
            read()


def test_a_comment_is_a_line_and_not_a_part_of_a_field(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('f,"a\n# b",no\n' + 'f,"# c",no\n' * 3)
    with pytest.raises(InputError, match="line 1: a quote is not closed"):
        load_dataset(path, SCHEMA)
    allowed = Schema(columns=SCHEMA.columns, csv=Csv(header=False, comment="#", line_breaks=True))
    columns = Schema(columns=(Category("note", ("a\n# b", "# c")), *SCHEMA.columns[::2]), csv=Csv(comment="#", line_breaks=True))
    assert len(load_dataset(path, allowed).target) == 4
    path.write_text('# "a\na,note,y\nf,"a\n# b",no\n# "\nf,"# c",no\n')
    assert read_table(path, columns)["note"].to_pylist() == ["a\n# b", "# c"]


def test_line_breaks_in_small_pieces(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    schema = Schema(columns=SCHEMA.columns, csv=Csv(header=False, comment="#", line_breaks=True))
    notes = ['"' + 'a\n# ""b, ' * (i % 9) + '"' for i in range(300)]
    path.write_text("".join(f"{'fm'[i % 2]},{note},{('no', 'yes')[i % 3 > 0]}\n# it's 5\" \n" for i, note in enumerate(notes)))
    whole = load_dataset(path, schema, n=300)
    monkeypatch.setattr(csv_records, "BLOCK", 128)
    pieces = load_dataset(path, schema, n=300)
    np.testing.assert_array_equal(pieces.features, whole.features)
    np.testing.assert_array_equal(pieces.target, np.arange(300) % 3 > 0)
    path.write_text("f,,no\n" * 50 + 'f,",no\n' + "f,,no\n" * 50)
    with pytest.raises(InputError, match=r"line 51: no whole record of at most 0 KiB begins here.*be closed"):
        load_dataset(path, schema)


@pytest.mark.parametrize(("length", "fits"), [(251, True), (252, False), (400, False), (520, False)])
def test_the_longest_line_does_not_depend_on_its_place(tmp_path, monkeypatch, length, fits):
    monkeypatch.setattr(csv_records, "BLOCK", 256)
    path = tmp_path / "t.csv"
    for before in range(0, 60, 7):
        path.write_bytes(b"f,,no\n" * before + b"f," + b"x" * (length - 2) + b",yes\n" + b"f,,no\n" * 9)
        if fits:
            assert len(load_dataset(path, SCHEMA).target) == before + 10
        else:
            with pytest.raises(InputError, match=f"line {before + 1}: it is longer than 0 KiB"):
                load_dataset(path, SCHEMA)


def test_a_byte_order_mark_counts_at_the_beginning_of_the_file_only(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf# a comment\n\xef\xbb\xbff,,no\n")
    assert read_table(path, SCHEMA)["a"].to_pylist() == ["\ufefff"]


@pytest.mark.parametrize("comment", ['a"', "a\n", "\r", 3])
def test_comments_are_no_quotes_and_no_line_breaks(comment):
    with pytest.raises(InputError, match="csv: comment is"):
        Csv(comment=comment)
    with pytest.raises(InputError, match="line_breaks"):
        Csv(line_breaks="yes")


def test_a_declared_number_of_rows_is_checked_in_every_format(tmp_path):
    schema = Schema(columns=(Number("x", 0, 9), Target("y", ("1", "2"))))
    (tmp_path / "t.csv").write_text("x,y\n3,1\n4,2\n5,1\n")
    (tmp_path / "t.svm").write_text("1 1:3\n2 1:4\n1 1:5\n")
    table = np.array([[3.0, 1], [4, 2], [5, 1]])
    np.save(tmp_path / "t.npy", table)
    np.savez(tmp_path / "t.npz", X=table[:, :1], y=table[:, 1])
    parquet.write_table(pa.table({"x": table[:, 0], "y": table[:, 1]}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.svm", "t.npy", "t.npz", "t.parquet"):
        path = tmp_path / name
        assert len(load_dataset(path, schema, n=3).target) == read_table(path, schema, n=3).num_rows == 3
        with pytest.raises(InputError, match=re.escape(f"{path} has 3 rows where n = 4 is declared")):
            load_dataset(path, schema, n=4)
        with pytest.raises(InputError, match=r"n is 2\.5"):
            read_table(path, schema, n=2.5)


def test_a_ragged_line_that_is_not_text(tmp_path, capfd, recwarn):
    path = tmp_path / "t.csv"
    path.write_bytes(b"f,,no\n" * 9 + b"\xffsecret,no\n" + b"f,,no\n")
    with pytest.raises(InputError, match="line 10: 2 fields where 3 are expected"):
        load_dataset(path, SCHEMA)
    assert not recwarn.list
    assert "secret" not in "".join(capfd.readouterr())
