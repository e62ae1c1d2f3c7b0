"""Pairs of neighbouring data sets that are as bad for privacy as we know how to make them. All of them are synthetic and public.

``present`` holds the record, ``absent`` has another row in its place: a row of zeros, whose gradient is exactly zero and which adds
nothing to any sum ("add-remove" leaves the number of records public), or the record's opposite ("replace").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FAR: Final = 1e6
"""A target that is so far away that every residual is clipped, at any weights."""
_SUM: Final = 0.4375
"""The gradient norm of the rows that fill a sum: below the clip norm 1/2, and no power of two."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two data sets that differ in row ``record``.

    Attributes
    ----------
    name : str
        What is bad about them.
    features, target : array of shape (n, d), (n,)
        The data set that holds the record.
    other : array of shape (d,)
        The row that stands in its place in the other one.
    record : int
        Where it is.
    start : array, optional
        Public weights to start from; by default zero.
    """

    name: str
    features: Array
    target: Array
    other: Array
    record: int = 0
    start: Array | None = None

    @property
    def present(self) -> tuple[Array, Array]:
        """The data set with the record."""
        return self.features, self.target

    @property
    def absent(self) -> tuple[Array, Array]:
        """Its neighbour; the target in that place is the same."""
        features = self.features.copy()
        features[self.record] = self.other
        return features, self.target

    @property
    def direction(self) -> NDArray[np.float64]:
        """The unit vector along which the record moves the weights."""
        row = self.features[self.record].astype(np.float64)
        row = row / np.abs(row).max()
        return row / np.linalg.norm(row)


def one_record(n: int, *, target: float, norm: float = 1.0, adjacency: str = "add-remove", record: int = 0) -> Neighbours:
    """Nothing but the record has a gradient, and its own is as long as clipping allows if the target is far away."""
    features, targets = np.zeros((n, 2)), np.zeros(n)
    features[record, 0], targets[record] = norm, target
    if adjacency == "replace":
        return Neighbours("one record, replaced", features, targets, -features[record], record)
    return Neighbours("one record", features, targets, np.zeros(2), record)


def erasing(n: int, step_size: float) -> Neighbours:
    """The record is the last; each row before it pulls the weights to zero in one step, so no earlier noise is left to hide it."""
    made = one_record(n, target=FAR, record=n - 1)
    made.features[:-1, 0] = min(1.0, step_size**-0.5)
    return replace(made, name="earlier noise erased")


def float32_order(n: int) -> Neighbours:
    """Rows in an order for which one record moves a float32 sum of logistic gradients by many clip norms of 1/2.

    At zero weights the first rows drive a sum that is added up one after the other to just below 2^k. The record carries it across.
    Every later row adds -0.99 units in the last place: without the record each of them is rounded to -1 unit; with it the unit is
    twice as large, and they vanish.
    """
    k = max(range(1, 24), key=lambda k: _later_rows(n, k) * 2.0**k)
    filling = int(2**k / _SUM)
    features, target = np.zeros((n, 2)), np.zeros(n)
    features[: filling + 1, 0] = 2 * _SUM
    features[filling + 1 :, 0], target[filling + 1 :] = 2 * 0.99 * 2.0 ** (k - 24), 1.0
    return Neighbours("order of a float32 sum", features, target, np.zeros(2), filling)


def _later_rows(n: int, k: int) -> int:
    return max(0, n - 1 - int(2**k / _SUM))


def float32_cancellation(n: int) -> Neighbours:
    """As many rows pull one way, then as many the other, and the record lies between: rounding on the way up and down differs."""
    features, target = np.zeros((n, 2)), np.zeros(n)
    half = n // 2
    features[:, 0] = 1 / 3 + np.arange(n) % 7 / 1e3
    features[half, 0] = 1.0
    target[half + 1 :] = 1.0
    return Neighbours("cancellation", features, target, np.zeros(2), half)


def vanishing_norm(dtype: str) -> Neighbours:
    """A record whose squared norm underflows, with a target so large that its gradient does not."""
    row, far = (1e-170, 1e300) if dtype == "float64" else (1e-30, 1e38)
    return _outlier("vanishing norm", row, far)


def denormal(dtype: str) -> Neighbours:
    """A record of denormal numbers, which some instructions take for zero."""
    row, far = (4e-310, 1e308) if dtype == "float64" else (1e-42, 3e38)
    return _outlier("denormal", row, far)


def huge(dtype: str) -> Neighbours:
    """A record whose gradient overflows where it is not clipped with care."""
    row, far = (1e150, 1e300) if dtype == "float64" else (1e18, 1e38)
    return _outlier("huge", row, far)


def _outlier(name: str, row: float, target: float) -> Neighbours:
    return replace(one_record(64, target=target, norm=row), name=name)


def saturated_softmax() -> Neighbours:
    """A float32 row near the largest number whose softmax residual is so small that its square underflows.

    At the start the record's own class leads by 53 in the scores: the residual is about 1e-23 and the gradient 1e15.
    """
    made = one_record(64, target=0.0, norm=1e38)
    start = np.zeros((2, 3))
    start[0, 0] = 53 / 1e38
    return replace(made, name="saturated softmax", start=start)
