"""The documentation as its readers meet it: search, both themes, a telephone, a keyboard, no network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

SAMPLE = (
    "index.html",
    "404.html",
    "tutorial.html",
    "how-to/write-a-schema.html",
    "proofs/fixed-order.html",
    "reference/command-line.html",
    "reference/python.html",
    "reproduced/p2-privacy.html",
)
"""Pages that have everything that pages have: code, formulas, tables, pictures, options, an error. With DPLATEAU_ALL_PAGES=1 the
rest is looked at as well, which takes minutes.
"""
DOCS = Path(__file__).parents[2] / "docs"
DARK = "document.body.setAttribute('data-md-color-scheme', 'slate')"
LOADED_BY_ADDRESS = "404.html"
"""It names its style sheets by their place on a server, and so looks bare in a file."""


@pytest.fixture(scope="session")
def address(site, serve) -> str:
    return serve(site)


def pages(site: Path) -> list[str]:
    every = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    assert set(SAMPLE) <= set(every)
    return every if os.environ.get("DPLATEAU_ALL_PAGES") else list(SAMPLE)


def test_pages_are_accessible(site, address, visit, violations):
    page = visit(f"{address}/index.html")
    wrong = {}
    for name in pages(site):
        page.goto(f"{address}/{name}")
        wrong[name] = violations(page)
        page.evaluate(DARK)
        page.wait_for_timeout(300)  # until colours have changed
        wrong[name] += violations(page, ["color-contrast", "link-in-text-block"])
    assert not {name: found for name, found in wrong.items() if found}


def test_no_page_is_wider_than_a_telephone(site, visit, overflow):
    page = visit(site / "index.html", size=(390, 844))
    wide = {}
    for path in sorted(site.rglob("*.html")):
        if path.name != LOADED_BY_ADDRESS:
            page.goto(path.as_uri())
            wide[path.name] = overflow(page)
    assert not {name: width for name, width in wide.items() if width > 0}


@pytest.mark.parametrize(
    ("words", "title"), [("taut string", "Fixed order"), ("NO_COLOR", "Command line"), ("Opacus", "Use with Opacus")]
)
@pytest.mark.parametrize("served", [True, False])
def test_search_finds_and_opens_a_page(site, address, visit, words, title, served):
    page = visit(f"{address}/index.html" if served else site / "index.html")
    page.keyboard.press("/")
    page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for()
    # Some beginnings ("taut s") are queries that the theme fails at, so the words come at once; it looks when a key is released.
    page.locator(".md-search__input").fill(words)
    page.keyboard.press("End")
    found = page.locator(".md-search-result__item").filter(has_text=title).first
    found.wait_for()
    found.locator("a").first.click()
    page.wait_for_function(f"document.querySelector('h1')?.innerText.includes({title!r})")


def test_theme_button_changes_the_theme(address, visit):
    page = visit(f"{address}/tutorial.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator("label[title=Dark]").click()
    page.wait_for_function(f"{ground} !== {light!r}")
    assert page.evaluate(ground) != light


@pytest.mark.parametrize("name", ["tutorial", "benchmarks", "how-to/read-a-certificate"])
def test_copied_commands_have_neither_prompt_nor_output(address, visit, name):
    """Every console of the page, against its source; what the button copies is read from the clipboard."""
    source = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    consoles = [
        re.findall(r"^\$ (.*?)(?: +# .*)?$", text, re.M) for text in re.findall(r"^```console\n(.*?)^```$", source, re.M | re.S)
    ]
    page = visit(f"{address}/{name}.html", permissions=["clipboard-read", "clipboard-write"])
    for number, lines in enumerate(consoles):
        block = page.locator(".language-console").nth(number)
        block.hover()
        block.locator(".md-code__button").first.click()
        page.wait_for_function("document.querySelector('.md-dialog--active') !== null")
        assert page.evaluate("navigator.clipboard.readText()") == "\n".join(lines)
    assert page.locator(".language-console").count() == len(consoles) > 0


def test_pages_end(site, visit):
    """The aim is 8,000 pixels on a desktop; what grows above 9,000 is to be split or folded."""
    page, heights = visit(site / "index.html"), {}
    for path in site.rglob("*.html"):
        if path.name != LOADED_BY_ADDRESS:
            page.goto(path.as_uri())
            heights[str(path.relative_to(site))] = page.evaluate("document.documentElement.scrollHeight")
    assert not {name: height for name, height in heights.items() if height > 9_000}


def test_links_open_what_is_folded(address, visit):
    page = visit(f"{address}/reference/command-line.html")
    heading = page.locator("#what-can-be-reproduced")
    assert not heading.is_visible()
    page.goto(f"{address}/reference/command-line.html#what-can-be-reproduced")
    heading.wait_for(state="visible")


def test_signatures_wrap(site, visit):
    """None is wider than its box, and no argument has a line of its own as they have in the source."""
    page = visit(site / "reference/python.html")
    wide = "[...document.querySelectorAll('.doc-signature code')].filter((code) => code.scrollWidth > code.clientWidth + 1).length"
    assert page.evaluate(wide) == 0
    run = page.locator("#dplateau\\.Run + .doc-signature code").inner_text()
    assert run.startswith("Run(*, n, sampling, steps,")
    assert "\n" not in run.strip()
