"""The papers are a distribution of their own; what they compute is tested there."""

import importlib.metadata

import pytest


def test_without_the_papers_the_command_says_what_to_install(dplateau, monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    code, out, err = dplateau("reproduce", "--list")
    assert (code, out) == (2, "")
    assert err == "dplateau: the papers are a separate package: python -m pip install ./papers, in a copy of dplateau's source.\n"


def test_whatever_names_itself_as_papers_is_found(dplateau, monkeypatch):
    class Entry:
        name, paper, shows, needs, takes, trains = "x1", "a paper", "one number", "nothing", "no time", False

        def to_dict(self):
            return {"name": self.name}

    class Papers:
        ENTRIES = {"x1": Entry()}  # noqa: RUF012

        def load(self):
            return self

    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [Papers()] if group == "dplateau.papers" else [])
    assert "x1" in dplateau("reproduce", "--list")[1]
    code, _, err = dplateau("reproduce", "x2")
    assert code == 2
    assert "expected one of x1" in err


def test_every_entry_of_the_papers_is_there():
    pytest.importorskip("dplateau_papers")
    (point,) = importlib.metadata.entry_points(group="dplateau.papers")
    assert {name.partition("-")[0] for name in point.load().ENTRIES} == {"p0", "p1", "p2", "p3", "p4", "study"}
