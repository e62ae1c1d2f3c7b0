"""The digest of released weights: the same on every machine and for every library, another one for other numbers."""

import hashlib
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dplateau as dp
from dplateau.certificate import Certificate, bound_to, check_weights, make_certificate, verify, weights_digest
from dplateau.networks import train_network
from dplateau.spec import ContradictionError, InputError

W = np.arange(6.0).reshape(2, 3)


def test_the_bytes_are_those_that_the_page_names():
    head = b"dplateau weights 1\n"
    first = b'["b"] float32 [3]\n' + np.ones(3, "<f4").tobytes()
    second = b'["w", 0] float64 [2, 3]\n' + W.astype("<f8").tobytes()
    assert weights_digest({"w": [W], "b": np.ones(3, np.float32)}) == hashlib.sha256(head + first + second).hexdigest()


class Pair(NamedTuple):
    w: np.ndarray
    b: np.ndarray


@jax.tree_util.register_pytree_with_keys_class
class Own:
    """A node that only JAX knows."""

    def __init__(self, w, b):
        self.w, self.b = w, b

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("w"), self.w), (jax.tree_util.GetAttrKey("b"), self.b)], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_what_holds_the_same_has_the_same_digest():
    b = np.ones(3, np.float32)
    digest = weights_digest({"w": W, "b": b})
    same = [
        {"b": b, "w": W},
        {"w": np.asfortranarray(W), "b": b},
        {"w": W.astype(">f8"), "b": b.astype(">f4")},
        {"w": np.repeat(W, 2, axis=0)[::2], "b": b},
        {"w": W, "b": jnp.ones(3, jnp.float32)},
        {"w": W, "b": b, "nothing": None},
        Own(W, b),
    ]
    assert {weights_digest(one) for one in same} == {digest}
    assert weights_digest(Pair(W, b)) == weights_digest([W, b]) == weights_digest((W, b)) != digest
    assert weights_digest({"intercept": 1.5}) == weights_digest({"intercept": np.array(1.5)})
    assert len({weights_digest(jnp.ones(3, dtype)) for dtype in (jnp.bfloat16, jnp.float16, jnp.float32)}) == 3


def test_what_differs_has_another_one():
    others = [
        {"w": W},
        {"v": W},
        [W],
        W,
        {"w": W.T},
        {"w": W.ravel()},
        {"w": W.reshape(3, 2)},
        {"w": W.astype(np.float32)},
        {"w": np.nextafter(W, 9)},
        {"w": -0.0 * W},
        {"w": 0.0 * W},
        {"w": W, "b": np.zeros(0)},
        {"w": {"w": W}},
        {"w": [W]},
        {"a": W[:1], "b": W[1:]},
        {"0": W},
    ]
    assert len({weights_digest(one) for one in others}) == len(others)


@pytest.mark.parametrize("weights", [{}, None, [], {"a": "text"}, {"a": np.array([{}])}, object(), {"a": object()}])
def test_no_weights(weights):
    with pytest.raises(InputError, match="the weights hold"):
        weights_digest(weights)


def test_a_certificate_is_bound_to_what_was_released(certify, certificates):
    certificate = certificates["poisson"]
    check_weights(certificate, np.arange(3.0))
    for other in (np.arange(4.0), np.arange(3.0, dtype=np.float32), [np.arange(3.0)]):
        with pytest.raises(ContradictionError, match="about other weights"):
            check_weights(certificate, other)
    unbound = replace(certificate, weights_sha256=None)
    with pytest.raises(InputError, match="names no weights"):
        check_weights(unbound, np.arange(3.0))
    assert "does not say which weights it is about" in " ".join(str(unbound).split())
    assert "does not say which weights" not in str(certificate)
    assert Certificate.from_json(unbound.to_json()) == unbound
    moved = bound_to(certificate, np.ones(2))
    check_weights(Certificate.from_json(moved.to_json()), np.ones(2))


def test_a_network_is_bound_to_its_parameters():
    run = dp.Run(n=20, sampling=dp.Poisson(5), steps=3, noise_multiplier=2.0, update="post-processed")
    examples = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    start = {"w": jnp.zeros(2), "b": jnp.zeros(())}

    def loss(params, x):
        return (params["w"] @ x + params["b"] - 1) ** 2

    result = train_network(run, loss, start, examples, optimizer=optax.sgd(0.1))
    certificate = make_certificate(dp.account(run, 1e-3), result)
    check_weights(certificate, result.params)
    check_weights(certificate, {name: np.asarray(value) for name, value in result.params.items()})
    with pytest.raises(ContradictionError):
        check_weights(certificate, start)
    assert certificate.training == "network"
    assert {(one.name, one.how) for one in certificate.assumptions} >= {("clipping", "enforced"), ("arithmetic", "enforced")}
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).certifies


@pytest.mark.parametrize("keys", [(np.int64(1), "1"), (1.5, "1.5")])
def test_no_two_arrays_change_places(keys):
    with pytest.raises(InputError, match="two keys of the weights are the same text"):
        weights_digest(dict(zip(keys, (np.ones(1), np.zeros(1)), strict=True)))


@pytest.mark.parametrize("fields", [[("a", "f4"), ("b", "i4")], [("a", ">f4")], "V4"])
def test_bytes_without_a_meaning_are_no_numbers(fields):
    with pytest.raises(InputError, match="expected arrays of numbers"):
        weights_digest(np.zeros(2, fields))
