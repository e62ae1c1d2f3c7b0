"""The values that fields of runs and budgets have names for. They need nothing else, so that an option can list them at once."""

from typing import Final

ADJACENCIES: Final = ("add-remove", "replace")
RELEASED: Final = ("last", "all")
UNITS: Final = ("row", "person")
NOTIONS: Final = ("renyi", "gaussian")
"""Privacy notions in which a budget is kept."""
KINDS: Final = ("poisson", "fixed-size", "random-allocation", "cyclic", "shuffled", "one-pass", "full")
"""Kinds of sampling."""
