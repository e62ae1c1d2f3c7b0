"""Real kills, at random moments. It takes some ten seconds: processes are started, and compile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("one_call", [False, True], ids=["a call a step", "one call"])
@pytest.mark.parametrize(("kills", "seed"), [(5, None), (3, 1)])
def test_killed_processes_go_on_and_pay_for_what_was_lost(kills, seed, one_call):
    """The whole thing with real kills; ``python experiments/kills.py`` does it fifty times."""
    command = [sys.executable, str(ROOT / "experiments" / "kills.py"), "--json", "--kills", str(kills)]
    command += ["--one-call"] * one_call
    command += [] if seed is None else ["--insecure-seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert table["kills"] == kills
    assert table["under_counted_steps"] == 0
    assert table["steps"] <= table["steps_begun"] <= table["rows_of_noise"] <= table["certified_steps"]
    assert table["lost_parts"] > 0
    assert table["epsilon_certified"] > table["epsilon_uninterrupted"]
    assert table.get("bit_identical", True)
