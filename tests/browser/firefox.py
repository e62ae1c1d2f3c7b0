"""A Firefox without a window, asked over WebDriver BiDi, which it speaks by itself: no driver and no other browser is needed.

Playwright drives Chromium and Firefoxes of its own making, not the one that people have. A tab here has the methods of a Playwright
page that the checks of accessibility and of widths use.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 60.0
"""Seconds for an answer."""
MASK = b"mask"
"""Any but zeros, which Firefox refuses."""
TWO_BYTES, EIGHT_BYTES = 126, 127
"""Instead of the length: it follows in so many bytes, the fewest that hold it."""
SETTINGS = {
    "layout.css.prefers-color-scheme.content-override": 0,  # the system's theme is dark
    "ui.prefersReducedMotion": 1,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
}


class Socket:
    """A WebSocket for texts (RFC 6455), to a server on this machine."""

    def __init__(self, address: str) -> None:
        where = urlsplit(address)
        self._raw = socket.create_connection((where.hostname, where.port), PATIENCE)
        head = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
        key = f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}"
        lines = (f"GET {where.path or '/'} HTTP/1.1", f"Host: {where.netloc}", *head, key, "", "")
        self._raw.sendall("\r\n".join(lines).encode())
        self._stream = self._raw.makefile("rb")
        answer = list(iter(lambda: self._stream.readline().strip(), b""))
        if not answer or b" 101 " not in answer[0]:
            raise ConnectionError(f"{address} is not a WebSocket: {answer[:1]}")

    def send(self, text: str) -> None:
        data = text.encode()
        if len(data) < TWO_BYTES:
            length = bytes([0x80 | len(data)])
        elif len(data) < 1 << 16:
            length = bytes([0x80 | TWO_BYTES]) + len(data).to_bytes(2)
        else:
            length = bytes([0x80 | EIGHT_BYTES]) + len(data).to_bytes(8)
        mask = (MASK * (len(data) // len(MASK) + 1))[: len(data)]
        masked = int.from_bytes(data) ^ int.from_bytes(mask)  # at once: data may be a megabyte
        self._raw.sendall(b"\x81" + length + MASK + masked.to_bytes(len(data)))  # one text, whole

    def receive(self) -> str:
        text = b""
        while True:
            first, length = self._read(2)
            if length >= TWO_BYTES:
                length = int.from_bytes(self._read(2 if length == TWO_BYTES else 8))
            data = self._read(length)
            if first & 0x0F == 8:
                raise ConnectionError("Firefox has ended the connection")
            if first & 0x0F in (0, 1):
                text += data
                if first & 0x80:
                    return text.decode()

    def close(self) -> None:
        self._stream.close()
        self._raw.close()

    def _read(self, length: int) -> bytes:
        data = self._stream.read(length)
        if len(data) < length:
            raise ConnectionError("Firefox has gone")
        return data


@contextmanager
def started(program: str, folder: Path) -> Iterator[Firefox]:
    """Firefox with a new profile in that folder, until the end of the block."""
    (folder / "user.js").write_text(
        "".join(f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in SETTINGS.items())
    )
    command = [program, "--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(folder)]
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            firefox = Firefox(_address(process, folder / "log.txt"))
            yield firefox
            firefox.close()
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)\n", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"Firefox has not started: {log.read_text(encoding='utf-8')}")


class Firefox:
    """A running Firefox."""

    def __init__(self, address: str) -> None:
        self._socket = Socket(f"{address}/session")
        self._numbers = count(1)
        self._tabs: dict[str, Tab] = {}
        self.command("session.new", capabilities={})
        self.command("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and wait for it; what pages report until then is kept."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.receive())
            if said["type"] == "event":
                self._report(said["method"], said["params"])
            elif said["type"] == "error":
                raise RuntimeError(f"{method}: {said['error']}: {said['message']}")
            elif said["id"] == number:
                return said["result"]

    def tab(self) -> Tab:
        """A new tab."""
        context = self.command("browsingContext.create", type="tab")["context"]
        return self._tabs.setdefault(context, Tab(self, context))

    def close(self) -> None:
        self.command("browser.close")
        self._socket.close()

    def _report(self, event: str, said: dict[str, Any]) -> None:
        """Keep what pages do wrong, and what they ask."""
        if event == "log.entryAdded" and said["level"] in ("error", "warn") and (tab := self._tabs.get(said["source"]["context"])):
            tab.errors.append(said["text"])
        elif event == "network.beforeRequestSent" and (tab := self._tabs.get(said["context"])):
            tab.asked.append(said["request"]["url"])


class Tab:
    """A page in Firefox, the errors and warnings of its scripts, and the addresses that it asked."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self.errors: list[str] = []
        self.asked: list[str] = []
        self._firefox, self._context = firefox, context

    def set_viewport_size(self, size: dict[str, int]) -> None:
        self._ask("browsingContext.setViewport", viewport=size)

    def goto(self, url: str) -> None:
        self._ask("browsingContext.navigate", url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of its promise."""
        where = {"target": {"context": self._context}, "awaitPromise": True, "resultOwnership": "root"}
        found = self._run("script.evaluate", expression=expression, serializationOptions={"maxObjectDepth": 0}, **where)
        if "handle" in found:
            text = self._run(
                "script.callFunction", functionDeclaration="value => JSON.stringify(value)", arguments=[found], **where
            )
            return json.loads(text["value"])
        return found.get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until it is true.

        Raises
        ------
        TimeoutError
            It has not become true.
        """
        until = time.monotonic() + PATIENCE
        while self.evaluate(expression) is not True:
            if time.monotonic() > until:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        """The whole page, as PNG."""
        path.write_bytes(base64.b64decode(self._ask("browsingContext.captureScreenshot", origin="document")["data"]))

    def close(self) -> None:
        self._ask("browsingContext.close")

    def _run(self, method: str, **parameters: Any) -> dict[str, Any]:
        said = self._firefox.command(method, **parameters)
        if said["type"] == "exception":
            raise RuntimeError(said["exceptionDetails"]["text"])
        return said["result"]

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._firefox.command(method, context=self._context, **parameters)
