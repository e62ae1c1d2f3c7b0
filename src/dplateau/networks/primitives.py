"""Which operations a loss may use: those of which it is known that each example of a microbatch is worked on by itself.

The loss is written for one example, and ``vmap`` makes it work on a microbatch. For nearly all of JAX's operations that changes
nothing for the single example. It does for a few: a ``custom_vmap`` rule gets the whole microbatch, a callback may see it or keep
what it saw, a collective adds over it, some random generators give all examples the bits of the first one's key, and the
incomplete beta function of JAX before 0.12 goes on with all examples until the last one has converged. One example could then move
the gradients of others, whom nobody clips.

So this is a list of what is allowed, and what is not on it is refused: an operation that JAX will have one day, or that a library
defines, is unknown here, and unknown is not safe.
"""

from __future__ import annotations

from typing import Any, Final

from jax import lax
from jax.extend.core import primitives

from dplateau.networks.jaxprs import equations
from dplateau.networks.patches import CONVOLUTION
from dplateau.spec import InputError
from dplateau.training.exact_products import accelerated

_KNOWN: Final = """
    abs acos acosh add add_jaxvals after_all and approx_top_k argmax argmin asin asinh atan atan2 atanh bessel_i0e bessel_i1e
    bitcast_convert_type broadcast_in_dim call cbrt ceil cholesky clamp closed_call clz complex concatenate cond conj
    conv_general_dilated convert_element_type copy cos cosh create_token cumlogsumexp cummax cummin cumprod cumsum
    custom_jvp_call custom_lin custom_vjp_call dce_sink device_put digamma div dot_general dynamic_slice dynamic_update_slice
    eig eigh empty2 eq eq_to erf erf_inv erfc exp exp2 expm1 fft floor gather ge gt hessenberg householder_product igamma
    igamma_grad_a igammac imag integer_pow iota is_finite jit le le_to lgamma linear_solve log log1p log2 logistic lt lt_to lu
    max min mul mulhi name ne neg nextafter not one_minus_square optimization_barrier or pad polygamma polynomial
    population_count pow qr random_bits random_fold_in random_gamma random_seed random_split real reduce reduce_and reduce_max
    reduce_min reduce_or reduce_precision reduce_prod reduce_sum reduce_window reduce_window_max reduce_window_min
    reduce_window_sum reduce_xor rem remat reshape rev round rsqrt scan scatter scatter_add scatter_max scatter_min scatter_mul
    scatter_sub schur select_and_gather_add select_and_scatter select_and_scatter_add select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh slice sort split sqrt square squeeze stack stage stop_gradient sub svd tan tanh
    threefry2x32 tile top_k transpose triangular_solve tridiagonal tridiagonal_solve unstack while xor zeta
"""
"""Those of ``jax.lax`` and ``jax.extend.core.primitives`` in JAX 0.8 to 0.12; not all versions have all of them."""
_ALLOWED: Final = frozenset(
    getattr(module, f"{name}_p") for module in (primitives, lax) for name in _KNOWN.split() if hasattr(module, f"{name}_p")
)
_ALSO: Final = frozenset({"platform_index", "random_clone", "random_wrap", "random_unwrap"})
"""Part of ``lax.platform_dependent``; copies of keys, and keys from their bits and back, number by number; in no public module."""

_REDUCING: Final = frozenset({lax.pmax_p, lax.pmin_p, lax.psum_p})
"""Collectives that are sums and maxima of an array once a ``vmap`` in the loss has put the array's axes in place of a name."""

_CONVERGING: Final = frozenset({"eig", "eigh", "schur", "svd"})
"""They are repeated until they have converged. On processors LAPACK does so for one matrix after the other; of the kernels of
accelerators nobody says that a matrix is not worked on until the last one of the microbatch is done.
"""


def check_primitives(jaxpr: Any) -> None:
    """Raise ``InputError`` if the jaxpr of a loss and its gradient, or one inside it, uses what may mix examples."""
    for equation in equations(jaxpr):
        primitive = equation.primitive
        if equation.effects or not (primitive in _ALLOWED or primitive.name in _ALSO or _within_example(equation)):
            raise InputError(
                f"the loss uses {primitive.name}, which may see a whole microbatch, or act outside the loss: one example could "
                "change what others contribute. Write that part with jax.numpy and jax.lax, for one example, without callbacks "
                "or collectives."
            )
        if primitive.name in _CONVERGING and accelerated():
            raise InputError(
                f"the loss uses {primitive.name}, which is repeated until it has converged, on an accelerator perhaps for a whole "
                'microbatch: one example could change what others contribute. Train on processors (JAX_PLATFORMS="cpu").'
            )
        for variable in (*equation.invars, *equation.outvars):
            kind = str(getattr(variable.aval, "dtype", ""))
            if kind.startswith("key<") and kind != "key<fry>":
                raise InputError(
                    f"the loss draws random bits with keys of type {kind}, which may give all examples of a microbatch the bits of "
                    "the first one's: use keys of jax.random.key(..., impl='threefry2x32')."
                )


def check_convolutions(jaxpr: Any, examples: int) -> None:
    """Raise ``InputError`` if the jaxpr of the gradients of so many ``examples`` has one convolution for all of them, in groups.

    A compiler may write it as one product with a matrix that is zero outside the groups. Then an example whose numbers overflow
    makes NaN of the others' zeros. ``Patches.product`` takes the place of nearly all such convolutions.
    """
    for equation in equations(jaxpr):
        if equation.primitive is CONVOLUTION and not (
            equation.params["feature_group_count"] % examples and equation.params["batch_group_count"] % examples
        ):
            raise InputError(
                "the loss has a convolution by a kernel that differs between examples, in a function with a derivative of its own "
                "or over groups of images: one example that overflows could change what others contribute. Write it without "
                "jax.custom_vjp, jax.custom_jvp and batch_group_count."
            )


def _within_example(equation: Any) -> bool:
    """Whether it is a sum over axes of the example's own arrays, or an operation that ``jax.numpy`` has made for itself, such as
    ``searchsorted`` in JAX 0.12.

    Anybody can make such operations, with a rule of their own for whole microbatches.
    """
    if equation.primitive in _REDUCING:
        return all(isinstance(axis, int) for axis in equation.params["axes"])
    kind = type(equation.params.get("_prim"))
    return equation.primitive.name == "call_hi_primitive" and kind.__module__.startswith("jax._src.numpy.")
