"""Minimisers of a regularised mean of losses with a corner (hinge, absolute), certified by the duality gap.

With ``w = centre + v``, offset ``o_j = x_j centre - corner_j``, slopes from a_j to b_j,

    ``F(v) = (1/n) sum max(a_j u_j, b_j u_j) + strength |v|^2 / 2``,  ``u_j = o_j + x_j v``,

and for slopes alpha in [a, b] the point ``v(alpha) = -sum alpha_j x_j / (n strength)`` has the duality gap

    ``G(alpha) = (1/n) sum [(b_j - alpha_j) max(u_j, 0) + (alpha_j - a_j) max(-u_j, 0)]``,

a sum of non-negative terms that vanish but for the few records at their corner. By strong convexity the minimiser is at most
``sqrt(2 G / strength)`` away. The offsets are rounded once, each from its own record and the public centre: that makes another
convex loss of the same slopes, so no certificate has to count it.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dplateau.losses import CornerLoss
from dplateau.training.errors import TrainingDiverged
from dplateau.training.phases import EPS
from dplateau.training.regularised_erm import Certified, Problem, mean_of_rows, roundings

Array = NDArray[Any]
_INTERIOR: Final = 60
_NEAR: Final = 1e-4
_END: Final = 1e-18
"""Mean products of distance and multiplier, in units of a margin, between which faces are tried."""
_SWEEPS: Final = 1_000
_CHECKED: Final = 20
"""Sweeps between two looks at the certificate."""
_ROWS: Final = 1 << 14
_LARGEST_SYSTEM: Final = 1 << 13


class Dual(NamedTuple):
    """The box ``lower``, ``upper`` of the slopes, the offsets, the rows with their norms, and the strength."""

    rows: Array
    norms: Array
    lower: Array
    upper: Array
    offset: Array
    strength: float


def corner_minimiser(loss: CornerLoss, problem: Problem, distance: float) -> Certified:
    """A point at most ``distance`` from the minimiser.

    An interior-point method comes first; its result is moved to the face of the box that it points to, and solved there. Where that
    is not enough, dual coordinate ascent goes on from it, which converges from every point.

    Raises
    ------
    TrainingDiverged
        Rounding leaves no certificate so small.
    """
    rows, norms, target, centre, strength, weight = problem
    lower, upper, corner = loss.corners(target)
    if weight is not None:  # a loss times a weight has its slopes times the weight
        lower, upper = lower * weight, upper * weight
    # Row by row, whatever stands in the other rows.
    dual = Dual(rows, norms, lower, upper, np.einsum("ij,j->i", rows, centre) - corner, strength)
    with np.errstate(all="ignore"):
        best, slopes = _interior(dual, distance)
    if best.distance > distance:
        best = _by_coordinates(dual, slopes, distance)
    shift, reached = best
    weights = centre + shift
    return Certified(weights, reached + EPS * float(np.linalg.norm(weights)))


def shift_of(dual: Dual, slopes: Array) -> Array:
    """v(alpha)."""
    return mean_of_rows(dual.rows, slopes) / -dual.strength


def certified(dual: Dual, slopes: Array) -> Certified:
    """v(alpha), and the most that it is away from the minimiser: an upper bound in floating point as well."""
    rows, norms, lower, upper, offset, strength = dual
    if not ((slopes >= lower) & (slopes <= upper)).all():
        return Certified(np.zeros(rows.shape[1]), math.inf)
    shift = shift_of(dual, slopes)
    length = float(np.linalg.norm(shift))
    margin = offset + rows @ shift
    error = EPS * ((rows.shape[1] + 4) * norms * length + abs(margin))
    terms = (upper - slopes) * np.maximum(margin + error, 0) + (slopes - lower) * np.maximum(error - margin, 0)
    gap = float(terms.mean()) * (1 + (len(rows) + 16) * EPS)
    # The stored shift is v(alpha) but for rounding, which enters the gap squared.
    missed = EPS * ((roundings(len(rows)) + 8) * float((abs(slopes) * norms).mean()) / strength + 4 * length)
    return Certified(shift, math.sqrt(2 * (gap / strength + missed**2)) * (1 + 1e-12))


class Interior(NamedTuple):
    """A point inside the box: distances from its two sides, kept apart for their precision, and their multipliers."""

    above: Array
    below: Array
    right: Array
    left: Array


def _interior(dual: Dual, distance: float) -> tuple[Certified, Array]:
    """The best point, and its slopes, that a primal-dual interior-point method finds (Mehrotra's predictor and corrector).

    As soon as the central path is close to its end, each iterate is moved to the face of the box that it points to.
    """
    d = dual.rows.shape[1]
    half = (dual.upper - dual.lower) / 2
    margin = dual.offset + dual.rows @ shift_of(dual, dual.lower + half)
    size = float((abs(margin) + abs(dual.offset)).mean()) + EPS
    point = Interior(half, half, np.maximum(margin, 0) + size, np.maximum(-margin, 0) + size)
    slopes, best, chosen = dual.lower + half, Certified(np.zeros(d), math.inf), dual.lower + half
    for _ in range(_INTERIOR if min(dual.rows.shape) <= _LARGEST_SYSTEM else 0):
        gap = float((point.above * point.right + point.below * point.left).mean()) / 2
        if not math.isfinite(gap):
            break
        if gap < _NEAR * size:
            for one in _candidates(dual, point, slopes, size):
                found = certified(dual, one)
                if found.distance < best.distance:
                    best, chosen = found, one
            if best.distance <= distance or gap < _END * size:
                break
        move = _newton(dual, point, slopes, gap)
        if move is None:
            break
        point = move
        slopes = np.where(point.below < point.above, dual.lower + point.below, dual.upper - point.above)
    return best, chosen


def _newton(dual: Dual, point: Interior, slopes: Array, gap: float) -> Interior | None:
    """The next point inside; None where the linear system has no finite solution."""
    above, below, right, left = point
    n, d = dual.rows.shape
    miss = right - left - dual.offset - dual.rows @ shift_of(dual, slopes)
    weight = right / above + left / below
    scale = n * dual.strength
    if d < n:  # the smaller of the two systems that are equivalent
        matrix = scale * np.eye(d)
        for a in range(0, n, _ROWS):
            part = slice(a, a + _ROWS)
            matrix += (dual.rows[part].T / weight[part]) @ dual.rows[part]
    else:
        matrix = np.diag(weight) + dual.rows @ dual.rows.T / scale
    try:
        factor = cho_factor(matrix)
    except (np.linalg.LinAlgError, ValueError):
        return None

    def solved(side: Array) -> Array:
        if d >= n:
            return cho_solve(factor, side)
        return (side - dual.rows @ cho_solve(factor, dual.rows.T @ (side / weight))) / weight

    def direction(to_right: Array, to_left: Array) -> Interior:
        move = solved(-miss - to_right / above + to_left / below)
        return Interior(-move, move, (to_right + right * move) / above, (to_left - left * move) / below)

    straight = direction(-above * right, -below * left)
    ahead = _moved(point, straight, 1.0)
    aim = gap * (float((ahead.above * ahead.right + ahead.below * ahead.left).mean()) / 2 / gap) ** 3
    curved = direction(aim - above * right - straight.above * straight.right, aim - below * left - straight.below * straight.left)
    return _moved(point, curved, 0.995) if all(np.isfinite(part).all() for part in curved) else None


def _moved(point: Interior, direction: Interior, share: float) -> Interior:
    """The point moved by ``share`` of the longest step, at most 1, that stays inside."""
    longest = min(float(np.min(-value / np.minimum(move, -1e-300))) for value, move in zip(point, direction, strict=True))
    step = share * min(1.0, longest)
    return Interior(*(value + step * move for value, move in zip(point, direction, strict=True)))


def _candidates(dual: Dual, point: Interior, slopes: Array, size: float) -> list[Array]:
    """The slopes on the face that the point is close to: as they are, and such that the free records lie at their corners."""
    # At its bound where the multiplier outweighs the distance from it, in units of a margin and of a slope.
    at_top, at_bottom = point.right / size > point.above, point.left / size > point.below
    slopes = np.where(at_top, dual.upper, np.where(at_bottom, dual.lower, slopes))
    slopes = np.clip(slopes, dual.lower, dual.upper)
    return [slopes, _on_face(dual, slopes, np.flatnonzero(~(at_top | at_bottom)))]


def _on_face(dual: Dual, slopes: Array, free: Array) -> Array:
    """The free slopes moved so that their records lie at their corners; least squares where that is not unique."""
    face = dual.rows[free]
    if not 0 < len(face) <= 4 * face.shape[1] + 64:
        return slopes
    slopes = slopes.copy()
    matrix = face @ face.T / (len(dual.rows) * dual.strength)
    for _ in range(2):
        margin = dual.offset[free] + face @ shift_of(dual, slopes)
        slopes[free] += np.linalg.lstsq(matrix, margin, rcond=1e-13)[0]
        slopes = np.clip(slopes, dual.lower, dual.upper)
    return slopes


def _by_coordinates(dual: Dual, slopes: Array, distance: float) -> Certified:
    """Dual coordinate ascent until the certificate holds."""
    with jax.enable_x64(True):
        device: Any = Dual(*map(jax.device_put, dual))
        for _ in range(_SWEEPS // _CHECKED):
            slopes = np.asarray(_sweeps(device, slopes, shift_of(dual, slopes)))
            free = np.flatnonzero((slopes > dual.lower) & (slopes < dual.upper))
            for one in (slopes, _on_face(dual, slopes, free)):
                best = certified(dual, one)
                if best.distance <= distance:
                    return best
    raise TrainingDiverged("the minimiser of a phase could not be certified: raise accuracy, or use fewer phases.")


@jax.jit
def _sweeps(dual: Dual, slopes: jax.Array, shift: jax.Array) -> jax.Array:
    """Every slope in turn set to its best value given the others, a fixed number of times."""
    scale = dual.rows.shape[0] * dual.strength

    def body(step: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        slopes, shift = carry
        j = step % dual.rows.shape[0]
        row, old = dual.rows[j], slopes[j]
        margin = dual.offset[j] + row @ shift
        new = jnp.clip(old + scale * margin / jnp.maximum(dual.norms[j] ** 2, 1e-300), dual.lower[j], dual.upper[j])
        return slopes.at[j].set(new), shift - (new - old) / scale * row

    return jax.lax.fori_loop(0, _CHECKED * dual.rows.shape[0], body, (slopes, shift))[0]
