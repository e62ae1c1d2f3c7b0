"""Before the first step: what the compiled gradients do with made-up examples. No record is looked at.

The proof of a step needs that what an example contributes is a function of that example and of the weights. JAX's ``vmap`` means it
so, but a compiled function works on a microbatch, and its kernels might treat the last places of a block in another way than the
first. So the functions that the training will call are called with random examples, in different places and among different
neighbours, some of which overflow or are no numbers, and must give the same bits. **This is a test of the compiled code, not a
proof**: it shows what depends on the place for the examples that were tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.networks.clipped_sums import ClippedSums
from dplateau.networks.compiled import CompiledLoop
from dplateau.networks.device import ways
from dplateau.networks.loop import Loop, State
from dplateau.networks.memory import give_back
from dplateau.networks.rounded import across
from dplateau.spec import InputError
from dplateau.training.exact_products import accelerated, check_products

Tree: TypeAlias = Any
Kind: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]

_ORDERS: Final = 4
_NUMBERS, _EXAMPLES, _MOST_SETS, _ENOUGH = 1 << 13, 1 << 8, 32, 1 << 26
"""A place may round otherwise once in hundreds of numbers, or for one example in fifty a number that all of its gradient is
multiplied with. So several sets of examples are tried, until there are so many numbers of gradients and so many examples, or more
numbers than take half a second.
"""
_SCALES: Final = 1.0, 4.0, 32.0
"""What the examples of sets after the first one are multiplied with, in turn: sums that cancel are rounded otherwise more often."""
_AGAIN: Final = slice(2, 4)
"""The orders for sets after the first one: backwards, so that no example stays in its half, and at random."""
_KINDS: Final[tuple[Kind, ...]] = (
    lambda rng, shape: rng.normal(size=shape),
    lambda rng, shape: rng.uniform(size=shape),
    lambda _, shape: np.zeros(shape),
)


def check_gradients(loop: Loop, state: State) -> None:
    """Raise ``InputError`` unless some made-up example has a finite gradient, and none depends on its place or its neighbours.

    The first parameters, and others near them, are tried.
    """
    rng, summed, keyed = np.random.default_rng(0), loop.summed, loop.keyed
    count = lambda where, rows: int(np.sum(summed.contributions(where, rows)[1]))  # noqa: E731
    where, sets, others = _made(count, state.params, summed, summed.micro, keyed, rng)
    orders = _orders(np.arange(summed.micro), rng)
    halves = [(order, order % 2 == k % 2) for k, order in enumerate(orders)]
    tried = [*((order, np.ones(len(order), bool)) for order in orders), *halves]

    def alike(rows: Tree, tried: list[tuple[NDArray[Any], NDArray[np.bool]]]) -> bool:
        """Whether each of these examples contributes the same in these orders, where some of them are others'."""
        alone = _bits(summed, where, rows)
        for k, (order, kept) in enumerate(tried):
            beside = others[k % len(others)]
            mixed = jax.tree.map(lambda a, b, order=order, kept=kept: np.where(across(kept, a), a[order], b), rows, beside)
            if any((a[order][kept] != b[kept]).any() for a, b in zip(alone, _bits(summed, where, mixed), strict=True)):
                return False
        return True

    def same() -> bool:
        """Whether examples contribute the same everywhere."""
        check_products(summed.products(state.params, keyed) if accelerated() else ())
        return alike(sets[0], tried) and all(alike(rows, tried[_AGAIN]) for rows in sets[1:])

    _find_way(summed, (), same)


def check_loop(loop: CompiledLoop, state: State) -> None:
    """The same for a compiled loop.

    Its gradients are not to be seen, but sums of what examples contribute are whole numbers. So those of two parts of the examples
    add up to that of all, in whatever places they are, and whatever is beside them. And all microbatches of a step see the same
    weights, so that two of them may change places.
    """
    rng, summed = np.random.default_rng(0), loop.summed
    places, number = np.arange(min(loop.most, summed.micro), dtype=np.int32), min(loop.most, max(2, summed.micro))

    def sums(where: Tree, rows: Tree, index: NDArray[np.int32], used: int) -> NDArray[np.float64]:
        return loop.sums_of(state._replace(params=where), rows, index, used)

    count = lambda where, rows: int(sums(where, rows, places, len(places))[-1] // summed.lattice.tally)  # noqa: E731
    where, sets, others = _made(count, state.params, summed, number, loop.keyed, rng)
    orders, half = _orders(places, rng), len(places) // 2

    def alike(rows: Tree, orders: list[NDArray[Any]]) -> bool:
        """Whether the sums of these examples, and of halves of them, are the same in these orders."""
        everybody = sums(where, rows, places, len(places))
        for k, order in enumerate(orders):
            kept = np.isin(np.arange(number), order[:half])
            mixed = jax.tree.map(lambda a, b, kept=kept: np.where(across(kept, a), a, b), rows, others[k % len(others)])
            one, other = sums(where, rows, order, half), sums(where, rows, np.roll(order, -half), len(places) - half)
            found = (
                sums(where, rows, order, len(places)) - everybody,
                one + other - everybody,
                one - sums(where, mixed, order, half),
            )
            if any(difference.any() for difference in found):
                return False
        return True

    def same() -> bool:
        """Whether examples contribute the same everywhere."""
        check_products(summed.products(state.params, loop.keyed))
        if not (alike(sets[0], orders) and all(alike(rows, orders[_AGAIN]) for rows in sets[1:])):
            return False
        if loop.room < 2 or loop.most <= summed.micro:
            return True
        parts = np.append(*(np.resize(part, summed.micro) for part in np.array_split(np.arange(number, dtype=np.int32), 2)))
        one, other = loop.sums_in_turns(state._replace(params=where), sets[0], parts)
        return bool((one == other).all())

    _find_way(summed, loop.compiled(state), same)


def _find_way(summed: ClippedSums, more: tuple[Any, ...], same: Callable[[], bool]) -> None:
    """Choose the first way to compile in which examples contribute the ``same`` everywhere.

    Raises ``InputError`` if there is none; ``more`` distinguishes the compiled functions, too.
    """
    for summed.way in range(ways()):
        compiled, tested = (*summed.compiled, *more), summed.recorded.tested
        if compiled not in tested:
            give_back()  # Something was compiled.
            tested[compiled] = same()
        if tested[compiled]:
            return
    raise InputError(
        f"on this machine the gradient of an example depends on its place in a microbatch of {summed.micro}, or on the others: "
        "what one record contributes has no bound. Pass another microbatch; 1 works on each example alone."
    )


def _made(
    count: Callable[[Tree, Tree], int], params: Tree, summed: ClippedSums, number: int, keyed: bool, rng: np.random.Generator
) -> tuple[Tree, list[Tree], list[Tree]]:
    """Parameters, sets of ``number`` made-up examples of which most have a finite gradient, by ``count``, and others, of four
    kinds.
    """
    near = jax.tree.map(lambda leaf: (np.asarray(leaf) + 0.1 * rng.normal(size=leaf.shape)).astype(leaf.dtype), params)

    def one(kind: Kind, scale: float = 1.0) -> Tree:
        rows = _rows(rng, lambda *given: scale * kind(*given), summed.examples, number)
        return (rows, rng.integers(0, 1 << 32, (number, 2), dtype=np.uint32)) if keyed else rows

    made = [one(kind) for kind in _KINDS]
    found = {(at, kind): count(where, rows) for at, where in enumerate((near, params)) for kind, rows in enumerate(made)}
    at, kind = max(found, key=lambda key: found[key])
    if not found[at, kind]:
        raise InputError(
            "the loss has no finite gradient at any of the made-up examples (normal numbers, numbers from 0 to 1, zeros): it may "
            "have none at all, and then noise alone would be released. Make it finite there, for example by clipping its inputs."
        )
    others = made[kind - 1]
    numbers = number * summed.weights
    more = min(_MOST_SETS, max(_NUMBERS // numbers, min(_EXAMPLES // number, _ENOUGH // numbers), 1)) - 1
    sets = [made[kind], *(one(_KINDS[kind], _SCALES[k % len(_SCALES)]) for k in range(more))]
    return (near, params)[at], sets, [others, *(_filled(others, value) for value in ("nan", "inf", "max"))]


def _filled(rows: Tree, value: str) -> Tree:
    """The same rows, all real numbers of which are not a number, infinite, or the largest of their type."""

    def column(one: NDArray[Any]) -> NDArray[Any]:
        real = jnp.issubdtype(one.dtype, jnp.floating)
        return np.full_like(one, jnp.finfo(one.dtype).max if value == "max" else float(value)) if real else one

    return jax.tree.map(column, rows)


def _orders(places: NDArray[Any], rng: np.random.Generator) -> list[NDArray[Any]]:
    return [places, np.roll(places, 1), places[::-1], *(rng.permutation(places) for _ in range(_ORDERS))]


def _rows(rng: np.random.Generator, kind: Callable[..., NDArray[np.float64]], examples: Tree, count: int) -> Tree:
    """Made-up examples: whole numbers are 0 or 1, which are classes or rows of nearly every table."""

    def column(like: NDArray[Any]) -> NDArray[Any]:
        shape = (count, *like.shape[1:])
        return (kind(rng, shape) if like.dtype.kind == "f" else rng.integers(0, 2, shape)).astype(like.dtype)

    return jax.tree.map(column, examples)


def _bits(summed: ClippedSums, params: Tree, rows: Tree) -> list[NDArray[Any]]:
    """All that the sum is made of, for each example, NaN equal to NaN."""
    gradients, valid, found = jax.device_get(summed.contributions(params, rows))
    arrays = jax.tree.leaves((gradients, valid, found))
    return [np.where(np.isnan(array), 0.5, array) if array.dtype.kind == "f" else array for array in arrays]
