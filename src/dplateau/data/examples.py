"""``LabelledExamples``: what the readers of standard data sets return."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray


class LabelledExamples(NamedTuple):
    """Inputs and targets, one entry an example.

    Attributes
    ----------
    x : array, shape (n, ...)
        Inputs.
    y : array, shape (n,)
        Targets.
    """

    x: NDArray[Any]
    y: NDArray[Any]
