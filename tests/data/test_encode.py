import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.data import Category, Number, Schema, Target, Vector, encode, feature_names, load_dataset
from dplateau.data.columns import codes
from dplateau.spec import InputError

AGE = Number("age", 0, 100)
GAIN = Number("gain", 0, 9, transform="log", bins=(1, 5))
SEX = Category("sex", ("f", "m"))
PIXELS = Vector("x", 2, -4, 2)
INCOME = Target("income", ("low", "high"), aliases={"LOW": "low"})
SCHEMA = Schema(columns=(AGE, GAIN, SEX, PIXELS, INCOME))


def table(**changes):
    rows = {"age": [25.0], "gain": [0.0], "sex": ["f"], "x": [[1.0, -2.0]], "income": ["low"]}
    return pa.table({**rows, **changes})


def raw(schema, data, **options):
    """The encoding before scaling: "scale" divides by a public bound, which this undoes."""
    bound = math.sqrt(sum({"age": 1, "gain": 2, "sex": 1, "x": 2, "c": 1}[c.name] for c in schema.features))
    return encode(data, schema, rows="scale", feature_norm=bound, intercept=0, dtype=np.float64, **options).features


def test_layout_of_every_kind_of_column():
    data = table(age=[25.0] * 2, gain=[0.0, 9.0], sex=["f", "m"], x=[[1.0, -2.0]] * 2, income=["low"] * 2)
    np.testing.assert_allclose(
        raw(SCHEMA, data),
        [[-0.5, 0, -1, 1, 0, 0, 0, 1, 0, 0, 0.25, -0.5], [-0.5, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0.25, -0.5]],
        rtol=1e-12,
    )
    assert feature_names(SCHEMA, intercept=0)[:6] == (
        "age",
        "age unknown",
        "gain",
        "gain from 0 to 1",
        "gain from 1 to 5",
        "gain from 5 to 9",
    )
    assert feature_names(SCHEMA)[6:] == ("gain unknown", "sex = f", "sex = m", "sex unknown", "x[1]", "x[2]", "intercept")


def test_out_of_range_is_clipped_and_missing_or_undeclared_is_unknown():
    n = 4
    data = table(
        age=["-7", "1e9", " +50 ", "NA"],
        gain=[-5.0, 1e9, None, np.nan],
        sex=["x", "", None, " m "],
        x=[[-9.0, 9.0]] * n,
        income=["low"] * n,
    )
    found = raw(SCHEMA, data)
    np.testing.assert_allclose(found[:, :2], [[-1, 0], [1, 0], [0, 0], [0, 1]])
    np.testing.assert_allclose(found[:, 2:7], [[-1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]])
    np.testing.assert_allclose(found[:, 7:10], [[0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(found[:, 10:], [[-1, 0.5]] * n)


def test_a_bin_holds_its_lower_edge():
    data = table(age=[0.0] * 3, gain=[0.999, 1.0, 5.0], sex=["f"] * 3, x=[[0.0, 0.0]] * 3, income=["low"] * 3)
    assert raw(SCHEMA, data)[:, 3:6].argmax(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()])
def test_whole_numbers_are_declared_values_to_the_last_digit(kind) -> None:
    declared = ("0", "1.0", "2e2", "9007199254740993", "9007199254740992", "9223372036854775808", "-1", "0.5", "nan", "1e300", "x")
    for text, number in (("0", 0), ("1.0", 1), ("2e2", 200), ("-1", -1), *((text, int(text)) for text in declared[3:6])):
        try:
            values = pa.chunked_array([pa.array([number, None], kind)])
        except (pa.ArrowInvalid, OverflowError):
            continue  # not a number of this type
        assert codes(values, Category("c", declared)).tolist() == [declared.index(text), -1]
    assert codes(pa.chunked_array([pa.array([7], kind)]), Category("c", declared)).tolist() == [-1]


@pytest.mark.parametrize("values", [pa.array([0, 1, 7, None]), pa.array([0.0, 1.0, np.nan, 7.0]), pa.array(["0", "1", "1.0", ""])])
def test_numeric_columns_are_compared_as_numbers_and_text_as_text(values):
    schema = Schema(columns=(Category("c", ("0", "1")), Target("y", ("0", "1"))))
    data = pa.table({"c": values, "y": [True, False, True, False]}).set_column(1, "y", pa.array([0, 1, 1, 0]))
    assert raw(schema, data).argmax(axis=1).tolist() == [0, 1, 2, 2]
    assert encode(data, schema).target.tolist() == [0, 1, 1, 0]


def test_types_of_text_and_truth():
    schema = Schema(columns=(Category("c", ("true", "false")), Target("y", ("a", "b"))))
    data = pa.table({"c": [True, False], "y": pa.array(["a", "b"]).dictionary_encode()})
    assert raw(schema, data)[:, :2].tolist() == [[1, 0], [0, 1]]


def test_truth_values_that_no_declared_one_spells_are_refused():
    """Every row would be unknown, unnoticed: as they stand in a CSV file that pandas wrote they are no truth values of Arrow."""
    data = pa.table({"c": [True, False], "y": ["a", "b"]})
    for values in (("True", "False"), ("yes", "no"), ("1", "0")):
        with pytest.raises(InputError, match="so that every row would be unknown"):
            encode(data, Schema(columns=(Category("c", values), Target("y", ("a", "b")))))
        spelt = Category("c", values, aliases=dict(zip(("true", "false"), values, strict=True)))
        assert raw(Schema(columns=(spelt, Target("y", ("a", "b")))), data)[:, :2].tolist() == [[1, 0], [0, 1]]


def test_classes_are_indexed_in_declared_order_and_aliases_count():
    data = table(age=[1.0] * 3, gain=[1.0] * 3, sex=["f"] * 3, x=[[0.0, 0.0]] * 3, income=["high", "LOW", "low"])
    found = encode(data, SCHEMA)
    assert found.target.tolist() == [1, 0, 0]
    assert found.target.dtype == np.int64
    assert found.classes == ("low", "high")


def test_a_regression_target_is_clipped_to_its_range():
    schema = Schema(columns=(SEX, Target("wage", low=0, high=50)))
    found = encode(pa.table({"sex": ["f", "m", "f"], "wage": [-3.0, 20.5, 700.0]}), schema)
    assert found.target.tolist() == [0, 20.5, 50]
    assert (found.classes, found.target_range) == (None, (0, 50))


def test_unit_rows_for_classes_and_a_public_scale_for_regression():
    data = pa.table({"age": [0.0, 40.0], "y": [0, 1]})
    columns = (Number("age", 0, 100, unknown=False),)
    unit = encode(data, Schema(columns=(*columns, Target("y", ("0", "1")))), feature_norm=3)
    scale = encode(data, Schema(columns=(*columns, Target("y", low=0, high=1))), feature_norm=3)
    np.testing.assert_allclose(np.linalg.norm(unit.features, axis=1), 3, rtol=1e-6)
    np.testing.assert_allclose(scale.features, np.array([[-1, 1], [-0.2, 1]]) * 3 / math.sqrt(2), rtol=1e-6)


number = st.one_of(st.none(), st.floats(allow_infinity=False, allow_nan=False))
rows_of_people = st.lists(
    st.tuples(
        number,
        number,
        st.sampled_from(["f", "m", "x", None]),
        st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)),
        st.sampled_from(["low", "high"]),
    ),
    min_size=1,
    max_size=8,
)


def people(rows):
    age, gain, sex, x, income = zip(*rows, strict=True)
    return pa.table(
        {
            "age": pa.array(age, pa.float64()),
            "gain": pa.array(gain, pa.float64()),
            "sex": pa.array(sex, pa.string()),
            "x": pa.array([list(pair) for pair in x]),
            "income": income,
        }
    )


@settings(derandomize=True, deadline=None)
@given(rows_of_people, st.sampled_from(["unit", "scale"]), st.sampled_from([np.float32, np.float64]), st.sampled_from([0, 1, 0.3]))
def test_a_row_never_depends_on_other_rows(rows, mode, dtype, intercept):
    options = {"rows": mode, "dtype": dtype, "intercept": intercept}
    whole = encode(people(rows), SCHEMA, **options)
    for i, row in enumerate(rows):
        alone = encode(people([row]), SCHEMA, **options)
        assert (alone.features[0] == whole.features[i]).all()
        assert alone.target[0] == whole.target[i]


@settings(derandomize=True, deadline=None)
@given(rows_of_people, st.sampled_from(["unit", "scale"]), st.sampled_from([np.float32, np.float64]), st.floats(1e-3, 1e3))
def test_norms_are_bounded_as_stored(rows, mode, dtype, norm):
    found = encode(people(rows), SCHEMA, rows=mode, dtype=dtype, feature_norm=norm)
    assert found.features.dtype == dtype
    lengths = np.linalg.norm(found.features.astype(np.float64), axis=1)
    assert (lengths <= norm).all()
    assert found.feature_norm == norm
    if mode == "unit":
        assert (lengths >= norm * (1 - 1e-6)).all()


def test_the_public_bound_is_met_by_the_longest_row():
    data = table(age=[100.0], gain=[9.0], x=[[-4.0, -4.0]])
    found = encode(data, SCHEMA, rows="scale", intercept=0.5).features
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_a_declared_vector_norm_is_enforced():
    schema = Schema(columns=(Vector("x", 100, 0, 10, norm=20), Target("y", ("0", "1"))))
    data = pa.table({"x": [[10.0] * 100, [10.0, 10.0] + [0.0] * 98], "y": [0, 1]})
    found = encode(data, schema, rows="scale", intercept=0).features
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, math.sqrt(2) / 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"age": ["secret"]}, "'age' holds something that is not a number"),
        ({"age": [math.inf]}, "'age' is infinite in 1 rows"),
        ({"age": ["inf"]}, "'age' is infinite in 1 rows"),
        ({"sex": [[1]]}, "'sex' has type"),
        ({"x": ["secret"]}, "'x' has type string: expected lists of 2"),
        ({"x": [[1.0]]}, "lists of another length"),
        ({"x": [[1.0, math.nan]]}, "NaN, infinite or missing in 1 rows"),
        ({"x": [[1.0, None]]}, "NaN, infinite or missing in 1 rows"),
        ({"x": pa.array([None], pa.list_(pa.float64()))}, "missing in 1 rows"),
        ({"income": ["secret"]}, "none of the 2 declared classes in 1 of 1 rows"),
        ({"income": [None]}, "none of the 2 declared classes in 1 of 1 rows"),
        ({"income": [True]}, 'in 1 of 1 rows.* truth values are "true" and "false"'),
        ({"income": [""]}, "none of the 2 declared classes in 1 of 1 rows"),
    ],
)
def test_what_the_schema_does_not_allow_is_an_error_that_quotes_no_row(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        encode(table(**changes), SCHEMA)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lists", [[[1.0], [2.0, 3.0, 4.0]], [[], [1.0, 2.0, 3.0, 4.0]], [[1.0, 2.0, 3.0], [4.0]]])
def test_lists_that_have_the_right_length_together_only(lists):
    """Cut into rows, numbers of one would be another's."""
    with pytest.raises(InputError, match="lists of another length"):
        encode(table(x=lists, age=[1.0] * 2, gain=[0.0] * 2, sex=["f"] * 2, income=["low"] * 2), SCHEMA)


def test_unknown_can_be_refused():
    schema = Schema(columns=(Category("sex", ("f", "m"), unknown=False), Number("age", 0, 9, unknown=False), INCOME))
    rows = {"age": [1.0, 2.0], "sex": ["f", "m"], "income": ["low", "low"]}
    assert encode(pa.table(rows), schema).features.shape == (2, 4)
    for changes in ({"sex": ["x", "m"]}, {"age": [None, 1.0]}):
        with pytest.raises(InputError, match="in 1 rows, and the schema says unknown = false"):
            encode(pa.table({**rows, **changes}), schema)


def test_nan_is_an_error_unless_the_schema_calls_it_missing():
    schema = Schema(columns=(AGE, INCOME), missing=())
    with pytest.raises(InputError, match="'age' is NaN in 1 rows"):
        encode(pa.table({"age": [math.nan], "income": ["low"]}), schema)


def test_regression_targets_may_not_be_missing():
    schema = Schema(columns=(AGE, Target("wage", low=0, high=50)))
    with pytest.raises(InputError, match="missing in 1 rows"):
        encode(pa.table({"age": [1.0, 2.0], "wage": [None, 1.0]}), schema)


def test_the_digits_of_a_decimal_do_not_change_other_rows():
    columns = (
        Category("c", ("0.07", "0.19")),
        Number("e", 0, 1, bins=(0.07, 0.19)),
        Vector("v", 1, 0, 3),
        Target("y", low=0, high=1),
    )
    schema = Schema(columns=columns)

    def encoded(last):  # Arrow gives the column the scale of the entry with the most digits
        rate = [Decimal("0.07"), Decimal("0.19"), Decimal(last)]
        found = load_dataset({"c": rate, "e": rate, "v": [[one] for one in rate], "y": rate}, schema)
        return found.features[:-1].tolist(), found.target[:-1].tolist()

    features, target = encoded("0.5")
    assert target == [0.07, 0.19]
    assert features[0][:3] == [pytest.approx(0.5, abs=0.1), 0, 0]
    for digits in (6, 7, 11, 12, 16, 19, 40):
        assert encoded("0." + "5" * digits) == (features, target)


@pytest.mark.parametrize("options", [{"feature_norm": 0}, {"rows": "clip"}, {"dtype": np.int64}, {"intercept": -1}])
def test_wrong_options(options):
    with pytest.raises(InputError, match="expected"):
        encode(table(), SCHEMA, **options)


def test_a_table_without_rows():
    with pytest.raises(InputError, match="no rows"):
        encode(table().slice(0, 0), SCHEMA)


def test_a_column_that_the_table_lacks():
    with pytest.raises(InputError, match="'sex'"):
        encode(table().drop_columns("sex"), SCHEMA)
