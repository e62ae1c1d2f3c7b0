"""Settings of JAX under which a training computes, whatever its caller's are.

With ``jax_debug_nans`` or ``jax_debug_infs`` one record whose gradient is not finite, and which would count nothing, would end the
training. Strict promotion of types, a guard of transfers and ``jax_disable_jit`` are for a caller's own functions: here they would
end it after a ledger was charged. Threads have to enter it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Final

import jax
import numpy as np

from dplateau.spec import InputError
from dplateau.spec.floating import check_rounding, usual_errors

_GUARDS: Final = tuple(f"jax_transfer_guard{way}" for way in ("", "_host_to_device", "_device_to_host", "_device_to_device"))


@contextmanager
def usual() -> Iterator[None]:
    """JAX's own defaults, and NumPy's, within the block and in this thread only."""
    guarded = any(getattr(jax.config, name) not in (None, "allow") for name in _GUARDS)
    with (
        usual_errors(),
        jax.transfer_guard("allow") if guarded else nullcontext(),  # It takes longer than all others.
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.numpy_dtype_promotion("standard"),
        jax.disable_jit(False),
    ):
        yield


def check_machine() -> None:
    """Raise ``InputError`` unless numbers are rounded to the nearest, and what is not a number stays so where it is compiled.

    A record is clipped, and one with a gradient that is not finite contributes nothing, by that.
    """
    check_rounding()
    if not _keeps_nan():
        raise InputError(
            "XLA is told to compile with fast math (XLA_FLAGS), which takes it that every number is finite, and guarantees rest on "
            "what is not being left out: leave xla_cpu_enable_fast_math out of XLA_FLAGS."
        )


@cache
def _keeps_nan() -> bool:
    """Asked once: flags are read once."""
    with usual():
        return bool(np.isnan(jax.jit(lambda number: number * 0)(np.float32(np.nan))))
