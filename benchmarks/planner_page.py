"""Time of the answers of the planner page, ``dplateau ui``.

    python benchmarks/planner_page.py

Settings are drawn at random over the whole sliders, a quarter of them at an end, the same in every run. Every part of an answer is
asked for by HTTP from a server of its own in this process, as the page asks; nothing is asked twice. On a busy machine trust the
processor time, which is the server's without HTTP.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace

import uvicorn

from common import about, table
from dplateau.ui.answer import PARTS, answer, pieces, warm_up
from dplateau.ui.app import application
from dplateau.ui.settings import NUMBERS, SCHEMES, Settings, SettingsError


def position(chance: random.Random, name: str) -> str:
    """A number somewhere on its slider, or at an end of it."""
    number = NUMBERS[name]
    low, high = number.reach
    place = chance.choice((0.0, 1.0)) if chance.random() < 0.25 else chance.random()
    value = math.exp(math.log(low) + place * math.log(high / low))
    return str(round(value)) if number.whole else f"{min(max(value, low), high):.3g}"


def drawn(chance: random.Random, scheme: str) -> dict[str, str]:
    """Settings that the page accepts."""
    while True:
        query = {name: position(chance, name) for name in NUMBERS} | {"sampling": scheme}
        query["adjacency"] = chance.choice(("add-remove", "replace"))
        for name in ("shrunk", "ball", "inside", "automatic"):
            query[name] = chance.choice("01")
        for name in ("last", "convex"):
            query[name] = chance.choice("0111")
        try:
            Settings.parse(query)
        except SettingsError:
            continue
        return query


def served() -> tuple[uvicorn.Server, str]:
    """The page's server in a thread, and its address."""
    server = uvicorn.Server(uvicorn.Config(application(), port=0, log_level="error", access_log=False, lifespan="off"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return server, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/answer?"


def spread(times: list[float]) -> list[str]:
    """Median, 95th percentile and worst, in milliseconds."""
    return [f"{1000 * value:.0f}" for value in (statistics.median(times), statistics.quantiles(times, n=20)[-1], max(times))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", type=int, default=100, help="settings of each batch scheme (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(about("numpy", "scipy", "starlette", "uvicorn"))
    chance, rows = random.Random(options.seed), []
    slowest: list[tuple[float, str, dict[str, str]]] = []
    warm_up()
    server, address = served()
    for scheme in SCHEMES:
        clock: dict[str, list[float]] = defaultdict(list)
        processor: dict[str, list[float]] = defaultdict(list)
        problems: Counter[str] = Counter()
        for _ in range(options.settings):
            query = drawn(chance, scheme)
            settings = Settings.parse(query)
            twin = replace(settings, epsilon=settings.epsilon * (1 - 1e-9))  # so that nothing is remembered
            for part in PARTS:
                for piece in range(pieces(settings, part)):
                    begun = time.perf_counter()
                    asked = urllib.parse.urlencode(query | {"part": part, "piece": str(piece)})
                    try:
                        json.load(urllib.request.urlopen(address + asked, timeout=600))
                    except urllib.error.HTTPError as error:
                        problems[str(json.load(error)["errors"])[:90]] += part == "noise"
                    clock[part].append(time.perf_counter() - begun)
                    begun = time.thread_time()
                    with suppress(SettingsError):
                        answer(twin, part, piece)
                    processor[part].append(time.thread_time() - begun)
                    slowest.append((processor[part][-1], f"{part} {piece}", query))
        first = clock.pop("noise"), processor.pop("noise")
        others = [[one for times in of.values() for one in times] for of in (clock, processor)]
        rows.append([scheme, "noise", *spread(first[0]), *spread(first[1])])
        rows.append([scheme, "every other part", *spread(others[0]), *spread(others[1])])
        for message, count in problems.items():
            if count:
                print(f"{scheme}: {count} of {options.settings} settings have no answer: {message}")
    server.should_exit = True
    header = ["batches", "answer", "median ms", "95 %", "worst", "processor ms: median", "95 %", "worst"]
    print(table(header, rows))
    for seconds, part, query in sorted(slowest, key=lambda one: -one[0])[:3]:
        print(f"slowest: {1000 * seconds:.0f} ms of processor time, {part}: ?{urllib.parse.urlencode(query)}")


if __name__ == "__main__":
    main()
