import gzip
import json
import os

import pytest

ROWS = "age,colour,ill\n50,Red,no\n200,blue,yes\n,red,no\n"


@pytest.fixture
def check(dplateau, table, tmp_path):
    def check(text, *options):
        (tmp_path / "rows.csv").write_text(text)
        found = dplateau("check", tmp_path / "rows.csv", "--schema", table / "schema.toml", *options)
        assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]  # nothing is written
        return found

    return check


def test_it_says_first_whom_it_is_for(check):
    code, out, err = check(ROWS)
    assert (code, err) == (0, "")
    assert out.startswith("For the owner of the records only")
    for said in ('33.3% "Red", declared as "red"', "33.3% outside the range", "33.3% empty", "1 of 3 columns fit"):
        assert said in out


def test_json(check):
    code, out, _ = check(ROWS, "--json")
    found = json.loads(out)
    assert (code, found["rows"], found["passed"]) == (0, 3, True)
    assert "Do not pass it on" in found["warning"]
    assert [column["outside"] for column in found["columns"]] == [1, 0, 0]
    assert found["columns"][1]["spellings"] == [{"found": "Red", "declared": "red", "rows": 1}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROWS.replace("blue", "Blue").replace("\n,red", "\n,RED"), "LOST"),
        (ROWS.replace("yes", "Yes"), "REFUSED"),
        (ROWS.replace("50", "many"), "33.3% not a finite number"),
    ],
)
def test_a_column_that_is_lost_or_refused_is_status_1(check, text, said):
    code, out, err = check(text)
    assert (code, err) == (1, "")
    assert said in out
    assert json.loads(check(text, "--json")[1])["passed"] is False


def test_dates_that_are_written_otherwise_are_no_dates_and_not_no_numbers(tmp_path, dplateau):
    (tmp_path / "d.csv").write_text("day,ill\n31.12.2020,yes\n2020-12-30,no\n")
    day = '[columns.day]\ntype = "date"\nfirst = 2020-01-01\nlast = 2020-12-31\n'
    (tmp_path / "d.toml").write_text(f'{day}[columns.ill]\ntype = "target"\nclasses = ["no", "yes"]\n')
    out = dplateau("check", str(tmp_path / "d.csv"), "--schema", str(tmp_path / "d.toml"))[1]
    assert "50.0% not a date like 2020-12-31" in out
    assert "number" not in out


def test_escape_codes_are_not_obeyed(check):
    assert "\x1b" not in check(ROWS.replace("Red", "r\u200b\x1b[31med"))[1]


def test_bad_input_is_status_2(check, dplateau, table, tmp_path):
    code, out, err = check("age,colour,ill\nsecret,red\n")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "secret" not in err
    assert dplateau("check", table, "--schema", table / "schema.toml")[0] == 2
    assert dplateau("check", tmp_path / "rows.csv", "--schema", tmp_path / "none.toml")[0] == 2


BAD = {
    "empty.csv": b"",
    "header.csv": b"age,colour,ill\n",
    "twice.csv": b"age,age,colour,ill\n1,1,red,no\n",
    "nul.csv": b"age,colour,ill\n1,secret\0,no\n",
    "latin.csv": b"age,colour,ill\n1,secret\xe9,no\n",
    "surrogate.csv": b"age,colour,ill\n1,secret\xed\xa0\x80,no\n",
    "cut.csv.gz": gzip.compress(b"age,colour,ill\n1,secret,no\n")[:-8],
    "nested.jsonl": b'{"age": 1, "colour": ["secret"], "ill": "no"}',
    "twice.jsonl": b'{"age": 1, "age": 2, "colour": "secret", "ill": "no"}',
    "lacking.jsonl": b'{"age": 1, "colour": "secret"}',
}


@pytest.mark.parametrize("name", [*BAD, "folder", "pipe.csv"])
@pytest.mark.parametrize("command", ["check", "train", "train --stream"])
def test_every_bad_file_is_one_line_that_quotes_nothing(dplateau, table, tmp_path, name, command):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "pipe.csv":
        os.mkfifo(path)
    else:
        path.write_bytes(BAD[name])
    options = ("--epsilon", 1, "--output", tmp_path / "model") if command.startswith("train") else ()
    command, *stream = command.split()
    code, out, err = dplateau(command, path, "--schema", table / "schema.toml", *stream, *options)
    told = [line for line in err.splitlines() if not line.startswith("dplateau: warning: few rows")]
    assert (code, out, len(told)) == (2, "", 1), err
    assert str(path) in err
    assert "secret" not in err
    assert "mistake in dplateau" not in err
    assert not (tmp_path / "model").exists()
