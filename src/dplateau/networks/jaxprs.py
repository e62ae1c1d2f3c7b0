"""Reading and evaluating jaxprs, JAX's record of what a function computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr  # pyright: ignore[reportAttributeAccessIssue]

Array: TypeAlias = Any

T = TypeVar("T")
Rule: TypeAlias = Callable[[Any, list[T], Callable[[list[Array]], list[Array]]], list[T]]
"""What an equation gives at values of a kind; the last argument is JAX's own evaluation of it, at arrays."""

_INLINED: Final = ("jit", "pjit", "closed_call", "checkpoint", "remat2")
"""Equations that stand for the jaxpr inside them. What ``jax.checkpoint`` would compute twice is kept."""

_LOOPS: Final = ("scan", "while", "cond")


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations, those of inner jaxprs (loops, branches, custom derivatives) included."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in chain.from_iterable(map(_inner, equation.params.values())):
            yield from equations(getattr(inner, "jaxpr", inner))


def _inner(value: Any) -> list[Any]:
    """The jaxprs among the parameters of an equation."""
    return [one for one in (value if isinstance(value, tuple | list) else [value]) if hasattr(getattr(one, "jaxpr", one), "eqns")]


def walked(closed: Any, inputs: Sequence[T], constant: Callable[[Array], T], rule: Rule[T]) -> list[T]:
    """Evaluate a jaxpr, and those inside it, at values of another kind, which ``constant`` makes of arrays.

    Constants may be NumPy's, of which a ``custom_vjp`` that keeps them could not take an entry by a traced number.
    """
    jaxpr, consts = getattr(closed, "jaxpr", closed), map(jnp.asarray, getattr(closed, "consts", ()))
    known: dict[Any, T] = dict(zip(jaxpr.constvars, map(constant, consts), strict=True))
    known |= zip(jaxpr.invars, inputs, strict=True)

    def read(variable: Any) -> T:
        return constant(variable.val) if hasattr(variable, "val") else known[variable]

    for equation in jaxpr.eqns:
        values = [read(variable) for variable in equation.invars]
        if equation.primitive.name in _INLINED:
            found = walked(equation.params["jaxpr"], values, constant, rule)
        else:
            found = rule(equation, values, partial(_evaluated, jaxpr, equation))
        known |= zip(equation.outvars, found, strict=True)
    return [read(variable) for variable in jaxpr.outvars]


def replaced_in_loops(closed: Any, rule: Callable[[Any, list[Array]], Array | None], inside: bool = False) -> Any:
    """The same jaxpr with what ``rule`` gives for equations in its loops and branches; None leaves one as it is."""

    def at(equation: Any, values: list[Array], evaluated: Callable[[list[Array]], list[Array]]) -> list[Array]:
        if inside and (found := rule(equation, values)) is not None:
            return [found]
        if equation.primitive.name not in _LOOPS:
            return evaluated(values)
        change = partial(replaced_in_loops, rule=rule, inside=True)
        params = {name: _mapped(change, value) if _inner(value) else value for name, value in equation.params.items()}
        return _evaluated(closed.jaxpr, equation.replace(params=params), values)

    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    return jax.make_jaxpr(lambda *values: walked(closed, values, lambda value: value, at))(*shapes)


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    return tuple(map(change, value)) if isinstance(value, tuple | list) else change(value)


def _evaluated(jaxpr: Any, equation: Any, values: list[Array]) -> list[Array]:
    """The results of one equation, by JAX's own evaluation of the jaxpr that it is alone; None for one that nothing uses."""
    given = {variable: value for variable, value in zip(equation.invars, values, strict=True) if not hasattr(variable, "val")}
    outputs = [variable for variable in equation.outvars if type(variable).__name__ != "DropVar"]
    alone = jaxpr.replace(
        constvars=[], invars=list(given), outvars=outputs, eqns=[equation], debug_info=jaxpr.debug_info.with_unknown_names()
    )
    found = dict(zip(outputs, eval_jaxpr(alone, [], *given.values()), strict=True))
    return [found.get(variable) for variable in equation.outvars]


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
