"""``load_estimator``: what ``save`` of an estimator wrote."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate import Certificate
from dplateau.certificate.beside import check_model
from dplateau.estimators.costs import numbers_of_classes
from dplateau.estimators.folder import (
    check_class_weights,
    check_rows,
    outputs_of,
    read_about,
    read_arrays,
    read_signed_certificate,
    restore,
)
from dplateau.estimators.linear_regression import PrivateLinearRegression
from dplateau.estimators.linear_svc import PrivateLinearSVC
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.estimators.saving import ADDED, FORMAT, KIND, LABELS, LEFT_OUT
from dplateau.files import as_path
from dplateau.spec import ContradictionError, InputError, Run, Runs, Selection
from dplateau.spec.arguments import real

Estimator: TypeAlias = PrivateLogisticRegression | PrivateLinearRegression | PrivateLinearSVC
ENTRIES: Final = frozenset({"kind", "format", "estimator", "parameters", "classes", "feature_names", "run"})
ESTIMATORS: Final = {one.__name__: one for one in (PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression)}


def load_estimator(folder: str | Path, *, signed_by: str | Iterable[str] | None = None) -> Estimator:
    """Read what ``save`` of an estimator wrote. It predicts as the one that was saved; ``fit`` starts anew.

    Parameters
    ----------
    folder : str or Path
        The folder.
    signed_by : str or iterable of str, optional
        Names of known keys, or their fingerprints: one of them must have signed the certificate.

    Returns
    -------
    PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression
        Fitted, with its certificate. Its ``insecure_seed`` and ``ledger`` are None.

    Raises
    ------
    InputError
        A file of the folder is missing or damaged; or ``signed_by`` names no known key.
    ContradictionError
        They contradict each other: the certificate is about other weights or rows, or its signature does not match. Or none of
        ``signed_by`` has signed it.
    """
    folder = as_path(folder, "the folder of a model")
    about = read_about(folder, KIND, (FORMAT,), ENTRIES)
    certificate = read_signed_certificate(folder, signed_by)
    try:
        fitted, classes, names = _made(about)
        run = _run(about["run"], certificate)
    except (InputError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        said = error if isinstance(error, InputError) else "an entry is missing, or of another type."
        raise InputError(f"{folder / 'model.json'} is damaged: {said}") from None
    arrays = read_arrays(folder, outputs_of(0 if classes is None else len(classes)))
    if certificate.weights_sha256 is None:
        raise ContradictionError(f"{folder}: the certificate names no weights, as that of an estimator does.")
    check_model(certificate, folder, arrays)
    check_rows(certificate, folder, fitted)
    restore(fitted, arrays, certificate, run, classes)
    if classes is not None:
        check_class_weights(certificate, folder, fitted.weights_in_words())
    if names is not None:
        if len(names) != fitted.n_features_in_:
            raise InputError(f"{folder / 'model.json'} names {len(names)} features where the weights have {fitted.n_features_in_}.")
        fitted.feature_names_in_ = names
    return fitted


def _made(about: dict[str, Any]) -> tuple[Any, NDArray[Any] | None, NDArray[Any] | None]:
    """The estimator, not fitted yet; its classes; and the names of its features."""
    if about["estimator"] not in ESTIMATORS:
        raise InputError(f"estimator is {about['estimator']!r}: expected one of {', '.join(ESTIMATORS)}.")
    fitted: Any = ESTIMATORS[about["estimator"]]()
    defaults: dict[str, Any] = {name: value for name, value in fitted.get_params().items() if name not in LEFT_OUT}
    given = {name: defaults[name] for name in ADDED & defaults.keys()} | dict(about["parameters"])
    if given.keys() != defaults.keys():
        raise InputError("its parameters are not those of the estimator.")
    real("epsilon", given["epsilon"])
    if not isinstance(given["fit_intercept"], bool):
        raise InputError("fit_intercept is neither true nor false.")
    classes = None
    if isinstance(fitted, PrivateLinearRegression):
        given["target_range"] = tuple(given["target_range"])
    else:
        classes = _classes_from_json(about["classes"])
        given["classes"] = classes.tolist()
        if given["class_weight"] is not None:
            given["class_weight"] = dict(zip(given["classes"], given["class_weight"], strict=True))
            numbers_of_classes("class_weight", given["class_weight"], given["classes"])
    fitted.set_params(**given)
    fitted._check_arguments()
    names = about["feature_names"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError("its names of features are not a list of texts.")
    return fitted, classes, None if names is None else np.array(names, dtype=object)


def _run(data: Any, certificate: Certificate) -> Run:
    """The run of the training. A search has several, so there the file says which."""
    if not isinstance(certificate.run, Selection):
        if data is not None or isinstance(certificate.run, Runs):
            raise InputError("its run is not that of the certificate.")
        return certificate.run
    run = Run.from_dict(data)
    if run not in certificate.run.runs:
        raise InputError("its run is none of the search that the certificate is about.")
    return run


def _classes_from_json(data: Any) -> NDArray[Any]:
    dtype: Any = {"O": np.dtype(object), "T": np.dtypes.StringDType()}.get(data["dtype"]) or np.dtype(data["dtype"])
    texts, values = dtype.kind in "OTU", data["values"]
    if dtype.kind not in LABELS + "OT" or not all(isinstance(one, str if texts else bool | int | float) for one in values):
        raise InputError("its classes are neither texts, nor numbers, nor truth values.")
    classes = np.array(values, dtype=dtype)
    if classes.ndim != 1 or len(classes) < 2 or (classes[:-1] >= classes[1:]).any() or classes.tolist() != values:
        raise InputError("its classes are not at least two, in order and of the type that is said.")
    return classes
