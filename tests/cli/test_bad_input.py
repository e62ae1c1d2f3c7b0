"""Whatever is wrong with a training's input: one line that quotes no row, exit status 2, and nothing written."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from dplateau import files
from dplateau.data import schema_file
from dplateau.files import claimed

HEADER = "age,colour,ill\n"
ROWS = "".join(f"{i % 90},{('red', 'blue')[i % 2]},{('no', 'yes')[i % 2]}\n" for i in range(200))
SECRET = "73.125"
FILES = {
    "empty file": ("", "is empty"),
    "header alone": (HEADER, "row"),
    "ragged rows": (HEADER + ROWS + f"{SECRET},red\n", "field"),
    "text in a number": (HEADER + ROWS + f"secret{SECRET},red,no\n", "age"),
    "infinite": (HEADER + ROWS + "inf,red,no\n", "age"),
    "wrong delimiter": ((HEADER + ROWS).replace(",", ";"), "column"),
    "wrong target": (HEADER + ROWS + f"{SECRET},red,maybe\n", "ill"),
    "missing target": (HEADER + ROWS + f"{SECRET},red,\n", "ill"),
    "no target column": ("age,colour\n1,red\n", "ill"),
    "no feature column": ("colour,ill\nred,no\n", "age"),
    "an open quote": (HEADER + ROWS + f'"{SECRET},red,no\n' + ROWS + '"1",red,no\n', "line 202: a quote is not closed"),
    "a line": ("1,red,no\n", "column"),
    "binary": ("\x00\x01\x02\x03", ""),
}


@pytest.fixture
def train(dplateau, table, tmp_path):
    """Train and expect failure; returns the one line."""

    def call(*options, file=table / "rows.csv", schema=table / "schema.toml", epsilon=1, output=tmp_path / "model") -> str:
        before = sorted(tmp_path.iterdir())
        code, out, err = dplateau("train", file, "--schema", schema, "--epsilon", epsilon, "--output", output, *options)
        assert (code, out) == (2, ""), err
        assert err.startswith("dplateau: ")
        assert err.count("\n") == 1
        assert SECRET not in err
        assert sorted(tmp_path.iterdir()) == before
        return err

    return call


@pytest.mark.parametrize("name", FILES)
def test_files(train, tmp_path, name):
    content, message = FILES[name]
    (tmp_path / "bad.csv").write_text(content)
    assert message in train(file=tmp_path / "bad.csv")
    assert message in train("--test", tmp_path / "bad.csv")


def test_rows_of_one_class_are_no_error(dplateau, table, tmp_path):
    """An error would tell that nobody is ill."""
    (tmp_path / "rows.csv").write_text(HEADER + ROWS.replace("yes", "no"))
    options = ("--schema", table / "schema.toml", "--epsilon", 1, "--steps", 5, "--output", tmp_path / "model")
    assert dplateau("train", tmp_path / "rows.csv", *options)[0] == 0


@pytest.mark.parametrize(("option", "value"), [("--epsilon", 0), ("--epsilon", "nan"), ("--delta", 1)])
def test_the_demo_refuses_as_train_does(dplateau, option, value):
    code, out, err = dplateau("demo", option, value)
    assert (code, out) == (2, "")
    assert err.startswith(f"dplateau: {option[2:]} is {value}")
    assert err.count("\n") == 1


def test_a_missing_number_is_unknown_and_no_error(dplateau, table, tmp_path):
    (tmp_path / "rows.csv").write_text(HEADER + ROWS + "NaN,red,no\n,blue,yes\n")
    code, _, _ = dplateau(
        *(
            "train",
            tmp_path / "rows.csv",
            "--schema",
            table / "schema.toml",
            "--epsilon",
            1,
            "--steps",
            5,
            "--output",
            tmp_path / "m",
        )
    )
    assert code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--delta", 0), "delta is 0"),
        (("--delta", 1), "delta is 1"),
        (("--delta", 5), "delta is 5"),
        (("--delta", "nan"), "delta is nan"),
        (("--steps", 0), "steps is 0"),
        (("--model", "magic"), "expected one of logistic"),
        (("--model", "linear"), "does not fit the target 'ill'"),
        (("--target", "age"), "the schema's target is 'ill'"),
        (("--adjacency", "near"), "adjacency is 'near'"),
        (("--insecure-seed", -1), "insecure_seed"),
        (("--test", "no.csv"), "no such file"),
        (("--rows", 1999), "has 2000 rows where n = 1999 is declared"),
        (("--rows", 0), "n is 0"),
    ],
)
def test_options(train, options, message):
    assert message in train(*options)


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf"])
def test_epsilon(train, epsilon):
    assert f"epsilon is {epsilon}" in train(epsilon=epsilon)


def test_schemas(train, table, tmp_path):
    text = (table / "schema.toml").read_text()
    for name, content, message in (
        ("one class", text.replace('["no", "yes"]', '["no"]'), "only one class"),
        ("no target", text.replace('"target"', '"ignored"').replace("classes", "# classes"), "0 targets"),
        ("no such column", text.replace("columns.age", "columns.size"), "size"),
        ("not TOML", "a = [", "not TOML"),
        ("a template", text.replace("100", '"FILL IN"'), "FILL IN"),
    ):
        path = tmp_path / f"{name}.toml"
        path.write_text(content)
        assert message in train(schema=path)
    assert "no such schema" in train(schema=tmp_path / "none.toml")
    assert "cannot be read" in train(schema=table)


def test_paths(train, table, tmp_path):
    assert "no such file" in train(file=tmp_path / "none.csv")
    assert "is no file: a folder or address of Parquet files is read with --stream" in train(file=table)
    assert "is not a folder" in train(output=tmp_path / "no" / "model")
    (tmp_path / "there").mkdir()
    assert "exists already" in train(output=tmp_path / "there")


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is readable and writable for root")
def test_permissions(train, table, tmp_path):
    (tmp_path / "closed.csv").write_text(HEADER + ROWS)
    (tmp_path / "closed.csv").chmod(0)
    assert "Permission denied" in train(file=tmp_path / "closed.csv")
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0o500)
    assert "no permission" in train(output=tmp_path / "locked" / "model")


def test_a_large_delta_is_warned_about(dplateau, table, tmp_path):
    code, _, err = dplateau(
        *("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1, "--delta", 0.01, "--steps", 5),
        *("--output", tmp_path / "model"),
    )
    assert code == 0
    lines = err.splitlines()
    assert all(line.startswith("dplateau: warning: delta 0.01 is at least 1/n") for line in lines)
    assert len(lines) == 1


def test_a_full_disk(process, table, tmp_path):
    """No file of the process can grow beyond 1,000 bytes."""
    code = (
        "import resource, sys; from dplateau.cli.main import status; import dplateau.estimators.table_model as t; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); sys.exit(status(sys.argv[1:]))"
    )
    done = process(
        *(
            "train",
            table / "rows.csv",
            "--schema",
            table / "schema.toml",
            "--epsilon",
            1,
            "--steps",
            5,
            "--output",
            tmp_path / "model",
        ),
        code=code,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "cannot be written: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_really_full(train, tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount")
    try:
        assert "cannot be written: less than 1 MB is free" in train("--steps", 5, output=disk / "model")
        monkeypatch.setattr("dplateau.files.ROOM", 0)  # it may also fill up in the meantime
        assert "cannot be written: No space left on device" in train("--steps", 5, output=disk / "model")
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(("blow", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_blow_while_training(table, tmp_path, blow, code):
    """The process tells when it trains, and listens to SIGINT even if the tests run in the background."""
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import dplateau.training.engine as engine; from dplateau.cli.main import run; old = engine.run_chunk\n"
        "def run_chunk(*a, **k):\n    print('training', flush=True)\n    return old(*a, **k)\n"
        "engine.run_chunk = run_chunk; run(sys.argv[1:])"
    )
    command = ["train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", "1", "--steps", "10000000"]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, command), "--output", str(tmp_path / "model")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    time.sleep(0.5)
    process.send_signal(blow)
    _, err = process.communicate(timeout=180)
    assert process.returncode == code, err
    assert err == ("dplateau: stopped.\n" if blow == signal.SIGINT else "")
    assert [one.name for one in tmp_path.iterdir()] == ([] if blow == signal.SIGINT else [".model.lock"])
    with claimed(tmp_path / "model"):  # what was left behind keeps nobody out
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_is_at_work_on_is_refused_before_it_is_charged(dplateau, train, table, tmp_path):
    at = ("--ledger", f"sqlite:///{table}/busy.db")
    assert dplateau("ledger", "create", "d", "--n", 2000, "--epsilon", 9, "--delta", 1e-6, *at)[0] == 0
    with claimed(tmp_path / "model"):
        assert "another process is at work on" in train(*at, "--dataset", "d")
    assert "100 % of the budget is left" in dplateau("ledger", "show", "d", *at)[1]


def test_a_name_that_is_too_long_is_refused_before_training(train, tmp_path):
    assert "File name too long" in train("--steps", 10**9, output=tmp_path / ("m" * 250))


def test_a_copy_of_the_private_file_is_no_public_one(train, table, tmp_path):
    copy = tmp_path / "copy.csv"
    shutil.copyfile(table / "rows.csv", copy)
    for same in (copy, table / "rows.csv"):
        assert "is the private file itself" in train("--test", same)
    assert "is a directory" in train("--test", tmp_path)
    assert "is read with --stream" in train(file=tmp_path)


@pytest.mark.parametrize(
    "address",
    ["s3://key:{0}@bucket/rows", "s3://key:{0}/+{0}@bucket/rows", "gs://bucket/rows?token={0}", "s3:key:{0}@bucket/rows"],
)
@pytest.mark.parametrize(
    "command",
    [
        ("train", "{address}", "--schema", "{schema}", "--epsilon", 1),
        ("train", "{rows}", "--schema", "{schema}", "--epsilon", 1, "--output", "{address}"),
        ("train", "{rows}", "--schema", "{address}", "--epsilon", 1),
        ("check", "{address}", "--schema", "{schema}"),
        ("report", "{address}"),
    ],
)
def test_keys_of_an_address_are_in_no_message(dplateau, table, tmp_path, monkeypatch, address, command):
    monkeypatch.chdir(tmp_path)
    known = {"address": address.format(SECRET), "schema": table / "schema.toml", "rows": table / "rows.csv"}
    code, out, err = dplateau(*(str(one).format(**known) for one in command))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "bucket/rows" in err
    assert SECRET not in err
    assert not list(tmp_path.iterdir())


def test_keys_of_an_address_are_in_no_name(dplateau, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bucket-model").mkdir()
    address = f"s3://key:{SECRET}@bucket?secret={SECRET}"
    assert "bucket-model exists already" in dplateau("train", address, "--schema", table / "schema.toml", "--epsilon", 1)[2]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no device that never ends")
@pytest.mark.parametrize(
    "command",
    [
        ("report", "/dev/zero"),
        ("account", "--run", "/dev/zero", "--delta", 1e-6),
        ("train", "rows.csv", "--schema", "/dev/zero", "--epsilon", 1),
    ],
)
def test_what_never_ends_is_one_line(dplateau, table, monkeypatch, command):
    monkeypatch.chdir(table)
    monkeypatch.setattr(files.read_whole, "__defaults__", (1_000,))
    monkeypatch.setattr(schema_file, "LARGEST", 1_000)
    code, out, err = dplateau(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "more than 1,000" in err
