"""The planner page beside ``calibrate``, at random settings: whether its noise is the library's own, and how long it takes.

    python experiments/planner_page.py [--settings 400] [--seed 0] [--json FILE]

Settings are drawn uniformly from the page: every choice and every box with equal chances, numbers uniform on their sliders (which
are logarithmic). Those that the page refuses are drawn again. For each, the two answers are timed in a warm process: the first
number, and the certified one; then ``calibrate`` is asked on its own for what the page says would run. Times are of the processor,
so that other work on the machine does not count; use OPENBLAS_NUM_THREADS=1 for one thread. Results are kept in FILE after every
setting; started again, the command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

import dplateau as dp
from dplateau.ui.answer import answer, warm_up
from dplateau.ui.noise import step_size_of
from dplateau.ui.settings import CHOICES, NUMBERS, Settings, SettingsError

SOON: Final = 0.1
"""Seconds in which an answer should be there."""
BOXES: Final = ("last", "convex", "shrunk", "ball", "inside", "automatic")


def drawn(seed: int) -> Iterator[Settings]:
    """Settings that the page accepts."""
    random_source = random.Random(seed)
    while True:
        query = {name: random_source.choice(allowed) for name, allowed in CHOICES.items()}
        query |= {name: random_source.choice("01") for name in BOXES}
        for name, number in NUMBERS.items():
            value = math.exp(random_source.uniform(*map(math.log, number.reach)))
            query[name] = str(round(value)) if number.whole else f"{value:.2g}"
        try:
            yield Settings.parse(query)
        except SettingsError:
            continue


def seconds(make: Callable[[], Any]) -> tuple[Any, float]:
    """What ``make`` returns, or the message of its error, and the processor's time."""
    begun = time.process_time()
    try:
        made = make()
    except dp.InputError as error:
        made = str(error)
    return made, time.process_time() - begun


def compared(settings: Settings) -> dict[str, Any]:
    """One setting: the page's noise, the library's, what account says of it, and the times."""
    said, first = seconds(lambda: answer(settings, "first"))
    full, more = seconds(lambda: answer(settings, "noise"))
    row: dict[str, Any] = {"settings": settings.to_query(), "first": first, "certified": first + more}
    if isinstance(full, str):
        return row | {"refused": full}
    plan = settings.run(step_size_of(settings))
    least = dp.calibrate(plan, epsilon=settings.epsilon, delta=settings.delta).noise_multiplier
    row["kind"] = settings.sampling + (", last iterate" if settings.counts_on_last else "")
    row["progressive"] = not said["certified"]
    return row | {"noise": full["noise"], "calibrate": least, "epsilon": full["epsilon"], "target": settings.epsilon}


def table(rows: list[dict[str, Any]]) -> None:
    """Agreement, and quantiles of the times."""
    answered = [row for row in rows if "noise" in row]
    off = max(abs(row["noise"] / row["calibrate"] - 1) for row in answered)
    same = sum(f"{row['noise']:.6g}" == f"{row['calibrate']:.6g}" for row in answered)
    above = sum(row["epsilon"] > row["target"] for row in answered)
    print(f"{len(rows)} settings, {len(rows) - len(answered)} that need hardly any noise and are refused")
    print(
        f"{same} of {len(answered)} agree with calibrate to six digits; largest difference {off:.1e}; {above} cost more than asked"
    )
    print("\n| | settings | first number: median | 95 % | certified: median | 95 % | within 100 ms: first | certified |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in ("all", *sorted({row["kind"] for row in answered})):
        some = [row for row in answered if kind in ("all", row["kind"])]
        cells = [f"{np.quantile([row[what] for row in some], q):.3f} s" for what in ("first", "certified") for q in (0.5, 0.95)]
        shares = [f"{np.mean([row[what] <= SOON for row in some]):.1%}" for what in ("first", "certified")]
        print(f"| {kind} | {len(some)} | {' | '.join(cells)} | {' | '.join(shares)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", type=int, default=400, help="how many (default 400)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default 0)")
    parser.add_argument("--json", type=Path, help="where results are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore", dp.PrivacyWarning)
    warm_up()
    rows: list[dict[str, Any]] = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    for settings in islice(drawn(options.seed), len(rows), options.settings):
        rows.append(compared(settings))
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    table(rows)


if __name__ == "__main__":
    main()
