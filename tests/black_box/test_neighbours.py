# pyright: basic
"""The bad data are what they say: neighbours, legal, and bad in the arithmetic that they are made for."""

from __future__ import annotations

import numpy as np
import pytest

from dplateau.black_box.neighbours import (
    denormal,
    erasing,
    float32_cancellation,
    float32_order,
    huge,
    one_record,
    saturated_softmax,
    vanishing_norm,
)

ALL = [
    one_record(8, target=1.0),
    one_record(8, target=1.0, adjacency="replace", record=3),
    erasing(8, 2.0),
    float32_order(5000),
    float32_cancellation(1001),
    saturated_softmax(),
    *(make(dtype) for make in (vanishing_norm, denormal, huge) for dtype in ("float32", "float64")),
]


@pytest.mark.parametrize("neighbours", ALL, ids=lambda one: one.name)
def test_they_differ_in_one_row(neighbours):
    (features, target), (other, other_target) = neighbours.present, neighbours.absent
    assert np.flatnonzero((features != other).any(axis=1)).tolist() == [neighbours.record]
    assert np.array_equal(target, other_target)
    assert np.isfinite(features).all()
    assert np.isfinite(target).all()
    assert np.linalg.norm(neighbours.direction) == pytest.approx(1)


@pytest.mark.parametrize(("n", "least"), [(5000, 1.0), (32_561, 12.0), (100_000, 100.0)])
def test_order_moves_a_float32_sum_by_many_clip_norms(n, least):
    """Added up one after the other in float32, as the logistic gradients at zero weights are."""

    def added(data):
        (features, target) = data
        gradients = ((0.5 - target) * features[:, 0]).astype(np.float32)
        assert abs(gradients).max() <= 0.5
        return np.add.accumulate(gradients)[-1]

    neighbours = float32_order(n)
    assert abs(added(neighbours.present) - added(neighbours.absent)) / 0.5 > least


def test_squared_norms_underflow_and_gradients_do_not():
    for dtype in ("float32", "float64"):
        (features, target), record = vanishing_norm(dtype).present, vanishing_norm(dtype).record
        row, far = np.asarray(features[record, 0], dtype), np.asarray(target[record], dtype)
        assert row * row == 0 < row * far
        assert float(row * far) > 1e7
