"""The site builds strictly: every internal link and every documented name resolves, and nothing is loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
needs_mkdocs = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings")), reason="mkdocs is not installed"
)


@needs_mkdocs
def test_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    for page in tmp_path.rglob("*.html"):
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
