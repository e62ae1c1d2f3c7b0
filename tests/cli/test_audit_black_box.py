# pyright: basic
"""``dplateau audit --black-box``: the table, the JSON, the exit status. What is trained here are a few lines that take no time."""

from __future__ import annotations

import json
from functools import partial

import pytest

from dplateau.audit.separation import Separation
from dplateau.black_box import Case, Finding
from dplateau.black_box.audit import GROUPS
from dplateau.black_box.neighbours import one_record
from dplateau.cli.black_box import _page
from dplateau.report.text import as_text
from dplateau.spec import FullBatch, InputError, Run

RUN = Run(n=8, sampling=FullBatch(), steps=1, noise_multiplier=1.0)


def trained(noise, features, _, generator):
    return features.sum(axis=0) + noise * generator.normal(2)


def refuses(*_):
    raise InputError("no such rows")


@pytest.fixture
def groups(monkeypatch):
    """A right solver, one with a third of its noise, and one that refuses the data."""
    data = one_record(8, target=1.0)
    cases = {
        "right": Case("right", data, RUN, partial(trained, 1.0)),
        "wrong": Case("wrong", data, RUN, partial(trained, 1 / 3)),
        "refusing": Case("refusing", data, RUN, refuses),
    }
    made = {name: lambda case=case: iter([lambda: case]) for name, case in cases.items()}
    monkeypatch.setattr("dplateau.black_box.audit.GROUPS", made)


def audit(dplateau, *arguments):
    # The noise is fresh: with this confidence the wrong verdict comes once in a million years of tests.
    return dplateau("audit", "--black-box", "--trainings", 2000, "--confidence", 1 - 1e-12, *arguments)


def test_right_ones_pass(dplateau, groups):
    code, out, err = audit(dplateau, "--solver", "right", "--solver", "refusing")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["solver", "data", "epsilon", "found", "mu", "found"]
    name, _, _, epsilon, found, mu, found_mu = lines[1].split()
    assert (name, epsilon, mu) == ("right", "4.38", "1.00")  # the Gaussian mechanism at delta 1e-5
    assert float(found) <= 4.38
    assert 0 < float(found_mu) <= 1
    assert lines[2].split() == ["refusing", "one", "record", "4.38", "-", "-", "-", "refused"]
    assert "No certificate is refuted." in out
    assert "refused: the solver does not accept such data" in out


def test_a_wrong_one_is_a_failure(dplateau, groups):
    code, out, _ = audit(dplateau)
    assert code == 1
    assert [line.split()[0] for line in out.splitlines() if line.endswith(" wrong")] == ["wrong"]
    assert "1 of 3 certificates are refuted." in out


def test_json(dplateau, groups):
    code, out, _ = audit(dplateau, "--json")
    found = json.loads(out)
    assert (code, found["wrong"], found["trainings"]) == (1, 1, 2000)
    right, wrong, refusing = found["cases"]
    assert (right["wrong"], wrong["wrong"], refusing["refused"]) == (False, True, "no such rows")
    assert wrong["mu_at_least"] > wrong["mu_allowed"] == pytest.approx(1.0)
    assert right["certified_epsilon"] == pytest.approx(4.377, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--black-box", "--seed", 1), "--seed cannot be combined with --black-box"),
        (("--black-box", "--analysis", "gdp-clt"), "--analysis cannot be combined with --black-box"),
        (("--trainings", 100), "--trainings needs --black-box"),
        (("--solver", "pnsgd"), "--solver needs --black-box"),
        (("--black-box", "--solver", "no-such"), "solver is 'no-such': expected one of noisy-sgd"),
        (("--black-box", "--trainings", 5), "--trainings is 5: expected a whole number >= 40"),
        (("--black-box", "--confidence", 1), "confidence is 1: expected a number below 1"),
    ],
)
def test_wrong_options(dplateau, arguments, message):
    code, out, err = dplateau("audit", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_the_table_has_room_for_every_case_at_80_columns():
    """With the names of all cases that are planned in no time, and the widest numbers."""
    separation = Separation(14.44, "length", 0.9, 0.1, 0.9, "length")
    cases = [case() for name in ("noisy-sgd", "snowball-sgd-strong", "losses", "streams") for case in GROUPS[name]()]
    findings = [Finding(case.solver, case.neighbours.name, 1e-5, 14.443, 1000, separation) for case in cases]
    lines = as_text(_page(findings, 0.9999)).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert len({tuple(line.split("14.5")[0].split()) for line in lines[1 : 1 + len(cases)]}) == len(cases)


def test_what_is_found_is_never_shown_larger_than_it_is():
    separation = Separation(1.0999, "length", 0.9, 0.0995, 0.95, "length")
    finding = Finding("pnsgd", "one record", 1e-5, 1.1, 1000, separation)
    *_, epsilon, found, _, mu = as_text(_page([finding], 0.9999)).splitlines()[1].split()
    assert (epsilon, found, mu) == ("1.1", "1.09", "2.56")
    assert 2.565 < separation.mu < 2.57
