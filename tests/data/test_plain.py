"""Plain floats are encoded on a faster way, which must give what the general way gives, to the last bit."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.data import Number, Schema, Target, Vector, encode, plain

RANGES = [(-1.0, 1.0), (0.0, 1.0), (-3.7, 0.1), (1e-3, 1e5), (-1e20, 1e-20)]


def general(monkeypatch, table, schema, **options):
    """The encoding without the faster way."""
    with monkeypatch.context() as patch:
        patch.setattr(plain, "floats", lambda _: None)
        return encode(table, schema, **options).features


def values(kind, n, seed):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)).astype(kind)


def same(monkeypatch, table, schema):
    for options in ({"rows": "unit"}, {"rows": "scale", "feature_norm": 0.3}, {"dtype": np.float64, "intercept": 0}):
        found = encode(table, schema, **options).features
        assert found.tobytes() == general(monkeypatch, table, schema, **options).tobytes()
        assert found.flags.c_contiguous


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("unknown", [(False,), (True,), (True, False)])
@pytest.mark.parametrize("stretch", [1, 7, 1000])
def test_numbers(monkeypatch, kind, unknown, stretch):
    monkeypatch.setattr(plain, "STRETCH", stretch)
    columns = [Number(f"x{i}", *pair, unknown=unknown[i % len(unknown)]) for i, pair in enumerate(RANGES)]
    data = {f"x{i}": values(kind, 40, i) for i in range(len(RANGES))}
    table = pa.table({**data, "y": np.arange(40) % 2})
    same(monkeypatch, table, Schema(columns=(*columns, Target("y", ("0", "1")))))
    pieces = pa.concat_tables([table.slice(0, 13), table.slice(13)])
    same(monkeypatch, pieces, Schema(columns=(*columns, Target("y", ("0", "1")))))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("pair", RANGES)
@pytest.mark.parametrize("norm", [None, 0.5])
def test_vectors(monkeypatch, kind, pair, norm):
    array = values(kind, 40 * 9, 0)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(array), 9)
    table = pa.table({"x": lists, "y": np.arange(40) % 2})
    same(monkeypatch, table, Schema(columns=(Vector("x", 9, *pair, norm=norm), Target("y", ("0", "1")))))
    same(monkeypatch, table.slice(11, 20), Schema(columns=(Vector("x", 9, *pair, norm=norm), Target("y", ("0", "1")))))


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(width=32, allow_infinity=False), min_size=1, max_size=20))
def test_what_is_not_finite_is_left_to_the_general_way(numbers):
    schema = Schema(columns=(Number("a", -1, 1), Number("b", 0, 9), Target("y", ("0", "1"))), missing=("nan",))
    column = pa.array(numbers, pa.float32())
    table = pa.table({"a": np.zeros(len(numbers), np.float32), "b": column, "y": np.zeros(len(numbers), int)})
    features = encode(table, schema, rows="scale", feature_norm=3**0.5).features
    missing = np.isnan(numbers)
    np.testing.assert_allclose(features[:, 3], missing, rtol=1e-6)
    place = np.clip(np.nan_to_num(np.array(numbers)), 0, 9) / 4.5 - 1
    np.testing.assert_allclose(features[:, 2], np.where(missing, 0, place), atol=1e-6)
