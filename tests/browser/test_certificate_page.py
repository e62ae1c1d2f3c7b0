"""The certificate's page in a browser: figures are drawn in both themes and on paper, and everybody can read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.conftest import DESKTOP, PHONE

SAID = {
    "known": ("good", "Signed by nnn"),
    "unknown": ("warn", "Signed by an unknown key"),
    "mismatch": ("bad", "The signature does NOT match."),
}
OTHER = {"light": "dark", "dark": "light"}


def colours(page: Any) -> list[str]:
    """Of the lines, the letters and the grid of the figures."""
    parts = "svg.chart .main-line", "svg.chart text", "svg.chart .grid"
    return page.evaluate(
        "parts => parts.flatMap(part => [...document.querySelectorAll(part)].map(e => "
        "getComputedStyle(e).stroke + getComputedStyle(e).fill))",
        list(parts),
    )


def until(page: Any, done: Callable[[], bool], milliseconds: int = 5000) -> None:
    """Wait until something is so, or long enough: what is asserted afterwards says which."""
    for _ in range(milliseconds // 50):
        if done():
            return
        page.wait_for_timeout(50)


def brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 765


@pytest.mark.parametrize(("theme", "size"), [("light", DESKTOP), ("dark", PHONE)])
def test_figures_are_drawn_and_everybody_can_read_the_page(visit, certificates, violations, overflow, theme, size):
    page = visit(certificates["good"], theme, size)
    assert len(page.query_selector_all("figure.chart")) == 2
    for figure in page.query_selector_all("figure.chart"):
        assert len(figure.query_selector(".main-line").get_attribute("d")) > 200
        assert figure.query_selector_all("circle.dot")
        assert len(figure.get_attribute("aria-label")) > 60
        box = figure.query_selector("svg").bounding_box()
        assert box["width"] <= size[0]
        assert box["height"] > 200
        inside = "svg => [...svg.querySelectorAll('text')].every(e => { const [a, b] = [e.getBoundingClientRect(), "
        inside += "svg.getBoundingClientRect()]; return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1; })"
        assert figure.query_selector("svg").evaluate(inside)
    inks = colours(page)
    for now in (theme, OTHER[theme]):  # the system's theme may change while the page is open
        page.emulate_media(color_scheme=now)
        until(page, lambda now=now: (colours(page) == inks) is (now == theme))  # figures are drawn again a moment after the change
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (brightness(ground) > 0.5) is (now == "light")
        assert (colours(page) == inks) is (now == theme)
        assert violations(page) == []
        assert overflow(page) == 0


def test_a_page_that_certifies_nothing_can_be_read_too(visit, certificates, violations, overflow):
    page = visit(certificates["seeded"], "dark", PHONE)
    assert "This certifies nothing" in page.inner_text(".verdict.bad")
    assert page.query_selector(".verdict.good") is None
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert '"noise_multiplier": 80.0' in page.inner_text("details pre")
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        assert violations(page) == []
        assert overflow(page) == 0


@pytest.mark.parametrize("state", SAID)
def test_who_has_signed_can_be_read_on_a_telephone(visit, certificates, violations, overflow, state):
    colour, words = SAID[state]
    page = visit(certificates[state], "light", PHONE)
    assert any(words in one.inner_text() for one in page.query_selector_all(f".verdict.{colour}"))
    assert bool(page.query_selector(".verdict.good")) is (state != "mismatch")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert violations(page) == []
        assert overflow(page) == 0


def test_links_text_hovering_and_the_theme_button(visit, certificates):
    page = visit(certificates["good"], "light")
    links = page.eval_on_selector_all("a[href]", "links => links.map(a => a.getAttribute('href'))")
    assert len(links) > 6
    assert all(link.startswith("#") and page.query_selector(link) for link in links)
    page.click("nav a[href='#recompute']")
    assert page.evaluate("location.hash") == "#recompute"
    assert "a text </script><img src=x>" in page.inner_text("main")
    assert page.query_selector("img") is None
    readings = r"false alarms: detects at most [\d.]+\s%", r"epsilon 0\.9\d+ at delta 1 in 325,610"
    for figure, text in zip(page.query_selector_all("figure.chart"), readings, strict=True):
        assert not figure.query_selector(".tip").is_visible()
        mark = figure.query_selector_all("circle.dot")[-1]
        mark.scroll_into_view_if_needed()
        box = mark.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert re.search(text, figure.query_selector(".tip").inner_text())
        page.mouse.move(2, 2)
        assert not figure.query_selector(".tip").is_visible()
    before, ground = colours(page), page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark theme").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('theme').textContent == 'Light theme'")
    after = colours(page)
    assert len(before) == len(after) > 10
    assert not set(before) & set(after)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.get_by_role("button", name="Light theme").click()
    assert colours(page) == before


def test_paper_is_light_and_nothing_is_cut(visit, certificates, tmp_path):
    page = visit(certificates["good"], "dark")
    page.click("#theme")
    page.click("#theme")  # dark by the reader's own choice, which paper does not follow either
    pdf = page.pdf(path=tmp_path / "page.pdf", format="A4", print_background=True)
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 673, "height": 900})  # A4 between its margins
    assert brightness(page.evaluate("getComputedStyle(document.body).color")) < 0.5
    fills = page.eval_on_selector_all("svg.chart text", "all => all.map(e => getComputedStyle(e).fill)")
    assert len(fills) > 10
    assert all(brightness(fill) < 0.5 for fill in fills)
    assert not page.is_visible("#theme")
    assert page.evaluate(
        "[...document.querySelectorAll('table, pre')].every(e => e.scrollWidth <= e.parentElement.clientWidth + 1)"
    )


def test_nothing_is_lost_without_scripts(visit, certificates):
    page = visit(certificates["good"], "light", PHONE, java_script_enabled=False)
    assert "detects at most" in page.inner_text("main")
    assert page.locator("table").count() >= 5
    assert page.locator("svg.chart .main-line").count() == 2
    assert page.is_visible("svg.chart")
    assert not page.is_visible("#theme")


def test_the_answer_is_above_the_fold_and_tables_stack_on_a_telephone(visit, certificates):
    page = visit(certificates["good"], "light")
    assert page.query_selector(".strength").bounding_box()["y"] < DESKTOP[1] - 100
    phone = visit(certificates["good"], "light", PHONE)
    cells = [cell.bounding_box() for cell in phone.query_selector_all("#assumptions ~ table.stack tbody tr:first-child > *")][:3]
    assert cells[0]["y"] < cells[1]["y"] < cells[2]["y"]
    assert len({cell["x"] for cell in cells}) == 1
    places = phone.eval_on_selector_all(".needle span, .marks span", "all => all.map(e => e.getBoundingClientRect().toJSON())")
    assert all(place["left"] >= 0 and place["right"] <= PHONE[0] for place in places)
