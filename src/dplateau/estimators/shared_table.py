"""A model of the rows of several processes, each of which has a file of its own."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from typing import Any

import numpy as np

from dplateau.data import Dataset, Schema
from dplateau.data.schema_digest import schema_digest
from dplateau.estimators.private_test import PlannedTest, planned_test
from dplateau.estimators.table_parts import check_lots
from dplateau.estimators.table_rows import read_rows, stream_of
from dplateau.spec import InputError
from dplateau.training import Cluster
from dplateau.training.cluster import agree_on_code
from dplateau.training.shared import check_ledger


def fit_shared_table(
    estimator: Any,
    path: Any,
    schema: Schema,
    cluster: Cluster,
    *,
    stream: bool,
    n: int | None,
    person: str | None,
    private_test: float | None,
    ledger: object,
) -> tuple[Dataset | None, PlannedTest | None]:
    """Fit on the records of every process's own file, ``n`` in all where that is given; ``ledger`` is process 0's.

    Returns
    -------
    tuple
        The own rows, and the test of those that are held out, where there is one.
    """
    agree_on_code(cluster)
    check_ledger(cluster, ledger)
    facts = {"schema": schema_digest(schema), "model": type(estimator).__name__, "number of rows": str(n)}
    said = {"way to read rows": str(stream), "column of persons": str(person), "private test": str(private_test)}
    cluster.agree({**facts, **said})
    cluster.together(lambda: check_lots(private_test, stream, ledger, person))
    data: Any = cluster.together(lambda: (stream_of if stream else read_rows)(path, schema, person=person))
    counts = cluster.exchanged(np.array(data.n))
    total = int(counts.sum())
    if n is not None and n != total:
        held = ", ".join(f"{count:,}" for count in counts.tolist())
        records = "rows" if person is None else "persons"
        raise InputError(f"the files have {held} {records}, {total:,} in all, and not the {n:,} that were declared.")
    if stream:
        estimator.fit_stream(data, cluster=cluster)
        return None, None
    tested = None if private_test is None else planned_test(estimator, total, private_test, cluster, data.n)
    kept = slice(None) if tested is None else tested.split.kept
    estimator.fit(data.features[kept], data.target[kept], groups=data.groups, cluster=cluster)
    return data, tested
