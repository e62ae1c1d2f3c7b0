"""The papers' numbers, computed again: what they print, what comes out here, and what is true."""

from dplateau_papers.p0.figures import P0_FIGURE_1, P0_FIGURE_2
from dplateau_papers.p0.lower_bound import P0_THEOREM_41
from dplateau_papers.p0.statements import P0_STATEMENTS
from dplateau_papers.p1.entry import P1
from dplateau_papers.p2.privacy import P2_PRIVACY
from dplateau_papers.p2.tables import P2_TABLES
from dplateau_papers.p3.adaptive import P3_ADAPTIVE
from dplateau_papers.p3.schedules import P3_FIGURE_1, P3_FIGURE_2
from dplateau_papers.p4.table3 import P4_TABLE3
from dplateau_papers.p4.table4 import P4_TABLE4
from dplateau_papers.p4.tables import P4_PRIVACY
from dplateau_papers.p4.tables12 import P4_TABLES12
from dplateau_papers.page import Entry as Entry
from dplateau_papers.page import Inputs as Inputs
from dplateau_papers.page import Reproduction as Reproduction
from dplateau_papers.page import Table as Table
from dplateau_papers.page import check_output as check_output
from dplateau_papers.study.entry import STUDY

_PRIVACY = P0_FIGURE_1, P0_FIGURE_2, P0_THEOREM_41, P0_STATEMENTS, P3_FIGURE_1, P3_FIGURE_2, P4_PRIVACY
_TRAININGS = *P2_TABLES, *P3_ADAPTIVE, *P4_TABLES12, P4_TABLE3, P4_TABLE4, STUDY
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (P2_PRIVACY, P1, *_PRIVACY, *_TRAININGS)}
"""Everything that ``dplateau reproduce`` knows, by name."""
