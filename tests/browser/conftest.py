"""Pages in a real browser: headless Chromium driven by Playwright, with axe-core for accessibility; skipped without them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.browser import made

THEMES = ("light", "dark")
DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A running Chromium of the system."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page: ``visit(url, theme, size)``. Errors of its scripts and requests to elsewhere fail the test at its end."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_page(url: str | Path, theme: str = "light", size: tuple[int, int] = DESKTOP, **options: Any) -> Any:
        url = url.as_uri() if isinstance(url, Path) else url
        context = browser.new_context(
            color_scheme=theme, viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce", **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if local(request.url) else wrong.append(f"asks {request.url}"))
        page.goto(url, wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


def local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "http://localhost:"))


@pytest.fixture(scope="session")
def violations() -> Callable[..., list[str]]:
    """What axe-core finds wrong with a page: all its rules, of WCAG and best practices, or those of a list."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")

    def check(page: Any, rules: list[str] | None = None) -> list[str]:
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        found = axe.Axe().run(page, options=options).response["violations"]
        return [f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in found]

    return check


@pytest.fixture(scope="session")
def overflow() -> Callable[[Any], int]:
    """By how many pixels a page is wider than its window."""

    def measure(page: Any) -> int:
        return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    return measure


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of certificates by their names: "good", "seeded", "known", "unknown", "mismatch", "labelled"."""
    return made.certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A ledger with the accounts "patients" and a closed one."""
    pytest.importorskip("sqlalchemy")
    return made.a_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.fixture(scope="session")
def with_ledger(ledger: Any) -> Iterator[str]:
    """The address of the planner and the pages of that ledger."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from dplateau.ui.app import application

    with made.serving(application(ledger)) as address:
        yield address


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve a folder on this machine: ``serve(folder)`` gives its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(folder: Path) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
