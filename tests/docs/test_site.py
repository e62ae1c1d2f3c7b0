"""The site builds strictly: every internal link and every documented name resolves, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_site_builds(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        inside = re.findall(r'<a [^>]*href="?(?![a-z]+:)([^"#?> ]+)', text) if page.name != "404.html" else []
        assert not [link for link in inside if not (page.parent / link).exists()], f"{page.name} has a broken link"
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="?(https?:[^"> ]+)', text)
        loaded += re.findall(r'<link[^>]*rel="?(?:stylesheet|preconnect)"?[^>]*(https?:[^"> ]+)', text)
        assert not loaded, f"{page.name} loads {loaded}"


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_files_that_are_linked_exist(page: str) -> None:
    """Links of the pages that are not part of the site."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert not [link for link in links if not (ROOT / link).exists()]
