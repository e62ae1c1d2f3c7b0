import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import dplateau as dp
from dplateau.report.text import as_text, certificate_text, report_text, rounded_up, run_facts


@given(st.floats(1e-12, 1e12), st.integers(3, 9))
def test_shown_numbers_are_never_smaller_than_they_are(value, digits):
    assert value <= float(rounded_up(value, digits)) <= value * (1 + 2 * 10.0 ** (1 - digits))


def test_rounding_keeps_what_is_exact():
    assert [rounded_up(x) for x in (0.0, 1.0, 0.5, 2.25, float("inf"))] == ["0", "1", "0.5", "2.25", "inf"]
    assert rounded_up(0.86454012) == "0.864541"


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
    text = as_text(certificate_text(certificate))
    assert [line.split("  ")[0] for line in text.partition("It rests on\n")[2].splitlines()] == ["enforced", "declared", "derived"]
    twice = replace(certificate, assumptions=certificate.assumptions * 2)
    text = as_text(certificate_text(twice)).partition("It rests on\n")[2]
    assert [line.split("  ")[0] for line in text.splitlines()] == ["enforced", "", "declared", "", "derived", ""]
    assert text.count("chosen without looking") == 2


def test_the_table_shows_every_bound_and_marks_the_least():
    report = dp.account(dp.Run(n=60_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=50.0))
    text = as_text(report_text(report))
    assert max(map(len, text.splitlines())) <= 80
    for row in report.bounds:
        assert row.name in text
        assert row.status in text
    assert [line for line in text.splitlines() if line.startswith("* exact-composition")]
    assert "the limit is for Poisson" in text


def test_colour_only_where_there_is_any():
    report = dp.account(dp.Run(n=60_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=50.0))
    shown = {}
    for name, options in {"plain": {"color_system": None}, "colour": {"color_system": "standard", "force_terminal": True}}.items():
        buffer = io.StringIO()
        Console(file=buffer, width=80, **options).print(report_text(report))
        shown[name] = buffer.getvalue()
    assert "\x1b[" in shown["colour"]
    assert "\x1b" not in shown["plain"]
