import json
import os

import pytest

from dplateau import reproduce
from dplateau.reproduce import Entry, Inputs, Reproduction, Table


def small(_: Inputs) -> Reproduction:
    def draw():
        from matplotlib.figure import Figure

        return Figure(figsize=(1, 1))

    table = Table("Numbers", ("", "printed", "ours"), (("row 1", "1.00", "1.01"),), ("They differ.",))
    return Reproduction("small", "A small page", (table,), {"ours": 1.01}, {"nothing": ("An empty picture", draw)})


@pytest.fixture
def entries(monkeypatch):
    entry = Entry("small", "a paper", "one number", "nothing", "no time", small)
    monkeypatch.setitem(reproduce.ENTRIES, "small", entry)


@pytest.mark.parametrize("options", [(), ("--list",)])
def test_the_list(dplateau, options):
    code, out, err = dplateau("reproduce", *options)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for entry in reproduce.ENTRIES.values():
        for word in (entry.name, "paper", "shows", "needs", entry.takes):
            assert word in out
    _, out, _ = dplateau("reproduce", *options, "--json")
    assert json.loads(out) == {"entries": [entry.to_dict() for entry in reproduce.ENTRIES.values()]}


def test_a_page_and_its_numbers(dplateau, entries):
    code, out, err = dplateau("reproduce", "small")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["A small page", "", "Numbers", "      printed ours", "row 1    1.00 1.01", "", "They differ."]
    _, out, _ = dplateau("reproduce", "small", "--json")
    assert json.loads(out) == {"ours": 1.01}


def test_a_folder(dplateau, entries, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, err = dplateau("reproduce", "small", "--output", tmp_path / "new")
    assert (code, err) == (0, "")
    assert out.startswith("A small page")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["nothing.png", "nothing.svg", "small.json", "small.md"]
    assert (tmp_path / "new" / "small.md").read_text() == (
        "# A small page\n\n## Numbers\n\n|  | printed | ours |\n| --- | ---: | ---: |\n| row 1 | 1.00 | 1.01 |\n\n"
        "They differ.\n\n![An empty picture](nothing.svg)\n"
    )
    assert json.loads((tmp_path / "new" / "small.json").read_text()) == {"ours": 1.01}
    code, out, err = dplateau("reproduce", "small", "--output", tmp_path / "new")
    assert (code, out) == (2, "")
    assert "exists already" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("p9",), "there is no 'p9' to reproduce: expected one of p2-privacy"),
        (("p2-privacy", "--list"), "--list takes no name"),
        (("--output", "x"), "--list takes no name"),
        (("p2-privacy", "--output", "no/x"), "is no folder"),
    ],
)
def test_bad_input_is_one_line(dplateau, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = dplateau("reproduce", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("dplateau: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is writable for root")
def test_a_locked_folder(dplateau, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    code, _, err = dplateau("reproduce", "p2-privacy", "--output", tmp_path / "locked" / "x")
    assert code == 2
    assert "no permission" in err


def test_without_matplotlib(process, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    done = process("reproduce", "p2-privacy", "--output", tmp_path / "x", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dplateau: a picture needs matplotlib, which is not installed: pip install 'dplateau[plots]'.\n"
    assert not (tmp_path / "x").exists()


def test_a_failed_picture_leaves_nothing(dplateau, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")

    def broken(_: Inputs) -> Reproduction:
        def draw():
            raise KeyboardInterrupt

        return Reproduction("small", "A small page", (), {}, {"nothing": ("", draw)})

    monkeypatch.setitem(reproduce.ENTRIES, "small", Entry("small", "", "", "", "", broken))
    assert dplateau("reproduce", "small", "--output", tmp_path / "x")[0] == 130
    assert list(tmp_path.iterdir()) == []
