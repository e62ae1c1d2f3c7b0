"""Every solver, for every kind of model, trains from the command line, or says in one line what to give there."""

import re

import pytest

from dplateau.algorithms.registry import SOLVERS

COLUMN = '[columns.{}]\ntype = "number"\nlow = -3\nhigh = 3\n'
TARGETS = {
    "logistic": 'classes = ["a", "b"]',
    "svc": 'classes = ["a", "b"]',
    "linear": "low = -4\nhigh = 4",
    "multiclass": 'classes = ["a", "b", "c"]',
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a table and a schema for each kind of model."""
    import numpy as np

    folder = tmp_path_factory.mktemp("solvers")
    rows = np.random.default_rng(0).normal(size=(400, 2))
    for kind, target in TARGETS.items():
        score = rows[:, 0]
        y = (
            score
            if kind == "linear"
            else np.array(["a", "b", "c"])[np.digitize(score, [0.0, 0.7] if kind == "multiclass" else [0])]
        )
        lines = [f"{a:.3f},{b:.3f},{one}" for (a, b), one in zip(rows, y, strict=True)]
        (folder / f"{kind}.csv").write_text("\n".join(["p,q,y", *lines]) + "\n")
        (folder / f"{kind}.toml").write_text(COLUMN.format("p") + COLUMN.format("q") + f'[columns.y]\ntype = "target"\n{target}\n')
    return folder


def options(message, tried):
    """What a line advises, as options: the first thing that it names with its value."""
    if found := re.search(r"give l2 > 0, for example ([\d.]+)", message):
        return {**tried, "--l2": found[1]}
    if found := re.search(r"choose loss '?([a-z-]+)", message):
        return {**tried, "--loss": found[1]}
    if found := re.search(r"leave out l2, or choose ([a-z-]+)", message):
        return {**tried, "--solver": found[1]}
    if found := re.search(r"choose solver ([a-z-]+)", message):
        return {**tried, "--solver": found[1]}
    return pytest.fail(f"no advice that can be followed: {message}")


@pytest.mark.parametrize("l2", [None, 0.02])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", TARGETS)
def test_it_trains_or_says_what_to_give(dplateau, data, tmp_path, kind, solver, l2):
    given = {"--solver": solver, **({} if l2 is None else {"--l2": l2}), **({"--model": "svc"} if kind == "svc" else {})}
    fixed = ("train", data / f"{kind}.csv", "--schema", data / f"{kind}.toml", "--epsilon", 2, "--steps", 5, "--json")
    for turn in range(3):
        code, _, err = dplateau(*fixed, "--output", tmp_path / f"model-{turn}", *(part for pair in given.items() for part in pair))
        if code == 0:
            assert turn == 0 or given["--solver"] != solver or len(given) > 1
            return
        assert code == 2
        assert err.count("\n") == 1
        assert not re.search(r"\w='|released=|dtype|diameter,|weighting|phases", err), err
        given = options(err, given)
    pytest.fail(f"the advice leads nowhere: {err}")


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("logistic", ("--loss", "hinge", "--solver", "pnsgd"), "choose solver phased-erm"),
        ("logistic", ("--loss", "squared"), "has classes: use logistic or svc"),
        ("logistic", ("--loss", "log"), "expected one of logistic, smoothed-hinge, hinge, squared, huber, absolute"),
        ("logistic", ("--loss", "logistic", "--model", "svc"), "choose one of smoothed-hinge, hinge"),
        ("multiclass", ("--loss", "hinge"), "choose loss 'smoothed-hinge', or model 'logistic'"),
        ("linear", ("--loss", "hinge"), "has a range of numbers: use linear"),
        ("linear", ("--l2", "-1"), "l2"),
        ("linear", ("--l2", "nan"), "l2"),
    ],
)
def test_losses_and_models_that_do_not_fit_are_one_line(dplateau, data, tmp_path, kind, arguments, message):
    train = ("train", data / f"{kind}.csv", "--schema", data / f"{kind}.toml", "--epsilon", 1, "--output", tmp_path / "model")
    code, out, err = dplateau(*train, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_loss_says_which_model(dplateau, data, tmp_path):
    from dplateau.estimators.table_model import load_model

    for kind, loss in (("logistic", "hinge"), ("logistic", "smoothed-hinge"), ("linear", "absolute"), ("linear", "huber")):
        train = ("train", data / f"{kind}.csv", "--schema", data / f"{kind}.toml", "--epsilon", 2, "--steps", 5)
        assert dplateau(*train, "--loss", loss, "--output", tmp_path / loss)[0] == 0
        assert load_model(tmp_path / loss).model == ("linear" if kind == "linear" else "svc")


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("model", "classes"), [("logistic", 2), ("svc", 2), ("svc", 3), ("linear", 2)])
def test_plan_plans_what_train_trains(dplateau, solver, model, classes):
    import json

    from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression

    strength = 0.02 if SOLVERS[solver].needs_l2 else 0.0
    common = ("--n", 400, "--d", 3, "--epsilon", 2, "--delta", 1e-5, "--steps", 7, "--l2", strength, "--solver", solver)
    loss = ("--loss", "huber") if model == "linear" else ()
    code, out, err = dplateau("plan", *common, "--model", model, "--classes", classes, *loss, "--json")
    assert (code, err) == (0, "")
    settings = {"epsilon": 2.0, "delta": 1e-5, "solver": solver, "l2": strength, "max_iter": 7, "fit_intercept": False}
    if model == "linear":
        estimator = PrivateLinearRegression(target_range=(-1, 1), loss="huber", **settings)
        chosen = estimator._loss()
    else:
        estimator = {"logistic": PrivateLogisticRegression, "svc": PrivateLinearSVC}[model](classes=range(classes), **settings)
        chosen = estimator._loss(classes)
    named, problem, _ = estimator._solver(400, "row", 3, chosen, False)
    assert named.plan(problem, estimator._budget(1e-5), steps=7).run.to_dict() == json.loads(out)["run"]
