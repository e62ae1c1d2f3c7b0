"""More than 200 bad inputs, of every command that reads a file or a number: one line, exit status 2, nothing on standard output."""

import gzip
from itertools import product

import pytest

SECRET = "secret73.125"
HEADER, ROW = "age,colour,ill", "20,red,no"
FILES = {
    "missing": None,
    "folder": "folder",
    "empty": b"",
    "blank lines": b"\n\n\n",
    "header alone": f"{HEADER}\n".encode(),
    "zeros": bytes(64),
    "random": bytes(range(256)) * 4,
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "packed by halves": gzip.compress(f"{HEADER}\n{ROW}\n".encode() * 50)[:30],
    "other encoding": f"{HEADER}\n20,r\xe9d,no\n".encode("latin-1"),
    "half of utf-16": f"{HEADER}\n{ROW}\n".encode("utf-16")[:-1],
    "open quote": f'{HEADER}\n20,"red,no\n'.encode(),
    "too many fields": f"{HEADER}\n{ROW},{SECRET}\n".encode(),
    "other columns": f"a,b,c\n{ROW}\n".encode(),
    "one name twice": f"age,age,ill\n{ROW}\n".encode(),
    "text in a number": f"{HEADER}\n{SECRET},red,no\n".encode(),
    "html": b"<!doctype html><html><body>404</body></html>",
}
READ = {
    "train": ("{file}", "--schema", "{schema}", "--epsilon", 1, "--output", "{new}"),
    "train --stream": ("{file}", "--schema", "{schema}", "--epsilon", 1, "--output", "{new}", "--stream"),
    "predict": ("{model}", "{file}", "--output", "{new}.csv"),
    "evaluate": ("{model}", "{file}"),
    "account --run": ("--run", "{file}", "--delta", 1e-6),
    "report": ("{file}", "--output", "{new}.html"),
    "sign": ("{file}", "--key", "nobody"),
    "train --schema": ("{rows}", "--schema", "{file}", "--epsilon", 1, "--output", "{new}"),
    "schema": ("{file}",),
    "check": ("{file}", "--schema", "{schema}"),
}
FINE = {  # An encoding is guessed or declared, and what a file holds is what schema and check are asked about.
    *product(
        ("schema", "check"), ("header alone", "other encoding", "too many fields", "text in a number", "other columns", "html")
    ),
    *product(("predict",), ("header alone",)),
}
NUMBERS = ("nan", "inf", "-1", "0", "many", "", "1e999", "--")
OPTIONS = {
    "train": ("--epsilon", "--delta", "--steps", "--rows", "--l2", "--private-test", "--insecure-seed"),
    "plan": ("--n", "--d", "--epsilon", "--delta", "--classes", "--l2", "--steps"),
    "account": ("--n", "--steps", "--batch-size", "--noise-multiplier", "--delta", "--clip-norm"),
    "calibrate": ("--n", "--steps", "--batch-size", "--epsilon", "--delta"),
}
GIVEN = {
    "train": {"": "{rows}", "--schema": "{schema}", "--epsilon": 1, "--output": "{new}"},
    "plan": {"--n": 1000, "--d": 10, "--epsilon": 1},
    "account": {"--n": 1000, "--steps": 10, "--batch-size": 10, "--noise-multiplier": 1, "--delta": 1e-5},
    "calibrate": {"--n": 1000, "--steps": 10, "--batch-size": 10, "--epsilon": 1, "--delta": 1e-5},
}
ALLOWED = {("train", "--l2", "0"), ("train", "--insecure-seed", "0"), ("plan", "--l2", "0"), ("train", "--insecure-seed", "-1")}


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    from dplateau.cli.main import status

    folder = tmp_path_factory.mktemp("model") / "model"
    train = ["train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1, "--steps", 2, "--output", folder]
    assert status([str(one) for one in train]) == 0
    return folder


@pytest.fixture
def refused(dplateau, table, tmp_path):
    """Run a command that must be refused, and leave nothing behind."""

    def call(command, arguments, **places):
        places = {"rows": table / "rows.csv", "schema": table / "schema.toml", "new": tmp_path / "new", **places}
        before = sorted(tmp_path.iterdir())
        code, out, err = dplateau(command, *(str(one).format(**places) for one in arguments))
        lines = [line for line in err.splitlines() if not line.startswith("dplateau: warning: ")]
        assert (code, out, len(lines)) == (2, "", 1), err
        assert lines[0].startswith("dplateau: ")
        assert len(lines[0]) > 25, "says too little"
        assert SECRET not in err
        assert "Traceback" not in err
        assert sorted(tmp_path.iterdir()) == before

    return call


CASES = [one for one in product(READ, FILES) if one not in FINE]


@pytest.mark.parametrize(("command", "name"), CASES, ids=lambda one: str(one).replace(" ", "-"))
def test_bad_files(refused, model, tmp_path, command, name):
    path = tmp_path / "rows.csv"
    content = FILES[name]
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    refused(command.partition(" ")[0], READ[command], file=path, model=model)


NUMBERED = [
    (command, option, number)
    for command, options in OPTIONS.items()
    for option, number in product(options, NUMBERS)
    if (command, option, number) not in ALLOWED
]


@pytest.mark.parametrize(("command", "option", "number"), NUMBERED)
def test_bad_numbers(refused, command, option, number):
    given = {**GIVEN[command], option: number}
    refused(command, [part for name, value in given.items() for part in (name, value) if part != "" or name])


def test_there_are_more_than_200():
    assert len(CASES) + len(NUMBERED) > 300
