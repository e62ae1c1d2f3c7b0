"""``--class-weight`` and ``--cost``: from the command line to the predictions."""

import csv
import io
import json

import numpy as np
import pytest

from dplateau.certificate import read_certificate, verify
from dplateau.estimators.table_model import load_model
from dplateau.spec import ContradictionError, InputError
from dplateau.spec.assumption import ClassWeights

SCHEMA = """
[columns.age]
type = "number"
low = 0
high = 100
[columns.pay]
type = "target"
classes = ["<=50K", ">50K"]
"""


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """A folder with 3,000 rows of which about four in a hundred are rare, a public test file, and a model with weights."""
    from dplateau.cli.main import status

    folder = tmp_path_factory.mktemp("rare")
    random = np.random.default_rng(0)
    for name, n in (("rows", 3000), ("public", 2000)):
        age = random.integers(0, 101, n)
        pay = random.random(n) < 1 / (1 + np.exp(6 - age / 20))
        lines = [f"{a},{('<=50K', '>50K')[int(p)]}" for a, p in zip(age, pay, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["age,pay", *lines]) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    train = ("train", folder / "rows.csv", "--schema", folder / "schema.toml", "--epsilon", 4, "--steps", 100, "--json")
    assert status([str(one) for one in (*train, "--output", folder / "plain")]) == 0
    heavy = ("--class-weight", "<=50K=1,>50K=30", "--output", folder / "heavy")
    assert status([str(one) for one in (*train, *heavy)]) == 0
    return folder


def test_weights_raise_the_recall_of_the_rare_class(dplateau, rare):
    found = [json.loads(dplateau("evaluate", rare / name, rare / "public.csv", "--json")[1]) for name in ("plain", "heavy")]
    assert found[0]["recall"][">50K"] < 0.2
    assert found[1]["recall"][">50K"] > 0.5
    assert found[1]["balanced_accuracy"] > found[0]["balanced_accuracy"] + 0.1


def test_weights_are_saved_and_declared(rare):
    model = load_model(rare / "heavy")
    assert model.estimator.class_weight == {0: 1.0, 1: 30.0}
    assert json.loads((rare / "heavy" / "model.json").read_text())["class_weight"] == {"<=50K": 1.0, ">50K": 30.0}
    assert "class_weight" not in json.loads((rare / "plain" / "model.json").read_text())
    certificate = read_certificate(rare / "heavy" / "certificate.json")
    assert verify(certificate).certifies
    assert [one.weights for one in certificate.assumptions if isinstance(one, ClassWeights)] == ["0.033333333, 1"]


def test_weights_of_a_model_that_were_changed_are_refused(rare, tmp_path):
    import shutil

    for weights in ({"<=50K": 1.0, ">50K": 3.0}, {"<=50K": 1.0, "x": 3.0}, {">50K": -1.0}, {">50K": "1"}, None):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        shutil.copytree(rare / "heavy", tmp_path / "model")
        about = json.loads((tmp_path / "model" / "model.json").read_text())
        about["class_weight"] = weights
        (tmp_path / "model" / "model.json").write_text(json.dumps(about))
        with pytest.raises((InputError, ContradictionError), match="class_weight"):
            load_model(tmp_path / "model")


def test_costs_move_predictions(dplateau, rare):
    rows = {}
    for cost in ("<=50K=1", ">50K=5", ">50K=50"):
        code, out, err = dplateau("predict", rare / "plain", rare / "public.csv", "--proba", "--cost", cost)
        assert (code, err) == (0, "")
        rows[cost] = list(csv.DictReader(io.StringIO(out)))
        value = float(cost.rpartition("=")[2])
        for row in rows[cost]:
            said = float(row["probability >50K"]) * value > float(row["probability <=50K"])
            assert row["prediction"] == (">50K" if said else "<=50K")
    said = [sum(row["prediction"] == ">50K" for row in found) for found in rows.values()]
    assert said[0] <= said[1] < said[2]
    dear = json.loads(dplateau("evaluate", rare / "plain", rare / "public.csv", "--cost", ">50K=50", "--json")[1])
    assert dear["predicted"][">50K"] == said[2]
    assert (load_model(rare / "plain").predict(rare / "public.csv", cost={">50K": 50.0}) == ">50K").sum() == said[2]


def test_evaluate_says_that_rows_must_be_public(dplateau, rare):
    code, out, _ = dplateau("evaluate", rare / "heavy", rare / "public.csv")
    assert code == 0
    assert "Statistics of these rows, which must be public" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yes", "expected CLASS=NUMBER"),
        (">50K=", "expected CLASS=NUMBER"),
        (">50K=ten", "expected CLASS=NUMBER"),
        (">50K=0", "expected CLASS=NUMBER"),
        (">50K=-1", "expected CLASS=NUMBER"),
        (">50K=nan", "expected CLASS=NUMBER"),
        (">50K=inf", "expected CLASS=NUMBER"),
        ("", "expected CLASS=NUMBER"),
        (">50K=1,>50K=2", "names the class '>50K' twice"),
        ("rich=2", "names 'rich', which is not a class: expected some of '<=50K', '>50K'"),
    ],
)
def test_wrong_numbers_of_classes_are_one_line(dplateau, rare, tmp_path, text, message):
    train = ("train", rare / "rows.csv", "--schema", rare / "schema.toml", "--epsilon", 1, "--output", tmp_path / "model")
    for command in ((*train, "--class-weight"), ("predict", rare / "plain", rare / "public.csv", "--cost")):
        code, out, err = dplateau(*command, text)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_weights_and_costs_are_refused_where_they_mean_nothing(dplateau, rare, tmp_path):
    schema = SCHEMA.replace('"number"', '"target"').replace('type = "target"\nclasses', 'type = "category"\nvalues')
    (tmp_path / "age.toml").write_text(schema)
    train = ("train", rare / "rows.csv", "--epsilon", 1, "--steps", 5)
    number = dplateau(*train, "--schema", tmp_path / "age.toml", "--class-weight", "a=1", "--output", tmp_path / "a")
    assert (number[0], "is for classes" in number[2]) == (2, True)
    assert dplateau(*train, "--schema", rare / "schema.toml", "--model", "svc", "--output", tmp_path / "svc")[0] == 0
    code, _, err = dplateau("predict", tmp_path / "svc", rare / "public.csv", "--cost", ">50K=3")
    assert (code, "svc model has no class probabilities" in err) == (2, True)
