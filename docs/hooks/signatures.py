"""Signatures of the Python reference fill their lines: one argument a line leaves a page mostly empty."""

from __future__ import annotations

import re
from typing import Any

SIGNATURE = re.compile(r'(?<=doc-signature highlight"><pre>).*?(?=</pre>)', re.S)
LAST_COMMA = re.compile(r'<span class="p">,</span>\n(?=<span class="p">\))')
LINE_BREAK = re.compile(r"(?<=\(</span>)\n +|\n(?=<span class=\"p\">\))")


def on_page_content(html: str, **_: Any) -> str:
    """Join the lines of every signature; the style sheet lets them wrap."""
    return SIGNATURE.sub(lambda found: joined(found[0]), html)


def joined(signature: str) -> str:
    """One line of highlighted code, of several that end in commas."""
    return re.sub(r"\n +", " ", LINE_BREAK.sub("", LAST_COMMA.sub("", signature)))
