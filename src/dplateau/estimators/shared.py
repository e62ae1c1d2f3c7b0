"""Estimators on the records of several processes: each checks its own, all plan for all, and process 0 keeps the ledger."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dplateau.estimators.base import PrivateLinearModel
from dplateau.estimators.ready import Ready, Stream
from dplateau.spec import InputError
from dplateau.spec.arguments import real
from dplateau.spec.promise import warn_if_weak
from dplateau.training import Cluster
from dplateau.training.cluster import agree_on_code
from dplateau.training.persons import checked_groups
from dplateau.training.shared import check_ledger

_OWN = ("ledger", "verbose")
"""Arguments that may differ between processes: they change no number."""


def agree_on_arguments(model: PrivateLinearModel, cluster: Cluster) -> None:
    """Raise ``InputError`` in every process unless all compute with the same code and arguments, with declared classes."""
    agree_on_code(cluster)
    check_ledger(cluster, model.ledger)
    given = {name: value for name, value in model.get_params().items() if name not in _OWN}
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in given.items()}
    cluster.agree({"argument": repr(sorted(plain.items()))})
    if plain.get("classes", ()) is None:
        raise InputError("the classes are not declared: on several processes declare them, so that all know the same ones.")


def of_all_processes(ready: Ready, groups: ArrayLike | None, cluster: Cluster) -> Ready:
    """The own rows, with the labels of persons and the number of the records of all.

    Raises ``InputError`` in every process unless they have the same features.
    """
    cluster.agree({"number of features": str(ready.rows.shape[1]), "what is a record": ready.unit})
    labels = None if groups is None else checked_groups(groups, len(ready.rows))
    return ready._replace(persons=labels, total=int(cluster.exchanged(np.array(ready.n)).sum()))


def fit_shared(model: PrivateLinearModel, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, cluster: Cluster) -> Any:
    """As ``model.fit``, called by every process of a cluster on rows of its own; errors are told in all of them."""
    agree_on_arguments(model, cluster)
    cluster.together(lambda: warn_if_weak(real("epsilon", model.epsilon)))
    ready = of_all_processes(cluster.together(lambda: model._ready(X, y, groups)), groups, cluster)
    made, fit = cluster.together(lambda: model._planned(ready))
    cluster.agree({"run": made.run.digest})
    cluster.together(lambda: model._reserve(made.run) if cluster.first else None)
    with model._fine_enough(made.run), model._bar("steps") as progress:
        result = fit(generator=model._generator(), progress=progress, cluster=cluster)
    return ready.finished(model._certified(result, model._delta(ready.n), ready.assumptions, ready.uncertified))


def fit_stream_shared(model: PrivateLinearModel, stream: Stream, cluster: Cluster) -> Any:
    """As ``model.fit_stream``, called by every process of a cluster with a stream of its own."""
    agree_on_arguments(model, cluster)
    ready = cluster.together(lambda: model._opened(stream))
    cluster.agree({"number of features": str(stream.d), "what is a record": getattr(stream, "unit", "row")})
    n = int(cluster.exchanged(np.array(stream.n)).sum())
    made, fit = cluster.together(lambda: model._planned_stream(ready, stream, n, shared=True))
    cluster.agree({"run": made.run.digest})
    cluster.together(lambda: model._reserve(made.run) if cluster.first else None)
    return model._finished_stream(ready, stream, fit(cluster=cluster, own=stream.n))
