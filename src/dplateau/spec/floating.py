"""What NumPy does where a number is too small or too large, whatever the caller has told it to do with his own."""

from __future__ import annotations

import numpy as np


def usual_errors() -> np.errstate:
    """NumPy's own defaults: an underflow is no error.

    With ``numpy.seterr(all="raise")`` one record with a tiny number would end a training, and a tail of a distribution accounting.
    """
    return np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
