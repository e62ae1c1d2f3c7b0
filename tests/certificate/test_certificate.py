import copy
import json
import math
import pickle
from dataclasses import fields, replace

import jsonschema
import mpmath
import pytest

import dplateau as dp
from dplateau.accounting.enclosure import up
from dplateau.certificate import Certificate, certificate_schema, read_certificate
from dplateau.certificate.make import DELTAS, make_certificate
from dplateau.certificate.words import guessing_accuracy, percent_right
from dplateau.spec import ContradictionError, Generator, How
from dplateau.spec.assumption import KINDS
from dplateau.training import SecureGenerator

VALIDATOR = jsonschema.Draft202012Validator(certificate_schema())


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(certificate_schema())


def test_certificates_fit_the_schema(certificates, seeded):
    for certificate in (*certificates.values(), seeded):
        VALIDATOR.validate(certificate.to_dict())


@pytest.mark.parametrize(
    ("key", "value"), [("epsilon", "1"), ("epsilon", -1), ("delta", 0), ("status", "Asymptotic"), ("run_digest", "no"), ("seed", 1)]
)
def test_the_schema_refuses_other_things(certificate, key, value):
    assert not VALIDATOR.is_valid({**certificate.to_dict(), key: value})


def test_json_round_trip_is_exact(certificates, seeded):
    for certificate in (*certificates.values(), seeded):
        assert Certificate.from_json(certificate.to_json()) == certificate


def test_pickle_and_copy(certificate):
    assert pickle.loads(pickle.dumps(certificate)) == copy.deepcopy(certificate) == certificate


def test_what_it_says(certificate):
    run, data = certificate.run, certificate.to_dict()
    report = dp.account(run, delta=1e-5)
    assert data["epsilon"] == up(report.epsilon) == data["enclosure"][1]
    assert 0 <= data["mu"] - math.sqrt(400) / 80 <= 1e-8
    assert data["status"] == "Proved"
    assert "docs/proofs/" in data["source"]
    assert data["certified"] is True
    assert data["generator"] == {"algorithm": "AES-256-CTR", "key": "operating-system"}
    assert data["training"] == "declared"
    assert set(data["model"]) == {"estimator", "weights_sha256", "schema_sha256"}
    assert data["run_digest"] == run.digest
    assert dp.Run.from_dict(data["run"]) == run
    assert [bound["name"] for bound in data["bounds"]] == [row.name for row in report.bounds]
    assert {(assumption["how"], assumption["by"]) for assumption in data["assumptions"]} == {("declared", "caller")}
    assert set(data["versions"]) == {"dplateau", "python", "numpy", "scipy", "jax"}


def test_curve_has_the_public_deltas_and_the_chosen_one(certify):
    certificate = certify(dp.Run(n=1000, sampling=dp.FullBatch(), steps=4, noise_multiplier=5.0), delta=3e-6)
    assert sorted(delta for delta, _ in certificate.curve) == sorted([*DELTAS, 3e-6])
    epsilons = [epsilon.upper for _, epsilon in certificate.curve]
    assert epsilons == sorted(epsilons)
    assert dict(certificate.curve)[3e-6].upper == certificate.epsilon


def test_a_report_of_another_run_is_refused(certify, certificates):
    with pytest.raises(ValueError, match="another run"):
        certify(certificates["poisson"].run, result_run=certificates["full batch"].run)


def test_a_seeded_generator_certifies_nothing(seeded, certificate):
    assert certificate.certifies
    assert not seeded.certifies
    assert seeded.to_dict()["certified"] is False
    assert seeded.insecure_seed
    assert "certifies nothing" in seeded.statement
    # What the run would cost is rounded up, too.
    close = replace(seeded, epsilon=0.99999727)
    assert "cost epsilon 0.999998 at delta" in close.statement
    assert "cost epsilon 0.999997 at delta" in replace(close, format=1).statement
    assert "epsilon 0.999998 at delta" in repr(close)
    assert "certifies nothing" in str(seeded)
    assert "certifies nothing" in repr(seeded)


def test_swapped_arguments_are_said(certificate):
    report = dp.account(certificate.run, 1e-6)
    with pytest.raises(dp.InputError, match="got Certificate and Report: expected first the report"):
        make_certificate(certificate, report)


def test_only_generators_that_are_known_to_be_secret_certify(certify, certificate):
    assert SecureGenerator().source.secure
    assert not SecureGenerator(insecure_seed=1).source.secure
    assert not certify(certificate.run, Generator("some new generator", "not-cryptographic")).certifies
    for algorithm in ("some new generator", "Mersenne", "PCG64", "aes-256-ctr", ""):
        with pytest.raises(dp.InputError, match="generator"):
            Generator(algorithm, "operating-system")
    with pytest.raises(dp.InputError, match="generator: key is none"):
        Generator("AES-256-CTR", "secret")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("epsilon"), "lacks"),
        (lambda d: d.update(extra=1), "unknown"),
        (lambda d: d.update(epsilon="1"), "epsilon is not a number"),
        (lambda d: d.update(epsilon=-1), "epsilon is -1"),
        (lambda d: d.update(delta=2), "delta is 2"),
        (lambda d: d.update(format=4), "another format"),
        (lambda d: d.update(format=3), "lacks"),
        (lambda d: d.update(kind="x"), "not a certificate"),
        (lambda d: d.update(curve=3), "curve is not a JSON list"),
        (lambda d: d["curve"][0].update(epsilon=[2, 1]), "lower <= upper"),
        (lambda d: d["bounds"][0].update(epsilon=0.1), "contradicts itself"),
        (lambda d: d["assumptions"][0].update(how="hoped"), "how is none of those that are known"),
        (lambda d: d.update(insecure_seed=False), "unknown"),
        (lambda d: d.update(certified=False), "contradicts itself: .* another certified"),
        (lambda d: d.update(adjacency="replace"), "contradicts itself: .* another adjacency"),
        (lambda d: d["run"].update(steps=0), "steps is 0"),
    ],
)
def test_reading_refuses_what_is_no_certificate(certificate, change, message):
    data = copy.deepcopy(certificate.to_dict())
    change(data)
    with pytest.raises(dp.InputError, match=message):
        Certificate.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(epsilon=0.01),  # the sentence about guessing follows from it
        lambda d: d.update(statement="Nothing can be learnt."),
        lambda d: d.update(released="last"),
        lambda d: d["bounds"][0].update(epsilon=0.1),
    ],
)
def test_a_contradiction_is_told_from_a_file_of_another_kind(certificates, change):
    data = certificates["poisson"].to_dict()
    change(data)
    with pytest.raises(ContradictionError):
        Certificate.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[1]", "{", "NaN", '{"kind": "dplateau certificate", "epsilon": NaN}', "[" * 100_000])
def test_reading_refuses_what_is_no_json_object(text):
    with pytest.raises(dp.InputError):
        Certificate.from_json(text)


def test_written_and_read(certificate, tmp_path):
    certificate.write(tmp_path / "c.json")
    assert read_certificate(tmp_path / "c.json") == certificate
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_reading_names_the_file(tmp_path):
    (tmp_path / "c.json").write_bytes(b"\xff")
    for path, message in (
        (tmp_path / "no.json", "No such file"),
        (tmp_path, "is a folder without certificate.json"),
        (tmp_path / "c.json", "UTF-8"),
    ):
        with pytest.raises(dp.InputError, match=message) as caught:
            read_certificate(path)
        assert str(path) in str(caught.value)


def test_accuracy_of_guessing():
    assert guessing_accuracy(0.0, 0.0, None) == 0.5
    assert guessing_accuracy(math.log(3), 0.0, None) == pytest.approx(0.75)
    assert guessing_accuracy(math.log(3), 0.1, None) == pytest.approx((3 + 0.1) / 4)
    assert guessing_accuracy(1.0, 1e-5, 0.25) == pytest.approx(0.54974, abs=1e-5)
    assert guessing_accuracy(1e4, 1e-5, None) == 1.0


@pytest.mark.parametrize("thousandths", [501, 600, 731, 951, 999])
def test_accuracy_is_rounded_up_just_above_a_tenth_of_a_percent(thousandths):
    share = thousandths / 1000
    for above in (0.0, 1e-15, 1e-12, 1e-10):
        epsilon = math.log(share / (1 - share)) + above
        with mpmath.workdps(40):
            right = 100 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        assert right <= mpmath.mpf(percent_right(epsilon, 0.0, None).removesuffix(" %")) < right + mpmath.mpf("0.1000001")


def test_accuracy_at_the_ends():
    assert percent_right(0.0, 0.0, None) == percent_right(1.0, 1e-5, 0.0) == "50.0 %"
    assert percent_right(1e-9, 0.0, None) == percent_right(0.0, 1e-300, None) == "50.1 %"
    assert percent_right(40.0, 0.0, None) == percent_right(math.inf, 0.1, None) == "100.0 %"


def test_the_text_is_calm(certificates, seeded):
    for certificate in (*certificates.values(), seeded):
        lines = str(certificate).splitlines()
        assert max(map(len, lines)) <= 80
        assert "\x1b" not in str(certificate)
        assert not any(line.endswith(" ") for line in lines)
        for assumption in certificate.assumptions:
            assert assumption.how in str(certificate)


def test_the_schema_knows_every_assumption():
    known = certificate_schema()["$defs"]["assumption"]["properties"]
    assert set(known["name"]["enum"]) == set(KINDS)
    assert set(known) == {field.name for kind in KINDS.values() for field in fields(kind)} | {"name"}
    assert set(known["how"]["enum"]) == set(How) - {How.DERIVED}
