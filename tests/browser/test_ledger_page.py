"""The ledger's pages in a browser, and the planner beside them."""

import threading
import time

import pytest
from tests.browser.conftest import DESKTOP, PHONE

import dplateau as dp

pytest.importorskip("starlette")
pytest.importorskip("sqlalchemy")
uvicorn = pytest.importorskip("uvicorn")

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """A ledger with parts, trainings that did not end, long names and hostile ones."""
    found = dp.Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/privacy.db")
    found.create("patients", n=60_000, epsilon=2.0, delta=1e-6, unit="person")
    found.create("a closed one, with a name that is rather long", n=100, epsilon=1.0, delta=1e-4)
    found.close("a closed one, with a name that is rather long")
    run = dp.Run(n=60_000, sampling=dp.Poisson(600), steps=1000, noise_multiplier=2.0, unit="person")
    north = found.account("patients", who="north", purpose="readmissions")
    north.reserve(run).commit()
    north.reserve(run.replace(steps=300))
    for part in ("east", "west"):
        north.reserve(run.replace(n=20_000, steps=400, noise_multiplier=3.0), part=("hospitals", part))
    for k in range(5):
        found.account("patients", who=f"team{k}" * 20, purpose="x" * 300).reserve(run.replace(steps=10 + k))
    found.account("patients", who=EVIL, purpose=EVIL).reserve(run.replace(steps=10)).commit()
    return found


@pytest.fixture(scope="module")
def address(ledger):
    from dplateau.ui.app import application

    server = uvicorn.Server(uvicorn.Config(application(ledger), port=0, log_level="error", access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize(("theme", "size"), [("light", PHONE), ("dark", DESKTOP)], ids=["light-phone", "dark-desktop"])
@pytest.mark.parametrize("path", ["ledger", "ledger/patients"])
def test_they_are_accessible_and_fit(visit, address, violations, overflow, path, theme, size):
    page = visit(address + path, theme, size)
    for one in page.locator("td details").all():
        one.locator("summary").click()
    assert violations(page) == []
    assert overflow(page) == 0


def test_the_picture_is_drawn_in_the_theme(visit, address, ledger):
    page = visit(f"{address}ledger/patients")
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


def test_the_road_from_an_account_to_a_plan_and_back(visit, address, ledger):
    before = ledger.head()
    page = visit(f"{address}ledger")
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


def test_an_account_is_chosen_on_the_planner(visit, address):
    page = visit(f"{address}?n=500&epsilon=0.3&adjacency=replace")
    page.wait_for_selector("#answers[data-settled]", timeout=20_000)
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
def test_the_planner_beside_a_ledger_is_accessible_and_fits(visit, address, violations, overflow, theme, size):
    page = visit(f"{address}?account=patients&partition=hospitals&records=south&n=20000&epsilon=9", theme, size)
    page.wait_for_selector("#answers[data-settled]", timeout=20_000)
    page.wait_for_selector("#ledger-box.warn")
    assert violations(page) == []
    assert overflow(page) == 0
