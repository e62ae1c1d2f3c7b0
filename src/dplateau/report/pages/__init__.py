"""What the HTML pages share: one frame, one style sheet, one way to draw figures. Nothing is loaded from elsewhere.

``base.html`` is the frame, with the theme button; ``style.css`` has both themes, print and telephones; ``figures.js`` draws a
figure from a description of its axes and lines, in the theme's colours, with Plotly.
"""

from __future__ import annotations

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
    found.globals.update(asset=asset, plotly=plotly)  # type: ignore[reportCallIssue]
    return found


def render(template: str, *folders: Path, **context: Any) -> str:
    """A page: the template of that name, from one of the folders or from this one, filled in."""
    return environment(*folders).get_template(template).render(**context)


@cache
def asset(name: str) -> Markup:
    """A style sheet or a script of this folder, to be put into a page as it is."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


@cache
def plotly() -> Markup:
    """Plotly's script, from the installed package: 4.8 MB."""
    from plotly.offline import get_plotlyjs

    # Only the end tag could end the element early; the bundle has none, which a test checks.
    return Markup(get_plotlyjs())
