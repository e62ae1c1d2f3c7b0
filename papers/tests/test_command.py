import json
import os

import pytest

from dplateau.training import TrainingDiverged, TrainingInterrupted
from dplateau_papers import entries as reproduce
from dplateau_papers.page import Entry, Inputs, Reproduction, Table


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
        assert f"\n{entry.name}\n" in out
        for word in ("shows", "needs", "takes", entry.takes):
            assert word in " ".join(out.split())
    _, out, _ = dplateau("reproduce", *options, "--json")
    assert json.loads(out) == {"entries": [entry.to_dict() for entry in reproduce.ENTRIES.values()]}


def test_the_list_names_every_paper_once(dplateau, entries):
    _, out, _ = dplateau("reproduce", "--list")
    for paper, entry in (("P2", "p2-privacy"), ("P3", "p3-table1"), ("SMALL", "small")):
        head = f"{paper}  {reproduce.ENTRIES[entry].paper}"[:60]
        assert out.count(head) == 1
        assert out.index(head) < out.index(f"\n{entry}\n")
    assert out.index("P1  ") < out.index("p1\n") < out.index("P2  ") < out.index("\np2-table4\n") < out.index("P3  ")


def test_the_list_loads_no_jax(process):
    done = process(
        code="import sys; from dplateau.cli.main import status; status(['reproduce', '--list']);"
        "print({'jax', 'pyarrow', 'matplotlib'} & set(sys.modules), file=sys.stderr)"
    )
    assert done.stderr == "set()\n"


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
        (("p9",), "'p9' cannot be reproduced: expected one of p2-privacy"),
        (("p2-privacy", "--list"), "--list takes no name"),
        (("--output", "x"), "--list takes no name"),
        (("--list", "--seeds", "3"), "--list takes no name and no option except --json"),
        (("p2-table2",), "the data set a9a is needed: give --data-dir"),
        (("p2-table2", "--seeds", "0"), "p2-table2 trains, and keeps what is finished: give --records"),
        (("p2-table2", "--seeds", "-1"), "--seeds is -1: expected a whole number >= 0"),
        (("p2-table2", "--data-dir", "no", "--records", "x"), "there is no folder no/a9a: --data-dir needs a folder a9a"),
        (("p2-privacy", "--output", "no/x"), "is not a folder"),
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
    needs = "dplateau: a picture needs matplotlib, which is not installed: "
    assert done.stderr == needs + "python -m pip install '.[plots]', in a copy of dplateau's source.\n"
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


class Trains:
    """An entry that trains twice, and can be interrupted."""

    def __init__(self, trouble=None):
        self.trouble = trouble

    def __call__(self, inputs: Inputs) -> Reproduction:
        def train(setting, seed):
            if seed and self.trouble:
                raise self.trouble
            return {"score": seed}

        records = inputs.records_of("small")
        records.collect([{"row": 1}], range(2 if inputs.seeds is None else inputs.seeds), train, inputs.say)
        return Reproduction("small", "A small page", (), {"scores": records.values({"row": 1}, "score")})

    def entry(self) -> Entry:
        return Entry("small", "a paper", "two trainings", "records", "no time", self, trains=True)


def test_trainings_are_told_and_kept(dplateau, monkeypatch, tmp_path):
    monkeypatch.setitem(reproduce.ENTRIES, "small", Trains().entry())
    code, out, err = dplateau("reproduce", "small", "--records", tmp_path / "new", "--json")
    assert (code, json.loads(out)) == (0, {"scores": [0, 1]})
    assert err == "1 of 2: row 1, seed 0\n2 of 2: row 1, seed 1\n"
    code, out, err = dplateau("reproduce", "small", "--records", tmp_path / "new", "--seeds", "3", "--json")
    assert (code, json.loads(out)) == (0, {"scores": [0, 1, 2]})
    assert err == "1 of 1: row 1, seed 2\n"


@pytest.mark.parametrize("trouble", [KeyboardInterrupt(), TrainingInterrupted("nothing was released")], ids=["key", "training"])
def test_an_interruption_keeps_what_is_finished(dplateau, monkeypatch, tmp_path, trouble):
    monkeypatch.setitem(reproduce.ENTRIES, "small", Trains(trouble).entry())
    code, out, err = dplateau("reproduce", "small", "--records", tmp_path / "records", "--output", tmp_path / "page")
    assert (code, out) == (130, "")
    assert f"dplateau: finished trainings are kept in {tmp_path / 'records'}; the same command continues from there.\n" in err
    assert [path.name for path in tmp_path.iterdir()] == ["records"]
    monkeypatch.setitem(reproduce.ENTRIES, "small", Trains().entry())
    code, _, err = dplateau("reproduce", "small", "--records", tmp_path / "records")
    assert (code, err) == (0, "1 of 1: row 1, seed 1\n")


def test_a_training_that_diverges_is_one_line(dplateau, monkeypatch, tmp_path):
    monkeypatch.setitem(reproduce.ENTRIES, "small", Trains(TrainingDiverged("the weights are no longer finite.")).entry())
    code, _, err = dplateau("reproduce", "small", "--records", tmp_path)
    assert code == 2
    assert err.endswith("\ndplateau: small: the weights are no longer finite.\n")
    monkeypatch.setitem(reproduce.ENTRIES, "small", Trains(RuntimeError("a mistake of ours")).entry())
    code, _, err = dplateau("reproduce", "small", "--records", tmp_path)
    assert code == 1
    assert "RuntimeError, a bug in dplateau" in err
    assert "a mistake of ours" not in err  # messages of libraries quote rows
