import json

import pytest

import dplateau as dp


def answer(dplateau, *options) -> dict:
    code, out, err = dplateau("calibrate", *options, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


KEYS = ["epsilon", "delta", "noise_multiplier", "bound", "status", "choice", "adjacency", "released", "bounds", "run"]


def test_noise(dplateau):
    found = answer(dplateau, "--epsilon", 2, "--n", 10_000, "--batch-size", 100, "--steps", 10_000)
    assert round(found["noise_multiplier"], 3) == 2.127
    assert 1.99 < found["epsilon"] <= 2
    assert list(found) == KEYS
    assert dp.account(dp.Run.from_dict(found["run"]), delta=1e-5).epsilon == found["epsilon"]


def test_steps(dplateau):
    options = ("--epsilon", 2, "--n", 10_000, "--noise-multiplier", 20, "--vary", "steps", "--sampling", "full", "--delta", 1e-6)
    steps = answer(dplateau, *options)["run"]["steps"]
    run = dp.Run(n=10_000, sampling=dp.FullBatch(), steps=steps, noise_multiplier=20.0)
    assert dp.account(run, 1e-6).epsilon <= 2 < dp.account(run.replace(steps=steps + 1), 1e-6).epsilon


def test_batch_size(dplateau):
    options = ("--epsilon", 2, "--n", 10_000, "--noise-multiplier", 2, "--steps", 1000, "--vary", "batch-size")
    size = answer(dplateau, *options)["run"]["sampling"]["batch_size"]
    run = dp.Run(n=10_000, sampling=dp.Poisson(size), steps=1000, noise_multiplier=2.0)
    assert dp.account(run).epsilon <= 2 < dp.account(run.replace(sampling=dp.Poisson(size + 1))).epsilon


def test_the_page_shows_answer_and_certified_epsilon(dplateau):
    code, out, _ = dplateau("calibrate", "--epsilon", 2, "--n", 10_000, "--sampling", "full", "--steps", 100)
    assert code == 0
    first, second = out.splitlines()[:2]
    shown = float(first.removeprefix("noise-multiplier "))
    run = dp.Run(n=10_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=shown)
    assert dp.account(run).epsilon <= 2  # the number on the page may be copied
    assert second == "epsilon 2 at delta 1e-05   Proved"


def test_noise_of_a_file_keeps_its_shape(dplateau, tmp_path):
    run = dp.Run(n=6, sampling=dp.Cyclic((1, 2, 3)), steps=3, noise_multiplier=(3.0, 4.0, 5.0))
    (tmp_path / "run.json").write_text(run.to_json())
    found = answer(dplateau, "--epsilon", 0.5, "--run", tmp_path / "run.json")
    z = found["noise_multiplier"]
    assert z[1] / z[0] == pytest.approx(4 / 3)
    assert found["epsilon"] <= 0.5


@pytest.fixture
def phases(tmp_path):
    """A file of two runs."""
    first = dp.Run(n=1000, sampling=dp.Poisson(20), steps=30, noise_multiplier=1.0)
    second = dp.Run(n=1000, sampling=dp.FullBatch(), steps=2, noise_multiplier=(8.0, 16.0))
    (tmp_path / "runs.json").write_text(json.dumps(dp.compose(first, second).to_dict()))
    return tmp_path / "runs.json"


def test_noise_of_composed_runs(dplateau, phases):
    found = answer(dplateau, "--epsilon", 0.5, "--run", phases, "--delta", 1e-4)
    z, (low, high) = found["noise_multiplier"]
    assert (low / z, high / z) == pytest.approx((8, 16))
    assert 0.49 < found["epsilon"] <= 0.5
    assert dp.account(dp.Runs.from_dict(found["run"]), delta=1e-4).epsilon == found["epsilon"]
    code, out, _ = dplateau("calibrate", "--epsilon", 0.5, "--run", phases, "--delta", 1e-4)
    assert code == 0
    first, second = out.splitlines()[:2]
    assert first.startswith("noise-multiplier ")
    assert float(first.removeprefix("noise-multiplier ").split(",")[0]) == pytest.approx(z, rel=1e-8)
    assert second == "epsilon 0.5 at delta 0.0001   Proved"


@pytest.mark.parametrize("vary", ["steps", "batch-size"])
def test_only_the_noise_of_composed_runs(dplateau, phases, vary):
    code, out, err = dplateau("calibrate", "--epsilon", 0.5, "--run", phases, "--vary", vary)
    assert (code, out) == (2, "")
    assert "of several runs only the noise is calibrated" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--n 100 --sampling full --steps 3", "Missing option '--epsilon'"),
        ("--epsilon 0 --n 100 --sampling full --steps 3", "epsilon is 0"),
        ("--epsilon -1 --n 100 --sampling full --steps 3", "epsilon is -1"),
        ("--epsilon nan --n 100 --sampling full --steps 3", "epsilon is nan"),
        (
            "--epsilon 1 --n 100 --sampling full --steps 3 --noise-multiplier 2",
            "--noise-multiplier is what the command searches for",
        ),
        (
            "--epsilon 1 --n 100 --sampling full --vary steps --epochs 2 --noise-multiplier 2",
            "--steps is what the command searches for",
        ),
        ("--epsilon 1 --n 100 --vary batch-size --epochs 2 --noise-multiplier 2", "give --steps"),
        (
            "--epsilon 1 --n 100 --vary batch-size --sampling full --steps 2 --noise-multiplier 2",
            "poisson, fixed-size or random-allocation",
        ),
        ("--epsilon 1 --n 100 --vary batch-size --sampling full --batch-size 9 --noise-multiplier 2", "--batch-size is what"),
        ("--epsilon 1 --n 100 --sampling full --steps 3 --vary luck", "expected one of noise-multiplier"),
        ("--epsilon 0.001 --n 100 --sampling full --vary steps --noise-multiplier 2", "even steps = 1 costs more"),
    ],
)
def test_bad_input_is_one_line(dplateau, options, message):
    code, out, err = dplateau("calibrate", *options.split())
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_the_run_of_a_certificate(dplateau, tmp_path):
    from dplateau.certificate import DeclaredTraining, make_certificate
    from dplateau.spec import Generator
    from dplateau.spec import assumption as a

    run = dp.Run(n=1000, sampling=dp.FullBatch(), steps=3, noise_multiplier=9.0)
    lines = a.PublicConstants(), a.Batches(scheme="full"), a.Clipping(clip_norm=1.0), a.Divisor(), a.Noise(grid=True)
    facts = (*lines, a.Steps(), a.Features(), a.Arithmetic(rounding="exact"))
    elsewhere = DeclaredTraining(run, facts, Generator("AES-256-CTR", "operating-system"))
    make_certificate(dp.account(run), elsewhere).write(tmp_path / "certificate.json")
    found = answer(dplateau, "--epsilon", 0.1, "--run", tmp_path / "certificate.json")
    assert found["epsilon"] <= 0.1
    assert found["run"]["steps"] == 3
