"""A ledger: what all trainings on the same people have cost, in SQLite or PostgreSQL. Needs ``dplateau[ledger]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dplateau.ledger.entry import Entry as Entry
from dplateau.ledger.entry import Head as Head
from dplateau.spec.lazy import loaded

if TYPE_CHECKING:
    from dplateau.ledger.account import Account as Account
    from dplateau.ledger.account import Reservation as Reservation
    from dplateau.ledger.account import State as State
    from dplateau.ledger.charge import Charge as Charge
    from dplateau.ledger.grant import Forecast as Forecast
    from dplateau.ledger.ledger import Ledger as Ledger

__getattr__, __dir__ = loaded(
    __name__,
    {
        "account": ("Account", "Reservation", "State"),
        "charge": ("Charge",),
        "grant": ("Forecast",),
        "ledger": ("Ledger",),
    },
)
