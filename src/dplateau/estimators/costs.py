"""Public numbers of classes: weights in training, costs in prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import InputError
from dplateau.spec.arguments import real


def numbers_of_classes(name: str, given: object, classes: Sequence[Any]) -> NDArray[np.float64]:
    """The positive numbers of all classes, in their order; 1 where a class is not named.

    Raises
    ------
    InputError
        They are not a dict, name what is not a class, or are not positive finite numbers.
    """
    if isinstance(given, str) and given == "balanced":
        raise InputError(
            f"{name} is 'balanced', which would count the classes in private rows: give a dict of public weights, for example 1 "
            "over the public share of each class."
        )
    if not isinstance(given, Mapping):
        raise InputError(f"{name} is of type {type(given).__name__}: expected a dict with a number > 0 for classes.")
    if unknown := [one for one in given if one not in classes]:
        raise InputError(f"{name} names {unknown[0]!r}, which is not a class: expected some of {', '.join(map(repr, classes))}.")
    return np.array([real(f"{name} of {one!r}", given.get(one, 1.0)) for one in classes])
