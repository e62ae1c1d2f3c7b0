"""The papers' numbers, computed again: what they print, what comes out here, and what is true."""

from dplateau.reproduce.p1 import P1
from dplateau.reproduce.p2_privacy import P2_PRIVACY
from dplateau.reproduce.p2_tables import P2_TABLES
from dplateau.reproduce.p3_adaptive import P3_ADAPTIVE
from dplateau.reproduce.page import Entry as Entry
from dplateau.reproduce.page import Inputs as Inputs
from dplateau.reproduce.page import Reproduction as Reproduction
from dplateau.reproduce.page import Table as Table

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (P2_PRIVACY, *P2_TABLES, *P3_ADAPTIVE, P1)}
"""Everything that ``dplateau reproduce`` knows, by name."""
