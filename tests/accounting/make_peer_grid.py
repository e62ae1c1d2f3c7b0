"""Write ``peer_grid.json``: what dp-accounting's privacy loss distributions give on a fixed grid of settings.

``python tests/accounting/make_peer_grid.py`` takes some ten minutes; the tests read the file and recompute a few of its rows.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import json
import logging
import math
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld

FILE = Path(__file__).with_name("peer_grid.json")
RELATION = {"add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}
STEPS = (1, 2, 5, 20, 100, 500, 2_000, 10_000, 100_000)
RATES = (1e-5, 1e-4, 1e-3, 0.004, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0)
NOISES = (0.3, 0.5, 0.7, 1.0, 1.5, 3.0, 10.0, 30.0, 100.0)
DELTAS = (1e-12, 1e-8, 1e-5, 1e-3, 0.1)
SETTINGS = 110
PER_SETTING = 3


def peer_epsilons(
    adjacency: str, rate: float, noise: float, steps: int, deltas: list[float], interval: float
) -> tuple[list[float], list[float]]:
    """The peer's pessimistic (connect the dots) and optimistic (privacy buckets) epsilons."""

    def epsilons(pessimistic: bool) -> list[float]:
        step = pld.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            neighboring_relation=RELATION[adjacency],
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
            value_discretization_interval=interval,
        )
        whole = step.self_compose(steps)
        return [float(whole.get_epsilon_for_delta(delta)) for delta in deltas]

    return epsilons(True), epsilons(False)


def rough_mu(rate: float, noise: float, steps: int) -> float:
    """The central limit's mu: only to choose settings that the peer copes with."""
    return rate * math.sqrt(steps * math.expm1(min(noise**-2, 50.0))) if rate < 1 else math.sqrt(steps) / noise


def grid() -> list[dict[str, Any]]:
    """The settings, chosen by a fixed seed among all combinations of moderate cost."""
    rng = np.random.default_rng(20)
    every = [
        (adjacency, rate, noise, steps)
        for adjacency, rate, noise, steps in itertools.product(RELATION, RATES, NOISES, STEPS)
        if 1e-3 < rough_mu(rate, noise, steps) < 6
    ]
    chosen = [every[i] for i in sorted(rng.choice(len(every), SETTINGS, replace=False))]
    return [
        {
            "adjacency": adjacency,
            "rate": rate,
            "noise": noise,
            "steps": steps,
            "interval": 1e-4 if noise < 1 or rough_mu(rate, noise, steps) > 0.05 else 1e-5,
            "deltas": sorted(rng.choice(DELTAS, PER_SETTING, replace=False).tolist()),
        }
        for adjacency, rate, noise, steps in chosen
    ]


def main() -> None:
    """Compute every row and write the file."""
    logging.disable(logging.WARNING)
    rows = grid()
    for i, row in enumerate(rows):
        given = (row["adjacency"], row["rate"], row["noise"], row["steps"], row["deltas"], row["interval"])
        row["pessimistic"], row["optimistic"] = peer_epsilons(*given)
        print(f"{i + 1}/{len(rows)}", file=sys.stderr, end="\r", flush=True)
    head = {"dp-accounting": version("dp-accounting"), "upper": "connect the dots", "lower": "privacy buckets"}
    lines = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f'{{"peer": {json.dumps(head)},\n"rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
