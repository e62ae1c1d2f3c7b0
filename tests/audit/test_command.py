# pyright: basic, reportArgumentType=false, reportIncompatibleMethodOverride=false
from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from dplateau.accounting import Asymptotic, Conjectured, Proved, Refuted
from dplateau.analyses import ExactCompositionBound
from dplateau.cli.audit import audit
from dplateau.spec import InputError

NAMES = ["moments-accountant", "gdp-clt"]


def test_table(capsys):
    assert audit(settings=25, seed=0, analysis=NAMES) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["analysis", "status", "settings", "largest", "median", "broken"]
    moments, limit = lines[1].split(), lines[2].split()
    assert (moments[:2], moments[-1]) == (["moments-accountant", "Proved"], "no")
    assert 20 <= int(moments[2]) < 25  # not under random allocation
    assert 0 < float(moments[4]) <= float(moments[3]) < 1
    assert limit[:2] == ["gdp-clt", "Asymptotic"]
    assert 0 < int(limit[2]) < 25


def test_json(capsys):
    assert audit(settings=25, seed=3, analysis=NAMES, json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["settings"], found["seed"], found["wrong"]) == (25, 3, [])
    moments, limit = found["analyses"]
    assert 20 <= moments["settings"] < 25
    assert moments["broken"] == []
    assert limit["broken"]  # the central limit theorem is not a bound, and no failure either


@pytest.mark.parametrize(("status", "code"), [(Proved, 1), (Conjectured, 0), (Asymptotic, 0), (Refuted, 0)])
def test_only_a_broken_proved_bound_is_a_failure(capsys, monkeypatch, tmp_path, status, code):
    kind = status

    class TooSmall(ExactCompositionBound):
        name = "too-small"
        status = kind

        def guarantee(self, run):
            return super().guarantee(run.replace(noise_multiplier=50.0))

    monkeypatch.setattr("dplateau.analyses.ANALYSES", (TooSmall(),))
    file = tmp_path / "findings.jsonl"
    assert audit(settings=4, output=file) == code
    out = capsys.readouterr().out
    assert "too-small is refuted 4 times, first in setting 0." in out
    # Everything needed to compute it again is printed, and in the file; a repeated look at the file says the same.
    assert ('"instance"' in out) == (code == 1)
    assert all(json.loads(line)["verdicts"][0]["broken"] for line in file.read_text().splitlines()[1:])
    assert audit(settings=4, output=file, json=True) == code
    assert len(json.loads(capsys.readouterr().out)["wrong"]) == (4 if code else 0)


def test_an_error_is_a_failure_and_not_the_end(capsys, monkeypatch):
    class Fails(ExactCompositionBound):
        name = "fails"
        status = Conjectured

        def guarantee(self, run):
            if run.sampling.kind == "shuffled":
                raise ValueError("no root")
            return super().guarantee(run)

    monkeypatch.setattr("dplateau.analyses.ANALYSES", (Fails(),))
    assert audit(settings=4) == 1  # settings 0, 2 and 3 are shuffled
    out = capsys.readouterr().out
    assert "fails ended with an error 3 times, first in setting 0" in out
    assert "ValueError: no root" in out


def test_resume_after_a_kill(tmp_path, capsys):
    """A process that is killed loses at most the run it was at; the file ends like that of an undisturbed audit."""
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    assert audit(settings=15, seed=2, analysis=NAMES, output=whole) == 0
    code = f"from pathlib import Path; from dplateau.cli.audit import audit; audit(15, 2, {NAMES}, Path({str(torn)!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while (not torn.exists() or torn.read_bytes().count(b"\n") < 4) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    written = torn.read_bytes()
    assert 4 <= written.count(b"\n") <= 16
    torn.write_bytes(written.rstrip(b"\n")[:-7])  # and the last line was only half on the disk
    assert audit(settings=15, seed=2, analysis=NAMES, output=torn) == 0
    assert torn.read_bytes() == whole.read_bytes()
    capsys.readouterr()


def test_interrupt_keeps_the_file(tmp_path, capsys, monkeypatch):
    file = tmp_path / "findings.jsonl"

    class Interrupted(ExactCompositionBound):
        calls = 0

        def guarantee(self, run):
            type(self).calls += 1
            if type(self).calls == 4:
                raise KeyboardInterrupt
            return super().guarantee(run)

    monkeypatch.setattr("dplateau.analyses.ANALYSES", (Interrupted(),))
    with pytest.raises(KeyboardInterrupt):
        audit(settings=9, output=file)
    assert "exact-composition" in capsys.readouterr().out
    assert file.read_bytes().count(b"\n") == 4
    assert audit(settings=5, output=file) == 0
    assert file.read_bytes().count(b"\n") == 6


def test_findings_of_another_version_are_not_continued(tmp_path, monkeypatch):
    """They are about other bounds."""
    file = tmp_path / "findings.jsonl"
    audit(settings=1, analysis=NAMES, output=file)
    monkeypatch.setattr("dplateau.__version__", "0.0.1")
    with pytest.raises(InputError, match=r"holds another audit \(version differs\)"):
        audit(settings=2, analysis=NAMES, output=file)


def test_fewer_settings_than_the_file_has(tmp_path, capsys):
    file = tmp_path / "findings.jsonl"
    audit(settings=6, analysis=NAMES, output=file)
    before = file.read_bytes()
    capsys.readouterr()
    audit(settings=3, analysis=NAMES, output=file, json=True)
    assert json.loads(capsys.readouterr().out)["analyses"][0]["settings"] == 3
    assert file.read_bytes() == before


@pytest.mark.parametrize("first", [b"", b'{"format": 1, "str'])
def test_a_file_that_was_hardly_begun(tmp_path, capsys, first):
    file = tmp_path / "findings.jsonl"
    file.write_bytes(first)
    assert audit(settings=1, analysis=NAMES, output=file) == 0
    assert len(file.read_text().splitlines()) == 2
    capsys.readouterr()


def test_bad_input(tmp_path, capsys):
    file = tmp_path / "findings.jsonl"
    audit(settings=2, analysis=NAMES, output=file)
    kept = file.read_bytes()
    for changes, message in (
        ({"settings": 0}, "--settings is 0"),
        ({"seed": -1}, "--seed is -1"),
        ({"analysis": ["luck"]}, "--analysis is 'luck': expected one of"),
        ({"seed": 1}, "holds another audit \\(seed differs\\)"),
        ({"analysis": NAMES[:1]}, "holds another audit \\(analyses differs\\)"),
    ):
        with pytest.raises(InputError, match=message):
            audit(**{"settings": 3, "analysis": NAMES, "output": file, **changes})
        assert file.read_bytes() == kept
    lines = kept.splitlines(keepends=True)
    for wrong, message in (
        (kept.replace(b'"stream": ', b'"stream": 9'), "stream differs"),
        (lines[0] + lines[2], "lacks findings in between"),
        (b"age,colour\n31,red\n", "not a file of audit findings"),
        (b"[1]\n", "holds another audit"),
        (b"31", "not a file of audit findings"),
        (lines[0] + b"7\n", "not a file of audit findings"),
    ):
        file.write_bytes(wrong)
        with pytest.raises(InputError, match=message):
            audit(settings=3, analysis=NAMES, output=file)
        assert file.read_bytes() == wrong
    capsys.readouterr()
