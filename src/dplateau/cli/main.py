"""The entry point: the commands, and how anything that goes wrong is told."""

from __future__ import annotations

import os
import sys
import traceback
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
from dplateau.cli.once import Once
from dplateau.cli.output import printable
from dplateau.cli.plan import plan
from dplateau.cli.plot_plateau import plot_plateau
from dplateau.cli.plot_trade_off import plot_trade_off
from dplateau.cli.predict import predict
from dplateau.cli.report import report
from dplateau.cli.reproduce import reproduce
from dplateau.cli.schema import schema
from dplateau.cli.train import train
from dplateau.cli.ui import ui
from dplateau.cli.verify import verify
from dplateau.spec import AccuracyWarning, ContradictionError, InputError, PrivacyWarning, UncertifiedError
from dplateau.spec.missing import remedy

USAGE_ERROR: type[Any] = typer.BadParameter.__bases__[0]
"""The base of what the parser raises; typer exports it under no name of its own."""

CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130

app = typer.Typer(
    name="dplateau",
    help="Train with differential privacy, and say what it costs: every epsilon is proved and enclosed.",
    epilog="Exit status: 0 done; 1 a check failed; 2 bad input, with one line on standard error.",
    rich_markup_mode="rich",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
_running = (train, predict, evaluate, demo, report, verify, label, sign, plan, account, calibrate)
for command in (*_running, plot_plateau, plot_trade_off, audit, reproduce, schema, check, ui):
    app.command(cls=Once)(command)
app.add_typer(ledger)
app.add_typer(keys, name="keys")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dplateau {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, metavar="", help="Show the version and exit.", show_default=False
        ),
    ] = False,
) -> None:
    """Train with differential privacy, and say what it costs: every epsilon is proved and enclosed."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a check failed, 2 bad input (one line on standard error), 130 interrupted."""
    code = status(arguments)
    if code == INTERRUPTED:
        # A compilation goes on in a thread of its own, and would crash if the interpreter were taken down under it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def status(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrivacyWarning)
        warnings.simplefilter("always", AccuracyWarning)
        warnings.showwarning = _show_warning
        try:
            result = app(arguments, prog_name="dplateau", standalone_mode=False)
            sys.stdout.flush()
        except ContradictionError as error:
            return _failed(str(error), CHECK_FAILED)
        except (InputError, UncertifiedError) as error:
            return _failed(str(error))
        except ModuleNotFoundError as error:
            return _crashed(error) if (said := remedy(error)) is None else _failed(said)
        except (KeyboardInterrupt, typer.Abort):
            result = INTERRUPTED
        except BrokenPipeError:
            # The reader, head for example, has seen enough. Python would complain once more when it closes standard output.
            _drop_output()
            return 1
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            return _failed(f"{where}{error.strerror or error}")
        except Exception as error:
            if isinstance(error, USAGE_ERROR):
                return _misused(error)
            return _crashed(error)
    if result == INTERRUPTED:  # typer returns it, click raises
        print("dplateau: interrupted; nothing was released.", file=sys.stderr)
    return result if isinstance(result, int) else 0


def _misused(error: Any) -> int:
    """What the parser did not understand. Without arguments it has printed the help already and has nothing to add."""
    message = error.format_message()
    if not message:
        return 0
    path = getattr(error.ctx, "command_path", "dplateau")
    return _failed(f"{message.rstrip('.')}. Try '{path} --help'.")


def _crashed(error: Exception) -> int:
    """A mistake of ours: where it happened. The message is left out, because those of libraries quote rows."""
    traceback.print_tb(error.__traceback__)
    return _failed(f"{type(error).__name__}, a mistake in dplateau: please report the lines above.", CHECK_FAILED)


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
