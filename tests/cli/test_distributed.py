"""``dplateau train --distributed``: two terminals, one model, and one clear line for whatever goes wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dplateau import load_model
from dplateau.certificate import read_certificate
from dplateau.ledger import Ledger

SCHEMA = """
[columns.a]
type = "number"
low = 0
high = 10

[columns.b]
type = "number"
low = 0
high = 10

[columns.won]
type = "target"
classes = ["no", "yes"]
"""
N = (700, 900)
PERSONS = 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of two processes, a public one, and two schemas."""
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    (folder / "my.toml").write_text(SCHEMA)
    (folder / "other.toml").write_text(SCHEMA.replace("high = 10", "high = 9", 1))
    for name, n in zip(("part-0", "part-1", "public"), (*N, 300), strict=True):
        rows = rng.uniform(0, 10, (n, 2))
        won = np.where(rows[:, 0] > rows[:, 1], "yes", "no")
        lines = [f"{a:.3f},{b:.3f},{c}" for (a, b), c in zip(rows, won, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,won", *lines]) + "\n")
        whose = [f"{name}-{who},{line}" for who, line in zip(np.sort(rng.integers(0, PERSONS, n)), lines, strict=True)]
        (folder / f"persons-{name[-1]}.csv").write_text("\n".join(["who,a,b,won", *whose]) + "\n")
    twice = (folder / "persons-1.csv").read_text().replace("part-1-7,", "part-0-7,")
    (folder / "twice-0.csv").write_text((folder / "persons-0.csv").read_text())
    (folder / "twice-1.csv").write_text(twice)
    return folder


@pytest.fixture
def start(folder):
    """Start both processes with the same arguments, each followed by its own; they are ended with the test."""
    running = []

    def call(*arguments, file="part-{process}.csv", own=((), ()), port=None):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = port or found.getsockname()[1]
        for index in (0, 1):
            where = ["--distributed", "--coordinator", f"127.0.0.1:{port}", "--process-id", index]
            where += [] if "--processes" in own[index] else ["--processes", 2]
            schema = [] if "--schema" in own[index] else ["--schema", "my.toml"]
            command = [sys.executable, "-m", "dplateau", "train", file, *schema, "--epsilon", 1, *where, *arguments, *own[index]]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            running.append(subprocess.Popen([*map(str, command)], cwd=folder, **pipes))
            running[-1].port = port
        return running

    yield call
    for one in running:
        one.kill()
        one.communicate()


def ended(running):
    """Status, output and errors of each."""
    with ThreadPoolExecutor() as readers:
        said = list(readers.map(lambda one: one.communicate(timeout=180), running))
    return [(one.returncode, *texts) for one, texts in zip(running, said, strict=True)]


def connected(port):
    """Wait until both processes have reached the coordinator; before that, a process waits for the others for minutes."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
        if sum(int(row[2].split(":")[1], 16) == port and row[3] == "01" for row in rows) >= 2:
            return
        time.sleep(0.1)
    raise AssertionError("the processes did not connect")


def test_a_port_that_is_taken_is_one_line(start, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first, _ = start(port=taken.getsockname()[1])
        assert first.wait(timeout=180) == 2
        port = taken.getsockname()[1]
        said = f"dplateau: process 0 cannot use port {port} of this machine (Address already in use): give another one.\n"
        assert first.communicate()[1] == said


def test_a_process_that_waits_for_others_hears_ctrl_c(start, folder):
    """Nothing has begun; without it, a process waits five minutes for the others."""
    first, other = start()
    other.kill()
    end = time.monotonic() + 120
    while f":{first.port:04X} " not in "".join(Path(f"/proc/net/{one}").read_text() for one in ("tcp", "tcp6")):
        assert time.monotonic() < end
        time.sleep(0.1)
    time.sleep(0.5)
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=180) == 130
    assert first.communicate()[1] == "dplateau: stopped.\n"


def test_two_terminals_train_one_model(start, folder, tmp_path):
    first, second = ended(start("--output", tmp_path / "model", "--json", own=(("--test", "public.csv"), ())))
    assert (first[0], first[2]) == (0, "")
    assert second == (0, "", "")
    found = json.loads(first[1])
    assert found["test_accuracy"] > 0.8
    certificate = read_certificate(tmp_path / "model" / "certificate.json")
    assert certificate.run.n == sum(N)
    assert certificate.epsilon <= 1
    assert certificate.certifies
    (trusted,) = (one for one in certificate.assumptions if one.name == "processes")
    assert trusted.count == 2
    assert "exchange sums without noise" in trusted.statement
    assert load_model(tmp_path / "model").accuracy(folder / "public.csv") == found["test_accuracy"]


@pytest.mark.parametrize(
    ("arguments", "sampling"),
    [
        (("--stream",), "one-pass"),
        (("--stream", "--solver", "noisy-sgd", "--steps", 40), "random-allocation"),
        (("--solver", "pnsgd"), "one-pass"),
    ],
    ids=["one pass", "several passes", "one pass in memory"],
)
def test_files_of_any_lengths_train_one_model_in_pieces(start, tmp_path, arguments, sampling):
    first, second = ended(start("--output", tmp_path / "model", "--json", *arguments, own=(("--test", "public.csv"), ())))
    assert (first[0], first[2]) == (0, "")
    assert second == (0, "", "")
    assert json.loads(first[1])["test_accuracy"] > 0.8
    certificate = read_certificate(tmp_path / "model" / "certificate.json")
    assert (certificate.run.n, certificate.run.sampling.kind) == (sum(N), sampling)
    assert certificate.epsilon <= 1
    assert certificate.certifies
    assert any(one.name == "processes" and one.count == 2 for one in certificate.assumptions)


@pytest.mark.parametrize(
    ("arguments", "sampling"),
    [
        ((), "full"),
        (("--stream",), "one-pass"),
        (("--stream", "--solver", "noisy-sgd", "--steps", 40), "random-allocation"),
        (("--solver", "pnsgd"), "one-pass"),
    ],
    ids=["in memory", "one pass", "several passes", "one pass in memory"],
)
def test_persons_of_two_files_train_one_model(start, folder, tmp_path, arguments, sampling):
    n = sum(len({line.split(",")[0] for line in (folder / f"persons-{i}.csv").read_text().splitlines()[1:]}) for i in (0, 1))
    options = ("--person", "who", "--rows", n, "--output", tmp_path / "model", "--json", *arguments)
    first, second = ended(start(*options, file="persons-{process}.csv", own=(("--test", "public.csv"), ())))
    assert (first[0], second) == (0, (0, "", "")), first
    certificate = read_certificate(tmp_path / "model" / "certificate.json")
    assert (certificate.run.n, certificate.run.unit, certificate.run.sampling.kind) == (n, "person", sampling)
    assert certificate.epsilon <= 1
    assert certificate.certifies
    assert {"processes", "persons"} <= {one.name for one in certificate.assumptions}


@pytest.mark.parametrize("arguments", [(), ("--stream",), ("--stream", "--solver", "noisy-sgd")], ids=["memory", "pass", "epochs"])
def test_a_person_in_two_files_is_refused(start, tmp_path, arguments):
    options = ("--person", "who", "--output", tmp_path / "model", *arguments)
    for code, out, err in ended(start(*options, file="twice-{process}.csv")):
        assert (code, out, err.splitlines()[-1].count("some person has rows in two processes")) == (2, "", 1)
    assert not (tmp_path / "model").exists()


def test_a_private_test_of_two_files(start, folder, tmp_path):
    """Each tells how it predicts its own rows that were held out; process 0 alone adds the noise."""
    first, second = ended(start("--private-test", 0.25, "--output", tmp_path / "model", "--json"))
    assert (first[0], first[2], second) == (0, "", (0, "", ""))
    said = json.loads(first[1])["private_test"]
    model = load_model(tmp_path / "model")
    test = model.private_test
    assert test.rows == said["rows"] == 400
    assert model.certificate.run.n == sum(N) - 400
    assert abs(test.counts.sum() - 400) < 6.5 * test.deviation * np.sqrt(test.counts.size)
    right, noise = test.estimates["accuracy"], 2 * test.deviation / 400 * np.sqrt(test.counts.size)
    assert abs(right.value - model.accuracy(folder / "public.csv")) < 3 * noise + 0.15
    for certificate in (model.certificate, test.certificate):
        assert certificate.certifies
        assert certificate.epsilon <= 1
        assert {one.count for one in certificate.assumptions if one.name == "processes"} == {2}


@pytest.mark.parametrize("whose", [0, 1])
def test_a_private_file_of_any_process_is_no_public_one(start, tmp_path, whose):
    said = ended(start("--output", tmp_path / "model", own=(("--test", f"part-{whose}.csv"), ())))
    for code, out, err in said:
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "and its accuracy would be printed" in err
    assert not (tmp_path / "model").exists()


def test_a_ledger_of_process_1_alone_is_refused(start, tmp_path):
    ledger = ("--ledger", f"sqlite:///{tmp_path / 'ledger.db'}", "--dataset", "visits")
    for code, out, err in ended(start("--output", tmp_path / "model", own=((), ledger))):
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "process 1 has a ledger and process 0, which charges it, has none" in err


def test_one_file_for_two_processes_is_refused(start, tmp_path):
    for code, _, err in ended(start("--stream", "--output", tmp_path / "model", file="part-1.csv")):
        assert (code, err.count("\n")) == (2, 1)
        assert "two processes have the same rows" in err
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads who is connected from /proc")
@pytest.mark.parametrize(
    ("killed", "how"), [(0, ()), (1, ()), (1, ("--stream", "--solver", "noisy-sgd"))], ids=["0", "1", "1 of a stream"]
)
def test_a_process_that_is_killed_ends_the_other_with_one_line(start, tmp_path, killed, how):
    running = start("--output", tmp_path / "model", "--steps", 5_000_000, *how)
    connected(running[0].port)
    time.sleep(np.random.default_rng(os.getpid() + killed).uniform(1, 6))  # while they read, plan, compile or train
    assert [one.poll() for one in running] == [None, None]
    os.kill(running[killed].pid, signal.SIGKILL)
    begin = time.monotonic()
    out, err = running[1 - killed].communicate(timeout=60)
    assert time.monotonic() - begin < 60
    assert running[1 - killed].returncode == 1
    assert out == ""
    assert err.count("\n") == 1
    assert "another process ended, or cannot be reached: nothing was released" in err
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "own", "words"),
    [
        ((), ((), ("--l2", 0.1)), "process 1 has another argument"),
        ((), ((), ("--schema", "other.toml")), "process 1 has another schema"),
        ((), ((), ("--stream",)), "process 1 has another"),
        (("--stream", "--solver", "snowball-sgd"), ((), ()), "solver 'snowball-sgd' trains on one process"),
        (("--stream", "--rows", 1700), ((), ()), "the files have 700, 900 rows, 1,600 in all"),
        (("--rows", 1700), ((), ()), "the files have 700, 900 rows, 1,600 in all"),
        ((), ((), ("--processes", 3)), "the processes were told of [2, 3] processes in all"),
        ((), (("--person", "a"), ()), "process 1 has another column of persons"),
        ((), (("--private-test", 0.1), ()), "process 1 has another private test"),
        (("--private-test", 0.1, "--stream"), ((), ()), "private_test does not go with a stream"),
        (("--private-test", 0.1, "--person", "a"), ((), ()), "private_test does not go with a person's column"),
        (("--private-test", 0.7), ((), ()), "private_test"),
    ],
    ids=[
        "argument",
        "schema",
        "one stream",
        "solver",
        "rows of streams",
        "rows",
        "number",
        "persons",
        "test",
        "test of streams",
        "test of persons",
        "share",
    ],
)
def test_what_does_not_fit_is_one_line_in_both(start, tmp_path, arguments, own, words):
    for code, out, err in ended(start("--output", tmp_path / "model", *arguments, own=own)):
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("budget", [1.5, 0.5])
def test_process_0_alone_charges_the_ledger(start, tmp_path, budget):
    pytest.importorskip("sqlalchemy")
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.create("visits", n=sum(N), epsilon=budget, delta=1e-5)
    # Process 1 cannot reach the ledger.
    own = [("--ledger", url, "--dataset", "visits") for url in (ledger.url, "sqlite:////nowhere/ledger.db")]
    first, second = ended(start("--output", tmp_path / "model", own=own))
    kinds = [entry.kind for entry in ledger.entries("visits")]
    if budget > 1:
        assert (first[0], second) == (0, (0, "", ""))
        assert kinds == ["opened", "reserved", "committed"]
        return
    assert (first[:2], second[:2], kinds) == ((2, ""), (2, ""), ["opened"])
    assert "nothing was reserved" in first[2]
    assert second[2].startswith("dplateau: process 0: ")
    assert not (tmp_path / "model").exists()


def test_what_the_options_need(dplateau, folder):
    code, _, err = dplateau("train", folder / "part-0.csv", "--schema", folder / "my.toml", "--epsilon", 1, "--processes", 2)
    assert code == 2
    assert "--coordinator, --processes and --process-id are for --distributed" in err
