"""What the theme leaves out for people who hear a page, go through it by keyboard, or open it without a network.

The search dialog gets a name, empty headers of tables become cells, and the script with which a page that was opened as a file
searches comes from this site.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

SHIM = "https://unpkg.com/iframe-worker/shim"
SEARCH = '<div class="md-search" data-md-component="search" role="dialog">'


def on_page_content(html: str, **_: Any) -> str:
    """An empty corner of a table is not a header."""
    return re.sub(r"<th([^>]*)>\s*</th>", r"<td\1></td>", html)


def on_post_template(output_content: str, *, template_name: str, config: MkDocsConfig) -> str:
    """As for pages, for what is made without one (404), which has the whole address of the site in its links."""
    base = (config.site_url or "/").rstrip("/")
    return _mended(output_content, base) if template_name.endswith(".html") else output_content


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """The search dialog has a name, and nothing is loaded from elsewhere."""
    return _mended(output, "/".join([".."] * page.url.count("/")) or ".")


def _mended(html: str, base: str) -> str:
    named = html.replace(SEARCH, SEARCH.replace("role=", 'aria-label="Search" role='))
    return named.replace(SHIM, f"{base}/assets/iframe-worker.js")
