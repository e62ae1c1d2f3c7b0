"""Checks that the readers of standard data sets share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import InputError
from dplateau.spec.arguments import one_of

PARTS: Final = ("train", "test")


def existing_folder(path: str | Path) -> Path:
    """``path`` if it is a folder; raises ``InputError`` otherwise."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: there is no such folder. Check the path.")
    if not path.is_dir():
        raise InputError(f"{path} is a file: expected the folder that the data set was unpacked into.")
    return path


def checked_part(part: str) -> str:
    """``part`` if a data set has it; raises ``InputError`` otherwise."""
    return one_of("part", part, PARTS)


def check_classes(path: Path, labels: NDArray[np.uint8], classes: int) -> None:
    """Raise ``InputError`` if a label is none of 0 to ``classes - 1``."""
    if wrong := int((labels >= classes).sum()):
        raise InputError(
            f"{path}: {wrong} of {len(labels)} labels are not between 0 and {classes - 1}: this is another data set, or is damaged."
        )
