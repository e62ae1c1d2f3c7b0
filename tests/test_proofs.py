"""No bound may call itself proved without a proof: the page that is named like the file of its analysis."""

import sys
from pathlib import Path

import pytest

from dplateau.analyses import ANALYSES

PROOFS = Path(__file__).parents[1] / "docs" / "proofs"
NAV = (PROOFS.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")


def stem(analysis: object) -> str:
    return Path(sys.modules[type(analysis).__module__].__file__ or "").stem.replace("_", "-")


@pytest.mark.parametrize("analysis", [a for a in ANALYSES if a.status.certifies], ids=lambda analysis: analysis.name)
def test_a_proved_analysis_has_a_page_with_its_statement(analysis):
    page = PROOFS / f"{stem(analysis)}.md"
    text = page.read_text(encoding="utf-8")
    assert "**Statement" in text
    assert "**Proved**" in text
    assert f"proofs/{page.name}" in NAV


@pytest.mark.parametrize("analysis", [a for a in ANALYSES if not a.status.certifies], ids=lambda analysis: analysis.name)
def test_what_is_not_proved_is_marked_so_in_its_docstring(analysis):
    assert f"**{analysis.status.__name__}" in (type(analysis).__doc__ or "")


def test_every_refuted_analysis_lives_with_the_refuted_ones():
    for analysis in ANALYSES:
        assert (".refuted." in type(analysis).__module__) == (analysis.status.__name__ == "Refuted")


def test_names_are_unique_and_dominating_ones_exist():
    names = [analysis.name for analysis in ANALYSES]
    assert len(set(names)) == len(names)
    assert {analysis.dominated_by for analysis in ANALYSES} - {None} <= set(names)
