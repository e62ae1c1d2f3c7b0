"""Clipped sums of per-example gradients of any differentiable loss, in one backward pass.

Almost all weights of a network enter its loss once, as the matrix of a product ``Y = X W`` whose rows are the places of an example.
The gradient by W at one example is ``X' G``, with G the derivative by Y. So one backward pass by all Y at once gives everything:
the norms from X and G, and then the sum of the clipped gradients, in matrix products as large as those of an ordinary backward pass
(Goodfellow 2015, "Efficient per-example gradient computations", for the norm; Bu, Wang, Zha, Karypis 2023, "Differentially private
optimization on large model at small cost", for the sum from the same pass).

The loss is traced, not rewritten. A walk over its jaxpr finds the products, convolutions and look-ups that use a weight directly,
adds zeros to their results to differentiate by, and keeps their inputs. A weight that is used in another way, or more than once,
gets a copy for every example and is differentiated by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr  # pyright: ignore[reportAttributeAccessIssue]
from numpy.typing import NDArray

from dplateau.networks.primitives import check_primitives
from dplateau.networks.rounded import Formed, Gradient
from dplateau.networks.sites import LookUp, Site, site_of
from dplateau.spec import InputError

Array: TypeAlias = Any
Tree: TypeAlias = Any
Loss: TypeAlias = Callable[[Any, Any], Any]
"""``loss(params, example)``: a number, from trees of arrays."""

_INLINED: Final = ("jit", "pjit", "closed_call")


class Tagged(NamedTuple):
    """A value on the walk, and which leaf of the parameters it is, if it is one."""

    value: Array
    leaf: int | None = None


Visit: TypeAlias = Callable[[Any, Sequence[Tagged]], Array | None]


@dataclass(frozen=True, eq=False)
class RecordedLoss:
    """A loss and the uses of its weights; made by ``record``.

    Attributes
    ----------
    jaxpr : ClosedJaxpr
        The loss of the leaves of the parameters and of one example.
    sites : dict from int to Site
        The leaves that are used once, and how.
    leaves : int
        Number of leaves of the parameters.
    unused : tuple of int
        The leaves whose gradient is zero, whatever the example and the parameters are.
    tested : set
        The compiled functions that were found to work on each example by itself, by what distinguishes them.
    """

    jaxpr: Any
    sites: dict[int, Site]
    leaves: int
    unused: tuple[int, ...]
    tested: set[tuple[Any, ...]] = field(default_factory=set[tuple[Any, ...]])

    def gradients(self, params: Tree, examples: Tree) -> list[Gradient]:
        """The gradient of every example by each leaf of the parameters.

        Parameters
        ----------
        params : tree of arrays
            The parameters.
        examples : tree of arrays
            The examples, each array with their number B in front.
        """
        weights, rows = (list(map(jnp.asarray, jax.tree.leaves(tree))) for tree in (params, examples))
        copied, size = [leaf for leaf in range(self.leaves) if leaf not in self.sites], len(rows[0])
        copies = [jnp.broadcast_to(weights[leaf], (size, *weights[leaf].shape)) for leaf in copied]

        def one(zeros: dict[int, Array], copies: list[Array], example: list[Array]) -> tuple[Array, dict[int, Array]]:
            mine = dict(zip(copied, copies, strict=True))
            return self._walked([mine.get(leaf, weights[leaf]) for leaf in range(self.leaves)], example, zeros)

        def total(zeros: dict[int, Array], copies: list[Array]) -> tuple[Array, dict[int, Array]]:
            losses, kept = jax.vmap(one)(zeros, copies, rows)
            return losses.sum(), kept

        zeros = {leaf: jnp.zeros((size, *shape.shape), shape.dtype) for leaf, shape in self._results(weights, rows).items()}
        (by_result, by_copy), kept = jax.grad(total, (0, 1), has_aux=True)(zeros, copies)
        found: dict[int, Gradient] = {leaf: site.gradients(kept[leaf], by_result[leaf]) for leaf, site in self.sites.items()}
        found |= {leaf: Formed(values) for leaf, values in zip(copied, by_copy, strict=True)}
        return [found[leaf] for leaf in range(self.leaves)]

    def arranged(self, sums: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Sums of such gradients in one row, each leaf in the order of its entries."""
        return np.concatenate([self.sites[k].arranged(one) if k in self.sites else one for k, one in enumerate(sums)])

    def footprint(self, params: Tree, examples: Tree) -> int:
        """Numbers that one example adds to memory, roughly: what is kept, its derivatives, the gradients that are formed."""
        weights, rows = list(map(jnp.asarray, jax.tree.leaves(params))), jax.tree.leaves(examples)
        copies = sum(weights[leaf].size for leaf in range(self.leaves) if leaf not in self.sites)
        results = self._results(weights, rows)
        return copies + sum(self.sites[leaf].footprint(*result.shape) for leaf, result in results.items())

    def _results(self, weights: list[Array], rows: list[Array]) -> dict[int, Any]:
        """Shapes of the results of the sites, for one example."""
        found: dict[int, Any] = {}

        def shapes(example: list[Array]) -> dict[int, Array]:
            self._walked(weights, example, None, found)
            return found

        return jax.eval_shape(shapes, [jax.ShapeDtypeStruct(row.shape[1:], row.dtype) for row in rows])

    def _walked(
        self, weights: list[Array], example: list[Array], zeros: dict[int, Array] | None, results: dict[int, Array] | None = None
    ) -> tuple[Array, dict[int, Array]]:
        """The loss, and what is kept of the sites; ``zeros`` are added to their results, which are written to ``results``."""
        kept: dict[int, Array] = {}

        def visit(_: Any, inputs: Sequence[Tagged]) -> Array | None:
            for position, (weight, leaf) in enumerate(inputs):
                if leaf in self.sites:
                    other = inputs[1 - position].value
                    if not isinstance(self.sites[leaf], LookUp):
                        # Bytes and half precision multiply weights as they are, but their own squares overflow.
                        other = other.astype(jnp.promote_types(weight.dtype, other.dtype))
                    product, kept[leaf] = self.sites[leaf].forward(weight, other)
                    if results is not None:
                        results[leaf] = product
                    return self.sites[leaf].result(product if zeros is None else product + zeros[leaf])
            return None

        inputs = [Tagged(weight, leaf) for leaf, weight in enumerate(weights)] + [Tagged(value) for value in example]
        return _walk(self.jaxpr.jaxpr, self.jaxpr.consts, inputs, visit)[0].value, kept


def record(loss: Loss, params: Tree, example: Tree) -> RecordedLoss:
    """Trace ``loss`` at parameters and one example, of which only shapes and types matter.

    The same loss at the same shapes gives the same object, so that what was compiled for it is used again; as under ``jax.jit``,
    what the function reads from outside itself is read once.

    Raises
    ------
    InputError
        The loss is no real number, uses what may mix examples or changes something outside itself, or a parameter is no array of
        real numbers in the working precision.
    """
    leaves, structure = jax.tree.flatten(params)
    if not leaves or any(not jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in leaves):
        raise InputError("params must be a tree of arrays of real numbers: keep everything that is not trained out of it.")
    rows, rows_structure = jax.tree.flatten(example)
    shapes = tuple((jnp.shape(value), jnp.result_type(value)) for value in (*leaves, *rows))
    x64 = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    try:
        hash(loss)
    except TypeError:  # a callable object that holds arrays
        return _traced.__wrapped__(loss, structure, rows_structure, shapes, x64)
    return _traced(loss, structure, rows_structure, shapes, x64)


@lru_cache(maxsize=8)
def _traced(
    loss: Loss, structure: Any, rows_structure: Any, shapes: tuple[tuple[tuple[int, ...], Any], ...], _: bool
) -> RecordedLoss:
    count = structure.num_leaves
    values = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]

    def flat(*values: Array) -> Array:
        return loss(structure.unflatten(values[:count]), rows_structure.unflatten(values[count:]))

    jaxpr = _without_traces(lambda: jax.make_jaxpr(flat)(*values))
    found = [(out.shape, str(out.dtype)) for out in jaxpr.out_avals]
    if len(found) != 1 or found[0][0] or not jnp.issubdtype(jaxpr.out_avals[0].dtype, jnp.floating):
        raise InputError(
            f"loss gives {found} at one example: expected one number. It is called with one example at a time, without a batch "
            "axis."
        )
    check_primitives(jaxpr.jaxpr)
    # Custom derivatives are functions that only differentiation calls.
    gradient = jax.make_jaxpr(jax.grad(flat, tuple(range(count))))(*values)
    check_primitives(gradient.jaxpr)
    uses: Counter[int] = Counter()
    sites: dict[int, Site] = {}

    def visit(equation: Any, inputs: Sequence[Tagged]) -> None:
        tags = [one.leaf for one in inputs]
        uses.update(leaf for leaf in tags if leaf is not None)
        for position, leaf in enumerate(tags):
            if leaf is not None and (site := site_of(equation, position)) is not None:
                sites[leaf] = site
                break  # A product of two weights is the site of the first; the second gets copies.

    def walked(*values: Array) -> Array:
        inputs = [Tagged(value, leaf if leaf < count else None) for leaf, value in enumerate(values)]
        outputs = _walk(jaxpr.jaxpr, jaxpr.consts, inputs, visit)
        uses.update(one.leaf for one in outputs if one.leaf is not None)
        return outputs[0].value

    jax.eval_shape(walked, *values)
    return RecordedLoss(jaxpr, {leaf: site for leaf, site in sites.items() if uses[leaf] == 1}, count, _zeros(gradient))


def _without_traces(trace: Callable[[], Any]) -> Any:
    """What ``trace`` gives; raises ``InputError`` where it leaves something behind, as a running mean does, or names an axis."""
    try:
        with jax.checking_leaks():
            return trace()
    except NameError as error:
        if "axis name" not in str(error):
            raise
        raise InputError("the loss uses a collective (psum, axis_index): it sees one example, and there is no axis.") from None
    except Exception as error:
        if not str(error).startswith("Leaked"):
            raise
        raise InputError(
            "the loss changes something outside itself (a running mean of a batch normalisation, a list): it is traced once, and "
            "the change would be lost. Make it a function of the parameters and one example; use layer or group normalisation."
        ) from None


def _zeros(gradient: Any) -> tuple[int, ...]:
    """The outputs of a jaxpr that depend on no input and are zero."""
    jaxpr, found = gradient.jaxpr, []
    for number, output in enumerate(jaxpr.outvars):
        needed, used = [], set() if hasattr(output, "val") else {output}
        for equation in reversed(jaxpr.eqns):
            if used.intersection(equation.outvars):
                needed.append(equation)
                used.update(variable for variable in equation.invars if not hasattr(variable, "val"))
        if used.isdisjoint(jaxpr.invars):
            alone = jaxpr.replace(invars=[], outvars=[output], eqns=needed[::-1], debug_info=jaxpr.debug_info.with_unknown_names())
            if not jnp.any(eval_jaxpr(alone, gradient.consts)[0]):
                found.append(number)
    return tuple(found)


def _walk(jaxpr: Any, consts: Sequence[Array], inputs: Sequence[Tagged], visit: Visit) -> list[Tagged]:
    """Evaluate a jaxpr; ``visit`` sees every equation with its inputs, and may give its result instead."""
    known: dict[Any, Tagged] = dict(zip(jaxpr.constvars, map(Tagged, consts), strict=True))
    known |= dict(zip(jaxpr.invars, inputs, strict=True))

    def read(variable: Any) -> Tagged:
        return Tagged(variable.val) if hasattr(variable, "val") else known[variable]

    for equation in jaxpr.eqns:
        values = [read(variable) for variable in equation.invars]
        if equation.primitive.name in _INLINED:
            inner = equation.params["jaxpr"]
            known |= dict(zip(equation.outvars, _walk(inner.jaxpr, inner.consts, values, visit), strict=True))
        elif (result := visit(equation, values)) is not None:
            known[equation.outvars[0]] = Tagged(result)
        else:
            known |= {variable: Tagged(value) for variable, value in _evaluated(jaxpr, equation, read).items()}
    return [read(variable) for variable in jaxpr.outvars]


def _evaluated(jaxpr: Any, equation: Any, read: Callable[[Any], Tagged]) -> dict[Any, Array]:
    """The results of one equation, by JAX's own evaluation of the jaxpr that it is alone."""
    inputs = list(dict.fromkeys(variable for variable in equation.invars if not hasattr(variable, "val")))
    outputs = [variable for variable in equation.outvars if type(variable).__name__ != "DropVar"]
    alone = jaxpr.replace(
        constvars=[], invars=inputs, outvars=outputs, eqns=[equation], debug_info=jaxpr.debug_info.with_unknown_names()
    )
    return dict(zip(outputs, eval_jaxpr(alone, [], *(read(variable).value for variable in inputs)), strict=True))
