"""Options that several commands share: the fields of a ``Run``, spelt out, and how results are shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from dplateau.spec.errors import InputError
from dplateau.spec.names import ADJACENCIES, KINDS, RELEASED, UNITS

if TYPE_CHECKING:
    from dplateau.certificate import Certificate, Signed
    from dplateau.spec import Run, Runs, Sampling

_Result = TypeVar("_Result")

RUN: Final = "What ran"
LOSS: Final = "The loss and its domain (for last-iterate bounds)"
GUARANTEE: Final = "The guarantee"
RESULT: Final = "The result"
MODEL: Final = "The model"
MODELS: Final = ("logistic", "svc", "linear")
LOSSES: Final = ("logistic", "smoothed-hinge", "hinge", "squared", "huber", "absolute")


def choice(names: Iterable[str], help: str, panel: str, *flags: str) -> Any:
    """An option with a few values, which are checked before anything is loaded."""
    names = tuple(names)

    def checked(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise InputError(f"{flags[0]} is {value!r}: expected one of {', '.join(names)}.")
        return value

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    listed = f"{help} One of: {', '.join(names)}."
    return typer.Option(*flags, help=listed, rich_help_panel=panel, metavar="NAME", autocompletion=complete, callback=checked)


def option(help: str, panel: str, *flags: str, metavar: str = "NUMBER") -> Any:
    """An option of a panel; ``metavar`` stands for its value in the help."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, metavar=metavar)


def output(help: str, metavar: str = "FILE") -> Any:
    """Where the result goes."""
    return option(help, RESULT, "--output", "-o", metavar=metavar)


def path_option(help: str, panel: str, *flags: str) -> Any:
    """An option with a file that has to be there."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, metavar="FILE", callback=there)


def path_argument(help: str, metavar: str) -> Any:
    """A file or a folder that has to be there."""
    return argument(help, metavar, callback=there)


def rows_argument(help: str, place: str) -> Any:
    """A file or a folder that has to be there, or an address in a store; with ``place`` in it, it is not known yet which one."""
    return argument(help, "FILE", callback=lambda value: value if "://" in value or place in value else str(there(Path(value))))


def there(value: Any) -> Any:
    """Refuse a path where nothing is, before what reads it is loaded."""
    for path in value if isinstance(value, list | tuple) else [value] if value else ():
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{path}: there is no such file. Check the path.") from None
        except OSError:
            continue  # what reads it says why
    return value


def flag(help: str, panel: str, *flags: str) -> Any:
    """An option without a value."""
    return typer.Option(*flags, help=help, rich_help_panel=panel)


def argument(help: str, metavar: str, **given: Any) -> Any:
    """What is given without the name of an option."""
    return typer.Argument(help=help, metavar=metavar, show_default=False, **given)


CERTIFICATE: Final = path_argument("A certificate.json, or a model's folder.", "CERTIFICATE")
FORMATS: Final = "CSV, JSON lines, Parquet, LIBSVM or NumPy"
"""Files of rows."""
RunFile = Annotated[Path | None, path_option("A serialised run, in place of the options below.", RUN, "--run")]
RunFiles = Annotated[
    list[Path] | None,
    path_option("A run or certificate, in place of the options below; several are composed.", RUN, "--run"),
]
SignedBy = Annotated[
    list[str] | None,
    option(
        "Require a signature by this known key (a name or fingerprint). If repeated, one of the keys must have signed.",
        GUARANTEE,
        "--signed-by",
        metavar="NAME",
    ),
]
Adjacency = Annotated[
    str | None,
    choice(ADJACENCIES, "What is protected: whether a row is there (default), or its value.", GUARANTEE, "--adjacency"),
]
Unit = Annotated[str | None, choice(UNITS, "What a record is (default: row).", GUARANTEE, "--unit")]
Loss = Annotated[str | None, choice(LOSSES, "The loss (default: the usual one of the model).", MODEL, "--loss")]
L2 = Annotated[float, option("Coefficient of the l2 term, which some solvers need.", MODEL, "--l2")]
ClassWeight = Annotated[
    str | None,
    option(
        "Public weights of classes in training; a class that is not named has weight 1.",
        MODEL,
        "--class-weight",
        metavar="CLASS=NUMBER,...",
    ),
]
Cost = Annotated[
    str | None,
    option(
        "What it costs to miss a row of a class; the class with the smallest expected cost is predicted.",
        RESULT,
        "--cost",
        metavar="CLASS=NUMBER,...",
    ),
]
DESCRIBES: Final[dict[str, Any]] = {
    "n": Annotated[int | None, option("Number of rows (public).", RUN, "--n", metavar="N")],
    "sampling": Annotated[str | None, choice(KINDS, "How the rows of a step are chosen (default: poisson).", RUN, "--sampling")],
    "batch_size": Annotated[
        float | None, option("Records in a batch; the expected number if sizes are random.", RUN, "--batch-size")
    ],
    "steps": Annotated[int | None, option("Number of gradient steps.", RUN, "--steps", metavar="N")],
    "epochs": Annotated[float | None, option("Passes over the data, in place of --steps.", RUN, "--epochs")],
    "noise_multiplier": Annotated[float | None, option("Noise on the summed gradient, in clip norms.", RUN, "--noise-multiplier")],
    "clip_norm": Annotated[float | None, option("Norm to which gradients are clipped (default: 1).", RUN, "--clip-norm")],
    "step_size": Annotated[float | None, option("Step size.", LOSS, "--step-size")],
    "smoothness": Annotated[float | None, option("Smoothness constant of every row's loss.", LOSS, "--smoothness")],
    "strong_convexity": Annotated[
        float | None,
        option("Strong convexity constant of every row's loss, as it is clipped; 0: convex.", LOSS, "--strong-convexity"),
    ],
    "l2": Annotated[
        float | None, option("The part of --strong-convexity that comes from an l2 term, which every step adds once.", LOSS, "--l2")
    ],
    "diameter": Annotated[float | None, option("Diameter of the set onto which iterates are projected.", LOSS, "--diameter")],
    "adjacency": Adjacency,
    "released": Annotated[str | None, choice(RELEASED, "Which iterates are released (default: all).", GUARANTEE, "--released")],
    "unit": Unit,
}
"""The options that describe a run; every command that takes a run has them all. None is an option that was left out."""
Given: TypeAlias = dict[str, Any]
Delta = Annotated[
    float | None, option("delta of the guarantee (default: 1e-5, or 1/(10n) if that is smaller).", GUARANTEE, "--delta")
]
Json = Annotated[bool, flag("Print JSON and nothing else.", RESULT, "--json")]


def numbers_by_class(flag: str, text: str | None) -> dict[str, float] | None:
    """``no=1,yes=10`` as a dict. A class may hold ``=``: the last one counts.

    Raises
    ------
    InputError
        A part is not a class and number, or names a class again.
    """
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or not 0 < value < math.inf:
            raise InputError(f"{flag} is {text!r}: expected CLASS=NUMBER, separated by commas, for example no=1,yes=10.")
        if name in found:
            raise InputError(f"{flag} names the class {name!r} twice.")
        found[name] = value
    return found


def run_in(file: Path | None) -> Run | Runs | None:
    """The run in the file of ``--run``, or the one that a certificate there is about."""
    if file is None:
        return None
    from dplateau.certificate.read import read_run_or_certificate

    found = read_run_or_certificate(file)
    return found[0].run if isinstance(found, tuple) else found


def runs_in(
    files: list[Path] | None, signed_by: list[str] | None = None
) -> tuple[Run | Runs | tuple[Certificate, Signed] | None, float | None]:
    """What is in the files of ``--run``, several of them composed to one; and the delta to account at where none is given.

    With ``signed_by`` all of them are certificates that one of these keys has signed.

    Raises
    ------
    InputError
        A file cannot be read, one of several is a certificate that certifies nothing, or they are not about the same records.
    """
    if not files:
        return None, None
    from dplateau._account import compose
    from dplateau.certificate.read import read_run_or_certificate

    found = [read_run_or_certificate(file, signed_by=signed_by) for file in files]
    if len(found) < 2:
        return found[0], None
    certificates = [(file, one[0]) for file, one in zip(files, found, strict=True) if isinstance(one, tuple)]
    for file, one in certificates:
        if not one.certifies:
            raise InputError(f"{file} certifies nothing, so its run was not protected: compose only certificates that certify.")
    delta = min((one.delta for _, one in certificates), default=None)
    return compose(*(one[0] if isinstance(one, tuple) else one for one in found)), delta


def describes_a_run(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Give a command all options of ``DESCRIBES`` in place of its parameter ``given``, which is told what they were."""

    @wraps(command)
    def called(**arguments: Any) -> _Result:
        return command(given={name: arguments.pop(name) for name in DESCRIBES}, **arguments)

    found: list[Parameter] = []
    for one in signature(command, eval_str=True).parameters.values():
        described = [Parameter(name, one.kind, default=None, annotation=option) for name, option in DESCRIBES.items()]
        found += described if one.name == "given" else [one]
    called.__signature__ = Signature(found)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in found}
    return called


def one_run_of(run: Run | Runs | None, **given: Any) -> Run:
    """As ``run_of``, for commands that want one run."""
    from dplateau.spec import Runs

    found = run_of(run, **given)
    if isinstance(found, Runs):
        raise InputError(f"--run contains {len(found.runs)} composed runs: this command needs a single run.")
    return found


def run_of(run: Run | Runs | None, **given: Any) -> Run | Runs:
    """The run from a file, or the one that the options describe; ``given`` holds None for an option that was left out.

    Raises
    ------
    InputError
        An option is missing, is out of range, or contradicts another one.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if run is None:
        return _from_options(**given)
    if given:
        raise InputError(
            f"--run and {_flags(given)} are both given: the file says everything about the run, so leave the rest out."
        )
    return run


def _from_options(
    *,
    sampling: str = "poisson",
    batch_size: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    **fields: Any,
) -> Run:
    if steps is not None and epochs is not None:
        raise InputError("--steps and --epochs are both given: give one of them.")
    from dplateau.spec import Run
    from dplateau.spec.arguments import real

    missing = [name for name in ("n", "noise_multiplier") if name not in fields]
    if steps is None and epochs is None:
        missing.append("steps")
    if missing:
        instead = " (or --epochs in place of --steps)" if "steps" in missing else ""
        raise InputError(f"a run needs {_flags(missing)} as well{instead}; or give it as --run FILE.")
    scheme = _sampling(sampling, batch_size)
    if epochs is not None:
        steps = scheme.steps(fields["n"], real("--epochs", epochs))
    return Run(sampling=scheme, steps=steps or 0, **fields)


def _flags(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _sampling(kind: str, batch_size: float | None) -> Sampling:
    from dplateau.spec.sampling import sampling_from_dict

    if kind == "full" and batch_size is not None:
        raise InputError("--sampling full uses all rows in every step: leave out --batch-size.")
    if kind != "full" and batch_size is None:
        raise InputError(f"--sampling {kind} needs --batch-size.")
    return sampling_from_dict({"kind": kind} if batch_size is None else {"kind": kind, "batch_size": batch_size})
