"""Print the oldest versions that pyproject.toml declares, as constraints of pip: ``make test-oldest`` tests with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("train", "plots", "ui", "verify", "ledger")


def oldest(text: str) -> list[str]:
    """``name==version`` of every package that users may install with a lower bound."""
    project = tomllib.loads(text)["project"]
    wanted = project["dependencies"] + [one for extra in EXTRAS for one in project["optional-dependencies"][extra]]
    found = (re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", one) for one in wanted)
    return sorted({f"{one[1]}=={one[2]}" for one in found if one})


if __name__ == "__main__":
    print("\n".join(oldest(Path("pyproject.toml").read_text(encoding="utf-8"))))
