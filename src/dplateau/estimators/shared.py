"""Estimators on the rows of several processes: each checks its own, all plan for all of them, and process 0 keeps the ledger."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dplateau.algorithms import Algorithm
from dplateau.data import Schema
from dplateau.data.schema_digest import schema_digest
from dplateau.estimators.base import PrivateLinearModel
from dplateau.estimators.ready import Ready, Stream
from dplateau.estimators.table_rows import read_rows, stream_of
from dplateau.spec import InputError
from dplateau.spec.promise import warn_if_weak
from dplateau.spec.schedule import real
from dplateau.training import Cluster
from dplateau.training.cluster import agree_on_code
from dplateau.training.persons import checked_groups
from dplateau.training.shared import check_ledger

_OWN = ("ledger", "verbose")
"""Arguments that may differ between processes: they change no number."""


def _agree_on_arguments(model: PrivateLinearModel, cluster: Cluster) -> None:
    """Raise ``InputError`` in every process unless all compute with the same code and arguments, with declared classes."""
    agree_on_code(cluster)
    check_ledger(cluster, model.ledger)
    given = {name: value for name, value in model.get_params().items() if name not in _OWN}
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in given.items()}
    cluster.agree({"argument": repr(sorted(plain.items()))})
    if plain.get("classes", ()) is None:
        raise InputError("the classes are not declared: on several processes declare them, so that all know the same ones.")


def fit_shared(model: PrivateLinearModel, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, cluster: Cluster) -> Any:
    """As ``model.fit``, called by every process of a cluster on rows of its own; errors are told in all of them."""
    _agree_on_arguments(model, cluster)

    def prepare() -> tuple[Ready, int]:
        warn_if_weak(real("epsilon", model.epsilon))
        ready = model._ready(X, y, groups)
        labels = None if groups is None else checked_groups(groups, len(ready.rows))
        return ready._replace(persons=labels), ready.n

    ready, own = cluster.together(prepare)
    cluster.agree({"number of features": str(ready.rows.shape[1]), "what is a record": ready.unit})
    ready = ready._replace(total=int(cluster.exchanged(np.array(own)).sum()))
    made, fit = cluster.together(lambda: model._planned(ready, shared=True))
    cluster.agree({"run": made.run.digest})
    cluster.together(lambda: _reserve(model, made) if cluster.first else None)
    with model._fine_enough(made.run), model._bar("steps") as progress:
        result = fit(generator=model._generator(), progress=progress, cluster=cluster)
    return ready.finished(model._certified(result, model._delta(ready.n), ready.assumptions, ready.uncertified))


def fit_stream_shared(model: PrivateLinearModel, stream: Stream, cluster: Cluster) -> Any:
    """As ``model.fit_stream``, called by every process of a cluster with a stream of its own."""
    _agree_on_arguments(model, cluster)
    ready = cluster.together(model._stream_ready)
    cluster.agree({"number of features": str(stream.d), "what is a record": getattr(stream, "unit", "row")})
    n = int(cluster.exchanged(np.array(stream.n)).sum())
    made, fit = cluster.together(lambda: model._planned_stream(ready, stream, n, shared=True))
    cluster.agree({"run": made.run.digest})
    cluster.together(lambda: _reserve(model, made) if cluster.first else None)
    return model._finished_stream(ready, stream, fit(cluster=cluster, own=stream.n))


def _reserve(model: PrivateLinearModel, made: Algorithm) -> None:
    model._reserve(made.run)


def fit_shared_table(
    estimator: Any,
    path: str | Path,
    schema: Schema,
    cluster: Cluster,
    *,
    stream: bool,
    n: int | None,
    person: str | None,
    ledger: object,
    other: str | None,
) -> None:
    """Fit on the rows of every process's own file, ``n`` in all where that is given; ``other`` is what cannot be done there."""
    agree_on_code(cluster)
    check_ledger(cluster, ledger)
    facts = {"schema": schema_digest(schema), "model": type(estimator).__name__, "number of rows": str(n), "option": str(other)}
    cluster.agree({**facts, "way to read rows": str(stream), "column of persons": str(person)})
    if other is not None:
        raise InputError(f"{other} does not go with several processes: train on one, or leave it out.")
    data: Any = cluster.together(lambda: (stream_of if stream else read_rows)(path, schema, person=person))
    counts = cluster.exchanged(np.array(data.n))
    if n is not None and n != counts.sum():
        held = ", ".join(f"{count:,}" for count in counts.tolist())
        records = "rows" if person is None else "persons"
        raise InputError(f"the files have {held} {records}, {counts.sum():,} in all, and not the {n:,} that were declared.")
    if stream:
        estimator.fit_stream(data, cluster=cluster)
    else:
        estimator.fit(data.features, data.target, groups=data.groups, cluster=cluster)
