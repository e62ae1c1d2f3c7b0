"""What is different where the gradients are computed by an accelerator, and not by the processors of the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import jax

from dplateau.training.exact_products import accelerated

_HOST: Final = 1 << 20, 1 << 24
"""Numbers of noise and bytes of records of a chunk that processors compute: what is used again soon is still in their caches."""
_NUMBERS: Final = 1 << 27
"""The same of an accelerator: numbers of noise that are drawn at once,"""
_NOISE: Final = 0.05
"""the part of its memory for noise, of which a number takes 20 bytes while it is made,"""
RECORDS: Final = 0.3
"""and the part for records: they are there once more while made-up ones are tried."""
_MICROBATCH: Final = 0.25
"""Part of an accelerator's memory for what a microbatch is turned into."""
_BYTES: Final = 16
"""Of each number of a microbatch: in the precision of the weights, twice, and as a whole number."""

_REPEATABLE: Final = {"xla_gpu_exclude_nondeterministic_ops": True}
"""GPUs have operations whose result depends on the order in which their threads end; these are left out."""
_WAYS: Final = (_REPEATABLE, {**_REPEATABLE, "xla_gpu_enable_triton_gemm": False, "xla_gpu_autotune_level": 0})
"""The second one leaves matrix products to cuBLAS, and to those of its kernels that it takes by default. XLA's own may add up some
rows in another order, and so may the fastest of cuBLAS: they divide the sums of a large product's last rows among processors.
"""


def memory() -> float:
    """Bytes of the accelerator that this process may use; infinite where it does not tell."""
    stats = jax.local_devices()[0].memory_stats()
    return float((stats or {}).get("bytes_limit", math.inf))


def largest_microbatch(footprint: int) -> int:
    """Examples of so many numbers each for which an accelerator has the memory."""
    room = memory() * _MICROBATCH / (_BYTES * footprint)
    return 1 << 31 if math.isinf(room) else max(1, int(room))


def room_of_a_chunk() -> tuple[float, float]:
    """Numbers of noise, and bytes of records that are copied for it, of a chunk of steps."""
    return (min(_NUMBERS, memory() * _NOISE / 20), memory() * RECORDS / 4) if accelerated() else _HOST


def ways() -> int:
    """In how many ways functions of examples can be compiled, the fastest one first."""
    return len(_WAYS) if jax.default_backend() == "gpu" else 1


@cache
def repeatable(function: Callable[..., Any], *static: str, way: int = 0) -> Callable[..., Any]:
    """The compiled function, which gives the same bits every time that it is called with the same arguments."""
    options = _WAYS[way] if jax.default_backend() == "gpu" else None
    return jax.jit(function, static_argnames=static, compiler_options=options)
