"""The entry point: the commands, and how anything that goes wrong is told."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any, Final

import typer

from dplateau import __version__
from dplateau.cli.account import account
from dplateau.cli.audit import audit
from dplateau.cli.calibrate import calibrate
from dplateau.cli.check import check
from dplateau.cli.demo import demo
from dplateau.cli.evaluate import evaluate
from dplateau.cli.keys import keys, sign
from dplateau.cli.label import label
from dplateau.cli.ledger import ledger
from dplateau.cli.output import warn
from dplateau.cli.parser import Command, Commands
from dplateau.cli.plan import plan
from dplateau.cli.plot_plateau import plot_plateau
from dplateau.cli.plot_trade_off import plot_trade_off
from dplateau.cli.predict import predict
from dplateau.cli.process import INTERRUPTED, STOPPED, Interrupts, patient
from dplateau.cli.report import report
from dplateau.cli.reproduce import reproduce
from dplateau.cli.schema import schema
from dplateau.cli.told import told
from dplateau.cli.train import train
from dplateau.cli.ui import ui
from dplateau.cli.verify import verify
from dplateau.spec.errors import AccuracyWarning, PrivacyWarning

app = typer.Typer(
    name="dplateau",
    cls=Commands,
    help="Train with differential privacy, and say what it costs: every epsilon is proved and enclosed.",
    epilog="Exit status: 0 done; 1 a check failed; 2 bad input, with one line on standard error; 130 stopped by Ctrl-C.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
COMMANDS: Final = {
    "Models": (train, predict, evaluate, demo),
    "Certificates": (report, verify, label, sign),
    "What privacy costs, without data": (plan, account, calibrate, plot_plateau, plot_trade_off, ui),
    "Files of rows": (schema, check),
    "Tests of the bounds": (audit, reproduce),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)
app.add_typer(keys, name="keys", rich_help_panel="Keys and ledgers")
app.add_typer(ledger, rich_help_panel="Keys and ledgers")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dplateau {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.", show_default=False),
    ] = False,
) -> None:
    """Train with differential privacy, and say what it costs: every epsilon is proved and enclosed."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a check failed, 2 bad input (one line on standard error), 130 stopped by Ctrl-C.

    Output that nobody reads any more is dropped: what the command does, and its exit status, do not depend on it.
    """
    sys.stdout, sys.stderr = patient(sys.stdout, 1), patient(sys.stderr, 2)
    interrupts = Interrupts()
    code = status(arguments, interrupts)
    interrupts.ignore()
    if code == INTERRUPTED:
        # A compilation goes on in a thread of its own, and would crash if the interpreter were taken down under it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def status(arguments: list[str] | None = None, interrupts: Interrupts | None = None) -> int:
    """Run the command line and return the exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrivacyWarning)
        warnings.simplefilter("always", AccuracyWarning)
        warnings.showwarning = _show_warning
        try:
            result = app(arguments, prog_name="dplateau", standalone_mode=False)
            sys.stdout.flush()
        except (KeyboardInterrupt, typer.Abort):
            result = INTERRUPTED
        except Exception as error:
            if interrupts is None or not interrupts.seen:
                return told(error)
            result = INTERRUPTED  # and the error is what a library made of it
    if result == INTERRUPTED:  # typer returns it, click raises
        print(STOPPED, file=sys.stderr)
    return result if isinstance(result, int) else 0


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, PrivacyWarning | AccuracyWarning):
        warn(" ".join(str(message).split()))
