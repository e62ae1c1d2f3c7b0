"""The web application: the planner, its scripts and answers, and the pages of a ledger, for browsers on this computer only.

Nothing is read but the pages' own files and the ledger, nothing is stored, no data come in.
Requests for another host's name are refused, so that no website can reach the page through a name that it points to this computer.
So is what another page asks for other than by a link: an answer can take a minute, and websites could ask for many.
"""

from __future__ import annotations

import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dplateau.report.pages import asset, render
from dplateau.ui.answer import answer
from dplateau.ui.settings import NUMBERS, PRESETS, Settings, SettingsError

if TYPE_CHECKING:
    from dplateau.ledger import Ledger
    from dplateau.ui.ledger import LedgerPages

HOSTS: Final = ("127.0.0.1", "localhost")
FOLDER: Final = Path(__file__).parent
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts come from this application only; Plotly writes styles of its own."""
_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class _Headers:
    """Adds the headers that keep other pages out."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self.app(scope, receive, sending if scope["type"] == "http" else send)


class _OwnRequests:
    """Refuses what another origin asks for, unless a link was followed. Browsers say so, and other programs need not."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            said = Request(scope).headers
            foreign = said.get("sec-fetch-site", "none") not in ("same-origin", "none")
            link = (said.get("sec-fetch-mode"), said.get("sec-fetch-dest")) == ("navigate", "document")
            if (foreign and not link) or said.get("origin", f"http://{said['host']}") != f"http://{said['host']}":
                await Response("Asked for by another website: refused.\n", status_code=403, media_type="text/plain")(
                    scope, receive, send
                )
                return
        await self.app(scope, receive, send)


def page(_: Request, ledger: LedgerPages | None = None) -> Response:
    """``/``: the planner, which knows the ranges and the defaults of all settings, and the accounts of a ledger."""
    known = ledger.known() if ledger else {"accounts": None, "trouble": ""}
    presets = {name: (label, words, settings.to_query()) for name, (label, words, settings) in PRESETS.items()}
    text = render("planner.html", FOLDER, numbers=NUMBERS, query=Settings().to_query(), presets=presets, **known)
    return HTMLResponse(text, headers={"Cache-Control": "no-cache"})


def answered(request: Request) -> Response:
    """``/answer?part=...&piece=...&n=...``: the settings are in the query, the milliseconds that it took in the answer.

    Each is computed in a thread of its own (it is not a coroutine), so that others need not wait for one that takes long.
    Errors have status 400; with ``quiet=1`` they are an answer like another one, since browsers report refused requests as faults.
    """
    begun = time.perf_counter()
    query = dict(request.query_params)
    refused = 200 if query.pop("quiet", "0") == "1" else 400
    part, piece = query.pop("part", "noise"), query.pop("piece", "0")
    headers = {"Cache-Control": "no-store"}
    try:
        settings = Settings.parse(query)
        if not (piece.isascii() and piece.isdigit() and len(piece) < 4):
            raise SettingsError({"piece": "expected a whole number."})
        content: dict[str, Any] = answer(settings, part, int(piece))
    except SettingsError as error:
        return JSONResponse({"errors": error.fields}, status_code=refused, headers=headers)
    return JSONResponse({**content, "milliseconds": 1000 * (time.perf_counter() - begun)}, headers=headers)


async def without_ledger(_: Request) -> Response:
    """``/ledger``, where there is none."""
    return Response("This page needs a ledger: start it with dplateau ui --ledger URL.\n", status_code=404, media_type="text/plain")


@cache
def plotly() -> str:
    """Plotly's script, from the installed package: 4.8 MB."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


async def script(request: Request) -> Response:
    """The pages' scripts: the theme button; Plotly, the figures, the planner."""
    name = request.path_params["name"]
    text = {
        "plotly": plotly,
        "theme": lambda: asset("theme.js"),
        "figures": lambda: (FOLDER / "figures.js").read_text(encoding="utf-8"),
        "planner": lambda: (FOLDER / "planner.js").read_text(encoding="utf-8"),
    }.get(name)
    if text is None:
        return Response("not found", status_code=404, media_type="text/plain")
    return Response(text(), media_type="text/javascript", headers={"Cache-Control": "no-cache"})


def application(ledger: Ledger | None = None) -> Starlette:
    """The application, for uvicorn and for tests.

    Parameters
    ----------
    ledger : Ledger, optional
        Its pages are served, too. It is only read.
    """
    if ledger is None:
        planner, pages = page, [Route(path, without_ledger, methods=["GET"]) for path in ("/ledger", "/ledger/{name:path}")]
    else:
        from dplateau.ui.ledger import LedgerPages

        found = LedgerPages(ledger)
        planner, pages = partial(page, ledger=found), found.routes()
    return Starlette(
        routes=[
            Route("/", planner, methods=["GET"]),
            Route("/answer", answered, methods=["GET"]),
            *pages,
            Route("/{name}.js", script, methods=["GET"]),
        ],
        middleware=[
            Middleware(_Headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False),
            Middleware(_OwnRequests),
        ],
    )
