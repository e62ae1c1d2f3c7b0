"""Draws the pictures of the page "Gallery", into the folder gallery beside this file, by running the code of that page."""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "gallery.md"


def main() -> None:
    """Run all Python blocks of the page in that folder."""
    page = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S))
    (FOLDER / "gallery").mkdir(exist_ok=True)
    os.chdir(FOLDER / "gallery")
    exec(compile(code, str(PAGE), "exec"), {})


if __name__ == "__main__":
    main()
