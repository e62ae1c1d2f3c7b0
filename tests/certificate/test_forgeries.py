"""Attacks on certificate files: each is refused, or found by the recomputation, and nothing of a file is printed as it is."""

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dplateau as dp
from dplateau.accounting.enclosure import down, is_rounded, up
from dplateau.certificate import Certificate, make_certificate, read_certificate, verify
from dplateau.certificate.outward import confirms_lower, confirms_upper
from dplateau.cli.main import status
from dplateau.spec import By, ContradictionError, Generator, How, InputError, Run, Training
from dplateau.spec import assumption as a
from dplateau.training import SecureGenerator, TrainResult
from dplateau.training.result import assumptions_of

from .forging import claiming, forged

OLD = (Path(__file__).parent / "format-1" / "secret.json").read_text()
ESCAPE = "\x1b[2J\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def trained() -> Certificate:
    """A certificate of gradient steps that ran here."""
    run = Run(n=1_000, sampling=dp.Poisson(10), steps=100, noise_multiplier=2.0, clip_norm=0.5, step_size=1.0)
    generator = SecureGenerator()
    result = TrainResult(np.ones(3), run, assumptions_of(run, None, generator), generator.source, "float32")
    return make_certificate(dp.account(run), result)


def refused(text: str, error: type[InputError] = InputError) -> str:
    """The message with which a text is refused."""
    with pytest.raises(error) as caught:
        Certificate.from_json(text)
    return str(caught.value)


def of(certificate: Certificate, change) -> str:
    data = copy.deepcopy(certificate.to_dict())
    change(data)
    return json.dumps(data)


# What JSON lets through


@pytest.mark.parametrize("format_1", [True, False])
@pytest.mark.parametrize("key", ['"epsilon": 0.001', '"certified": true', '"run_digest": "x"'])
def test_the_same_key_twice(trained, format_1, key):
    text = OLD if format_1 else trained.to_json()
    Certificate.from_json(text)
    assert "the same key twice" in refused("{" + key + "," + text.lstrip()[1:])


@pytest.mark.parametrize("where", ["run", "sampling", "model", "generator"])
def test_the_same_key_twice_further_inside(trained, where):
    text = json.dumps(trained.to_dict())
    key, value = next(iter(trained.to_dict()[where].items()))
    inside = f'"{where}": {{'
    assert text.count(inside) == 1 + (where == "sampling")
    assert "the same key twice" in refused(text.replace(inside, inside + f"{json.dumps(key)}: {json.dumps(value)}, "))


@pytest.mark.parametrize("value", [1, 1.0, "true", None])
@pytest.mark.parametrize("format_1", [True, False])
def test_certified_is_a_truth_value(trained, value, format_1):
    text = OLD if format_1 else trained.to_json()
    refused(json.dumps({**json.loads(text), "certified": value}), ContradictionError)


@pytest.mark.parametrize("value", ["", 0, False, []])
@pytest.mark.parametrize("key", ["weights_sha256", "schema_sha256"])
def test_a_digest_is_a_digest_or_nothing(trained, key, value):
    refused(of(trained, lambda data: data["model"].update({key: value})))


@pytest.mark.parametrize("format_1", [True, False])
@pytest.mark.parametrize("version", [True, 1.5, "2", None, 4, -1])
def test_no_other_format(trained, format_1, version):
    text = OLD if format_1 else trained.to_json()
    assert "another format" in refused(json.dumps({**json.loads(text), "format": version}))


@pytest.mark.parametrize("format_1", [True, False])
@pytest.mark.parametrize("digits", ["9" * 5_000, "-" + "9" * 5_000, "9" * 40, "1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("key", ["epsilon", "format", "n", "steps"])
def test_absurd_numbers_are_one_clear_error(trained, format_1, digits, key):
    data = json.loads(OLD if format_1 else trained.to_json())
    (data if key in data else data["run"])[key] = "HERE"
    message = refused(json.dumps(data).replace('"HERE"', digits))
    assert len(message) < 200
    assert "finite" in message or "digits" in message


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 60 + "]" * 60, '{"kind": ' + "[" * 200 + "]" * 200 + "}"])
def test_deep_nesting_is_one_clear_error(text):
    assert len(refused(text)) < 200


EVIL = {
    "escape": ESCAPE,
    "line break": "one\ntwo",
    "carriage return": "good\rbad",
    "null": "a\x00b",
    "delete": "a\x7fb",
    "C1": "\x9b2J",
    "bidi": "\u202egood",
    "isolate": "\u2067a\u2069",
    "zero width": "a\u200bb",
    "byte order": "\ufeffa",
    "separator": "a\u2028b",
    "half a character": "\ud800",
    "private use": "\ue000",
    "long": "x" * 100_000,
}


@pytest.mark.parametrize("format_1", [True, False])
@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL)
def test_texts_that_are_no_text(trained, format_1, text):
    honest = OLD if format_1 else trained.to_json()
    for place in ("statement", "bound", "source", "status", "arithmetic", "versions", "key", "run key", "why_not", "kind"):
        data = json.loads(honest)
        if place == "versions":
            data["versions"]["dplateau"] = text
        elif place == "key":
            data[text] = 1
        elif place == "run key":
            data["run"][text] = 1
        elif place == "why_not":
            next(row for row in data["bounds"] if row["why_not"])["why_not"] = text
        else:
            data[place] = text
        message = refused(json.dumps(data))
        assert text[:5] not in message
        assert len(message) < 400
        assert message.isprintable()


def test_each_format_has_its_own_words(trained):
    """Words of the other format, with the same figures, are those of no certificate."""
    data, old = json.loads(trained.to_json()), Certificate.from_json(OLD)
    assert old.statement.startswith("Whoever sees the model, and knows all other rows, can tell whether any one row was")
    assert data["statement"].startswith("Anyone who sees the model and")
    refused(json.dumps({**json.loads(OLD), "statement": replace(old, format=2).statement}))
    refused(json.dumps({**data, "statement": replace(trained, format=1).statement}))


def test_nothing_of_a_file_reaches_the_terminal(capsys, trained, tmp_path):
    for number, text in enumerate(EVIL.values()):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({**trained.to_dict(), "source": text}))
        for command in (("account", "--run"), ("report",)):
            assert status([*command, str(path)]) != 0
            out, err = capsys.readouterr()
            assert err
            assert (out + err).replace("\n", "").isprintable()
            assert len(err) < 800


def test_keys_that_nobody_knows(trained):
    for where in ((), ("model",), ("generator",), ("curve", 0), ("bounds", 0), ("assumptions", 0), ("run",), ("sampling",)):
        data = copy.deepcopy(trained.to_dict())
        inside = data
        for step in where:
            inside = inside[step]
        inside["secret"] = True
        refused(json.dumps(data))


# Facts


def test_every_line_is_missed_and_none_can_be_added(trained):
    lines = trained.to_dict()["assumptions"]
    assert len(lines) >= 7
    for i in range(len(lines)):
        message = refused(of(trained, lambda d, i=i: d["assumptions"].pop(i)), ContradictionError)
        assert "missing" in message or "exactly one of 'features' and 'schema'" in message
        refused(of(trained, lambda d, i=i: d["assumptions"].append(d["assumptions"][i])), ContradictionError)
    refused(of(trained, lambda d: d.update(assumptions=[])), ContradictionError)
    for one in (a.Projection(diameter=1.0), a.Classes(count=2, declared=True), a.Order(), a.OneContinuation(), a.Steps()):
        line = one.to_dict()
        assert "not an assumption of such a training" in refused(
            of(trained, lambda d, line=line: d["assumptions"].append(line)), ContradictionError
        )


def test_declared_cannot_be_turned_into_enforced_nor_credited_to_others(trained):
    for i, line in enumerate(trained.to_dict()["assumptions"]):
        for how in ("enforced", "declared", "derived"):
            for by in By:
                if (how, by.value) == (line["how"], line["by"]):
                    continue
                message = refused(of(trained, lambda d, i=i, h=how, b=by: d["assumptions"][i].update(how=h, by=b.value)))
                assert "can only be" in message


def test_facts_that_contradict_the_run(trained):
    others = {"clipping": ("clip_norm", 0.25), "sampling": ("scheme", "full"), "arithmetic": ("rounding", "ignored")}
    for name, (field, value) in others.items():

        def change(data, name=name, field=field, value=value):
            next(line for line in data["assumptions"] if line["name"] == name)[field] = value

        assert "does not have the run's" in refused(of(trained, change), ContradictionError)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"name": "trust me", "how": "enforced", "by": "dplateau"}, "no known kind"),
        ({"name": "divisor", "how": "enforced"}, "other fields"),
        ({"name": "divisor", "how": "enforced", "by": "dplateau", "statement": "sums were not divided"}, "other fields"),
        ({"name": "divisor", "how": "hoped", "by": "dplateau"}, "how is none of"),
        ({"name": "divisor", "how": "enforced", "by": "god"}, "by is none of"),
        ({"name": "clipping", "how": "enforced", "by": "dplateau", "clip_norm": "0.5"}, "not a number"),
        ({"name": "clipping", "how": "enforced", "by": "dplateau", "clip_norm": True}, "clip_norm"),
        ({"name": "noise", "how": "enforced", "by": "dplateau", "grid": 1}, "neither true nor false"),
        ({"name": "sampling", "how": "enforced", "by": "dplateau", "scheme": "lottery"}, "scheme is none of"),
        ({"name": ["divisor"], "how": "enforced", "by": "dplateau"}, "no known kind"),
        ("divisor", "no known kind"),
    ],
)
def test_lines_of_no_kind(trained, line, message):
    def change(data):
        name = line.get("name") if isinstance(line, dict) else None
        data["assumptions"] = [one for one in data["assumptions"] if one["name"] != name] + [line]

    assert message in refused(of(trained, change))


@pytest.mark.parametrize("other", sorted(set(Training) - {Training.GRADIENT_STEPS, Training.NETWORK}))
def test_another_kind_of_training_has_other_facts(trained, other):
    refused(of(trained, lambda d: d.update(training=other.value)), ContradictionError)


def test_a_training_elsewhere_has_nothing_enforced(certificate):
    for i in range(len(certificate.assumptions)):
        for by in By:
            message = refused(of(certificate, lambda d, i=i, by=by: d["assumptions"][i].update(how="enforced", by=by.value)))
            assert "can only be declared by caller" in message


WEAK = ("Mersenne", "PCG64", "torch's generator", "AES-256-CTR ", "Mersenne, key from the operating system")


@pytest.mark.parametrize("algorithm", WEAK)
def test_no_key_makes_a_weak_generator_secret(trained, algorithm):
    text = of(trained, lambda d: d["generator"].update(algorithm=algorithm))
    assert "not known to be cryptographic" in refused(text)
    for key in ("fixed-seed", "not-cryptographic"):
        refused(of(trained, lambda d, key=key: d["generator"].update(algorithm=algorithm, key=key)), ContradictionError)


def test_a_seed_cannot_be_hidden(certify, trained):
    seeded = certify(trained.run, Generator("AES-256-CTR", "fixed-seed"))
    assert "another certified" in refused(of(seeded, lambda d: d["generator"].update(key="operating-system")))


def test_what_a_seeded_training_drew_is_not_enforced():
    run = Run(n=1_000, sampling=dp.Poisson(10), steps=100, noise_multiplier=2.0)
    generator = SecureGenerator(insecure_seed=1)
    facts = assumptions_of(run, None, generator)
    made = make_certificate(dp.account(run), TrainResult(np.ones(3), run, facts, generator.source, "float32"))
    assert {one.name for one in made.assumptions if one.how is How.DECLARED} >= {"noise", "sampling"}
    assert not made.certifies
    lied = tuple(one.enforced() if isinstance(one, a.Noise) else one for one in facts)
    with pytest.raises(InputError, match="'noise' can only be declared by caller"):
        make_certificate(dp.account(run), TrainResult(np.ones(3), run, lied, generator.source, "float32"))


# Numbers


def places(data):
    """Every computed number of a certificate: how to read it, and how to write it, wherever it stands."""
    yield "epsilon", lambda d: d["epsilon"], lambda d, x: claiming(d, x)
    if data["mu"] is not None:
        yield "mu", lambda d: d["mu"], lambda d, x: d.update(mu=x)
    for i, point in enumerate(data["curve"]):
        if point["delta"] != data["delta"]:
            yield f"curve {i}", lambda d, i=i: d["curve"][i]["epsilon"][1], lambda d, x, i=i: d["curve"][i].update(epsilon=[0.0, x])
    for i, row in enumerate(data["bounds"]):
        if row["epsilon"] is not None and row["name"] != data["bound"]:

            def write(d, x, i=i):
                d["bounds"][i].update(epsilon=x, enclosure=[0.0, x])

            yield f"bound {i}", lambda d, i=i: d["bounds"][i]["epsilon"], write


def test_lowered_by_a_billionth_is_found(certificates, trained):
    """Wherever it stands: no number of a file has so many digits, and a lower one that has is not confirmed."""
    for certificate in (*certificates.values(), trained):
        found = list(places(certificate.to_dict()))
        assert len(found) > 10
        for _, get, put in found:
            value = get(certificate.to_dict())
            assert is_rounded(value)
            lowered = value * (1 - 1e-9)
            assert lowered < value
            assert "more than eight digits" in refused(of(certificate, lambda d, p=put, x=lowered: p(d, x)), ContradictionError)


def test_lowered_by_a_unit_is_found(certificate):
    assert verify(certificate).agrees
    for name, get, put in places(certificate.to_dict()):
        value = get(certificate.to_dict())
        lower = down(np.nextafter(value, 0) * (1 - 1e-8))
        assert lower < value
        assert value - lower < 1.3e-7 * value
        if name.startswith("curve"):
            continue  # At small deltas machines differ by more than that.
        assert not verify(forged(certificate, lambda d, p=put, x=lower: p(d, x))).agrees, name


@pytest.mark.parametrize("entry", ["enclosure", "curve", "bounds"])
def test_the_claim_stands_in_three_places(certificate, entry):
    def change(data):
        if entry == "enclosure":
            data["enclosure"] = [0.0, data["enclosure"][1]]
        elif entry == "curve":
            next(point for point in data["curve"] if point["delta"] == data["delta"])["epsilon"][0] = 0.0
        else:
            next(row for row in data["bounds"] if row["name"] == data["bound"])["enclosure"][0] = 0.0

    refused(of(certificate, change), ContradictionError)


@pytest.mark.parametrize("ends", [[], [1.0], [0.0, 1.0, 2.0], [2.0, 1.0], [None, 1.0], [0.0, True], [0.0, "1"], {}, None])
def test_an_enclosure_has_two_ends(trained, ends):
    place = next(i for i, row in enumerate(trained.to_dict()["bounds"]) if row["epsilon"] is not None)
    for change in (
        lambda d: d.update(enclosure=ends),
        lambda d: d["curve"][0].update(epsilon=ends),
        lambda d: d["bounds"][place].update(enclosure=ends),
    ):
        refused(of(trained, change))


@pytest.mark.parametrize("entry", ["name", "status", "source"])
def test_the_claim_is_what_the_row_of_its_bound_says(trained, entry):
    """A certificate certifies by the status of its claim, and that is the status of a bound."""

    def change(data):
        next(row for row in data["bounds"] if row["name"] == data["bound"])[entry] = "Conjectured"

    assert "its bound is none of its bounds" in refused(of(trained, change), ContradictionError)


@pytest.mark.parametrize("delta", [0, 0.0, 1, 1.0, -1e-6, 1.5, True, "1e-6", None])
def test_a_delta_is_between_0_and_1(trained, delta):
    refused(of(trained, lambda d: d.update(delta=delta)))
    refused(of(trained, lambda d: d["curve"][0].update(delta=delta)))


@pytest.mark.parametrize("text", ["", "float128", "float32,float64", "float32, ", "int8", ["float32"], 64])
def test_arithmetic_is_that_of_floating_point_types(trained, text):
    refused(of(trained, lambda d: d.update(arithmetic=text)))
    assert Certificate.from_json(of(trained, lambda d: d.update(arithmetic="bfloat16, float64"))).arithmetic == "bfloat16, float64"


@given(st.floats(1e-12, 1e12))
def test_rounding_goes_outward_and_stays(value):
    assert down(value) <= value <= up(value)
    assert up(value) - down(value) <= 1.1e-7 * value
    assert is_rounded(up(value))
    assert up(up(value)) == up(value)
    assert down(down(value)) == down(value)
    assert up(float(f"{value:.7g}")) == float(f"{value:.7g}")  # a target that was reached is not exceeded


@given(st.floats(1e-6, 1e3), st.floats(-1e-12, 1e-12), st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_other_machines_confirm_honest_numbers(value, difference, delta):
    """Last digits that differ decide on no certificate."""
    there = value * (1 + difference)
    assert confirms_upper(there, up(value), delta)
    assert confirms_lower(there, down(value), delta)
    assert not confirms_upper(there, up(value) * (1 - 1e-6), delta)
    assert not confirms_lower(there, down(value) * (1 + 1e-6), delta)


def test_what_is_confirmed_is_proved_but_for_what_machines_differ_in():
    random = np.random.default_rng(0)
    for value in random.uniform(0.01, 20, 2_000):
        unit = 10.0 ** (math.floor(math.log10(value)) - 7)
        for claim in (up(value) - unit, up(value)):
            if confirms_upper(value, float(f"{claim:.8g}"), 1e-5):
                assert claim >= value * (1 - 1.2e-11)


# Elsewhere


def test_a_run_file_is_read_as_strictly(tmp_path):
    run = Run(n=10, sampling=dp.FullBatch(), steps=1, noise_multiplier=1.0)
    from dplateau.certificate.read import read_run_or_certificate

    path = tmp_path / "run.json"
    path.write_text(run.to_json())
    assert read_run_or_certificate(path) == run
    path.write_text('{"n": 11,' + run.to_json()[1:])
    with pytest.raises(InputError, match="the same key twice"):
        read_run_or_certificate(path)
    path.write_text(run.to_json()[:-1] + ', "x' + "y" * 100_000 + '": 1}')
    with pytest.raises(InputError) as caught:
        read_run_or_certificate(path)
    assert len(str(caught.value)) < 800


def test_messages_about_wrong_files_are_short(tmp_path, trained):
    path = tmp_path / "c.json"
    path.write_text(of(trained, lambda d: d["run"].update(adjacency=["x" * 900] * 1_000)))
    with pytest.raises(InputError) as caught:
        read_certificate(path)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize("delta", [1e-5, 1e-10, 1e-13, 1e-16, 1e-18, 1e-20, 1e-100])
def test_a_tiny_delta_leaves_no_room_for_another_epsilon(delta):
    """Machines differ by rounding, which is larger beside a smaller delta, but never by a millionth of epsilon or more."""
    run = Run(n=1_000, sampling=dp.FullBatch(), steps=1_000, noise_multiplier=10.0, clip_norm=1.0, step_size=1.0)
    generator = SecureGenerator()
    result = TrainResult(np.ones(3), run, assumptions_of(run, None, generator), generator.source, "float32")
    honest = make_certificate(dp.account(run, delta), result)
    assert verify(honest).agrees
    for factor in (1 - 3e-6, 0.999, 0.5, 1e-3):
        lower = forged(honest, lambda data, factor=factor: claiming(data, up(honest.epsilon * factor)))
        assert not verify(lower).agrees


def test_a_delta_or_a_bound_that_stands_there_twice(trained):
    """Whoever proves the numbers one by one would take the second for the first."""

    def another_point(data):
        data["curve"].insert(0, {"delta": data["delta"], "epsilon": [0.0, 0.001]})

    def another_row(data):
        row = next(one for one in data["bounds"] if one["name"] == data["bound"])
        data["bounds"].append(row | {"epsilon": 0.001, "enclosure": [0.0, 0.001]})

    assert "a delta of its curve stands there twice" in refused(of(trained, another_point), ContradictionError)
    assert "a bound stands there twice" in refused(of(trained, another_row), ContradictionError)
