from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.data import (
    Category,
    Csv,
    Ignored,
    Number,
    Schema,
    Target,
    Vector,
    load_schema,
    schema_from_toml,
    schema_to_toml,
)
from dplateau.data.schema import MISSING
from dplateau.data.schema_digest import schema_digest
from dplateau.data.schema_file import FILL_IN
from dplateau.spec import InputError

AGE = Number("age", 0, 120)
SEX = Category("sex", ("f", "m"))
INCOME = Target("income", ("low", "high"))

text = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda t: t == t.strip() and t not in (*MISSING, FILL_IN)
)
finite = st.floats(-1e9, 1e9)


@st.composite
def numbers(draw, name):
    edges = sorted(draw(st.lists(finite, min_size=2, max_size=5, unique=True)))
    bins = tuple(edges[1:-1])
    transform = draw(st.sampled_from(["linear", "log", "none"] if bins else ["linear", "log"]))
    return Number(name, edges[0], edges[-1], transform, bins, draw(st.booleans()))


@st.composite
def schemas(draw):
    names = draw(st.lists(text, min_size=2, max_size=6, unique=True))
    values = st.lists(text, min_size=2, max_size=4, unique=True).map(tuple)
    kinds = [
        numbers(names[0]),
        st.builds(Category, st.just(names[0]), values, st.booleans()),
        st.builds(Vector, st.just(names[0]), st.integers(1, 9), st.floats(-9, -1), st.floats(0, 9), st.none() | st.floats(0.5, 9)),
    ]
    columns = [draw(st.one_of(kinds)), *(Ignored(name) for name in names[2:])]
    classes = draw(values)
    spellings = draw(st.lists(text.filter(lambda t: t not in classes), max_size=2, unique=True))
    classifier = Target(names[1], classes, aliases={s: draw(st.sampled_from(classes)) for s in spellings})
    columns.insert(draw(st.integers(0, len(columns))), draw(st.sampled_from([classifier, Target(names[1], low=-1.5, high=2)])))
    csv = Csv(draw(st.booleans()), draw(st.sampled_from(",;\t|")), draw(st.sampled_from(["", "#", "|"])))
    name = draw(st.text('ab\x7f\n\x9b\u202e\U000e0041"\\é'))
    return Schema(columns=tuple(columns), name=name, csv=csv, format=draw(st.sampled_from([None, "csv", "npz"])))


@settings(derandomize=True, deadline=None)
@given(schemas())
def test_toml_round_trip_is_exact(schema):
    written = schema_to_toml(schema)
    assert schema_from_toml(written) == schema
    assert written.replace("\n", "").isprintable()  # a terminal obeys nothing in it


def test_equal_schemas_have_equal_digests():
    minus, plus = (
        Schema(columns=(Number("x", zero - 1, 1, bins=(zero,)), Vector("v", 2, zero, 1), Target("y", low=zero, high=1)))
        for zero in (-0.0, 0.0)
    )
    assert schema_digest(minus) == schema_digest(plus) == schema_digest(schema_from_toml(schema_to_toml(minus)))


def test_builtin_schemas_round_trip():
    for name in ("adult", "a9a"):
        schema = load_schema(name)
        assert schema.name == name
        assert schema_from_toml(schema_to_toml(schema)) == schema
        assert load_schema(schema) is schema


def test_numbers_of_numpy_are_numbers_and_its_truth_values_are_not():
    assert Number("age", np.int64(0), np.float32(120), bins=np.array([18])) == Number("age", 0, 120, bins=(18,))
    assert repr(Vector("x", np.int64(2), 0, 1)) == repr(Vector("x", 2, 0, 1))
    assert Target("y", classes=np.arange(2)) == Target("y", ("0", "1"))
    for high in (np.True_, True, np.array([1]), 10**400, np.nan):
        with pytest.raises(InputError, match=r"column 'age': high is .*: expected a finite number"):
            Number("age", 0, high)


def test_a_schema_is_read_from_a_file(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text('[columns.age]\ntype = "number"\nlow = 0\nhigh = 120\n[columns.y]\ntype = "target"\nclasses = [0, true]\n')
    schema = load_schema(path)
    assert schema.features == (AGE,)
    assert schema.target == Target("y", ("0", "true"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Number("age", 5, 5), "low < high"),
        (lambda: Number("age", 0, 1e-310), "a width between 1e-300 and 1e\\+300"),
        (lambda: Number("age", -8e307, 8e307), "a width between 1e-300 and 1e\\+300"),
        (lambda: Number("age", 0, float("inf")), "finite"),
        (lambda: Number("age", 0, 10, bins=(3, 3)), "increase strictly"),
        (lambda: Number("age", 0, 10, bins=(10,)), "strictly between"),
        (lambda: Number("age", 0, 10, transform="none"), "leaves no feature"),
        (lambda: Number("age", 0, 10, transform="sqrt"), "expected one of linear, log, none"),
        (lambda: Number(" ", 0, 10), "not empty"),
        (lambda: Category("sex", ()), "values is empty"),
        (lambda: Category("sex", ("f", "f")), "more than once"),
        (lambda: Category("sex", "fm"), "expected a list"),
        (lambda: Vector("x", 0, 0, 1), "size is 0"),
        (lambda: Vector("x", 3, 0, 1, norm=0), "norm is 0"),
        (lambda: Target("y", ("a",)), "only one class"),
        (lambda: Target("y"), "either classes"),
        (lambda: Target("y", ("a", "b"), low=0, high=1), "either classes"),
        (lambda: Target("y", ("a", "b"), aliases={"A": "c"}), "no declared classes"),
        (lambda: Target("y", ("a", "b"), aliases={"b": "a"}), "one class only"),
        (lambda: Csv(delimiter=", "), "one ASCII character"),
        (lambda: Csv(delimiter="\0"), "one ASCII character"),
        (lambda: Schema(columns=(AGE,)), "declares 0 targets"),
        (lambda: Schema(columns=(AGE, INCOME, Target("z", ("a", "b")))), "declares 2 targets"),
        (lambda: Schema(columns=(INCOME, Ignored("age"))), "no feature"),
        (lambda: Schema(columns=(AGE, AGE, INCOME)), "more than once"),
        (lambda: Schema(columns=(AGE, INCOME), format="xlsx"), "expected one of csv"),
        (lambda: Schema(columns=(AGE, INCOME), name=None), "name contains None: expected texts"),
        (lambda: Schema(columns=(AGE, INCOME), about=date(2024, 5, 1)), "about contains datetime.date.* expected texts"),
        (lambda: Schema(columns=(Category("c", ("NA", "x")), INCOME)), "mean missing too"),
        (lambda: Schema(columns=(Category("c", (" a", "b")), INCOME)), "spaces around it"),
    ],
)
def test_invalid_declarations_teach(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("columns = ", "not TOML"),
        ("", "no columns"),
        ("[columns.age]\nlow = 1\nhigh = 2\n", "type is missing"),
        ('[columns.age]\ntype = ["number"]\nlow = 1\nhigh = 2\n', "type is missing or unknown"),
        ('[columns.c]\ntype = "category"\nvalues = ["a"]\naliases = 5\n', "'c': aliases is 5: expected a list"),
        ('[columns.c]\ntype = "category"\nvalues = ["b"]\naliases = ["ab"]\n', "'c': aliases is .* expected a table like"),
        ('[columns.c]\ntype = "target"\nclasses = ["a", "b"]\naliases = [["x"]]\n', "'c': aliases is .* expected a table like"),
        ('[columns.age]\ntype = "number"\nlow = 1\n', r"lacks \['high'\]"),
        ('[columns.age]\ntype = "number"\nlow = 1\nhigh = 2\nmax = 3\n', r"unknown keys \['max'\]"),
        ('separator = ","\n[columns.a]\ntype = "ignored"\n', r"unknown keys \['separator'\]"),
        ('[csv]\nquote = "x"\n[columns.a]\ntype = "ignored"\n', r"\[csv\] has the unknown keys"),
        ('[columns.age]\ntype = "number"\nlow = "FILL IN"\nhigh = 9\n', "still say"),
    ],
)
def test_invalid_toml_teaches(toml, message):
    with pytest.raises(InputError, match=message) as caught:
        schema_from_toml(toml, where="here.toml")
    assert str(caught.value).startswith("here.toml: ")


def test_a_missing_schema_names_the_ready_ones(tmp_path):
    with pytest.raises(InputError, match="one of adult, a9a"):
        load_schema(tmp_path / "none.toml")


NUMBERED = (
    '[columns."p_*"]\nnumbers = {}\ntype = "number"\nlow = 0\nhigh = 16\n[columns.y]\ntype = "target"\nclasses = ["0", "1"]\n'
)


def test_a_table_for_numbered_columns_is_those_columns():
    columns = (*(Number(f"p_{i}", 0, 16) for i in range(9, 12)), Target("y", ("0", "1")))
    schema = schema_from_toml(NUMBERED.format("[9, 11]"))
    assert schema == Schema(columns=columns)
    assert schema_digest(schema) == schema_digest(Schema(columns=columns))
    assert schema_from_toml(schema_to_toml(schema)) == schema
    assert [column.name for column in schema_from_toml(NUMBERED.format('["09", "11"]')).features] == ["p_09", "p_10", "p_11"]


def test_a_star_without_numbers_is_a_name():
    """As it was before tables could describe several columns."""
    assert schema_from_toml(NUMBERED.replace("numbers = {}\n", "")).features == (Number("p_*", 0, 16),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NUMBERED.format("[2, 1]"), "the first not above the last"),
        (NUMBERED.format("[1]"), "expected two whole numbers"),
        (NUMBERED.format("[1.5, 2]"), "expected two whole numbers"),
        (NUMBERED.format("[-1, 2]"), "expected two whole numbers"),
        (NUMBERED.format("true"), "expected two whole numbers"),
        (NUMBERED.format('["01", 2]'), "as \\[1, 64\\]"),
        (NUMBERED.format('["01", "002"]'), "as \\[1, 64\\]"),
        (NUMBERED.format("[1, 100000]"), "stands for 100,000 columns: expected at most 10,000"),
        (NUMBERED.format("[1, 2]").replace("p_*", "p"), "expected one \\* in its name"),
        (NUMBERED.format("[1, 2]").replace("p_*", "p*_*"), "expected one \\* in its name"),
        (NUMBERED.format("[1, 2]") + "[columns.p_2]\ntype = 'ignored'\n", "declares \\['p_2'\\] more than once"),
    ],
)
def test_wrong_numbers(text, message):
    with pytest.raises(InputError, match=message):
        schema_from_toml(text)
