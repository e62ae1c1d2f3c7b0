"""The folder of a saved model: what it is, its weights, and the certificate that is bound to them. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate import Certificate
from dplateau.certificate.beside import ABOUT, SCHEMA, WEIGHTS, read_weights
from dplateau.certificate.keys import named_keys
from dplateau.certificate.read import certificate_at
from dplateau.certificate.signature import Signature
from dplateau.certificate.signed import signature_path
from dplateau.data import Schema, load_schema
from dplateau.files import new_folder, read_small
from dplateau.spec import ContradictionError, InputError, Run, Runs, Selection
from dplateau.spec.assumption import ClassWeights, Rows

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KINDS: Final = {"dplateau model": "load_model", "dplateau estimator": "load_estimator", "dplateau network": "load_network"}
"""What may be in a folder, and what reads it."""
CERTIFICATE: Final = "certificate.json"
LARGEST: Final = 1 << 28


def write_model(
    folder: str | Path,
    about: dict[str, Any],
    certificate: Certificate,
    arrays: dict[str, NDArray[Any]],
    *,
    schema: str | None = None,
    sign: Ed25519PrivateKey | None = None,
    more: Callable[[Path], None] | None = None,
) -> None:
    """Write a new folder, with what ``more`` adds, whole or not at all; raises ``InputError`` where that cannot be done."""
    with new_folder(folder) as part:
        (part / ABOUT).write_text(json.dumps(about, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        if schema is not None:
            (part / SCHEMA).write_text(schema, encoding="utf-8")
        write_certificate(part, certificate, sign)
        np.savez(part / WEIGHTS, **arrays)  # type: ignore[arg-type]
        if more is not None:
            more(part)


def write_certificate(part: Path, certificate: Certificate, sign: Ed25519PrivateKey | None) -> None:
    """Write a certificate into a folder, and its signature beside it if there is a key."""
    path, text = part / CERTIFICATE, certificate.to_json().encode()
    path.write_bytes(text)
    if sign is not None:
        signature_path(path).write_bytes(Signature.of(text, sign).to_json().encode())


def coefficients_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a fitted linear model."""
    return {"coefficients": estimator.coef_, "intercept": estimator.intercept_}


def read_about(
    folder: Path, kind: str, formats: tuple[int, ...], entries: frozenset[str], optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """What a folder says that it holds, its entries checked."""
    path = folder / ABOUT
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder: expected one that train or save wrote.")
    try:
        about = json.loads(read_small(path, "what train or save wrote", LARGEST)[0])
    except FileNotFoundError:
        raise InputError(f"{path} cannot be read: there is no such file. Expected a folder that train or save wrote.") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not JSON: expected what train or save wrote.") from None
    found = about.get("kind") if isinstance(about, dict) else None
    if found != kind and isinstance(found, str) and found in KINDS:
        raise InputError(f"{folder} holds a {found}: {KINDS[found]} reads it.")
    if found != kind or about.get("format") not in formats or about.keys() - optional != entries:
        raise InputError(f"{path} describes no model of format {formats[-1]}: expected what train or save wrote.")
    return about


def read_signed_certificate(folder: Path, signed_by: str | Iterable[str] | None) -> Certificate:
    """The certificate in a folder, signed by one of these keys where some are named."""
    wanted = None if signed_by is None else named_keys(signed_by)
    certificate, signed = certificate_at(folder / CERTIFICATE)
    signed.check(folder / CERTIFICATE, wanted)
    return certificate


def read_schema(folder: Path) -> Schema:
    """The schema of a model."""
    path = folder / SCHEMA
    if not path.is_file():
        raise InputError(f"{path} is missing: expected a folder that train wrote.")
    return load_schema(path)


def read_arrays(folder: Path, outputs: tuple[int, ...], width: int | None = None) -> dict[str, NDArray[np.float64]]:
    """The coefficients and the intercept of a model with these outputs, by default of any number of features."""
    path = folder / WEIGHTS
    found = read_weights(path)
    if found.keys() != {"coefficients", "intercept"}:
        raise InputError(f"{path} is missing or damaged: expected the arrays that train wrote, coefficients and intercept.")
    if width is None:
        width = max(1, found["coefficients"].shape[-1]) if found["coefficients"].ndim else 1
    for name, shape in (("coefficients", (*outputs, width)), ("intercept", outputs)):
        array = found[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise InputError(f"{path}: {name} has shape {array.shape}: expected finite float64 numbers of shape {shape}.")
    return found


def outputs_of(classes: int) -> tuple[int, ...]:
    """The shape of the intercepts: none for a number, one for two classes, else one a class."""
    return () if not classes else (1,) if classes == 2 else (classes,)


def check_rows(certificate: Certificate, folder: Path, estimator: Any) -> None:
    """Raise ``ContradictionError`` unless the certificate names the model's norm of rows; that of a search, among others."""
    said = {(one.norm, one.scaled) for one in certificate.assumptions if isinstance(one, Rows)}
    if said and (estimator.feature_norm, estimator.rows == "unit") not in said:
        raise ContradictionError(f"{folder}: model.json and the certificate say different things about the norm of rows.")


def check_class_weights(certificate: Certificate, folder: Path, found: str | None) -> None:
    """Raise ``ContradictionError`` unless the certificate names the model's weights of classes; that of a search, among others."""
    said = {one.weights for one in certificate.assumptions if isinstance(one, ClassWeights)}
    if found not in said if found else said and not isinstance(certificate.run, Selection):
        raise ContradictionError(f"{folder}: model.json and the certificate say different things about class_weight.")


def restore(
    fitted: Any, arrays: dict[str, NDArray[np.float64]], certificate: Certificate, run: Run | Runs, classes: NDArray[Any] | None
) -> None:
    """Set the fitted attributes of an estimator, as they were."""
    fitted.coef_, intercept = arrays["coefficients"], arrays["intercept"]
    if classes is None:
        fitted.intercept_ = float(intercept)
    else:
        fitted.intercept_, fitted.classes_ = intercept, classes
    fitted.n_features_in_ = fitted.coef_.shape[-1]
    fitted.run_, fitted.n_iter_, fitted.certificate_ = run, run.steps, certificate
