"""Ctrl-C at any moment, readers that go, and what a command line loads: in processes of their own, without a clock."""

import os
import subprocess
import sys

import pytest

ACCOUNT = ("account", "--n", "600", "--batch-size", "6", "--steps", "10", "--noise-multiplier", "1.3")
START = "from dplateau.__main__ import main; main()"
BLOW = f"""
import os, signal, sys
module = sys.argv.pop(1)
class Blow:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the tests run in the background
sys.meta_path.insert(0, Blow())
{START}
"""
"""Runs the command line, and sends itself SIGINT where the module that is named first is imported."""


@pytest.fixture
def train(table, tmp_path):
    where = ("--schema", str(table / "schema.toml"), "--output", str(tmp_path / "model"))
    return ("train", str(table / "rows.csv"), *where, "--steps", "2", "--epsilon")


@pytest.mark.parametrize(
    ("module", "command"),
    [
        *((module, ("--help",)) for module in ("dplateau.cli.main", "typer", "typer.core", "dplateau.cli.train", "textwrap")),
        *((module, ACCOUNT) for module in ("dplateau.spec.run", "numpy", "scipy.special", "dplateau.report.text", "rich.table")),
        *((module, ()) for module in ("dplateau.data", "numpy", "jax", "sklearn", "dplateau.estimators.table_model")),
    ],
)
def test_ctrl_c_while_a_module_is_imported(module, command, train, tmp_path):
    arguments = [sys.executable, "-c", BLOW, module, *(command or (*train, "1"))]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dplateau: stopped.\n")
    assert list(tmp_path.iterdir()) == []


AN_ERROR = """
def account(*_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise ImportError("a module of C") from None
"""
IN_A_DESTRUCTOR = """
class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
def account(*_):
    Last()
    time.sleep(60)
"""


@pytest.mark.parametrize("account", [AN_ERROR, IN_A_DESTRUCTOR], ids=["made-an-error", "in-a-destructor"])
def test_no_ctrl_c_is_lost(process, account):
    """Neither one that a library makes an error of, nor one where nothing can be raised."""
    code = (
        "import os, signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"import dplateau._account as home; from dplateau.cli.main import run{account}"
        f"home.account = account; run({list(ACCOUNT)!r})"
    )
    done = process(code=code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dplateau: stopped.\n")


def test_what_ignores_ctrl_c_goes_on_ignoring_it(process):
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import dplateau._account as home; from dplateau.__main__ import main; old = home.account\n"
        "def account(*given):\n    os.kill(os.getpid(), signal.SIGINT)\n    return old(*given)\n"
        "home.account = account; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *ACCOUNT], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("epsilon ")


def unread(*arguments: str) -> tuple[int, str]:
    """Run a command line whose output and errors go into a pipe that nobody reads any more; and what it said elsewhere."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-X", "faulthandler", "-c", START, *arguments]
    with os.fdopen(writing, "w") as pipe:
        out = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=120)
        err = subprocess.run(command, stdout=subprocess.PIPE, stderr=pipe, text=True, timeout=120)
    assert err.returncode == out.returncode
    return out.returncode, out.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
@pytest.mark.parametrize("command", [("--help",), ("train", "--help"), ("--version",), ACCOUNT, (*ACCOUNT, "--json")])
def test_nobody_reads_the_output(command):
    assert unread(*command) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
def test_nobody_reads_the_output_and_the_exit_status_stays():
    code, said = unread(*ACCOUNT[:-2])
    assert (code, len(said.splitlines())) == (2, 1)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
@pytest.mark.parametrize("broken", ["stdout", "stderr", "both"])
def test_a_training_that_nobody_reads_is_written(train, tmp_path, broken):
    """With epsilon 20 there is a warning before the rows are used, into a pipe that is broken already."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        streams = {name: pipe if broken in (name, "both") else subprocess.PIPE for name in ("stdout", "stderr")}
        done = subprocess.run([sys.executable, "-c", START, *train, "20"], text=True, timeout=120, **streams)
    assert done.returncode == 0
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "certificate.json", "model.json", "schema.toml", "weights.npz",
    ]  # fmt: skip
    assert broken != "stdout" or (len(done.stderr.splitlines()) == 1 and "promises little" in done.stderr)


def test_a_pipe_gets_what_the_locale_cannot_say(tmp_path):
    (tmp_path / "rows.csv").write_text("größe,☃\n1,2\n3,4\n", encoding="utf-8")
    command = [sys.executable, "-c", START, "schema", str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert '[columns."größe"]' in done.stdout.decode()


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_output_is_no_error(closed):
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", START, *ACCOUNT], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_of_one_line_gets_it():
    command = [sys.executable, "-c", START, *ACCOUNT, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait() == 0


HEAVY = {"numpy", "scipy", "jax", "sklearn", "pyarrow", "rich", "cryptography", "sqlalchemy", "jinja2"}


def test_no_help_needs_more_than_the_parser(process):
    code = (
        "import sys; from dplateau.cli.main import app, status; from typer.main import get_command\n"
        "assert status(['--version']) == 0 and status(['--help']) == 0\n"
        "for name, one in get_command(app).commands.items():\n"
        "    assert status([name, '--help']) == 0\n"
        "    for inner in getattr(one, 'commands', ()): assert status([name, inner, '--help']) == 0\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = process(code=code)
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert done.stdout.count("Usage: dplateau") > 25


TRAIN = ("train", "{empty}", "--schema", "{schema}", "--epsilon")


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        (("acount",), set()),
        (("train", "rows.csv", "--epsilonn", "1"), set()),
        (("account", "--n", "many"), set()),
        (("train", "nowhere.csv", "--schema", "{schema}", "--epsilon", "1"), set()),
        (("account", "--run", "nowhere.json"), set()),
        (("predict", "nowhere", "{empty}"), set()),
        ((*TRAIN, "1", "--solver", "none"), set()),
        ((*TRAIN, "-1"), {"numpy"}),
        ((*TRAIN, "1"), {"numpy"}),
        (("train", "{schema}", "--schema", "{empty}", "--epsilon", "1"), {"numpy"}),
        (("account", "--n", "10", "--steps", "5"), {"numpy"}),
        (("calibrate", *ACCOUNT[1:-2], "--epsilon", "0"), {"numpy"}),
        (("plan", "--n", "10", "--d", "3", "--epsilon", "0"), {"numpy"}),
    ],
)
def test_what_is_wrong_by_itself_is_told_before_the_rest_is_loaded(process, table, tmp_path, command, needs):
    (tmp_path / "empty").touch()
    arguments = [part.format(empty=tmp_path / "empty", schema=table / "schema.toml") for part in command]
    code = (
        f"import sys; from dplateau.cli.main import status; assert status({arguments!r}) == 2\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = process(code=code)
    assert done.stdout == f"{sorted(needs)}\n", done.stderr
    assert done.stderr.count("\n") == 1
