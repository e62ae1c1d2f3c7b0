"""Reading and evaluating jaxprs, JAX's record of what a function computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax.numpy as jnp
from jax.core import eval_jaxpr  # pyright: ignore[reportAttributeAccessIssue]

Array: TypeAlias = Any

INLINED: Final = ("jit", "pjit", "closed_call")
"""Equations that stand for the jaxpr inside them."""


def evaluated(jaxpr: Any, equation: Any, read: Callable[[Any], Array]) -> dict[Any, Array]:
    """The results of one equation, by JAX's own evaluation of the jaxpr that it is alone."""
    inputs = list(dict.fromkeys(variable for variable in equation.invars if not hasattr(variable, "val")))
    outputs = [variable for variable in equation.outvars if type(variable).__name__ != "DropVar"]
    alone = jaxpr.replace(
        constvars=[], invars=inputs, outvars=outputs, eqns=[equation], debug_info=jaxpr.debug_info.with_unknown_names()
    )
    return dict(zip(outputs, eval_jaxpr(alone, [], *(read(variable) for variable in inputs)), strict=True))


def zero_outputs(gradient: Any) -> tuple[int, ...]:
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
