"""Fitted estimators in a folder: arrays without pickle, facts as JSON, the certificate beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from dplateau.data import Schema, schema_from_toml, schema_to_toml
from dplateau.estimators.base import PrivateLinearModel
from dplateau.estimators.linear_regression import PrivateLinearRegression
from dplateau.estimators.linear_svc import PrivateLinearSVC
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.report import Certificate
from dplateau.report.files import write_folder
from dplateau.spec import InputError

FORMAT: Final = "dplateau-model-1"
KINDS: Final[dict[str, Callable[..., Any]]] = {
    kind.__name__: kind for kind in (PrivateLogisticRegression, PrivateLinearRegression, PrivateLinearSVC)
}


def save_model(model: PrivateLinearModel, folder: str | Path, *, schema: Schema | None = None) -> None:
    """Write a fitted estimator: ``weights.npz``, ``model.json``, ``certificate.json`` and, where given, ``schema.toml``.

    Parameters
    ----------
    model : estimator
        Fitted; its arguments are stored, except ``insecure_seed``.
    folder : str or Path
        A folder that does not exist; it appears whole or not at all.
    schema : Schema, optional
        The public schema that encoded the rows.

    Raises
    ------
    InputError
        The folder exists, or cannot be written.
    """
    arguments = {key: value for key, value in model.get_params(deep=False).items() if key != "insecure_seed"}
    fitted: Any = model
    classes = fitted.classes_.tolist() if hasattr(fitted, "classes_") else None
    facts = {
        "format": FORMAT,
        "kind": type(model).__name__,
        "arguments": arguments,
        "classes": classes,
        "n_features": int(fitted.n_features_in_),
    }
    facts["arguments"] = {
        key: list(value) if key in ("classes", "target_range") and value is not None else value for key, value in arguments.items()
    }

    def fill(place: Path) -> None:
        np.savez(place / "weights.npz", coef=fitted.coef_, intercept=np.asarray(fitted.intercept_))
        (place / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        (place / "certificate.json").write_text(fitted.certificate_.to_json(), encoding="utf-8")
        if schema is not None:
            (place / "schema.toml").write_text(schema_to_toml(schema), encoding="utf-8")

    write_folder(Path(folder), fill)


def load_model(folder: str | Path) -> Any:
    """The fitted estimator that ``save_model`` wrote; ``predict`` and the rest work as before.

    Raises
    ------
    InputError
        The folder is not such a model.
    """
    place = Path(folder)
    try:
        facts = json.loads((place / "model.json").read_text(encoding="utf-8"))
        certificate = Certificate.from_json((place / "certificate.json").read_text(encoding="utf-8"))
        with np.load(place / "weights.npz", allow_pickle=False) as arrays:
            coef, intercept = arrays["coef"], arrays["intercept"]
        if facts["format"] != FORMAT:
            raise KeyError("format")
        model = KINDS[facts["kind"]](**facts["arguments"])
    except OSError as error:
        raise InputError(f"cannot read a model from {place}: {error.strerror or error}.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place} holds no model of this version: {error}.") from None
    model.coef_ = coef
    model.intercept_ = intercept if intercept.ndim else float(intercept)
    if facts["classes"] is not None:
        model.classes_ = np.array(facts["classes"])
    model.n_features_in_ = facts["n_features"]
    model.run_, model.certificate_ = certificate.run, certificate
    model.epsilon_, model.n_iter_ = certificate.epsilon, certificate.run.steps
    return model


def load_model_schema(folder: str | Path) -> Schema | None:
    """The schema stored with a model; None if there is none."""
    path = Path(folder) / "schema.toml"
    return schema_from_toml(path.read_text(encoding="utf-8"), where=str(path)) if path.exists() else None
