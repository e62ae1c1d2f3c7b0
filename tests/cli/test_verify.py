import json
import sys
from dataclasses import replace

import pytest
from rich.text import Text

pytest.importorskip("flint")

import dplateau as dp
from dplateau.certificate import DeclaredTraining, make_certificate, prove, read_certificate
from dplateau.report.text import as_text, proof_text
from dplateau.spec import Generator
from dplateau.spec import assumption as a

RUN = dp.Run(n=10_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=40.0)


def write(path, run, generator=None):
    facts = (
        *(a.PublicConstants(), a.Batches(scheme="full"), a.Clipping(clip_norm=1.0), a.Divisor(), a.Noise(grid=True), a.Steps()),
        *(a.Features(), a.Arithmetic(rounding="exact")),
    )
    training = DeclaredTraining(run, facts, generator or Generator("AES-256-CTR", "operating-system"))
    certificate = make_certificate(dp.account(run, 1e-6), training)
    certificate.write(path)
    return certificate


@pytest.fixture
def file(tmp_path):
    write(tmp_path / "certificate.json", RUN)
    return tmp_path / "certificate.json"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.json").write_text(RUN.to_json())
    return tmp_path / "run.json"


def test_a_certificate(dplateau, file):
    code, out, err = dplateau("verify", file)
    assert (code, err) == (0, "")
    assert out.startswith("verified to 1")
    assert f"epsilon {read_certificate(file).epsilon} at delta 1e-06" in out
    assert "python-flint" in out
    assert dplateau("verify", file.parent)[0] == 0
    assert not (file.parent / "certificate.proof.json").exists()


def test_it_is_kept_and_the_page_finds_it(dplateau, file):
    assert dplateau("verify", file, "--save")[0] == 0
    kept = json.loads((file.parent / "certificate.proof.json").read_text())
    assert (kept["kind"], kept["outcome"]) == ("dplateau proof", "verified")
    code, out, _ = dplateau("report", file)
    assert code == 0
    assert "a record beside it says: verified" in out
    page = file.with_suffix(".html").read_text(encoding="utf-8")
    assert "A record beside the certificate says" in page
    assert "Proved a second time" not in page
    (file.parent / "certificate.proof.json").unlink()
    code, out, _ = dplateau("report", file, "--verify", "--json")
    assert (json.loads(out)["proof"]["outcome"], json.loads(out)["proof"]["recorded"]) == ("verified", False)
    assert "Proved a second time" in file.with_suffix(".html").read_text(encoding="utf-8")
    code, out, _ = dplateau("report", file, "--json")
    assert json.loads(out)["proof"] is None
    assert "Proved a second time" not in file.with_suffix(".html").read_text(encoding="utf-8")


def test_all_epsilons_of_a_certificate(dplateau, file, run):
    code, out, err = dplateau("verify", file, "--all", "--save")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].endswith(" s")
    assert " other epsilons are verified" in out.splitlines()[1]
    assert out.splitlines()[2].startswith("28 of 28 numbers about attackers are verified, in ")
    kept = json.loads((file.parent / "certificate.proof.json").read_text())
    assert (kept["format"], {one["outcome"] for one in kept["others"]}) == (2, {"verified"})
    found = json.loads(dplateau("verify", file, "--all", "--json")[1])
    assert len(found["others"]) == len(kept["others"])
    assert "--all are for certificates" in dplateau("verify", "--run", run, "--epsilon", 2, "--delta", 1e-6, "--all")[2]


def test_other_epsilons_that_are_not_verified_are_told(dplateau, file, monkeypatch):
    proof = prove(read_certificate(file), every=True)
    one, two = proof.others[:2]
    wrong = replace(one, outcome="refuted"), replace(two, outcome="not decided", why="of a reason")
    for others, code in ((wrong, 1), (wrong[1:], 2)):
        monkeypatch.setattr("dplateau.certificate.prove", lambda *_, found=others, **__: replace(proof, others=found))
        done, out, _ = dplateau("verify", file, "--all")
        assert done == code
        assert f"0 of {len(others)} other epsilons are verified" in out
        assert "not decided: epsilon 0.7733" in out
        assert out.count("refuted: epsilon") == (code == 1)


def test_numbers_about_attackers_that_are_not_verified_are_told(dplateau, file, monkeypatch):
    proof = prove(read_certificate(file), every=True)
    wrong = replace(proof.others[-1], outcome="not decided", why="of a reason")
    monkeypatch.setattr("dplateau.certificate.prove", lambda *_, **__: replace(proof, others=(proof.others[-2], wrong)))
    code, out, _ = dplateau("verify", file, "--all")
    assert code == 2
    assert "1 of 2 numbers about attackers are verified" in out
    assert f"not decided: {wrong.about}, {wrong.bound}" in " ".join(out.split())


def test_a_page_with_all_numbers_proved(dplateau, file, monkeypatch):
    code, out, err = dplateau("report", file, "--verify", "--all")
    assert (code, err) == (0, "")
    assert "28 of 28 numbers about attackers are verified" in out
    page = " ".join(file.with_suffix(".html").read_text(encoding="utf-8").split())
    count = len(prove(read_certificate(file), every=True).others)
    assert f"So were {count} other numbers: how much an attacker detects" in page
    code, _, err = dplateau("report", file, "--all")
    assert code == 2
    assert "--all says how much --verify proves: give both" in err
    proof = prove(read_certificate(file), every=True)
    wrong = replace(proof, others=(proof.others[0], replace(proof.others[-1], outcome="refuted")))
    monkeypatch.setattr("dplateau.certificate.prove", lambda *_, **__: wrong)
    code, out, _ = dplateau("report", file, "--verify", "--all")
    assert code == 1
    assert "0 of 1 numbers about attackers are verified" in out
    page = " ".join(file.with_suffix(".html").read_text(encoding="utf-8").split())
    assert "Of 2 other numbers, 1 were proved</strong>, and some refuted." in page
    assert 'class="verdict bad"' in page


def test_a_void_certificate_is_not_verified(dplateau, tmp_path):
    """Its number may be right; but its noise can be computed by anybody."""
    write(tmp_path / "certificate.json", RUN, generator=Generator("AES-256-CTR", "fixed-seed"))
    code, out, _ = dplateau("verify", tmp_path)
    assert code == 1
    assert out.startswith("the certificate certifies nothing: ")
    code, out, _ = dplateau("verify", tmp_path, "--json")
    assert (code, json.loads(out)["outcome"], json.loads(out)["certifies"]) == (1, "verified", False)


def test_only_good_news_is_green(tmp_path):
    def style(certificate):
        shown = proof_text(prove(certificate), certificate).renderables
        return [str(span.style) for line in shown if isinstance(line, Text) for span in (line.spans or [line])]

    assert "bold green" in style(write(tmp_path / "a.json", RUN))
    for certificate in (
        write(tmp_path / "b.json", RUN, generator=Generator("AES-256-CTR", "fixed-seed")),
        write(tmp_path / "c.json", RUN.replace(noise_multiplier=4.0)),
    ):
        assert not any("green" in one for one in style(certificate))


def test_what_a_refuted_bound_gives_is_more_than_the_claim():
    proof = replace(prove(RUN, 5.0, 1e-6), outcome="refuted", lower=1.0, upper=None)
    assert "more than epsilon 1" in as_text(proof_text(proof))


def test_a_claim_about_a_run(dplateau, run):
    code, out, _ = dplateau("verify", "--run", run, "--epsilon", 1.2, "--delta", 1e-6, "--json")
    found = json.loads(out)
    assert (code, found["outcome"], found["bound"]) == (0, "verified", "exact-composition")
    lower = found["lower"] * (1 - 1e-9)
    code, out, _ = dplateau("verify", "--run", run, "--epsilon", repr(lower), "--delta", 1e-6)
    assert code == 1
    assert out.startswith("refuted: the bound gives more")


def test_what_is_not_decided_is_status_2(dplateau, tmp_path):
    """A divergence of one order verifies a selection, and refutes none."""
    selection = dp.Selection([RUN] * 3)
    (tmp_path / "run.json").write_text(json.dumps(selection.to_dict()))
    asked = "verify", "--run", tmp_path / "run.json", "--delta", 1e-6, "--epsilon"
    epsilon = dp.account(selection, 1e-6).epsilon
    assert dplateau(*asked, epsilon)[0] == 0
    code, out, _ = dplateau(*asked, epsilon * 0.99)
    assert code == 2
    assert out.startswith("not decided: another order may give less")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a certificate, or --run"),
        (("FILE", "--run", "RUN"), "give a certificate, or --run"),
        (("--run", "RUN"), "give epsilon and delta"),
        (("--run", "RUN", "--epsilon", "1"), "give epsilon and delta"),
        (("--run", "RUN", "--epsilon", "-1", "--delta", "1e-6"), "epsilon is -1"),
        (("--run", "RUN", "--epsilon", "1", "--delta", "2"), "delta is 2"),
        (("--run", "RUN", "--epsilon", "nan", "--delta", "1e-6"), "epsilon is nan"),
        (("--run", "RUN", "--epsilon", "1", "--delta", "1e-6", "--save"), "for certificates"),
        (("--run", "FILE", "--epsilon", "1", "--delta", "1e-6"), "is not a run"),
        (("FILE", "--epsilon", "1"), "states its own"),
        (("nowhere.json",), "there is no such file"),
    ],
)
def test_bad_input(dplateau, file, run, arguments, message):
    code, out, err = dplateau("verify", *({"FILE": file, "RUN": run}.get(one, one) for one in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_empty_file_and_a_forgery(dplateau, file):
    text = file.read_text()
    file.write_text("")
    code, _, err = dplateau("verify", file)
    assert code == 2
    assert err.count("\n") == 1
    file.write_text(text.replace('"steps": 100', '"steps": 90'))
    code, out, err = dplateau("verify", file)
    assert (code, out) == (1, "")
    assert "digest" in err


def test_without_python_flint(dplateau, file, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("dplateau.verifier")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flint", None)
    code, _, err = dplateau("verify", file)
    assert code == 2
    assert "'.[verify]'" in err
