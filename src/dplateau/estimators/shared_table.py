"""The rows of a model of a table on several processes, each of which has a file of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from dplateau.data import Schema
from dplateau.data.schema_digest import schema_digest
from dplateau.estimators.table_parts import check_lots
from dplateau.estimators.table_rows import read_rows, stream_of
from dplateau.spec import InputError
from dplateau.training import Cluster
from dplateau.training.cluster import agree_on_code
from dplateau.training.shared import check_ledger


def shared_rows(
    path: Any,
    schema: Schema,
    cluster: Cluster,
    *,
    model: str,
    stream: bool,
    n: int | None,
    person: str | None,
    private_test: float | None,
    ledger: object,
) -> tuple[Any, int]:
    """The own rows, read or as a stream, and the number of the records of all, which is ``n`` where that is given.

    Raises ``InputError`` in every process unless all were asked for the same; ``ledger`` is process 0's.
    """
    agree_on_code(cluster)
    check_ledger(cluster, ledger)
    facts = {"schema": schema_digest(schema), "model": model, "number of rows": str(n)}
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
    return data, total
