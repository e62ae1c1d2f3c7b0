"""What must hold before the first step. Messages name arguments and public numbers, never an entry of the data."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import jax
import numpy as np
import optax

from dplateau.networks.checkpoint import Checkpoint
from dplateau.networks.jaxprs import equations, zero_outputs
from dplateau.networks.persons import InterleavedPersons, PersonExamples, columns_of
from dplateau.networks.recorded import RecordedLoss
from dplateau.networks.trainable import is_key
from dplateau.networks.validation import Validation
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer
from dplateau.training.checks import check_helpers, check_is_run
from dplateau.training.persons import INTERLEAVED

Tree: TypeAlias = Any
_PRECISIONS: Final = ("float32", "float64")
_LEAST_CLIP_NORM: Final = 1e-30
_NO_LOADER: Final = (
    " Loaders are not read: every step draws its batch from all examples. numpy.load(path, mmap_mode='r') leaves an array on disk."
)


def check_run(run: Run, optimizer: bool, average: bool) -> None:
    """Raise ``InputError`` unless a network can fulfil the run."""
    check_is_run(run)
    if run.is_phased:
        raise InputError(
            f"the run's update is {run.update!r}: a network takes gradient steps, with update 'sgd' or 'post-processed'."
        )
    if run.clip_norm < _LEAST_CLIP_NORM:
        raise InputError(
            f"clip_norm {run.clip_norm:g} is below {_LEAST_CLIP_NORM:g}: its noise would vanish in single precision. "
            "Multiply the loss, and with it clip_norm, by a constant."
        )
    if run.smoothness is not None or run.strong_convexity is not None or run.diameter is not None:
        raise InputError(
            "the run states smoothness, strong_convexity or diameter, which nobody can enforce for a network: leave them out. For "
            "convex losses use dplateau.training.train."
        )
    if (optimizer or average) and run.update != "post-processed":
        raise InputError("optimizers and averaging are other updates than the run's 'sgd': use a run with update='post-processed'.")
    if not (optimizer or average) and run.update != "sgd":
        raise InputError(
            "the run's update is 'post-processed' and there is no optimizer: pass one, or use a run with update='sgd'."
        )
    if run.released != "all":
        raise InputError("the run has released='last', but no last-iterate bound holds for a network: use released='all'.")
    if not optimizer and run.step_size is None:
        raise InputError("the run has no step_size: plain steps need one.")


def check_parts(optimizer: object, checkpoint: object, validation: object, generator: object, progress: Any) -> None:
    """Raise ``InputError`` unless each is left out or what it must be."""
    if isinstance(optimizer, optax.MultiSteps):
        raise InputError(
            "optimizer is optax.MultiSteps, which adds up the noise of small batches: take one batch_size that is as large, which "
            "is worked on in microbatches anyway, and the optimizer alone."
        )
    if optimizer is not None and not isinstance(optimizer, optax.GradientTransformation):
        call = ". Call the function that makes it: optax.adam(0.01), not optax.adam" if callable(optimizer) else ""
        raise InputError(f"optimizer is {type(optimizer).__name__}: expected one of optax, or of dplateau.networks{call}.")
    for name, value, kind in (("checkpoint", checkpoint, Checkpoint), ("validation", validation, Validation)):
        if value is not None and not isinstance(value, kind):
            raise InputError(f"{name} is {type(value).__name__}: expected a {kind.__name__} of dplateau.networks.")
    check_helpers(generator, progress)


def check_loss(loss: Any, rng: object) -> None:
    """Raise ``InputError`` unless the loss can be called with parameters, an example, and with ``rng`` a key."""
    if not isinstance(rng, bool):
        raise InputError(f"rng is {type(rng).__name__}: expected True or False; keys are drawn by the run's generator.")
    wanted = ("params", "example", "key") if rng else ("params", "example")
    try:
        inspect.signature(loss).bind(*wanted)
    except TypeError:
        other = "" if rng else "; with rng=True it gets a random key too"
        raise InputError(f"loss cannot be called as loss({', '.join(wanted)}): write it so{other}.") from None
    except ValueError:  # a callable that does not say how it is called
        pass


def checked_start(optimizer: optax.GradientTransformation, start: Tree, checkpoint: Checkpoint | None = None) -> Tree:
    """The optimizer's first state; warns of parameters that it never changes.

    Raises
    ------
    InputError
        It fails, or needs more than gradients and parameters: a loss is not to be had without noise. Or it keeps what no checkpoint
        holds.
    """
    try:
        state = optimizer.init(start)
        traced = jax.make_jaxpr(optimizer.update)(start, state, start)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        said = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        if "keyword-only" in said:
            raise InputError(
                f"the optimizer needs more than gradients ({said.rpartition(': ')[2]}), and a loss on private records is not to be "
                "had without noise. Take one without line search or look at the loss (no lbfgs, polyak_sgd, reduce_on_plateau)."
            ) from None
        raise InputError(f"the optimizer does not fit params: {type(error).__name__}: {said[:300]}.") from error
    if checkpoint is not None and any(map(is_key, jax.tree.leaves(state))):
        raise InputError(
            "the optimizer keeps random keys, which a checkpoint does not hold: train without a checkpoint, or without what adds "
            "random numbers."
        )
    callbacks = {one.primitive.name for one in equations(traced.jaxpr) if one.effects or "callback" in one.primitive.name}
    if callbacks:
        raise InputError(
            f"the optimizer uses {', '.join(sorted(callbacks))}: it would show noisy gradients of steps that an interruption takes "
            "back, and that no certificate counts. Leave the callback out."
        )
    names = _paths(start)
    still = [names[leaf] for leaf in zero_outputs(traced) if leaf < len(names)]
    if still:
        shown = ", ".join(f"params{name}" for name in still[:3]) + (", ..." if len(still) > 3 else "")
        warnings.warn(
            f"the optimizer never changes {shown}, whose gradients take a part of clip_norm all the same: freeze them with "
            "trainable= of train_network.",
            stacklevel=4,
        )
    return state


def check_shares(microbatch: int | None, workers: int | None) -> None:
    """Raise ``InputError`` unless both are left to the engine or positive whole numbers."""
    for name, value in (("microbatch", microbatch), ("workers", workers)):
        if value is not None:
            integer(name, value)


def check_params(params: Tree) -> None:
    """Raise ``InputError`` unless the leaves are finite numbers of one precision."""
    leaves = jax.tree.leaves(params)
    types = {str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves}
    if len(types) != 1 or not types <= set(_PRECISIONS):
        found = ", ".join(sorted(types)) or "nothing"
        module = any(callable(leaf) for leaf in leaves)
        parts = " Functions are no parameters: split the model first, as with equinox.partition(model, equinox.is_inexact_array)."
        raise InputError(
            f"params hold {found}: expected arrays of float32 only (float64 only under jax_enable_x64); freeze others with "
            f"trainable=, and convert to half precision in the loss.{parts if module else ''}"
        )
    if types == {"float64"} and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise InputError("params hold float64 but jax_enable_x64 is off: turn it on, or convert them to float32.")
    if not any(leaf.size for leaf in leaves):
        raise InputError("params have no entries: there is nothing to train.")
    if not all(np.isfinite(leaf).all() for leaf in leaves):
        raise InputError("params have values that are not finite: start from finite ones.")


def check_used(params: Tree, recorded: RecordedLoss) -> None:
    """Raise ``InputError`` if a parameter has no gradient at all: it would be noise, or the state of a layer."""
    if recorded.unused:
        name = _paths(params)[recorded.unused[0]]
        raise InputError(
            f"the loss has no gradient by params{name}, whatever the example is: it would be released as noise alone. Freeze it "
            "with trainable=, or take it out; a layer's running statistics (batch normalisation) are no parameters."
        )


def _paths(params: Tree) -> list[str]:
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]


def checked_examples(run: Run, examples: Tree, *, part: bool = False) -> Tree:
    """The examples as arrays; ``part`` of the run's, where other processes have the others."""
    parts = jax.tree.leaves(examples, is_leaf=lambda one: isinstance(one, PersonExamples))
    if run.unit != "person" and any(isinstance(one, PersonExamples) for one in parts):
        raise InputError("the examples are persons, and a record of the run is a row: use a run with unit='person'.")
    if run.sampling.ordered and any(isinstance(one, InterleavedPersons) for one in parts):
        raise InputError(INTERLEAVED)
    if any(map(is_key, jax.tree.leaves(examples))):
        raise InputError("examples hold random keys: leave them out; with rng=True the loss gets one for each example and step.")
    columns = columns_of(examples)
    own = len(columns[0]) if part and columns and columns[0].ndim else run.n
    if not columns or not own or any(column.ndim == 0 or len(column) != own for column in columns):
        found, wanted = ", ".join(str(column.shape) for column in columns[:4]) or "nothing", f"the run's n = {run.n}"
        more = f", and {len(columns) - 4:,} more" if len(columns) > 4 else ""
        remedy = " A list of examples is stacked first: (np.stack(X), np.stack(y))." if isinstance(examples, list) else ""
        if any(isinstance(leaf, Iterable) and not hasattr(leaf, "__array__") for leaf in jax.tree.leaves(examples)):
            remedy = _NO_LOADER
        raise InputError(
            f"examples have shapes {found}{more}: expected arrays with {'one number' if part else wanted} in front.{remedy}"
        )
    for column in columns:
        if column.dtype.kind not in "biuf":
            raise InputError(f"examples hold {column.dtype}: expected numbers.")
    with np.errstate(over="ignore"):
        held = [column.astype(jax.dtypes.canonicalize_dtype(column.dtype), copy=False) for column in columns]
    for column, kept in zip(columns, held, strict=True):
        if kept.dtype.kind == "f" and not np.isfinite(kept).all():
            raise InputError(f"examples have values that are not finite as {kept.dtype}: clean them first.")
        if kept.dtype.kind in "iu" and not np.array_equal(kept, column):
            raise InputError(f"examples have whole numbers beyond {kept.dtype}: number them anew, or turn on jax_enable_x64.")
    return jax.tree.unflatten(jax.tree.structure(examples), held)
