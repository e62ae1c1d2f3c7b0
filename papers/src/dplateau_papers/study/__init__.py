"""The algorithms of all papers side by side."""

from typing import Final

PAPER: Final = "dplateau, all algorithms side by side"
PROBLEMS: Final = {"mnist": "MNIST features", "adult": "Adult"}
"""Names and titles."""
DATA: Final = ("fashion-mnist", "mnist", "a9a")
"""The data sets that they are made from."""
