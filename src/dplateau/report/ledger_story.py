"""Who spent what of an account on what: its entries, training by training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dplateau.ledger.account import State
from dplateau.ledger.book import part_of
from dplateau.ledger.entry import Entry
from dplateau.report.ledger_words import body, changed, cost, share, steps


@dataclass(frozen=True)
class Training:
    """A run that was reserved.

    Attributes
    ----------
    number : int
        Its entry.
    time, who, purpose : str
        When, by whom and what for.
    steps : str
        How many.
    part : (str, str) or None
        The partition and the part that it saw; None for all records.
    cost : float
        The share of the budget that it costs by itself.
    took : float
        What it took of the budget: less than its cost, for a part, while another part has spent more.
    end : Entry or None
        The entry that says that it ended. None: it runs, was stopped or was killed, and its cost stays spent.
    """

    number: int
    time: str
    who: str
    purpose: str
    steps: str
    part: tuple[str, str] | None
    cost: float
    took: float
    end: Entry | None


@dataclass(frozen=True)
class Group:
    """Trainings of the same people, or for the same purpose as well: sums of their shares."""

    who: str
    purpose: str
    trainings: int
    not_ended: int
    cost: float
    took: float
    took_not_ended: float


@dataclass(frozen=True)
class Story:
    """What happened to an account.

    Attributes
    ----------
    opened : Entry
        Its first entry.
    closed : Entry or None
        The entry that closed it.
    trainings : tuple of Training
        In the order of their reservations.
    """

    opened: Entry
    closed: Entry | None
    trainings: tuple[Training, ...]

    @property
    def people(self) -> list[Group]:
        """Who took how much, the most first."""
        return _grouped((one.who, "", one) for one in self.trainings)

    @property
    def purposes(self) -> list[Group]:
        """Who took how much for what, the most first."""
        return _grouped((one.who, one.purpose, one) for one in self.trainings)


def story(state: State, entries: Sequence[Entry]) -> Story:
    """What the entries of an account tell.

    Parameters
    ----------
    state : State
        Of the same moment.
    entries : sequence of Entry
        All of the account.

    Raises
    ------
    LedgerError
        An entry was changed, and cannot be read.
    """
    ends = {entry.reservation: entry for entry in entries if entry.kind == "committed"}
    trainings: list[Training] = []
    spent = 0.0
    for entry in entries:
        if entry.kind != "reserved":
            continue
        own = cost(entry, state)
        if own is None or not isinstance(entry.spent, int | float):
            raise changed(entry)
        trainings.append(
            Training(
                number=entry.number,
                time=entry.time,
                who=entry.who,
                purpose=str(body(entry).get("purpose") or ""),
                steps=steps(entry),
                part=part_of(entry),
                cost=own,
                took=share(entry, max(entry.spent - spent, 0.0), state),
                end=ends.get(entry.number),
            )
        )
        spent = entry.spent
    for end in ends.values():
        body(end)
    closed = next((entry for entry in entries if entry.kind == "closed"), None)
    return Story(entries[0], closed, tuple(trainings))


def _grouped(trainings: Iterable[tuple[str, str, Training]]) -> list[Group]:
    found: dict[tuple[str, str], list[Training]] = {}
    for who, purpose, one in trainings:
        found.setdefault((who, purpose), []).append(one)
    groups = [
        Group(
            who=who,
            purpose=purpose,
            trainings=len(all_of),
            not_ended=sum(one.end is None for one in all_of),
            cost=math.fsum(one.cost for one in all_of),
            took=math.fsum(one.took for one in all_of),
            took_not_ended=math.fsum(one.took for one in all_of if one.end is None),
        )
        for (who, purpose), all_of in found.items()
    ]
    return sorted(groups, key=lambda one: (-one.took, -one.cost))
