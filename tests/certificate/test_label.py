"""What a release is called: on its certificate, by the command line, and without any say in what is certified."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from dplateau.certificate import Certificate, Label, certificate_schema, read_certificate, verify
from dplateau.ledger.charge import digest_of
from dplateau.spec import ContradictionError, InputError

LABEL = Label(model="Income 3", data="Census of 1994", purpose="a demonstration", author="Ada", date="2026-01-31")


def test_a_label_is_written_and_read(certificate):
    named = certificate.labelled(LABEL)
    assert (certificate.format, named.format) == (2, 3)
    assert Certificate.from_json(named.to_json()) == named
    jsonschema.Draft202012Validator(certificate_schema()).validate(named.to_dict())
    assert named.unlabelled == certificate == certificate.unlabelled
    assert "Census of 1994" in str(named)
    assert named.labelled(Label(model="4")).label.data is None


def test_a_certificate_of_format_1_has_none():
    old = read_certificate(Path(__file__).parent / "format-1" / "secret.json")
    with pytest.raises(InputError, match="a certificate of format 1 has no label"):
        old.labelled(LABEL)
    assert old.unlabelled == old


def test_nothing_follows_from_it(certificate):
    named = certificate.labelled(LABEL)
    assert (named.certifies, named.statement, verify(named).agrees) == (certificate.certifies, certificate.statement, True)
    assert digest_of(named) == digest_of(certificate)


def test_today_by_default():
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", Label(model="x").date)


@pytest.mark.parametrize(
    "entries",
    [{"model": ""}, {"model": " "}, {"data": 201 * "x"}, {"purpose": "two\nlines"}, {"author": "\x1b[31m"}, {"author": 3}]
    + [{"date": date} for date in ("yesterday", "2026-02-30", "20260131", 3, "2026-01-31T00:00:00")],
)
def test_what_is_no_label(entries):
    with pytest.raises(InputError, match="label: "):
        Label(**entries)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("label"),
        lambda d: d.update(label=None),
        lambda d: d["label"].update(more="x"),
        lambda d: d["label"].pop("data"),
        lambda d: d["label"].update(date=""),
        lambda d: d["label"].update(model=[]),
        lambda d: d.update(format=2),
    ],
)
def test_what_is_no_certificate_with_a_label(certificate, change):
    data = certificate.labelled(LABEL).to_dict()
    change(data)
    with pytest.raises((InputError, ContradictionError)):
        Certificate.from_json(json.dumps(data))
    assert not jsonschema.Draft202012Validator(certificate_schema()).is_valid(data)


def test_the_command(dplateau, certificate, tmp_path):
    path = tmp_path / "certificate.json"
    certificate.write(path)
    before = path.read_bytes()
    code, _, err = dplateau("label", ".", "--model", "Income 3")
    assert (code, err) == (2, "dplateau: . is a folder without certificate.json: expected a model's folder, or a certificate.\n")
    code, _, err = dplateau("label", path)
    assert (code, "no label was given" in err) == (2, True)
    code, _, err = dplateau("label", path, "--model", 300 * "x")
    assert (code, "label: model" in err, path.read_bytes()) == (2, True, before)
    code, out, _ = dplateau("label", path, "--model", "Income 3", "--author", "Ada", "--date", "2026-01-31", "--json")
    assert (code, json.loads(out)["label"]["author"]) == (0, "Ada")
    assert read_certificate(path) == certificate.labelled(Label(model="Income 3", author="Ada", date="2026-01-31"))
    (tmp_path / "certificate.sig.json").write_text("{}")
    code, _, err = dplateau("label", path, "--model", "Income 4")
    assert (code, "sign again" in err) == (2, True)
    (tmp_path / "certificate.sig.json").unlink()
    assert read_certificate(path).label.model == "Income 3"
