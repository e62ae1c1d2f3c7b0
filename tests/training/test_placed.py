"""Plain numbers that the compiled loop encodes give what rows encoded before it give, to the last bit."""

import jax
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import dplateau as dp
from dplateau.data import Number, Schema, Target, csv_records, encode, open_stream
from dplateau.data.encode import columns_of
from dplateau.data.plain import placing_of
from dplateau.losses import Logistic
from dplateau.spec import InputError
from dplateau.spec.columns import Columns
from dplateau.training import SecureGenerator, train_one_pass
from dplateau.training.integers import BLOCK
from dplateau.training.placed import placed, ranges_of
from dplateau.training.records import Records


def schema_of(widths, rng):
    """Columns of any ranges, each of one feature or of two, the second of which is always zero."""
    ends = np.sort(rng.uniform(-3, 3, (len(widths), 2)), axis=1)
    numbers = (
        Number(f"x{i}", *map(float, pair), unknown=width == 2) for i, (pair, width) in enumerate(zip(ends, widths, strict=True))
    )
    return Schema(columns=(*numbers, Target("y", ("0", "1"))))


def table_of(schema, n, rng, kinds=(np.float32,)):
    columns = {one.name: (2 * rng.standard_normal(n)).astype(kinds[i % len(kinds)]) for i, one in enumerate(schema.features)}
    return pa.table({**columns, "y": rng.integers(0, 2, n)})


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 2), min_size=1, max_size=400), st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([1.0, 7.3]))
def test_every_row_is_the_row_that_encode_makes(widths, intercept, norm):
    rng = np.random.default_rng(len(widths))
    schema = schema_of(widths, rng)
    table = table_of(schema, 37, rng, (np.float32, np.float64) if len(widths) % 2 else (np.float32,))
    placing = placing_of(schema, norm, intercept)
    found = columns_of(table, schema, placing, norm)
    expected = encode(table, schema, feature_norm=norm, intercept=intercept)
    columns, target = found
    assert np.array_equal(target, expected.target)
    assert np.array_equal(columns.rows(), expected.features)
    assert np.array_equal(columns[3:9].rows(), expected.features[3:9])
    ranges, layout = ranges_of(placing)
    with jax.enable_x64(True):
        made = np.asarray(jax.jit(placed, static_argnums=2)(np.stack(columns.values), ranges, layout))
    rows = np.zeros_like(expected.features)
    rows[:, list(layout.places)] = made.T
    assert np.array_equal(rows, expected.features)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"transform": "log"}, "log"), ({"bins": (0.5,)}, "bins"), ({"low": 0.0, "high": 1e-20}, "tiny"), ({"high": 1e20}, "huge")],
)
def test_what_is_not_plain_is_left_to_encode(changes, message):
    columns = (Number("a", **{"low": 0.0, "high": 1.0, **changes}), Target("y", ("0", "1")))
    assert placing_of(Schema(columns=columns), 1.0, 1.0) is None, message


def test_a_table_in_chunks_loses_no_row():
    rng = np.random.default_rng(0)
    schema = schema_of((1, 2), rng)
    table = table_of(schema, 30, rng)
    found = columns_of(pa.concat_tables([table.slice(0, 10), table.slice(10)]), schema, placing_of(schema, 1.0, 1.0), 1.0)
    assert found is None or np.array_equal(found[0].rows(), encode(table, schema).features)


def weights(stream, **options):
    chosen = {"epsilon": 1.0, "delta": 1e-6, "classes": list(range(len(stream.classes))), "fit_intercept": False, **options}
    return dp.PrivateLogisticRegression(insecure_seed=3, **chosen).fit_stream(stream).coef_


def unplaced_kinds(stream):
    return {type(features) for features, _ in stream.unplaced()}


@pytest.mark.parametrize("classes", [("0", "1"), ("0", "1", "2")])
@pytest.mark.parametrize("widths", [(1,) * 9, (2, 1, 2)])
def test_a_fit_is_that_on_encoded_rows(tmp_path, classes, widths):
    rng = np.random.default_rng(0)
    schema = schema_of(widths, rng)
    schema = Schema(columns=(*schema.features, Target("y", classes)))
    table = table_of(schema, 3000, rng)
    table = table.set_column(len(widths), "y", pa.array(rng.integers(0, len(classes), 3000)))
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    stream = open_stream(tmp_path / "t.parquet", schema, block_bytes=4096)
    assert unplaced_kinds(stream) == {Columns}
    rows = encode(table, schema)
    options = {"epsilon": 1.0, "delta": 1e-6, "classes": list(range(len(classes))), "fit_intercept": False, "solver": "pnsgd"}
    expected = dp.PrivateLogisticRegression(insecure_seed=3, **options).fit(rows.features, rows.target).coef_
    assert np.array_equal(weights(stream), expected)


class Quiet(SecureGenerator):
    """No noise."""

    def normal(self, shape):
        return np.zeros(shape)


@pytest.mark.parametrize("batch", [50, 51, 64])
@pytest.mark.parametrize("ends", [[(0, 10)], [(0, 10), (0, 100)], [(-1, 1), (0, 100), (0.1, 0.7)]], ids=len)
def test_the_middle_of_a_range_is_zero_at_every_place_of_a_batch(tmp_path, ends, batch):
    """A product that is rounded together with the sum it feeds makes 1e-17 of it, which a row of unit norm multiplies by 1e17.

    Without a constant, and at the last places of a batch, compilers made other rows of the same numbers.
    """
    rng, n = np.random.default_rng(0), 20 * batch
    schema = Schema(columns=(*(Number(f"x{i}", *pair, unknown=False) for i, pair in enumerate(ends)), Target("y", ("0", "1"))))
    middle = rng.random((n, len(ends))) < 0.7
    rows = np.where(middle, np.mean(ends, axis=1), rng.uniform(-5, 105, (n, len(ends))))
    rows[: 3 * batch] = np.mean(ends, axis=1)
    table = pa.table({**{f"x{i}": column for i, column in enumerate(rows.T)}, "y": rng.integers(0, 2, n)})
    parquet.write_table(table, tmp_path / "t.parquet")
    stream = open_stream(tmp_path / "t.parquet", schema, intercept=0.0)
    assert unplaced_kinds(stream) == {Columns}
    run = dp.Run(n=n, sampling=dp.OnePass(batch), steps=20, noise_multiplier=5.0, step_size=1.0, clip_norm=9.0)
    fast, slow = (
        train_one_pass(run, Logistic(), read(), generator=Quiet(), keep_iterates=True).iterates
        for read in (stream.unplaced, stream.blocks)
    )
    assert abs(slow[-1]).max() > 1e-3
    assert not slow[:4].any() or len(ends) > 2  # the middle of 0.1 and 0.7 is no double
    assert np.array_equal(fast, slow)


def test_a_block_is_not_written_over_while_the_loop_reads_it(tmp_path):
    """The loop is at work on one block while the next is read; the one after that has the memory of the first."""
    rng = np.random.default_rng(0)
    schema = schema_of((1, 1), rng)
    parquet.write_table(table_of(schema, 600, rng), tmp_path / "t.parquet")
    run = dp.Run(n=600, sampling=dp.OnePass(100), steps=6, noise_multiplier=1.0, step_size=1.0)
    records = Records(open_stream(tmp_path / "t.parquet", schema).unplaced(), run, Logistic())
    records._wait_for(600)
    one, two, three = (records._columns(count, 200).features for count in (100, 200, 150))
    assert not np.shares_memory(one, two)
    assert np.shares_memory(one, three)
    records.close()


@pytest.mark.parametrize("read", ["unplaced", "blocks"])
@pytest.mark.parametrize("place", [0, BLOCK + 5, 2 * BLOCK + 99, 6 * BLOCK + 299])
def test_the_smoothness_that_a_run_states_is_held_against_every_row(tmp_path, place, read):
    """One row is longer than zero, in any part of a batch that is added up in several."""
    batch, schema = 2 * BLOCK + 100, Schema(columns=(Number("x", -1, 1, unknown=False), Target("y", ("0", "1"))))
    table = pa.table({"x": (np.arange(3 * batch) == place).astype(np.float32), "y": np.zeros(3 * batch, int)})
    parquet.write_table(table, tmp_path / "t.parquet")
    stream = open_stream(tmp_path / "t.parquet", schema, intercept=0.0)
    assert unplaced_kinds(stream) == {Columns}
    run = dp.Run(n=3 * batch, sampling=dp.OnePass(batch), steps=3, noise_multiplier=5.0, step_size=1.0, smoothness=0.2500001)
    train_one_pass(run, Logistic(), getattr(stream, read)())
    with pytest.raises(InputError, match="some row is too long for the run's smoothness"):
        train_one_pass(run.replace(smoothness=0.2), Logistic(), getattr(stream, read)())


def test_pieces_of_which_some_are_not_plain(tmp_path):
    """A missing value anywhere, and the weights are still those of all rows encoded alike."""
    rng = np.random.default_rng(1)
    schema = schema_of((2, 2, 1), rng)
    table = table_of(schema, 4000, rng)
    mask = np.zeros(4000, bool)
    mask[[1500, 1501, 3999]] = True
    table = table.set_column(0, "x0", pa.array(table["x0"].to_numpy(), mask=mask))
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=500)
    stream = open_stream(tmp_path / "t.parquet", schema, block_bytes=4800)
    assert unplaced_kinds(stream) == {Columns, np.ndarray}
    rows = encode(table, schema)
    options = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1], "fit_intercept": False, "solver": "pnsgd"}
    expected = dp.PrivateLogisticRegression(insecure_seed=3, **options).fit(rows.features, rows.target).coef_
    assert np.array_equal(weights(stream), expected)


@pytest.mark.parametrize(
    "options", [{"feature_norm": 0.5}, {"rows": "unit"}, {"fit_intercept": True}, {"solver": "noisy-sgd", "max_iter": 3}]
)
def test_rows_that_an_estimator_changes_are_encoded_before(tmp_path, options, monkeypatch):
    rng = np.random.default_rng(2)
    schema = schema_of((1, 1), rng)
    parquet.write_table(table_of(schema, 500, rng), tmp_path / "t.parquet")
    stream = open_stream(tmp_path / "t.parquet", schema)
    monkeypatch.setattr(type(stream), "unplaced", lambda self: pytest.fail("columns were read"))
    assert weights(stream, **options).shape == (1, 3)


@pytest.mark.parametrize(
    ("bad", "what"), [(np.nan, "is NaN"), (np.inf, "is infinite"), (-np.inf, "is infinite"), (None, "is missing")]
)
def test_what_is_no_number_ends_a_fit_and_is_named(tmp_path, bad, what):
    rng = np.random.default_rng(3)
    schema = Schema(columns=schema_of((1, 1), rng).columns, missing=())
    table = table_of(schema, 1000, rng)
    column = table["x1"].to_pylist()
    column[777] = bad
    parquet.write_table(table.set_column(1, "x1", pa.array(column, pa.float32())), tmp_path / "t.parquet")
    stream = open_stream(tmp_path / "t.parquet", schema, block_bytes=1200)
    with pytest.raises(InputError, match=rf"t\.parquet, rows 669 to 1000: column 'x1' {what}.* in 1 rows"):
        weights(stream)


CELLS = [
    "1",
    "2.5",
    " 3",
    "+4",
    "-1e-3",
    "0.1",
    "1e400",
    "nan",
    "NA",
    "",
    "x",
    "inf",
    '"5"',
    "1e-310",
    "12345678901234567890",
    "0x10",
]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(CELLS), st.sampled_from(["0", "1"])), min_size=1, max_size=30), st.booleans())
def test_numbers_of_a_csv_file_are_those_of_its_texts(tmp_path_factory, lines, unknown):
    """Whether a piece is parsed as numbers or as texts, and however pieces of both kinds follow one another."""
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("x,y\n" + "".join(f"{cell},{label}\n" for cell, label in lines))
    schema = Schema(columns=(Number("x", -1, 7, unknown=unknown), Target("y", ("0", "1"))))

    def rows(read):
        try:
            return np.concatenate([features.rows() if isinstance(features, Columns) else features for features, _ in read()])
        except InputError as error:
            return str(error)

    texts = encode_as_texts(path, schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "BLOCK", 40)
        stream = open_stream(path, schema, n=len(lines), block_bytes=60)
        for read in (stream.blocks, stream.unplaced):
            found = rows(read)
            if isinstance(texts, str):
                assert isinstance(found, str)
            else:
                assert np.array_equal(found, texts)


def encode_as_texts(path, schema):
    from dplateau.data import read_table

    try:
        return encode(read_table(path, schema), schema).features
    except InputError as error:
        return str(error)
