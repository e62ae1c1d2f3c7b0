import json
import os
from dataclasses import replace

import pytest

import dplateau as dp
from dplateau.certificate import Certificate, DeclaredTraining, make_certificate, read_certificate, verify
from dplateau.report import certificate_page
from dplateau.spec import Generator
from dplateau.spec import assumption as a

RUN = dp.Run(n=10_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=40.0)
SECRET, SEEDED = Generator("AES-256-CTR", "operating-system"), Generator("AES-256-CTR", "fixed-seed")


def declared():
    """What somebody has to vouch for who trained elsewhere."""
    return (
        *(a.PublicConstants(), a.Batches(scheme="full"), a.Clipping(clip_norm=1.0), a.Divisor(), a.Noise(grid=True), a.Steps()),
        *(a.Features(), a.Arithmetic(rounding="exact")),
    )


def certified(generator: str = SECRET) -> Certificate:
    return make_certificate(dp.account(RUN, 1e-6), DeclaredTraining(RUN, declared(), generator))


@pytest.fixture
def file(tmp_path):
    certified().write(tmp_path / "certificate.json")
    return tmp_path / "certificate.json"


def test_a_page_beside_the_certificate(dplateau, file):
    code, out, err = dplateau("report", file)
    page = file.with_suffix(".html")
    assert (code, err) == (0, "")
    assert page.read_text(encoding="utf-8") == certificate_page(read_certificate(file))
    lines = out.splitlines()
    assert lines[0].startswith("epsilon 1.")
    assert lines[1] == "the certificate agrees with what follows from its run"
    assert lines[2] == "not signed"
    assert "".join(lines[3:]).replace(" ", "").startswith(f"writtento{page}")
    assert out.rstrip().endswith("kB")


def test_the_first_line_is_what_was_recomputed(dplateau, file, monkeypatch):
    verdict = replace(verify(read_certificate(file)), recomputed=1.75)
    monkeypatch.setattr("dplateau.report.page.write_page", lambda _, path, *__, **___: [path.touch(), verdict][1])
    assert dplateau("report", file)[1].startswith("epsilon 1.75")


def test_an_older_page_is_replaced(dplateau, file, tmp_path):
    page = tmp_path / "certificate-page.html"
    page.write_text("older")
    assert dplateau("report", file, "-o", page)[0] == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["certificate-page.html", "certificate.json"]


def test_json(dplateau, file, tmp_path):
    code, out, err = dplateau("report", file, "--output", tmp_path / "page.html", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "page": str(tmp_path / "page.html"),
        "agrees": True,
        "certifies": True,
        "epsilon": dp.account(RUN, 1e-6).epsilon,
        "delta": 1e-6,
        "differences": [],
        "proof": None,
        "ledger": None,
        "signature": {"state": "unsigned", "name": None, "known_since": None, "public_key": None, "signed_at": None},
    }


def test_a_fixed_seed_is_status_1_and_has_a_page(dplateau, file):
    certified(SEEDED).write(file)
    code, out, _ = dplateau("report", file)
    assert code == 1
    assert "certifies nothing: the noise came from a fixed seed" in " ".join(out.split())
    assert "This certifies nothing" in file.with_suffix(".html").read_text(encoding="utf-8")
    code, out, _ = dplateau("report", file, "--json")
    assert (code, json.loads(out)["agrees"], json.loads(out)["certifies"]) == (1, True, False)


def test_a_forgery_is_status_1_and_has_a_page(dplateau, file):
    data = json.loads(file.read_text())
    data["curve"][0]["epsilon"] = [0.0, 0.0]
    file.write_text(json.dumps(data))
    code, out, _ = dplateau("report", file, "--json")
    assert (code, json.loads(out)["agrees"]) == (1, False)
    assert [one["entry"] for one in json.loads(out)["differences"]] == ["curve[0].epsilon[0]", "curve[0].epsilon[1]"]
    assert "curve[0].epsilon[0]" in file.with_suffix(".html").read_text(encoding="utf-8")
    assert "DIFFERS" in dplateau("report", file)[1]


def test_a_contradiction_is_status_1_and_has_none(dplateau, file):
    data = {**json.loads(file.read_text()), "released": "last"}
    file.write_text(json.dumps(data))
    code, _, err = dplateau("report", file)
    assert code == 1
    assert "contradicts itself" in err
    assert err.endswith("It may have been changed after it was written: get it anew where it comes from.\n")
    assert not file.with_suffix(".html").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        ("", "certificate.json: the file is empty"),
        ("{", "this is not JSON"),
        ("[]", "this is not a certificate"),
        (RUN.to_json(), "this is not a certificate"),
    ],
)
def test_bad_files(dplateau, tmp_path, content, message):
    file = tmp_path / "certificate.json"
    if content is not None:
        file.write_text(content)
    code, out, err = dplateau("report", file)
    assert (code, out) == (2, "")
    assert message in err


def test_the_folder_of_a_model_leads_to_its_certificate(dplateau, file):
    assert dplateau("report", file.parent)[0] == 0
    assert file.with_suffix(".html").exists()
    assert dplateau("account", "--run", file.parent)[0] == 0


def test_bad_outputs(dplateau, file, tmp_path):
    (tmp_path / "folder.html").mkdir()
    for name, message in (("page.pdf", "not end in .html"), ("no/page.html", "is not a folder"), ("folder.html", "is a folder")):
        code, out, err = dplateau("report", file, "-o", tmp_path / name)
        assert (code, out) == (2, "")
        assert message in err


def test_the_certificate_is_never_replaced(dplateau, file, tmp_path):
    text = file.read_text()
    odd = tmp_path / "certificate.html"
    odd.write_text(text)
    (tmp_path / "link.html").symlink_to(odd)
    for output in ((), ("-o", tmp_path / "link.html")):
        code, _, err = dplateau("report", odd, *output)
        assert code == 2
        assert "is the certificate itself" in err
        assert odd.read_text() == text


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is writable for root")
def test_a_folder_that_is_locked(dplateau, file, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    code, _, err = dplateau("report", file, "-o", tmp_path / "locked" / "page.html")
    assert code == 2
    assert "no permission to write" in err
