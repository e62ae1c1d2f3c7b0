"""``dplateau train --stream``: the whole way from a file to a folder; and whatever is wrong, one line and no folder."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dplateau.certificate import verify
from dplateau.estimators.table_model import load_model

N = 4_000
CLASSES = 'classes = ["0", "1"]'
RANGE = "low = -2\nhigh = 2"
SCHEMA = """
[columns.a]
type = "number"
low = -1
high = 1
unknown = false
[columns.b]
type = "number"
low = -1
high = 1
unknown = false
[columns.t]
type = "target"
"""


def columns(kind):
    random = np.random.default_rng(0)
    a, b = random.uniform(-1, 1, (2, N)).astype(np.float32)
    return {"a": a, "b": b, "t": a + b if kind == "range" else (a > 0).astype(np.int8)}


def write(folder, kind="classes", **changed):
    """The schema, and the rows as Parquet (row groups of 500) and as CSV."""
    (folder / "schema.toml").write_text(SCHEMA + (RANGE if kind == "range" else CLASSES))
    table = pa.table({**columns(kind), **changed})
    parquet.write_table(table, folder / "rows.parquet", row_group_size=500, compression="none", write_page_checksum=True)
    lines = (",".join(str(entry) for entry in row.values()) for row in table.to_pylist())
    (folder / "rows.csv").write_text("\n".join(["a,b,t", *lines]) + "\n")
    return folder


@pytest.fixture(scope="module", params=["classes", "range"])
def folder(request, tmp_path_factory):
    return write(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture
def train(dplateau, tmp_path):
    """Run ``dplateau train``; returns the exit status, what was printed, and the folder it should have written."""

    def call(folder, file="rows.parquet", *arguments):
        output = tmp_path / "model"
        command = ("train", folder / file, "--schema", folder / "schema.toml", "--epsilon", 1, "--output", output)
        return *dplateau(*command, *(arguments or ("--stream",))), output

    return call


def refused(found, message):
    """Whether it ended with one line on standard error, status 2, and nothing written."""
    code, out, err, output = found
    assert (code, out) == (2, "")
    assert re.fullmatch(r"dplateau: [^\n]+\n", err)
    assert re.search(message, err), err
    assert list(output.parent.glob("*model*")) == list(output.parent.glob(".*")) == []
    return True


def test_from_parquet_and_from_csv(folder, train, tmp_path):
    options = ("--stream", "--insecure-seed", 1, "--json")
    weights = {}
    for file, more in (("rows.parquet", ()), ("rows.csv", ()), ("rows.csv", ("--rows", N)), ("rows.parquet", ("--rows", N))):
        code, out, err, output = train(folder, file, *options, *more)
        assert (code, err) == (0, "")
        assert json.loads(out)["epsilon"] <= 1
        model = load_model(output)
        weights[file, more] = model.estimator.coef_
        assert model.certificate.run.sampling.kind == "one-pass"
        output.rename(tmp_path / f"done-{len(weights)}")
    first, *rest = weights.values()
    assert all((other == first).all() for other in rest)
    code, _, _, output = train(folder, "rows.csv", "--solver", "pnsgd", "--insecure-seed", 1)
    assert code == 0
    assert (load_model(output).estimator.coef_ == first).all()


def test_several_passes(folder, train, tmp_path):
    options = ("--stream", "--solver", "noisy-sgd", "--steps", 20, "--insecure-seed", 1)
    weights = []
    for file in ("rows.parquet", "rows.csv"):
        code, _, err, output = train(folder, file, *options)
        assert (code, err) == (0, "")
        model = load_model(output)
        assert (model.certificate.run.sampling.kind, model.certificate.run.steps) == ("random-allocation", 20)
        assert "order" not in {assumption.name for assumption in model.certificate.assumptions}
        assert not verify(model.certificate).differences
        weights.append(model.estimator.coef_)
        output.rename(tmp_path / f"done-{len(weights)}")
    assert (weights[0] == weights[1]).all()


def test_the_certificate(folder, train, dplateau):
    code, out, _, output = train(folder)
    assert code == 0
    assert "one-pass" in out or "one pass" in out
    certificate = load_model(output).certificate
    assert verify(certificate).certifies
    order = {assumption.name: (assumption.statement, assumption.how) for assumption in certificate.assumptions}["order"]
    assert order[0].endswith("(as given: public, and chosen without looking at the records)")
    assert order[1] == "declared"
    assert "chosen without looking at the records" in " ".join(out.split())
    assert dplateau("account", "--run", output / "certificate.json")[0] == 0


def place(entry, at, kind="classes", name="b", dtype=None):
    """The column with one other entry."""
    column = columns(kind)[name].astype(dtype) if dtype else columns(kind)[name].copy()
    column[at] = entry
    return {name: column}


BAD = {
    "NaN": (place(np.nan, N - 100), "classes", r"rows \d+ to \d+: .*b"),
    "infinite": (place(np.inf, N - 100), "classes", r"rows \d+ to \d+: .*b"),
    "NaN target": (place(np.nan, N - 100, "range", "t"), "range", r"rows \d+ to \d+: .*t"),
    "undeclared class": (place(7, N - 100, name="t"), "classes", r"rows \d+ to \d+: .*t"),
}


@pytest.mark.parametrize("file", ["rows.parquet", "rows.csv"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_late_in_the_file(train, tmp_path, name, file):
    changed, kind, message = BAD[name]
    assert refused(train(write(tmp_path, kind, **changed), file), message)


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("rows.csv", N + 1, f"ends after {N} of the declared {N + 1} rows"),
        ("rows.csv", N - 1, f"more than the declared {N - 1} rows"),
        ("rows.parquet", N + 1, f"has {N} rows by its own account where n = {N + 1} is declared"),
        ("rows.parquet", N - 1, f"has {N} rows by its own account where n = {N - 1} is declared"),
        ("rows.csv", 0, "n is 0"),
    ],
)
def test_a_wrong_number_of_rows(folder, train, file, rows, message):
    assert refused(train(folder, file, "--stream", "--rows", rows), message)


def middle(path, group):
    """Where the first page of a row group lies, in the middle of it."""
    column = parquet.ParquetFile(path).metadata.row_group(group).column(0)
    return column.data_page_offset + column.total_compressed_size // 2


def test_a_damaged_row_group(train, tmp_path):
    path = write(tmp_path) / "rows.parquet"
    content = bytearray(path.read_bytes())
    content[middle(path, 6)] ^= 1
    path.write_bytes(content)
    assert refused(train(tmp_path), r"rows.parquet is damaged, or does not fit its own metadata: \d+ rows could be read")


def test_a_file_that_ends_early(train, tmp_path):
    path = write(tmp_path) / "rows.parquet"
    os.truncate(path, middle(path, 6))
    assert refused(train(tmp_path), "is not a Parquet file, or is damaged")
    path.write_text("")
    assert refused(train(tmp_path), "is empty")
    (tmp_path / "rows.csv").write_text("a,b,t\n")
    assert refused(train(tmp_path, "rows.csv"), "has no rows")


def test_options_that_do_not_go_together(train, tmp_path):
    folder = write(tmp_path)
    assert refused(train(folder, "rows.csv", "--rows", N - 1), f"has {N} rows where n = {N - 1} is declared")
    for solver in ("adp-sgd", "phased-sgd", "phased-erm"):
        assert refused(train(folder, "rows.csv", "--stream", "--solver", solver), "needs all records in memory: for a stream use")
    assert refused(train(folder, "rows.csv", "--stream", "--solver", "magic"), "solver")


def test_files_that_cannot_be_read_in_pieces(train, tmp_path):
    write(tmp_path)
    np.savez(tmp_path / "rows.npz", X=np.zeros((3, 2)), y=np.zeros(3))
    assert refused(train(tmp_path, "rows.npz"), "cannot be read piece by piece")


# --- processes ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A file that takes some time to read."""
    folder = tmp_path_factory.mktemp("long")
    random = np.random.default_rng(0)
    n, d = 200_000, 20
    names = [f"x{i}" for i in range(d)]
    table = pa.table({**{name: random.uniform(-1, 1, n).astype(np.float32) for name in names}, "t": random.integers(0, 2, n)})
    parquet.write_table(table, folder / "rows.parquet", row_group_size=20_000)
    (folder / "schema.toml").write_text(
        "".join(f'[columns.{name}]\ntype = "number"\nlow = -1\nhigh = 1\n' for name in names)
        + f'[columns.t]\ntype = "target"\n{CLASSES}\n'
    )
    return folder


def command(output, file="rows.parquet"):
    arguments = ("train", file, "--schema", "schema.toml", "--epsilon", "1", "--stream", "--output", str(output))
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # also if the tests run in the background
    return [sys.executable, "-c", f"{listening}; from dplateau.cli.main import run; run()", *arguments]


def on_a_terminal(long, output, interrupt=False):
    """What the command shows on a terminal, its exit status; interrupted as soon as it has shown its bar, or not."""
    terminal, other_end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "110"}
    with subprocess.Popen(command(output), cwd=long, stdout=subprocess.PIPE, stderr=other_end, env=environment) as process:
        os.close(other_end)
        shown = b""
        with suppress(OSError):  # how Linux tells that the other end is closed
            while part := os.read(terminal, 4096):
                shown += part
                if interrupt and re.search(rb"\d+/(\?|200000)", shown):
                    process.send_signal(signal.SIGINT)
                    interrupt = False
        assert process.stdout is not None
        process.stdout.read()
    os.close(terminal)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()), process.returncode


def test_the_bar_shows_rows_and_rows_a_second(long, tmp_path):
    plain, code = on_a_terminal(long, tmp_path / "model")
    assert code == 0
    lines = {line.strip() for line in re.split(r"[\r\n]+", plain)} - {""}
    clock = r"(\d+:\d\d:\d\d|-:--:--)"
    form = rf"training [^\w ]+ +\d+/(\?|200000) rows(, [\d,]+/s)? +{clock} left( {clock})?"
    for line in lines:
        assert re.fullmatch(form, line), line
    assert any(re.search(r"200000/200000 rows, [\d,]+/s", line) for line in lines)


def test_an_interrupt_leaves_nothing(long, tmp_path):
    plain, code = on_a_terminal(long, tmp_path / "model", interrupt=True)
    assert code == 130
    assert plain.rstrip().endswith("dplateau: stopped.")
    assert "Traceback" not in plain
    assert list(tmp_path.iterdir()) == []
