"""``dplateau plan``: three lines for a person, everything for a program, a run for ``account``."""

import json

import pytest

from dplateau.losses.named import loss_named
from dplateau.planning import plan

FACTS = ("plan", "--n", "2000", "--d", "5", "--epsilon", "1")


def test_three_lines_say_what_and_why(dplateau):
    code, out, _ = dplateau("plan", "--n", "1000000", "--d", "100", "--epsilon", "1")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == ["solver", "steps", "noise"]
    assert "pnsgd" in out


def test_the_planned_run_can_be_accounted_for(dplateau, tmp_path):
    file = tmp_path / "run.json"
    made = json.loads(dplateau(*FACTS, "--solver", "snowball-sgd", "--output", file, "--json")[1])
    assert made["solver"] == "snowball-sgd"
    report = json.loads(dplateau("account", "--run", file, "--delta", made["delta"], "--json")[1])
    assert report["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert report["bound"] == "fixed-order"


def test_a_plan_for_persons_says_so(dplateau):
    data = json.loads(dplateau(*FACTS, "--unit", "person", "--json")[1])
    assert data["run"] == {**json.loads(dplateau(*FACTS, "--json")[1])["run"], "unit": "person"}


@pytest.mark.parametrize(("model", "loss"), [("linear", "huber"), ("linear", "squared"), ("svc", "smoothed-hinge")])
@pytest.mark.parametrize(
    "wanted",
    [
        {"delta": 1e-7, "adjacency": "replace", "feature_norm": 2.0, "l2": 0.02, "solver": "noisy-sgd", "steps": 37},
        {"unit": "person", "one_pass": True, "feature_norm": 0.5},
    ],
)
def test_json_is_what_the_library_says(dplateau, model, loss, wanted):
    options = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in wanted.items()]
    code, out, _ = dplateau(*FACTS, "--model", model, "--loss", loss, *options, "--json")
    chosen = loss_named(model, loss, 2)
    expected = plan(2000, 5, 1.0, loss=chosen.loss, residual_clip=chosen.residual_clip, **wanted)
    assert (code, json.loads(out)) == (0, json.loads(json.dumps(expected.to_dict())))


def test_more_classes_need_another_plan(dplateau):
    runs = [json.loads(dplateau(*FACTS, "--classes", classes, "--json")[1])["run"] for classes in (2, 10)]
    assert runs[0] != runs[1]


def test_a_file_is_not_written_over(dplateau, tmp_path):
    file = tmp_path / "run.json"
    file.write_text("kept")
    code, _, error = dplateau(*FACTS, "--output", file)
    assert code == 2
    assert "exists already" in error
    assert file.read_text() == "kept"


def test_a_link_whose_file_is_gone_is_not_replaced(dplateau, tmp_path):
    (tmp_path / "run.json").symlink_to("gone")
    assert "exists already" in dplateau(*FACTS, "--output", tmp_path / "run.json")[2]


@pytest.mark.parametrize("model", ["logistic", "svc", "linear"])
def test_models_have_their_losses(dplateau, model):
    assert dplateau(*FACTS, "--model", model, "--one-pass")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "0"], "--n is given 2 times"),
        (["--solver", "sgd"], "solver is 'sgd'"),
        (["--model", "tree"], "model is 'tree'"),
        (["--epsilon", "nan"], "epsilon"),
        (["--solver", "noisy-sgd", "--one-pass"], "for one pass use"),
    ],
)
def test_bad_input_is_one_line(dplateau, arguments, message):
    code, out, error = dplateau(*FACTS, *arguments)
    assert (code, out) == (2, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1
