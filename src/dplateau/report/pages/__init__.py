"""What the HTML pages share: one frame, one style sheet. Nothing is loaded from elsewhere.

``base.html`` is the frame; ``theme.js`` its theme button; ``style.css`` has both themes, print and telephones. ``charts.js`` reads
out the SVG charts of a certificate.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER: Final = Path(__file__).parent


@cache
def environment(*folders: Path) -> Environment:
    """Templates of these folders and of this one. Whatever is put into a page is escaped: certificates come from strangers."""
    found = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(asset=asset)  # type: ignore[reportCallIssue]
    return found


def render(template: str, *folders: Path, **context: Any) -> str:
    """A page: the template of that name, from one of the folders or from this one, filled in. A number and its % stay together."""
    page = environment(*folders).get_template(template).render(**context)
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", page)


@cache
def asset(name: str) -> Markup:
    """A style sheet or a script of this folder, to be put into a page as it is."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))
