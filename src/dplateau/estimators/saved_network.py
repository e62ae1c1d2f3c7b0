"""``save_network`` and ``load_network``: the parameters of a network in a folder, with the certificate that is bound to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dplateau.certificate import Certificate
from dplateau.certificate.beside import BITS, WEIGHTS, check_model, entries_of, read_weights, stored
from dplateau.certificate.weights import arrays_of, check_weights
from dplateau.estimators.folder import read_about, read_signed_certificate, write_model
from dplateau.files import as_path
from dplateau.spec import ContradictionError, InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Array: TypeAlias = Any
Tree: TypeAlias = Any

KIND: Final = "dplateau network"
FORMAT: Final = 1
ENTRIES: Final = frozenset({"kind", "format", "tree"})
LEAF: Final = "array"


class SavedNetwork(NamedTuple):
    """What ``load_network`` read.

    Attributes
    ----------
    params : tree of arrays
        The parameters, as ``train_network`` released them.
    certificate : Certificate
        What they cost; it is about these very numbers.
    """

    params: Tree
    certificate: Certificate


def save_network(folder: str | Path, params: Tree, certificate: Certificate, *, sign: Ed25519PrivateKey | None = None) -> None:
    """Write the parameters of a network, with their certificate, into a new folder: whole or not at all, and without pickle.

    ``dplateau account --run`` and ``dplateau report`` take the folder.

    Parameters
    ----------
    folder : str or Path
        The folder, which must not exist yet.
    params : tree of arrays
        ``result.params`` of ``train_network``; frozen ones too.
    certificate : Certificate
        What ``make_certificate`` made of the result.
    sign : Ed25519PrivateKey, optional
        Signs the certificate; see ``dplateau.certificate.signing_key``.

    Raises
    ------
    InputError
        The certificate names no weights, params hold something else than arrays of numbers, or the folder exists or cannot be
        written.
    ContradictionError
        The certificate is about other parameters.
    """
    if not isinstance(certificate, Certificate):
        raise InputError(f"certificate is {type(certificate).__name__}: expected what make_certificate made of the result.")
    check_weights(certificate, params)
    if strange := {dtype for _, dtype, array in arrays_of(params) if array.dtype.kind not in "biufc" and dtype != BITS}:
        raise InputError(f"params hold {', '.join(sorted(strange))}, which cannot be saved: expected numbers.")
    about = {"kind": KIND, "format": FORMAT, "tree": _described(params)}
    write_model(folder, about, certificate, stored(params), sign=sign)


def load_network(folder: str | Path, *, like: Tree = None, signed_by: str | Iterable[str] | None = None) -> SavedNetwork:
    """Read what ``save_network`` wrote, and check that the certificate is about it.

    Parameters
    ----------
    folder : str or Path
        The folder.
    like : tree of arrays, optional
        Parameters of the same kind, such as those that the training began with: they give the tree. Needed where it is not made
        of dictionaries, lists and tuples, as for the modules of other libraries.
    signed_by : str or iterable of str, optional
        Names of known keys, or their fingerprints: one of them must have signed the certificate.

    Raises
    ------
    InputError
        A file of the folder is missing or damaged, ``like`` is needed or has other arrays, or ``signed_by`` names no known key.
    ContradictionError
        The certificate is about other parameters, its signature does not match, or none of ``signed_by`` has signed it.
    """
    folder = as_path(folder, "the folder of a network")
    about = read_about(folder, KIND, (FORMAT,), ENTRIES)
    certificate = read_signed_certificate(folder, signed_by)
    path = folder / WEIGHTS
    arrays = read_weights(path)
    if certificate.weights_sha256 is None:
        raise ContradictionError(f"{folder}: the certificate names no weights, as that of a network does.")
    check_model(certificate, folder, arrays)
    found = {name: _array(dtype, array) for name, dtype, array in entries_of(path, arrays)}
    if like is not None:
        return SavedNetwork(_filled(like, found, path), certificate)
    if about["tree"] is None:
        raise InputError(
            f"{folder} holds parameters that are not dictionaries, lists and tuples: pass others of their kind as like=."
        )
    try:
        params = _rebuilt(about["tree"], (), found)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        params = None
    if params is None or found:
        raise InputError(f"{folder / 'model.json'} is damaged: its tree is not that of the arrays.")
    return SavedNetwork(params, certificate)


def _described(tree: Tree) -> Any:
    """The tree as JSON has it: containers by name, arrays as a word; None where there is another container."""
    if tree is None:
        return {"none": []}
    if type(tree) is dict and all(type(key) in (str, int) for key in tree):
        children = [[key, _described(child)] for key, child in tree.items()]
        return None if any(child is None for _, child in children) else {"dict": children}
    if type(tree) in (list, tuple):
        children = [_described(child) for child in tree]
        return None if None in children else {type(tree).__name__: children}
    return LEAF if hasattr(tree, "__array__") and len(jax.tree.leaves(tree)) == 1 and jax.tree.leaves(tree)[0] is tree else None


def _rebuilt(about: Any, path: tuple[str | int, ...], found: dict[str, Array]) -> Tree:
    """The tree that ``_described`` described, of arrays that are taken out of ``found``."""
    if about == LEAF:
        return found.pop(json.dumps(path))
    ((kind, children),) = about.items()
    if kind == "none":
        return None
    if kind == "dict":
        return {key: _rebuilt(child, (*path, key), found) for key, child in children}
    made = [_rebuilt(child, (*path, number), found) for number, child in enumerate(children)]
    return {"list": list, "tuple": tuple}[kind](made)


def _filled(like: Tree, found: dict[str, Array], path: Path) -> Tree:
    """The arrays in a tree like another one."""
    leaves, structure = jax.tree.flatten(like)
    numbered = structure.unflatten([np.asarray(number) for number in range(len(leaves))])
    names = {int(number): name for name, _, number in arrays_of(numbered)} if leaves else {}
    wanted = {names[number]: (np.shape(leaf), str(jnp.result_type(leaf))) for number, leaf in enumerate(leaves)}
    if wanted != {name: (array.shape, str(array.dtype)) for name, array in found.items()}:
        other = sorted(name for name in wanted.keys() ^ found.keys()) or [
            name for name, array in found.items() if wanted[name] != (array.shape, str(array.dtype))
        ]
        shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
        raise InputError(f"like does not fit {path}: missing in one of the two, or of another shape or type: {shown}.")
    return structure.unflatten([found[names[number]] for number in range(len(leaves))])


def _array(dtype: str, array: Array) -> Array:
    """The array for JAX."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    kept = jnp.asarray(array.view(jnp.bfloat16) if dtype == BITS else array)
    if str(kept.dtype) != dtype:
        raise InputError(f"the parameters are {dtype}, which JAX has only under jax_enable_x64: turn it on.")
    return kept
