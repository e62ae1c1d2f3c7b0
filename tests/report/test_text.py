import io
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import dplateau as dp
from dplateau._account import Report, Row
from dplateau.accounting import Asymptotic, Conjectured, Enclosure, GaussianDP, Proved, Refuted
from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate import Proof, verify
from dplateau.certificate.words import run_facts
from dplateau.ledger import Ledger
from dplateau.report.ledger import account_text, accounts_text
from dplateau.report.text import as_text, certificate_text, facts, proof_text, report_text, verdict_text
from dplateau.spec import By
from dplateau.ui.ledger import budget


@given(st.floats(1e-12, 1e12), st.integers(3, 9))
def test_shown_numbers_are_never_smaller_than_they_are(value, digits):
    assert value <= float(rounded_up(value, digits)) <= value * (1 + 2 * 10.0 ** (1 - digits))


def test_rounding_keeps_what_is_exact():
    assert [rounded_up(x) for x in (0.0, 1.0, 0.5, 2.25, float("inf"))] == ["0", "1", "0.5", "2.25", "inf"]
    assert rounded_up(0.86454012) == "0.864541"


@pytest.mark.parametrize("value", [0.0039062, 1.8626e-09, 262140.0, 16777200.0, 0.3, 1.0])
@pytest.mark.parametrize("digits", [5, 6])
def test_numbers_just_above_a_short_one_are_not_shown_as_that(value, digits):
    above = math.nextafter(value, math.inf)
    assert float(rounded_up(above, digits)) >= above


def test_a_claim_is_never_shown_at_a_smaller_delta(certificate, tmp_path):
    delta, epsilon = 1.234560123e-6, 1.234560123
    report = dp.account(certificate.run, delta)
    claimed = replace(certificate, delta=delta)
    proof = Proof("refuted", None, 1.0, delta, "exact-composition", 2.0, None, None, 0.1, "2026-01-01T00:00:00Z", ())
    ledger = Ledger(f"sqlite:///{tmp_path / 'privacy.db'}")
    ledger.create("a", n=1000, epsilon=epsilon, delta=delta)
    (state,) = ledger.accounts()
    said = [report_text(report), certificate_text(claimed), verdict_text(claimed, verify(claimed)), account_text(state, [])]
    said += [accounts_text([state]), proof_text(replace(proof, others=(proof,)))]
    for text in [str(report), repr(report), str(claimed), repr(claimed), budget(state), *map(as_text, said)]:
        shown = [float(one) for one in re.findall(r"1\.23[-\de]*", text)]
        assert shown
        assert all(one >= (epsilon if one > 1 else delta) for one in shown)


@pytest.mark.parametrize("kind", list(dp.spec.SAMPLINGS))
def test_every_sampling_has_words(kind):
    size = {} if kind == "full" else {"batch_size": 10}
    run = dp.Run(n=1000, sampling=dp.spec.SAMPLINGS[kind](**size), steps=4, noise_multiplier=3.0)
    assert "{" not in str(dict(run_facts(run))["training"])


def test_schedules_are_shown_as_ranges():
    run = dp.Run(n=6, sampling=dp.Cyclic((1, 2, 3)), steps=3, noise_multiplier=(3.0, 4.0, 5.0))
    facts = dict(run_facts(run))
    assert "1 to 3 rows" in str(facts["training"])
    assert "3 to 5" in str(facts["noise"])


@pytest.mark.parametrize(("steps", "epochs"), [(25, "0.25 epochs"), (123_456, "1,235 epochs"), (2_000_000, "20,000 epochs")])
def test_epochs_read_like_numbers(steps, epochs):
    run = dp.Run(n=1000, sampling=dp.Poisson(10), steps=steps, noise_multiplier=9.0)
    assert f"({epochs})" in str(dict(run_facts(run))["training"])


def test_assumptions_stand_together_by_who_saw_to_them(certificate):
    lines = certificate.assumptions
    mixed = (lines[0], lines[1].enforced(), lines[2].enforced(By.OPACUS), *lines[3:])
    text = as_text(certificate_text(replace(certificate, assumptions=mixed))).partition("It rests on\n")[2]
    heads = [line for line in text.splitlines() if not line.startswith(" ")]
    assert heads == ["enforced by dplateau", "enforced by Opacus", "declared by the person who trained"]
    names = [line.split("  ")[1] for line in text.splitlines() if line.startswith("  ") and line[2] != " "]
    assert names == [lines[1].name, lines[2].name, lines[0].name, *(one.name for one in lines[3:])]
    for one in mixed:
        assert one.statement in " ".join(text.split())


def test_without_colour_the_terminal_shows_what_print_does(certificates, seeded):
    for certificate in (*certificates.values(), seeded, replace(seeded, curve=(), weights_sha256=None)):
        assert as_text(certificate_text(certificate)) == str(certificate)


FULL = dp.Run(n=60_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=50.0)


def row(status, name, value=None, why_not=None):
    kind = {kind.__name__: kind for kind in (Proved, Asymptotic, Conjectured, Refuted)}[status]
    epsilon = None if value is None else Enclosure(0.0, value)
    bound = None if value is None else kind(name, "nowhere", GaussianDP(1.0))
    return Row(name, status, f"where {name} is from", epsilon, why_not, bound)


def lines(*rows):
    return as_text(report_text(Report(FULL, 1e-5, rows))).splitlines()


def test_the_table_shows_every_bound_and_marks_the_least():
    report = dp.account(FULL)
    text = as_text(report_text(report))
    assert max(map(len, text.splitlines())) <= 80
    for bound in report.bounds:
        assert bound.name in text
        assert bound.status == "Proved" or bound.status in text
    assert [line for line in text.splitlines() if line.startswith("* exact-composition")]
    assert "gdp-clt (Poisson, FixedSize; Asymptotic)" in " ".join(text.split())


def test_proved_values_come_first_and_the_others_are_called_no_guarantee():
    shown = lines(
        row("Refuted", "too-good", 0.1),
        row("Proved", "worse", 3.0),
        row("Proved", "silent", why_not="it rains."),
        row("Conjectured", "believed", 0.2),
        row("Proved", "best", 2.0),
        row("Asymptotic", "limit", 0.15),
        row("Proved", "hopeless", float("inf")),
    )
    firsts = [line.split()[0] if line[0] != "*" else line.split()[1] for line in shown if line]
    order = ["proved", "best", "worse", "hopeless", "no", "too-good", "limit", "believed", "not", "it", "silent"]
    assert [first for first in firsts if first in order] == order
    assert [line for line in shown if line.startswith("* ")] == [shown[firsts_at(shown, "best")], shown[-1]]
    for name, status in (("too-good", "Refuted"), ("limit", "Asymptotic"), ("believed", "Conjectured")):
        assert f"{status}: where {name}" in shown[firsts_at(shown, name)]
    assert shown[firsts_at(shown, "hopeless")].split()[1] == "inf"


def firsts_at(shown, name):
    return next(i for i, line in enumerate(shown) if line.lstrip("* ").startswith(f"{name} "))


def test_a_reason_is_given_once():
    shown = lines(
        row("Proved", "a", 1.0),
        row("Proved", "b", why_not="the iterates are not projected."),
        row("Proved", "c", why_not="it is for sampling Cyclic, OnePass, the run's is FullBatch."),
        row("Refuted", "d", why_not="the iterates are not projected."),
        row("Refuted", "e", why_not="it is for sampling Shuffled, the run's is FullBatch."),
    )
    start = shown.index("not applicable, because")
    assert shown[start + 1 : start + 5] == [
        "  the iterates are not projected.",
        "      b, d (Refuted)",
        "  the run's sampling is FullBatch, and each of these is for another one.",
        "      c (Cyclic, OnePass), e (Shuffled; Refuted)",
    ]


def test_analyses_of_other_samplings_are_found_by_their_words():
    """The wording is shared by every analysis; if it changes, the table must follow."""
    text = " ".join(as_text(report_text(dp.account(FULL))).split())
    assert "the run's sampling is FullBatch, and each of these is for another one. shuffled (Shuffled)" in text
    assert "it is for sampling" not in text


def test_nothing_to_show_is_no_error():
    text = "\n".join(lines(row("Proved", "a", why_not="it rains.")))
    assert "nothing is proved" in text
    assert "it rains." in text
    assert "no guarantee" not in text
    assert "not applicable" not in "\n".join(lines(row("Proved", "a", 1.0)))


def test_colour_only_where_there_is_any():
    report = dp.account(dp.Run(n=60_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=50.0))
    shown = {}
    for name, options in {"plain": {"color_system": None}, "colour": {"color_system": "standard", "force_terminal": True}}.items():
        buffer = io.StringIO()
        Console(file=buffer, width=80, **options).print(report_text(report))
        shown[name] = buffer.getvalue()
    assert "\x1b[" in shown["colour"]
    assert "\x1b" not in shown["plain"]


def test_a_long_name_leaves_room_for_what_stands_beside_it():
    lines = as_text(facts(("budget", "epsilon 2"), ("c" * 100, "33.3% empty"))).splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines[:2]] == ["epsilon 2", "33.3% empty"]
    assert "".join(line.split()[0] for line in lines[1:]) == "c" * 100


@pytest.mark.parametrize(
    ("lower", "upper", "shown"),
    [
        (1.2351, 1.2359, "1.235..."),
        (0.999999999499782, 0.999999999499788, "0.99999999949978..."),
        (2.0, 2.0, "2..."),
        (1.9e-7, 1.94e-7, "1.9e-07..."),
        (3.0, 4.0, "between 3 and 4"),
    ],
)
def test_the_digits_shown_are_those_of_both_ends(lower, upper, shown):
    """1.235 and 1.236 are both 1.24 when they are rounded, and neither begins so."""
    proof = Proof("verified", None, 5.0, 1e-5, "exact-composition", lower, upper, 9, 0.1, "2026-01-01T00:00:00Z", ())
    assert f"the bound gives  epsilon {shown}\n" in as_text(proof_text(proof))
