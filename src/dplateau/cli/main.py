"""``dplateau``: the commands, and what happens when one fails."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from dplateau import __version__
from dplateau.cli.account import account
from dplateau.cli.calibrate import calibrate
from dplateau.cli.demo import demo
from dplateau.cli.schema import schema
from dplateau.cli.train import train
from dplateau.spec import InputError, PrivacyWarning, UncertifiedError

app = typer.Typer(
    name="dplateau",
    help="Train with differential privacy, and know what it costs: every epsilon is proved and enclosed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, account, calibrate, schema, demo):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dplateau {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Train with differential privacy, and know what it costs: every epsilon is proved and enclosed."""


def _say(text: str) -> None:
    print(f"dplateau: {' '.join(text.split())}", file=sys.stderr)


def _warn(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, PrivacyWarning):
        _say(f"warning: {message}")


def run() -> None:
    """Entry point. Exit status: 0 done, 1 a check failed, 2 bad input (one line on standard error), 130 interrupted."""
    warnings.showwarning = _warn
    warnings.simplefilter("always", PrivacyWarning)
    try:
        code = app(standalone_mode=False)
    except (InputError, UncertifiedError) as error:
        _say(str(error))
        code = 2
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        code = 2
    except MemoryError:
        _say("the machine has not enough memory for this.")
        code = 2
    except KeyboardInterrupt:
        _say("interrupted: nothing was released.")
        code = 130
    except Exception as error:
        # Usage errors of the command-line library say what is wrong in one message; anything else is a defect and keeps its traceback.
        message = getattr(error, "format_message", None)
        if message is None:
            if type(error).__name__ == "Abort":
                sys.exit(130)
            raise
        _say(message())
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
