"""Columns of Python's objects, each of which is read by itself.

Arrow takes the type of the first object for all, and may then make 1.0 of True and 0 of 0.1, so one record would change the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE: Final = (int, np.integer)
BROKEN: Final = (float, np.floating, Decimal)
NUMBERS: Final = (*WHOLE, *BROKEN)
LISTS: Final = (list, tuple, np.ndarray)
KINDS: Final = ((bool, np.bool_), NUMBERS, (str,), (datetime,), (date,), LISTS)
"""Objects of one kind can stand in one column. A type belongs to the first kind that fits."""
MISSING: Final = ("NoneType", "NAType", "NaTType")


def objects_in(values: Any) -> list[Any] | None:
    """The entries of a column that holds objects; None where it has a type."""
    if isinstance(values, list | tuple):
        return list(values)
    dtype = getattr(values, "dtype", None)
    return list(values) if object in (dtype, getattr(getattr(dtype, "categories", None), "dtype", None)) else None


def array_of_objects(entries: Sequence[Any]) -> pa.Array:
    """Objects as an array; None, NaN and what pandas has for them are missing.

    Raises
    ------
    TypeError, ValueError, ArithmeticError, pyarrow.ArrowException
        They are of several kinds, or of none that Arrow knows. Messages may quote them.
    """
    import pyarrow as pa

    given = [None if _is_missing(entry) else entry for entry in entries]
    types = set(map(type, given)) - {type(None)}
    kinds = {next((kind for kind in KINDS if issubclass(one, kind)), (one,)) for one in types}
    if len(kinds) > 1:
        raise TypeError
    if any(issubclass(one, BROKEN) for one in types):
        return pa.array([None if entry is None else _double(entry) for entry in given], pa.float64())
    if kinds == {NUMBERS}:
        whole = [None if entry is None else int(entry) for entry in given]
        beyond = max(entry for entry in whole if entry is not None) >= 1 << 63
        return pa.array(whole, pa.uint64() if beyond else pa.int64())
    if kinds == {LISTS}:
        return _lists(given)
    return pa.array(given)


def _lists(given: Sequence[Any]) -> pa.Array:
    """Lists as an array of lists."""
    import pyarrow as pa

    there = [entry for entry in given if entry is not None]
    lengths = [0 if entry is None else len(entry) for entry in given]
    if all(isinstance(entry, np.ndarray) and entry.ndim == 1 and entry.dtype.kind in "biuf" for entry in there):
        inner = pa.array(native(np.concatenate(there)))
    else:
        inner = array_of_objects([one for entry in there for one in entry])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    missing = np.array([entry is None for entry in given], bool)
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), inner, mask=pa.array(missing))


def _double(entry: Any) -> float:
    """A number in double precision; a whole number only if it stays the same, as it would in a column of whole numbers."""
    value = float(entry)
    if isinstance(entry, WHOLE) and int(value) != entry:
        raise TypeError
    return value


def native(array: NDArray[Any]) -> NDArray[Any]:
    """The array with numbers as Arrow knows them: in the machine's order of bytes, and of at most eight of these."""
    kind = array.dtype if array.dtype.kind not in "iuf" else array.dtype.newbyteorder("=")
    with np.errstate(over="ignore"):  # a warning would tell of a row
        return array.astype(np.float64 if kind.kind == "f" and kind.itemsize > 8 else kind, copy=False)


def _is_missing(entry: Any) -> bool:
    return type(entry).__name__ in MISSING or (isinstance(entry, BROKEN) and entry != entry)
