"""How floating-point numbers are computed with here, whatever others in the process have asked for."""

from __future__ import annotations

import numpy as np

from dplateau.spec.errors import InputError


def usual_errors() -> np.errstate:
    """NumPy's own defaults: an underflow is no error.

    With ``numpy.seterr(all="raise")`` one record with a tiny number would end a training, and a tail of a distribution accounting.
    """
    return np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")


def check_rounding() -> None:
    """Raise ``InputError`` unless sums are rounded to the nearest number: all bounds on rounding, and the clipping, count on it."""
    tiny = float.fromhex("0x1p-60")
    if not 1.0 - tiny == 1.0 == 1.0 + tiny:
        raise InputError(
            "The processor is told to round all numbers in one direction (fesetround), which a library for interval arithmetic may "
            "have left so: guarantees rest on rounding to the nearest. Set it back, or use another process."
        )
