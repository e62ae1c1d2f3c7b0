"""dp-accounting's privacy loss distributions: recorded on a grid (``make_peer_grid.py``), and a few recomputed."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, compositions

from . import make_peer_grid

ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("peer_grid.json").read_text())["rows"]
N = 1_000_000
WIDTH = 1e-4
"""The peer's own error is larger, and the hard rows (rate 1e-5, little noise) are quicker so."""


def guarantee(row: dict[str, Any]) -> ExactComposition:
    sampling = dp.FullBatch() if row["rate"] == 1 else dp.Poisson(row["rate"] * N)
    run = dp.Run(n=N, sampling=sampling, steps=row["steps"], noise_multiplier=row["noise"], adjacency=row["adjacency"])
    return ExactComposition(compositions(run)[0], width=WIDTH)


def agrees(ours: ExactComposition, here: Enclosure, row: dict[str, Any], delta: float, high: float, low: float) -> bool:
    """Whether the peer brackets our enclosure, given the rounding of its transforms: up to 1e-14 sqrt(T) in delta."""

    def inside(upper: Enclosure, lower: Enclosure) -> bool:
        return lower.lower <= high * (1 + 1e-9) + 1e-12 and low <= upper.upper

    if inside(here, here):
        return True
    noise = 1e-14 * math.sqrt(row["steps"])
    return noise < delta and inside(ours.epsilon(delta - noise), ours.epsilon(delta + noise))


def test_the_grid_is_wide() -> None:
    assert sum(len(row["deltas"]) for row in ROWS) >= 300
    for name, low, high in (("steps", 1, 100_000), ("rate", 1e-5, 1), ("noise", 0.3, 100)):
        assert min(row[name] for row in ROWS) == low
        assert max(row[name] for row in ROWS) == high
    assert {delta for row in ROWS for delta in row["deltas"]} == set(make_peer_grid.DELTAS)
    assert {row["adjacency"] for row in ROWS} == {"add-remove", "replace"}


@pytest.mark.parametrize("part", range(5))
def test_the_recorded_peer_brackets_us(part: int) -> None:
    for row in ROWS[part::5]:
        ours = guarantee(row)
        for delta, high, low in zip(row["deltas"], row["pessimistic"], row["optimistic"], strict=True):
            if delta < 1e-13 * row["steps"]:
                continue  # Below the rounding of the peer's transforms.
            here = ours.epsilon(delta)
            assert agrees(ours, here, row, delta, high, low), (row, delta, here)
            if row["steps"] * delta < 1e-4 and row["rate"] > 1e-4:
                # The peer's chords cost it less than a tenth of what its buckets do.
                assert high - here.upper <= 1e-3 * max(high, 1) + (high - low) / 10 + 1e-6, (row, delta)


def recorded(row: dict[str, Any], **changed: float) -> bool:
    """Whether the peer, asked for this row with some of its settings changed, gives what is recorded.

    Its transforms round by up to ``1e-14 sqrt(T)`` in delta, and the masses of one step so that the mean loss, T times, moves by up
    to ``1e-10 T``. How they round depends on the machine: the mathematical functions of the C library take other instructions on
    other processors. So its epsilons are compared as if delta and the mean were known up to that.
    """
    row_asked = row | changed
    noise = 1e-14 * math.sqrt(row["steps"]) + 4e-16 * row["steps"]
    room = 1e-10 * row["steps"]
    deltas = [delta for delta in row["deltas"] if delta > 2 * noise]
    around = [delta + off for delta in deltas for off in (-noise, noise)]
    given = (row["adjacency"], row_asked["rate"], row_asked["noise"], row["steps"], around, row["interval"])
    for name, found in zip(("pessimistic", "optimistic"), make_peer_grid.peer_epsilons(*given), strict=True):
        wanted = [value for value, delta in zip(row[name], row["deltas"], strict=True) if delta > 2 * noise]
        for value, most, least in zip(wanted, found[::2], found[1::2], strict=True):
            if not least * (1 - 1e-9) - room <= value <= most * (1 + 1e-9) + room:
                return False
    return True


def test_the_peer_recomputed() -> None:
    logging.disable(logging.WARNING)
    # Of more steps the rounding of the peer is larger, and harder to bound.
    quick = [row for row in ROWS if row["noise"] >= 1 and row["interval"] == 1e-4 and row["steps"] <= 500]
    for row in quick[:: len(quick) // 12][:12]:
        assert recorded(row), row


def test_another_setting_is_not_what_was_recorded() -> None:
    """The comparison tells a row from one with a millionth more noise or a millionth less sampling."""
    logging.disable(logging.WARNING)
    row = next(row for row in ROWS if row["noise"] >= 1 and row["interval"] == 1e-4 and row["rate"] == 0.5)
    assert recorded(row)
    assert not recorded(row, noise=row["noise"] * (1 + 1e-6))
    assert not recorded(row, rate=row["rate"] * (1 - 1e-6))
