"""Rows of bounded norm: every row by itself, exactly, in the precision that the rows are stored in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.spec import InputError
from dplateau.spec.arguments import check_unmasked, real

# Squares of norms in this range neither overflow nor vanish in double precision.
SMALLEST, LARGEST = 1e-30, 1e30
# Entries of a stretch of rows that is worked on at a time: 256 KiB in double precision.
PART: Final = 1 << 15
# How far below the bound long rows are scaled, so that they are not above it after rounding. To float32, rounding moves a norm by
# at most a part in 2^24; in float64, the norm itself is computed (pairwise sums) to a few parts in 2^53.
SLACK = {"float32": 2.0**-22, "float64": 2.0**-46}


def bounded_rows(
    rows: ArrayLike, norm: float, *, unit: bool = False, constant: float | None = None, counted: bool = False
) -> NDArray[Any]:
    """Rows as a model sees them: no longer than ``norm``, with the constant feature that carries an intercept.

    Whether the constant feature counts in the norm is a matter of what the norm is about. For an encoded table it counts: it is one
    of the table's features, a row is scaled with it and so stays on its side of every hyperplane. For an estimator it does not:
    ``feature_norm`` is about the columns of X, and ``intercept_`` is added to all scores alike, however long a row is; rows are
    then as long as ``hypot(norm, constant)``.

    Parameters
    ----------
    rows : array, shape (n, d)
        Numbers. Arrays of float32 and float64 keep their type, others and lists become float64.
    norm : float
        The public bound on the Euclidean norm, between 1e-30 and 1e30.
    unit : bool, default False
        Whether shorter rows are scaled up to the norm too. A row of zeros stays.
    constant : float, optional
        Value of a last feature that all rows have; by default there is none.
    counted : bool, default False
        Whether ``norm`` bounds the row with that feature, or without it.

    Returns
    -------
    array, shape (n, d) or (n, d + 1)
        The rows. Where nothing is to be done it is ``rows`` itself.

    Raises
    ------
    InputError
        See ``clip_rows``.
    """
    array, within = as_rows(rows), unit_rows if unit else clip_rows
    if constant is None:
        return within(array, norm)
    last = array.dtype.type(constant)
    if not counted and float(last) > constant:  # rounded up: rows with it would be longer than both bounds allow
        last = np.nextafter(last, array.dtype.type(0))
    ends = np.full(len(array), last)
    return within(np.column_stack([array, ends]), norm) if counted else np.column_stack([within(array, norm), ends])


def clip_rows(rows: ArrayLike, norm: float) -> NDArray[Any]:
    """Scale every row that is longer than ``norm`` down to it; leave the others as they are.

    Each row is treated by itself, so this is a map of single records and needs no privacy.

    Parameters
    ----------
    rows : array, shape (n, d)
        Numbers. Arrays of float32 and float64 keep their type, others and lists become float64.
    norm : float
        The public bound on the Euclidean norm, between 1e-30 and 1e30.

    Returns
    -------
    array, shape (n, d)
        Rows whose norm ``numpy.linalg.norm(row)``, computed in double precision from the stored values, is at most ``norm``. It is
        ``rows`` itself where no row is longer.

    Raises
    ------
    InputError
        The array is not two-dimensional and numeric, or contains NaN or infinity (the message counts the rows, and quotes none).
    """
    bound = real("norm", norm, low=SMALLEST, inclusive=True, high=LARGEST)
    array = as_rows(rows)
    clipped = array
    for part in parts(*array.shape):
        block = array[part]
        long, finite = _longer(block, bound)
        if not finite:
            _check_finite(array)
        if long.size:
            if clipped is array:
                clipped = array.copy()
            clipped[part.start + long] = _shortened(block[long], bound)
    return clipped


def scores_by_row(rows: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """``rows @ weights.T``, in which a score depends on its row and on the weights alone.

    In a matrix product it may also depend, by rounding, on how many rows there are, and on where the row stands. Here every
    operation is on single numbers, and a row's are always in the same order.

    Parameters
    ----------
    rows : array, shape (n, d)
        Numbers.
    weights : array of float64, shape (K, d)
        One row of weights for each score.

    Returns
    -------
    array of float64, shape (n, K)
        The scores.
    """
    found = np.empty((len(rows), len(weights)))
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of a row
        for part in parts(*rows.shape):
            for k, one in enumerate(weights):
                terms = rows[part] * one
                while terms.shape[1] > 1:
                    half = (terms.shape[1] + 1) // 2
                    terms[:, : terms.shape[1] - half] += terms[:, half:]
                    terms = terms[:, :half]
                found[part, k] = terms[:, 0]
    return found


def parts(rows: int, columns: int) -> Iterator[slice]:
    """Stretches of rows which are small enough that several passes over one find it in the processor's cache."""
    step = max(1, PART // max(1, columns))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


@np.errstate(under="ignore")
def unit_rows(rows: NDArray[Any], norm: float) -> NDArray[Any]:
    """Rows divided by their norms, times ``norm`` less what rounding could add to it; a row of zeros stays."""
    scaled = np.empty_like(rows)
    length = real("norm", norm, low=SMALLEST, inclusive=True, high=LARGEST) * (1 - SLACK[rows.dtype.name])
    for part in parts(*rows.shape):
        wide = rows[part].astype(np.float64)
        norms = row_norms(wide)
        if (far := ~((norms >= SMALLEST) & (norms <= LARGEST))).any():
            _check_finite(rows)
            largest = np.abs(wide[far]).max(axis=1, keepdims=True)
            wide[far] = np.divide(wide[far], largest, out=np.zeros_like(wide[far]), where=largest > 0)
            norms[far] = row_norms(wide[far])
        wide *= np.divide(length, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]
        scaled[part] = wide
    return scaled


def _longer(block: NDArray[Any], bound: float) -> tuple[NDArray[np.intp], bool]:
    """Indices of the rows that are longer than ``bound`` or not finite, and whether their norms are finite."""
    wide = block.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        # A cheap sum of squares settles most rows; those within its rounding error of the bound are looked at again.
        unsure = np.flatnonzero(~(np.vecdot(wide, wide) <= bound**2 * (1 - 1e-9)))
    norms = row_norms(wide if unsure.size == len(wide) else wide[unsure])
    return unsure[~(norms <= bound)], bool(np.isfinite(norms).all())


def as_rows(rows: ArrayLike) -> NDArray[Any]:
    """``rows`` as a two-dimensional array of float32 or float64."""
    check_unmasked(rows, "rows")
    try:
        array = np.asarray(rows)
    except ValueError:
        raise InputError("the rows have several lengths: expected two dimensions and numbers.") from None
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(f"the rows have shape {array.shape} and type {array.dtype}: expected two dimensions and numbers.")
    # A list may hold a type a row, and no row changes the precision of another.
    kept = hasattr(rows, "__array__") and array.dtype in (np.float32, np.float64)
    return array if kept else array.astype(np.float64)


def as_entries(values: ArrayLike) -> NDArray[Any]:
    """``values`` as an array. NumPy gives a list one type: where that changes an entry, they stay as they are, as objects."""
    check_unmasked(values, "entries")
    array = np.asarray(values)
    if hasattr(values, "__array__") or array.ndim != 1 or array.dtype.kind not in "biufUS":
        return array
    given: list[Any] = list(values)  # type: ignore[arg-type]
    return array if array.tolist() == given else np.array(given, object)


def row_norms(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Euclidean norms, in double precision; infinite where a square overflows, NaN where an entry is NaN."""
    norms = np.empty(len(rows))
    with np.errstate(over="ignore", under="ignore"):
        for part in parts(*rows.shape):  # a double-precision copy of everything could outgrow the memory
            wide = np.ascontiguousarray(rows[part], dtype=np.float64)
            np.sqrt(np.add.reduce(wide * wide, axis=1), out=norms[part])
    return norms


def count_not_finite(array: NDArray[Any]) -> int:
    """How many rows, or entries of a column, have NaN or infinity."""
    fine = np.isfinite(array)
    return 0 if fine.all() else int((~fine).reshape(len(array), -1).any(axis=1).sum())


def _check_finite(array: NDArray[Any]) -> None:
    if bad := count_not_finite(array):
        raise InputError(f"{bad} of {len(array)} rows contain NaN or infinity: expected finite numbers. Repair or drop these rows.")


def _shortened(rows: NDArray[Any], bound: float) -> NDArray[Any]:
    """Finite rows longer than ``bound``, scaled down to it."""
    directions = rows.astype(np.float64)
    directions /= np.abs(rows).max(axis=1, keepdims=True)  # so that squares of huge entries do not overflow
    directions *= (bound * (1 - SLACK[rows.dtype.name]) / row_norms(directions))[:, None]
    return directions.astype(rows.dtype)
