"""The form that plans had in 0.1, ``plan_noisy_sgd(n, loss, epsilon=...)``. Goes with 0.3, and so do the lines that name it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from dplateau.algorithms.problem import Budget, Problem
from dplateau.spec.arguments import of_type

P = ParamSpec("P")
T = TypeVar("T")


def also_by_keywords(*positional: str, **defaults: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function of a problem and a budget take their fields as well, with a ``DeprecationWarning``.

    ``positional`` are the names of arguments that could go without, ``defaults`` what other values were by default; ``d=None``
    where d was not asked for.
    """

    def also(make: Callable[P, T]) -> Callable[P, T]:
        @wraps(make)
        def made(*args: Any, **options: Any) -> Any:
            if any(isinstance(value, Problem | Budget) for value in (*args, *options.values())):
                given = signature(make).bind_partial(*args, **options).arguments
                for name, kind in (("problem", Problem), ("budget", Budget)):
                    if name in given:
                        of_type(name, given[name], kind)
                return make(*args, **options)  # type: ignore[call-arg]
            warnings.warn(
                f"{make.__name__} takes a Problem and a Budget, of dplateau.algorithms: their fields as arguments are deprecated.",
                DeprecationWarning,
                stacklevel=2,
            )
            if len(args) > len(positional):
                raise TypeError(f"{make.__name__} takes {len(positional)} arguments without a name: name the others.")
            options = {**defaults, **dict(zip(positional, args, strict=False)), **options}
            if options.get("d", 1) is None:
                options["d"] = len(options["l2"]) if isinstance(options.get("l2"), Sequence) else 1
            return make(problem=_taken(Problem, options), budget=_taken(Budget, options), **options)  # type: ignore[call-arg]

        return made

    return also


def _taken(kind: type[Any], options: dict[str, Any]) -> Any:
    """The value of a kind made from what ``options`` have of its fields, which are taken out."""
    return kind(**{field.name: options.pop(field.name) for field in fields(kind) if field.name in options})
