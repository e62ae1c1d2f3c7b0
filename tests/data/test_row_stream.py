import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.data import array_stream, block_stream
from dplateau.spec import InputError

X, Y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)


def cut(*ends):
    return [(X[a:b], Y[a:b]) for a, b in zip((0, *ends), (*ends, 10), strict=True)]


@pytest.mark.parametrize("rows", [1, 3, 5, 10, 99])
def test_arrays_are_views(rows):
    stream = array_stream(X, Y, block_rows=rows, feature_norm=30)
    assert (stream.n, stream.d, stream.dtype, stream.block_rows, stream.feature_norm) == (10, 2, "float32", rows, 30)
    for _ in range(2):
        blocks = list(stream.blocks())
        assert all(np.shares_memory(features, X) and np.shares_memory(target, Y) for features, target in blocks)
        assert [len(target) for _, target in blocks] == [min(rows, 10 - start) for start in range(0, 10, rows)]
        np.testing.assert_array_equal(np.concatenate([features for features, _ in blocks]), X)


def test_whole_numbers_become_floats():
    ((features, _),) = array_stream([[1, 2]], [0]).blocks()
    assert features.dtype == np.float64


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 10)).map(sorted), st.sampled_from(["float32", "float64"]))
def test_blocks_of_any_length(ends, dtype):
    blocks = cut(*ends)
    for given_blocks in (blocks, lambda: iter(blocks), iter(blocks)):
        stream = block_stream(given_blocks, 10, 2, dtype=dtype, order="sorted by a public key")
        found = list(stream.blocks())
        assert all(len(target) and features.dtype == dtype for features, target in found)
        np.testing.assert_array_equal(np.concatenate([features for features, _ in found]), X)
        np.testing.assert_array_equal(np.concatenate([target for _, target in found]), Y)
        assert stream.order == "sorted by a public key"


@pytest.mark.parametrize("n", [4, 5, 7, 9, 11, 15])
def test_another_number_of_rows_than_declared_is_an_error_before_the_last_row(n):
    seen = []
    with pytest.raises(InputError, match="more than the declared" if n < 10 else "ends after 10 of the declared"):
        seen.extend(len(target) for _, target in block_stream(cut(4, 5, 9), n, 2).blocks())
    assert sum(seen) < n


def test_no_block_at_all():
    with pytest.raises(InputError, match="ends after 0 of the declared 1 rows"):
        list(block_stream([], 1, 2).blocks())


def test_an_iterator_is_read_once():
    stream = block_stream(iter(cut(5)), 10, 2)
    list(stream.blocks())
    with pytest.raises(InputError, match="read before"):
        list(stream.blocks())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((X[5:, :1], Y[5:]), "the block after row 5 has 1 features: expected 2"),
        ((X[5:], Y[6:]), r"the block after row 5 has 5 rows and a target of shape \(4,\)"),
        ((X[5:], Y[5:, None]), r"target of shape \(5, 1\)"),
        ((X[5:].ravel(), Y[5:]), "expected two dimensions"),
        ((X[5:].astype(str), Y[5:]), "and numbers"),
        ((X[5:], Y[5:].astype(str)), "expected one number a row"),
        (X[5:], "is of type ndarray: expected a pair"),
        ((np.where(X[5:] == 14, np.nan, X[5:]), Y[5:]), "rows 6 to 10: 1 rows are NaN or infinite"),
        ((X[5:], np.where(Y[5:] == 7, np.inf, Y[5:])), "rows 6 to 10: 1 rows are NaN or infinite"),
        ((X[5:].astype(float) * 1e300, Y[5:]), r"rows 6 to 10: 5 rows are NaN or infinite \(or beyond float32\)"),
    ],
)
def test_a_later_block_that_does_not_fit(bad, message):
    with pytest.raises(InputError, match=message):
        list(block_stream([(X[:5], Y[:5]), bad], 10, 2).blocks())


def test_arrays_that_do_not_fit():
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(InputError, match="rows 7 to 9: 1 rows are NaN"):
        list(array_stream(bad, Y, block_rows=3).blocks())
    for features, target in [(X, Y[1:]), (X, Y.astype(str)), (X[0], Y), (X[:0], Y[:0]), (X[:, :0], Y)]:
        with pytest.raises(InputError, match="expected"):
            array_stream(features, target)
    with pytest.raises(InputError, match="dtype is 'int8'"):
        block_stream([], 1, 1, dtype="int8")


def test_a_caller_may_fill_one_array_again_and_again():
    """A block is held back while the next one is made; if it were the caller's own array, the next rows would come twice."""

    def source():
        rows, labels = np.empty((2, 2), np.float32), np.empty(2, int)
        for start in range(0, 10, 2):
            rows[:], labels[:] = X[start : start + 2], Y[start : start + 2]
            yield rows, labels

    blocks = list(block_stream(source, 10, 2).blocks())
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in blocks]), Y)
