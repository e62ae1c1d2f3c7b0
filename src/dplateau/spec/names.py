"""The values that a run's fields have names for. They need nothing else, so that an option can list them at once."""

from typing import Final

ADJACENCIES: Final = ("add-remove", "replace")
RELEASED: Final = ("last", "all")
UNITS: Final = ("row", "person")
KINDS: Final = ("poisson", "fixed-size", "random-allocation", "cyclic", "shuffled", "one-pass", "full")
"""Kinds of sampling."""
