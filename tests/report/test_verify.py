import json

import pytest

from dplateau.report import Certificate, verify
from dplateau.report.statement import statement
from dplateau.report.text import as_text, verdict_text
from dplateau.spec import Run


def changed(certificate: Certificate, change) -> Certificate:
    """A forgery that does not contradict itself: its sentence follows from its numbers."""
    data = certificate.to_dict()
    change(data)
    run = Run.from_dict(data["run"])
    data["statement"] = statement(run, data["epsilon"], data["delta"], data["mu"], data["certified"])
    return Certificate.from_json(json.dumps(data))


def test_honest_certificates_agree(certificates):
    for certificate in certificates.values():
        verdict = verify(certificate)
        assert verdict.agrees
        assert verdict.certifies
        assert verdict.claimed == pytest.approx(verdict.recomputed, rel=1e-9)
        assert "agrees" in as_text(verdict_text(certificate, verdict))


@pytest.mark.parametrize("factor", [0.9, 0.9999, 1.1])
def test_a_changed_epsilon_is_found(certificate, factor):
    claimed = factor * certificate.epsilon
    verdict = verify(changed(certificate, lambda d: d.update(epsilon=claimed)))
    assert [difference.entry for difference in verdict.differences] == ["epsilon"]
    assert (verdict.claimed, verdict.recomputed) == (claimed, certificate.epsilon)
    assert not verdict.certifies


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        (lambda d: d["run"].update(noise_multiplier=81.0), "run_digest"),
        (lambda d: d["run"].update(step_size=0.5), "run_digest"),
        (lambda d: d.update(run_digest="0" * 64), "run_digest"),
        (lambda d: d.update(enclosure=[0.5, d["epsilon"]]), "enclosure[0]"),
        (lambda d: d["curve"][3].update(epsilon=[0.1, 0.1]), "curve[3].epsilon[1]"),
        (lambda d: d["curve"][3].update(delta=1e-7), "curve[3].delta"),
        (lambda d: d["curve"].pop(), "curve"),
        (lambda d: d["bounds"].pop(), "bounds"),
        (lambda d: d["bounds"][5].update(epsilon=0.1, enclosure=[0.0, 0.1]), "bounds[5].epsilon"),
        (lambda d: d.update(bound="magic"), "bound"),
        (lambda d: d.update(source="elsewhere"), "source"),
        (lambda d: d.update(mu=0.2), "mu"),
    ],
)
def test_other_changes_are_found(certificate, change, entry):
    verdict = verify(changed(certificate, change))
    assert entry in [difference.entry for difference in verdict.differences]
    assert not verdict.agrees
    assert not verdict.certifies


def test_a_seeded_one_agrees_and_certifies_nothing(seeded):
    verdict = verify(seeded)
    assert verdict.agrees
    assert not verdict.certifies
    assert "certifies nothing" in as_text(verdict_text(seeded, verdict))


def test_hiding_the_seed_is_found(seeded):
    verdict = verify(changed(seeded, lambda d: d.update(insecure_seed=False)))
    assert [difference.entry for difference in verdict.differences] == ["insecure_seed"]
    assert not verdict.certifies


def test_a_long_list_of_differences_is_cut(certificate):
    forged = changed(certificate, lambda d: d["run"].update(noise_multiplier=90.0))
    text = as_text(verdict_text(forged, verify(forged)))
    assert "DIFFERS" in text
    assert "more entries" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_forged_text_cannot_reach_the_terminal_as_it_is(certificate):
    forged = changed(certificate, lambda d: d.update(bound="[/red]\x1b[2J", source=":smile:"))
    text = as_text(verdict_text(forged, verify(forged)))
    assert "\x1b" not in text
    assert "[/red]" in text
    assert ":smile:" in text
