import json

import pytest

import dplateau as dp
from dplateau.report.text import as_text, trade_off_text
from dplateau.report.trade_off import trade_offs

RUN = dp.Run(n=1000, sampling=dp.FullBatch(), steps=4, noise_multiplier=4.0)
OPTIONS = ("--n", 1000, "--sampling", "full", "--steps", 4, "--noise-multiplier", 4)


def test_text_is_what_the_library_says(dplateau):
    code, out, err = dplateau("plot-trade-off", *OPTIONS)
    assert (code, err) == (0, "")
    assert out == as_text(trade_off_text(trade_offs(RUN))) + "\n"


def test_json_is_what_the_library_says(dplateau):
    code, out, err = dplateau("plot-trade-off", *OPTIONS, "--delta", 1e-6, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == trade_offs(RUN, 1e-6).to_dict()


def test_a_picture_beside_the_text(dplateau, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text(RUN.to_json())
    for options in (("--output", "a.svg"), ("--output", "b.svg", "--log"), ("--output", "c.png", "--json")):
        code, out, err = dplateau("plot-trade-off", "--run", "run.json", *options)
        assert (code, err) == (0, "")
        assert out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.svg", "c.png", "run.json"]
    assert (tmp_path / "a.svg").read_text() != (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--output", "a.jpg"), "does not end in .png, .svg, .pdf"),
        (("--output", "no/a.png"), "is not a folder"),
        (("--delta", 2), "delta is 2"),
        (("--n", 0), "--n is given 2 times"),
        (("--run", "none.json"), "none.json: there is no such file"),
    ],
)
def test_bad_input_is_one_line(dplateau, tmp_path, monkeypatch, options, message):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    code, out, err = dplateau("plot-trade-off", *OPTIONS, *options)
    assert (code, out) == (2, "")
    assert err.startswith("dplateau: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib(process, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    done = process("plot-trade-off", *OPTIONS, "--output", tmp_path / "a.png", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    needs = "dplateau: a picture needs matplotlib, which is not installed: "
    assert done.stderr == needs + "python -m pip install '.[plots]', in a copy of dplateau's source.\n"
    assert process("plot-trade-off", *OPTIONS, env={"PYTHONPATH": str(tmp_path)}).returncode == 0
