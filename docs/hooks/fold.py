"""Pages in which one looks things up show of every section what it is about; the rest is a line that opens.

Links to what is folded open it, as does the search; on paper all is open. That is the theme's doing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page


class Fold(NamedTuple):
    """How the sections of a page are folded."""

    level: int
    """Of the headings of sections: 2 or 3."""
    shown: str
    """The last element of a section that stays open: its first one of this name."""
    words: str
    """What the line says."""
    whole: int = 0
    """How many sections, from the first one on, stay as they are."""


PAGES = {
    "benchmarks.md": Fold(2, "p", "Figures"),
    "changelog.md": Fold(3, "h3", "Changes", whole=1),
    "reference/command-line.md": Fold(2, "p", "Options and output"),
    "reproduced/networks.md": Fold(2, "h2", "Tables", whole=4),
    "reproduced/p0.md": Fold(2, "h2", "Tables and pictures", whole=2),
    "reproduced/p1.md": Fold(2, "h2", "Tables", whole=6),
    "study.md": Fold(2, "p", "Tables and pictures", whole=2),
}
SHORT = 500
"""Characters of HTML: a section whose rest is shorter stays open."""


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Fold the sections of the pages above."""
    fold = PAGES.get(page.file.src_uri)
    if fold is None:
        return html
    head, *sections = re.split(rf"(?=<h{fold.level}[ >])", html)
    return head + "".join([*sections[: fold.whole], *(folded(section, fold) for section in sections[fold.whole :])])


def folded(section: str, fold: Fold) -> str:
    """A section with all that follows its first words in a ``details``; a section of a higher level that begins in it stays out."""
    own, *higher = re.split(rf"(?=<h[1-{fold.level - 1}][ >])", section, maxsplit=1)
    shown, end, rest = own.partition(f"</{fold.shown}>")
    if len(rest) < SHORT:
        return section
    return f'{shown}{end}\n<details class="more"><summary>{fold.words}</summary>\n{rest}\n</details>\n{"".join(higher)}'
