"""A column of Python's objects: none of them changes how the others are read."""

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dplateau.data import Category, Number, Schema, Target, Vector, load_dataset
from dplateau.spec import InputError

CATEGORY = Category("x", ("true", "false", "1", "0.5"))
NUMBER = Number("x", 0, 1)
VECTOR = Vector("x", 2, 0, 1)
LARGE = np.uint64(2**63)


def in_pandas(entries):
    return pd.Series(entries, dtype=object)


def in_numpy(entries):
    array = np.empty(len(entries), object)
    array[:] = entries
    return array


MADE = [list, tuple, in_pandas, in_numpy]


def encoded(entries, column):
    schema = Schema(columns=(column, Target("y", ("a", "b"))))
    return load_dataset({"x": entries, "y": ["a"] * len(entries)}, schema).features


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    ("other", "entry"),
    [
        *((number, truth) for number in (0.5, -1.0, 1, np.float32(0.5)) for truth in (True, np.True_)),
        (date(2020, 1, 1), 1),
        (date(2020, 1, 1), datetime(2020, 1, 1, 7)),
        ("a", 1),
        (b"a", "a"),
    ],
)
def test_objects_of_several_kinds_are_refused(made, other, entry):
    for entries in ([other, entry, entry], [entry, entry, other]):
        with pytest.raises(InputError, match="'x' has values of several types"):
            encoded(made(entries), CATEGORY)


def test_categories_of_several_kinds_are_refused():
    with pytest.raises(InputError, match="'x' has values of several types"):
        encoded(pd.Categorical(in_pandas([-1.0, True, True])), CATEGORY)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("column", [CATEGORY, NUMBER])
@pytest.mark.parametrize("entry", [np.float16(0.5), np.float32(0.1), 0.1, 1, np.int8(1), LARGE, Decimal("0.07"), None])
@pytest.mark.parametrize("other", [0, 0.25, np.float32(0.1), np.uint64(1), np.longdouble(0.1), Decimal("0.1234567"), None, np.nan])
def test_a_number_does_not_change_the_others(made, column, entry, other):
    alone = encoded(made([entry, entry]), column)
    for entries in ([other, entry, entry], [entry, entry, other]):
        assert np.array_equal(encoded(made(entries), column)[1], alone[0])


@pytest.mark.parametrize("entry", [[np.float16(0.1), 1], (0.1, 0.2), np.array([0.1, 0.2], np.float32), np.array([1, 0], ">i4")])
@pytest.mark.parametrize("other", [[0, 1], [0.5, Decimal("0.07")], np.array([1, 0]), np.array([0.1, 0.2], np.longdouble)])
def test_a_list_does_not_change_the_others(entry, other):
    alone = encoded([entry, entry], VECTOR)
    assert np.array_equal(encoded([other, entry, entry], VECTOR)[1], alone[0])


def test_what_is_masked_is_not_used():
    rows = np.ma.masked_array(np.ones((2, 2)), [[True, False], [False, False]])
    with pytest.raises(InputError, match="missing in 1 rows"):
        encoded(rows, VECTOR)


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">f4", np.longdouble, np.float16])
def test_numbers_of_other_machines(dtype):
    numbers = np.array([0, 1, 1])
    assert np.array_equal(encoded(numbers.astype(dtype), NUMBER), encoded(numbers, NUMBER))
    rows = np.array([[0, 1], [1, 1]])
    assert np.array_equal(encoded(rows.astype(dtype), VECTOR), encoded(rows, VECTOR))


@pytest.mark.parametrize("made", MADE)
def test_a_whole_number_stays_the_same_beside_a_broken_one(made):
    column = Category("x", ("9007199254740993", "9007199254740992", "0.5"))
    large = 2**53 + 1
    assert encoded(made([large, large - 1]), column)[:, :3].argmax(axis=1).tolist() == [0, 1]
    for number in (large, 10**400):
        with pytest.raises(InputError, match="'x' has values of several types"):
            encoded(made([0.5, number]), column)
