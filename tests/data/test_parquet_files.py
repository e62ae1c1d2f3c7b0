"""A folder of Parquet files is one table: the files in the order of their paths, wherever pyarrow finds them."""

import os
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from dplateau.data import Number, Schema, Target, load_dataset, open_stream
from dplateau.data.parquet_files import parquet_files
from dplateau.spec import InputError

SCHEMA = Schema(columns=(Number("a", 0, 1000, unknown=False), Target("y", low=0, high=1000)))


def rows(start, stop):
    numbers = np.arange(start, stop)
    return pa.table({"a": numbers.astype(np.float32), "y": numbers.astype(np.float64), "other": numbers})


@pytest.fixture
def folder(tmp_path):
    """Written in another order than that of the names; with what writers leave behind."""
    place = tmp_path / "rows"
    for name, part in {"b.parquet": (30, 60), "c/d.pq": (60, 100), "a.parquet": (0, 30), "e.parquet": (100, 100)}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(rows(*part), place / name, row_group_size=7)
    for name in ("_SUCCESS", ".b.parquet.crc", "_metadata/x.parquet"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("no rows")
    return place


def read(stream):
    """The targets, in order: here they are the numbers of the rows."""
    return np.concatenate([target for _, target in stream.blocks()])


@pytest.mark.parametrize("given", ["{}", "{}/", "file://{}", "file://{}/"])
def test_files_are_read_in_the_order_of_their_paths(folder, given):
    stream = open_stream(given.format(folder), SCHEMA, block_bytes=80)
    assert stream.n == 100
    assert read(stream).tolist() == list(range(100))
    assert {len(target) for _, target in stream.blocks()} == {10}  # whatever the files and their row groups are
    assert stream.order.startswith("as given")


def test_a_folder_is_the_file_of_all_its_rows(folder, tmp_path):
    parquet.write_table(rows(0, 100), tmp_path / "all.parquet")
    data = load_dataset(tmp_path / "all.parquet", SCHEMA)
    features = np.concatenate([features for features, _ in open_stream(folder, SCHEMA).blocks()])
    assert np.array_equal(features, data.features)


def test_an_address_may_be_of_one_file(tmp_path):
    parquet.write_table(rows(0, 9), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,y\n1,1\n2,2\n")
    assert read(open_stream(f"file://{tmp_path}/t.parquet", SCHEMA)).tolist() == list(range(9))
    assert read(open_stream(f"file://{tmp_path}/t.csv", SCHEMA)).tolist() == [1, 2]


@pytest.mark.parametrize("root", ["rows", "rows/b.parquet"])
def test_another_file_system(folder, root):
    """As of a store that is not here: row groups are read at once."""
    files = parquet_files("s3://bucket/rows", fs.SubTreeFileSystem(str(folder.parent), fs.LocalFileSystem()), root)
    assert not isinstance(files.filesystem, fs.LocalFileSystem)
    found = pa.concat_tables(files.pieces(SCHEMA, 5))["y"].to_pylist()
    assert found == (list(range(100)) if root == "rows" else list(range(30, 60)))
    assert sum(files.groups(SCHEMA)) == len(found)
    before = files.mark()
    parquet.write_table(rows(0, 1), folder / "b.parquet")
    assert files.mark() != before


def test_persons_go_on_in_the_next_file(tmp_path):
    for name, persons in {"a": [1, 1, 2], "b": [2, 2, 3]}.items():
        table = rows(0, 3).append_column("who", pa.array(persons))
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    stream = open_stream(tmp_path, SCHEMA, person="who")
    assert (stream.n, stream.unit) == (3, "person")
    assert np.concatenate([groups for _, _, groups in stream.blocks()]).tolist() == [1, 1, 2, 2, 2, 3]


def refused(path, message, **options):
    with pytest.raises(InputError, match=message) as caught:
        open_stream(path, SCHEMA, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_of_different_types_are_refused(folder):
    table = rows(100, 110)
    other = table.set_column(0, "a", table["a"].cast(pa.float64()))
    parquet.write_table(other, folder / "f.parquet")
    refused(folder, r"rows/f\.parquet: column 'a' is of type double, in the first file of the folder float: write all files")
    parquet.write_table(table.drop_columns(["a"]), folder / "f.parquet")
    refused(folder, r"rows/f\.parquet lacks column 'a', which the schema declares")
    parquet.write_table(table.drop_columns(["other"]), folder / "f.parquet")  # which the schema does not use
    assert open_stream(folder, SCHEMA).n == 110


def test_folders_that_are_no_table(tmp_path):
    refused(tmp_path, "holds no Parquet file: expected a folder with at least one file")
    (tmp_path / "_SUCCESS").touch()
    refused(f"file://{tmp_path}", "holds no Parquet file")
    parquet.write_table(rows(0, 0), tmp_path / "a.parquet")
    refused(tmp_path, "has no rows: expected at least one")
    (tmp_path / "more.csv").write_text("a,y\n1,1\n")
    refused(tmp_path, r"holds 'more\.csv', which is not a Parquet file: expected a folder of such files")
    (tmp_path / "more.csv").unlink()
    (tmp_path / "b.parquet").write_text("PAR1 and no more")
    refused(tmp_path, r"b\.parquet is not a Parquet file, or is damaged")
    refused(f"file://{tmp_path}/none", "no such file")


def test_a_file_that_says_that_nothing_is_missing_does_not_change_how_rows_are_read(tmp_path):
    whole = pa.table({"a": (np.arange(100) / 7).astype(np.float32), "y": np.arange(100.0)})
    required = pa.schema([field.with_nullable(False) for field in whole.schema])
    (tmp_path / "rows").mkdir()
    parquet.write_table(whole.slice(0, 50), tmp_path / "rows" / "a.parquet")
    parquet.write_table(whole.slice(50).cast(required), tmp_path / "rows" / "b.parquet")
    parquet.write_table(whole, tmp_path / "all.parquet")
    features = np.concatenate([features for features, _ in open_stream(tmp_path / "rows", SCHEMA, rows="unit").blocks()])
    assert np.array_equal(features, load_dataset(tmp_path / "all.parquet", SCHEMA, rows="unit").features)


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("given", ["{}", "file://{}", "fsspec+file://{}", "fsspec+local://{}"])
def test_a_link_does_not_make_a_record_be_used_twice(folder, link, given):
    if given.startswith("fsspec"):
        pytest.importorskip("fsspec")
        try:
            fs.FileSystem.from_uri("fsspec+file:///")
        except pa.ArrowInvalid:
            pytest.skip("this pyarrow knows no such addresses")
    link(folder / "b.parquet", folder / "f.parquet")
    refused(given.format(folder), r"one file twice, by a link: 'b\.parquet' and 'f\.parquet'")


def store(folder, **kept):
    """The files of a folder in a store of fsspec, which pyarrow is not told the times of; ``kept``: what replaces its methods."""
    memory = pytest.importorskip("fsspec").filesystem("memory", skip_instance_cache=True)
    for path in sorted(folder.rglob("*.p*")):
        memory.pipe(f"{folder}/{path.relative_to(folder)}", path.read_bytes())
    for name, method in kept.items():
        setattr(memory, name, method)
    return memory, fs.PyFileSystem(fs.FSSpecHandler(memory))


@pytest.fixture
def two(tmp_path):
    """Two files of one size."""
    (tmp_path / "two").mkdir()
    for name, part in {"a": (0, 50), "b": (50, 100)}.items():
        parquet.write_table(rows(*part), tmp_path / "two" / f"{name}.parquet", use_dictionary=False, compression="none")
    return tmp_path / "two"


def test_files_of_a_store_that_change_places_are_noticed(two):
    """Between the two files, the content of each became that of the other: a reading has the first fifty rows twice."""
    memory, system = store(two)
    files = parquet_files("memory://two", system, str(two))
    before = files.mark()
    assert files.mark() == before
    memory.pipe(f"{two}/a.parquet", (two / "b.parquet").read_bytes())
    after = files.mark()
    assert [one[:2] for one in after] == [one[:2] for one in before]  # the paths and the sizes
    assert after != before


def test_what_a_store_remembers_of_its_files_is_asked_for_anew(two):
    """Stores list a folder once, and say the same ever after, until they are told to forget it."""
    listed, held = store(two)[0].find, {}

    def find(path, **how):
        key = (path, *sorted(how.items()))
        if key not in held:
            held[key] = listed(path, **how)
        return held[key]

    memory, system = store(two, find=find, invalidate_cache=lambda *_: held.clear())
    files = parquet_files("memory://two", system, str(two))
    before = files.mark()
    memory.pipe(f"{two}/c.parquet", (two / "a.parquet").read_bytes())
    assert files.mark()[:2] == before
    assert len(files.mark()) == 3


def test_a_store_that_says_nothing_of_changes_is_refused(two):
    def info(path, **_):
        return {"name": path, "size": (two / path).stat().st_size, "type": "file"}

    memory, system = store(two)
    memory.info = info
    with pytest.raises(
        InputError, match=r"^memory://two/a.parquet: its store does not say when a file was written, so nobody could"
    ):
        parquet_files("memory://two/a.parquet", system, str(two / "a.parquet")).mark()


@pytest.mark.parametrize("method", ["info", "find", "open"])
def test_errors_of_a_store_are_one_line_without_its_keys(two, method):
    def failing(*_, **__):
        raise LookupError("http://key:secret@host\nsecret")

    _, system = store(two, **{method: failing})
    with pytest.raises(InputError, match=r"^memory://two(/a\.parquet)? (cannot be read|is not a Parquet file)") as caught:
        parquet_files("memory://two", system, str(two)).groups(SCHEMA)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_file_of_a_store_that_is_not_parquet(two):
    _, system = store(two)
    system.open_output_stream(f"{two}/t.csv").close()
    with pytest.raises(InputError, match=r"^memory://two/t\.csv is not a Parquet file: expected a name that ends in \.parquet"):
        parquet_files("memory://two/t.csv", system, f"{two}/t.csv")


def test_a_file_and_a_folder_of_one_name_are_refused(two):
    """As s3fs lists the keys ``a.parquet`` and ``a.parquet/x.parquet``: with folders, the first is gone."""
    memory, _ = store(two)
    listed = memory.find

    def find(path, *, withdirs=False, detail=False, **_):
        found = listed(path, detail=True)
        if withdirs:
            found[f"{two}/a.parquet"] = {"name": f"{two}/a.parquet", "type": "directory", "size": 0}
        return found if detail else list(found)

    _, system = store(two, find=find)
    with pytest.raises(InputError, match=r"^memory://two holds 'a\.parquet' as a file and as a folder, .*: rename one") as caught:
        parquet_files("memory://two", system, str(two))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("root", ["{}", "{}/b.parquet"])
def test_a_link_in_a_store_of_git_is_refused(two, root):
    """GitHub hands on the content of the file that it leads to, so that its rows were used twice."""
    memory, _ = store(two)
    known = memory.info

    def info(path, **_):
        return {**known(path), "created": None, "sha": "1", "mode": "120000" if path == f"{two}/b.parquet" else "100644"}

    _, system = store(two, info=info)
    files = parquet_files(root.format("github://two"), system, root.format(two))
    with pytest.raises(InputError, match=r"^github://two/b\.parquet is a link, whose rows may be used twice"):
        files.mark()


def test_a_key_with_a_dot_is_no_hidden_file(two):
    memory, system = store(two)
    memory.store[f"{two}/./c.parquet"] = memory.store[f"{two}/a.parquet"]
    assert len(parquet_files("memory://two", system, str(two)).paths) == 3


@pytest.mark.parametrize("options", ["?sig=secret", "?sig=se/secret&x=1", "?x=a.parquet&sig=secret", "#secret"])
def test_a_signed_address_is_read_and_its_signature_is_not_shown(two, options):
    memory, system = store(two)
    root = f"{two}/a.parquet{options}"
    memory.pipe(root, (two / "a.parquet").read_bytes())
    files = parquet_files("memory://two/a.parquet", system, root)
    assert pa.concat_tables(files.pieces(SCHEMA, 5))["y"].to_pylist() == list(range(50))
    assert "secret" not in repr(files)
    memory.pipe(root, b"PAR1")
    with pytest.raises(InputError, match=r"^memory://two/a\.parquet is not a Parquet file, or is damaged") as caught:
        files.groups(SCHEMA)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("layer", ["dir", "filecache", "simplecache"])
def test_layers_that_hide_links_are_refused(folder, layer):
    pytest.importorskip("fsspec")
    refused(f"fsspec+{layer}://{folder}::file:///", "an address in layers or of FTP, which can hide links")


def test_ftp_is_refused():
    """Its servers follow links without saying so, and may tell times to the minute only."""
    said = refused("fsspec+ftp://me:secret@host/rows", "//host/rows is an address in layers or of FTP, which can hide links")
    assert "secret" not in said


def test_a_folder_that_links_to_itself(folder):
    os.symlink(folder, folder / "c" / "again")
    with pytest.raises(InputError, match="one file twice, by a link"):
        open_stream(folder, SCHEMA)


def test_a_pipe_is_not_left_out_unnoticed(folder):
    os.mkfifo(folder / "f.parquet")
    with pytest.raises(InputError, match=r"holds 'f\.parquet', which is not a Parquet file"):
        open_stream(folder, SCHEMA)


def test_a_random_order_is_for_one_file(folder):
    refused(folder, 'order = "random" is for one Parquet file, and .* is a folder', order="random")


@pytest.mark.parametrize(
    "address",
    [
        "ftp://key:secret@host/rows",
        "ftp://key:se/secret@secret@host/rows",
        "what://secret@bucket/rows?password=secret",
        "s4://bucket/x#secret",
        "s4://bucket/x",
        "fsspec+jupyter://key:secret@host/rows?token=secret",  # fsspec raises a TypeError
    ],
)
def test_addresses_that_pyarrow_does_not_know(address):
    assert "secret" not in refused(
        address, r"//(host|bucket)/\w+ is not an address that pyarrow can open: expected .* s3://bucket/folder"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode there")
def test_a_name_that_is_no_unicode_in_memory(tmp_path):
    parquet.write_table(rows(0, 10), tmp_path / "a.parquet")
    named = (tmp_path / "a.parquet").rename(tmp_path / os.fsdecode(b"\xff.parquet"))
    assert len(load_dataset(named, SCHEMA, rows="unit").target) == 10


def test_a_file_of_this_machine_that_is_missing_is_told_without_options():
    pytest.importorskip("fsspec")
    assert "secret" not in refused("fsspec+file:///x?key=secret", "^fsspec.file:///x")


def test_a_value_that_is_not_allowed_is_named_by_its_row(folder):
    numbers = rows(100, 110)
    parquet.write_table(numbers.set_column(0, "a", pa.array([1.0] * 4 + [np.inf] + [1.0] * 5, pa.float32())), folder / "f.parquet")
    with pytest.raises(InputError, match="rows 101 to 110: column 'a' is infinite in 1 rows: expected finite numbers"):
        read(open_stream(folder, SCHEMA, block_bytes=80))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("written again", "was changed or replaced while it was in use"),
        ("added", "was changed or replaced while it was in use"),
        ("removed", r"e\.parquet is damaged, or does not fit its own metadata: 0 rows could be read"),
    ],
)
def test_a_folder_that_changes_while_it_is_read(folder, change, message):
    stream = open_stream(folder, SCHEMA, block_bytes=80)
    blocks = stream.blocks()
    next(blocks)
    if change == "removed":
        (folder / "e.parquet").unlink()
    else:
        parquet.write_table(rows(100, 100), folder / ("e.parquet" if change == "written again" else "z.parquet"))
    with pytest.raises(InputError, match=message):
        list(blocks)
