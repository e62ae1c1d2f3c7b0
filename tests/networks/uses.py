"""The ways of using a weight that ``test_uses.py`` goes through: losses, parameters, examples, and which need no copies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dplateau.networks.lattice import Lattice
from dplateau.networks.recorded import record
from dplateau.networks.rounded import multipliers, rounded_sum

B = 6
FAST = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}
"""Compiles in half the time."""
CLIPPED = np.sqrt(1 - 2.0**-8)
"""The part of a clip norm that gradients have; the rest is for their count."""
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


def numbers(high, *shape):
    return rng.integers(0, high, shape).astype(np.int32)


def by_hand(loss, params, examples, clip_norm, used=None):
    """The sum, added in double precision; without a clip norm two thirds of the median norm, so that some are clipped."""
    gradients = jax.jit(jax.vmap(jax.grad(loss), (None, 0)), compiler_options=FAST)(params, examples)
    flat = np.concatenate([np.asarray(leaf, np.float64).reshape(B, -1) for leaf in jax.tree.leaves(gradients)], axis=1)
    norms = np.linalg.norm(flat, axis=1)
    clip_norm = float(np.median(norms)) / 1.5 if clip_norm is None else clip_norm
    factors = np.minimum(1, clip_norm / np.where(norms > 0, norms, 1)) * (1 if used is None else used)
    return factors @ flat, clip_norm


def compiled(loss, params, examples, optimised=True, bits=48):
    """The sum of the used examples, clipped to ``clip_norm`` on a fine lattice; without optimisation it compiles faster."""
    recorded = record(loss, params, jax.tree.map(lambda column: column[0], examples))
    options = {} if optimised else FAST
    gradients = jax.jit(recorded.gradients, compiler_options=options)
    multiplied = jax.jit(multipliers, static_argnames="lattice", compiler_options=options)
    total = jax.jit(rounded_sum, compiler_options=options)

    def summed(examples, clip_norm, used=None, params=params):
        used = np.ones(len(jax.tree.leaves(examples)[0]), bool) if used is None else used
        lattice, found = Lattice(float(clip_norm) / CLIPPED, bits, bits // 3), gradients(params, examples)
        with jax.enable_x64(True):
            how, _ = multiplied(found, used, lattice=lattice)
            before = [np.zeros(leaf.size) for leaf in jax.tree.leaves(params)]
            sums = [np.asarray(total(*one)) for one in zip(found, how, before, strict=True)]
        assert all((one == np.rint(one)).all() for one in sums)
        return np.concatenate(recorded.arranged(sums)) * lattice.unit

    return summed


def ours(loss, params, examples, clip_norm, used=None):
    return compiled(loss, params, examples)(examples, clip_norm, used)


def sites(loss, params, examples):
    recorded = record(loss, params, jax.tree.map(lambda column: column[0], examples))
    names = [jax.tree_util.keystr(path, simple=True) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return {names[leaf] for leaf in recorded.sites}


def conv(x, w, strides=(1,), padding="SAME", layout=None, dilation=None, groups=1):
    return lax.conv_general_dilated(
        x[None], w, strides, padding, dimension_numbers=layout, rhs_dilation=dilation, feature_group_count=groups
    )[0]


def dense(p, e):
    return jnp.sum(jnp.tanh(e @ p["w"] + p["b"]) ** 2)


def remembered(p, e):
    """A recurrent network: its weights are used at every step, inside a scan."""
    last, _ = lax.scan(lambda h, x: (jnp.tanh(h @ p["h"] + x @ p["x"]), None), jnp.zeros(3), e)
    return jnp.sum(last @ p["o"])


@jax.custom_jvp
def custom(w, x):
    return jnp.sin(x @ w)


custom.defjvp(lambda primals, tangents: (custom(*primals), jnp.cos(primals[1] @ primals[0]) * (primals[1] @ tangents[0])))


@jax.custom_vjp
def waves(x, times):
    return jnp.sum(jnp.sin(times * x))


def waves_backwards(kept, g):
    """Takes the times one after the other, as ``odeint`` does."""
    x, times = kept
    slope, _ = lax.scan(lambda total, k: (total + times[k] * jnp.cos(times[k] * x), None), 0.0, jnp.arange(3))
    return g * slope, None


waves.defvjp(lambda x, times: (waves(x, times), (x, times)), waves_backwards)


@jax.jit
def layer(p, x):
    return jnp.tanh(x @ p["w"] + p["b"])


def normalised(p, e):
    x = e @ p["w"]
    x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return jnp.sum(jnp.sin(x * p["scale"] + p["shift"]))


def attention(p, e):
    heads = jnp.einsum("sd,dhk->shk", e, p["q"]), jnp.einsum("sd,dhk->shk", e, p["k"])
    mixed = jnp.einsum("hst,td->shd", jax.nn.softmax(jnp.einsum("shk,thk->hst", *heads)), e)
    return jnp.sum(jnp.einsum("shd,hdo->so", mixed, p["o"]) ** 2)


def embedded(p, e):
    return jnp.sum(jnp.tanh(p["t"][e[0]].mean(0) @ p["w"]) * e[1])


W = {"w": normal(4, 3), "b": normal(3)}
IMAGE, VOLUME = normal(B, 7, 6, 2), normal(B, 4, 5, 4, 2)
FIRST = ("NCHW", "OIHW", "NCHW")
LAST = ("NHWC", "HWIO", "NHWC")


def separable(p, e):
    h = jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST))
    return jnp.sum(jnp.sin(conv(h, p["b"], (2, 1), "SAME", LAST, (1, 2), 4)))


def standardised(p, e):
    w = (p["b"] - p["b"].mean()) / p["b"].std()
    return jnp.sum(jnp.sin(conv(jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST)), w, (2, 2), "VALID", LAST)))


def twice(p, e):
    h = jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST))
    return jnp.sum(jnp.sin(conv(jnp.tanh(conv(h, p["b"], (1, 1), "SAME", LAST)), p["b"], (1, 1), "SAME", LAST)))


def convolutional_memory(p, e):
    """A recurrent network of convolutions: kernels inside a scan."""
    h = jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST))
    step = lambda h, _: (jnp.tanh(conv(h, p["b"], (1, 1), "SAME", LAST)), None)  # noqa: E731
    return jnp.sum(lax.scan(step, h, None, 2)[0] ** 2)


def branches(p, e):
    h = jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST))
    layer = lambda h: jnp.sin(conv(h, p["b"], (1, 1), "SAME", LAST))  # noqa: E731
    return jnp.sum(lax.cond(e[0, 0, 0] > 0, layer, jnp.cos, h))


def made_from_the_example(p, e):
    """The kernel of the second convolution is a part of the example."""
    h = jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST))
    return jnp.sum(jnp.sin(conv(h, jnp.tile(e[:3, :3, :1, None], (1, 1, 4, 2)), (1, 1), "SAME", LAST))) + p["b"].sum()


OWN_KERNELS = {
    "depthwise conv": (separable, {"a": normal(3, 2, 2, 4), "b": normal(3, 2, 1, 8)}),
    "standardised conv": (standardised, {"a": normal(3, 2, 2, 4), "b": normal(3, 2, 4, 2)}),
    "tied conv": (twice, {"a": normal(3, 2, 2, 4), "b": normal(3, 2, 4, 4)}),
    "conv in a scan": (convolutional_memory, {"a": normal(3, 2, 2, 4), "b": normal(3, 2, 4, 4)}),
    "conv in a branch": (branches, {"a": normal(3, 2, 2, 4), "b": normal(3, 2, 4, 4)}),
    "conv by a part of the example": (made_from_the_example, {"a": normal(3, 2, 2, 4), "b": normal(3)}),
}
"""Losses of images by convolutions whose second kernel is another for each example, or a copy."""

# Name: the loss, its parameters, the examples, and the parameters that need no copies.
CASES = {
    "dense": (dense, W, normal(B, 4), {"w"}),
    "weight first": (lambda p, e: jnp.sum((p["w"].T @ e + p["b"]) ** 2), W, normal(B, 4), set()),
    "weight is the first operand": (lambda p, e: jnp.sum((p["w"] @ e) ** 2), {"w": normal(3, 4)}, normal(B, 4), {"w"}),
    "weight first, at places": (lambda p, e: jnp.sum(jnp.sin(p["w"] @ e)), {"w": normal(3, 4)}, normal(B, 4, 5), {"w"}),
    "contracts the weight's last axis": (
        lambda p, e: jnp.sum(lax.dot_general(e, p["w"], (((1,), (1,)), ((), ()))) ** 2),
        {"w": normal(3, 4)},
        normal(B, 5, 4),
        {"w"},
    ),
    "transposed": (lambda p, e: jnp.sum((e @ p["w"].T) ** 2), {"w": normal(3, 4)}, normal(B, 4), set()),
    "einsum": (
        lambda p, e: jnp.sum(jnp.cos(jnp.einsum("sab,bcad->dsc", e, p["w"]))),
        {"w": normal(3, 2, 4, 5)},
        normal(B, 6, 4, 3),
        {"w"},
    ),
    "several contracted axes": (
        lambda p, e: jnp.sum(jnp.tensordot(e, p["w"], 2) ** 2),
        {"w": normal(4, 3, 5)},
        normal(B, 2, 4, 3),
        {"w"},
    ),
    "outer product": (lambda p, e: jnp.sum(jnp.tensordot(e, p["w"], 0) ** 2), {"w": normal(3)}, normal(B, 2), {"w"}),
    "to a number": (lambda p, e: (e[0] @ p["w"] - e[1]) ** 2, {"w": normal(4)}, (normal(B, 4), normal(B)), {"w"}),
    "places": (dense, W, normal(B, 5, 4), {"w"}),
    "derivative that keeps constants": (
        lambda p, e: waves(jnp.sum(e @ p["w"]), jnp.array([0.0, 0.5, 2.0])),
        {"w": normal(4, 3)},
        normal(B, 4),
        {"w"},
    ),
    "attention": (attention, {"q": normal(4, 2, 3), "k": normal(4, 2, 3), "o": normal(2, 4, 3)}, normal(B, 5, 4), {"q", "k", "o"}),
    "batched product": (
        lambda p, e: jnp.sum(jnp.einsum("hd,hdo->ho", e, p["w"]) ** 2),
        {"w": normal(3, 4, 2)},
        normal(B, 3, 4),
        set(),
    ),
    "conv 1-D": (
        lambda p, e: jnp.sum(conv(e, p["w"], (2,), "SAME", ("NHC", "HIO", "NHC")) ** 2),
        {"w": normal(3, 2, 4)},
        normal(B, 9, 2),
        {"w"},
    ),
    "conv NHWC, stride, same": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (2, 1), "SAME", LAST))),
        {"w": normal(3, 2, 2, 4)},
        IMAGE,
        {"w"},
    ),
    "conv NCHW, valid": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (1, 2), "VALID", FIRST))),
        {"w": normal(4, 2, 3, 2)},
        IMAGE.transpose(0, 3, 1, 2),
        {"w"},
    ),
    "conv mixed layouts": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (1, 1), "SAME", ("NHWC", "OIHW", "NCHW")))),
        {"w": normal(4, 2, 3, 2)},
        IMAGE,
        {"w"},
    ),
    "conv explicit padding, dilated": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (1, 2), ((2, 0), (1, 3)), LAST, (2, 3)))),
        {"w": normal(3, 2, 2, 4)},
        IMAGE,
        {"w"},
    ),
    "conv 3-D": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (1, 2, 1), "SAME", ("NDHWC", "DHWIO", "NDHWC")))),
        {"w": normal(2, 3, 2, 2, 3)},
        VOLUME,
        {"w"},
    ),
    "conv to one place": (
        lambda p, e: jnp.sum(conv(e, p["w"], (1, 1), "VALID", LAST) ** 2),
        {"w": normal(7, 6, 2, 4)},
        IMAGE,
        {"w"},
    ),
    "conv of conv": (
        lambda p, e: jnp.sum(conv(jnp.tanh(conv(e, p["a"], (1, 1), "SAME", LAST)), p["b"], (2, 2), "VALID", LAST) ** 2),
        {"a": normal(3, 3, 2, 3), "b": normal(2, 2, 3, 2)},
        IMAGE,
        {"a", "b"},
    ),
    "conv with groups": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (1, 1), "SAME", LAST, None, 2))),
        {"w": normal(3, 2, 1, 4)},
        IMAGE,
        set(),
    ),
    "conv with negative padding": (
        lambda p, e: jnp.sum(jnp.sin(conv(e, p["w"], (1, 1), ((-1, 0), (0, 1)), LAST))),
        {"w": normal(3, 2, 2, 4)},
        IMAGE,
        {"w"},
    ),
    "conv of a dilated image": (
        lambda p, e: jnp.sum(jnp.sin(lax.conv_general_dilated(e[None], p["w"], (1, 1), ((-1, 2), (0, 0)), (2, 1), None, LAST))),
        {"w": normal(3, 2, 2, 4)},
        IMAGE,
        {"w"},
    ),
    "transposed conv": (
        lambda p, e: jnp.sum(jnp.sin(lax.conv_transpose(e[None], p["w"], (3, 2), "SAME", dimension_numbers=LAST))),
        {"w": normal(3, 2, 2, 4)},
        IMAGE,
        {"w"},
    ),
    "conv of several images": (
        lambda p, e: jnp.sum(jnp.sin(lax.conv_general_dilated(e, p["w"], (2, 1), "SAME", dimension_numbers=LAST))),
        {"w": normal(3, 2, 2, 4)},
        normal(B, 3, 7, 6, 2),
        {"w"},
    ),
    **{name: (loss, params, IMAGE, {"a"}) for name, (loss, params) in OWN_KERNELS.items()},
    "tied": (lambda p, e: jnp.sum(jnp.tanh(e @ p["w"]) @ p["w"] ** 2), {"w": normal(4, 4)}, normal(B, 4), set()),
    "square of a weight": (lambda p, e: jnp.sum(p["w"] @ p["w"]) * e, {"w": normal(4, 4)}, normal(B), set()),
    "product of two weights": (
        lambda p, e: jnp.sum((e @ (p["a"] @ p["b"])) ** 2),
        {"a": normal(4, 2), "b": normal(2, 3)},
        normal(B, 4),
        {"a"},
    ),
    "product of three weights": (
        lambda p, e: jnp.sum((e @ (p["a"] @ p["b"] @ p["c"])) ** 2),
        {"a": normal(4, 2), "b": normal(2, 3), "c": normal(3, 3)},
        normal(B, 4),
        {"a", "c"},
    ),
    "a weight that is also returned": (lambda p, e: e @ p["w"] + p["s"], {"w": normal(4), "s": normal()}, normal(B, 4), {"w"}),
    "only a weight": (lambda p, e: p["s"], {"s": normal()}, normal(B), set()),
    "unused": (lambda p, e: jnp.sum(e @ p["w"]), {"w": normal(4, 3), "u": normal(5)}, normal(B, 4), {"w"}),
    "scan": (remembered, {"h": normal(3, 3), "x": normal(2, 3), "o": normal(3, 2)}, normal(B, 5, 2), {"o"}),
    "cond": (
        lambda p, e: jnp.sum(lax.cond(e[0] > 0, lambda w: (e @ w) ** 2, lambda w: e @ w, p["w"])),
        {"w": normal(4, 3)},
        normal(B, 4),
        set(),
    ),
    "custom_jvp": (lambda p, e: jnp.sum(custom(p["w"], e) ** 2), {"w": normal(4, 3)}, normal(B, 4), set()),
    "remat": (
        lambda p, e: jnp.sum(jax.checkpoint(lambda w: jnp.tanh(e @ w))(p["w"]) @ p["v"]),
        {"w": normal(4, 3), "v": normal(3)},
        normal(B, 4),
        {"w", "v"},
    ),
    "jit": (
        lambda p, e: jnp.sum(layer(p["b"], layer(p["a"], e)) ** 2),
        {"a": W, "b": {"w": normal(3, 2), "b": normal(2)}},
        normal(B, 4),
        {"aw", "bw"},
    ),
    "jit twice with one weight": (
        lambda p, e: jnp.sum(layer(p, layer(p, e))),
        {"w": normal(4, 4), "b": normal(4)},
        normal(B, 4),
        set(),
    ),
    "layer norm": (normalised, {"w": normal(4, 3), "scale": normal(3), "shift": normal(3)}, normal(B, 5, 4), {"w"}),
    "embedding": (embedded, {"t": normal(5, 3), "w": normal(3, 2)}, (numbers(5, B, 9), normal(B)), {"t", "w"}),
    "embedding of one number": (lambda p, e: jnp.sum(p["t"][e] ** 2), {"t": normal(5, 3)}, numbers(5, B), {"t"}),
    "embedding of a table of numbers": (lambda p, e: jnp.sum(jnp.sin(p["t"][e])), {"t": normal(5, 3)}, numbers(5, B, 4, 2), {"t"}),
    "embedding by take": (lambda p, e: jnp.sum(jnp.take(p["t"], e, axis=0) ** 2), {"t": normal(5, 3)}, numbers(5, B, 4), {"t"}),
    "embedding by bytes": (
        lambda p, e: jnp.sum(jnp.sin(p["t"][e])),
        {"t": normal(300, 3)},
        numbers(256, B, 4).astype(np.uint8),
        {"t"},
    ),
    "embedding by take of bytes, in a larger table": (
        lambda p, e: jnp.sum(jnp.take(p["t"], e, axis=0) ** 2),
        {"t": normal(300, 3)},
        numbers(256, B, 4).astype(np.uint8),
        {"t"},
    ),
    "columns of a table": (lambda p, e: jnp.sum(p["t"][:, e] ** 2), {"t": normal(5, 3)}, numbers(3, B, 4), set()),
    "numbers and scalars": (lambda p, e: (p["a"] * e + p["b"]) ** 2, {"a": normal(), "b": normal()}, normal(B), set()),
    "a constant input": (lambda p, e: jnp.sum(jnp.ones(4) @ p["w"] * e), {"w": normal(4, 3)}, normal(B), {"w"}),
    "whole numbers as input": (
        lambda p, e: jnp.sum((e / 255 @ p["w"]) ** 2),
        {"w": normal(4, 3)},
        numbers(256, B, 4).astype(np.uint8),
        {"w"},
    ),
}
