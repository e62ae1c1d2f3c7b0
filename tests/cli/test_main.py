import os
import subprocess
import sys
import warnings
from importlib import import_module

import pytest

import dplateau as package
from dplateau.spec import InputError, PrivacyWarning

ACCOUNT = ("account", "--n", 10, "--sampling", "full", "--steps", 3, "--noise-multiplier", 5)
COMMANDS = ("train", "demo", "account", "calibrate", "schema")


def test_version(dplateau):
    assert dplateau("--version") == (0, f"dplateau {package.__version__}\n", "")


def test_help_without_arguments(dplateau):
    code, out, err = dplateau()
    assert (code, err) == (0, "")
    for word in (*COMMANDS, "--install-completion", "--show-completion", "Exit status"):
        assert word in out


def test_help_needs_nothing_that_trains(process):
    code = (
        "import sys; from dplateau.cli.main import status\n"
        f"for command in {COMMANDS}: assert status([command, '--help']) == 0\n"
        "print({'jax', 'sklearn', 'pyarrow', 'cryptography', 'scipy.stats'} & set(sys.modules), file=sys.stderr)"
    )
    done = process(code=code)
    assert (done.returncode, done.stderr) == (0, "set()\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal(dplateau, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = dplateau(command, "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80


def test_an_unknown_command_is_one_line(dplateau):
    assert dplateau("magic") == (2, "", "dplateau: No such command 'magic'. Try 'dplateau --help'.\n")


def test_an_interrupt_is_one_line(dplateau, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("dplateau._account"), "account", interrupted)
    code, out, err = dplateau(*ACCOUNT)
    assert (code, out) == (130, "")
    assert err == "dplateau: stopped.\n"


def test_a_warning_holds_nothing_that_a_terminal_obeys(dplateau, monkeypatch):
    def account(*_):
        warnings.warn("the folder \x1b[2Jx", PrivacyWarning, stacklevel=1)
        raise InputError("and so on.")

    monkeypatch.setattr(import_module("dplateau._account"), "account", account)
    code, _, err = dplateau(*ACCOUNT)
    assert (code, err) == (2, "dplateau: warning: the folder ?[2Jx\ndplateau: and so on.\n")


def test_a_bug_is_no_bad_input(dplateau, monkeypatch):
    quoted = f"a row of [{10**6 + 1}]"

    def broken(*_, **__):
        raise ZeroDivisionError(quoted)

    monkeypatch.setattr(import_module("dplateau._account"), "account", broken)
    code, out, err = dplateau(*ACCOUNT)
    assert (code, out) == (1, "")
    assert err.endswith("dplateau: ZeroDivisionError, a bug in dplateau: please report the lines above.\n")
    assert "in broken" in err  # where it happened
    assert "1000001" not in err


def test_no_option_is_given_twice(dplateau, tmp_path):
    assert dplateau(*ACCOUNT, "--n", 7) == (2, "", "dplateau: --n is given 2 times: give it once.\n")
    for command in (("train", "rows.csv", "--schema", "adult"), ("calibrate", "--run", "a.json")):
        code, out, err = dplateau(*command, "--epsilon", 1, "--epsilon", 5)
        assert (code, out, err) == (2, "", "dplateau: --epsilon is given 2 times: give it once.\n")
    code, _, err = dplateau("calibrate", "--epsilon", 1, "--run", "a.json", "--run", "b.json")
    assert (code, err) == (2, "dplateau: --run is given 2 times: give it once.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_one_line():
    with open("/dev/full", "w") as full:
        start = [sys.executable, "-c", "from dplateau.cli.main import run; run()"]
        done = subprocess.run([*start, *map(str, ACCOUNT)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "dplateau: No space left on device\n"


def test_completion_knows_commands_and_values(process):
    def completed(words: str) -> str:
        count = len(words.split(" ")) - 1
        return process(env={"_DPLATEAU_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}).stdout

    assert "calibrate" in completed("dplateau cal")
    assert "one-pass" in completed("dplateau account --sampling one")
