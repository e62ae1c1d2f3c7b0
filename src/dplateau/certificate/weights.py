"""The digest of released weights, which binds a certificate to its model."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate.certificate import Certificate
from dplateau.spec import ContradictionError, InputError
from dplateau.spec.arguments import of_type

HEAD: Final = b"dplateau weights 1\n"
Keys = tuple[str | int, ...]
Entry = tuple[str, str, NDArray[Any]]


def weights_digest(weights: Any) -> str:
    """SHA-256 of a tree of arrays, in hexadecimal.

    The digest is that of one header line and, for every array in the order of the JSON texts of their paths, of a line with path,
    dtype and shape as JSON, and the array's bytes, in C order and little-endian. It is the same on every machine, and for lists and
    tuples, and for NumPy, JAX and PyTorch.

    Parameters
    ----------
    weights : array, or tree of arrays
        Mappings, lists, tuples, and whatever else JAX knows as a tree. ``None`` in a tree stands for nothing.

    Raises
    ------
    InputError
        There is no array, something that is not an array of numbers, or two keys that are the same text.
    """
    return digest_of(arrays_of(weights))


def arrays_of(weights: Any) -> list[Entry]:
    """The arrays of a tree: of each its path as JSON, the name of its dtype, and itself (bfloat16 of PyTorch as its bits)."""
    found = [(json.dumps(path), dtype, array) for path, dtype, array in _arrays(weights, ())]
    if not found:
        raise InputError("the weights hold no array: expected at least one.")
    return found


def digest_of(arrays: Iterable[Entry]) -> str:
    """The digest of what ``arrays_of`` found, in any order."""
    digest, found = hashlib.sha256(HEAD), sorted(arrays, key=itemgetter(0))
    if any(one[0] == other[0] for one, other in pairwise(found)):
        raise InputError("two keys of the weights are the same text: which array is which would not be certified.")
    for path, dtype, array in found:
        big = array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big")
        digest.update(f"{path} {dtype} {json.dumps(array.shape)}\n".encode())
        digest.update((array.byteswap() if big else array).tobytes())
    return digest.hexdigest()


def bound_to(certificate: Certificate, weights: Any) -> Certificate:
    """The certificate, bound to these released weights."""
    return replace(of_type("certificate", certificate, Certificate), weights_sha256=weights_digest(weights))


def check_weights(certificate: Certificate, weights: Any) -> None:
    """Check that a certificate is about these weights.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    weights : array, or tree of arrays
        What was released with it: ``{"coefficients": model.coef_, "intercept": model.intercept_}`` of an estimator, the parameters
        of a network, the list of parameters that an Opacus optimizer trained.

    Raises
    ------
    InputError
        The certificate names no weights.
    ContradictionError
        It is about other weights.
    """
    check_digest(certificate, weights_digest(weights))


def check_digest(certificate: Certificate, found: str) -> None:
    """Check that a certificate is about the weights with this digest; raises what ``check_weights`` does."""
    of_type("certificate", certificate, Certificate)
    if certificate.weights_sha256 is None:
        raise InputError(
            "the certificate names no weights, so it cannot tell to which model it belongs: train again with this version, or ask"
            " the person who gave it to you."
        )
    if found != certificate.weights_sha256:
        raise ContradictionError(
            f"the certificate is about other weights: it names sha256 {certificate.weights_sha256[:16]}..., and these have"
            f" {found[:16]}.... Use the certificate that was written with them."
        )


def _arrays(tree: Any, path: Keys) -> Iterator[tuple[Keys, str, NDArray[Any]]]:
    """The arrays of a tree, each with the keys that lead to it and the name of its dtype."""
    if tree is None:
        return
    if isinstance(tree, Mapping):
        children: list[tuple[Any, Any]] = list(tree.items())
    elif isinstance(tree, list | tuple):
        children = list(enumerate(tree))
    elif hasattr(tree, "detach"):
        yield path, *_of_torch(tree)
        return
    elif hasattr(tree, "__array__") or isinstance(tree, int | float):
        array = np.asarray(tree)
        if array.dtype.hasobject or issubclass(array.dtype.type, np.void):  # whose fields the name of the dtype does not tell
            raise InputError("the weights hold objects: expected arrays of numbers.")
        yield path, array.dtype.name, array
        return
    else:
        children = _of_jax(tree)
    for key, child in children:
        yield from _arrays(child, (*path, key if isinstance(key, int) else str(key)))


def _of_torch(tensor: Any) -> tuple[str, NDArray[Any]]:
    """A tensor's dtype, and its numbers; bfloat16, which NumPy does not know, as its bits."""
    dtype, tensor = str(tensor.dtype).removeprefix("torch."), tensor.detach().cpu()
    if dtype == "bfloat16":
        return dtype, (tensor.float().numpy().view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return dtype, tensor.numpy()


def _of_jax(tree: Any) -> list[tuple[Any, Any]]:
    """The children of a node that JAX knows; anyone who has such a node has loaded JAX."""
    jax = sys.modules.get("jax")
    flat = [] if jax is None else jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)[0]
    if jax is None or any(not keys for keys, _ in flat):
        raise InputError(f"the weights hold a {type(tree).__name__}: expected arrays of numbers.")
    return [(_name(keys[0]), child) for keys, child in flat]


def _name(key: Any) -> Any:
    """What an entry of a path of JAX's is called: a key, a place, or a field."""
    return next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name))
