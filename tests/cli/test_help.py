"""What ``--help`` of every command says, and how it looks."""

import re
import shlex

import pytest
from typer.main import get_command

from dplateau.cli.main import app

GROUP = get_command(app)
COMMANDS = {"": GROUP}
for outer, found in GROUP.commands.items():
    COMMANDS[outer] = found
    COMMANDS |= {f"{outer} {inner}": one for inner, one in getattr(found, "commands", {}).items()}


@pytest.fixture(params=COMMANDS, ids=lambda name: name.replace(" ", "-") or "dplateau")
def name(request):
    return request.param


@pytest.fixture
def shown(dplateau, name, monkeypatch):
    def call(columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = dplateau(*name.split(), "--help")
        assert (code, err) == (0, "")
        return out

    return call


@pytest.mark.parametrize(("columns", "width"), [(80, 80), (120, 100), (60, 60), (20, 60)])
def test_it_fits(shown, columns, width):
    assert max(map(len, shown(columns).splitlines())) <= width
    assert all(line == line.rstrip() for line in shown(columns).splitlines())


def test_it_has_the_words_whatever_the_width(shown):
    wide, narrow = (re.sub(r"[\s\\]+", " ", shown(columns)) for columns in (100, 60))
    assert wide == narrow


def test_every_value_has_a_name_of_its_own(shown, name):
    """And not that of a type, which says nothing; flags have none."""
    text = shown()
    assert not re.search(r"<\w+>|\[bold\]|\[/\]|\bTEXT\b(?<!--purpose TEXT)(?<!--n-is TEXT)|INTEGER|FLOAT|PATH\b", text)
    for param in COMMANDS[name].params:
        if param.param_type_name == "argument":
            assert param.metavar.isupper()
        elif getattr(param, "is_flag", False) or "completion" in param.name:
            assert not param.metavar
        else:
            assert re.search(rf"{param.opts[0]}[, \w-]* {re.escape(param.metavar)}\s", text)


def test_every_option_is_listed_once_and_explained(shown, name):
    rows = re.findall(r"^  (-.*?)(?:  +|\n +)(\S.*)$", shown(), flags=re.M)
    flags = [flag for left, _ in rows for flag in re.findall(r"--[\w-]+", left)]
    params = COMMANDS[name].get_params(COMMANDS[name].make_context("x", [], resilient_parsing=True))
    wanted = {flag for one in params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("--")}
    assert sorted(flags) == sorted(wanted)
    assert all(help for _, help in rows)


def test_headings_and_commands(dplateau):
    _, out, _ = dplateau("--help")
    assert re.findall(r"^(\S.*):$", out, flags=re.M) == [
        "Models",
        "Certificates",
        "What privacy costs, without data",
        "Files of rows",
        "Tests of the bounds",
        "Keys and ledgers",
        "Options",
    ]
    assert all(re.search(rf"^  {name}  ", out, flags=re.M) for name in COMMANDS if name and " " not in name)


def test_defaults_and_what_is_required(dplateau):
    _, out, _ = dplateau("train", "--help")
    text = " ".join(out.split())
    for part in (
        "Usage: dplateau train [OPTIONS] FILE",
        "--epsilon NUMBER What the model may cost, at most. (required)",
        "which some solvers need. (default: 0)",
        "more cost time, not privacy. (default: 400)",
        "-o, --output FOLDER New folder for the model (default: FILE-model).",
        "--json Print JSON and nothing else. Options:",
    ):
        assert part in text
    _, out, _ = dplateau("schema", "--help")
    assert "--header, --no-header" in out
    assert "(default: --header)" in " ".join(out.split())
    _, out, _ = dplateau("reproduce", "--help")
    assert "Usage: dplateau reproduce [OPTIONS] [NAME]\n" in out


def examples(text: str) -> list[list[str]]:
    """The command lines in a help, as a shell would read them."""
    lines = re.findall(r"^  (dplateau .*(?:\\\n.*)*)", text.replace(" \\\n", " "), flags=re.M)
    return [shlex.split(line.partition("|")[0])[1:] for line in lines]


def test_examples_can_be_copied(shown, name, monkeypatch, tmp_path):
    """Every option in them exists and takes its value, and none is missing; files that they name are there."""
    monkeypatch.chdir(tmp_path)
    found = examples(shown())
    for first, *rest in found:
        command = GROUP.commands[first]
        if rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        for part in rest:
            if not part.startswith("-") and "://" not in part:
                (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / part).touch()
        command.make_context(first, list(rest))
    plain = {"", "keys", "ledger", "demo", *(one for one in COMMANDS if " " in one and one != "ledger create")}
    assert found or name in plain


def test_examples_are_told_apart():
    assert examples("For example:\n\n  dplateau plan --n 1 \\\n      --d 2\n\n  dplateau predict a b | head\n") == [
        ["plan", "--n", "1", "--d", "2"],
        ["predict", "a", "b"],
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("trian", "No such command 'trian'. Did you mean 'train'? Try 'dplateau --help'."),
        ("ledger creat", "No such command 'creat'. Did you mean 'create'? Try 'dplateau ledger --help'."),
        ("xyzzy", "No such command 'xyzzy'. Try 'dplateau --help'."),
        ("train", "Missing argument 'FILE'. Try 'dplateau train --help'."),
        ("train .", "Missing option '--schema'. Try 'dplateau train --help'."),
        ("train . --epsilonn 3", "No such option: --epsilonn. Did you mean --epsilon? Try 'dplateau train --help'."),
        ("account --bach-size 3", "No such option: --bach-size. Did you mean --batch-size? Try 'dplateau account --help'."),
        ("account --noise 3", "No such option: --noise. Did you mean --noise-multiplier? Try 'dplateau account --help'."),
        ("train . --seed 3", "No such option: --seed. Did you mean --insecure-seed? Try 'dplateau train --help'."),
        ("account --eps 3", "No such option: --eps. Try 'dplateau account --help'."),
        ("account --lr 3", "No such option: --lr. Try 'dplateau account --help'."),
        ("account --xyzzy", "No such option: --xyzzy. Try 'dplateau account --help'."),
        ("account --n", "Option '--n' requires an argument. Try 'dplateau account --help'."),
        ("account --n 3.5", "Invalid value for '--n': expected a whole number. Try 'dplateau account --help'."),
        ("account --delta many", "Invalid value for '--delta': expected a number. Try 'dplateau account --help'."),
        ("account --json=3", "Option '--json' does not take a value. Try 'dplateau account --help'."),
        (
            "account --sampling all",
            "--sampling is 'all': expected one of poisson, fixed-size, random-allocation, cyclic, shuffled, ",
        ),
        ("train . --schema adult --epsilon 1 --model svm", "--model is 'svm': expected one of logistic, svc, linear."),
        ("train nowhere.csv --schema adult --epsilon 1", "nowhere.csv: there is no such file. Check the path."),
        ("account --run nowhere.json", "nowhere.json: there is no such file. Check the path."),
        ("predict nowhere rows.csv", "nowhere: there is no such file. Check the path."),
    ],
)
def test_what_is_mistyped_is_one_clear_line(dplateau, arguments, said):
    code, out, err = dplateau(*arguments.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"dplateau: {said}")
