import json
import os
from pathlib import Path

import pytest

import dplateau as dp

MNIST = ["--n", 60_000, "--batch-size", 256, "--noise-multiplier", 1.3]
KEYS = ["epsilon", "delta", "noise_multiplier", "bound", "status", "choice", "adjacency", "released", "bounds", "run"]


def test_json_is_what_the_library_says(dplateau):
    code, out, err = dplateau("account", *MNIST, "--steps", 3516, "--json")
    run = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=3516, noise_multiplier=1.3)
    assert (code, err) == (0, "")
    assert json.loads(out) == dp.account(run).to_dict()
    assert list(json.loads(out)) == KEYS
    assert all(
        list(bound) == ["name", "status", "epsilon", "enclosure", "why_not", "source"] for bound in json.loads(out)["bounds"]
    )
    assert round(json.loads(out)["epsilon"], 4) == 0.9687


def test_epochs_are_steps(dplateau):
    assert dplateau("account", *MNIST, "--epochs", 15, "--json") == dplateau("account", *MNIST, "--steps", 3516, "--json")


def test_every_field_is_an_option(dplateau):
    options = (
        "--n 100 --sampling cyclic --batch-size 20 --steps 50 --noise-multiplier 40 --clip-norm 2 --step-size 0.1 --smoothness 1"
    )
    more = "--strong-convexity 0.5 --diameter 3 --adjacency replace --released last --delta 1e-4 --json"
    _, out, _ = dplateau("account", *options.split(), *more.split())
    assert dp.Run.from_dict(json.loads(out)["run"]) == dp.Run(
        n=100,
        sampling=dp.Cyclic(20),
        steps=50,
        noise_multiplier=40.0,
        clip_norm=2.0,
        step_size=0.1,
        smoothness=1.0,
        strong_convexity=0.5,
        diameter=3.0,
        adjacency="replace",
        released="last",
    )
    assert json.loads(out)["delta"] == 1e-4


def test_a_run_from_a_file(dplateau, tmp_path):
    run = dp.Run(n=6, sampling=dp.Cyclic((1, 2, 3)), steps=3, noise_multiplier=(30.0, 40.0, 50.0))
    (tmp_path / "run.json").write_text(run.to_json())
    code, out, _ = dplateau("account", "--run", tmp_path / "run.json", "--json", "--delta", 1e-3)
    assert code == 0
    assert json.loads(out) == dp.account(run, delta=1e-3).to_dict()


def test_the_table_names_every_bound(dplateau):
    code, out, err = dplateau("account", *MNIST, "--epochs", 15)
    assert (code, err) == (0, "")
    assert "epsilon 0.968698 at delta 1.66667e-06" in out
    for word in ("Proved", "Asymptotic", "gdp-clt", "Poisson batches of 256", "add-remove"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 80


def test_delta_of_one_row_is_warned_about(dplateau):
    code, _, err = dplateau("account", "--n", 1000, "--sampling", "full", "--steps", 3, "--noise-multiplier", 5, "--delta", 0.01)
    assert code == 0
    assert err.startswith("dplateau: warning: delta 0.01 is at least 1/n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--n 100", "--noise-multiplier, --steps"),
        ("--n 100 --noise-multiplier 1 --steps 3", "--sampling poisson needs --batch-size"),
        ("--n 100 --noise-multiplier 1 --steps 3 --epochs 2 --batch-size 10", "both given"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 10 --sampling full", "leave out --batch-size"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 10 --sampling magic", "expected one of poisson"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 101", "batch_size 101 exceeds n = 100"),
        ("--n 100 --noise-multiplier nan --steps 3 --batch-size 10", "noise_multiplier is nan"),
        ("--n 100 --noise-multiplier inf --steps 3 --batch-size 10", "noise_multiplier is inf"),
        ("--n 100 --noise-multiplier 0 --steps 3 --batch-size 10", "noise_multiplier is 0"),
        ("--n 0 --noise-multiplier 1 --steps 3 --batch-size 10", "n is 0"),
        ("--n 100 --noise-multiplier 1 --steps 0 --batch-size 10", "steps is 0"),
        ("--n 100 --noise-multiplier 1 --epochs nan --batch-size 10", "--epochs is nan"),
        ("--n 100 --noise-multiplier 1 --epochs -1 --batch-size 10", "--epochs is -1"),
        ("--n 100 --noise-multiplier 1 --epochs inf --batch-size 10", "--epochs is inf"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 10 --delta 0", "delta is 0"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 10 --delta 1", "delta is 1"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 10 --delta nan", "delta is nan"),
        ("--n 100 --noise-multiplier 1 --steps 3 --batch-size 10 --adjacency near", "adjacency is 'near'"),
        ("--n many", "Invalid value for '--n'"),
        ("--magic", "No such option: --magic"),
        ("--run no.json", "no.json: there is no such file"),
        ("--run .", "folder without certificate.json"),
        ("--run no.json --n 3", "no such file"),
    ],
)
def test_bad_input_is_one_line(dplateau, options, message):
    code, out, err = dplateau("account", *options.split())
    assert (code, out) == (2, "")
    assert err.startswith("dplateau: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_file_and_options_contradict_each_other(dplateau, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(dp.Run(n=10, sampling=dp.FullBatch(), steps=3, noise_multiplier=9.0).to_json())
    code, _, err = dplateau("account", "--run", path, "--n", 3, "--clip-norm", 2)
    assert code == 2
    assert "--run and --n, --clip-norm are both given" in err
    path.write_text("[1, 2")
    code, _, err = dplateau("account", "--run", path)
    assert code == 2
    assert f"{path}: this is not JSON" in err


PHASES = dp.compose(
    dp.Run(n=1000, sampling=dp.Poisson(20), steps=30, noise_multiplier=1.5),
    dp.Run(n=1000, sampling=dp.FullBatch(), steps=2, noise_multiplier=(8.0, 9.0)),
)


def test_composed_runs_from_a_file(dplateau, tmp_path):
    (tmp_path / "runs.json").write_text(json.dumps(PHASES.to_dict()))
    code, out, err = dplateau("account", "--run", tmp_path / "runs.json", "--json", "--delta", 1e-4)
    assert (code, err) == (0, "")
    assert json.loads(out) == dp.account(PHASES, delta=1e-4).to_dict()
    assert list(json.loads(out)) == KEYS
    code, out, _ = dplateau("account", "--run", tmp_path / "runs.json", "--delta", 1e-4)
    assert code == 0
    for words in (
        "run 1         30 steps (0.6 epochs), Poisson",
        "run 2         2 steps",
        "multiplier 8 to 9",
        "of run 1: it is for",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


RUN = {"format": 1, "n": 10, "sampling": {"kind": "full"}, "steps": 1, "noise_multiplier": 9}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 1, "runs": []}, "no run to compose"),
        ({"format": 2, "runs": [RUN]}, "the runs have format 2"),
        ({"format": 1, "runs": 3}, 'a list "runs"'),
        ({"format": 1, "runs": [RUN], "n": 10}, 'with "format" and a list "runs"'),
        ({"format": 1, "runs": [{"format": 1, "n": 3}]}, "the run lacks the fields"),
        ({"format": 1, "runs": [RUN, {**RUN, "n": 11}]}, "differ in n (10 and 11)"),
        ({"format": 1, "runs": [RUN, {**RUN, "adjacency": "replace"}]}, "differ in adjacency"),
        ({"format": 1, "runs": [{**RUN, "noise_multiplier": 0}]}, "noise_multiplier is 0"),
    ],
)
def test_bad_composed_runs_are_one_line(dplateau, tmp_path, content, message):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(content))
    code, out, err = dplateau("account", "--run", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"dplateau: {path}: ")
    assert err.count("\n") == 1
    assert message in err


def test_composed_runs_and_options_contradict_each_other(dplateau, tmp_path):
    (tmp_path / "runs.json").write_text(json.dumps(PHASES.to_dict()))
    code, _, err = dplateau("account", "--run", tmp_path / "runs.json", "--n", 3)
    assert code == 2
    assert "--run and --n are both given" in err


def test_accounting_does_not_load_what_training_needs(process):
    code = (
        "import sys; from dplateau.cli.main import status; "
        "assert status(['account', '--help']) == 0; "
        "assert status('account --n 100 --sampling full --steps 3 --noise-multiplier 5'.split()) == 0; "
        "print({'jax', 'sklearn', 'pyarrow', 'cryptography'} & set(sys.modules), file=sys.stderr)"
    )
    done = process(code=code)
    assert (done.returncode, done.stderr) == (0, "set()\n")


@pytest.fixture
def certificates(tmp_path):
    """Two certificates of runs on the same records, and one that certifies nothing."""
    from dplateau.certificate import DeclaredTraining, make_certificate
    from dplateau.spec import Generator
    from dplateau.spec import assumption as a

    lines = (a.PublicConstants(), a.Batches(scheme="poisson"), a.Noise(grid=True), a.Divisor(), a.Steps(), a.Features())
    lines += (a.Arithmetic(rounding="exact"), a.Clipping(clip_norm=1.0))
    secret, seeded = (Generator("AES-256-CTR", key) for key in ("operating-system", "fixed-seed"))

    runs = [dp.Run(n=1000, sampling=dp.Poisson(20), steps=30, noise_multiplier=z) for z in (1.5, 2.0)]
    for name, run, delta, generator in (
        ("a", runs[0], 1e-5, secret),
        ("b", runs[1], 1e-6, secret),
        ("seeded", runs[0], 1e-5, seeded),
    ):
        made = make_certificate(dp.account(run, delta), DeclaredTraining(run, lines, generator))
        made.write(tmp_path / f"{name}.json")
    (tmp_path / "run.json").write_text(runs[0].to_json())
    (tmp_path / "runs.json").write_text(json.dumps(PHASES.to_dict()))
    (tmp_path / "other.json").write_text(runs[0].replace(n=999).to_json())
    return runs


@pytest.mark.parametrize("names", ["a b", "b a", "a a", "run b", "a runs", "a b run"])
def test_several_files_are_composed(dplateau, tmp_path, certificates, names):
    first, second = certificates
    known = {"a": first, "b": second, "run": first, "runs": PHASES}
    total = dp.compose(*(known[name] for name in names.split()))
    files = [argument for name in names.split() for argument in ("--run", tmp_path / f"{name}.json")]
    delta = 1e-6 if "b" in names else 1e-5
    code, out, err = dplateau("account", *files, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == dp.account(total, delta=delta).to_dict()
    assert json.loads(out)["epsilon"] > max(dp.account(known[name], delta).epsilon for name in names.split())
    code, out, _ = dplateau("account", *files, "--delta", 1e-4)
    assert code == 0
    assert "agrees" not in out
    assert f"epsilon {dp.account(total, 1e-4).epsilon:.4}"[:-1] in out


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("a seeded", "seeded.json certifies nothing, so its run was not protected"),
        ("a other", "the runs differ in n (999 and 1000)"),
        ("a none", "none.json: there is no such file"),
    ],
)
def test_several_files_that_do_not_compose(dplateau, tmp_path, certificates, names, message):
    files = [argument for name in names.split() for argument in ("--run", tmp_path / f"{name}.json")]
    code, out, err = dplateau("account", *files)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    code, _, err = dplateau("account", "--run", tmp_path / "a.json", "--run", tmp_path / "b.json", "--n", 3)
    assert (code, err) == (
        2,
        "dplateau: --run and --n are both given: the file says everything about the run, so leave the rest out.\n",
    )


@pytest.mark.usefixtures("certificates")
def test_a_certificate_is_not_answered_at_other_numbers(dplateau, tmp_path):
    for options in (("--delta", 1e-9), ("--n", 1000), ("--adjacency", "add-remove"), ("--l2", 0)):
        code, out, err = dplateau("account", "--run", tmp_path / "a.json", *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "a certificate says everything about its run" in err


@pytest.mark.usefixtures("certificates")
@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs pipes that have names")
@pytest.mark.parametrize("command", ["account", "calibrate --epsilon 9"])
def test_a_certificate_in_a_pipe(dplateau, tmp_path, command):
    """It can be read once."""
    file = tmp_path / "a.json"
    reading, writing = os.pipe()
    os.write(writing, file.read_bytes())
    os.close(writing)
    try:
        answer = dplateau(*command.split(), "--run", f"/dev/fd/{reading}", "--json")
    finally:
        os.close(reading)
    assert answer[0] == 0
    assert answer == dplateau(*command.split(), "--run", file, "--json")


def test_a_rate_is_no_batch_size(dplateau):
    code, out, err = dplateau("account", "--n", 60_000, "--batch-size", 0.004, "--steps", 1000, "--noise-multiplier", 1)
    assert (code, out) == (2, "")
    assert "expected a number of records, the mean size of a batch, and not a rate" in err
    assert "give batch_size 240" in err
