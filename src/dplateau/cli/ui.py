"""``dplateau ui``: the planner page and the pages of a ledger, for browsers on this computer."""

from __future__ import annotations

import errno
import socket
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from dplateau.cli import options as o
from dplateau.spec.errors import InputError, PrivacyWarning

if TYPE_CHECKING:
    from dplateau.ledger import Ledger

HOST = "127.0.0.1"
PAGE = "The page"


def ui(
    port: Annotated[int, o.option("Port; 0 for any free port.", PAGE, "--port", metavar="N")] = 8337,
    browser: Annotated[bool, o.flag("Open the browser.", PAGE, "--browser/--no-browser")] = True,
    ledger: Annotated[
        str | None,
        o.option("Also show this ledger, which is only read: see dplateau ledger.", PAGE, "--ledger", metavar="URL"),
    ] = None,
) -> None:
    """Plan with sliders in the browser: noise, plateau, trade-off curve and risk from public facts.

    The page is visible on this computer only, reads no data and stores nothing.
    Ctrl-C ends it, with exit status 0.

    For example:

    dplateau ui

    dplateau ui --ledger sqlite:///privacy.db
    """
    if not 0 <= port <= 65535:
        raise InputError(f"--port is {port}: expected a number from 0 to 65535.")
    import uvicorn

    from dplateau.ui.answer import warm_up
    from dplateau.ui.app import application

    kept = None if ledger is None else _known(ledger)
    with _listening(port) as listener:
        warm_up()
        warnings.simplefilter("ignore", PrivacyWarning)  # The page says it, and its threads share the filters.
        address = f"http://{HOST}:{listener.getsockname()[1]}/"
        there = "" if kept is None else f" and the ledger at {address}ledger"
        print(f"The planner is at {address}{there} until you press Ctrl-C.", flush=True)
        if browser:
            threading.Thread(target=_open, args=(address,), daemon=True).start()
        config = uvicorn.Config(application(kept), log_level="error", access_log=False, lifespan="off", server_header=False)
        with suppress(KeyboardInterrupt):  # That is how one ends it.
            uvicorn.Server(config).run(sockets=[listener])


def _known(url: str) -> Ledger:
    """A ledger that can be read: a wrong address is better found now."""
    from dplateau.ledger import Ledger

    ledger = Ledger(url)
    ledger.head()
    return ledger


def _listening(port: int) -> socket.socket:
    """A socket that only this computer reaches."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} is in use: stop the program that uses it, or choose another --port (0 for any free port)."
            ) from None
        if error.errno == errno.EACCES:
            raise InputError(f"port {port} is not allowed here: choose a --port of 1024 or more.") from None
        raise
    return listener


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
