"""The planner page in a browser, by clicking and by keyboard."""

import re
import shlex

import pytest
from tests.browser.conftest import DESKTOP, PHONE, THEMES
from tests.browser.made import serving

from dplateau.ui.answer import WORTH, answer, warm_up
from dplateau.ui.settings import PRESETS, Settings

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def address():
    from dplateau.ui.app import application

    warm_up()
    with serving(application()) as found:
        yield found


@pytest.fixture
def open_page(visit, address):
    def start(query="", *arguments, **options):
        page = visit(address + query, *arguments, **options)
        settled(page)
        return page

    return start


def settled(page):
    """Wait until every part of the answer is that of the settings."""
    page.wait_for_selector("#answers[data-settled]", timeout=60_000)


def noise_of(page):
    return float(page.text_content("#noise").replace(",", ""))


def changed(page, before):
    page.wait_for_function("before => document.getElementById('noise').textContent !== before", arg=before, timeout=60_000)
    settled(page)
    return noise_of(page)


def test_it_shows_what_the_library_says(open_page):
    page = open_page("?n=20000&sampling=cyclic&batch=500&epochs=30&delta=1e-5")
    settings = Settings(n=20_000, sampling="cyclic", batch=500, epochs=30, delta=1e-5)
    said = answer(settings, "noise")
    assert page.text_content("#noise") == said["shown"]
    assert page.text_content("#command") == said["command"]
    assert page.text_content("#python") == said["python"]
    assert said["composition"]["shown"] in page.text_content("#noise-words")
    assert page.text_content("#risk") == "no bound"
    assert re.search(r"begins at about [\d,]+ steps", page.text_content("#plateau-words"))
    detects = dict(map(tuple, answer(settings, "trade-off")["readings"]))
    found = float(
        re.search(
            r"With 1\s% false alarms, the best attacker detects a row .* at most ([\d.]+)\s%", page.text_content("#attacker")
        )[1]
    )
    assert 100 * detects[0.01] <= found < 100 * detects[0.01] + 0.1
    assert page.locator("#attacker-table tbody tr").count() == len(detects)


def test_both_figures_have_one_convention(open_page):
    page = open_page()
    traces = "id => document.getElementById(id).data.map(one => [one.name, one.line.dash, one.mode, one.line.color])"
    epsilons, detections = (page.evaluate(traces, name) for name in ("plateau", "trade-off"))
    assert [one[0] for one in epsilons] == ["certified", "composition alone", "the target", "these settings"]
    assert [one[0] for one in detections] == ["certified", "epsilon, delta alone", "guessing", "at 1 % false alarms"]
    assert [one[1:] for one in epsilons] == [one[1:] for one in detections]
    # Higher is worse in both: the certified line never lies above the one without what it counts on.
    for name in ("plateau", "trade-off"):
        certified, alone = page.evaluate("id => document.getElementById(id).data.slice(0, 2).map(one => [...one.y])", name)
        assert all(a <= b * (1 + 1e-6) + 1e-12 for a, b in zip(certified, alone, strict=True))


@pytest.mark.parametrize("scheme", ["random-allocation", "poisson", "fixed-size"])
def test_random_batches_are_answered_like_all_others(open_page, scheme):
    page = open_page("?n=6000&batch=100&epochs=20&delta=1e-5&d=10")
    first = page.text_content("#noise")
    page.select_option("#sampling", scheme)
    settled(page)
    assert page.text_content("#noise") != first
    assert page.text_content("#took").startswith("First number in ")
    settings = Settings(n=6000, d=10, sampling=scheme, batch=100, epochs=20, delta=1e-5)
    said = answer(settings, "noise")
    assert page.text_content("#noise") == said["shown"]
    assert f"--sampling {scheme} " in page.text_content("#command") == said["command"]
    composed = answer(settings, "composition")
    words = (
        "is no better."
        if composed["times"] <= 1.0005
        else f"Composition, which counts on no assumption, needs {composed['shown']}: "
    )
    assert page.text_content("#noise-words").count(words) == 1
    allocated = scheme == "random-allocation"
    assert (page.text_content("#risk") == "no bound") is allocated
    assert page.locator("#plateau .scatterlayer .trace").count() == 4
    assert "grows with every step" in page.text_content("#plateau-words")
    assert ("Poisson batches of the same size" in page.text_content("#worth-words")) is allocated
    for piece, name in enumerate(WORTH):
        worth = answer(settings, "worth", piece)
        same = worth["shown"] in (None, said["shown"])
        words = "the same" if same else f"{'without' if worth['there'] else 'with'} it {worth['shown']}"
        assert page.text_content(f"#worth-{name}") == words


def test_a_number_that_is_not_certified_says_so(open_page):
    page = open_page()
    # The certified number waits until the page was looked at.
    held = []
    page.route("**/answer?*part=noise&*", lambda route: held.append(route))
    with page.expect_request("**/answer?*part=noise&*"):
        page.select_option("#sampling", "poisson")
    page.wait_for_selector("#noise-box.pending")
    rough = answer(Settings(sampling="poisson"), "first")
    assert page.text_content("#noise") == page.text_content("#bar-noise") == rough["shown"]
    assert "not certified" in page.text_content("#noise-words")
    # What stands beside it is about the settings before.
    dashed = "id => getComputedStyle(document.getElementById(id)).borderLeftStyle"
    assert {page.evaluate(dashed, name) for name in ("noise-box", "risk-box")} == {"dashed"}
    held[0].continue_()
    page.wait_for_selector("#noise-box.good")
    settled(page)
    assert page.text_content("#noise") == answer(Settings(sampling="poisson"), "noise")["shown"]


def test_an_answer_names_the_settings_it_is_about(open_page):
    """Also where the form says something else by the time it comes."""
    page = open_page()
    held = []
    page.route("**/answer?*part=first&*", lambda route: held.append(route))
    with page.expect_request("**/answer?*part=first&*"):
        page.fill("#epsilon", "2")
    page.fill("#epsilon", "3")
    with page.expect_request("**/answer?*part=first&*"):
        held.pop().continue_()
    said = answer(Settings(epsilon=2.0), "noise")
    assert page.text_content("#noise") == page.text_content("#bar-noise") == said["shown"]
    assert page.text_content("#facts dd").startswith("epsilon 2 at delta ")
    assert page.text_content("#bar-epsilon") == "2"
    held.pop().continue_()
    settled(page)
    assert page.text_content("#facts dd").startswith("epsilon 3 at delta ")


def test_figures_fit_on_paper(open_page):
    for size in (DESKTOP, PHONE):
        page = open_page("", "dark", size)
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        beyond = "[...document.querySelectorAll('.plot')].map(one => one.querySelector('svg').clientHeight - one.clientHeight)"
        assert page.evaluate(beyond) == [0, 0]
        page.evaluate("dispatchEvent(new Event('afterprint'))")


def test_presets_fill_in_everything(open_page):
    page = open_page("?n=777&ball=1&delta=1e-5")
    assert page.locator("[data-preset][aria-pressed=true]").count() == 0
    for label, _, settings in PRESETS.values():
        before = page.url
        page.click(f"button:has-text('{label}')")
        page.wait_for_url(lambda url, before=before: url != before)
        settled(page)
        assert page.text_content("#noise") == answer(settings, "noise")["shown"]
        assert page.text_content("[data-preset][aria-pressed=true]") == label
        assert page.text_content("#python") == answer(settings, "noise")["python"]
        assert page.text_content("#train") == (answer(settings, "noise")["train"] or "")
        assert page.is_visible("#train") is (answer(settings, "noise")["train"] is not None)
        assert page.is_disabled("#epochs") is settings.scheme.once
    page.fill("#n", "5000")
    settled(page)
    assert page.locator("[data-preset][aria-pressed=true]").count() == 0


def test_the_assumptions_are_above_the_fold(open_page):
    page = open_page()
    for name in ("last", "convex", "shrunk", "ball"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["y"] + box["height"] <= DESKTOP[1]
    rests, answers = page.locator("#rests").bounding_box(), page.locator("#noise-box").bounding_box()
    form = page.locator("#form").bounding_box()
    assert form["x"] + form["width"] <= answers["x"] < rests["x"] + rests["width"]
    assert answers["y"] + answers["height"] <= rests["y"]
    assert rests["y"] + rests["height"] <= DESKTOP[1]


def test_disabled_boxes_look_disabled(open_page):
    page = open_page()  # all rows in every step: no batch size
    style = "id => (one => [one.borderStyle, one.backgroundColor, one.color])(getComputedStyle(document.getElementById(id)))"
    off, on = (page.evaluate(style, name) for name in ("batch", "epochs"))
    assert page.is_disabled("#batch")
    assert all(a != b for a, b in zip(off, on, strict=True))


def test_sliders_move_the_answer(open_page):
    page = open_page()
    first = page.text_content("#noise")
    slider = page.locator("#epsilon-slider")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.85 * box["width"], box["y"] + box["height"] / 2)
    less = changed(page, first)
    assert less < float(first)
    assert float(page.input_value("#epsilon")) > 1
    before = page.text_content("#noise")
    page.mouse.move(box["x"] + 0.85 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    for k in range(12):
        page.mouse.move(box["x"] + (0.85 - 0.05 * k) * box["width"], box["y"] + box["height"] / 2)
    page.mouse.up()
    assert changed(page, before) > less
    assert page.text_content("#command").split("--epsilon ")[1].split()[0] == page.input_value("#epsilon")


def test_the_keyboard_is_enough(open_page):
    page = open_page()
    first = page.text_content("#noise")
    page.focus("#n-slider")
    value = page.input_value("#n")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    assert int(page.input_value("#n")) > int(value)
    assert page.get_attribute("#n-slider", "aria-valuetext") == page.input_value("#n")
    page.focus("#last")
    page.keyboard.press("Space")
    second = changed(page, first)
    assert second > float(first)
    page.focus("#sampling")
    page.keyboard.press("ArrowDown")
    assert page.input_value("#sampling") == "cyclic"
    settled(page)
    page.wait_for_selector("#command:has-text('--sampling cyclic')")
    page.focus("#epsilon")
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("3.5")
    settled(page)
    page.wait_for_selector("#command:has-text('--epsilon 3.5')")


def test_assumptions_that_are_unticked_cost_noise(open_page):
    page = open_page()
    first = page.text_content("#noise")
    needed = page.text_content("#noise-words").split("needs ")[1].split(":")[0]
    page.click("label[for=convex]")
    assert changed(page, first) == float(needed)
    assert page.text_content("#risk") == "no bound"
    for name in ("shrunk", "ball", "inside", "automatic", "step", "l2", "radius"):
        assert page.is_disabled(f"#{name}")
    page.click("label[for=convex]")
    assert changed(page, needed) == float(first)


def test_a_wrong_address_has_no_older_answers(address, visit):
    page = visit(f"{address}?n=5")
    page.wait_for_selector("#n[aria-invalid=true]")
    assert page.text_content("#trouble") == "Some settings are not possible: see the fields."


def test_a_wrong_field_is_told_and_mended(open_page):
    page = open_page("?sampling=cyclic")
    page.fill("#batch", "70000")
    page.wait_for_selector("#batch[aria-invalid=true]")
    assert "at most n = 60,000 rows" in page.text_content("#batch-error")
    assert "older" in page.text_content("#trouble")
    page.fill("#batch", "")
    page.wait_for_selector("#batch-error:has-text('not a number')")
    page.fill("#batch", "600")
    page.wait_for_selector("#batch:not([aria-invalid])")
    settled(page)
    assert page.text_content("#batch-error") == page.text_content("#trouble") == ""


def test_the_copied_command_and_python_do_it(open_page, capsys):
    from dplateau.cli.main import status

    page = open_page("?sampling=shuffled&epochs=20", permissions=["clipboard-read", "clipboard-write"])
    page.click("#copy-command")
    page.wait_for_selector("#command-copied:not(:empty)")
    command = page.evaluate("navigator.clipboard.readText()")
    assert status(shlex.split(command)[1:]) == 0
    found = float(capsys.readouterr().out.split()[1])
    assert found == pytest.approx(noise_of(page), rel=1e-3)
    page.click("#copy-python")
    page.wait_for_selector("#python-copied:not(:empty)")
    exec(page.evaluate("navigator.clipboard.readText()"), {})
    assert float(capsys.readouterr().out) == pytest.approx(found, rel=1e-7)


def test_without_a_clipboard_the_text_is_selected(open_page):
    page = open_page()
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('denied')); }")
    page.click("#copy-command")
    page.wait_for_selector("#command-copied:not(:empty)")
    assert page.evaluate("getSelection().toString()").strip() == page.text_content("#command").strip()


def test_a_bookmark_brings_the_plan_back(open_page, address):
    page = open_page()
    first = page.text_content("#noise")
    page.select_option("#sampling", "shuffled")
    page.fill("#epochs", "40")
    page.click("label[for=adjacency-replace]")
    noise = changed(page, first)
    page.wait_for_url("**adjacency=replace**")
    again = open_page(page.url.removeprefix(address))
    assert noise_of(again) == noise
    assert again.input_value("#sampling") == "shuffled"
    assert again.is_checked("#adjacency-replace")
    assert again.input_value("#epochs") == "40"
    again.click("button:has-text('A table')")
    settled(again)
    assert again.text_content("#noise") == first


def test_an_old_answer_never_stands_over_a_newer_one(open_page):
    page = open_page()
    for epsilon in ("0.3", "5", "0.7", "2", "1.5"):
        page.fill("#epsilon", epsilon)
    page.wait_for_selector("#command:has-text('--epsilon 1.5')")
    settled(page)
    assert page.text_content("#noise") == answer(Settings(epsilon=1.5), "noise")["shown"]


def test_themes_change(open_page):
    page = open_page()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != light
    page.click("#theme")
    assert page.evaluate(ground) == light


@pytest.mark.parametrize(("theme", "size"), [("light", PHONE), ("dark", DESKTOP)], ids=["light-phone", "dark-desktop"])
def test_it_is_accessible_and_fits(open_page, violations, overflow, theme, size):
    page = open_page("?sampling=shuffled&epochs=20&n=60100", theme, size)
    assert violations(page) == []
    assert overflow(page) == 0


@pytest.mark.parametrize("theme", THEMES)
def test_messages_are_accessible_and_fit(open_page, violations, overflow, theme):
    page = open_page("?sampling=shuffled&epochs=20", theme, PHONE)
    page.fill("#batch", "0")
    page.wait_for_selector("#batch[aria-invalid=true]")
    assert violations(page) == []
    assert overflow(page) == 0


def test_on_a_phone_settings_stand_above_answers(open_page):
    page = open_page("", "light", PHONE)
    form, answers = page.locator("#form").bounding_box(), page.locator("#answers").bounding_box()
    assert form["y"] + form["height"] <= answers["y"]
    assert page.locator(".bar").is_visible()
    assert page.text_content("#bar-noise") == page.text_content("#noise")
    page.locator("#epochs").scroll_into_view_if_needed()
    bar = page.locator(".bar").bounding_box()
    assert bar["y"] + bar["height"] <= PHONE[1] + 1
    page.click(".bar")
    assert abs(page.locator("#answers").bounding_box()["y"]) < 5
    assert page.url.endswith("#answers")
