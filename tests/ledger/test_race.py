"""Processes that compete for the last of a budget, and processes that are killed while they write: real ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROUNDS, KILLS = 30, 20


@pytest.fixture
def found(url):
    """``python experiments/ledger_race.py`` does a thousand rounds."""
    command = [sys.executable, str(ROOT / "experiments" / "ledger_race.py"), "--json", "--url", url]
    done = subprocess.run([*command, "--rounds", str(ROUNDS), "--kills", str(KILLS)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_spent_twice_and_nothing_is_forgotten(found):
    race, kills = found["race"], found["kills"]
    assert (race["overspent"], race["underspent"], race["problems"]) == (0, 0, 0)
    assert race["most winners in a round"] > 1  # several did compete
    assert (kills["forgotten"], kills["under-counted"], kills["problems"]) == (0, False, 0)
    assert kills["told of reservations"] > 0
