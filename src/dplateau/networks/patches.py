"""Convolutions as products with patches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array: TypeAlias = Any

CONVOLUTION: Final = jax.lax.conv_general_dilated_p


@dataclass(frozen=True)
class Patches:
    """What a convolution of some images, of any number of dimensions, multiplies its weight with.

    Attributes
    ----------
    image_axes, result_axes : tuple of int
        Axes of image and result in the order batch, places, channels.
    weight_axes : tuple of int
        Axes of the weight in the order places, channels, outputs.
    padding : tuple of (int, int, int)
        Before, after and between, for each dimension of places.
    kernel, strides, dilations : tuple of int
        For each dimension of places: width of the weight, steps between patches and within them.
    places : tuple of int
        Number of images, and the size of the result in each dimension.
    groups : int
        The channels are in so many groups, and so are the outputs, which see those of their own.
    """

    image_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    weight_axes: tuple[int, ...]
    padding: tuple[tuple[int, int, int], ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    places: tuple[int, ...]
    groups: int

    def __call__(self, images: Array) -> Array:
        """The patches of the images, shape (P, patch)."""
        images = images.transpose(self.image_axes)
        images = jax.lax.pad(images, jnp.zeros((), images.dtype), ((0, 0, 0), *self.padding, (0, 0, 0)))
        # One dimension after the other: slices of slices touch far fewer numbers than all slices of the image.
        for axis in reversed(range(1, len(self.places))):
            count, stride = self.places[axis], self.strides[axis - 1]
            starts = (k * self.dilations[axis - 1] for k in range(self.kernel[axis - 1]))
            slices = [jax.lax.slice_in_dim(images, at, at + stride * (count - 1) + 1, stride, axis) for at in starts]
            images = jnp.stack(slices, axis=len(self.places))
        return images.reshape(math.prod(self.places), -1)

    def product(self, images: Array, weight: Array, **options: Any) -> Array:
        """The convolution with a weight that another example may not share: a product with its patches.

        Convolutions of a batch, each with its own weight, become one in groups for the compiler, and that one product with a weight
        of all groups that is zero outside them. There an example that overflows makes NaN of the others.
        """
        weight = weight.transpose(self.weight_axes)
        taps, channels, outputs = math.prod(self.kernel), *weight.shape[-2:]
        rows = self(images).reshape(-1, taps, self.groups, channels)
        weight = weight.reshape(taps, channels, self.groups, outputs // self.groups)
        return self.result(jnp.einsum("ptgc,tcgo->pgo", rows, weight, **options))

    def result(self, product: Array) -> Array:
        """The convolution's result, from the product of the patches with the weight, shape (P, O)."""
        product = product.reshape(*self.places, -1)
        return product.transpose(np.argsort(self.result_axes))


def patches_of(params: Mapping[str, Any], image: Sequence[int], weight: Sequence[int]) -> Patches | None:
    """The patches of a ``conv_general_dilated`` of these shapes; None where the images are in groups, or the result is empty."""
    images, weights, results = params["dimension_numbers"]
    if params["batch_group_count"] != 1:
        return None
    dilated = tuple(int(step) - 1 for step in params["lhs_dilation"])
    padding = tuple((int(low), int(high), more) for (low, high), more in zip(params["padding"], dilated, strict=True))
    kernel = tuple(weight[axis] for axis in weights[2:])
    strides, dilations = tuple(params["window_strides"]), tuple(params["rhs_dilation"])
    sizes = [sum(pad[:2]) + (image[axis] - 1) * (pad[2] + 1) + 1 for axis, pad in zip(images[2:], padding, strict=True)]
    found = zip(sizes, kernel, strides, dilations, strict=True)
    places = (image[images[0]], *((size - (width - 1) * dilation - 1) // stride + 1 for size, width, stride, dilation in found))
    if min(*image, *weight, *places) < 1:
        return None
    return Patches(
        image_axes=(images[0], *images[2:], images[1]),
        result_axes=(results[0], *results[2:], results[1]),
        weight_axes=(*weights[2:], weights[1], weights[0]),
        padding=padding,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        places=places,
        groups=params["feature_group_count"],
    )


def convolved(equation: Any, values: Sequence[Array]) -> Array | None:
    """The result of an equation that is a convolution, as such a product; None where it is none, or has no patches."""
    if equation.primitive is not CONVOLUTION:
        return None
    params, result = equation.params, equation.outvars[0].aval
    found = patches_of(params, *(value.shape for value in values))
    options = {"precision": params["precision"], "preferred_element_type": result.dtype}
    return None if found is None else found.product(*values, **options)
