"""Persons with several rows, for networks: a person is one example, of up to a public number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.spec import InputError
from dplateau.spec.arguments import check_unmasked, integer
from dplateau.training.persons import codes_of, interleaved

Tree: TypeAlias = Any


class PersonExamples(NamedTuple):
    """Persons as examples for ``train_network``; made by ``by_person``.

    Attributes
    ----------
    rows : tree of arrays of shape (n, most, ...)
        The rows of each person; where there are fewer, the first of them again.
    weight : array of shape (n, most), float32
        One over the number of the person's rows, and 0 where a row only fills a place.
    """

    rows: Tree
    weight: NDArray[np.float32]


class InterleavedPersons(PersonExamples):
    """Persons of whom some have rows of others in between. A row less could move them, so no run takes them in a fixed order."""


def by_person(examples: Tree, groups: ArrayLike, *, most: int) -> PersonExamples:
    """The rows of each person as one example; a run on them has ``unit="person"``, and n is the number of persons.

    Parameters
    ----------
    examples : tree of arrays
        The rows, each array with their number in front; private.
    groups : array of shape (rows,)
        Whose each row is: texts or whole numbers, in any order; private. Persons are numbered by their first rows. For a run that
        takes them in a fixed order (``Cyclic``) the rows of each must follow one another: sort them before, in a public order.
    most : int
        Rows of a person that are used, the first ones. Public: choose it without looking at the rows. Memory and time grow with it,
        for every person.

    Returns
    -------
    PersonExamples
        What ``train_network`` takes as examples, with ``loss_of_person(loss)``.

    Raises
    ------
    InputError
        There is not one label a row, or one is missing or of another type than the others; or entries are masked.
    """
    most = integer("most", most)
    columns = columns_of(examples)
    if not columns or any(column.ndim == 0 or len(column) != len(columns[0]) for column in columns):
        raise InputError("examples have no rows, or arrays of several lengths: expected one row a label in each.")
    codes = codes_of(groups, len(columns[0]))
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    place = np.arange(most)
    used = np.minimum(counts, most)[:, None]
    rows = order[(np.cumsum(counts) - counts)[:, None] + np.where(place < used, place, 0)]
    weight = np.where(place < used, 1 / used, 0).astype(np.float32)
    held = [column[rows] for column in columns]
    kind = InterleavedPersons if interleaved(codes) else PersonExamples
    return kind(jax.tree.unflatten(jax.tree.structure(examples), held), weight)


def columns_of(examples: Tree) -> list[NDArray[Any]]:
    """The arrays of a tree; raises ``InputError`` where entries are masked: NumPy would use what stands below the mask."""
    leaves = jax.tree.leaves(examples)
    check_unmasked(leaves, "examples")
    return [_column(leaf) for leaf in leaves]


def _column(leaf: Any) -> NDArray[Any]:
    try:
        return np.asarray(leaf)
    except (ValueError, TypeError, RuntimeError):  # data sets and some tensors of torch
        raise InputError(
            f"examples hold a {type(leaf).__name__}, which NumPy does not read: give arrays of all examples."
        ) from None


def loss_of_person(loss: Callable[[Tree, Tree], Any]) -> Callable[[Tree, PersonExamples], Any]:
    """The mean of the losses of a person's rows, as a loss for ``train_network``.

    The gradient of this mean is clipped, not that of each row: a person counts once, however many rows there are.

    Parameters
    ----------
    loss : callable
        ``loss(params, row)``, a number.
    """

    def of_person(params: Tree, person: PersonExamples) -> Any:
        return jnp.dot(jax.vmap(lambda row: loss(params, row))(person.rows), person.weight)

    return of_person
