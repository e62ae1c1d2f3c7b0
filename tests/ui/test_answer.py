"""What the planner page says is what the library says."""

import json
import math
import shlex
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import gdp_mu
from dplateau.accounting.trade_offs import Gaussian
from dplateau.calibration import _LONG, _SHORT
from dplateau.cli.main import status
from dplateau.losses import Logistic
from dplateau.planning import MOST_WEIGHTS as PLANNED
from dplateau.report.trade_off import trade_offs
from dplateau.ui.answer import MOST_WEIGHTS, PARTS, WORTH, answer, pieces, warm_up
from dplateau.ui.curves import _rows
from dplateau.ui.noise import at_step_size, calibrated, composition, found, rough, step_size_of
from dplateau.ui.settings import LIPSCHITZ, NUMBERS, PRESETS, RISK_AT_START, SCHEMES, SMOOTHNESS, Settings, SettingsError

FULL = Settings()
CYCLIC = Settings(sampling="cyclic", epochs=50)
SHUFFLED = Settings(sampling="shuffled", epochs=50, adjacency="replace")
ALLOCATED = Settings(sampling="random-allocation", epochs=50)
POISSON = Settings(sampling="poisson", epochs=50)
ONCE = Settings(sampling="one-pass")
FIXED = Settings(sampling="fixed-size", epochs=50)
EVERY = (FULL, CYCLIC, SHUFFLED, ONCE, FIXED, ALLOCATED, POISSON)
MORE = 2e-5
"""Noise of bounds that take their time is found to this share, and never too small."""
NEAR = {"random-allocation": 1e-4, "poisson": 1e-5, "fixed-size": 1e-5, "shuffled": 5e-6}
"""How far below the target ``calibrate`` may come, where it is not 1e-6."""
names = [settings.sampling for settings in EVERY]


def test_constants_are_those_of_the_loss_and_the_planner():
    loss = Logistic()
    assert (loss.lipschitz(1.0), loss.smoothness(1.0), loss.at_zero) == (LIPSCHITZ, SMOOTHNESS, RISK_AT_START)
    assert MOST_WEIGHTS == PLANNED


@pytest.mark.parametrize("settings", EVERY, ids=names)
def test_the_noise_is_that_of_calibrate(settings):
    best = found(settings)
    run = settings.run(step_size_of(settings))
    exact = dp.calibrate(run, epsilon=settings.epsilon, delta=settings.delta)
    less = MORE if settings.by_lot else 1e-8  # calibrate itself is as near as that
    assert exact.noise_multiplier * (1 - less) <= best.noise <= exact.noise_multiplier * (1 + MORE)
    assert settings.scheme.allocated or best.noise == exact.noise_multiplier
    assert dp.account(best.run, settings.delta).epsilon <= settings.epsilon
    assert best.epsilon == pytest.approx(settings.epsilon, rel=NEAR.get(settings.sampling, 1e-6))


@pytest.mark.parametrize("start", [0.05, 3.0, 200.0])
def test_a_search_may_begin_anywhere(start):
    run = ALLOCATED.run(0.1, start)
    best = calibrated(run, 1.0, 1e-6)
    exact = at_step_size(ALLOCATED, 0.1).noise
    assert best.noise == pytest.approx(exact, rel=NEAR["random-allocation"])
    assert dp.account(best.run, 1e-6).epsilon <= 1.0


def test_a_search_across_a_jump_stays_certified(monkeypatch):
    monkeypatch.setattr("dplateau.ui.settings.MOST_RARE", 2000)
    settings = Settings(sampling="poisson", batch=30, epochs=50, epsilon=10)
    best = found(settings)
    assert best.best.name == "sampled-last-iterate"
    assert 9.9 < dp.account(best.run, settings.delta).epsilon <= best.epsilon * (1 + 1e-12) <= 10.0
    exact = dp.calibrate(settings.run(step_size_of(settings)), epsilon=10, delta=settings.delta).noise_multiplier
    assert exact * (1 - 1e-3) <= best.noise <= exact * (1 + 1e-3)


def test_random_allocation_has_whole_batches_of_equal_expected_size():
    settings = Settings(n=1003, sampling="random-allocation", batch=100, epochs=3, delta=1e-5)
    said = answer(settings, "noise")
    run = found(settings).run
    assert (said["rows"], said["steps"], settings.size) == (1003, 33, 1003 / 11)
    assert run.sampling == dp.RandomAllocation(100)
    assert said["noise_of_mean"] == pytest.approx(said["noise"] * 11 / 1003)
    assert "here 11: they have 91.18 expected rows" in said["notes"][0]
    assert "of 91.18 expected rows" in said["training"]
    assert "--n 1003 --sampling random-allocation --batch-size 100 --steps 33 " in said["command"]
    assert not any("whole batches" in note for note in answer(settings.without(n=1000), "noise")["notes"])


def test_random_allocation_counts_on_the_last_iterate_but_for_replacement():
    said = answer(ALLOCATED, "noise")
    assert (said["bound"], said["counts_on_last"], said["notes"]) == ("sampled-last-iterate", True, [])
    assert said["noise"] < 0.75 * composition(ALLOCATED).noise
    assert "the last-iterate bound, once it is below, hardly does" in answer(ALLOCATED, "begins")["words"]
    assert answer(ALLOCATED, "poisson")["noise"] == composition(POISSON).noise
    replaced = ALLOCATED.without(adjacency="replace")
    said = answer(replaced, "noise")
    assert (said["bound"], said["counts_on_last"]) == ("exact-composition", False)
    assert said["noise"] == composition(replaced).noise == found(replaced.without(convex=False)).noise
    assert all(answer(replaced, "worth", piece)["noise"] is None for piece in range(len(WORTH)))
    assert answer(replaced, "begins")["words"] == "Composition grows with every step."
    assert ["a row replaced under random allocation" in note for note in said["notes"]] == [True]
    assert answer(replaced.without(last=False), "noise")["notes"] == []


def test_poisson_batches_count_on_the_last_iterate():
    for settings, name in (
        (POISSON, "sampled-last-iterate"),
        (Settings(sampling="poisson", shrunk=False, ball=True, radius=1, automatic=False, step=0.5), "reflection-coupling"),
    ):
        said = answer(settings, "noise")
        assert (said["bound"], said["counts_on_last"], said["notes"]) == (name, True, [])
        assert said["bound_words"].startswith("the last-iterate bound for random batches")
        assert "--released last" in said["command"]
        assert said["composition"] is None
        assert answer(settings, "composition")["times"] == composition(settings).noise / said["noise"] > 1.3
    alone = found(Settings(sampling="poisson", epochs=1))
    assert alone.best.name == "exact-composition"


def test_poisson_batches_that_take_long_count_on_composition():
    for changes in ({"epochs": 5001.0}, {"batch": 59, "epochs": 10.0}, {"epsilon": 10.1, "epochs": 10.0}):
        settings = Settings(sampling="poisson", **changes)
        said = answer(settings, "noise")
        assert (said["bound"], said["counts_on_last"]) == ("exact-composition", False)
        assert "--released" not in said["command"]
        assert any("takes from seconds to a minute: dplateau calibrate has it" in note for note in said["notes"])
        assert answer(settings, "begins")["words"] == "Composition grows with every step."
        assert all(answer(settings, "worth", piece)["noise"] is None for piece in range(len(WORTH)))
        assert not any("seconds" in note for note in answer(settings.without(last=False), "noise")["notes"])
    assert Settings(sampling="poisson", epochs=5000.0).counts_on_last


def test_the_chosen_step_size_counts_on_the_last_iterate_of_poisson_batches():
    by_composition = step_size_of(POISSON.without(last=False))
    assert step_size_of(POISSON) > by_composition
    shorter = POISSON.without(automatic=False, step=by_composition * POISSON.smoothness / 2)
    assert answer(POISSON, "risk")["bound"] < answer(shorter, "risk")["bound"]


def test_assumptions_that_are_off_cost_noise():
    for settings in (FULL, CYCLIC, SHUFFLED, POISSON):
        assert composition(settings).noise > 1.3 * found(settings).noise
        assert found(settings.without(convex=False)).noise == composition(settings).noise
        for piece in range(len(WORTH)):
            worth = answer(settings, "worth", piece)
            if worth["there"]:
                assert worth["noise"] >= found(settings).noise * (1 - MORE)
            else:
                assert worth["noise"] <= found(settings).noise * (1 + MORE)


@pytest.mark.parametrize("settings", EVERY, ids=names)
def test_more_epsilon_needs_less_noise_and_more_epochs_more(settings):
    fixed = settings.without(automatic=False, step=0.1)
    noises = [found(fixed.without(epsilon=epsilon)).noise for epsilon in (0.1, 0.5, 2.0, 8.0)]
    assert all(a > b for a, b in pairwise(noises))
    longer = [found(fixed.without(epochs=epochs)).noise for epochs in (20, 50, 200)]
    assert all(a <= b * (1 + MORE) for a, b in pairwise(longer))
    assert settings.scheme.once is (longer[0] == longer[-1])  # which has one epoch, whatever the field says
    assert found(fixed.without(delta=1e-9)).noise > found(fixed).noise


@pytest.mark.parametrize("settings", EVERY, ids=names)
def test_command_and_python_find_the_same_noise(settings, capsys):
    said = answer(settings, "noise")
    program, *arguments = shlex.split(said["command"])
    assert program == "dplateau"
    assert status([*arguments, "--json"]) == 0
    least = said["noise"] * (1 - (MORE if settings.by_lot else 3e-8))
    most = said["noise"] * (1 + (MORE if settings.by_lot else 3e-8))
    assert least <= json.loads(capsys.readouterr().out)["noise_multiplier"] <= most
    namespace: dict[str, object] = {}
    exec(said["python"], namespace)
    assert least <= float(capsys.readouterr().out) <= most


@pytest.mark.parametrize("scheme", ["full", "cyclic", "one-pass", "fixed-size", "random-allocation"])
def test_python_trains_as_its_comment_says(scheme):
    small = Settings(n=200, d=3, sampling=scheme, batch=50, epochs=5, epsilon=5, delta=1e-4, shrunk=True, ball=True)
    lines = answer(small, "noise")["python"].splitlines()
    code = "\n".join(line.removeprefix("# ") for line in lines if "To train with it" not in line)
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 3))
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None] * (1 + 1e-12)
    namespace: dict[str, object] = {"features": features, "target": (features[:, 0] > 0).astype(float)}
    exec(code, namespace)
    assert 0 < np.linalg.norm(namespace["weights"]) <= (small.radius if small.counts_on_last else math.inf)


def test_rows_that_fill_no_batch_are_left_out():
    settings = Settings(n=1003, sampling="cyclic", batch=100, epochs=3, delta=1e-5)
    said = answer(settings, "noise")
    assert (said["rows"], said["steps"]) == (1000, 30)
    assert "3 of 1,003 rows" in said["notes"][0]
    assert "59 would" in said["notes"][0]  # 1003 = 17 * 59
    assert "--n 1000 " in said["command"]


def test_where_few_draws_decide_the_noise_is_that_of_calibrate():
    settings = Settings(n=15_000, sampling="poisson", batch=10, epochs=2, epsilon=1, adjacency="replace")
    exact = dp.calibrate(settings.run(1.0), epsilon=1.0, delta=1e-6)
    said = answer(settings, "noise")
    assert (said["noise"], said["bound"]) == (exact.noise_multiplier, "exact-composition")
    assert said["epsilon"] <= 1


@pytest.mark.parametrize(
    "settings",
    [
        Settings(n=4_484_069, sampling="fixed-size", batch=4950, epochs=22, epsilon=0.33, delta=4.5e-5, last=False),
        Settings(n=241_019, sampling="fixed-size", batch=45, epochs=1.1, epsilon=0.14, delta=2.4e-11, adjacency="replace"),
        Settings(n=15_000, sampling="poisson", batch=10, epochs=2, epsilon=1, delta=1e-6, adjacency="replace"),
    ],
    ids=lambda settings: f"{settings.n} rows",
)
def test_the_first_number_is_near_where_few_draws_are_expected(settings):
    # A tilted Gaussian alone is off by 4, 141 and 18 % here.
    assert rough(settings) == pytest.approx(composition(settings).noise, rel=0.01)


@pytest.mark.parametrize("settings", EVERY, ids=names)
def test_plateau_agrees_with_account(settings):
    parts = [answer(settings, "plateau", piece) for piece in range(pieces(settings, "plateau"))]
    rows = {steps: (one["composition"][k], one["certified"][k]) for one in parts for k, steps in enumerate(one["steps"])}
    run = found(settings).run
    assert rows[run.steps][1] == pytest.approx(settings.epsilon, rel=NEAR.get(settings.sampling, 1e-6))
    ordered = sorted(rows)
    assert len(ordered) >= 6
    assert all(rows[a][1] <= rows[b][1] * (1 + 1e-6) for a, b in pairwise(ordered))  # as near as an upper end is
    for steps in (ordered[0], ordered[-1]):
        longer = run.replace(steps=steps)
        assert rows[steps][1] == pytest.approx(dp.account(longer, settings.delta).epsilon, rel=1e-6)
        width = 2e-5 if settings.sampling == "random-allocation" else 1e-6  # an upper end alone may be found on fewer points
        assert rows[steps][0] == pytest.approx(dp.account(longer.replace(released="all"), settings.delta).epsilon, rel=width)


def test_the_plateau_begins_where_more_steps_cost_little():
    for settings in (FULL, CYCLIC, Settings(shrunk=False, ball=True, radius=1, epochs=20_000, automatic=False, step=0.5)):
        begins = answer(settings, "begins")["steps"]
        run = found(settings).run
        length = int(run.sampling.epoch_steps(run.n))
        here, late = (dp.account(run.replace(steps=length * (steps // length)), 1e-6).epsilon for steps in (1.2 * begins, 10**8))
        assert 0.99 * late < here <= late
    assert answer(Settings(shrunk=False), "begins")["steps"] is None
    assert "hardly does" in answer(POISSON, "begins")["words"]
    assert "lets it stop" in answer(Settings(shrunk=False), "begins")["words"]
    assert "(28 epochs)" in answer(CYCLIC, "begins")["words"]
    far = answer(Settings(sampling="cyclic", epochs=60, shrunk=False, ball=True, radius=2), "begins")
    assert (far["steps"], far["ends"]) == (None, True)


@pytest.mark.filterwarnings("ignore::dplateau.spec.PrivacyWarning")
@pytest.mark.parametrize("settings", [ALLOCATED, POISSON, FIXED], ids=["random-allocation", "poisson", "fixed-size"])
def test_trade_off_of_slow_bounds_is_certified_and_close(settings):
    run, last = found(settings).run, pieces(settings, "trade-off") - 1
    rows = [row for piece in range(last + 1) for row in _rows(settings, piece)]
    assert len(rows) >= 12
    for epsilon, delta in rows[1:]:
        assert dp.account(run, delta).epsilon <= epsilon * (1 + 1e-9)
    said = answer(settings, "trade-off", last)
    gaussian = Gaussian(gdp_mu(settings.epsilon, settings.delta))(np.array(said["false_alarms"]))
    assert np.abs(np.array(said["misses"]) - gaussian).max() < 0.03  # the sum of many small steps
    assert (np.array(said["misses"]) >= np.array(said["one_point"]) - 1e-9).all()


@pytest.mark.parametrize("settings", [FULL, CYCLIC, SHUFFLED, POISSON.without(last=False)], ids=lambda one: one.sampling)
def test_trade_off_is_certified_and_close(settings):
    last = answer(settings, "trade-off", pieces(settings, "trade-off") - 1)
    exact = trade_offs(found(settings).run, settings.delta).certified
    proved, misses = exact(np.array(last["false_alarms"])), np.array(last["misses"])  # enclosures may be wide: of moments, say
    assert (misses <= proved + 1e-4).all()  # trade_offs draws a polygon
    assert (misses >= proved - 0.01).all()
    assert (misses >= np.array(last["one_point"]) - 1e-9).all()
    detects = dict(map(tuple, last["readings"]))
    assert detects[0.01] == pytest.approx(dict(trade_offs(found(settings).run, settings.delta).attack.detects)[0.01], rel=0.02)


def test_every_part_answers_at_the_ends_of_the_sliders():
    for scheme in SCHEMES:
        for extreme in (
            {"n": 10, "batch": 10, "epsilon": 100.0, "delta": 1e-15, "epochs": 1.0},
            {"n": 10**8, "batch": 10**6, "epsilon": 0.01, "delta": 0.01, "epochs": 1e4, "d": 10**6},
            {"n": 1000, "batch": 1, "epsilon": 1.0, "epochs": 1e4, "shrunk": False},
        ):
            settings = replace(Settings(sampling=scheme), **extreme)
            for part in PARTS:
                for piece in range(pieces(settings, part)):
                    said = answer(settings, part, piece)
                    numbers = [value for value in said.values() if isinstance(value, float)]
                    assert all(math.isfinite(value) for value in numbers), said


@pytest.mark.parametrize(
    "settings",
    [
        # Early batches of the only epoch are forgotten, and the record is in a late one with less than delta.
        Settings(n=1000, sampling="shuffled", batch=1, epochs=1, delta=0.1, l2=1.0, epsilon=100, automatic=False, step=0.6),
        Settings(n=10_000, sampling="poisson", batch=10, epochs=0.001, delta=0.1),
    ],
    ids=["shuffled", "poisson"],
)
def test_an_epsilon_that_needs_no_noise_is_told_beside_its_field(settings):
    with pytest.raises(SettingsError) as caught:
        answer(settings, "noise")
    assert "needs almost no noise" in caught.value.fields["epsilon"]


def test_unknown_parts_and_pieces_are_refused():
    for part, piece, field in (("nothing", 0, "part"), ("noise", 1, "piece"), ("plateau", -1, "piece")):
        with pytest.raises(SettingsError) as caught:
            answer(FULL, part, piece)
        assert set(caught.value.fields) == {field}


def test_notes_warn_of_what_promises_little():
    said = answer(Settings(n=100, epsilon=20.0, delta=0.05, d=20_000), "noise")
    assert said["doubtful"]
    assert any("at least 1/n" in note for note in said["notes"])
    assert any("promises little" in note for note in said["notes"])
    assert any("10,000 weights" in note for note in said["notes"])
    assert answer(FULL, "noise")["notes"] == []


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("n", "many", "not a number"),
        ("n", "nan", "expected a number"),
        ("n", "10.5", "whole"),
        ("epsilon", "0", "from 0.01 to 100"),
        ("delta", "-1", "expected a number"),
        ("sampling", "two-passes", "expected one of"),
        ("last", "yes", "expected one of"),
        ("colour", "red", "no such field"),
    ],
)
def test_wrong_fields_are_told(field, text, message):
    with pytest.raises(SettingsError) as caught:
        Settings.parse({field: text})
    assert list(caught.value.fields) == [field]
    assert message in caught.value.fields[field]


def test_settings_that_do_not_fit_each_other_are_told():
    for query, field in (
        ({"sampling": "cyclic", "n": "100", "batch": "101"}, "batch"),
        ({"epochs": "0.2"}, "epochs"),
        ({"sampling": "poisson", "n": "100000000", "batch": "1", "epochs": "1"}, "epochs"),
        ({"sampling": "shuffled", "n": "100000", "batch": "1"}, "batch"),
    ):
        with pytest.raises(SettingsError) as caught:
            Settings.parse(query)
        assert list(caught.value.fields) == [field]
    assert Settings.parse({"n": "100", "batch": "101"}).size == 100  # all rows in every step: the batch size is not used


@pytest.mark.parametrize("settings", [*EVERY, Settings(last=False, ball=True, step=0.001, delta=1e-12)])
def test_settings_survive_the_address(settings):
    assert Settings.parse(settings.to_query()) == settings


def test_sliders_lie_within_the_ranges():
    for number in NUMBERS.values():
        low, high = number.reach
        assert number.low <= low < high <= number.high


def test_a_step_size_is_rounded_down():
    for share in (0.99, 0.5, 0.0123456):
        settings = Settings(automatic=False, step=share)
        eta = step_size_of(settings)
        assert eta <= share * 2 / settings.smoothness * (1 + 1e-11)
        assert eta > 0.999 * share * 2 / settings.smoothness


def test_the_first_answer_is_rough_only_where_the_certified_one_takes_time(monkeypatch):
    for settings in (FULL, CYCLIC, SHUFFLED, ONCE, POISSON.without(last=False)):
        assert answer(settings, "first") == {**answer(settings, "noise"), "part": "first", "certified": True}
    for settings in (POISSON, FIXED, FIXED.without(convex=False), ALLOCATED, ALLOCATED.without(last=False)):
        said = answer(settings, "first")
        assert (said["certified"], said["shown"]) == (False, f"about {said['noise']:.3g}")
        assert "not certified" in said["words"]
        assert ("last iterate" in said["words"]) is settings.counts_on_last
        assert said["noise"] == pytest.approx(composition(settings).noise, rel=0.1)
    # What no rough number is told of is answered as always.
    monkeypatch.setattr("dplateau.ui.answer.rough", lambda _: (_ for _ in ()).throw(dp.InputError("none")))
    assert answer(FIXED.without(d=7), "first")["certified"] is True


def test_a_rough_search_that_finds_nothing_ends_soon(monkeypatch):
    """Where few draws decide, what is about epsilon may jump back and forth: 200 values were asked for nothing."""
    asked: list[float] = []

    def nothing(composition, delta, near):
        asked.append(delta)
        return math.inf

    monkeypatch.setattr("dplateau.calibration.about_epsilon", nothing)
    with pytest.raises(dp.InputError):
        rough(FIXED.without(last=False, epsilon=1.03))  # which nobody asked before
    assert 0 < len(asked) <= _SHORT < _LONG


def test_a_rough_number_is_near_where_the_saddle_point_was_not():
    settings = Settings(
        n=17_487_133, sampling="fixed-size", batch=604, epochs=8.9, epsilon=0.01, delta=1.8e-8, adjacency="replace", last=False
    )
    assert rough(settings) == pytest.approx(composition(settings).noise, rel=1e-3)


def test_one_pass_uses_every_row_once():
    settings = Settings(n=1003, sampling="one-pass", batch=100, epochs=7, delta=1e-5)
    said = answer(settings, "noise")
    run = found(settings).run
    assert (said["rows"], said["steps"], said["notes"]) == (1003, 10, [])
    assert run.sampling == dp.OnePass(100)
    assert said["noise"] == pytest.approx(found(Settings(n=1003, delta=1e-5, epochs=1, last=False)).noise)  # as one step
    assert "does not grow" in answer(settings, "begins")["words"]
    steps = [steps for piece in range(2) for steps in answer(settings, "plateau", piece)["steps"]]
    assert max(steps) == 10
    assert answer(settings, "risk")["of"] == "population"


def test_batches_of_a_fixed_size_have_a_risk_like_poisson_batches():
    fixed, poisson = (answer(one, "risk") for one in (FIXED, POISSON))
    assert (fixed["of"], fixed["against"]) == (poisson["of"], poisson["against"]) == ("rows", "all")
    assert 0.5 < fixed["bound"] / poisson["bound"] < 2


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_set_and_says_how_to_train(name):
    settings = PRESETS[name][2]
    assert Settings.parse(settings.to_query()) == settings
    said = answer(settings, "first")
    assert (said["certified"], said["notes"], said["doubtful"]) == (True, [], False)
    assert ("train_network" in said["python"]) is (name == "network")
    assert (said["train"] is None) is (name == "network")


def test_the_first_settings_are_a_preset():
    assert PRESETS["table"][2] == Settings()


def test_the_network_of_the_python_trains(capsys):
    small = PRESETS["network"][2].without(n=60, batch=20, epochs=1.0, delta=1e-3)
    code = "\n".join(line.removeprefix("# ") for line in answer(small, "noise")["python"].splitlines() if "To train" not in line)
    random = np.random.default_rng(0)
    namespace: dict[str, object] = {
        "loss": lambda params, example: (params["w"] @ example[0] - example[1]) ** 2,
        "params": {"w": np.zeros(2, np.float32)},
        "examples": (random.normal(size=(60, 2)).astype(np.float32), random.normal(size=60).astype(np.float32)),
    }
    exec(code, namespace)
    assert float(capsys.readouterr().out) == found(small).noise
    assert np.linalg.norm(namespace["params"]["w"]) > 0


@pytest.mark.parametrize(
    "settings",
    [FULL, FULL.without(last=False, shrunk=False), FULL.without(last=False), ONCE.without(shrunk=False)],
    ids=["last iterate", "composition", "composition with l2", "one pass"],
)
def test_the_training_command_trains(settings, tmp_path, monkeypatch, capsys):
    small = settings.without(n=200, d=3, epochs=5.0, batch=20, delta=1e-4, epsilon=2.0, adjacency="replace")
    rows = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    lines = ["a,b,good", *(f"{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for a, b in rows)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    bounds = "".join(f'[columns.{name}]\ntype = "number"\nlow = -1\nhigh = 1\n' for name in "ab")
    (tmp_path / "rows.toml").write_text(f'{bounds}[columns.good]\ntype = "target"\nclasses = ["no", "yes"]\n')
    said = answer(small, "noise")
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(said["train"].replace("ROWS", "rows.csv").replace("SCHEMA", "rows.toml"))
    assert program == "dplateau"
    assert status([*arguments, "--json", "-o", "model"]) == 0
    run = json.loads((tmp_path / "model" / "certificate.json").read_text())["run"]
    assert json.loads(capsys.readouterr().out)["epsilon"] <= 2.0
    assert (run["n"], run["sampling"]["kind"], run["adjacency"]) == (200, small.sampling, "replace")
    if not small.scheme.once:
        assert run["steps"] == said["steps"]
    if not small.counts_on_last:
        assert run["noise_multiplier"] == pytest.approx(said["noise"], rel=1e-6)


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_a_system_without_the_gnu_c_library_is_served_too(error, monkeypatch):
    def missing(name):
        raise error

    monkeypatch.setattr("ctypes.CDLL", missing)
    warm_up()
    assert answer(Settings(), "first")["noise"] > 0
