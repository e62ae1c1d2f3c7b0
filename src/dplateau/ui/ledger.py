"""The ledger's pages: all accounts, one account with what was spent by whom on what, its export, and what a plan would leave.

Everything here reads: nothing is ever reserved or written. Handlers are plain functions, which run in threads of their own, so that
a ledger that keeps them waiting keeps nobody else waiting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate.words import GUESSED, guessing_accuracy
from dplateau.ledger import Ledger, State
from dplateau.ledger.database import shown
from dplateau.report import ledger_words as words
from dplateau.report.ledger_story import Group, story
from dplateau.report.page_words import one_in
from dplateau.report.pages import render
from dplateau.report.words import percent
from dplateau.spec import InputError, LedgerError
from dplateau.ui.answer import planned
from dplateau.ui.settings import Settings, SettingsError

FOLDER: Final = Path(__file__).parent
TRAININGS: Final = 50
"""Trainings of an account, the last ones, and lines of other tables that a page shows."""
COLOURS: Final = 4
"""So many people have a colour of their own."""
FIELDS: Final = ("account", "partition", "records")
"""What a question about a plan says of the ledger: the account, and of a part its partition and name."""
_HERE: Final = "On this page a lower epsilon means more noise, and fewer epochs are fewer steps."
NEVER_STORED: Final = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class LedgerPages:
    """The pages of one ledger."""

    ledger: Ledger

    def routes(self) -> list[Route]:
        """What they are found at."""
        return [
            Route("/ledger", self.page, methods=["GET"]),
            Route("/ledger/{name:path}", self.page, methods=["GET"]),
            Route("/ledger.csv", self.export, methods=["GET"]),
            Route("/ledger.json", self.export, methods=["GET"]),
            Route("/forecast", self.forecast, methods=["GET"]),
        ]

    def page(self, request: Request) -> Response:
        """``/ledger``: all accounts; ``/ledger/NAME`` or ``/ledger?account=NAME``: one of them."""
        name = request.path_params.get("name") or request.query_params.get("account")
        return self._told(lambda ledger: _account(ledger, name) if name else _accounts(ledger))

    def export(self, request: Request) -> Response:
        """``/ledger.csv?account=NAME`` and ``/ledger.json?account=NAME``: entries, as ``dplateau ledger export`` writes them."""
        name = request.query_params.get("account")
        ending = request.url.path.rpartition(".")[2]
        write, kind = {"csv": (words.to_csv, "text/csv"), "json": (words.to_json, "application/json")}[ending]

        def made(ledger: Ledger) -> Response:
            text = write(ledger.entries(name))
            file = f"filename=\"ledger.{ending}\"; filename*=UTF-8''{quote(name or 'ledger', safe='')}.{ending}"
            return Response(text, media_type=kind, headers={"Content-Disposition": f"attachment; {file}", **NEVER_STORED})

        return self._told(made)

    async def forecast(self, request: Request) -> Response:
        """``/forecast?account=NAME&n=...``: what the plan of these settings would leave. Errors as those of ``/answer``."""
        query = dict(request.query_params)
        refused = 200 if query.pop("quiet", "0") == "1" else 400
        where = {name: query.pop(name, "") for name in FIELDS}
        try:
            content = await run_in_threadpool(self._foreseen, query, **where)
        except SettingsError as error:
            return JSONResponse({"errors": error.fields}, status_code=refused, headers=NEVER_STORED)
        except InputError as error:
            return JSONResponse({"errors": {"account": str(error)}}, status_code=refused, headers=NEVER_STORED)
        return JSONResponse(content, headers=NEVER_STORED)

    def known(self) -> dict[str, Any]:
        """What the planner's page says of the ledger: its accounts, or why there are none."""
        try:
            return {"accounts": self.ledger.accounts(), "trouble": ""}
        except InputError as error:
            return {"accounts": [], "trouble": str(error)}

    def _foreseen(self, query: dict[str, str], account: str, partition: str, records: str) -> dict[str, Any]:
        run = planned(Settings.parse(query))
        if not account:
            raise InputError("no account is named.")
        if bool(partition) != bool(records):
            raise InputError("a part has two names, that of the partition and its own: give both, or none.")
        part = (partition, records) if partition else None
        charged = self.ledger.account(account)
        about = run if charged.state().unit == "row" else run.replace(unit="person")
        found = charged.forecast(about, part=part)
        answer, more = words.foreseen(found, part)
        finite = math.isfinite(found.cost)
        return {
            "account": account,
            "address": address(account),
            "fits": found.fits,
            "cost": found.cost if finite else None,
            "left": found.left,
            "leaves": found.leaves,
            "answer": answer,
            "more": more if found.fits or not finite else f"{more} {_HERE}".strip(),
            "pieces": 1,
        }

    def _told(self, make: Callable[[Ledger], Response]) -> Response:
        """The page, or one line that says what is wrong."""
        try:
            return make(self.ledger)
        except LedgerError as error:
            return _page("ledger_trouble.html", 400, said=str(error))
        except InputError as error:
            return _page("ledger_trouble.html", 404, said=str(error))


def address(name: str) -> str:
    """Of an account's page. Browsers take a path of dots away."""
    return f"/ledger?{urlencode({'account': name})}" if name in (".", "..") else f"/ledger/{quote(name, safe='')}"


def _page(template: str, status: int = 200, **context: Any) -> Response:
    page = render(template, FOLDER, words=words, address=address, budget=budget, **context)
    # What somebody else wrote into a database may hold halves of characters.
    return HTMLResponse(page.encode("utf-8", "replace"), status_code=status, headers=NEVER_STORED)


def _accounts(ledger: Ledger) -> Response:
    return _page("ledger.html", where=shown(ledger.url), accounts=ledger.accounts(), head=ledger.head())


def _account(ledger: Ledger, name: str) -> Response:
    state, entries = ledger.history(name)
    told = story(state, entries)
    people, purposes = told.people, told.purposes
    return _page(
        "ledger_account.html",
        state=state,
        story=told,
        entries=len(entries),
        bar=bar(people, state.left),
        purposes=purposes[:TRAININGS],
        more_purposes=len(purposes) - TRAININGS,
        parts=state.parts[:TRAININGS],
        more_parts=len(state.parts) - TRAININGS,
        trainings=told.trainings[: -TRAININGS - 1 : -1],
        more_trainings=len(told.trainings) - TRAININGS,
        not_ended=state.reserved - state.committed,
        on_parts=bool(state.parts),
        promise=_promise(state, sum(map(words.void, entries))),
        plan=_plan(state),
        export=urlencode({"account": name}),
    )


def budget(state: State) -> str:
    """The budget of an account, as the page of a certificate would say it."""
    return f"epsilon {rounded_up(state.epsilon)} at delta {one_in(state.delta)}"


def _promise(state: State, void: int = 0) -> str:
    """What the budget means for one record, however the trainings were chosen; ``void`` of them certify nothing."""
    secret = GUESSED.get((state.unit, state.adjacency), f"what is said about one {state.unit}")
    best = percent(guessing_accuracy(state.epsilon, state.delta, None))
    return (
        f"Anyone who sees everything that these trainings release, and knows all the other data, can guess correctly {secret}"
        f" at most {best} of the time, if both answers are equally likely beforehand. A coin toss gets 50 %."
        + f" That leaves out {void:,} of them: the certificate of each certifies nothing, and no budget covers it."
        * bool(void)
    )


def _plan(state: State) -> str:
    """The planner's address with the account's facts filled in."""
    facts = {"n": state.n, "delta": f"{state.delta:.12g}", "adjacency": state.adjacency, "account": state.name}
    return f"/?{urlencode(facts)}"


@dataclass(frozen=True)
class Segment:
    """One person's share in the picture of a budget, in thousandths of its width; ``open`` of it has not ended."""

    name: str
    colour: str
    share: float
    start: float
    width: float
    open: float


def bar(people: Sequence[Group], left: float) -> list[Segment]:
    """Who took which share of a budget, side by side; beyond some people, all others together."""
    named = [(one.who, f"series-{k + 1}", [one]) for k, one in enumerate(people[:COLOURS])]
    if others := people[COLOURS:]:
        named.append((f"{len(others):,} others" if len(others) > 1 else others[0].who, "quiet", list(others)))
    segments: list[Segment] = []
    start = 0.0
    # Shares are rounded up in the sums of the ledger: the picture keeps to what is left.
    scale = min(1.0, (1 - left) / total) if (total := math.fsum(one.took for one in people)) > 0 else 1.0
    for name, colour, groups in named:
        share, waits = (math.fsum(getattr(one, field) for one in groups) for field in ("took", "took_not_ended"))
        segments.append(Segment(name, colour, share, 1000 * start, 1000 * scale * share, 1000 * scale * waits))
        start += scale * share
    return segments
