"""The coefficients of a model of a table, with the names of its features and in units that can be said."""

from __future__ import annotations

from typing import Any

import numpy as np

from dplateau.data import Schema
from dplateau.data.encode import INTERCEPT, public_scale
from dplateau.estimators.table_rows import FEATURE_NORM, intercept_of, names_of


def coefficient_table(estimator: Any, schema: Schema) -> dict[str, list[Any]]:
    """Columns "feature", "class" and "coefficient"; see ``TableModel.coefficients``."""
    names, classes = list(names_of(schema)), schema.target.classes
    if not classes:
        # Rows are multiplied by one public number before they are trained on, which belongs to the coefficient here.
        scale = public_scale(schema, FEATURE_NORM, intercept_of(schema))
        return {"feature": [*names, INTERCEPT], "coefficient": [*(estimator.coef_ * scale).tolist(), estimator.intercept_]}
    scored = classes[1:] if len(classes) == 2 else classes
    return {
        "feature": names * len(scored),
        "class": [name for name in scored for _ in names],
        "coefficient": np.asarray(estimator.coef_).ravel().tolist(),
    }
