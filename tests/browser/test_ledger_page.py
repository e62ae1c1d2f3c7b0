"""The ledger's pages in a browser, and the planner beside them."""

import pytest
from tests.browser.conftest import DESKTOP, PHONE


@pytest.mark.parametrize(("theme", "size"), [("light", PHONE), ("dark", DESKTOP)], ids=["light-phone", "dark-desktop"])
@pytest.mark.parametrize("path", ["ledger", "ledger/patients"])
def test_they_are_accessible_and_fit(visit, with_ledger, violations, overflow, path, theme, size):
    page = visit(with_ledger + path, theme, size)
    for one in page.locator("td details").all():
        one.locator("summary").click()
    assert violations(page) == []
    assert overflow(page) == 0


def test_the_picture_is_drawn_in_the_theme(visit, with_ledger, ledger):
    page = visit(f"{with_ledger}ledger/patients")
    left = ledger.account("patients").state().left
    whole = page.locator(".budget").bounding_box()["width"]
    shares = page.evaluate(
        "[...document.querySelectorAll('.budget [class^=series-], .budget .quiet')].map((one) => one.getBBox().width)"
    )
    assert len(shares) == 5
    assert sum(shares) / whole == pytest.approx(1 - left, abs=0.01)
    paint = "getComputedStyle(document.querySelector('.budget .series-1')).fill"
    light = page.evaluate(paint)
    page.click("#theme")
    assert page.evaluate(paint) != light


def test_the_road_from_an_account_to_a_plan_and_back(visit, with_ledger, ledger):
    before = ledger.head()
    page = visit(f"{with_ledger}ledger")
    page.click("text=patients")
    page.click("text=Plan a training on it")
    page.wait_for_selector("#ledger-box:not([hidden])")
    assert (page.input_value("#n"), page.input_value("#account")) == ("60000", "patients")
    page.fill("#epsilon", "0.3")
    page.wait_for_selector("#ledger-box.good")
    state = ledger.account("patients").state()
    assert "It would take" in page.text_content("#ledger-answer")
    spent = page.evaluate("document.querySelector('#ledger-bar .spent').style.width")
    assert float(spent.rstrip("%")) == pytest.approx(100 * (1 - state.left), abs=1e-3)
    page.fill("#epsilon", "9")
    page.wait_for_selector("#ledger-box.warn")
    assert "What would fit: noise_multiplier" in page.text_content("#ledger-more")
    page.fill("#n", "70000")
    page.wait_for_selector("#ledger-box.bad")
    assert "The run has n 70,000, and the account 60,000 records in all" in page.text_content("#ledger-more")
    assert page.is_hidden("#ledger-bar")
    page.click("#ledger-account")
    page.wait_for_url("**/ledger")
    assert ledger.head() == before


def test_an_account_is_chosen_on_the_planner(visit, with_ledger):
    page = visit(f"{with_ledger}?n=500&epsilon=0.3&adjacency=replace")
    page.wait_for_selector("#answers[data-settled]", timeout=60_000)
    assert page.is_hidden("#ledger-box")
    page.select_option("#account", "patients")
    page.wait_for_selector("#ledger-box.good")
    assert (page.input_value("#n"), page.input_value("#delta")) == ("60000", "1e-06")
    assert page.is_checked("#adjacency-add-remove")
    page.click("text=Only a part of the records")
    page.fill("#n", "20000")
    page.fill("#partition", "hospitals")
    page.fill("#records", "east & <west>")
    page.wait_for_selector("#ledger-more:has-text('another part of hospitals has spent more')")
    again = visit(page.url)
    again.wait_for_selector("#ledger-box.good")
    assert again.input_value("#records") == "east & <west>"
    assert "another part" in again.text_content("#ledger-more")
    again.select_option("#account", "")
    again.wait_for_selector("#ledger-box", state="hidden")


@pytest.mark.parametrize(("theme", "size"), [("dark", PHONE), ("light", DESKTOP)], ids=["dark-phone", "light-desktop"])
def test_the_planner_beside_a_ledger_is_accessible_and_fits(visit, with_ledger, violations, overflow, theme, size):
    page = visit(f"{with_ledger}?account=patients&partition=hospitals&records=south&n=20000&epsilon=9", theme, size)
    page.wait_for_selector("#answers[data-settled]", timeout=60_000)
    page.wait_for_selector("#ledger-box.warn")
    assert violations(page) == []
    assert overflow(page) == 0
