"""``TableModel``: an estimator together with the public schema that turns rows of a file into its features."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate import Certificate
from dplateau.certificate.beside import check_model, check_schema, read_weights
from dplateau.certificate.keys import named_keys
from dplateau.certificate.read import certificate_at
from dplateau.certificate.signature import Signature
from dplateau.data import Dataset, Schema, feature_names, load_dataset, load_schema, open_stream, schema_to_toml
from dplateau.data.schema_digest import schema_digest
from dplateau.estimators.linear_regression import PrivateLinearRegression
from dplateau.estimators.linear_svc import PrivateLinearSVC
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.files import new_folder
from dplateau.spec import ContradictionError, InputError, PrivacyWarning, Run, Runs
from dplateau.spec.assumption import Features, PublicSchema
from dplateau.training.charged import Budgeted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "dplateau model"
FORMAT: Final = 2
OLDEST: Final = 1
"""Models of this format may have a certificate that does not say which weights it is about."""
FEATURE_NORM: Final = 1.0
MODELS: Final = ("logistic", "linear", "svc")
Estimator: TypeAlias = PrivateLogisticRegression | PrivateLinearRegression | PrivateLinearSVC
ENTRIES: Final = frozenset({"kind", "format", "model", "feature_norm", "feature_names", "classes", "target_range"})


@dataclass(frozen=True, eq=False)
class TableModel:
    """A model of the rows of a table.

    Attributes
    ----------
    model : {"logistic", "linear", "svc"}
        What kind of model it is.
    estimator : PrivateLogisticRegression, PrivateLinearRegression or PrivateLinearSVC
        The fitted estimator. Its classes are the indices of the schema's.
    schema : Schema
        The public schema.
    """

    model: str
    estimator: Estimator
    schema: Schema

    @classmethod
    def train(
        cls,
        path: str | Path,
        schema: str | Path | Schema,
        *,
        epsilon: float,
        delta: float | None = None,
        model: str | None = None,
        stream: bool = False,
        n: int | None = None,
        ledger: Budgeted | None = None,
        **options: Any,
    ) -> TableModel:
        """Train on the private rows of a file.

        Parameters
        ----------
        path : str or Path
            The file, see ``dplateau.data.read_table``.
        schema : str, Path or Schema
            The public schema, see ``dplateau.data.load_schema``.
        epsilon, delta : float
            What the model may cost; delta is ``min(1e-5, 1 / (10 n))`` by default.
        model : {"logistic", "svc", "linear"}, optional
            By default logistic for a target with classes, linear for one with a range.
        stream : bool, default False
            Whether to read the rows piece by piece: the file may then be larger than the memory. They are read once, in their order
            in the file, which must not depend on what they say; with ``solver="noisy-sgd"`` they are read again for every epoch, in
            batches that are drawn, and the order does not matter.
        n : int, optional
            The public number of rows: a file with another number is refused. By default the file's own.
        ledger : Account, optional
            The account of the data set, see ``dplateau.Ledger``: what the model costs is taken out of its budget before the first
            random number is drawn.
        **options
            Further arguments of the estimator: ``solver``, ``max_iter``, ``adjacency``, ``insecure_seed``, ``verbose``.

        Raises
        ------
        InputError
            An argument, the schema or the file is not as expected, or they do not fit each other.
        """
        public = load_schema(schema)
        model = model or ("logistic" if public.target.classes else "linear")
        charged = None if ledger is None else _Charged(ledger)
        estimator = _estimator(model, public).set_params(epsilon=epsilon, delta=delta, ledger=charged, **options)
        if stream:
            estimator.fit_stream(open_stream(path, public, n=n, feature_norm=FEATURE_NORM, intercept=_intercept(public)))
        else:
            data = read_rows(path, public, n=n)
            estimator.fit(data.features, data.target)
        estimator.certificate_ = replace(
            estimator.certificate_,
            assumptions=tuple(PublicSchema() if isinstance(one, Features) else one for one in estimator.certificate_.assumptions),
            schema_sha256=schema_digest(public),
        )
        if charged is not None:
            charged.end(estimator.certificate_)
            estimator.set_params(ledger=None)
        return cls(model, estimator, public)

    @property
    def certificate(self) -> Certificate:
        """What the model cost, and under which assumptions."""
        return self.estimator.certificate_

    @property
    def classes(self) -> tuple[str, ...]:
        """The declared classes; empty where a number is predicted."""
        return self.schema.target.classes

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the encoded features, in order."""
        return _names(self.schema)

    def read(self, path: str | Path) -> Dataset:
        """The rows of a file, encoded as those of the training were."""
        return read_rows(path, self.schema)

    def predict(self, rows: Dataset | str | Path) -> NDArray[Any]:
        """Predictions.

        Parameters
        ----------
        rows : Dataset, str or Path
            What ``read`` returns, or a file.

        Returns
        -------
        array of shape (n,)
            Names of classes, or numbers.
        """
        found: Any = self.estimator.predict(self._features(rows))
        return np.array(self.classes)[found] if self.classes else found

    def predict_proba(self, rows: Dataset | str | Path) -> NDArray[np.float64]:
        """Class probabilities of a logistic model, shape (n, K), in the order of ``classes``."""
        if not isinstance(self.estimator, PrivateLogisticRegression):
            raise InputError(f"a {self.model} model has no class probabilities: train one with model 'logistic'.")
        return self.estimator.predict_proba(self._features(rows))

    def accuracy(self, rows: Dataset) -> float | None:
        """The share of right predictions on public rows; None where a number is predicted."""
        return float((self.estimator.predict(rows.features) == rows.target).mean()) if self.classes else None

    def rmse(self, rows: Dataset) -> float | None:
        """The root of the mean squared error on public rows; None where a class is predicted."""
        if self.classes:
            return None
        return float(np.sqrt(np.mean((self.predict(rows) - rows.target) ** 2)))

    def save(self, folder: str | Path, *, sign: Ed25519PrivateKey | None = None) -> None:
        """Write a new folder, whole or not at all: ``model.json``, ``weights.npz``, ``schema.toml`` and ``certificate.json``.

        It can be read without unpickling anything, and holds no seed.

        Parameters
        ----------
        folder : str or Path
            The new folder.
        sign : Ed25519PrivateKey, optional
            What ``dplateau.certificate.signing_key`` returns: the certificate is signed with it, in ``certificate.sig.json``.

        Raises
        ------
        InputError
            The folder exists already, or cannot be written.
        """
        target = self.schema.target
        about = {
            "kind": KIND,
            "format": FORMAT,
            "model": self.model,
            "feature_norm": FEATURE_NORM,
            "feature_names": list(_names(self.schema)),
            "classes": list(target.classes) or None,
            "target_range": None if target.classes else [target.low, target.high],
        }
        with new_folder(folder) as part:
            (part / "model.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            (part / "schema.toml").write_text(schema_to_toml(self.schema), encoding="utf-8")
            certificate = self.certificate.to_json().encode()
            (part / "certificate.json").write_bytes(certificate)
            if sign is not None:
                (part / "certificate.sig.json").write_bytes(Signature.of(certificate, sign).to_json().encode())
            np.savez(part / "weights.npz", coefficients=self.estimator.coef_, intercept=self.estimator.intercept_)

    @classmethod
    def load(cls, folder: str | Path, *, signed_by: str | Iterable[str] | None = None) -> TableModel:
        """Read what ``save`` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder.
        signed_by : str or iterable of str, optional
            Names of known keys, or their fingerprints: one of them must have signed the certificate.

        Raises
        ------
        InputError
            A file of the folder is missing or damaged; or ``signed_by`` names no known key.
        ContradictionError
            They contradict each other: the certificate is about other weights, or another schema, or its signature does not match.
            Or none of ``signed_by`` has signed it.
        """
        folder = Path(folder)
        wanted = None if signed_by is None else named_keys(signed_by)
        about = _about(folder / "model.json")
        schema = load_schema(folder / "schema.toml")
        certificate, signed = certificate_at(folder / "certificate.json")
        signed.check(folder / "certificate.json", wanted)
        names, target = _names(schema), schema.target
        says = (about["feature_names"], about["classes"] or [], about["target_range"], about["feature_norm"])
        if says != (list(names), list(target.classes), None if target.classes else [target.low, target.high], FEATURE_NORM):
            raise InputError(
                f"{folder}: model.json and schema.toml contradict each other: the folder was changed after it was written."
            )
        fitted: Any = _estimator(about["model"], schema)
        outputs = () if not target.classes else (1,) if len(target.classes) == 2 else (len(target.classes),)
        arrays = _weights(folder / "weights.npz", (*outputs, len(names)), outputs)
        _check_binding(certificate, about["format"], folder, arrays, schema)
        fitted.coef_, intercept = arrays["coefficients"], arrays["intercept"]
        if target.classes:
            fitted.intercept_, fitted.classes_ = intercept, np.arange(len(target.classes))
        else:
            fitted.intercept_ = float(intercept)
        fitted.n_features_in_ = len(names)
        fitted.run_, fitted.certificate_ = certificate.run, certificate
        fitted.n_iter_ = certificate.run.steps
        fitted.set_params(epsilon=certificate.epsilon, delta=certificate.delta)
        return cls(about["model"], fitted, schema)

    def _features(self, rows: Dataset | str | Path) -> NDArray[Any]:
        return (rows if isinstance(rows, Dataset) else self.read(rows)).features


class _Charged:
    """An account whose reservation is committed with the certificate that names the schema, too."""

    def __init__(self, ledger: Budgeted) -> None:
        self.ledger = ledger

    def reserve(self, run: Run | Runs) -> _Charged:
        self.reserved = self.ledger.reserve(run)
        return self

    def commit(self, certificate: Any = None) -> None:
        """The estimator's certificate does not name the schema yet."""

    def end(self, certificate: Certificate) -> None:
        self.reserved.commit(certificate)


def load_model(folder: str | Path, *, signed_by: str | Iterable[str] | None = None) -> TableModel:
    """The model in a folder that ``dplateau train`` or ``TableModel.save`` wrote; see ``TableModel.load``."""
    return TableModel.load(folder, signed_by=signed_by)


def read_rows(path: str | Path, schema: Schema, *, n: int | None = None) -> Dataset:
    """The rows of a file as a model of this schema sees them."""
    return load_dataset(path, schema, n=n, feature_norm=FEATURE_NORM, intercept=_intercept(schema))


def _names(schema: Schema) -> tuple[str, ...]:
    return feature_names(schema, intercept=_intercept(schema))


def _intercept(schema: Schema) -> float:
    """The constant feature. Rows of unit norm carry it themselves; a regression learns its intercept around the range's centre."""
    return 1.0 if schema.target.classes else 0.0


def _estimator(model: str, schema: Schema) -> Estimator:
    """The estimator for a schema, not fitted yet."""
    if model not in MODELS:
        raise InputError(f"model is {model!r}: expected one of {', '.join(MODELS)}.")
    target = schema.target
    if bool(target.classes) == (model == "linear"):
        what = "classes: use logistic or svc" if target.classes else "a range of numbers: use linear"
        raise InputError(f"model {model} does not fit the target {target.name!r}, which has {what}.")
    if target.low is not None and target.high is not None:
        return PrivateLinearRegression(feature_norm=FEATURE_NORM, target_range=(target.low, target.high))
    classifier = PrivateLogisticRegression if model == "logistic" else PrivateLinearSVC
    return classifier(feature_norm=FEATURE_NORM, classes=range(len(target.classes)), fit_intercept=False)


def _about(path: Path) -> dict[str, Any]:
    """``model.json``, its entries checked."""
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or 'input/output error'}. Expected a folder that train wrote."
        ) from None
    except ValueError:
        raise InputError(f"{path} is not JSON: expected what train wrote.") from None
    known = isinstance(about, dict) and about.get("kind") == KIND and about.get("format") in (OLDEST, FORMAT)
    if not known or about.keys() != ENTRIES:
        raise InputError(f"{path} describes no model of format {FORMAT}: expected what train wrote.")
    return about


def _check_binding(certificate: Certificate, version: int, folder: Path, arrays: dict[str, NDArray[Any]], schema: Schema) -> None:
    """Check that the certificate is about this model; only one of format 1, in a model of format 1, may leave that open."""
    if version == OLDEST and certificate.format == 1:
        warnings.warn(
            f"{folder} was written before certificates were bound to their models: nobody can tell whether its weights are those"
            " that were certified. Train again, or be sure where it comes from.",
            PrivacyWarning,
            stacklevel=4,
        )
        return
    if certificate.weights_sha256 is None or certificate.schema_sha256 is None:
        raise ContradictionError(f"{folder}: the certificate names no weights and no schema, as that of a model does.")
    check_model(certificate, folder, arrays)
    check_schema(certificate, folder, schema_digest(schema))


def _weights(path: Path, coefficients: tuple[int, ...], intercept: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
    """The coefficients and the intercept, of these shapes."""
    found = read_weights(path)
    if found.keys() != {"coefficients", "intercept"}:
        raise InputError(f"{path} is missing or damaged: expected the arrays that train wrote, coefficients and intercept.")
    for name, shape in (("coefficients", coefficients), ("intercept", intercept)):
        array = found[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise InputError(f"{path}: {name} has shape {array.shape}: expected finite float64 numbers of shape {shape}.")
    return found
