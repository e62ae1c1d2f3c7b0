"""Certificates of several runs together, and of noise that is neither secret nor seeded."""

import json

import jsonschema
import pytest

import dplateau as dp
from dplateau.accounting.enclosure import up
from dplateau.certificate import Certificate, certificate_schema, verify
from dplateau.report.text import as_text, verdict_text
from dplateau.spec import Generator

FIRST = dp.Run(n=1_000, sampling=dp.FullBatch(), steps=4, noise_multiplier=20.0)
SECOND = dp.Run(n=1_000, sampling=dp.Poisson(10), steps=300, noise_multiplier=2.0)


@pytest.fixture(scope="module")
def several(certify):
    return certify(dp.compose(FIRST, SECOND))


def test_several_runs_are_certified_together(several, certify):
    assert several.certifies
    assert several.run == dp.compose(FIRST, SECOND)
    assert certify(FIRST).epsilon < several.epsilon
    assert certify(SECOND).epsilon < several.epsilon < certify(FIRST).epsilon + certify(SECOND).epsilon
    assert several.epsilon == up(dp.account(dp.compose(FIRST, SECOND), 1e-5).epsilon)
    data = several.to_dict()
    assert data["sampling"] == [FIRST.sampling.to_dict(), SECOND.sampling.to_dict()]
    assert data["run"] == dp.compose(FIRST, SECOND).to_dict()
    jsonschema.Draft202012Validator(certificate_schema()).validate(data)
    assert "run 2" in str(several)


def test_several_runs_are_read_and_recomputed(several):
    again = Certificate.from_json(several.to_json())
    assert again == several
    verdict = verify(again)
    assert verdict.agrees
    assert verdict.certifies


def test_a_forgery_is_found(several):
    data = several.to_dict()
    data["run"]["runs"].pop()
    with pytest.raises(dp.InputError, match="give another sampling"):
        Certificate.from_json(json.dumps(data))
    data["sampling"].pop()
    with pytest.raises(dp.InputError, match="'sampling' stands there 2 times: expected 1"):
        Certificate.from_json(json.dumps(data))
    data["assumptions"] = [one for one in data["assumptions"] if one.get("scheme") != "poisson"]
    verdict = verify(Certificate.from_json(json.dumps(data)))
    assert {"epsilon", "run_digest"} <= {difference.entry for difference in verdict.differences}
    assert not verdict.certifies
    data["run"]["runs"] = []
    with pytest.raises(dp.InputError, match="no run to compose"):
        Certificate.from_json(json.dumps(data))


def test_the_schema_wants_runs(several):
    validator = jsonschema.Draft202012Validator(certificate_schema())
    data = several.to_dict()
    for wrong in ({"format": 1, "runs": []}, {"format": 1, "runs": [{}]}, {"runs": data["run"]["runs"]}, {"format": 1}, []):
        assert not validator.is_valid({**data, "run": wrong})
    assert not validator.is_valid({**data, "sampling": []})


def test_guessable_noise_certifies_nothing_and_says_why(certify):
    certificate = certify(FIRST, Generator("somebody's generator", "not-cryptographic"))
    assert not certificate.certifies
    assert certificate.insecure_seed
    assert "whoever computes its state can subtract it" in certificate.statement
    assert "certifies nothing: guessable noise" in str(certificate)
    verdict = verify(Certificate.from_json(certificate.to_json()))
    assert verdict.agrees
    assert not verdict.certifies
    assert "from a generator that is not cryptographic" in " ".join(as_text(verdict_text(certificate, verdict)).split())
