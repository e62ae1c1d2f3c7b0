import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dplateau.data import clip_rows
from dplateau.data.rows import as_entries, bounded_rows, row_norms, scores_by_row
from dplateau.spec import InputError


def matrices(dtype, width):
    return arrays(
        dtype,
        array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=width),
    )


@settings(derandomize=True, deadline=None)
@given(matrices(np.float32, 32) | matrices(np.float64, 64), st.floats(1e-3, 1e3))
def test_no_row_is_longer_than_the_norm(rows, norm):
    clipped = clip_rows(rows, norm)
    assert clipped.dtype == rows.dtype
    assert (np.linalg.norm(clipped.astype(np.float64), axis=1) <= norm).all()
    for before, after in zip(rows.astype(float), clipped.astype(float), strict=True):
        length = math.hypot(*before)
        if length <= norm * (1 - 1e-12):
            assert (before == after).all()
        else:  # the direction stays, and the whole norm is used
            precision = 3e-7 if rows.dtype == np.float32 else 3e-14
            assert math.hypot(*after) >= norm * (1 - precision)
            np.testing.assert_allclose(
                after, before * min(1, norm / length) if length < math.inf else after, rtol=1e-5, atol=norm * 1e-7
            )


def test_rounding_to_float32_is_made_up_for():
    rows = np.random.default_rng(0).normal(size=(20_000, 7)).astype(np.float32)
    naive = (rows / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)).astype(np.float32)
    assert (np.linalg.norm(naive.astype(float), axis=1) > 1).any()
    assert (np.linalg.norm(clip_rows(naive, 1.0).astype(float), axis=1) <= 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 40_000])
def test_the_bound_is_exact_in_every_width(dtype, width):
    rows = np.random.default_rng(1).uniform(0.5, 1, size=(400_000 // width, width)).astype(dtype) * 1e5
    for norm in (1.0, 0.1, 1e-30, 7e4):
        clipped = clip_rows(rows, norm).astype(np.float64)
        assert (np.linalg.norm(clipped, axis=1) <= norm).all()
        assert all(math.sqrt(math.fsum(row * row)) <= norm for row in clipped[:100])


def test_short_rows_are_returned_as_they_are():
    rows = np.eye(3)
    assert clip_rows(rows, 1.0) is rows
    assert clip_rows([[1, 2], [0, 0]], 5).tolist() == [[1, 2], [0, 0]]


def test_the_argument_is_not_changed():
    rows = np.full((3, 2), 5.0)
    clip_rows(rows, 1.0)
    assert (rows == 5.0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_counted_and_not_quoted(bad):
    rows = np.full((5000, 2), 0.123)
    rows[[3, 4500], 1] = bad
    with pytest.raises(InputError, match=r"^2 of 5000 rows contain NaN or infinity") as caught:
        clip_rows(rows, 1.0)
    assert "123" not in str(caught.value)


@pytest.mark.parametrize(("rows", "norm"), [(np.ones(3), 1.0), ([["a"]], 1.0), (np.ones((2, 2)), 0.0), (np.ones((2, 2)), np.nan)])
def test_wrong_arguments(rows, norm):
    with pytest.raises(InputError, match="expected"):
        clip_rows(rows, norm)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_the_constant_feature_counts_in_the_norm_or_comes_on_top(dtype, unit, counted):
    rows = np.random.default_rng(2).normal(size=(500, 3)).astype(dtype)
    seen = bounded_rows(rows, 1.5, unit=unit, constant=0.5, counted=counted).astype(float)
    assert seen.shape == (500, 4)
    lengths = np.linalg.norm(seen if counted else seen[:, :3], axis=1)
    assert (lengths <= 1.5).all()
    shares = seen[:, :3] / rows
    np.testing.assert_allclose(shares, np.broadcast_to(shares[:, :1], shares.shape), rtol=1e-5)
    if counted:  # it is scaled with the row, which stays on its side of every hyperplane
        np.testing.assert_allclose(seen[:, 3], 0.5 * shares[:, 0], rtol=1e-5)
    else:
        assert (seen[:, 3] == 0.5).all()
    if unit:
        np.testing.assert_allclose(lengths, 1.5, rtol=1e-6)
    else:
        whole = np.hypot(np.linalg.norm(rows.astype(float), axis=1), 0.5 * counted)
        np.testing.assert_allclose(lengths, np.minimum(whole, 1.5), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_constant_feature_is_not_rounded_up(dtype):
    """A row whose norm is the bound would be longer than the bound of both together."""
    for constant in (0.025, 0.1, 0.3, 1 / 3, 0.25, 1e-30):
        (last,) = bounded_rows(np.zeros((1, 2), dtype), 1.0, constant=constant)[:, 2]
        assert last.dtype == dtype
        assert constant * (1 - 2.0**-23) < float(last) <= constant


@pytest.mark.parametrize("width", [1, 2, 3, 20, 170, 1_001, 9_000])
def test_a_norm_does_not_depend_on_the_place_of_its_row(width):
    """A record of its own is what is clipped: NumPy's sum over the entries of a row has to be the same wherever the row stands, and
    however many there are.
    """
    rows = np.random.default_rng(width).normal(size=(100, width))
    found = row_norms(rows)
    for some in (rows[:1], rows[:99], rows[7:8], rows[3:], np.asfortranarray(rows[50:53]), np.vstack([rows[:1], rows[60:]])):
        places = [int(np.flatnonzero((rows == one).all(axis=1))[0]) for one in some]
        np.testing.assert_array_equal(row_norms(some), found[places])


@pytest.mark.parametrize("width", [1, 2, 3, 20, 170, 1_001, 9_000])
def test_a_score_does_not_depend_on_the_place_of_its_row(width):
    rng = np.random.default_rng(width)
    rows, weights = rng.normal(size=(600, width)), rng.normal(size=(3, width))
    found = scores_by_row(rows, weights)
    np.testing.assert_allclose(found, rows @ weights.T, rtol=0, atol=1e-13 * width)
    for some in (rows[:1], rows[:599], rows[7:8], rows[3:], np.asfortranarray(rows[100:102])):
        first = int(np.flatnonzero((rows == some[0]).all(axis=1))[0])
        np.testing.assert_array_equal(scores_by_row(some, weights), found[first : first + len(some)])
    assert len(set(scores_by_row(np.tile(rows[:1], (5_000, 1)), weights[:1]).ravel().tolist())) == 1
    assert scores_by_row(rows[:0], weights).shape == (0, 3)


def test_unit_rows_of_any_size():
    rows = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [3.0, 4.0], [5e-324, 0.0]])
    seen = bounded_rows(rows, 1.0, unit=True)
    np.testing.assert_allclose(seen, [[0.6, 0.8], [0.6, 0.8], [0, 0], [0.6, 0.8], [1, 0]], rtol=1e-12)
    assert (np.linalg.norm(seen, axis=1) <= 1).all()
    assert bounded_rows(rows, 1.0).shape == bounded_rows(rows, 1.0, unit=True).shape == rows.shape


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scaling_to_a_norm_hides_nothing_that_is_not_finite(bad):
    rows = np.full((5000, 2), 0.123)
    rows[4500, 1] = bad
    with pytest.raises(InputError, match=r"^1 of 5000 rows contain NaN or infinity"):
        bounded_rows(rows, 1.0, unit=True)


def test_no_row_of_a_list_changes_the_precision_of_the_others():
    single, double = np.array([0.1, 3.0], np.float32), np.array([0.1, 3.0])
    assert np.array_equal(clip_rows([single, single], 1.0)[0], clip_rows([single, double], 1.0)[0])


def test_no_entry_of_a_list_changes_the_value_of_another():
    assert as_entries([2**53 + 1, 0.0]).tolist() == [2**53 + 1, 0.0]
    assert as_entries([1, "1"]).tolist() == [1, "1"]
    assert as_entries([1, 0.5, True]).dtype == np.float64
