import json
import os

import pytest

import dplateau as dp
from dplateau.report.plateau import plateau, step_numbers

CYCLIC = dp.Run(
    n=600,
    sampling=dp.Cyclic(100),
    steps=600,
    noise_multiplier=8.0,
    clip_norm=2.0,
    step_size=0.5,
    smoothness=1.0,
    strong_convexity=0.1,
    diameter=3.0,
    adjacency="replace",
    released="last",
)
OPTIONS = [
    *("--n", 600, "--sampling", "cyclic", "--batch-size", 100, "--steps", 600, "--noise-multiplier", 8, "--clip-norm", 2),
    *("--step-size", 0.5, "--smoothness", 1, "--strong-convexity", 0.1, "--diameter", 3),
    *("--adjacency", "replace", "--released", "last"),
]
SGD = ["--n", 1000, "--batch-size", 50, "--steps", 20, "--noise-multiplier", 4]


def test_json_is_what_the_library_says(dplateau):
    code, out, err = dplateau("plot-plateau", *OPTIONS, "--delta", 1e-4, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == plateau(CYCLIC, 1e-4).to_dict()
    _, out, _ = dplateau("plot-plateau", *OPTIONS, "--to", 100, "--all", "--json")
    assert json.loads(out) == plateau(CYCLIC, steps=step_numbers(CYCLIC, 100), dominated=True).to_dict()


def test_a_picture(dplateau, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    code, out, err = dplateau("plot-plateau", *OPTIONS, "--output", "a.svg")
    assert (code, err) == (0, "")
    assert out == f"a.svg: the plateau begins at about {plateau(CYCLIC).begins} steps.\n"
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    code, out, _ = dplateau("plot-plateau", *SGD, "--output", "a.svg", "--to", 2000)
    assert (code, out) == (0, "a.svg: no plateau up to 2,000 steps.\n")
    code, out, _ = dplateau("plot-plateau", *SGD, "--output", "b.pdf", "--json")
    assert json.loads(out)["steps"][-1] == 80
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.pdf"]


def test_a_run_from_a_file(dplateau, tmp_path):
    (tmp_path / "run.json").write_text(CYCLIC.to_json())
    code, out, _ = dplateau("plot-plateau", "--run", tmp_path / "run.json", "--json")
    assert code == 0
    assert json.loads(out) == plateau(CYCLIC).to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--output is missing"),
        (("--output", "a.jpg"), "does not end in .png, .svg, .pdf"),
        (("--output", "no/a.png"), "is not a folder"),
        (("--output", "a.png", "--to", 0), "to is 0"),
        (("--output", "a.png", "--delta", 2), "delta is 2"),
        (("--output", "a.png", "--n", 0), "--n is given 2 times"),
        (("--output", "a.png", "--epochs", 2), "both given"),
        (("--json", "--adjacency", "near"), "adjacency is 'near'"),
        (("--json", "--run", "none.json"), "none.json: there is no such file"),
    ],
)
def test_bad_input_is_one_line(dplateau, tmp_path, monkeypatch, options, message):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    code, out, err = dplateau("plot-plateau", *SGD, *options)
    assert (code, out) == (2, "")
    assert err.startswith("dplateau: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is writable for root")
def test_a_locked_folder(dplateau, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "locked").mkdir(mode=0o500)
    code, _, err = dplateau("plot-plateau", *SGD, "--output", tmp_path / "locked" / "a.png")
    assert code == 2
    assert "no permission" in err


def test_schedules_end_where_they_end(dplateau, tmp_path):
    run = dp.Run(n=100, sampling=dp.Poisson(10), steps=3, noise_multiplier=(3.0, 4.0, 5.0))
    (tmp_path / "run.json").write_text(run.to_json())
    code, _, err = dplateau("plot-plateau", "--run", tmp_path / "run.json", "--to", 9, "--json")
    assert code == 2
    assert "one value for each of the run's 3 steps" in err


def test_a_large_delta_is_warned_about_once(dplateau):
    code, _, err = dplateau("plot-plateau", *SGD, "--delta", 0.01, "--json")
    assert code == 0
    assert err.startswith("dplateau: warning: delta 0.01 is at least 1/n")
    assert err.count("\n") == 1


def test_without_matplotlib(process, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    done = process("plot-plateau", *SGD, "--output", tmp_path / "a.png", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    needs = "dplateau: a picture needs matplotlib, which is not installed: "
    assert done.stderr == needs + "python -m pip install '.[plots]', in a copy of dplateau's source.\n"
    assert process("plot-plateau", *SGD, "--json", env={"PYTHONPATH": str(tmp_path)}).returncode == 0
