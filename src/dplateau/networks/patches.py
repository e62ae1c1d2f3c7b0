"""Convolutions as products with patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
Index: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Patches:
    """What a convolution with one image, of any number of dimensions, multiplies its weight with.

    Attributes
    ----------
    image_axes, result_axes : tuple of int
        Axes of image and result in the order batch, places, channels.
    padding : tuple of (int, int)
        Before and after, for each dimension of places.
    places : tuple of int
        Shape of the result's places.
    index : int array of shape (P, patch)
        Where in the padded, flattened image each entry of a patch lies.
    """

    image_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    weight_axes: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    index: Index

    def __call__(self, image: Array) -> Array:
        """The patches of the image, shape (P, patch)."""
        image = image.transpose(self.image_axes)[0]
        image = jnp.pad(image, (*((low, high) for low, high in self.padding), (0, 0)))
        return _gathered(_Index(self.index, image.size), image.reshape(-1))

    def result(self, product: Array) -> Array:
        """The convolution's result, from the product of the patches with the weight, shape (P, O)."""
        product = product.reshape(1, *self.places, -1)
        return product.transpose(np.argsort(self.result_axes))


def patches_of(params: Mapping[str, Any], image: Sequence[int], weight: Sequence[int]) -> Patches | None:
    """The patches of a ``conv_general_dilated`` of these shapes; None for groups, several images and dilated images."""
    if (
        image[params["dimension_numbers"].lhs_spec[0]] != 1
        or params["feature_group_count"] != 1
        or params["batch_group_count"] != 1
    ):
        return None
    if any(step != 1 for step in params["lhs_dilation"]) or any(one < 0 for pair in params["padding"] for one in pair):
        return None
    images, weights, results = params["dimension_numbers"]
    sizes = [image[axis] + low + high for axis, (low, high) in zip(images[2:], params["padding"], strict=True)]
    kernel = [weight[axis] for axis in weights[2:]]
    channels = image[images[1]]
    at, places = np.zeros((1, 1), np.int64), []
    for size, width, stride, dilation in zip(sizes, kernel, params["window_strides"], params["rhs_dilation"], strict=True):
        count = (size - (width - 1) * dilation - 1) // stride + 1
        here = stride * np.arange(count)[:, None] + dilation * np.arange(width)
        at = (at[:, None, :, None] * size + here[None, :, None, :]).reshape(len(at) * count, -1)
        places.append(count)
    index = (at[:, :, None] * channels + np.arange(channels)).reshape(len(at), -1)
    return Patches(
        image_axes=(images[0], *images[2:], images[1]),
        result_axes=(results[0], *results[2:], results[1]),
        weight_axes=(*weights[2:], weights[1], weights[0]),
        padding=tuple((int(low), int(high)) for low, high in params["padding"]),
        places=tuple(places),
        index=index.astype(np.int32),
    )


class _Index:
    """A fixed index into a flat array, and its inverse: equal only to itself, so that it can be a static argument."""

    def __init__(self, index: Index, size: int) -> None:
        self.index, self._size = index, size

    def inverse(self) -> Index:
        """For each entry of the flat array the places where it is used, shape (size, most); unused ones point beyond the end."""
        flat = self.index.reshape(-1)
        order, counts = np.argsort(flat, kind="stable"), np.bincount(flat, minlength=self._size)
        slots = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        used = np.full((self._size, int(counts.max())), len(flat), np.int32)
        used[flat[order], slots] = order
        return used


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gathered(index: _Index, flat: Array) -> Array:
    return jax.lax.optimization_barrier(jax.lax.optimization_barrier(flat).at[index.index].get(mode="promise_in_bounds"))


def _forward(index: _Index, flat: Array) -> tuple[Array, None]:
    return _gathered(index, flat), None


def _backward(index: _Index, _: None, derivative: Array) -> tuple[Array]:
    """By gathering too: scattering is slow on processors."""
    flat = jax.lax.optimization_barrier(jnp.append(derivative.reshape(-1), 0.0))
    return (flat.at[index.inverse()].get(mode="promise_in_bounds").sum(1),)


_gathered.defvjp(_forward, _backward)
