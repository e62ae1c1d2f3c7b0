import json
from pathlib import Path

import pytest

from dplateau.certificate import read_certificate, verify
from dplateau.report.text import as_text, verdict_text
from dplateau.spec import ContradictionError

from .forging import claiming, forged

OLD = Path(__file__).parent / "format-1"


def test_honest_certificates_agree(certificates):
    for certificate in certificates.values():
        verdict = verify(certificate)
        assert verdict.agrees
        assert verdict.certifies
        assert verdict.recomputed <= verdict.claimed <= verdict.recomputed * (1 + 1e-7)
        assert "agrees" in as_text(verdict_text(certificate, verdict))


@pytest.mark.parametrize("factor", [0.9, 0.9999, 0.9999999, 1.001])
def test_a_changed_epsilon_is_found(certificate, factor):
    claimed = float(f"{factor * certificate.epsilon:.8g}")
    verdict = verify(forged(certificate, lambda d: claiming(d, claimed)))
    assert {"epsilon", "enclosure[1]", "curve[2].epsilon[1]"} <= {difference.entry for difference in verdict.differences}
    assert verdict.claimed == claimed
    assert verdict.recomputed == verify(certificate).recomputed
    assert not verdict.certifies


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        (lambda d: d["run"].update(noise_multiplier=81.0), "run_digest"),
        (lambda d: d["run"].update(step_size=0.5), "run_digest"),
        (lambda d: d.update(run_digest="0" * 64), "run_digest"),
        (lambda d: claiming(d, d["epsilon"], 0.5), "enclosure[0]"),
        (lambda d: d["curve"][3].update(epsilon=[0.1, 0.1]), "curve[3].epsilon[1]"),
        (lambda d: d["curve"][3].update(delta=3e-7), "curve[3].delta"),
        (lambda d: d["curve"].pop(), "curve"),
        (lambda d: d["bounds"].pop(), "bounds"),
        (lambda d: d["bounds"][6].update(epsilon=0.1, enclosure=[0.0, 0.1]), "bounds[6].epsilon"),
        (lambda d: (d["bounds"][0].update(name="magic"), d.update(bound="magic")), "bound"),
        (lambda d: (d["bounds"][0].update(source="elsewhere"), d.update(source="elsewhere")), "source"),
        (lambda d: d.update(mu=0.2), "mu"),
    ],
)
def test_other_changes_are_found(certificate, change, entry):
    verdict = verify(forged(certificate, change))
    assert entry in [difference.entry for difference in verdict.differences]
    assert not verdict.agrees
    assert not verdict.certifies


def test_a_seeded_one_agrees_and_certifies_nothing(seeded):
    verdict = verify(seeded)
    assert verdict.agrees
    assert not verdict.certifies
    assert "certifies nothing" in as_text(verdict_text(seeded, verdict))


def test_a_long_list_of_differences_is_cut(certificate):
    bad = forged(certificate, lambda d: d["run"].update(noise_multiplier=90.0))
    text = as_text(verdict_text(bad, verify(bad)))
    assert "DIFFERS" in text
    assert "more entries" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_forged_text_reaches_the_terminal_as_text(certificate):
    bad = forged(certificate, lambda d: (d["bounds"][0].update(name="[/red] :smile:"), d.update(bound="[/red] :smile:")))
    assert "[/red] :smile:" in as_text(verdict_text(bad, verify(bad)))


@pytest.mark.parametrize(("name", "certifies"), [("secret", True), ("seeded", False)])
def test_format_1_is_read_verified_and_its_gaps_are_named(name, certifies):
    text = (OLD / f"{name}.json").read_text()
    certificate = read_certificate(OLD / f"{name}.json")
    assert certificate.to_json() == text
    assert certificate.certifies is certifies
    verdict = verify(certificate)
    assert (verdict.agrees, verdict.certifies) == (True, certifies)
    shown = " ".join(str(certificate).split())
    assert "This certificate has format 1. It was made before the sums of a training were exact" in shown
    assert "does not say which weights it is about" in shown


@pytest.mark.parametrize(
    ("change", "agrees"),
    [
        (lambda d: claiming(d, d["epsilon"] * (1 - 1e-5)), False),
        (lambda d: d["curve"][3].update(epsilon=[0.1, 0.1]), False),
        (lambda d: d["run"].update(steps=60), False),
        (lambda d: d["bounds"].pop(), True),  # an older version may not know a bound
    ],
)
def test_changes_in_format_1_are_found(tmp_path, change, agrees):
    data = json.loads((OLD / "secret.json").read_text())
    change(data)
    (tmp_path / "c.json").write_text(json.dumps(data))
    assert verify(read_certificate(tmp_path / "c.json")).agrees is agrees


@pytest.mark.parametrize(
    "changes",
    [
        {"generator": "Mersenne Twister, key from the operating system"},
        {"generator": "AES-256-CTR, insecure fixed seed"},
        {"insecure_seed": True},
        {"certified": 1},
        {"epsilon": 0.9999995},
        {"bound": "magic"},
    ],
)
def test_format_1_cannot_contradict_itself(tmp_path, changes):
    data = json.loads((OLD / "secret.json").read_text()) | changes
    (tmp_path / "c.json").write_text(json.dumps(data))
    with pytest.raises(ContradictionError):
        read_certificate(tmp_path / "c.json")
