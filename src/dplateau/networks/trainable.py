"""Which leaves of the parameters are trained; the others are constants, which take no part of the clip norm and get no noise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dplateau.spec import InputError

Array: TypeAlias = Any
Tree: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Parts:
    """The parameters in two parts.

    Attributes
    ----------
    structure : PyTreeDef
        That of the parameters.
    trained : tuple of bool
        Which of their leaves are trained.
    start : tree of arrays
        The parameters, with None in place of what is frozen.
    frozen : tuple of arrays
        The frozen leaves, in their order.
    """

    structure: Any
    trained: tuple[bool, ...]
    start: Tree
    frozen: tuple[Array, ...] = ()

    def whole(self, trained: Tree) -> Tree:
        """All parameters, from a tree like ``start``."""
        return merged(self.structure, self.trained, jax.tree.leaves(trained), self.frozen) if self.frozen else trained

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of what is frozen, and of where it stands; None where nothing is."""
        return digest_of(repr(self.trained), self.frozen) if self.frozen else None


def digest_of(head: str, leaves: Iterable[Any]) -> str:
    """SHA-256 of a word and of arrays, which may be random keys."""
    digest = hashlib.sha256(head.encode())
    for leaf in leaves:
        array = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def merged(structure: Any, trained: tuple[bool, ...], ours: Any, frozen: Any) -> Tree:
    """A tree whose trained leaves are ``ours``, one after the other, and whose others are ``frozen``."""
    first, second = iter(ours), iter(frozen)
    return structure.unflatten([next(first) if one else next(second) for one in trained])


def parts_of(params: Tree, trainable: Tree) -> Parts:
    """The parameters, divided by a tree of booleans that is a prefix of theirs; None trains all.

    Raises
    ------
    InputError
        The tree is no such prefix or trains nothing, or a frozen leaf is not an array of numbers.
    """
    leaves, structure = jax.tree.flatten(params)
    if trainable is None:
        return Parts(structure, (True,) * len(leaves), params)
    try:
        given = jax.tree.leaves(jax.tree.broadcast(trainable, params))
    except ValueError:
        raise InputError(
            "trainable does not fit params: expected their tree, or its upper part, with True (trained) or False (frozen) in it."
        ) from None
    if any(not isinstance(one, bool | np.bool) for one in given):
        raise InputError(f"trainable holds {_names(given)}: expected True (trained) or False (frozen) in a tree like params.")
    trained = tuple(map(bool, given))
    if not any(trained):
        raise InputError("trainable is False everywhere: nothing would be trained.")
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    frozen = tuple(_constant(path, leaf) for path, leaf, one in zip(paths, leaves, trained, strict=True) if not one)
    if not frozen:
        return Parts(structure, trained, params)
    ours = [leaf for leaf, one in zip(leaves, trained, strict=True) if one]
    return Parts(structure, trained, merged(structure, trained, ours, [None] * len(frozen)), frozen)


def _constant(path: str, leaf: Any) -> Array:
    """The leaf as JAX has it, every number unchanged."""
    if is_key(leaf) or not hasattr(leaf, "__array__"):
        raise InputError(f"params{path} is {_names([leaf])}: expected arrays of numbers; keep everything else out of params.")
    given = np.asarray(leaf)
    kept = jnp.asarray(given) if given.dtype.kind in "biuf" or given.dtype == jnp.bfloat16 else None
    if kept is None or not np.array_equal(np.asarray(kept), given, equal_nan=jnp.issubdtype(given.dtype, jnp.floating)):
        wanted = "numbers" if kept is None else f"numbers that {kept.dtype} holds"
        raise InputError(f"params{path} holds {given.dtype}: expected {wanted}, also where nothing is trained.")
    return kept


def is_key(leaf: Any) -> bool:
    """Whether it is an array of JAX's random keys."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # JAX does not know torch's types


def _names(values: list[Any]) -> str:
    return ", ".join(sorted({str(getattr(value, "dtype", type(value).__name__)) for value in values}))
