"""Compiled loops whose number of steps is an argument.

After every iteration a processor asks itself whether to go on. An accelerator is asked by its host, which waits for the answer; in
that time it could make a good part of a small step. The host does not ask inside a loop whose length the compiler knew. So an
accelerator goes through groups of a fixed number of iterations, and on to the end of the last group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import jax

from dplateau.training.exact_products import accelerated

Array: TypeAlias = Any
Carry = TypeVar("Carry")

LARGEST: Final = 16
"""Iterations of a group, at most: a loop goes on for one less than so many."""
_GROUPS: Final = 64
"""Groups of the longest loop, at least: what is done after its end is a small part of it."""


def group_of(length: int) -> int:
    """Iterations of a group of a loop that has at most ``length``."""
    return max(1, min(LARGEST, length // _GROUPS)) if accelerated() else 1


def in_groups(count: Array, body: Callable[[Array, Carry], Carry], first: Carry, most: int) -> Carry:
    """``body(k, carry)`` for k from 0 to ``count``, which is at most ``most``, and on to the end of a group, where it must leave
    things as they are.
    """
    group = group_of(most)
    if group == 1:
        return jax.lax.fori_loop(0, count, body, first)

    def several(number: Array, carry: Carry) -> Carry:
        return jax.lax.fori_loop(0, group, lambda k, carry: body(number * group + k, carry), carry)

    return jax.lax.fori_loop(0, -(-count // group), several, first)
