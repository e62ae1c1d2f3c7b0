"""scikit-learn's checks of data, with the messages that would quote an entry replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dplateau.spec import InputError


def checked_rows(model: BaseEstimator, X: ArrayLike) -> NDArray[Any]:
    """Rows to predict, as an array of the fitted number of columns and of finite float32 or float64 numbers."""
    check_is_fitted(model)
    _check_numbers(X, "features")
    return _validated(model, X=X, reset=False)


def checked_data(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike, *, y_numeric: bool, reset: bool = True
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows and target to fit, as arrays of one length; remembers the number and the names of the columns on ``model``, or, without
    ``reset``, compares them with those.
    """
    _check_numbers(X, "features")
    if y_numeric:
        _check_numbers(y, "targets")
    return _validated(model, X=X, y=y, y_numeric=y_numeric, reset=reset)


def _validated(model: BaseEstimator, **options: Any) -> Any:
    return validate_data(model, dtype=[np.float64, np.float32], **options)


def _check_numbers(values: ArrayLike, name: str) -> None:
    """Raise ``InputError`` on text that is no number."""
    if issparse(values):
        return  # refused later, with scikit-learn's own message
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        try:
            array.astype(np.float64)
        except ValueError:
            raise InputError(f"the {name} have entries that are not numbers: encode text and categories first.") from None
