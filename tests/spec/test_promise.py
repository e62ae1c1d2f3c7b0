"""One default of delta, and one rule for when an epsilon is weak, on all surfaces."""

import inspect
import json
import warnings

import numpy as np
import pytest

import dplateau as dp
from dplateau.certificate import make_certificate
from dplateau.report.text import as_text, certificate_text, headline
from dplateau.spec.arguments import real
from dplateau.spec.promise import usual_delta, weakness

X = np.random.default_rng(0).normal(size=(300, 2)) / 3
Y = X[:, 0] > 0


def weak(epsilon):
    """The warnings of a fit, and the fit."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = dp.PrivateLogisticRegression(epsilon=epsilon, delta=1e-5, classes=[False, True], max_iter=5).fit(X, Y)
    return [one for one in seen if issubclass(one.category, dp.WeakPrivacyWarning)], model


@pytest.mark.parametrize(("n", "delta"), [(1, 1e-5), (10_000, 1e-5), (20_000, 5e-6), (10**9, 1e-10)])
def test_the_usual_delta_is_a_tenth_of_a_record_and_at_most_1e_5(n, delta):
    assert usual_delta(n) == pytest.approx(delta, rel=1e-12)


def test_every_surface_has_the_same_delta(dplateau_status, tmp_path):
    n = 30_000
    run = dp.Run(n=n, sampling=dp.FullBatch(), steps=4, noise_multiplier=10.0)
    wanted = usual_delta(n)
    assert dp.account(run).delta == wanted
    assert dp.plan(n, 5, epsilon=1.0).delta == wanted
    assert dp.account(dp.calibrate(run, epsilon=1.0)).epsilon == pytest.approx(1.0, rel=1e-4)
    assert dp.PrivateLogisticRegression()._delta(n) == wanted
    described = ("--n", n, "--sampling", "full", "--steps", 4, "--noise-multiplier", 10, "--json")
    for command in (
        ("account", *described),
        ("calibrate", "--epsilon", 1, *described[:6], "--json"),
        ("plot-trade-off", *described),
        ("plot-plateau", *described),
        ("plan", "--n", n, "--d", 5, "--epsilon", 1, "--json"),
    ):
        assert dplateau_status(*command)["delta"] == wanted, command


def test_no_other_default_of_delta_is_written_down():
    for one in (dp.account, dp.calibrate, dp.plan, dp.PrivateLogisticRegression, dp.PrivateGridSearch):
        assert inspect.signature(one).parameters["delta"].default is None


@pytest.fixture
def dplateau_status(capsys):
    """What a command prints as JSON."""
    from dplateau.cli.main import status

    def call(*arguments):
        assert status([str(one) for one in arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return call


@pytest.mark.parametrize(("epsilon", "is_weak"), [(0.1, False), (10.0, False), (10.5, True), (1e6, True)])
def test_one_rule_says_when_an_epsilon_is_weak(epsilon, is_weak):
    assert (weakness(epsilon) is not None) is is_weak
    seen, model = weak(epsilon)
    assert (len(seen) == 1) is is_weak
    assert ("promises little" in str(model.certificate_)) is is_weak
    assert ("promises little" in as_text(certificate_text(model.certificate_))) is is_weak
    colours = {str(span.style) for span in headline(model.epsilon_, 1e-5, 1000, "Proved", good=True).spans}
    assert any("green" in colour for colour in colours) is not is_weak
    assert as_text(certificate_text(model.certificate_)) == str(model.certificate_)


@pytest.mark.parametrize(("delta", "green"), [(1e-4, True), (1e-3, False), (0.1, False)])
def test_nothing_is_green_where_delta_allows_publishing_a_record(delta, green):
    colours = {str(span.style) for span in headline(1.0, delta, 1000, "Proved", good=True).spans}
    assert any("green" in colour for colour in colours) is green


def test_the_warning_comes_before_anything_is_drawn_or_reserved(monkeypatch):
    monkeypatch.setattr(dp.PrivateLogisticRegression, "_reserve", lambda *_: pytest.fail("reserved"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", dp.WeakPrivacyWarning)
        with pytest.raises(dp.WeakPrivacyWarning, match="epsilon is 1000: an epsilon above 10 promises little"):
            dp.PrivateLogisticRegression(epsilon=1000.0, classes=[False, True]).fit(X, Y)
        with pytest.raises(dp.WeakPrivacyWarning):
            dp.plan(1000, 5, epsilon=11.0)
        with pytest.raises(dp.WeakPrivacyWarning):
            dp.PrivateGridSearch(dp.PrivateLogisticRegression(classes=[False, True]), {"l2": [0.0, 0.1]}, epsilon=20.0).fit(X, Y)


def test_what_certifies_nothing_is_not_called_weak():
    run = dp.Run(n=100, sampling=dp.FullBatch(), steps=1, noise_multiplier=0.05)
    from dplateau.certificate import DeclaredTraining
    from dplateau.spec import Generator, Key
    from dplateau.spec.assumption import Arithmetic, Batches, Clipping, Divisor, Features, Noise, PublicConstants, Steps
    from dplateau.spec.facts import Rounding

    facts = (
        *(PublicConstants(), Features(), Batches(scheme="full"), Noise(grid=True), Divisor(), Clipping(clip_norm=1.0)),
        *(Arithmetic(rounding=Rounding.EXACT), Steps()),
    )
    made = [
        make_certificate(dp.account(run), DeclaredTraining(run, facts, Generator("AES-256-CTR", key)))
        for key in (Key.OPERATING_SYSTEM, Key.FIXED_SEED)
    ]
    assert real("epsilon", made[0].epsilon) > 10
    assert made[0].weak is not None
    assert made[1].weak is None


def test_the_command_line_warns_once_and_says_it_in_the_certificate(tmp_path, capsys):
    from dplateau.cli.main import status

    schema = '[columns.a]\ntype = "number"\nlow = 0\nhigh = 1\n[columns.y]\ntype = "target"\nclasses = ["n", "p"]\n'
    (tmp_path / "s.toml").write_text(schema)
    (tmp_path / "r.csv").write_text("a,y\n" + "0.1,n\n0.9,p\n" * 30)
    train = ["train", str(tmp_path / "r.csv"), "--schema", str(tmp_path / "s.toml"), "--epsilon", "1e6", "--steps", "3"]
    assert status([*train, "--output", str(tmp_path / "m")]) == 0
    out, err = capsys.readouterr()
    assert err == (
        "dplateau: warning: epsilon is 1e+06: an epsilon above 10 promises little: taken alone, it allows an attacker "
        "to be nearly certain about a row.\n"
    )
    assert "promises little" in " ".join(out.split())
