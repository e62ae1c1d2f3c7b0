"""Pages in Firefox: everybody can read them in both themes, at a desk and on a telephone, and nothing goes wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.browser.conftest import DESKTOP, PHONE, local
from tests.browser.firefox import Firefox, Tab, started

GROUND = "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0)"
BUTTON = "document.getElementById('theme').click()"
SCHEME = "document.querySelector('label[title=Light]').click()"
SETTLED = "document.querySelector('#answers[data-settled]') !== null"
RULES = {"dark": None, "light": ["color-contrast", "link-in-text-block"]}
"""All of them once; those that see colours again."""
DOCS = ("index.html", "how-to/read-a-certificate.html", "proofs/persons.html")


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """A running Firefox of the system, with a dark theme."""
    path = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if path is None:
        pytest.skip("no Firefox is installed")
    with started(path, tmp_path_factory.mktemp("firefox")) as running:
        yield running


@pytest.fixture
def look(
    request: pytest.FixtureRequest, firefox: Firefox, violations: Callable[..., list[str]], overflow: Callable[[Tab], int]
) -> Iterator[Callable[..., Tab]]:
    """Open a page, dark by the system, and look at it in both sizes; then in light, by its button. What is wrong fails the test.

    Whole pages are kept as pictures in a folder that ``DPLATEAU_PICTURES`` names.
    """
    tab = firefox.tab()
    pictures = os.environ.get("DPLATEAU_PICTURES")

    def see(url: str | Path, light: str, ready: str = "true") -> Tab:
        tab.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        tab.goto(url.as_uri() if isinstance(url, Path) else url)
        tab.wait_for(ready)
        dark = tab.evaluate(GROUND)
        for theme in ("dark", "light"):
            if theme == "light":
                tab.evaluate(light)
                tab.wait_for(f"{GROUND} > 600")
            for width, height in (PHONE, DESKTOP):
                tab.set_viewport_size({"width": width, "height": height})
                if pictures:
                    tab.screenshot(Path(pictures) / f"{request.node.name.replace('/', '-')}-{theme}-{width}.png")
                assert violations(tab, RULES[theme]) == []
                assert overflow(tab) == 0
        assert dark < 200
        return tab

    yield see
    tab.close()
    assert tab.errors == []
    assert [url for url in tab.asked if not local(url)] == []


@pytest.mark.parametrize("name", ["labelled", "seeded"])
def test_certificates(look: Callable[..., Tab], certificates: dict[str, Path], name: str) -> None:
    tab = look(certificates[name], BUTTON)
    lines = "[...document.querySelectorAll('svg.chart')].map(one => one.querySelector('.main-line').getBoundingClientRect().width)"
    assert all(width > 200 for width in tab.evaluate(lines))
    assert tab.evaluate("document.querySelectorAll('svg.chart').length") == 2


@pytest.mark.parametrize("path", ["ledger", "ledger/patients"])
def test_the_ledger(look: Callable[..., Tab], with_ledger: str, path: str) -> None:
    look(with_ledger + path, BUTTON)


def test_the_planner(look: Callable[..., Tab], with_ledger: str) -> None:
    tab = look(f"{with_ledger}?account=patients&n=60000&epsilon=0.3", BUTTON, SETTLED)
    assert float(tab.evaluate("document.getElementById('noise').textContent")) > 0


@pytest.mark.parametrize("name", DOCS)
def test_the_documentation(look: Callable[..., Tab], site: Path, serve: Callable[[Path], str], name: str) -> None:
    look(f"{serve(site)}/{name}", SCHEME)
