"""What must hold before the first step. Messages name arguments and public numbers, never an entry of the data."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import array_of, check_unmasked, numbers
from dplateau.spec.columns import Columns
from dplateau.spec.schedule import largest
from dplateau.training.noise import SecureGenerator
from dplateau.training.settings import check_machine

_PART: Final = 1 << 14
_ROUNDING: Final = 1e-6
_DOUBLE_ROUNDING: Final = 1e-12


def check_is_run(run: object) -> None:
    """Raise ``InputError`` unless it is a run."""
    if not isinstance(run, Run):
        raise InputError(f"run is {type(run).__name__}: expected a dplateau.Run.")


def check_loss(loss: object) -> None:
    """Raise ``InputError`` unless it is the loss of a linear model."""
    if not isinstance(loss, GeneralisedLinearLoss):
        raise InputError(f"loss is {type(loss).__name__}: expected one of dplateau.losses, such as Logistic().")


def check_helpers(generator: object, progress: Any) -> None:
    """Raise ``InputError`` unless each is left out or what it must be, and the compiler keeps to the arithmetic."""
    check_machine()
    if generator is not None and not isinstance(generator, SecureGenerator):
        raise InputError(
            f"generator is {type(generator).__name__}: expected a SecureGenerator of dplateau.training; no other draws noise."
        )
    try:
        if progress is not None:
            inspect.signature(progress).bind(0, 1)
    except TypeError:
        raise InputError(
            "progress cannot be called as progress(done, total): pass a function of what is done and of all, or progress_bar()."
        ) from None
    except ValueError:  # a callable that does not say how it is called
        pass


def records_of(loss: GeneralisedLinearLoss, features: Any, target: ArrayLike) -> tuple[Any, NDArray[np.float64]]:
    """Features ``(n, d)``, numbers of any type, or ``Columns``, and target ``(n,)`` in double precision, as the loss wants it."""
    check_unmasked(features, "features")
    check_unmasked(target, "targets")
    labels = array_of("target", target)
    rows = features if isinstance(features, Columns) else array_of("features", features)
    if not isinstance(rows, Columns) and (rows.ndim != 2 or rows.dtype.kind not in "biuf" or not rows.shape[1]):
        raise InputError(f"features have shape {rows.shape} and type {rows.dtype}: expected a table of numbers, one row a record.")
    if labels.shape != (len(rows),):
        raise InputError(f"target has shape {labels.shape}: expected one entry for each of the {len(rows)} rows of features.")
    loss.check_target(labels)
    with np.errstate(over="ignore"):  # a warning would tell of a row
        if not isinstance(rows, Columns) and (rows.dtype.itemsize > 8 or not rows.dtype.isnative):  # the compiled loop has no such
            rows = rows.astype(np.float64 if rows.dtype.itemsize > 8 else rows.dtype.newbyteorder("="))
        return rows, labels.astype(np.float64)


def checked_data(
    run: Run, loss: GeneralisedLinearLoss, features: ArrayLike, target: ArrayLike, *, part: bool = False
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """All rows of the run, or a ``part`` of them, as ``records_of`` gives them; both finite. Persons are counted elsewhere."""
    rows, labels = records_of(loss, features, target)
    if run.unit == "row" and not part and len(rows) != run.n:
        raise InputError(f"features have {len(rows)} rows but the run has n = {run.n}: the run must describe this data set.")
    if not (np.isfinite(labels).all() and all(np.isfinite(rows[i : i + _PART]).all() for i in range(0, len(rows), _PART))):
        raise InputError("features or target have values that are not finite numbers: clean or clip them first.")
    return rows, labels


def checked_l2(l2: float | Sequence[float] | NDArray[np.float64], d: int) -> NDArray[np.float64]:
    """The coefficient of each of the d features, shape ``(d,)``."""
    values = numbers("l2", l2)
    if values.shape not in ((), (d,)) or not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"l2 has shape {values.shape}: expected one finite number >= 0, or one for each of the {d} features.")
    return np.broadcast_to(values, (d,))


def checked_start(run: Run, start: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The first iterate, by default zero."""
    values = np.zeros(shape) if start is None else numbers("start", start)
    if values.shape != shape or not np.isfinite(values).all():
        raise InputError(f"start has shape {values.shape}: expected finite numbers of shape {shape}.")
    if run.diameter is not None and np.linalg.norm(values) > run.diameter / 2:
        raise InputError(f"start lies outside the ball of diameter {run.diameter:g} around zero that iterates are projected on.")
    return values


def check_curvature(run: Run, loss: GeneralisedLinearLoss, clip_norm: float, largest_row: float, l2: NDArray[np.float64]) -> None:
    """Raise ``InputError`` unless the smoothness and convexity that the run states hold for every row, clipped to ``clip_norm``."""
    # A last-iterate bound needs what is stated, to the precision of its arithmetic; others do not use it.
    slack = 1 + (_DOUBLE_ROUNDING if run.is_last_iterate else _ROUNDING)
    curvature = loss.smoothness(largest_row) + float(l2.max())
    if run.is_last_iterate and run.smoothness is not None:
        longest = largest(run.step_size or 0.0)
        if curvature * longest > 2 >= run.smoothness * longest:
            raise InputError(
                f"step_size {longest:g} is 2/smoothness, and rounding makes some row's loss less smooth: lower it by a little."
            )
    if run.smoothness is not None and curvature > run.smoothness * slack:
        raise InputError(
            f"some row is too long for the run's smoothness {run.smoothness:g} with l2 up to {l2.max():g}: clip all "
            f"rows to a public norm R and state a smoothness of at least {type(loss).__name__}.smoothness(R) + l2."
        )
    if run.l2 > l2.min() * slack:
        raise InputError(f"the run states l2 {run.l2:g}, which exceeds the least l2 coefficient {l2.min():g}: add l2.")
    if run.strong_convexity is None:
        return
    if run.strong_convexity > l2.min() * slack:
        raise InputError(f"strong_convexity {run.strong_convexity:g} exceeds the least l2 coefficient {l2.min():g}: add l2.")
    if not loss.convex_after_clipping and loss.lipschitz(largest_row) > clip_norm:
        raise InputError(
            f"{type(loss).__name__} is not known to stay convex under clipping, and some row is long enough to be clipped: clip "
            f"all rows to a public norm R with {type(loss).__name__}.lipschitz(R) <= {clip_norm:.9g} (clip_norm less "
            "the rounding margin), or use a run without strong_convexity."
        )
