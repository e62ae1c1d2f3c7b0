"""Convolutions as products with patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array: TypeAlias = Any


@dataclass(frozen=True)
class Patches:
    """What a convolution with one image, of any number of dimensions, multiplies its weight with.

    Attributes
    ----------
    image_axes, result_axes : tuple of int
        Axes of image and result in the order batch, places, channels.
    weight_axes : tuple of int
        Axes of the weight in the order places, channels, outputs.
    padding : tuple of (int, int)
        Before and after, for each dimension of places.
    kernel, strides, dilations, places : tuple of int
        For each dimension of places: width of the weight, steps between patches and within them, size of the result.
    """

    image_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    weight_axes: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    places: tuple[int, ...]

    def __call__(self, image: Array) -> Array:
        """The patches of the image, shape (P, patch)."""
        image = jnp.pad(image.transpose(self.image_axes)[0], (*self.padding, (0, 0)))
        # One dimension after the other: slices of slices touch far fewer numbers than all slices of the image.
        for axis in reversed(range(len(self.kernel))):
            count, stride = self.places[axis], self.strides[axis]
            starts = (k * self.dilations[axis] for k in range(self.kernel[axis]))
            slices = [jax.lax.slice_in_dim(image, at, at + stride * (count - 1) + 1, stride, axis) for at in starts]
            image = jnp.stack(slices, axis=len(self.kernel))
        return image.reshape(int(np.prod(self.places)), -1)

    def result(self, product: Array) -> Array:
        """The convolution's result, from the product of the patches with the weight, shape (P, O)."""
        product = product.reshape(1, *self.places, -1)
        return product.transpose(np.argsort(self.result_axes))


def patches_of(params: Mapping[str, Any], image: Sequence[int], weight: Sequence[int]) -> Patches | None:
    """The patches of a ``conv_general_dilated`` of these shapes; None for groups, several images and dilated images."""
    images, weights, results = params["dimension_numbers"]
    if image[images[0]] != 1 or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    padding = tuple((int(low), int(high)) for low, high in params["padding"])
    if any(step != 1 for step in params["lhs_dilation"]) or any(one < 0 for pair in padding for one in pair):
        return None
    kernel = tuple(weight[axis] for axis in weights[2:])
    strides, dilations = tuple(params["window_strides"]), tuple(params["rhs_dilation"])
    sizes = [image[axis] + low + high for axis, (low, high) in zip(images[2:], padding, strict=True)]
    found = zip(sizes, kernel, strides, dilations, strict=True)
    return Patches(
        image_axes=(images[0], *images[2:], images[1]),
        result_axes=(results[0], *results[2:], results[1]),
        weight_axes=(*weights[2:], weights[1], weights[0]),
        padding=padding,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        places=tuple((size - (width - 1) * dilation - 1) // stride + 1 for size, width, stride, dilation in found),
    )
