"""What ``save`` of an estimator writes."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dplateau.certificate import Certificate
from dplateau.estimators.costs import numbers_of_classes
from dplateau.estimators.folder import check_class_weights, check_rows, coefficients_of, write_model
from dplateau.spec import ContradictionError, InputError, Selection
from dplateau.spec.assumption import Target

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "dplateau estimator"
FORMAT: Final = 1
LEFT_OUT: Final = ("classes", "insecure_seed", "ledger", "steps", "verbose")
"""Arguments that are not written: a seed is a secret, a ledger is elsewhere, and the classes stand for themselves."""
ADDED: Final = frozenset({"loss", "class_weight"})
"""Arguments that older files may lack: they then have their defaults."""
LABELS: Final = "biufU"
"""Kinds of classes that JSON keeps."""


def save_estimator(estimator: Any, folder: str | Path, sign: Ed25519PrivateKey | None) -> None:
    """Write a fitted estimator; see ``PrivateLinearModel.save``."""
    check_is_fitted(estimator)
    certificate = estimator.certificate_  # first: without one there is nothing to be bound to
    _check_unchanged(estimator, certificate, Path(folder))
    classes = _classes_to_json(estimator.classes_) if hasattr(estimator, "classes_") else None
    names = getattr(estimator, "feature_names_in_", None)
    parameters = {name: value for name, value in estimator.get_params().items() if name not in LEFT_OUT}
    if parameters.get("class_weight") is not None:  # in the order of the classes: JSON has no keys but texts
        weights = numbers_of_classes("class_weight", parameters["class_weight"], estimator.classes_.tolist())
        parameters["class_weight"] = weights.tolist()
    about = {
        "kind": KIND,
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "parameters": {name: _plain(name, value) for name, value in parameters.items()},
        "classes": classes,
        "feature_names": None if names is None else [str(name) for name in names],
        "run": estimator.run_.to_dict() if isinstance(certificate.run, Selection) else None,
    }
    write_model(folder, about, certificate, coefficients_of(estimator), sign=sign)


def _check_unchanged(estimator: Any, certificate: Certificate, folder: Path) -> None:
    """Raise ``InputError`` where arguments that the certificate names were changed after the fit: nobody could read the folder."""
    said = {(one.low, one.high) for one in certificate.assumptions if isinstance(one, Target)}
    try:
        check_rows(certificate, folder, estimator)
        if hasattr(estimator, "classes_"):
            check_class_weights(certificate, folder, estimator.weights_in_words())
        elif said and estimator._range() not in said:
            raise ContradictionError("target_range")
    except ContradictionError:
        names = ["feature_norm", "rows", "class_weight" if hasattr(estimator, "classes_") else "target_range"]
        raise InputError(
            f"{', '.join(names[:-1])} or {names[-1]} was changed after the fit, and the certificate says what it was: set it back, "
            "or fit anew."
        ) from None


def _plain(name: str, value: Any) -> Any:
    """An argument as JSON has it."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(name, one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{name} is of type {type(value).__name__}, which cannot be saved: expected a number or a text.")


def _classes_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    if classes.dtype.kind in "OT" and all(isinstance(label, str) for label in classes.tolist()):
        return {"dtype": classes.dtype.char, "values": [str(label) for label in classes.tolist()]}
    if classes.dtype.kind not in LABELS:
        raise InputError(f"the classes have type {classes.dtype}, which cannot be saved: expected texts, numbers or truth values.")
    return {"dtype": classes.dtype.str, "values": classes.tolist()}
