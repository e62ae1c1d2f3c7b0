"""``TableModel``: an estimator together with the public schema that turns rows of a file into its features."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate import Certificate
from dplateau.data import Dataset, Schema, load_schema, schema_to_toml
from dplateau.data.schema_digest import schema_digest
from dplateau.estimators.coefficients import coefficient_table
from dplateau.estimators.evaluation import ClassEvaluation, NumberEvaluation, evaluate
from dplateau.estimators.folder import (
    check_class_weights,
    coefficients_of,
    outputs_of,
    read_about,
    read_arrays,
    read_schema,
    read_signed_certificate,
    restore,
    write_model,
)
from dplateau.estimators.loading import Estimator
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.estimators.private_test import PlannedTest, PrivateTest, cells_of, planned_test, read_test, write_test
from dplateau.estimators.shared_table import shared_rows
from dplateau.estimators.table_parts import OLDEST, Charged, check_binding, check_lots, estimator_for, numbered, of_schema
from dplateau.estimators.table_rows import FEATURE_NORM, dataset_pieces, feature_pieces, names_of, read_rows, stream_of, true_rows
from dplateau.files import as_path
from dplateau.losses.named import LOSSES, loss_named
from dplateau.spec import InputError
from dplateau.training import Cluster
from dplateau.training.charged import Budgeted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "dplateau model"
FORMAT: Final = 2
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
    private_test : PrivateTest, optional
        How good it is on private rows that were held out, where ``train`` was asked for that.
    """

    model: str
    estimator: Estimator
    schema: Schema
    private_test: PrivateTest | None = None

    @classmethod
    def train(
        cls,
        path: Any,
        schema: str | Path | Schema,
        *,
        epsilon: float,
        delta: float | None = None,
        model: str | None = None,
        loss: str | None = None,
        class_weight: Mapping[str, float] | None = None,
        stream: bool = False,
        n: int | None = None,
        person: str | None = None,
        private_test: float | None = None,
        ledger: Budgeted | None = None,
        cluster: Cluster | None = None,
        **options: Any,
    ) -> TableModel:
        """Train on the private rows of a file, or of a table in memory.

        Parameters
        ----------
        path : str, Path, DataFrame, Arrow table or dict of columns
            The file, or the table, see ``dplateau.data.read_table``; with ``stream`` a file.
        schema : str, Path or Schema
            The public schema, see ``dplateau.data.load_schema``.
        epsilon, delta : float
            What the model may cost; delta is ``min(1e-5, 1 / (10 n))`` by default.
        model : {"logistic", "svc", "linear"}, optional
            By default that of ``loss``; else logistic for a target with classes, linear for one with a range.
        loss : {"logistic", "smoothed-hinge", "hinge", "squared", "huber", "absolute"}, optional
            By default the model's usual one: see the estimators.
        class_weight : dict, optional
            Public weights of classes by their names, > 0; 1 where a class is not named. See ``PrivateLogisticRegression``.
        stream : bool, default False
            Whether to read the rows piece by piece: the file may then be larger than the memory. They are read once, in their order
            in the file, which must not depend on what they say; with ``solver="noisy-sgd"`` they are read again for every epoch, in
            batches that are drawn, and the order does not matter.
        n : int, optional
            The public number of rows, or of persons: a file with another number is refused. By default the file's own.
        person : str, optional
            The column that says whose a row is, in texts or whole numbers; not a feature. A record is then a person: the loss of
            a person is the mean of the losses of that person's rows. With ``stream`` the file must be sorted by person.
        private_test : float, optional
            Hold out this share of the rows, drawn by lot, up to 0.5, and release one noisy histogram of how they are predicted, for
            the same epsilon and delta: ``model.private_test``. As every row is in one part only, both together cost what one of
            them costs. The rows must fit in memory; there must be no ledger and no persons.
        ledger : Account, optional
            The account of the data set, see ``dplateau.Ledger``: what the model costs is taken out of its budget before the first
            random number is drawn.
        cluster : Cluster, optional
            Several processes to train on. Each calls this with equal arguments and a file of its own, of the same schema; ``n`` is
            the number of the records of all, all rows of a person are in one file, and the ledger is process 0's.
        **options
            Further arguments of the estimator: ``solver``, ``l2``, ``max_iter``, ``adjacency``, ``insecure_seed``, ``verbose``.

        Raises
        ------
        InputError
            An argument, the schema or the file is not as expected, or they do not fit each other.
        """
        public = load_schema(schema)
        if cluster is None:
            check_lots(private_test, stream, ledger, person)
        model = model or LOSSES.get(loss or "") or ("logistic" if public.target.classes else "linear")
        loss_named(model, loss, len(public.target.classes) or 2)
        if loss is not None and model != "logistic":
            options["loss"] = loss
        if class_weight is not None:
            if not public.target.classes:
                raise InputError("class_weight is for classes, and the target is a number: leave it out.")
            options["class_weight"] = numbered("class_weight", class_weight, public)
        charged = None if ledger is None or not (cluster is None or cluster.first) else Charged(ledger)
        estimator = estimator_for(model, public, epsilon=epsilon, delta=delta, ledger=charged, **options)
        if cluster is None:
            data: Any = (stream_of if stream else read_rows)(path, public, n=n, person=person)
            total = data.n
        else:
            asked: Any = {"model": type(estimator).__name__, "private_test": private_test, "ledger": ledger}
            data, total = shared_rows(path, public, cluster, stream=stream, n=n, person=person, **asked)
        tested: PlannedTest | None = None
        if stream:
            estimator.fit_stream(data, cluster=cluster)
        else:
            if private_test is not None:
                tested = planned_test(estimator, total, private_test, cluster, data.n)
            kept = slice(None) if tested is None else tested.split.kept
            estimator.fit(data.features[kept], data.target[kept], groups=data.groups, cluster=cluster)
        estimator.certificate_ = of_schema(estimator.certificate_, public, () if tested is None else (tested.fact,))
        if charged is not None:
            charged.end(estimator.certificate_)
            estimator.set_params(ledger=None)
        if tested is None:
            return cls(model, estimator, public)
        held = tested.split.held
        cells = cells_of(estimator, tested.run, data.features[held], data.target[held])
        about = public.target.classes, schema_digest(public), str(estimator.certificate_.weights_sha256)
        return cls(model, estimator, public, tested.released(cells, *about))

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
        return names_of(self.schema)

    def read(self, rows: Any) -> Dataset:
        """Rows encoded as those of the training were, with their targets; numbers are not clipped to the schema's range.

        Parameters
        ----------
        rows : str, Path, DataFrame, Arrow table or dict of columns
            A file, see ``dplateau.data.read_table``, or a table in memory.
        """
        return true_rows(rows, self.schema)

    def predict(self, rows: Any, *, cost: Mapping[str, float] | None = None) -> NDArray[Any]:
        """Predictions. Each row is treated exactly as a row of the training was.

        Parameters
        ----------
        rows : str, Path, Dataset, DataFrame, Arrow table or dict
            A file in any format of ``dplateau.data.read_table``; what ``read`` returns; a DataFrame of pandas or Polars; an Arrow
            table; a dict of columns (lists or arrays). A dict of single values, or a Series, is one row. The target is not needed,
            and columns that the schema does not declare are ignored. In pandas and in a dict NaN is a missing value.
        cost : dict, optional
            What it costs to miss a row of a class, by name, > 0; 1 where a class is not named. The class with the least expected
            cost is predicted: of logistic models, free of charge.

        Returns
        -------
        array of shape (n,)
            Names of classes, or numbers, in the order of the rows.

        Raises
        ------
        InputError
            A column is missing, there twice or of the wrong type, or there are no rows.
        """
        return np.concatenate([piece["prediction"] for piece in self.predict_pieces(rows, cost=cost)])

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Class probabilities of a logistic model, shape (n, K), in the order of ``classes``.

        Parameters
        ----------
        rows : str, Path, Dataset, DataFrame, Arrow table or dict
            See ``predict``.
        """
        estimator = self._logistic()
        return np.concatenate([estimator.predict_proba(features) for features, _ in feature_pieces(rows, self.schema)])

    def predict_pieces(
        self, rows: Any, *, proba: bool = False, cost: Mapping[str, float] | None = None, keep: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Predictions some rows at a time: a file may be larger than the memory.

        Parameters
        ----------
        rows : str, Path, Dataset, DataFrame, Arrow table or dict
            See ``predict``.
        proba : bool, default False
            Whether to add the probability of every class.
        cost : dict, optional
            See ``predict``.
        keep : sequence of str
            Columns of the rows that stand first, as Arrow has them: a record's number, say. The schema need not declare them.

        Yields
        ------
        dict of str to array
            The columns "prediction" and, with ``proba``, "probability NAME" for each class.
        """
        logistic = self._logistic() if proba else None
        predicted = self._predictor(cost)
        for features, kept in feature_pieces(rows, self.schema, keep):
            found: Any = predicted(features)
            columns = kept | {"prediction": np.array(self.classes)[found] if self.classes else found}
            if logistic is not None:
                names = (f"probability {name}" for name in self.classes)
                columns |= dict(zip(names, logistic.predict_proba(features).T, strict=True))
            yield columns

    def evaluate(self, rows: Any, *, cost: Mapping[str, float] | None = None) -> ClassEvaluation | NumberEvaluation:
        """How good the model is on public rows, beside an answer without a model.

        Parameters
        ----------
        rows : str, Path, Dataset, DataFrame, Arrow table or dict
            Rows with their targets, see ``predict``. The result is a statistic of them that nothing protects: they must be public.
        cost : dict, optional
            See ``predict``.

        Returns
        -------
        ClassEvaluation or NumberEvaluation
            For classes or for numbers.
        """
        return evaluate(self.estimator, self.classes, dataset_pieces(rows, self.schema), self._predictor(cost))

    def accuracy(self, rows: Any) -> float | None:
        """The share of right predictions on public rows, see ``evaluate``; None where a number is predicted."""
        found = self.evaluate(rows)
        return found.accuracy if isinstance(found, ClassEvaluation) else None

    def rmse(self, rows: Any) -> float | None:
        """The root of the mean squared error on public rows, see ``evaluate``; None where a class is predicted."""
        found = self.evaluate(rows)
        return found.rmse if isinstance(found, NumberEvaluation) else None

    def coefficients(self) -> dict[str, list[Any]]:
        """The named coefficients, as columns: ``pandas.DataFrame(model.coefficients())`` is a table.

        A feature is what the schema makes of a column: the place of a number in its range, from -1 to 1, and 0 or 1 for a bin, a
        category and "unknown". For classes a score is the sum of coefficients times features; with two classes the second is
        predicted where it is positive, with more the class of the largest. The scores that probabilities come from are these
        divided by the length of the row of features. For a number the sum is the prediction, in units of the target.

        Returns
        -------
        dict of str to list
            "feature", its name, "intercept" last; "class", whose score it is (not for a number; with two classes the second); and
            "coefficient".
        """
        return coefficient_table(self.estimator, self.schema)

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
        about: dict[str, Any] = {"kind": KIND, "format": FORMAT, "model": self.model, **_facts(self.schema)}
        weights = getattr(self.estimator, "class_weight", None)
        if weights is not None:
            about["class_weight"] = {name: weights[place] for place, name in enumerate(self.classes)}
        test = self.private_test
        more = None if test is None else lambda part: write_test(test, part, sign)
        arrays = coefficients_of(self.estimator)
        write_model(folder, about, self.certificate, arrays, schema=schema_to_toml(self.schema), sign=sign, more=more)

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
        folder = as_path(folder, "the folder of a model")
        about = read_about(folder, KIND, (OLDEST, FORMAT), ENTRIES, frozenset({"class_weight"}))
        certificate = read_signed_certificate(folder, signed_by)
        schema = read_schema(folder)
        classes, facts = schema.target.classes, _facts(schema)
        if {name: about[name] for name in facts} != facts:
            raise InputError(
                f"{folder}: model.json and schema.toml contradict each other: the folder was changed after it was written."
            )
        fitted: Any = estimator_for(about["model"], schema)
        if "class_weight" in about and classes:
            fitted.set_params(class_weight=numbered(f"{folder / 'model.json'}: class_weight", about["class_weight"], schema))
        arrays = read_arrays(folder, outputs_of(len(classes)), len(facts["feature_names"]))
        check_binding(certificate, about["format"], folder, arrays, schema)
        restore(fitted, arrays, certificate, certificate.run, np.arange(len(classes)) if classes else None)
        fitted.set_params(epsilon=certificate.epsilon, delta=certificate.delta)
        if classes:
            check_class_weights(certificate, folder, fitted.weights_in_words())
        test = read_test(folder, fitted, classes, schema_digest(schema), signed_by)
        return cls(about["model"], fitted, schema, test)

    def _predictor(self, cost: Mapping[str, float] | None) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """What predicts the places of classes, or numbers."""
        if cost is None:
            return self.estimator.predict
        return partial(self._logistic().predict_at_least_cost, cost=numbered("cost", cost, self.schema))

    def _logistic(self) -> PrivateLogisticRegression:
        if not isinstance(self.estimator, PrivateLogisticRegression):
            raise InputError(f"a {self.model} model has no class probabilities: train one with model 'logistic'.")
        return self.estimator


def _facts(schema: Schema) -> dict[str, Any]:
    """What ``model.json`` says of the schema."""
    target = schema.target
    return {
        "feature_norm": FEATURE_NORM,
        "feature_names": list(names_of(schema)),
        "classes": list(target.classes) or None,
        "target_range": None if target.range is None else list(target.range),
    }


def load_model(folder: str | Path, *, signed_by: str | Iterable[str] | None = None) -> TableModel:
    """The model in a folder that ``dplateau train`` or ``TableModel.save`` wrote; see ``TableModel.load``."""
    return TableModel.load(folder, signed_by=signed_by)
