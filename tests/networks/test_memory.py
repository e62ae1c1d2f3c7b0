"""Freed memory stays with the process while a network is trained, and only then."""

from __future__ import annotations

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.networks import memory, train_network
from dplateau.networks.memory import kept_memory

from .small import run_of

FAULTS = """
import resource
from dplateau.networks.memory import kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        bytearray(1 << 26)  # 64 MB: more than glibc keeps by itself
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

outside = faults()
with kept_memory():
    faults()
    inside, kept = faults(), resident()
print(outside, inside, kept - resident(), faults())
"""


class Recorded:
    """A C library that notes what it is asked for."""

    def __init__(self):
        self.asked = []

    def mallopt(self, *what):
        self.asked.append(what)

    def malloc_trim(self, pad):
        self.asked.append(("trimmed", pad))


@pytest.fixture
def library(monkeypatch):
    for name in memory._SET_BY_USER:
        monkeypatch.delenv(name, raising=False)
    found = Recorded()
    monkeypatch.setattr(memory, "_C", found)
    return found


KEPT = [(-3, 2**31 - 1), (-1, 2**31 - 1)]
GIVEN_BACK = [(-3, 2**25), (-1, 2**26), ("trimmed", 0)]


def test_memory_is_kept_until_the_last_training_ends(library):
    with kept_memory():
        with kept_memory():
            assert library.asked == KEPT * 2
        assert library.asked == KEPT * 2
    assert library.asked == KEPT * 2 + GIVEN_BACK


def test_memory_is_given_back_after_an_error(library):
    with pytest.raises(KeyboardInterrupt), kept_memory():
        raise KeyboardInterrupt
    assert library.asked == KEPT + GIVEN_BACK


def test_what_a_compiler_leaves_is_given_back_before_the_first_step(library):
    rows, at = np.ones((20, 3), np.float32), []
    train_network(
        run_of(n=20, steps=2),
        lambda p, e: jnp.sum((p["w"] * e) ** 2),
        {"w": np.ones(3, np.float32)},
        rows,
        progress=lambda *_: at.append(len(library.asked)),
    )
    assert library.asked == [("trimmed", 0), *KEPT, *GIVEN_BACK]
    assert at[0] == 1 + len(KEPT)


@pytest.mark.parametrize("name", memory._SET_BY_USER)
def test_the_users_settings_stay(library, monkeypatch, name):
    monkeypatch.setenv(name, "131072")
    with kept_memory():
        pass
    assert library.asked == []


@pytest.mark.parametrize("other", [None, object()])
def test_without_glibc_nothing_happens(monkeypatch, other):
    monkeypatch.setattr(memory, "_C", other)
    with kept_memory():
        pass


@pytest.mark.skipif(not hasattr(memory._C, "malloc_trim"), reason="the C library is not glibc")
def test_freed_arrays_are_not_fetched_again():
    """64 MB are 16,384 pages of 4 KB, ten times: outside all are fetched anew, inside none, and at the end they are returned."""
    found = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env={}).stdout
    outside, inside, returned, after = map(int, found.split())
    assert outside > 100 * max(inside, 1)
    assert returned > 1 << 25
    assert after > 0.9 * outside
