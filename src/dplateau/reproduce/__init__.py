"""The papers' numbers, computed again: what they print, what comes out here, and what is true."""

from dplateau.reproduce.p0_figures import P0_FIGURE_1, P0_FIGURE_2
from dplateau.reproduce.p0_lower_bound import P0_THEOREM_41
from dplateau.reproduce.p0_statements import P0_STATEMENTS
from dplateau.reproduce.p1 import P1
from dplateau.reproduce.p2_privacy import P2_PRIVACY
from dplateau.reproduce.p2_tables import P2_TABLES
from dplateau.reproduce.p3_adaptive import P3_ADAPTIVE
from dplateau.reproduce.p3_schedules import P3_FIGURE_1, P3_FIGURE_2
from dplateau.reproduce.p4_privacy import P4_PRIVACY
from dplateau.reproduce.p4_table3 import P4_TABLE3
from dplateau.reproduce.p4_table4 import P4_TABLE4
from dplateau.reproduce.p4_tables12 import P4_TABLES12
from dplateau.reproduce.page import Entry as Entry
from dplateau.reproduce.page import Inputs as Inputs
from dplateau.reproduce.page import Reproduction as Reproduction
from dplateau.reproduce.page import Table as Table
from dplateau.reproduce.study import STUDY

_PRIVACY = P0_FIGURE_1, P0_FIGURE_2, P0_THEOREM_41, P0_STATEMENTS, P3_FIGURE_1, P3_FIGURE_2, P4_PRIVACY
_TRAININGS = *P2_TABLES, *P3_ADAPTIVE, *P4_TABLES12, P4_TABLE3, P4_TABLE4, STUDY
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (P2_PRIVACY, P1, *_PRIVACY, *_TRAININGS)}
"""Everything that ``dplateau reproduce`` knows, by name."""
