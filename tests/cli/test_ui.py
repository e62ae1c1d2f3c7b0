"""``dplateau ui``."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

START = "from dplateau.cli.main import run; run()"


def test_a_port_in_use_is_one_clear_line(dplateau):
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = dplateau("ui", "--port", port, "--no-browser")
    assert (code, out) == (2, "")
    remedy = "stop the program that uses it, or choose another --port (0 for any free port)"
    assert err == f"dplateau: port {port} is in use: {remedy}.\n"


@pytest.mark.parametrize("port", [-1, 65536])
def test_wrong_ports_are_told(dplateau, port):
    code, _, err = dplateau("ui", "--port", port, "--no-browser")
    assert code == 2
    assert "expected a number from 0 to 65535" in err


def test_it_cannot_be_offered_to_other_computers(dplateau):
    code, _, err = dplateau("ui", "--host", "0.0.0.0")
    assert code == 2
    assert "--host" in err


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_extra_is_told(dplateau, monkeypatch, missing):
    for name in [name for name in sys.modules if name.split(".")[0] == missing or name == "dplateau.ui.app"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    code, out, err = dplateau("ui", "--no-browser")
    assert (code, out) == (2, "")
    assert err == f"dplateau: this needs {missing}: python -m pip install '.[ui]', in a copy of dplateau's source.\n"


def test_it_serves_this_computer_only_and_ends_with_the_keyboard():
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-c", START, "ui", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            line = process.stdout.readline()
            address = line.split()[4]
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=180) as reply:
                assert b"How much noise" in reply.read()
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=180)
    assert (process.returncode, out, err) == (0, "", "")


def test_it_serves_a_ledger(tmp_path):
    pytest.importorskip("uvicorn")
    pytest.importorskip("sqlalchemy")
    import dplateau as dp

    url = f"sqlite:///{tmp_path}/privacy.db"
    dp.Ledger(url).create("patients", n=1000, epsilon=2.0, delta=1e-6)
    command = [sys.executable, "-c", START, "ui", "--port", "0", "--no-browser", "--ledger", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            address = process.stdout.readline().split()[9]
            assert address.endswith("/ledger")
            with urllib.request.urlopen(f"{address}/patients", timeout=180) as reply:
                assert "100\N{NO-BREAK SPACE}% of the budget is left" in reply.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=180)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("url", "said"),
    [("sqlite:///{0}/none.db", "there is no ledger at"), ("privacy.db", "not a database address"), ("mysql://x", "not in mysql")],
)
def test_a_ledger_that_is_not_there_is_told_at_once(dplateau, tmp_path, url, said):
    pytest.importorskip("uvicorn")
    pytest.importorskip("sqlalchemy")
    code, out, err = dplateau("ui", "--no-browser", "--port", 0, "--ledger", url.format(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_the_environment_does_not_show_a_ledger():
    """Other users of this computer reach the page: what it shows is asked for by name."""
    from typer.main import get_command

    from dplateau.cli.main import app

    option = next(one for one in get_command(app).commands["ui"].params if one.name == "ledger")
    assert option.envvar is None


def test_jax_is_not_loaded(process):
    pytest.importorskip("starlette")
    code = "import sys, dplateau.ui.app, dplateau.ui.answer; dplateau.ui.answer.warm_up(); print('jax' in sys.modules)"
    assert process(code=code).stdout == "False\n"
