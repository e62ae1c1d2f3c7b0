import pytest

from dplateau.data import load_schema, template
from dplateau.spec import InputError


def test_the_template_is_printed(dplateau, table):
    code, out, err = dplateau("schema", table / "rows.csv", "--target", "ill")
    assert (code, err) == (0, "")
    assert "Why it is not filled in" in out
    assert "[columns.age]" in out
    assert "FILL IN" in out


def test_the_template_is_written_once(dplateau, table, tmp_path):
    path = tmp_path / "new.toml"
    code, out, _ = dplateau("schema", table / "rows.csv", "--output", path)
    assert code == 0
    assert str(path) in out
    with pytest.raises(InputError, match="FILL IN"):
        load_schema(path)
    written = path.read_text()
    code, _, err = dplateau("schema", table / "rows.csv", "--output", path)
    assert code == 2
    assert "exists already" in err
    assert path.read_text() == written


def test_a_file_that_somebody_made_meanwhile_stays(dplateau, table, tmp_path, monkeypatch):
    path = tmp_path / "new.toml"

    def slow(*_, **__):
        path.write_text("theirs")
        return "ours"

    monkeypatch.setattr(template, "schema_template", slow)
    code, out, err = dplateau("schema", table / "rows.csv", "--output", path)
    assert (code, out, path.read_text()) == (2, "", "theirs")
    assert err.startswith(f"dplateau: {path} exists already")


def test_no_header(dplateau, tmp_path):
    (tmp_path / "a.csv").write_text("1,x\n2,y\n")
    assert "column_2" in dplateau("schema", tmp_path / "a.csv", "--no-header")[1]


def test_bad_input_is_one_line(dplateau, table, tmp_path):
    (tmp_path / "empty.csv").touch()
    for options, message in (
        ((tmp_path / "no.csv",), "no such file"),
        ((tmp_path / "empty.csv",), "is empty"),
        ((table,), "is a directory"),
        ((table / "rows.csv", "--target", "magic"), "no column 'magic'"),
        ((table / "rows.csv", "--output", tmp_path / "no" / "s.toml"), "cannot be written"),
    ):
        code, out, err = dplateau("schema", *options)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert message in err
