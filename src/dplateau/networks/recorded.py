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
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from dplateau.networks.jaxprs import equations, replaced_in_loops, walked, zero_outputs
from dplateau.networks.low_rank import reassociated
from dplateau.networks.patches import CONVOLUTION, convolved
from dplateau.networks.primitives import check_convolutions, check_primitives
from dplateau.networks.rounded import Formed, Gradient
from dplateau.networks.sites import LookUp, Site, site_of
from dplateau.networks.trainable import Parts, merged, parts_of
from dplateau.spec import InputError

Array: TypeAlias = Any
Tree: TypeAlias = Any
Loss: TypeAlias = Callable[[Any, Any], Any]
"""``loss(params, example)``: a number, from trees of arrays."""

_PRIME: Final = 1009
"""Examples with which convolutions are traced: no kernel has so many groups, or a multiple."""

_CHANGES: Final = "Leaked", "Cannot mutate", "Cannot update variable"
"""How errors begin that tell of a changed state: JAX's, and those of flax for modules of nnx and linen."""


class Tagged(NamedTuple):
    """A value on the walk; which trained leaf of the parameters it is, perhaps in another precision, if it is one; and whether all
    examples share it, as they do what is frozen.
    """

    value: Array
    leaf: int | None = None
    shared: bool = True


Visit: TypeAlias = Callable[[Any, Sequence[Tagged]], Array | None]


@dataclass(frozen=True, eq=False)
class RecordedLoss:
    """A loss and the uses of its weights; made by ``record``.

    Attributes
    ----------
    jaxpr : ClosedJaxpr
        The loss of the trained leaves of the parameters, the frozen ones, and one example.
    sites : dict from int to Site
        The trained leaves that are used once, and how.
    leaves, weights : int
        Number of trained leaves, and of all leaves.
    unused : tuple of int
        The trained leaves whose gradient is zero, whatever the example and the parameters are.
    tested : dict
        Whether compiled functions were found to work on each example by itself, by what distinguishes them.
    """

    jaxpr: Any
    sites: dict[int, Site]
    leaves: int
    weights: int
    unused: tuple[int, ...]
    tested: dict[tuple[Any, ...], bool] = field(default_factory=dict[tuple[Any, ...], bool])

    def gradients(self, params: Tree, examples: Tree, frozen: Sequence[Array] = ()) -> list[Gradient]:
        """The gradient of every example by each trained leaf of the parameters.

        Parameters
        ----------
        params : tree of arrays
            The trained leaves.
        examples : tree of arrays
            The examples, each array with their number B in front.
        frozen : sequence of arrays
            The frozen leaves: constants.
        """
        weights, rows = (list(map(jnp.asarray, jax.tree.leaves(tree))) for tree in (params, examples))
        copied, size = [leaf for leaf in range(self.leaves) if leaf not in self.sites], len(rows[0])
        copies = [jnp.broadcast_to(weights[leaf], (size, *weights[leaf].shape)) for leaf in copied]

        def one(zeros: dict[int, Array], copies: list[Array], example: list[Array]) -> tuple[Array, dict[int, Array]]:
            mine = dict(zip(copied, copies, strict=True))
            ours = [mine.get(leaf, weights[leaf]) for leaf in range(self.leaves)]
            return self._walked([*ours, *frozen, *example], zeros)

        def total(zeros: dict[int, Array], copies: list[Array]) -> tuple[Array, dict[int, Array]]:
            losses, kept = jax.vmap(one)(zeros, copies, rows)
            return losses.sum(), kept

        zeros = {leaf: jnp.zeros((size, *shape.shape), shape.dtype) for leaf, shape in self._results.items()}
        (by_result, by_copy), kept = jax.grad(total, (0, 1), has_aux=True)(zeros, copies)
        found: dict[int, Gradient] = {
            leaf: site.gradients(*_widened(weights[leaf], kept[leaf], by_result[leaf])) for leaf, site in self.sites.items()
        }
        found |= {leaf: Formed(values) for leaf, values in zip(copied, by_copy, strict=True)}
        return [found[leaf] for leaf in range(self.leaves)]

    def arranged(self, sums: Sequence[Array]) -> list[Array]:
        """Sums of such gradients, each leaf in a row in the order of its entries."""
        return [self.sites[k].arranged(one) if k in self.sites else one for k, one in enumerate(sums)]

    @cached_property
    def footprint(self) -> int:
        """Numbers that one example adds to memory, roughly: what is kept, its derivatives, the gradients that are formed."""
        copies = sum(self.jaxpr.in_avals[leaf].size for leaf in range(self.leaves) if leaf not in self.sites)
        return copies + sum(self.sites[leaf].footprint(*result.shape) for leaf, result in self._results.items())

    @cached_property
    def _results(self) -> dict[int, Any]:
        """Shapes of the results of the sites, for one example."""
        found: dict[int, Any] = {}

        def shapes(values: list[Array]) -> dict[int, Array]:
            self._walked(values, None, found)
            return found

        return jax.eval_shape(shapes, [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in self.jaxpr.in_avals])

    def _walked(
        self, values: list[Array], zeros: dict[int, Array] | None, results: dict[int, Array] | None = None
    ) -> tuple[Array, dict[int, Array]]:
        """The loss, and what is kept of the sites; ``zeros`` are added to their results, which are written to ``results``."""
        kept: dict[int, Array] = {}

        def visit(equation: Any, inputs: Sequence[Tagged]) -> Array | None:
            if equation.primitive is CONVOLUTION and not (inputs[1].shared or inputs[1].leaf in self.sites):
                return convolved(equation, [one.value for one in inputs])
            for position, (weight, leaf, _) in enumerate(inputs):
                if leaf in self.sites:
                    other = inputs[1 - position].value
                    if not isinstance(self.sites[leaf], LookUp):
                        # Bytes and half precision multiply weights as they are, but their own squares overflow.
                        other = other.astype(jnp.promote_types(weight.dtype, other.dtype))
                    product, kept[leaf] = self.sites[leaf].forward(weight, other, equation.outvars[0].aval.dtype)
                    if results is not None:
                        results[leaf] = product
                    return self.sites[leaf].result(product if zeros is None else product + zeros[leaf])
            return None

        inputs = [
            Tagged(value, number if number < self.leaves else None, self.leaves <= number < self.weights)
            for number, value in enumerate(values)
        ]
        return _walk(self.jaxpr, inputs, visit)[0].value, kept


def _widened(weight: Array, kept: Array, derivatives: Array) -> tuple[Array, Array]:
    """What a site kept, and its derivatives, at least in the precision of the leaf: exactly, so that its gradient has it too."""
    kept = kept.astype(jnp.promote_types(weight.dtype, kept.dtype)) if _real(kept.dtype) else kept
    return kept, derivatives.astype(jnp.promote_types(weight.dtype, derivatives.dtype))


def record(loss: Loss, params: Tree, example: Tree, parts: Parts | None = None) -> RecordedLoss:
    """Trace ``loss`` at parameters and one example, of which only shapes and types matter.

    Where some parameters are frozen, ``parts`` says which, and ``params`` is ``parts.start``.

    The same loss at the same shapes gives the same object, so that what was compiled for it is used again; as under ``jax.jit``,
    what the function reads from outside itself is read once.

    Raises
    ------
    InputError
        The loss is not a real number, uses what may mix examples, changes something outside itself, or a parameter is not an array
        of real numbers in the working precision.
    """
    parts = parts_of(params, None) if parts is None else parts
    leaves = jax.tree.leaves(parts.start)
    if not leaves or any(not jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in leaves):
        raise InputError("params must be a tree of arrays of real numbers: keep everything that is not trained out of it.")
    rows, rows_structure = jax.tree.flatten(example)
    shapes = tuple((jnp.shape(value), jnp.result_type(value)) for value in (*leaves, *parts.frozen, *rows))
    x64 = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    given = (loss, parts.structure, parts.trained, rows_structure, shapes, x64)
    try:
        hash(loss)
    except TypeError:  # a callable object that holds arrays
        return _traced.__wrapped__(*given)
    return _traced(*given)


@lru_cache(maxsize=8)
def _traced(
    loss: Loss, structure: Any, trained: tuple[bool, ...], rows: Any, shapes: tuple[tuple[tuple[int, ...], Any], ...], _: bool
) -> RecordedLoss:
    count, leaves = sum(trained), structure.num_leaves
    values = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]

    def flat(*values: Array) -> Array:
        params = merged(structure, trained, values[:count], values[count:leaves])
        return loss(params, rows.unflatten(values[leaves:]))

    shown = f"one example, {_shown(shapes[leaves:])} without a batch axis"
    jaxpr = _without_traces(lambda: jax.make_jaxpr(flat)(*values), shown)
    gives = [(out.shape, str(out.dtype)) for out in jaxpr.out_avals]
    if len(gives) != 1 or gives[0][0] or not jnp.issubdtype(jaxpr.out_avals[0].dtype, jnp.floating):
        more = f" and {len(gives) - 3} more" if len(gives) > 3 else ""
        others = " Other values of private examples are not handed out: add terms to the number." if len(gives) > 1 else ""
        raise InputError(
            f"loss gives {gives[:3]}{more} at one example: expected one number. It is called with one example at a time, without a "
            f"batch axis.{others}"
        )
    check_primitives(jaxpr.jaxpr)
    # Custom derivatives are functions that only differentiation calls.
    gradient = _without_traces(lambda: jax.make_jaxpr(jax.grad(flat, tuple(range(count))))(*values), shown)
    check_primitives(gradient.jaxpr)
    if any(equation.primitive is CONVOLUTION for equation in equations(jaxpr.jaxpr)):
        jaxpr = replaced_in_loops(jaxpr, convolved)
    jaxpr = reassociated(jaxpr, count, leaves)
    uses: Counter[int] = Counter()
    sites: dict[int, Site] = {}

    def visit(equation: Any, inputs: Sequence[Tagged]) -> None:
        tags = [one.leaf for one in inputs]
        uses.update(leaf for leaf in tags if leaf is not None)
        for position, leaf in enumerate(tags):
            if leaf is not None and (site := site_of(equation, position)) is not None:
                sites[leaf] = site
                break  # A product of two weights is the site of the first; the second gets copies.

    def seen(*values: Array) -> Array:
        inputs = [Tagged(value, leaf if leaf < count else None) for leaf, value in enumerate(values)]
        outputs = _walk(jaxpr, inputs, visit)
        uses.update(one.leaf for one in outputs if one.leaf is not None)
        return outputs[0].value

    jax.eval_shape(seen, *values)
    once = {leaf: site for leaf, site in sites.items() if uses[leaf] == 1}
    found = RecordedLoss(jaxpr, once, count, leaves, zero_outputs(gradient))
    batch = [jax.ShapeDtypeStruct((_PRIME, *shape), dtype) for shape, dtype in shapes[leaves:]]
    several = _without_traces(
        lambda: jax.make_jaxpr(found.gradients)(values[:count], batch, values[count:leaves]), "a microbatch", False
    )
    check_primitives(several.jaxpr)
    check_convolutions(several.jaxpr, _PRIME)
    return found


def _shown(shapes: tuple[tuple[tuple[int, ...], Any], ...]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in shapes)


def _without_traces(trace: Callable[[], Any], where: str, own: bool = True) -> Any:
    """What ``trace`` gives; raises ``InputError`` where the loss fails, leaves something behind, as a running mean does (looked for
    where only its ``own`` code runs), or names an axis.
    """
    try:
        with jax.check_tracer_leaks(own):
            return trace()
    except InputError:
        raise
    except Exception as raised:
        # An error may leave traces behind, which JAX then tells of instead.
        error = raised.__context__ or raised if str(raised).startswith("Leaked") else raised
        said = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        if isinstance(error, NameError) and "axis name" in said:
            raise InputError("the loss uses a collective (psum, axis_index): it sees one example, and there is no axis.") from None
        if said.startswith(_CHANGES):
            raise InputError(
                "the loss changes something outside itself (a running mean of a batch normalisation, a layer's own random keys, a "
                "list): it is traced once, and the change would be lost. Make it a function of the parameters and one example; use "
                "layer or group normalisation, and the key of rng=True."
            ) from None
        raise InputError(
            f"the loss fails at {where}: {type(error).__name__}: {said[:300]}. Write it for one example, with operations that "
            "jax.grad and jax.vmap work on together; random numbers come from the key of rng=True."
        ) from error


def _walk(jaxpr: Any, inputs: Sequence[Tagged], visit: Visit) -> list[Tagged]:
    """Evaluate a jaxpr; ``visit`` sees every equation with its inputs, and may give its result instead."""

    def rule(equation: Any, values: list[Tagged], evaluated: Callable[[list[Array]], list[Array]]) -> list[Tagged]:
        converted = equation.primitive.name == "convert_element_type" and _real(equation.params["new_dtype"])
        if not converted and (result := visit(equation, values)) is not None:
            return [Tagged(result, shared=False)]
        leaf, shared = values[0].leaf if converted else None, all(one.shared for one in values)
        return [Tagged(value, leaf, shared) for value in evaluated([one.value for one in values])]

    return walked(jaxpr, inputs, Tagged, rule)


def _real(dtype: Any) -> bool:
    """Whether it holds real numbers, in at least half precision."""
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits >= 16
