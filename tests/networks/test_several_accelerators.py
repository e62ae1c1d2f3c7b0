"""Several accelerators of one process: three devices of a processor that pass for them."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
N = 201


def answer(what):
    command = [sys.executable, "-W", "ignore", str(HERE / "networks_on_devices.py"), what]
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_neither_microbatches_nor_memory_change_a_bit():
    for kind, (small, large, streamed, alone) in answer("ways").items():
        assert small == large, kind
        if kind == "poisson":  # Batches are drawn by device and by chunk.
            assert len({str(one) for one in (small, streamed, alone)}) == 3
        else:
            assert small == streamed == alone, kind


def test_fewer_records_than_devices():
    found = answer("few")
    assert found[0] == found[1]


def test_each_device_draws_keys_for_its_own_examples():
    """Two steps of half the mean of 201 normals."""
    found = answer("keys")
    assert found[0] != found[1]
    assert all(0 < abs(one) < 6 * 0.5 * math.sqrt(2 / N) for one in found)


def test_contributions_that_depend_on_others_are_refused_before_the_first_step():
    said = answer("bent")
    assert len(said) == 2
    assert all("depends on its place" in one for one in said)
