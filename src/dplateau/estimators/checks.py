"""Checks of private data, with messages that quote none of it. scikit-learn's own would show rows, or warn of what they hold."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from dplateau.data.rows import as_entries, count_not_finite
from dplateau.spec import InputError
from dplateau.spec.arguments import check_unmasked


def checked_rows(model: BaseEstimator, X: ArrayLike) -> NDArray[Any]:
    """Rows to predict, as an array of the fitted number of columns and of finite float32 or float64 numbers."""
    check_is_fitted(model)
    rows = _rows(X)
    _check_columns(model, X, rows, reset=False)
    return rows


def checked_data(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike, *, y_numeric: bool, reset: bool = True
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows and target to fit, as arrays of one length; remembers the number and the names of the columns on ``model``, or, without
    ``reset``, compares them with those.
    """
    rows = _rows(X)
    _check_columns(model, X, rows, reset=reset)
    return rows, checked_target(y, len(rows)) if y_numeric else checked_labels(y, len(rows))


def checked_target(y: ArrayLike, n: int, name: str = "targets") -> NDArray[Any]:
    """``n`` finite numbers, as float32 or float64."""
    values = _entries(numbers(y, name), n, name)
    if bad := count_not_finite(values):
        raise InputError(f"Input y contains NaN or infinity: {bad} of {n} {name} are not finite. Repair or drop them.")
    return values


def checked_weights(sample_weight: ArrayLike, n: int) -> NDArray[np.float64]:
    """``n`` weights of rows: finite numbers, none negative and one positive, divided by the largest."""
    weights = checked_target(sample_weight, n, "weights").astype(float)
    if (weights < 0).any() or not (weights > 0).any():
        raise InputError("sample_weight has negative numbers, or no positive one: expected numbers >= 0, and one above 0.")
    return weights / weights.max()


def checked_labels(y: ArrayLike, n: int) -> NDArray[Any]:
    """``n`` labels that can be told apart: texts, numbers or truth values."""
    labels = _entries(_array(y, "labels", as_entries), n, "labels")
    if labels.dtype.kind not in "biufUSTO":
        raise InputError(f"the labels have type {labels.dtype.type.__name__}: expected texts, whole numbers or truth values.")
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    else:
        unknown = getattr(sys.modules.get("pandas"), "NA", None)
        missing = np.array(
            [label is None or label is unknown or (isinstance(label, float) and not np.isfinite(label)) for label in labels.flat]
        )
    if labels.dtype.kind in "fO" and (bad := int(missing.sum())):
        raise InputError(f"Input y contains NaN or infinity, or nothing: {bad} of {n} labels. Repair or drop them.")
    try:
        np.unique(labels)
        if labels.dtype.kind == "O":
            set(labels.tolist())
    except (TypeError, ValueError, ArithmeticError):  # arrays as labels; numbers of ``decimal`` that are not numbers
        raise InputError("the labels have several types, which cannot be compared: expected texts only, or numbers only.") from None
    return labels


def numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """An array of float32 or float64; nothing else keeps its type, so that no entry changes the precision of another."""
    array = _array(values, name, lambda given: np.asarray(given) if hasattr(given, "__array__") else _doubles(given))
    if array.dtype.kind not in "biufUSTO":
        raise InputError(f"the {name} have type {array.dtype.type.__name__}: expected numbers.")
    if array.dtype in (np.float32, np.float64):
        return array
    try:
        return _doubles(array)
    except (ValueError, OverflowError):
        raise InputError(
            f"the {name} have entries that are not numbers: encode text and categories first, or give a table "
            "and a public schema to TableModel.train."
        ) from None
    except TypeError:
        raise TypeError(f"the {name} have entries of another type: each argument must be a string or a number.") from None


def _doubles(values: ArrayLike) -> NDArray[np.float64]:
    """Double precision; raises ``TypeError`` where NumPy would take the real part of a complex entry, with a warning."""
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            return np.asarray(values, np.float64)
        except np.exceptions.ComplexWarning:
            raise TypeError from None


def _array(values: ArrayLike, name: str, made: Callable[[ArrayLike], NDArray[Any]]) -> NDArray[Any]:
    """The values as an array, as ``made`` makes it."""
    if issparse(values):
        raise TypeError(f"the {name} are sparse: expected a dense array, so pass X.toarray() if it fits into the memory.")
    check_unmasked(values, name)
    try:
        with np.errstate(invalid="raise"):  # or pandas makes whole numbers of what is missing in several columns of categories
            array = made(values)
    except (ValueError, OverflowError, FloatingPointError):
        raise InputError(
            f"the {name} have entries that are not numbers, or rows of several lengths: expected an array. Encode text first."
        ) from None
    except TypeError:
        raise TypeError(f"the {name} have entries of another type: each argument must be a string or a number.") from None
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: the {name} have type {array.dtype}. Expected real numbers.")
    return array


def _rows(X: ArrayLike) -> NDArray[Any]:
    """The features as rows of finite numbers."""
    rows = numbers(X, "features")
    if rows.ndim != 2:
        raise InputError(
            f"the features have shape {rows.shape}: expected (rows, columns). Reshape your data, with reshape(-1, 1) if it is one"
            " feature and reshape(1, -1) if it is one row."
        )
    for what, number in zip(("sample", "feature"), rows.shape, strict=True):
        if not number:
            raise InputError(f"X has 0 {what}(s) (shape={rows.shape}) while a minimum of 1 is required.")
    if bad := count_not_finite(rows):
        raise InputError(f"Input X contains NaN or infinity in {bad} of {len(rows)} rows. Repair or drop these rows.")
    return rows


def _entries(array: NDArray[Any], n: int, name: str) -> NDArray[Any]:
    """One entry a row."""
    if array.shape == (n, 1):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: pass y.ravel().", DataConversionWarning, stacklevel=5
        )
        array = array[:, 0]
    if array.shape != (n,):
        raise InputError(
            f"the {name} have shape {array.shape}: y should be a 1d array, with an entry for each of the {n} rows of X."
        )
    return array


def _check_columns(model: BaseEstimator, X: Any, rows: NDArray[Any], *, reset: bool) -> None:
    """Compare the number and the names of columns with those of the fit, or remember them."""
    named: Any = X if hasattr(X, "columns") else rows
    validate_data(model, X=named, reset=reset, skip_check_array=True)
