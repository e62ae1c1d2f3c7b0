"""Whether the entries of a ledger are what was written, and whether their sums are right."""

from __future__ import annotations

import hashlib
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from dplateau.filter import Filter, cost_of
from dplateau.ledger.book import Part, Terms, part_of, plain
from dplateau.ledger.continued import continued
from dplateau.ledger.entry import KINDS, NOTHING, Entry, Head
from dplateau.ledger.grant import check
from dplateau.ledger.sums import Places, Sums, covers
from dplateau.spec import InputError, PrivacyWarning, Run, Runs
from dplateau.spec.one_line import is_printable
from dplateau.spec.selection import run_from_dict

_ROUNDED: Final = 1e-9
"""Share by which a sum that was rounded up at every entry may exceed the exact one."""
_RECOMPUTED: Final = 1e-6
"""Share by which a budget may exceed what this version computes."""


def problems(entries: Iterable[Entry], head: Head | None, *, costs: bool = False) -> list[str]:
    """What is wrong, in sentences.

    Parameters
    ----------
    entries : iterable of Entry
        All, by their numbers.
    head : Head or None
        An entry that is known.
    costs : bool
        Whether to account for every run again.
    """
    found: list[str] = []
    costs_of: dict[tuple[str, float | None], float] | None = {} if costs else None
    books: dict[str, _Account] = {}
    last = Head(0, NOTHING)
    for entry in entries:
        if entry.typed:
            found += _chain(entry, last)
            found += _content(entry, books, costs_of)
        else:
            found.append(f"entry {entry.number} holds values of other types than were written: it was changed.")
        if head is not None and entry.number == head.number and entry.digest != head.digest:
            found.append(f"entry {entry.number} has not the digest that is known: it, or one before it, was written again.")
        last = Head(entry.number, entry.digest)
    if head is not None and last.number < head.number:
        found.append(f"the ledger ends with entry {last.number}, and entry {head.number} is known: the last ones were cut off.")
    return found


def _chain(entry: Entry, last: Head) -> Iterator[str]:
    if entry.number != last.number + 1:
        yield f"entry {entry.number} follows entry {last.number}: what was between them is gone."
    elif entry.previous != last.digest:
        yield f"entry {entry.number} does not follow entry {last.number}: one of them was changed, moved, inserted or removed."
    if entry.digest != entry.computed():
        yield f"entry {entry.number} has not the digest of what it says: it was changed."


@dataclass
class _Account:
    """An account as its entries tell it, with exact sums."""

    terms: Terms
    total: Fraction = Fraction(0)
    partitions: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    parts: dict[Part, Fraction] = field(default_factory=dict[Part, Fraction])
    reserved: set[int] = field(default_factory=set[int])
    committed: set[int] = field(default_factory=set[int])
    runs: set[tuple[Part | None, bytes]] = field(default_factory=set[tuple[Part | None, bytes]])
    places: dict[str, int] = field(default_factory=dict[str, int])
    part_places: dict[Part, int] = field(default_factory=dict[Part, int])
    closed: bool = False

    def add(self, part: Part | None, cost: float) -> tuple[Fraction, ...]:
        """The sums after one more run."""
        if part is None:
            self.total += Fraction(cost)
            return (self.total,)
        self.parts[part] = self.parts.get(part, Fraction(0)) + Fraction(cost)
        largest = self.partitions.get(part.partition, Fraction(0))
        self.partitions[part.partition] = max(largest, self.parts[part])
        self.total += self.partitions[part.partition] - largest
        return self.total, self.partitions[part.partition], self.parts[part]


def _content(entry: Entry, books: dict[str, _Account], costs: dict[tuple[str, float | None], float] | None) -> Iterator[str]:
    """What an entry says against what those before it allow."""
    where = f"entry {entry.number}"
    texts = entry.time, entry.account, entry.who, entry.partition or "", entry.part or "", entry.body
    if not all(isinstance(one, str) and is_printable(one) for one in texts):
        yield f"{where} holds characters that cannot be printed: it was written by hand."
    try:
        data = entry.data
    except ValueError:
        yield f"{where} has a body that is not JSON, or no object of it."
        return
    book = books.get(entry.account)
    if entry.kind not in KINDS:
        yield f"{where} is of no known kind."
    elif entry.kind == "opened":
        if book is not None:
            yield f"{where} opens the account {entry.account!r} again."
            return
        try:
            terms = Terms(**data)
            wrong = terms.budget > _budget(terms) * (1 + _RECOMPUTED)
        except (TypeError, InputError):
            yield f"{where} opens an account with terms that are none."
            return
        books[entry.account] = _Account(terms)
        if wrong:
            yield f"{where} has a larger budget than epsilon and delta allow."
    elif book is None:
        yield f"{where} is of the account {entry.account!r}, which was not opened."
    elif entry.kind == "reserved":
        try:
            run = run_from_dict(data.get("run"))
        except InputError:
            yield f"{where} names no run that can be read."
            run = None
        yield from _reserved(entry, book, data, run)
        if costs is not None and entry.cost is not None and run is not None:
            yield from _cost(entry.number, entry.cost, book.terms, run, data.get("done", 0), costs)
    elif entry.kind == "committed":
        if entry.reservation not in book.reserved:
            yield f"{where} commits entry {entry.reservation}, which reserved nothing from {entry.account!r}."
        elif entry.reservation in book.committed:
            yield f"{where} commits entry {entry.reservation} again."
        else:
            book.committed.add(entry.reservation)
    else:
        book.closed = True


def _reserved(entry: Entry, book: _Account, data: dict[str, Any], run: Run | Runs | None) -> Iterator[str]:
    where = f"entry {entry.number}"
    if book.closed:
        yield f"{where} reserves from the account {entry.account!r}, which is closed."
    if entry.cost is None or not 0 <= entry.cost < math.inf or (entry.partition is None) != (entry.part is None):
        yield f"{where} reserves a run without a cost, or a part without a partition."
        return
    book.reserved.add(entry.number)
    part = part_of(entry)
    if run is not None:
        try:
            check(run, part, book.terms)
        except InputError as error:
            yield f"{where} reserves a run that is not on these records: {error}"
        if part is not None:
            yield from _places(where, part, run.n, data.get("places"), book)
    stated = (entry.spent,) if part is None else (entry.spent, entry.partition_spent, entry.part_spent)
    same = part, hashlib.sha256((plain(data.get("run")) or "").encode()).digest()
    if data.get("done", 0) and same not in book.runs:
        yield f"{where} goes on with a run that was not reserved before."
    book.runs.add(same)
    for said, exact in zip(stated, book.add(part, entry.cost), strict=True):
        if said is None or not exact <= Fraction(said) <= exact * (1 + Fraction(_ROUNDED)):
            yield f"{where} says that {said} is spent, and the costs add up to {_number(exact)!r}."
    if not covers(book.terms.budget, Sums(_number(book.total))):
        yield f"{where} exceeds the budget of {entry.account!r}."


def _number(exact: Fraction) -> float:
    """A sum of costs; infinite where it is larger than any number, as costs that were written by hand may make it."""
    return float(exact) if exact <= sys.float_info.max else math.inf


def _places(where: str, part: Part, n: int, said: Any, book: _Account) -> Iterator[str]:
    """Whether disjoint parts may have as many places as their runs, and as are said, if that is said: not in earlier versions."""
    found = Places(book.places.get(part.partition, 0), book.part_places.get(part, 0)).after(n)
    book.places[part.partition], book.part_places[part] = found.partition, found.part
    if said is not None and said != [found.partition, found.part]:
        yield f"{where} says that partition and part have {said} places, and they have {[found.partition, found.part]}."
    if found.partition > book.terms.n:
        yield f"{where} is on a part of {part.partition!r}, whose parts have more records than the account: they overlap."


def _cost(
    number: int, said: float, terms: Terms, run: Run | Runs, done: Any, known: dict[tuple[str, float | None], float]
) -> Iterator[str]:
    """Whether a run costs what its entry says, by the bounds of this version; sharper ones than those of then may say less."""
    try:
        run, _ = continued(run, done)
    except InputError as error:
        yield f"entry {number} reserves what cannot go on: {error}"
        return
    key = run.digest, terms.order
    if key not in known:
        known[key] = cost_of(run, terms.order)
    if said < known[key] * (1 - _RECOMPUTED):
        yield f"entry {number} says that its run costs {said:.6g}, and it costs {known[key]:.6g}."


def _budget(terms: Terms) -> float:
    """The budget that epsilon and delta allow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        names = ("n", "epsilon", "delta", "adjacency", "notion", "order")
        return Filter(**{name: getattr(terms, name) for name in names}).budget
