"""What a model of a table is made of: its estimator, its account, its binding to a certificate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from dplateau.certificate import Certificate
from dplateau.certificate.beside import check_model, check_schema
from dplateau.data import Schema
from dplateau.data.schema_digest import schema_digest
from dplateau.estimators.costs import numbers_of_classes
from dplateau.estimators.linear_regression import PrivateLinearRegression
from dplateau.estimators.linear_svc import PrivateLinearSVC
from dplateau.estimators.loading import Estimator
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.estimators.table_rows import FEATURE_NORM
from dplateau.losses.named import MODELS
from dplateau.spec import Assumption, ContradictionError, InputError, PrivacyWarning, Run, Runs
from dplateau.spec.arguments import one_of
from dplateau.spec.assumption import Features, PublicSchema
from dplateau.training.charged import Budgeted, check_account

OLDEST: Final = 1
"""Models of this format may have a certificate that does not say which weights it is about."""


OF_THE_SCHEMA: Final = frozenset({"feature_norm", "rows", "fit_intercept", "classes", "target_range"})
"""Arguments that follow from the schema: a model that is loaded has no others."""


class Charged:
    """An account whose reservation is committed with the certificate that names the schema, too."""

    def __init__(self, ledger: Budgeted) -> None:
        check_account(ledger)
        self.ledger = ledger

    def reserve(self, run: Run | Runs) -> Charged:
        self.reserved = self.ledger.reserve(run)
        return self

    def commit(self, certificate: Any = None) -> None:
        """The estimator's certificate does not name the schema yet."""

    def end(self, certificate: Certificate) -> None:
        self.reserved.commit(certificate)


def estimator_for(model: str, schema: Schema, **options: Any) -> Estimator:
    """The estimator for a schema, with further arguments, not fitted yet."""
    if decided := sorted(OF_THE_SCHEMA & options.keys()):
        raise InputError(f"{decided[0]} follows from the schema, for a model of a table: leave it out.")
    one_of("model", model, MODELS)
    target = schema.target
    if bool(target.classes) == (model == "linear"):
        what = "classes: use logistic or svc" if target.classes else "a range of numbers: use linear"
        raise InputError(f"model {model} does not fit the target {target.name!r}, which has {what}.")
    if target.range is not None:
        return PrivateLinearRegression(feature_norm=FEATURE_NORM, target_range=target.range).set_params(**options)
    classifier = PrivateLogisticRegression if model == "logistic" else PrivateLinearSVC
    return classifier(feature_norm=FEATURE_NORM, classes=range(len(target.classes)), fit_intercept=False).set_params(**options)


def numbered(name: str, given: Mapping[str, float], schema: Schema) -> dict[int, float]:
    """The numbers of classes by their places in place of their names."""
    return dict(enumerate(numbers_of_classes(name, given, schema.target.classes).tolist()))


def of_schema(certificate: Certificate, schema: Schema, facts: tuple[Assumption, ...]) -> Certificate:
    """The certificate of a model of a table, which rests on its schema and on further facts."""
    found = (PublicSchema() if isinstance(one, Features) else one for one in certificate.assumptions)
    return replace(certificate, assumptions=(*found, *facts), schema_sha256=schema_digest(schema))


def check_binding(certificate: Certificate, version: int, folder: Path, arrays: dict[str, NDArray[Any]], schema: Schema) -> None:
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


def check_lots(private_test: float | None, stream: bool, ledger: object, person: str | None) -> None:
    """Raise ``InputError`` where rows are to be held out by lot, and something is asked for that does not go with it."""
    others = {
        "a stream, since rows are drawn by lot": stream,
        "a ledger, which knows no parts that are drawn by lot": ledger is not None,
        "a person's column, since single rows are drawn by lot": person is not None,
    }
    if private_test is not None and (other := next((name for name, asked in others.items() if asked), None)):
        raise InputError(f"private_test does not go with {other}: leave one of the two out.")
