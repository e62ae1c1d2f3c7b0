import gzip
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import jsonschema
import numpy as np
import pytest

from dplateau.certificate import certificate_schema, read_certificate, verify
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.ledger import Ledger
from dplateau.spec import InputError
from dplateau.training import TrainingDiverged, TrainingInterrupted

SEED = 987654321


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    """What one run of the command printed, and the folder it wrote."""
    from dplateau.cli.main import status

    folder = tmp_path_factory.mktemp("trained") / "model"
    arguments = ["train", table / "rows.csv", "--schema", table / "schema.toml", "--test", table / "holdout.csv", "--target", "ill"]
    assert (
        status([str(a) for a in (*arguments, "--epsilon", 2, "--delta", 1e-6, "--steps", 100, "--output", folder, "--json")]) == 0
    )
    return folder


def test_json(dplateau, table, tmp_path):
    folder = tmp_path / "model"
    code, out, err = dplateau(
        *("train", table / "rows.csv", "--schema", table / "schema.toml", "--test", table / "holdout.csv", "--epsilon", 2),
        *("--delta", 1e-6, "--steps", 100, "--adjacency", "replace", "--output", folder, "--json"),
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert list(result) == ["model", "certificate", "epsilon", "delta", "certifies", "test_accuracy", "test"]
    assert result["certifies"]
    assert result["test"]["accuracy"] == result["test_accuracy"] > result["test"]["majority_accuracy"]
    assert (result["model"], result["certificate"]) == (str(folder), str(folder / "certificate.json"))
    assert result["delta"] == 1e-6
    assert result["epsilon"] <= 2
    assert result["test_accuracy"] > 0.8
    assert load_model(folder).certificate.run.adjacency == "replace"


def test_every_option_reaches_the_training(dplateau, table, tmp_path, monkeypatch):
    """And what is left out has the default of the library, or none."""
    told = []

    def train(file, schema, *, cluster, verbose, **options):
        told.append(options)
        raise InputError("seen")

    monkeypatch.setattr(TableModel, "train", train)
    ledger = Ledger(f"sqlite:///{tmp_path / 'privacy.db'}")
    ledger.create("people", n=2000, epsilon=9.0, delta=1e-5)
    wanted = {"delta": 1e-7, "adjacency": "replace", "private_test": 0.25, "model": "svc", "solver": "noisy-sgd", "l2": 0.02}
    wanted |= {"loss": "hinge", "rows": 1234, "person": "who", "insecure_seed": 7, "steps": 33, "class_weight": "yes=3"}
    given = [one for name, value in wanted.items() for one in (f"--{name.replace('_', '-')}", value)]
    command = ("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 0.7, "--output", tmp_path / "m")
    at = ("--ledger", ledger.url, "--dataset", "people", "--purpose", "first")
    assert dplateau(*command)[0] == dplateau(*command, *given, *at, "--stream")[0] == 2
    plain, full = told
    assert (plain.pop("epsilon"), plain.pop("max_iter"), plain.pop("solver"), plain.pop("l2")) == (0.7, 400, "auto", 0.0)
    assert (plain.pop("adjacency"), plain.pop("stream")) == ("add-remove", False)
    assert set(plain.values()) == {None}
    assert (full.pop("ledger"), full.pop("epsilon"), full.pop("stream")) == (ledger.account("people", purpose="first"), 0.7, True)
    assert full.pop("class_weight") == {"yes": 3.0}
    assert full == {{"rows": "n", "steps": "max_iter"}.get(name, name): wanted[name] for name in wanted if name != "class_weight"}


def test_the_folder(trained):
    assert sorted(path.name for path in trained.iterdir()) == ["certificate.json", "model.json", "schema.toml", "weights.npz"]
    assert [path.name for path in trained.parent.iterdir()] == ["model"]
    with np.load(trained / "weights.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == ["coefficients", "intercept"]
    jsonschema.validate(json.loads((trained / "certificate.json").read_text()), certificate_schema())
    certificate = read_certificate(trained / "certificate.json")
    assert verify(certificate).certifies
    assert certificate.delta == 1e-6
    assert {assumption.how for assumption in certificate.assumptions} >= {"enforced", "declared"}


def test_the_certificate_is_verified_by_account(dplateau, trained, tmp_path):
    code, out, _ = dplateau("account", "--run", trained / "certificate.json")
    assert code == 0
    assert "agrees" in out
    assert json.loads(dplateau("account", "--run", trained / "certificate.json", "--json")[1])["agrees"] is True
    data = json.loads((trained / "certificate.json").read_text())
    data["curve"][-1]["epsilon"] = [0.0, 0.5]
    (tmp_path / "forged.json").write_text(json.dumps(data))
    code, out, _ = dplateau("account", "--run", tmp_path / "forged.json")
    assert code == 1
    assert "DIFFERS" in out
    for change in ({"adjacency": "replace"}, {"run": {**data["run"], "noise_multiplier": 999.0}}, {"statement": "All is well."}):
        (tmp_path / "forged.json").write_text(json.dumps({**json.loads((trained / "certificate.json").read_text()), **change}))
        assert dplateau("account", "--run", tmp_path / "forged.json")[0] == 1
    code, _, err = dplateau("account", "--run", trained / "certificate.json", "--delta", 1e-5)
    assert code == 2
    assert "leave out all options" in err


def test_the_page(dplateau, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = dplateau(
        *(
            "train",
            table / "rows.csv",
            "--schema",
            table / "schema.toml",
            "--test",
            table / "holdout.csv",
            "--epsilon",
            1,
            "--steps",
            20,
        )
    )
    assert (code, err) == (0, "")
    assert "500 rows of holdout.csv, public by declaration" in " ".join(out.split())
    assert "written to    rows-model/" in out
    assert "coin toss" in out
    assert max(map(len, out.splitlines())) <= 80
    assert load_model("rows-model").certificate.delta == 1e-5


def test_a_seed_is_named_and_never_written(dplateau, table, tmp_path):
    arguments = (
        "train",
        table / "rows.csv",
        "--schema",
        table / "schema.toml",
        "--epsilon",
        1,
        "--steps",
        20,
        "--insecure-seed",
        SEED,
    )
    for name in "ab":
        code, out, _ = dplateau(*arguments, "--output", tmp_path / name)
        assert code == 0
        assert "certifies nothing" in out
        assert str(SEED) not in out
    for path in (tmp_path / "a").iterdir():
        content = path.read_bytes()
        assert str(SEED).encode() not in content
        assert SEED.to_bytes(4, "little") not in content
    a, b = (load_model(tmp_path / name).estimator.coef_ for name in "ab")
    assert (a == b).all()
    code, out, _ = dplateau("account", "--run", tmp_path / "a" / "certificate.json")
    assert code == 1
    assert "certifies nothing" in out


def test_svc_and_linear(dplateau, table, tmp_path):
    common = ("--epsilon", 2, "--steps", 50, "--json", "--test", table / "holdout.csv")
    code, out, _ = dplateau(
        "train", table / "rows.csv", "--schema", table / "schema.toml", "--model", "svc", "--output", tmp_path / "svc", *common
    )
    assert code == 0
    assert json.loads(out)["test_accuracy"] > 0.7
    schema = (table / "schema.toml").read_text()
    schema = schema.replace('type = "number"', 'type = "target"').replace(
        'type = "target"\nclasses = ["no", "yes"]', 'type = "category"\nvalues = ["no", "yes"]'
    )
    (tmp_path / "age.toml").write_text(schema)
    code, out, err = dplateau(
        "train", table / "rows.csv", "--schema", tmp_path / "age.toml", "--output", tmp_path / "linear", *common
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["test_accuracy"] is None
    assert result["test_rmse"] < 29  # the standard deviation of the ages
    model = load_model(tmp_path / "linear")
    assert model.rmse(model.read(table / "holdout.csv")) == result["test_rmse"]


def test_the_progress_bar_shows_steps_speed_and_time(table, tmp_path):
    command = ["train", "rows.csv", "--schema", "schema.toml", "--epsilon", "1", "--steps", "3000", "--output", tmp_path / "model"]
    terminal, other_end = pty.openpty()
    script = [sys.executable, "-c", "from dplateau.cli.main import run; run()", *map(str, command)]
    with subprocess.Popen(
        script, cwd=table, stdout=subprocess.PIPE, stderr=other_end, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    ) as process:
        os.close(other_end)
        shown = b""
        with suppress(OSError):  # how Linux tells that the other end is closed
            while part := os.read(terminal, 4096):
                shown += part
        assert process.stdout is not None
        assert b"\x1b" not in process.stdout.read()  # a pipe
    os.close(terminal)
    assert process.returncode == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    lines = {line.strip() for line in re.split(r"[\r\n]+", plain)} - {""}
    clock = r"(\d+:\d\d:\d\d|-:--:--)"
    assert len(lines) > 1
    for line in lines:
        assert re.fullmatch(rf"training [^\w ]+ +\d+/(\?|3000) steps(, [\d,]+/s)? +{clock} left( {clock})?", line), line


def test_an_interrupt_leaves_nothing(dplateau, table, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise TrainingInterrupted

    monkeypatch.setattr(TableModel, "train", interrupted)
    code, out, err = dplateau(
        "train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1, "--output", tmp_path / "model"
    )
    assert (code, out) == (130, "")
    assert err == "dplateau: stopped.\n"
    assert list(tmp_path.iterdir()) == []


def test_divergence_is_one_line(dplateau, table, tmp_path, monkeypatch):
    def diverged(*_, **__):
        raise TrainingDiverged("the weights are no longer finite")

    monkeypatch.setattr(TableModel, "train", diverged)
    code, _, err = dplateau(
        "train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1, "--output", tmp_path / "model"
    )
    assert (code, err) == (2, "dplateau: the weights are no longer finite\n")
    assert list(tmp_path.iterdir()) == []


def test_the_private_file_is_no_public_hold_out(dplateau, table, tmp_path):
    (tmp_path / "link.csv").symlink_to(table / "rows.csv")
    train = ("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1, "--output", tmp_path / "model")
    for test in (table / "rows.csv", tmp_path / "link.csv"):
        code, out, err = dplateau(*train, "--test", test)
        assert (code, out) == (2, "")
        assert "is the private file itself" in err
    assert not (tmp_path / "model").exists()


def test_what_is_wrong_with_the_hold_out_is_told_with_its_name(dplateau, table, tmp_path):
    (tmp_path / "public.csv").write_text("age,colour,ill\nold,red,no\n")
    code, out, err = dplateau(
        *("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1),
        *("--test", tmp_path / "public.csv", "--output", tmp_path / "model"),
    )
    assert (code, out) == (2, "")
    assert err.startswith(f"dplateau: {tmp_path / 'public.csv'}: column 'age'")
    assert err.count("public.csv") == 1


def test_the_demo(dplateau, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = dplateau("demo", "--json", "--report", page)
    assert (code, err) == (0, "")
    assert "whether one particular row was in the data" in page.read_text(encoding="utf-8")
    result = json.loads(out)
    assert result["test_accuracy"] > 0.85
    assert result["epsilon"] <= 1
    assert result["model"] is None
    jsonschema.validate(result["certificate"], certificate_schema())


def test_the_demo_looks_at_the_page_before_it_trains(dplateau, tmp_path, monkeypatch):
    monkeypatch.setattr(TableModel, "train", lambda *_, **__: pytest.fail("trained"))
    code, out, err = dplateau("demo", "--report", tmp_path / "nowhere" / "page.html")
    assert (code, out) == (2, "")
    assert err.endswith("nowhere is not a folder. Create it first.\n")


def test_a_spelling_in_the_public_file_is_warned_about_before_anything_is_spent(dplateau, table, tmp_path):
    text = (table / "holdout.csv").read_text().replace("red", "Red").replace("blue", "BLUE")
    (tmp_path / "public.csv").write_text(text)
    (tmp_path / "others.csv").write_text("a,b\n1,2\n")
    code, _, err = dplateau(
        *("train", tmp_path / "others.csv", "--schema", table / "schema.toml", "--test", tmp_path / "public.csv", "--epsilon", 1),
    )
    assert code == 2
    warning, error = err.splitlines()
    assert warning.startswith("dplateau: warning: column 'colour': no entry fits the schema in the public file")
    assert "declared: add it to the aliases" in warning
    assert "lacks column 'age'" in error


def test_few_rows_at_a_small_epsilon_are_warned_about_before_anything_is_spent(dplateau, table, tmp_path, monkeypatch):
    """2,000 rows: the noise is as large as 307 of them at epsilon 0.01, and as 31 at 0.1."""
    monkeypatch.setattr(TableModel, "save", lambda *_, **__: None)
    for epsilon, warned in ((0.01, True), (0.1, False)):
        code, _, err = dplateau("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", epsilon, "--steps", 5)
        assert code == 0
        assert err.startswith("dplateau: warning: few rows for epsilon 0.01: there are 2,000") is warned
        assert ("few rows" in err) is warned


def test_a_packed_file_in_pieces(dplateau, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress((table / "rows.csv").read_bytes()))
    code, out, err = dplateau(
        *("train", "rows.csv.gz", "--schema", table / "schema.toml", "--test", table / "holdout.csv", "--epsilon", 2, "--stream"),
        "--json",
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["model"] == "rows-model"
    assert json.loads(out)["test_accuracy"] > 0.6
