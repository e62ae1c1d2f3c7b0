"""``Ledger``: what all trainings on the same people have cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from dplateau.certificate import Certificate
from dplateau.filter import Filter
from dplateau.ledger import book
from dplateau.ledger.account import Account, State, state_of
from dplateau.ledger.charge import Charge, charges
from dplateau.ledger.database import connected, normal, shown, upgrade
from dplateau.ledger.entry import NOTHING, Entry, Head
from dplateau.ledger.proof import unproved
from dplateau.ledger.verify import problems
from dplateau.ledger.words import LONG, line, user
from dplateau.spec import InputError


@dataclass(frozen=True, repr=False)
class Ledger:
    """A list of all trainings that may only grow, in a database that several people and processes share.

    An account is opened for a data set, with a budget that all its runs together keep, however they are chosen: the budget of
    a ``Filter``. Who trains reserves the run first, and what is reserved stays spent. **Proved** (``docs/proofs/ledger.md``).

    Each entry holds the digest of the one before, so that ``verify`` finds what was changed, moved, inserted or removed. It does
    not find a list that somebody wrote again from its beginning, or cut off at its end, unless it is told a ``head`` that was
    kept elsewhere.

    Parameters
    ----------
    url : str, default "sqlite:///privacy.db"
        A file of SQLite, or ``postgresql://USER@HOST/DATABASE``. Nothing is connected yet.

    Raises
    ------
    InputError
        It is no such address.

    Examples
    --------
    >>> import dplateau as dp
    >>> ledger = dp.Ledger("sqlite:////shared/privacy.db")  # doctest: +SKIP
    >>> ledger.create("patients", n=60_000, epsilon=2.0, delta=1e-6)  # doctest: +SKIP
    >>> account = ledger.account("patients", who="north", purpose="readmissions")  # doctest: +SKIP
    >>> reservation = account.reserve(run)  # doctest: +SKIP
    """

    url: str = field(default="sqlite:///privacy.db")

    def __post_init__(self) -> None:
        if not isinstance(self.url, str):
            raise InputError(f"the address of a ledger is a text, got {type(self.url).__name__}.")
        object.__setattr__(self, "url", normal(self.url))

    def __repr__(self) -> str:
        return f"Ledger({shown(self.url)!r})"

    def create(
        self,
        name: str,
        *,
        n: int,
        epsilon: float,
        delta: float,
        adjacency: str = "add-remove",
        unit: str = "row",
        notion: str = "renyi",
        order: float | None = None,
        n_is: str = "public by declaration",
    ) -> None:
        """Open the account of a data set. The first one makes the tables, too.

        Parameters
        ----------
        name : str
            The account.
        n : int
            Number of records. Public.
        epsilon, delta : float
            What all runs together must satisfy, however they are chosen.
        adjacency : {"add-remove", "replace"}
            Of all runs.
        unit : str, default "row"
            What a record is, in a word: "row", or "person" where a record is all that belongs to one. Runs on rows are refused by
            all accounts but those of rows, and these refuse all others: see ``Run``.
        notion : {"renyi", "gaussian"}, default "renyi"
            The privacy notion in which the budget is kept, as in ``Filter``.
        order : float, optional
            Of the Renyi divergence, as in ``Filter``.
        n_is : str
            Why n is public.

        Raises
        ------
        InputError
            The account exists, an argument is out of range, or the ledger cannot be used (``LedgerError``).
        """
        line("name", name)
        kept = Filter(n=n, epsilon=epsilon, delta=delta, adjacency=adjacency, notion=notion, order=order)
        body = {
            **{key: getattr(kept, key) for key in ("n", "epsilon", "delta", "adjacency", "notion", "order", "budget")},
            "unit": line("unit", unit),
            "n_is": line("n_is", n_is),
        }
        self.upgrade()
        with connected(self.url, write=True) as connection:
            if book.exists(connection, name, "opened"):
                raise InputError(f"the ledger has an account {name!r} already: its budget stays. Use it, or choose another name.")
            book.append(connection, kind="opened", account=name, who=user(), body=body)

    def upgrade(self) -> None:
        """Make the tables, or bring those of an older version up to date; raises ``LedgerError`` where that is not possible."""
        upgrade(self.url)

    def account(self, name: str, *, who: str | None = None, purpose: str = "") -> Account:
        """An account, for somebody who trains. Nothing is connected yet.

        Parameters
        ----------
        name : str
            The account.
        who : str, optional
            Who trains; by default the name of the operating system's user. Nobody checks it.
        purpose : str
            What for, in one line.

        Raises
        ------
        InputError
            A text is not a single line.
        """
        names = line("name", name), line("who", user() if who is None else who)
        return Account(self.url, *names, line("purpose", purpose, most=LONG, empty=True))

    def accounts(self) -> list[State]:
        """The state of every account, in the order in which they were opened."""
        with connected(self.url) as connection:
            return [state_of(connection, name) for name in book.names(connection)]

    def history(self, name: str) -> tuple[State, list[Entry]]:
        """The state of an account and its entries, of the same moment.

        Raises
        ------
        InputError
            There is no such account, or the ledger cannot be used (``LedgerError``).
        """
        with connected(self.url) as connection:
            return state_of(connection, name), list(book.read(connection, name))

    def close(self, name: str) -> None:
        """Let nothing more be reserved from an account. Its reservations can still be committed.

        Raises
        ------
        InputError
            There is no such account, it is closed already, or the ledger cannot be used (``LedgerError``).
        """
        with connected(self.url, write=True) as connection:
            book.terms(connection, name)
            if book.exists(connection, name, "closed"):
                raise InputError(f"the account {name!r} is closed already.")
            book.append(connection, kind="closed", account=name, who=user(), body={})

    def entries(self, name: str | None = None) -> list[Entry]:
        """All entries in their order, or those of one account.

        Raises
        ------
        InputError
            There is no such account, or the ledger cannot be used (``LedgerError``).
        """
        with connected(self.url) as connection:
            if name is not None:
                book.terms(connection, name)
            return list(book.read(connection, name))

    def charges(self, certificate: Certificate) -> list[Charge]:
        """The reservations that were committed with a certificate: whether its release was paid for. Empty where none was.

        Looked at are these entries alone; ``verify`` tells whether the ledger is what was written.

        Parameters
        ----------
        certificate : Certificate
            What ``read_certificate`` returns. How its file is laid out does not matter.

        Raises
        ------
        ContradictionError
            An entry names the certificate, but was changed, or is about a reservation of another run.
        InputError
            It is not a certificate, or the ledger cannot be used (``LedgerError``).
        """
        if not isinstance(certificate, Certificate):
            raise InputError(f"expected a certificate, got {type(certificate).__name__}.")
        with connected(self.url) as connection:
            return list(charges(connection, certificate))

    def head(self) -> Head:
        """Number and digest of the last entry. Keep it where nobody who can write to the ledger can change it."""
        with connected(self.url) as connection:
            return book.head(connection)

    def verify(self, head: tuple[int, str] | None = None, *, costs: bool = False) -> list[str]:
        """What is wrong with the entries, in sentences; empty where all is well.

        Found is every entry that was changed, moved, inserted or removed, a sum that is wrong, and a budget that was exceeded; with
        ``costs`` also a run that is said to cost less than it does.

        Parameters
        ----------
        head : (int, str), optional
            What ``head()`` said earlier. Without it nobody can tell whether the last entries were cut off, or everything was
            written again.
        costs : bool, default False
            Account for every run again, equal ones once. It may take some tenths of a second each.

        Raises
        ------
        InputError
            ``head`` is none, or the ledger cannot be used (``LedgerError``).
        """
        known = None if head is None else _checked(head)
        with connected(self.url) as connection:
            return problems(book.read(connection), known, costs=costs)

    def unproved(self) -> list[str]:
        """What a second accountant does not confirm, in sentences; empty where every cost and every budget is proved.

        It computes in ball arithmetic, from the exact numbers of the runs, and shares no numerical code with the accountant that
        reserved. With ``verify``, which looks at the sums, that proves what the ledger promises: whatever was reserved, its epsilon
        and delta hold. Equal runs are looked at once; most take a second or less, random allocation more.

        Raises
        ------
        InputError
            The ledger cannot be used (``LedgerError``).
        ModuleNotFoundError
            python-flint is not installed: ``dplateau[verify]``.
        """
        with connected(self.url) as connection:
            entries = list(book.read(connection))
        return list(unproved(entries))


def _checked(head: object) -> Head:
    if isinstance(head, tuple) and len(head) == 2 and isinstance(head[0], int) and isinstance(head[1], str):
        known = Head(*head)
        if known.number > 0 or known == (0, NOTHING):  # another one would be compared with no entry
            return known
    raise InputError("head is not a pair of a number and a digest: give what Ledger.head() said.")
