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
from dplateau.cli.output import printable
from dplateau.cli.parser import USAGE_ERROR, Command, Commands, not_understood
from dplateau.cli.plan import plan
from dplateau.cli.plot_plateau import plot_plateau
from dplateau.cli.plot_trade_off import plot_trade_off
from dplateau.cli.predict import predict
from dplateau.cli.process import INTERRUPTED, STOPPED, Interrupts, patient
from dplateau.cli.report import report
from dplateau.cli.reproduce import reproduce
from dplateau.cli.schema import schema
from dplateau.cli.train import train
from dplateau.cli.ui import ui
from dplateau.cli.verify import verify
from dplateau.spec.errors import AccuracyWarning, ContradictionError, InputError, PrivacyWarning, UncertifiedError
from dplateau.spec.missing import remedy

CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2

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
                return _told(error)
            result = INTERRUPTED  # and the error is what a library made of it
    if result == INTERRUPTED:  # typer returns it, click raises
        print(STOPPED, file=sys.stderr)
    return result if isinstance(result, int) else 0


def _told(error: Exception) -> int:
    """What went wrong, in one line; the exit status."""
    if isinstance(error, ContradictionError):
        return _failed(str(error), CHECK_FAILED)
    if isinstance(error, InputError | UncertifiedError):
        return _failed(str(error))
    if isinstance(error, ModuleNotFoundError) and (said := remedy(error)) is not None:
        return _failed(said)
    if isinstance(error, OSError):
        return _failed(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
    if isinstance(error, USAGE_ERROR):
        return _failed(not_understood(error))
    return _crashed(error)


def _crashed(error: Exception) -> int:
    """A mistake of ours: where it happened. The message is left out, because those of libraries quote rows."""
    import traceback

    traceback.print_tb(error.__traceback__)
    return _failed(f"{type(error).__name__}, a bug in dplateau: please report the lines above.", CHECK_FAILED)


def _drop_output() -> None:
    """Let Python's own flush at the end go nowhere, instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(message: str, code: int = BAD_INPUT) -> int:
    print(f"dplateau: {printable(' '.join(message.split()))}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    return code


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, PrivacyWarning | AccuracyWarning):
        print(f"dplateau: warning: {' '.join(str(message).split())}", file=sys.stderr)
