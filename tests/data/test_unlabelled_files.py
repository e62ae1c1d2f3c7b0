"""Files as people have them, without the column that is predicted: they say what the same rows say as plain CSV."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dplateau.data import Category, Csv, Date, Number, Schema, Target
from dplateau.estimators.table_model import TableModel

DAYS = [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(400)]
WEIGHTS = [f"{(i * 37 % 100) / 10:.1f}" for i in range(400)]
KINDS = ["ab"[i % 2] for i in range(400)]


def schema(**csv: Any) -> Schema:
    columns = (
        Number("weight", 0.0, 10.0),
        Date("day", "2024-01-01", "2024-12-31"),
        Category("kind", ("a", "b")),
        Target("y", classes=("no", "yes")),
    )
    return Schema(columns=columns, csv=Csv(**csv))


def rows(delimiter: str = ",", comma: bool = False) -> str:
    lines = [delimiter.join(("weight", "day", "kind"))]
    for weight, *rest in zip(WEIGHTS, DAYS, KINDS, strict=True):
        lines.append(delimiter.join((weight.replace(".", ",") if comma else weight, *rest)))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    path = tmp_path_factory.mktemp("train") / "train.csv"
    labels = ["yes" if float(weight) > 5 else "no" for weight in WEIGHTS]
    head, *body = rows().splitlines()
    path.write_text("\n".join([f"{head},y", *(f"{line},{label}" for line, label in zip(body, labels, strict=True))]) + "\n")
    return TableModel.train(path, schema(), epsilon=8.0, max_iter=20)


@pytest.mark.parametrize("kind", ["csv.gz", "utf-16", "jsonl", "jsonl.gz", "decimal comma"])
def test_predictions_are_those_of_the_plain_file(model: TableModel, tmp_path: Path, kind: str) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text(rows())
    objects = "".join(
        json.dumps({"weight": float(w), "day": d, "kind": k}) + "\n" for w, d, k in zip(WEIGHTS, DAYS, KINDS, strict=True)
    )
    content, ending, reads = {
        "csv.gz": (gzip.compress(rows().encode()), "csv.gz", schema()),
        "utf-16": (rows().encode("utf-16"), "csv", schema()),
        "jsonl": (objects.encode(), "jsonl", schema()),
        "jsonl.gz": (gzip.compress(objects.encode()), "jsonl.gz", schema()),
        "decimal comma": (rows(";", comma=True).encode(), "csv", schema(delimiter=";", decimal=",")),
    }[kind]
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(content)
    other = TableModel(model.model, model.estimator, reads)
    expected = model.predict_proba(plain)
    assert expected.shape == (400, 2)
    assert np.array_equal(other.predict_proba(path), expected)
