import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dplateau.certificate import check_weights, read_certificate, weights_digest
from dplateau.cli.main import status
from dplateau.data import schema_from_toml
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.spec import ContradictionError, InputError, PrivacyWarning

COLUMNS = """
[columns.a]
type = "number"
low = -1
high = 1
[columns.b]
type = "category"
values = ["x", "y"]
[columns.t]
type = "target"
"""
TARGETS = {
    "logistic": 'classes = ["no", "yes"]',
    "svc": 'classes = ["no", "yes"]',
    "three": 'classes = ["p", "q", "r"]',
    "linear": "low = -3\nhigh = 5",
}


def values(name: str, n: int):
    random = np.random.default_rng(1)
    a, b = random.uniform(-1, 1, n), random.integers(0, 2, n)
    target = {"three": np.array(["p", "q", "r"])[np.digitize(a, [-0.3, 0.3])], "linear": 1 + 3 * a + b}
    return a, np.array(["x", "y"])[b], target.get(name, np.array(["no", "yes"])[(a > 0).astype(int)])


@pytest.fixture(scope="module", params=TARGETS)
def saved(request, tmp_path_factory):
    """A trained model, the file that it was trained on, and the folder it was saved to."""
    folder = tmp_path_factory.mktemp(request.param)
    rows = "\n".join(f"{a},{b},{t}" for a, b, t in zip(*values(request.param, 3000), strict=True))
    (folder / "rows.csv").write_text(f"a,b,t\n{rows}\n")
    schema = schema_from_toml(COLUMNS + TARGETS[request.param])
    kind = None if request.param in ("three", "linear") else request.param
    model = TableModel.train(folder / "rows.csv", schema, epsilon=2.0, delta=1e-6, model=kind, max_iter=100, insecure_seed=5)
    model.save(folder / "model")
    return model, folder / "rows.csv", folder / "model"


def test_round_trip(saved):
    model, file, folder = saved
    again = load_model(folder)
    assert (again.model, again.schema, again.certificate) == (model.model, model.schema, model.certificate)
    assert (again.predict(file) == model.predict(file)).all()
    rows = again.read(file)
    assert (again.predict(rows) == model.predict(file)).all()
    assert (again.accuracy(rows), again.rmse(rows)) == (model.accuracy(rows), model.rmse(rows))
    if model.model == "logistic":
        probabilities = again.predict_proba(rows)
        assert (probabilities == model.predict_proba(rows)).all()
        assert probabilities.shape == (3000, len(model.classes))
        assert np.allclose(probabilities.sum(axis=1), 1)
    else:
        with pytest.raises(InputError, match="no class probabilities"):
            again.predict_proba(rows)


def test_it_learns_and_speaks_in_names(saved):
    model, file, _ = saved
    found = model.predict(file)
    if model.classes:
        assert set(found) <= set(model.classes)
        assert model.accuracy(model.read(file)) > 0.8
        assert model.rmse(model.read(file)) is None
    else:
        assert model.rmse(model.read(file)) < 0.8 * np.std(values("linear", 3000)[2])
        assert model.accuracy(model.read(file)) is None


def test_feature_names_are_those_of_the_rows(saved):
    model, file, folder = saved
    assert model.feature_names == model.read(file).feature_names
    assert json.loads((folder / "model.json").read_text())["feature_names"] == list(model.feature_names)


def change_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGE = {
    "no folder": (lambda f: shutil.rmtree(f), "model.json cannot be read"),
    "no weights": (lambda f: (f / "weights.npz").unlink(), "weights.npz is missing or damaged"),
    "cut weights": (lambda f: (f / "weights.npz").write_bytes((f / "weights.npz").read_bytes()[:100]), "missing or damaged"),
    "pickled weights": (lambda f: np.savez(f / "weights.npz", coefficients=np.array([{}]), intercept=np.array([{}])), "damaged"),
    "other shape": (lambda f: np.savez(f / "weights.npz", coefficients=np.ones((7, 7)), intercept=np.ones(7)), "expected finite"),
    "no certificate": (lambda f: (f / "certificate.json").unlink(), "certificate.json cannot be read"),
    "no JSON": (lambda f: (f / "model.json").write_text("x"), "is not JSON"),
    "other format": (lambda f: change_json(f / "model.json", format=3), "no model of format"),
    "other model": (lambda f: change_json(f / "model.json", model="magic"), "expected one of"),
    "other names": (lambda f: change_json(f / "model.json", feature_names=["a"]), "contradict each other"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_clear_error(saved, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(saved[2], folder)
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(InputError, match=message):
        load_model(folder)


def copied(saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved[2], folder)
    return folder


def test_weights_of_another_training_are_refused(saved, tmp_path, capfd):
    """Weights that cost a million do not load as those that cost two."""
    model, file, _ = saved
    kind = model.model
    other = TableModel.train(file, model.schema, epsilon=1e6, delta=1e-6, model=kind, max_iter=100, insecure_seed=5)
    folder = copied(saved, tmp_path)
    np.savez(folder / "weights.npz", coefficients=other.estimator.coef_, intercept=other.estimator.intercept_)
    with pytest.raises(ContradictionError, match="about other weights"):
        load_model(folder)
    with pytest.raises(ContradictionError, match="about other weights"):
        read_certificate(folder)
    for command in (("account", "--run"), ("report",)):
        for path in (folder, folder / "certificate.json"):
            assert status([*command, str(path)]) == 1
            out, err = capfd.readouterr()
            assert out == ""
            assert "the certificate is about other weights than the weights in weights.npz beside it" in err
    assert not (folder / "certificate.html").exists()


@pytest.mark.parametrize(("gone", "left"), [("model.json", "weights.npz"), ("weights.npz", "model.json")])
def test_a_folder_that_lacks_a_part_of_the_model_does_not_agree(saved, tmp_path, capfd, gone, left):
    """Without model.json the weights of another training, of any cost, lay beside a certificate that was said to agree."""
    folder = copied(saved, tmp_path)
    (folder / gone).unlink()
    with pytest.raises(ContradictionError, match=f"has no {gone} beside {left}"):
        read_certificate(folder)
    for command in (("account", "--run"), ("report",), ("verify",)):
        assert status([*command, str(folder)]) == 1
        out, err = capfd.readouterr()
        assert out == ""
        assert f"has no {gone} beside {left}: nobody can tell" in err
    assert read_certificate(folder / "certificate.json").epsilon


@pytest.mark.parametrize("change", ["one bit", "another array", "precision"])
def test_any_change_of_the_weights_is_refused(saved, tmp_path, change):
    folder = copied(saved, tmp_path)
    with np.load(folder / "weights.npz") as arrays:
        held = {name: arrays[name] for name in arrays.files}
    coefficients = held["coefficients"].copy()
    coefficients.ravel()[0] = np.nextafter(coefficients.ravel()[0], 1)
    changes = {
        "one bit": {"coefficients": coefficients},
        "another array": {"more": np.zeros(1)},
        "precision": {"coefficients": held["coefficients"].astype(np.float32)},
    }
    np.savez(folder / "weights.npz", **{**held, **changes[change]})
    with pytest.raises(InputError):
        load_model(folder)
    with pytest.raises(ContradictionError):
        read_certificate(folder)


def test_another_schema_is_refused(saved, tmp_path):
    """One that gives the same features, in other units."""
    folder = copied(saved, tmp_path)
    text = (folder / "schema.toml").read_text()
    assert "low = -1" in text
    (folder / "schema.toml").write_text(text.replace("low = -1", "low = -2", 1))
    for read in (load_model, read_certificate):
        with pytest.raises(ContradictionError, match=r"other schema than the schema in schema\.toml"):
            read(folder)


def test_a_certificate_that_names_no_weights_is_refused(saved, tmp_path):
    folder = copied(saved, tmp_path)
    data = json.loads((folder / "certificate.json").read_text())
    data["model"].update(weights_sha256=None)
    (folder / "certificate.json").write_text(json.dumps(data))
    with pytest.raises(ContradictionError, match="names no weights"):
        load_model(folder)


OLD = Path(__file__).parents[1] / "certificate" / "format-1" / "secret.json"


def test_models_of_format_1_load_with_a_warning(saved, tmp_path):
    folder = copied(saved, tmp_path)
    shutil.copy(OLD, folder / "certificate.json")
    with pytest.raises(ContradictionError, match="names no weights"):
        load_model(folder)
    change_json(folder / "model.json", format=1)
    with pytest.warns(PrivacyWarning, match="before certificates were bound"):
        again = load_model(folder)
    assert again.certificate.format == 1


def test_the_digests_tell_models_apart(saved):
    certificate = saved[0].certificate
    estimator = saved[0].estimator
    weights = {"coefficients": estimator.coef_, "intercept": estimator.intercept_}
    check_weights(certificate, weights)
    assert certificate.weights_sha256 == weights_digest(weights)
    assert certificate.weights_sha256[:16] in str(certificate)
    assert certificate.schema_sha256[:16] in str(certificate)
    wider = {"coefficients": np.zeros((1, 170)), "intercept": np.zeros(1)}
    narrower = {"coefficients": np.zeros((1, 64)), "intercept": np.zeros(1)}
    assert weights_digest(wider) != weights_digest(narrower)
    with pytest.raises(ContradictionError, match="about other weights"):
        check_weights(certificate, wider)


@pytest.mark.parametrize(
    "option", [{"rows": "unit"}, {"feature_norm": 0.1}, {"fit_intercept": True}, {"classes": None}, {"target_range": (0.4, 0.5)}]
)
def test_what_the_schema_decides_is_no_option(saved, option):
    """A model that was loaded would predict by other rules than the one that was trained."""
    model, file, _ = saved
    with pytest.raises(InputError, match="follows from the schema"):
        TableModel.train(file, model.schema, epsilon=1.0, **option)


def test_nothing_is_overwritten(saved):
    with pytest.raises(InputError, match="exists already"):
        saved[0].save(saved[2])
