"""Sums that are carried from entry to entry are never too small, and hardly too large."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dplateau.ledger.sums import Sums, added, covers

COSTS = st.floats(0, 1e6, allow_subnormal=False)


@given(COSTS, st.floats(-1e6, 1e6))
def test_a_sum_is_rounded_up_by_one_unit_at_most(one, other):
    total = added(one, other)
    exact = Fraction(one) + Fraction(other)
    assert exact <= Fraction(total) <= max(Fraction(one + other), exact) + abs(exact) * Fraction(2) ** -51


@given(st.lists(st.tuples(COSTS, st.sampled_from([None, "a", "b", "c"])), max_size=60))
def test_sums_enclose_the_exact_ones(entries):
    spent: dict[str, Fraction] = {}
    whole, total, partition, parts = Fraction(0), 0.0, 0.0, dict.fromkeys("abc", 0.0)
    for cost, part in entries:
        before = Sums(total) if part is None else Sums(total, partition, parts[part])
        after = before.after(cost, whole=part is None)
        total = after.total
        if part is None:
            whole += Fraction(cost)
        else:
            partition, parts[part] = after.partition, after.part
            spent[part] = spent.get(part, Fraction(0)) + Fraction(cost)
            assert Fraction(after.part) >= spent[part]
        exact = whole + max(spent.values(), default=Fraction(0))
        assert exact <= Fraction(total) <= exact * (1 + Fraction(1e-9))


@given(st.floats(1e-6, 1e6), COSTS, COSTS)
def test_what_is_said_to_be_left_fits_nearly(budget, total, behind):
    before = Sums(total, behind, 0.0)
    if (room := budget * before.room(budget)) > 1e-6 * (budget + behind) and covers(budget, before):
        assert covers(budget, before.after(room * (1 - 1e-6), whole=False))
        assert not covers(budget, before.after(room * (1 + 1e-6) + 1e-6 * (total + behind), whole=False))
