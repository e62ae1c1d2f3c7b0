"""What several plans derive from a loss and a budget: the clip norm, the smoothness, and mu."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import FullBatch, InputError, Run
from dplateau.spec.schedule import real

ROOM: Final = 1 + 1e-12
"""Room for the rounding of rows that were scaled to the public norm."""
DISTANCE: Final = 50.0
"""How far from zero the best weights of one score are taken to lie, in scores of a row of full norm."""
_UNCLIPPED: Final = 1 + 1e-3
"""Room for the rounding margin, where clipping must never be active; the margin grows with the noise."""


def residual_clip_of(loss: GeneralisedLinearLoss) -> float:
    """The default norm that residuals are clipped to: half of the largest, or 1/2 where there is none."""
    largest = loss.lipschitz(1.0)
    return largest / 2 if math.isfinite(largest) else 0.5


def default_distance(loss: GeneralisedLinearLoss, norm: float) -> float:
    """A public guess of the norm of the best weights: each score has its own. No guarantee rests on it."""
    return DISTANCE * math.sqrt(loss.outputs) / norm


def clip_and_smoothness(loss: GeneralisedLinearLoss, norm: float, residual_clip: float | None, l2: float) -> tuple[float, float]:
    """The clip norm and the smoothness for last-iterate bounds, over rows of norm at most ``norm``.

    A loss that is not known to stay convex under clipping is not clipped.
    """
    if not math.isfinite(loss.smoothness(norm)):
        raise InputError(f"{type(loss).__name__} is not smooth, so gradient steps are no contraction: use Phased-ERM.")
    if residual_clip is None:
        residual_clip = residual_clip_of(loss) if loss.convex_after_clipping else loss.lipschitz(1.0) * _UNCLIPPED
    return real("residual_clip", residual_clip) * norm, loss.smoothness(norm) * ROOM + l2


def moved(adjacency: str) -> float:
    """What a change of one record moves a sum by at most, in clip norms."""
    return 1.0 if adjacency == "add-remove" else 2.0


@lru_cache(maxsize=64)
def least_multiplier(epsilon: float, delta: float, adjacency: str = "add-remove") -> float:
    """The least noise multiplier of one release that costs (epsilon, delta)."""
    run = Run(n=1, sampling=FullBatch(), steps=1, noise_multiplier=1.0, adjacency=adjacency)
    return float(calibrate(run, epsilon=epsilon, delta=delta).noise_multiplier)  # type: ignore[arg-type]


def gaussian_mu(epsilon: float, delta: float, adjacency: str = "add-remove") -> float:
    """The largest mu such that mu-GDP implies (epsilon, delta), whatever the adjacency."""
    return moved(adjacency) / least_multiplier(epsilon, delta, adjacency)
