"""``dplateau ledger``: what all trainings on the same people have cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dplateau.cli import options as o
from dplateau.cli.output import busy, show_json, write_new
from dplateau.cli.output import show as show_text
from dplateau.cli.parser import Command, Commands
from dplateau.spec.errors import InputError
from dplateau.spec.names import NOTIONS, UNITS

if TYPE_CHECKING:
    from dplateau.ledger.entry import Head
    from dplateau.ledger.ledger import Ledger

PANEL: Final = "The ledger"
BUDGET: Final = "The budget"

ledger = typer.Typer(name="ledger", cls=Commands, rich_markup_mode=None)

Url = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="DPLATEAU_LEDGER",
        show_envvar=False,
        metavar="URL",
        rich_help_panel=PANEL,
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE; or set DPLATEAU_LEDGER.",
    ),
]
Name = Annotated[str, o.argument("The account.", "NAME")]
AnyName = Annotated[str | None, o.argument("An account (default: all).", "NAME")]
DEFAULT: Final = "sqlite:///privacy.db"


@ledger.callback()
def about() -> None:
    """Keep a ledger: what all trainings on the same people have cost.

    The account of a data set has a budget. Each training takes its share before
    it starts, and what is taken stays spent. Entries are added but never
    changed, and each contains the digest of the one before.
    """


@ledger.command(cls=Command)
def create(
    name: Name,
    n: Annotated[int, o.option("Number of records (public).", BUDGET, "--n", metavar="N")],
    epsilon: Annotated[float, o.option("What all trainings together may cost.", BUDGET, "--epsilon")],
    delta: Annotated[float, o.option("delta, well below 1/n.", BUDGET, "--delta")],
    *,
    adjacency: o.Adjacency = None,
    unit: Annotated[str, o.choice(UNITS, "What a record is.", BUDGET, "--unit")] = "row",
    notion: Annotated[str, o.choice(NOTIONS, "Privacy notion of the budget.", BUDGET, "--notion")] = "renyi",
    order: Annotated[float | None, o.option("Order of the Renyi divergence (default: the best).", BUDGET, "--order")] = None,
    n_is: Annotated[str, o.option("Why n is public.", BUDGET, "--n-is", metavar="TEXT")] = "public by declaration",
    url: Url = DEFAULT,
    json: o.Json = False,
) -> None:
    """Open the account of a data set, with a budget.

    If there is no ledger yet, it is created.

    For example:

    dplateau ledger create patients --n 60000 --epsilon 2 --delta 1e-6
    """
    found = _ledger(url)
    protects = adjacency or "add-remove"
    found.create(name, n=n, epsilon=epsilon, delta=delta, adjacency=protects, unit=unit, notion=notion, order=order, n_is=n_is)
    _show_account(found, name, json)


@ledger.command(cls=Command)
def show(name: AnyName = None, *, url: Url = DEFAULT, json: o.Json = False) -> None:
    """Show all accounts, or one with its entries: what is spent, and what is left."""
    from dplateau.report.ledger import accounts_text

    found = _ledger(url)
    if name is not None:
        _show_account(found, name, json)
        return
    states = found.accounts()
    if json:
        show_json({"accounts": [state.to_dict() for state in states]})
    else:
        show_text(accounts_text(states))


@ledger.command(cls=Command)
def verify(
    head: Annotated[str | None, o.option("The head that verify printed earlier.", PANEL, "--head", metavar="NUMBER:DIGEST")] = None,
    *,
    costs: Annotated[bool, o.flag("Account for every run again.", PANEL, "--costs")] = False,
    prove: Annotated[bool, o.flag("Prove every cost and budget a second time, in ball arithmetic.", PANEL, "--prove")] = False,
    url: Url = DEFAULT,
    json: o.Json = False,
) -> int:
    """Look for entries that were changed, moved, inserted or removed, and for wrong sums.

    Exit status 1 if there are any. It prints the head, which is the number and
    digest of the last entry: keep it elsewhere, and give it as --head the next
    time. Without it, nobody can tell whether the end was cut off or everything
    was rewritten. With --prove, exit status 2 if something was not proved; this
    needs python-flint, from the extra verify.
    """
    from dplateau.report.ledger import verified_text

    found = _ledger(url)
    known = None if head is None else _head(head)
    last = found.head()  # before the entries: then it is one of them
    problems, unproved = found.verify(known, costs=costs), None
    if prove and not problems:
        with busy("proving the costs"):
            unproved = found.unproved()
    if json:
        more = {} if unproved is None else {"unproved": unproved}
        show_json({"agrees": not problems, "head": f"{last.number}:{last.digest}", "problems": problems, **more})
    else:
        show_text(verified_text(problems, last, known, unproved))
    return 1 if problems else 2 if unproved else 0


@ledger.command(cls=Command)
def export(
    name: AnyName = None,
    *,
    url: Url = DEFAULT,
    as_csv: Annotated[bool, o.flag("A table, one entry per line.", o.RESULT, "--csv")] = False,
    json: Annotated[bool, o.flag("JSON (default).", o.RESULT, "--json")] = False,
    output: Annotated[Path | None, o.output("Write to a new file instead of the terminal.")] = None,
) -> None:
    """Write all entries, or those of an account, as JSON or CSV."""
    from dplateau.files import check_new_file
    from dplateau.report.ledger_words import to_csv, to_json

    if as_csv and json:
        raise InputError("--csv and --json are both given: give one of them.")
    if output is not None:
        check_new_file(output)
    entries = _ledger(url).entries(name)
    text = to_csv(entries) if as_csv else to_json(entries)
    if output is None:
        print(text, end="")
        return
    write_new(output, text)
    print(f"{len(entries):,} entries are written to {output}.")


@ledger.command(cls=Command)
def close(name: Name, *, url: Url = DEFAULT, json: o.Json = False) -> None:
    """Close an account: nothing more can be reserved from it."""
    found = _ledger(url)
    found.close(name)
    _show_account(found, name, json)


def _ledger(url: str) -> Ledger:
    from dplateau.ledger import Ledger

    return Ledger(url)


def _show_account(found: Ledger, name: str, json: bool) -> None:
    from dplateau.report.ledger import account_text
    from dplateau.report.ledger_words import plain

    state, entries = found.history(name)
    if json:
        show_json({"account": state.to_dict(), "entries": list(map(plain, entries))})
    else:
        show_text(account_text(state, entries))


def _head(text: str) -> Head:
    from dplateau.ledger.entry import Head

    found = re.fullmatch("([0-9]{1,18}):([0-9a-f]{64})", text)
    if found is None:
        raise InputError(f"--head is {text!r:.40}: expected NUMBER:DIGEST, as dplateau ledger verify prints it.")
    return Head(int(found[1]), found[2])
